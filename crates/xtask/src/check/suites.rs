//! The suites that need more than `cargo test`: other people's software on either side of the gate.
//!
//! To add a suite, write a function that returns a [`Tally`] and give it a row here. A suite installs what it needs (see
//! `ensure.rs`), picks its own ports, and leaves no process behind.

use anyhow::Result;

use super::{Step, Tally, cargo, ensure};
use crate::{
    bench,
    conformance::{self, Summary},
    say,
};

/// After the workspace's own tests, in this order.
pub(super) const SUITES: &[Step] = &[
    Step {
        name: "a fault at every system call",
        again: "cargo run -p audit --example syscall_faults",
        run: syscall_faults,
    },
    Step {
        name: "conformance, direct",
        again: "cargo xtask conformance --direct",
        run: conformance_direct,
    },
    Step {
        name: "conformance, through the gate",
        again: "cargo xtask conformance --through-gate",
        run: conformance_through,
    },
    Step {
        name: "conformance, behind a provider",
        again: "cargo xtask conformance --with-oauth",
        run: conformance_with_oauth,
    },
    Step {
        name: "conformance, logging in",
        again: "cargo xtask conformance --logins",
        run: conformance_logins,
    },
    Step {
        name: "bench, tiny",
        again: "cargo xtask bench --smoke",
        run: bench_smoke,
    },
];

/// Every instance of every system call that the ledger makes on its files, killed or failed. The random kills are among the tests; more of
/// them on demand: `AUDIT_KILLS=10000 cargo test -p audit kill` for the ledger, `RECONCILE_KILLS=500 cargo test -p portcullis reconcile` for
/// the whole gate.
fn syscall_faults() -> Result<Tally> {
    ensure::faults()?;
    cargo(&[
        "run",
        "--quiet",
        "-p",
        "audit",
        "--example",
        "syscall_faults",
    ])
}

/// The official suite against our own fixture: shows that a failure through the gate is the gate's.
fn conformance_direct() -> Result<Tally> {
    conformance::direct().map(|summaries| counted(&summaries))
}

/// The same with a gate in between, as the server the suite sees and as the client its servers see.
fn conformance_through() -> Result<Tally> {
    conformance::through_gate().map(|summaries| counted(&summaries))
}

/// A gate behind a certified identity provider: the server suite with its tokens, and the official client finding its way.
fn conformance_with_oauth() -> Result<Tally> {
    conformance::with_oauth().map(|summaries| counted(&summaries))
}

/// The suite's scenarios about authorization: the gate logs in at the suite's servers.
fn conformance_logins() -> Result<Tally> {
    conformance::logins().map(|summaries| counted(&summaries))
}

fn counted(summaries: &[Summary]) -> Tally {
    summaries.iter().for_each(say);
    Tally {
        passed: summaries.iter().map(Summary::passed).sum(),
        failed: summaries.iter().map(Summary::failed).sum(),
    }
}

/// The benchmark at its smallest, so that it cannot rot unseen.
fn bench_smoke() -> Result<Tally> {
    bench::run(&["--smoke".to_owned()]).map(|()| Tally::passed(1))
}
