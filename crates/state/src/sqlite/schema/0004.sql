-- Labels of files on volumes. A file is known by its inode and the moment of its birth. A directory has a second row, for the names in it.
CREATE TABLE file_label (
    volume    TEXT    NOT NULL,
    inode     INTEGER NOT NULL,
    birth     INTEGER NOT NULL,
    names     INTEGER NOT NULL CHECK (names IN (0, 1)),
    secrecy   INTEGER NOT NULL CHECK (secrecy BETWEEN 0 AND 3),
    untrusted INTEGER NOT NULL CHECK (untrusted IN (0, 1)),
    origins   TEXT    NOT NULL,
    PRIMARY KEY (volume, inode, birth, names)
) STRICT, WITHOUT ROWID;

-- The root that the labels of a volume are for.
CREATE TABLE volume_root (
    volume TEXT    NOT NULL PRIMARY KEY,
    inode  INTEGER NOT NULL,
    birth  INTEGER NOT NULL
) STRICT;

-- A file keeps its label, or gets a higher one. Where birth is unknown another file may have the number.
CREATE TRIGGER file_label_never_lower BEFORE UPDATE ON file_label
WHEN NEW.birth <> 0 AND (NEW.secrecy < OLD.secrecy OR NEW.untrusted < OLD.untrusted)
BEGIN SELECT RAISE(ABORT, 'a label of a file never falls'); END;
