//! An upstream that misbehaves on purpose, on HTTP and on stdio.
//!
//! Each [`Script`] is one way to be a bad server; apart from that one way it is an ordinary legacy MCP server with
//! two tools: `echo`, which also gives its arguments back byte for byte, and `act`, which leaves a mark in a [`Ledger`].
//! A call that a gate refused must leave none.
//! What is random comes from the seed, so a failure can be repeated.

mod bytes;
mod catalog;
mod http;
mod perform;
mod script;
mod stdio;
mod wire;

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

pub use http::Hostile;
pub use script::{Script, Verdict};
pub use stdio::serve_stdio;

/// What the upstream was made to do.
#[derive(Debug, Default)]
pub struct Ledger {
    requests: AtomicU64,
    calls: AtomicU64,
    asks_answered: AtomicU64,
    canary_visits: AtomicU64,
    marks: Mutex<Vec<String>>,
    authorizations: Mutex<Vec<String>>,
}

impl Ledger {
    /// Messages received, of any kind.
    pub fn requests(&self) -> u64 {
        self.requests.load(Ordering::SeqCst)
    }

    /// Tool calls received.
    pub fn calls(&self) -> u64 {
        self.calls.load(Ordering::SeqCst)
    }

    /// Answers received to requests this server sent to the client.
    pub fn asks_answered(&self) -> u64 {
        self.asks_answered.load(Ordering::SeqCst)
    }

    /// Connections to the place a redirect pointed at.
    pub fn canary_visits(&self) -> u64 {
        self.canary_visits.load(Ordering::SeqCst)
    }

    /// The marks `act` left, in order.
    pub fn marks(&self) -> Vec<String> {
        lock(&self.marks).clone()
    }

    /// Every `Authorization` header ever seen.
    pub fn authorizations(&self) -> Vec<String> {
        lock(&self.authorizations).clone()
    }

    fn count(&self, counter: impl Fn(&Self) -> &AtomicU64) {
        counter(self).fetch_add(1, Ordering::SeqCst);
    }
}

/// Numbers that look random and are the same for the same seed.
#[derive(Clone, Debug)]
pub(crate) struct Dice(u64);

impl Dice {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, or zero when `end` is.
    pub(crate) fn below(&mut self, end: usize) -> usize {
        let end = u64::try_from(end).unwrap_or(u64::MAX).max(1);
        usize::try_from(self.roll() % end).unwrap_or(0)
    }

    pub(crate) fn bytes(&mut self, count: usize) -> Vec<u8> {
        std::iter::repeat_with(|| self.roll().to_le_bytes()).flatten().take(count).collect()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
