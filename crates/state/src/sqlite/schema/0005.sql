-- Executions whose commands an executor runs. What has ended stays ended.
CREATE TABLE execution (
    id         TEXT    NOT NULL PRIMARY KEY,
    caller     TEXT    NOT NULL,
    is_signed  INTEGER NOT NULL CHECK (is_signed IN (0, 1)),
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    accepts    INTEGER NOT NULL CHECK (accepts BETWEEN 0 AND 3),
    is_closed  INTEGER NOT NULL CHECK (is_closed IN (0, 1)),
    made_by    TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    ended_ms   INTEGER NOT NULL
) STRICT;

CREATE TRIGGER execution_ends_once BEFORE UPDATE ON execution
WHEN OLD.ended_ms <> 0
BEGIN SELECT RAISE(ABORT, 'an execution ends once'); END;
