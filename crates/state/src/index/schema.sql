-- A projection of the ledger: where each record lies, and the words that people ask by. It can be deleted at any time.

-- Every text once.
CREATE TABLE word (
    id   INTEGER NOT NULL PRIMARY KEY,
    text TEXT    NOT NULL UNIQUE
) STRICT;

-- One row for each record. Columns that name no number hold the id of a word, or nothing.
CREATE TABLE record (
    seq       INTEGER NOT NULL PRIMARY KEY,
    ms        INTEGER NOT NULL,
    segment   INTEGER NOT NULL,
    at        INTEGER NOT NULL,
    length    INTEGER NOT NULL,
    kind      INTEGER,
    call      INTEGER,
    after     INTEGER,  -- the result shown last when the call was weighed
    follows   INTEGER,  -- and when its own was shown
    action    INTEGER,
    caller    INTEGER,
    session   INTEGER,
    server    INTEGER,
    tool      INTEGER,
    user      INTEGER,
    agent     INTEGER,
    tenant    INTEGER,
    execution INTEGER,
    effect    INTEGER,
    verdict   INTEGER,
    violation INTEGER,
    approval  INTEGER,
    level     INTEGER   -- the session's, after the record
) STRICT;

CREATE INDEX record_ms        ON record (ms);
CREATE INDEX record_call      ON record (call)           WHERE call IS NOT NULL;
CREATE INDEX record_action    ON record (action, seq)    WHERE action IS NOT NULL;
CREATE INDEX record_caller    ON record (caller, seq)    WHERE caller IS NOT NULL;
CREATE INDEX record_session   ON record (session, seq)   WHERE session IS NOT NULL;
CREATE INDEX record_tool      ON record (tool, seq)      WHERE tool IS NOT NULL;
CREATE INDEX record_server    ON record (server, seq)    WHERE server IS NOT NULL;
CREATE INDEX record_user      ON record (user, seq)      WHERE user IS NOT NULL;
CREATE INDEX record_agent     ON record (agent, seq)     WHERE agent IS NOT NULL;
CREATE INDEX record_tenant    ON record (tenant, seq)    WHERE tenant IS NOT NULL;
CREATE INDEX record_execution ON record (execution, seq) WHERE execution IS NOT NULL;
CREATE INDEX record_verdict   ON record (verdict, seq)   WHERE verdict IS NOT NULL;
CREATE INDEX record_violation ON record (violation, seq) WHERE violation IS NOT NULL;
CREATE INDEX record_approval  ON record (approval, seq)  WHERE approval IS NOT NULL;
CREATE INDEX record_level     ON record (level, seq)     WHERE level IS NOT NULL;

-- How far it has read: the last record, by its hash and its place. One row, or none.
CREATE TABLE reached (
    one     INTEGER NOT NULL PRIMARY KEY CHECK (one = 1),
    seq     INTEGER NOT NULL,
    hash    TEXT    NOT NULL,
    segment INTEGER NOT NULL,
    at      INTEGER NOT NULL,
    length  INTEGER NOT NULL,
    rows    INTEGER NOT NULL   -- how many records there must be
) STRICT;
