//! Exit codes: one table for the program and its documentation.

use std::process::ExitCode;

/// Why the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Exit {
    Done = 0,
    Failed = 1,
    Usage = 2,
    Refused = 3,
    NotRunning = 4,
    Upstream = 5,
    Altered = 6,
    Interrupted = 130,
}

impl Exit {
    pub const ALL: [Self; 8] = [
        Self::Done,
        Self::Failed,
        Self::Usage,
        Self::Refused,
        Self::NotRunning,
        Self::Upstream,
        Self::Altered,
        Self::Interrupted,
    ];

    #[must_use]
    pub const fn code(self) -> u8 {
        self as u8
    }

    #[must_use]
    pub const fn meaning(self) -> &'static str {
        match self {
            Self::Done => "it worked",
            Self::Failed => "it did not work; the message says why",
            Self::Usage => "the command line or the configuration is wrong",
            Self::Refused => "the gate refused the call, or what the server answered",
            Self::NotRunning => "the gate is not running",
            Self::Upstream => "the server behind the tool failed, or did not answer in time",
            Self::Altered => "the ledger does not verify",
            Self::Interrupted => "interrupted, from the keyboard or by a signal",
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(exit.code())
    }
}
