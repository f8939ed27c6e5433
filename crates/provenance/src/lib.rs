//! Where the values of a call come from, and what follows from that.
//!
//! A conversation begins with what a person said, over a road that its agent does not have. From then on [`Index`] knows of each
//! address, link, id, amount, path and name whether the person said it, which read it came from and in which record it stood.
//! [`weigh`] holds a call against that: it passes where everything that says *whom* and *what* is the person's own. A [`Plan`] says
//! beforehand where each argument will come from, and a [`Sealed`] text is passed on without being read.
//!
//! Pure: no file, clock, randomness or runtime. Everything is bounded, and what was forgotten counts as unknown, never as said.

mod conversation;
mod digest;
mod entries;
mod feed;
mod flaw;
mod form;
mod index;
mod lasting;
mod links;
mod pieces;
pub mod plan;
mod role;
mod rule;
mod said;
mod scan;
mod sealed;
mod taking;

pub use conversation::{Conversation, MAX_BYTES};
pub use digest::Key;
pub use index::{Index, Origin, Read, Saved, Trust};
pub use lasting::{Aims, Lasting};
pub use plan::Plan;
pub use role::{Decided, Role, RoleOf, Roles};
pub use rule::{Call, Finding, Ruling, Source, Traced, Vouched, trace, weigh};
pub use sealed::{Declared, Filled, Listed, NoText, Opened, Sealed, Source as SealSource};

#[cfg(test)]
mod tests;
