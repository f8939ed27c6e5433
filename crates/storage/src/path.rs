//! Paths within a volume: lists of names, never a text that somebody could read twice.
//!
//! **Invariant: no path climbs, and none names what the gate keeps for itself.** Tests `paths_that_climb_or_hide_are_refused`,
//! `no_payload_reaches_a_file_outside`.

use std::fmt;

use crate::{ErrorKind, FileError};

/// What the names of the gate's own files begin with: files that are being written, and what is being deleted.
pub(crate) const OWN: &str = ".portcullis-";
const MAX_NAME: usize = 255;
const MAX_PATH: usize = 4096;
/// How many names deep a place is at most. Every way through a volume holds one handle for each.
const MAX_NAMES: usize = 100;

/// A place in a volume. The root is the empty list.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct VolumePath(Vec<String>);

impl VolumePath {
    /// Reads names with slashes between them. `.` and empty names are for whoever took the text from an agent to drop; here they are
    /// mistakes.
    pub fn parse(text: &str) -> Result<Self, FileError> {
        if text.is_empty() {
            return Ok(Self::default());
        }
        Self::from_names(text.split('/').map(str::to_owned).collect())
    }

    pub fn from_names(names: Vec<String>) -> Result<Self, FileError> {
        let length: usize = names.iter().map(|name| name.len() + 1).sum();
        if length > MAX_PATH {
            return Err(invalid("the path is longer than 4096 bytes"));
        }
        check_depth(names.len())?;
        names.iter().try_for_each(|name| check(name))?;
        Ok(Self(names))
    }

    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.0
    }

    #[must_use]
    pub fn is_root(&self) -> bool {
        self.0.is_empty()
    }

    /// This place and everything beneath it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        other.0.starts_with(&self.0)
    }

    pub(crate) fn of_found(names: Vec<String>) -> Self {
        Self(names)
    }
}

impl fmt::Display for VolumePath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0.is_empty() {
            return f.write_str(".");
        }
        f.write_str(&self.0.join("/"))
    }
}

pub(crate) fn check_depth(names: usize) -> Result<(), FileError> {
    if names > MAX_NAMES {
        return Err(invalid("the path is deeper than 100 names"));
    }
    Ok(())
}

fn check(name: &str) -> Result<(), FileError> {
    if name == ".." {
        return Err(FileError::new(
            ErrorKind::Traversal,
            "a path may not contain `..`",
        ));
    }
    if name.is_empty() || name == "." {
        return Err(invalid("a part of the path is empty"));
    }
    if name.len() > MAX_NAME {
        return Err(invalid("a part of the path is longer than 255 bytes"));
    }
    if name.chars().any(|c| c.is_control() || c == '/') {
        return Err(invalid("the path holds a control character"));
    }
    if is_own(name.as_bytes()) {
        return Err(invalid(
            "names that begin with `.portcullis-` are the gate's own",
        ));
    }
    Ok(())
}

/// Whether a name is the gate's own. On disks that fold case other spellings are the same name.
pub(crate) fn is_own(name: &[u8]) -> bool {
    name.get(..OWN.len())
        .is_some_and(|start| start.eq_ignore_ascii_case(OWN.as_bytes()))
}

fn invalid(says: &str) -> FileError {
    FileError::new(ErrorKind::Invalid, says)
}
