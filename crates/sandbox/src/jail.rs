//! The worker's jail: how the gate starts the worker, and how the worker then locks itself in.
//!
//! The spawn side is [`Worker`]. The other side is [`enter`], which the worker calls first thing: before it starts a
//! thread, before it reads a byte from an upstream. What it does is the table [`STEPS`], in that order; the list in
//! `docs/understand/privsep.md` is checked against it.
//!
//! Invariants:
//! - Every step ends in the [`Report`], applied or refused. None is skipped in silence.
//! - The filter over system calls comes last, because the earlier steps need calls it refuses.
//! - Nothing undoes a step. There is no way out of the jail but the end of the process.
//!
//! **Invariant: a measure that the kernel refuses is reported.** Tests `a_refused_measure_is_visible_in_the_report`,
//! `status_and_doctor_tell_what_is_confined`.

mod landlock;
mod probe;
mod report;
mod seccomp;
mod steps;
mod table;
mod worker;

pub use probe::{Capability, probe};
pub use report::{Measure, Outcome, Report};
pub use steps::{STEPS, Step};
pub use table::{ALLOWED, Condition, Row, Test};
pub use worker::{SpawnedWorker, Worker};

/// What a jail needs to know.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The process's name in `ps`; the kernel keeps 15 bytes of it.
    pub name: String,
    /// The most descriptors the process may have open; lowered to the limit it already has.
    pub max_descriptors: u64,
    /// The most memory it may allocate, in bytes. Off by default: a limit too low looks like a crash.
    pub max_memory: Option<u64>,
    /// The most processor time it may take, in seconds; then it is killed.
    pub max_seconds: Option<u64>,
    /// Whether it may have sockets.
    pub has_network: bool,
}

impl Spec {
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            max_descriptors: 4096,
            max_memory: None,
            max_seconds: None,
            has_network: true,
        }
    }
}

/// Locks the calling process in, for good.
///
/// Call it while the process has one thread and owns no descriptor but 0, 1, 2 and the handover socket: all others are
/// closed. Whatever must be read from files (name servers, certificate roots) must have been read before.
///
/// Inside, `fstat` of the C library fails, because newer ones make it a `newfstatat`, which no filter can tell from a look
/// at any path. A runtime's checked constructors for pipes ask it; use the unchecked ones.
#[must_use = "a measure that was refused is only visible in the report"]
pub fn enter(spec: &Spec) -> Report {
    Report::new(STEPS.iter().map(|step| step.take(spec)).collect())
}

/// Closes this process's memory to other processes of the same user, and leaves no core dump. For the gate: the stdio
/// servers it starts run as the same user and must not be able to trace it or to read `/proc/PID/mem` and `environ`.
///
/// # Errors
/// If the kernel refuses.
pub fn hide_memory() -> std::io::Result<()> {
    steps::hide_memory().map_err(std::io::Error::from)
}

#[cfg(test)]
mod tests;
