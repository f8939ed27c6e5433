//! Why something asked of a mount did not happen. Whoever mounted a volume is a file system: it understands these and no sentence.

use storage::{ErrorKind, FileError};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MountError {
    /// No handle of this gate.
    BadHandle,
    /// The file is gone, or is another one.
    Stale,
    /// A rule of the gate says no.
    Denied,
    NotFound,
    Exists,
    NotDirectory,
    IsDirectory,
    NotEmpty,
    NoSpace,
    ReadOnly,
    Invalid,
    NameTooLong,
    TooLarge,
    /// Between two volumes.
    OtherVolume,
    /// The state that a change was based on is not the state.
    NotInSync,
    NotSupported,
    /// Somebody or something is waited for; ask again.
    Later,
    Broken,
}

impl From<&FileError> for MountError {
    fn from(error: &FileError) -> Self {
        match error.kind {
            ErrorKind::NotFound => Self::NotFound,
            ErrorKind::AlreadyExists => Self::Exists,
            ErrorKind::NotEmpty => Self::NotEmpty,
            ErrorKind::WrongType | ErrorKind::Invalid | ErrorKind::NoMatch => Self::Invalid,
            ErrorKind::Conflict => Self::Stale,
            ErrorKind::QuotaExceeded { .. } => Self::NoSpace,
            ErrorKind::ReadOnly => Self::ReadOnly,
            ErrorKind::Traversal | ErrorKind::NotAllowed | ErrorKind::WriteDown => Self::Denied,
            ErrorKind::TooLarge => Self::TooLarge,
            ErrorKind::Broken => Self::Broken,
        }
    }
}

impl MountError {
    /// From the code that a tool for files answers with.
    pub(super) fn of_code(code: &str) -> Self {
        match code {
            "NOT_FOUND" => Self::NotFound,
            "ALREADY_EXISTS" => Self::Exists,
            "NOT_EMPTY" => Self::NotEmpty,
            "CONFLICT" => Self::Stale,
            "PERMISSION_DENIED" => Self::Denied,
            "TOO_LARGE" => Self::TooLarge,
            "WRONG_TYPE" | "INVALID_ARGUMENT" => Self::Invalid,
            _ => Self::Broken,
        }
    }
}
