//! Jails for programs that are not ours: what a stdio server, a command or a converter may see, reach and use up.
//!
//! [`Jail`] is a plain value: the program, what it sees ([`Mount`]s), its network, its limits, its filter. [`Jail::start`] hands it to the
//! jailer, a role of the worker program with one thread, which builds the walls around itself and then becomes the program
//! ([`run`]). What a jail sees is decided on the gate's side: [`standard_view`] is what everybody sees, [`Program`] finds what a program
//! needs of itself, [`Grants`] are what an operator allows besides.
//!
//! Invariants:
//! - A program starts behind all walls of its rung or not at all; [`probe`] says which rung this machine has.
//! - Sources of mounts hold no symbolic link, and nothing in a jail chooses one.
//!
//! **Invariant: one mechanism for everything that is not ours.** Tests `every_escape_is_refused_in_every_profile`.

mod calls;
mod command;
mod container;
mod filter;
mod grants;
mod inside;
mod locks;
mod memory;
mod owners;
mod processor;
mod profile;
mod program;
mod protected;
mod report;
mod rungs;
mod spec;
mod standard;
mod start;
mod view;

pub use command::{CommandLine, WORKSPACE};
pub use container::{Container, Entry, is_runtime};
pub use grants::{Grant, Grants, Origin, Trouble, paths_in};
pub use inside::run;
pub use profile::{Profile, Server};
pub use program::Program;
pub use protected::Protected;
pub use report::MEASURES;
pub use rungs::{Probe, probe};
pub use spec::{Access, Calls, Jail, Limits, Mount, Network, Rung, What};
pub use standard::{Home, standard_view};
pub use start::{Jailed, Jailer};
