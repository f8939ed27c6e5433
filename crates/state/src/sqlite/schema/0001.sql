-- Sessions: one row for each caller that was ever shown something. Within an epoch a label only rises; the triggers hold that
-- even against a mistake in the program.
CREATE TABLE session (
    caller    TEXT    NOT NULL PRIMARY KEY,
    epoch     INTEGER NOT NULL CHECK (epoch >= 0),
    secrecy   INTEGER NOT NULL CHECK (secrecy BETWEEN 0 AND 3),
    untrusted INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
    head      TEXT    NOT NULL
) STRICT;

CREATE TABLE session_origin (
    caller TEXT    NOT NULL,
    epoch  INTEGER NOT NULL,
    origin TEXT    NOT NULL,
    PRIMARY KEY (caller, epoch, origin)
) STRICT, WITHOUT ROWID;

-- What a reset ended. Rows are only ever added.
CREATE TABLE session_archive (
    caller    TEXT    NOT NULL,
    epoch     INTEGER NOT NULL,
    secrecy   INTEGER NOT NULL,
    untrusted INTEGER NOT NULL,
    head      TEXT    NOT NULL,
    origins   TEXT    NOT NULL,
    who       TEXT    NOT NULL,
    reason    TEXT    NOT NULL,
    at_ms     INTEGER NOT NULL,
    PRIMARY KEY (caller, epoch)
) STRICT, WITHOUT ROWID;

CREATE TRIGGER session_never_lower BEFORE UPDATE ON session
WHEN NEW.epoch < OLD.epoch
  OR (NEW.epoch = OLD.epoch AND (NEW.secrecy < OLD.secrecy OR NEW.untrusted < OLD.untrusted))
BEGIN SELECT RAISE(ABORT, 'a label never falls within an epoch'); END;

CREATE TRIGGER session_never_gone BEFORE DELETE ON session
BEGIN SELECT RAISE(ABORT, 'a session is never forgotten'); END;

-- Approvals: what a person was asked, and what became of it.
CREATE TABLE approval (
    id          TEXT    NOT NULL PRIMARY KEY,
    digest      BLOB    NOT NULL CHECK (length(digest) = 32),
    state       TEXT    NOT NULL CHECK (state IN ('pending', 'approved', 'denied', 'expired', 'used')),
    caller      TEXT    NOT NULL,
    caller_name TEXT    NOT NULL,
    action      TEXT    NOT NULL,
    server      TEXT    NOT NULL,
    target      TEXT    NOT NULL,
    definition  TEXT    NOT NULL,
    arguments   TEXT    NOT NULL,
    label       TEXT    NOT NULL,
    lineage     TEXT    NOT NULL,
    why         TEXT    NOT NULL,
    bundle      TEXT    NOT NULL,
    asked_ms    INTEGER NOT NULL,
    expires_ms  INTEGER NOT NULL,
    answered_by TEXT    NOT NULL,
    answered_ms INTEGER NOT NULL,
    reason      TEXT    NOT NULL
) STRICT;

-- At most one open approval for the same bound call.
CREATE UNIQUE INDEX approval_open ON approval (digest) WHERE state IN ('pending', 'approved');
CREATE INDEX approval_digest ON approval (digest);
CREATE INDEX approval_state ON approval (state, expires_ms);

-- An answer is final: only these steps exist.
CREATE TRIGGER approval_steps BEFORE UPDATE OF state ON approval
WHEN NOT ((OLD.state = 'pending' AND NEW.state IN ('approved', 'denied', 'expired'))
       OR (OLD.state = 'approved' AND NEW.state IN ('used', 'expired')))
BEGIN SELECT RAISE(ABORT, 'an approval is answered and spent once'); END;
