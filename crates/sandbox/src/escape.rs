//! Trying to break out, from the inside.
//!
//! [`probe_escape`] makes, one after the other, the calls a captured worker would make: reach files, start programs,
//! touch its parent, open other kinds of socket, load things into the kernel. Inside the jail every one must be refused
//! by the kernel. The arguments are chosen so that outside of it the calls do no lasting harm (most name nothing that
//! exists), yet fail differently or succeed: a probe that could not tell the difference would prove nothing.
//!
//! Run it in a process you can throw away.

mod attempt;
pub mod programs;
mod table;

use std::fmt;
use std::path::PathBuf;

pub use table::ATTEMPTS;

/// What the attempts are aimed at.
#[derive(Debug, Clone)]
pub struct Aims {
    /// The process to trace, signal and read from: the gate.
    pub parent: u32,
    /// A file that must stay closed to the worker: the ledger.
    pub ledger: PathBuf,
    /// A directory in which the worker must not be able to create anything.
    pub directory: PathBuf,
    /// A unix socket that must stay out of reach.
    pub socket: PathBuf,
}

impl Aims {
    /// Aims at the parent process and at paths every Linux has; replace them with the real ones where they are known.
    #[must_use]
    pub fn at_parent() -> Self {
        Self {
            parent: std::os::unix::process::parent_id(),
            ledger: PathBuf::from("/etc/passwd"),
            directory: PathBuf::from("/tmp"),
            socket: PathBuf::from("/run/portcullis-probe.sock"),
        }
    }
}

/// One thing a captured worker would try.
#[derive(Debug, Clone, Copy)]
pub struct Attempt {
    pub name: &'static str,
    run: fn(&Aims) -> attempt::Answer,
    /// Error numbers that also mean a refusal, beside the usual three, for calls that are allowed in another form.
    also_refused: &'static [i32],
}

/// What the kernel said to one attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finding {
    pub name: &'static str,
    pub verdict: Verdict,
}

/// Whether the wall held.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Refused by the kernel with this error number.
    Refused(i32),
    /// The call went through.
    Succeeded,
    /// It failed, but not by refusal: the kernel looked at the arguments, so the call itself is open.
    Reached(i32),
}

impl Finding {
    /// Whether the wall held.
    #[must_use]
    pub fn held(&self) -> bool {
        matches!(self.verdict, Verdict::Refused(_))
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |errno: i32| std::io::Error::from_raw_os_error(errno);
        match self.verdict {
            Verdict::Refused(errno) => write!(f, "{}: refused ({})", self.name, text(errno)),
            Verdict::Succeeded => write!(f, "{}: ESCAPED", self.name),
            Verdict::Reached(errno) => write!(f, "{}: NOT REFUSED ({})", self.name, text(errno)),
        }
    }
}

/// Makes every attempt of the table and says what came of each.
#[must_use]
pub fn probe_escape(aims: &Aims) -> Vec<Finding> {
    ATTEMPTS
        .iter()
        .map(|attempt| Finding {
            name: attempt.name,
            verdict: attempt.judge(aims),
        })
        .collect()
}

impl Attempt {
    fn judge(&self, aims: &Aims) -> Verdict {
        match (self.run)(aims) {
            Ok(()) => Verdict::Succeeded,
            Err(errno @ (libc::EPERM | libc::EACCES | libc::ENOSYS)) => Verdict::Refused(errno),
            Err(errno) if self.also_refused.contains(&errno) => Verdict::Refused(errno),
            Err(errno) => Verdict::Reached(errno),
        }
    }
}
