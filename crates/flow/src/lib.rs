//! What may flow where: the label of a session, and the lineage of what it was shown.
//!
//! Pure: no file, clock, randomness or runtime. Within an epoch a label only rises; only [`Session::reset`], which a person asks
//! for, starts another epoch. The invariants are written where they hold, in `session.rs`.

mod evidence;
pub mod lineage;
mod session;
mod step;
mod sync;

pub use evidence::{Absorbed, Showable, Weighed, WriteDown};
pub use session::{Reset, Session, Snapshot};
pub use step::Step;

#[cfg(test)]
mod tests;
