//! How many descriptors this process may have open: as many as the system lets it, not as few as it was started with.
//!
//! What we start gets the limit that we were started with: programs that use `select` break on numbers above 1,024.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// More than this is of no use: it is enough for every connection that a gate takes, and where the kernel cannot close many at once,
/// whoever starts a process goes through all of them.
const ENOUGH: u64 = 65_536;

/// The limit this process was started with, once it was raised.
static BEFORE: OnceLock<(Option<u64>, Option<u64>)> = OnceLock::new();

/// Raises the limit of open descriptors to what the system allows, or to what is enough, and says what it is now.
pub fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let aim = before.maximum.unwrap_or(ENOUGH).min(ENOUGH);
    let raised = Rlimit {
        current: Some(aim),
        maximum: before.maximum,
    };
    if before.current.is_some_and(|current| current < aim)
        && setrlimit(Resource::Nofile, raised).is_ok()
    {
        let _ = BEFORE.set((before.current, before.maximum));
    }
    most()
}

/// How many descriptors this process may have open.
#[must_use]
pub fn most() -> u64 {
    getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX)
}

/// The limit for what we start, if ours was raised.
pub(crate) fn inherited() -> Option<(Option<u64>, Option<u64>)> {
    BEFORE.get().copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_limit_is_raised_to_what_is_allowed_and_is_the_same_the_second_time() {
        let raised = super::raise();
        let allowed = rustix::process::getrlimit(rustix::process::Resource::Nofile)
            .maximum
            .unwrap_or(u64::MAX);
        assert!(raised >= allowed.min(super::ENOUGH));
        assert_eq!(super::raise(), raised);
    }
}
