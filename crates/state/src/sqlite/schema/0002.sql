-- Sessions of signed calls. What has ended stays ended: a clock set back brings nothing back to life.
CREATE TABLE signed_session (
    id          TEXT    NOT NULL PRIMARY KEY,
    execution   TEXT    NOT NULL,
    agent       TEXT    NOT NULL,
    context     TEXT    NOT NULL,
    workload    TEXT    NOT NULL,
    tenant      TEXT    NOT NULL,
    owner       TEXT    NOT NULL,
    attested_by TEXT    NOT NULL,
    vouched     TEXT    NOT NULL,
    public_key  BLOB    NOT NULL CHECK (length(public_key) = 32),
    patterns    TEXT    NOT NULL,
    created_ms  INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    status      TEXT    NOT NULL CHECK (status IN ('Active', 'Expired', 'Revoked')),
    ended_ms    INTEGER NOT NULL,
    reason      TEXT    NOT NULL
) STRICT;

-- At most one session of an execution is in force.
CREATE UNIQUE INDEX signed_session_active ON signed_session (execution) WHERE status = 'Active';
CREATE INDEX signed_session_ended ON signed_session (status, ended_ms);

CREATE TRIGGER signed_session_ends_once BEFORE UPDATE OF status ON signed_session
WHEN OLD.status <> 'Active'
BEGIN SELECT RAISE(ABORT, 'a session ends once'); END;

-- What Portcullis launched, and the secret it may prove itself with.
CREATE TABLE workload (
    id         TEXT    NOT NULL PRIMARY KEY,
    digest     BLOB    NOT NULL CHECK (length(digest) = 32),
    context    TEXT    NOT NULL,
    agent      TEXT    NOT NULL,
    tenant     TEXT    NOT NULL,
    made_by    TEXT    NOT NULL,
    created_ms INTEGER NOT NULL,
    expires_ms INTEGER NOT NULL,
    uses_left  INTEGER NOT NULL CHECK (uses_left >= 0)
) STRICT;
