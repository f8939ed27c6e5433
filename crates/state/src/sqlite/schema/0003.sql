-- How many calls executions with a limit have used up. Written in steps ahead of the count, so that a crash forgets none. The row
-- without a tool is for all tools together.
CREATE TABLE used_calls (
    execution TEXT    NOT NULL,
    tool      TEXT    NOT NULL,
    calls     INTEGER NOT NULL CHECK (calls >= 0),
    PRIMARY KEY (execution, tool)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER used_calls_stay_used BEFORE UPDATE ON used_calls
WHEN NEW.calls < OLD.calls
BEGIN SELECT RAISE(ABORT, 'what was used up stays used up'); END;
