//! An upstream that misbehaves on purpose, on HTTP and on stdio.
//!
//! Each [`Script`] is one way to be a bad server; apart from that one way it is an ordinary legacy MCP server with
//! two tools: `echo`, which also gives its arguments back byte for byte, and `act`, which leaves a mark in its books ([`Account`]).
//! A call that a gate refused must leave none.
//! What is random comes from the seed, so a failure can be repeated.

mod bytes;
mod catalog;
mod http;
mod ledger;
mod perform;
mod process;
mod script;
mod stdio;
mod wire;

#[cfg(test)]
mod tests;

pub use http::Hostile;
pub use ledger::Account;
use ledger::{Ledger, lock};
pub use process::HostileProcess;
pub use script::{Script, Verdict};
pub use stdio::serve_stdio;

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
        std::iter::repeat_with(|| self.roll().to_le_bytes())
            .flatten()
            .take(count)
            .collect()
    }
}
