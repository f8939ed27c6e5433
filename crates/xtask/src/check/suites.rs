//! The suites that need more than `cargo test`: other people's software on either side of the gate.
//!
//! To add a suite, write a function that returns a [`Tally`] and give it a row here. A suite installs what it needs (see
//! `ensure.rs`), picks its own ports, and leaves no process behind.

use super::{Step, Tally};
use crate::bench;
use anyhow::Result;

/// After the workspace's own tests, in this order.
pub(super) const SUITES: &[Step] = &[Step { name: "bench, tiny", again: "cargo xtask bench --smoke", run: bench_smoke }];

/// The benchmark at its smallest, so that it cannot rot unseen.
fn bench_smoke() -> Result<Tally> {
    bench::run(&["--smoke".to_owned()]).map(|()| Tally::passed(1))
}
