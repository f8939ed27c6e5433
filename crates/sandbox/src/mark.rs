//! A mark that every descendant of a child carries, whatever it does to hide its origin.
//!
//! A daemon leaves its process group, its session and its parent behind, but not its resource limits: those survive
//! fork, exec, `setsid` and a double fork, and an ordinary user can only lower them. `RLIMIT_LOCKS` has had no effect
//! in the kernel since 2.4, so its value is free to say which child a process descends from. It is read back from
//! `/proc/PID/limits`, which needs no privilege.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::process::{Resource, getrlimit};

/// The value of `RLIMIT_LOCKS` that identifies one child and everything that descends from it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

impl Mark {
    pub(crate) fn value(self) -> u64 {
        self.0
    }

    /// The mark this process itself carries: infinite, unless it is somebody's marked child.
    pub(crate) fn own() -> Self {
        static OWN: OnceLock<Mark> = OnceLock::new();
        *OWN.get_or_init(|| Self(getrlimit(Resource::Locks).maximum.unwrap_or(u64::MAX)))
    }

    /// A mark no child of this process has had. Marks count down from our own, because an ordinary user cannot raise
    /// a limit again. The first level leaves room between them for the marks of children that are gates themselves.
    pub(crate) fn fresh() -> Self {
        const ROOM_BELOW: u64 = 1 << 32;
        static SPENT: AtomicU64 = AtomicU64::new(0);
        let spent = SPENT.fetch_add(1, Ordering::Relaxed).saturating_add(1);
        match Self::own() {
            Self(u64::MAX) => Self((1 << 63_u64) - spent.saturating_mul(ROOM_BELOW).min(1 << 62)),
            Self(own) => Self(own.saturating_sub(spent)),
        }
    }

    /// The mark of a running or dead-but-unreaped process; `None` if there is no such process.
    pub(crate) fn of(pid: u32) -> Option<Self> {
        let limits = std::fs::read_to_string(format!("/proc/{pid}/limits")).ok()?;
        let line = limits
            .lines()
            .find_map(|line| line.strip_prefix("Max file locks"))?;
        match line.split_whitespace().nth(1)? {
            "unlimited" => Some(Self(u64::MAX)),
            number => number.parse().ok().map(Self),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fresh_marks_differ_from_each_other_and_from_ours() {
        let (first, second) = (Mark::fresh(), Mark::fresh());
        assert_ne!(first, second);
        assert!(first < Mark::own() && second < Mark::own());
    }

    #[test]
    fn our_own_mark_is_what_proc_says() {
        assert_eq!(Mark::of(std::process::id()), Some(Mark::own()));
    }

    #[test]
    fn a_process_that_does_not_exist_has_no_mark() {
        assert_eq!(Mark::of(u32::MAX), None);
    }
}
