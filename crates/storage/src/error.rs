//! Why an operation on a file did not happen, in words that an agent can act on.

use std::fmt;

use rustix::io::Errno;

/// What kind of reason it is; doors choose codes by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    NotFound,
    AlreadyExists,
    /// A directory with something in it, and nobody said that everything goes.
    NotEmpty,
    /// A directory where a file is needed, a file where a directory is needed, or neither of both.
    WrongType,
    /// Somebody else changed it meanwhile.
    Conflict,
    QuotaExceeded {
        requested_bytes: u64,
        available_bytes: u64,
    },
    ReadOnly,
    /// The path climbs, or a link leads out of the volume.
    Traversal,
    /// A link leads to a place in the volume that the caller may not use, or such a place is in a directory.
    NotAllowed,
    /// What would be written is more secret than the volume may hold.
    WriteDown,
    Invalid,
    /// The text to replace is not there, or there more than once.
    NoMatch,
    TooLarge,
    /// The disk or the gate failed. The sentence is for the operator.
    Broken,
}

impl ErrorKind {
    /// The stable code that an agent reads.
    #[must_use]
    pub const fn code(self) -> &'static str {
        match self {
            Self::NotFound => "NOT_FOUND",
            Self::AlreadyExists => "ALREADY_EXISTS",
            Self::NotEmpty => "NOT_EMPTY",
            Self::WrongType => "WRONG_TYPE",
            Self::Conflict => "CONFLICT",
            Self::QuotaExceeded { .. } => "QUOTA_EXCEEDED",
            Self::ReadOnly | Self::NotAllowed => "PERMISSION_DENIED",
            Self::Traversal => "PATH_TRAVERSAL",
            Self::WriteDown => "WRITE_DOWN",
            Self::Invalid => "INVALID_ARGUMENT",
            Self::NoMatch => "NO_UNIQUE_MATCH",
            Self::TooLarge => "TOO_LARGE",
            Self::Broken => "STORAGE_ERROR",
        }
    }
}

/// One reason, with a sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    pub kind: ErrorKind,
    pub says: String,
}

impl FileError {
    pub fn new(kind: ErrorKind, says: impl Into<String>) -> Self {
        Self {
            kind,
            says: says.into(),
        }
    }

    pub(crate) fn not_found(path: &impl fmt::Display) -> Self {
        Self::new(ErrorKind::NotFound, format!("there is no `{path}`"))
    }

    pub(crate) fn broken(doing: &str, error: Errno) -> Self {
        let says = format!("{doing}: {error}");
        match error {
            Errno::NOSPC | Errno::DQUOT => Self::new(
                ErrorKind::QuotaExceeded {
                    requested_bytes: 0,
                    available_bytes: 0,
                },
                "the disk that holds the volume is full",
            ),
            Errno::ROFS => Self::new(ErrorKind::ReadOnly, "the volume is on a read-only disk"),
            Errno::ACCESS | Errno::PERM => Self::new(
                ErrorKind::NotAllowed,
                "the system does not let the gate do that here",
            ),
            Errno::NAMETOOLONG => {
                Self::new(ErrorKind::Invalid, "the name is too long for the disk")
            }
            _ => Self::new(ErrorKind::Broken, says),
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.says)
    }
}

impl std::error::Error for FileError {}
