//! How many descriptors this process may have open: as many as the system lets it, not as few as it was started with.
//!
//! What we start gets the limit that we were started with: programs that use `select` break on numbers above 1,024.

use std::sync::OnceLock;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

/// The limit this process was started with, once it was raised.
static BEFORE: OnceLock<(Option<u64>, Option<u64>)> = OnceLock::new();

/// Raises the limit of open descriptors to what the system allows and says what it is now. Says what it was where that is refused.
pub fn raise() -> u64 {
    let before = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: before.maximum, maximum: before.maximum };
    if before.current != before.maximum && setrlimit(Resource::Nofile, raised).is_ok() {
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
        assert_eq!(Some(raised), rustix::process::getrlimit(rustix::process::Resource::Nofile).maximum.or(Some(u64::MAX)));
        assert_eq!(super::raise(), raised);
    }
}
