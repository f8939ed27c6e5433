//! One call's place in the lineage of its session.

use crate::{
    session::Session,
    sync::{Arc, Mutex, PoisonError},
};

/// What a call may have been influenced by, and where its result stands among the results its session was shown.
///
/// Make it when the call begins to arrive, before the rest of it is read: the epoch it arrives in is part of how it is weighed.
#[derive(Debug)]
pub struct Step {
    call: Arc<str>,
    arrived: u64,
    links: Mutex<Links>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Links {
    /// The head of the lineage when the call was weighed last; nothing before that.
    pub(crate) after: Option<Arc<str>>,
    /// The head of the lineage just before anything of the result was shown; nothing before that.
    pub(crate) follows: Option<Arc<str>>,
    pub(crate) epoch: u64,
}

impl Step {
    #[must_use]
    pub fn new(call: &str, session: &Session) -> Self {
        let arrived = session.epoch();
        Self {
            call: call.into(),
            arrived,
            links: Mutex::new(Links {
                epoch: arrived,
                ..Links::default()
            }),
        }
    }

    #[must_use]
    pub fn call(&self) -> &str {
        &self.call
    }

    /// The last result the session had been shown when this call was weighed, or nothing. It, and everything before it, may have
    /// influenced the call.
    #[must_use]
    pub fn after(&self) -> Arc<str> {
        self.links(|links| links.after.clone())
            .unwrap_or_else(|| "".into())
    }

    /// The result that was shown just before this one, or nothing. The same as [`Step::after`] unless calls overlapped.
    #[must_use]
    pub fn follows(&self) -> Arc<str> {
        self.links(|links| links.follows.clone().or_else(|| links.after.clone()))
            .unwrap_or_else(|| "".into())
    }

    /// Has anything of the result been shown? Only then does it stand among the results.
    #[must_use]
    pub fn is_shown(&self) -> bool {
        self.links(|links| links.follows.is_some())
    }

    /// The epoch the result was shown in; before that, the one the call was weighed in.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.links(|links| links.epoch)
    }

    pub(crate) fn head(&self) -> Arc<str> {
        Arc::clone(&self.call)
    }

    /// The epoch in which the call arrived.
    #[must_use]
    pub const fn arrived(&self) -> u64 {
        self.arrived
    }

    /// Only called by the session, while it holds its own lock.
    pub(crate) fn links<T>(&self, change: impl FnOnce(&mut Links) -> T) -> T {
        change(&mut self.links.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
