//! Every order of events that a scheduler can think of, for calls of one session that race each other, its durable label and a reset.
//!
//! The files of the session are compiled here a second time, with the locks of the `shuttle` crate in place of the standard ones: it
//! switches threads wherever a lock is taken. The world around them is a small gate: servers, an agent, a disk, a person. Each rule
//! of the gate can be broken on purpose (`Flaw`); then a schedule that leaks must be found, or the test would prove nothing.

#[expect(
    dead_code,
    unreachable_pub,
    reason = "the whole file is compiled, and not all of it is used here"
)]
#[path = "../../src/evidence.rs"]
mod evidence;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the whole file is compiled, and not all of it is used here"
)]
#[path = "../../src/session.rs"]
mod session;
#[expect(
    dead_code,
    unreachable_pub,
    reason = "the whole file is compiled, and not all of it is used here"
)]
#[path = "../../src/step.rs"]
mod step;
mod sync {
    pub(crate) use shuttle::sync::Mutex;
    pub(crate) use std::sync::{Arc, PoisonError};
}
#[cfg(test)]
mod races;
#[cfg(test)]
mod world;
