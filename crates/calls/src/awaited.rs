//! Which approvals a call waits for at this moment. A client that gives up leaves its question open, and whoever answers should know.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

/// Has an entry per waiting call, and those are bounded for every caller.
#[derive(Debug, Clone, Default)]
pub struct Awaited(Arc<Mutex<HashMap<String, usize>>>);

/// One call that waits, for as long as this lives.
#[derive(Debug)]
pub struct Waiting {
    awaited: Awaited,
    approval: String,
}

impl Awaited {
    pub fn begin(&self, approval: &str) -> Waiting {
        *self.lock().entry(approval.to_owned()).or_default() += 1;
        Waiting {
            awaited: self.clone(),
            approval: approval.to_owned(),
        }
    }

    pub fn has(&self, approval: &str) -> bool {
        self.lock().contains_key(approval)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, usize>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let mut calls = self.awaited.lock();
        match calls.get_mut(&self.approval) {
            Some(count) if *count > 1 => *count -= 1,
            _ => drop(calls.remove(&self.approval)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Awaited;

    #[test]
    fn an_approval_is_awaited_while_any_call_waits() {
        let awaited = Awaited::default();
        let (first, second) = (awaited.begin("a"), awaited.begin("a"));
        drop(first);
        assert!(awaited.has("a") && !awaited.has("b"));
        drop(second);
        assert!(!awaited.has("a"));
    }
}
