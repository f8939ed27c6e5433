//! The untrusted half of Portcullis: the process that talks to upstream servers.
//!
//! It has the network and the upstreams' credentials, and nothing else: no files, no ledger, no policy, no keys. Before it reads the
//! first byte from an upstream it locks itself into the jail of [`sandbox::jail`]. Every byte an upstream sends is parsed here and only
//! what is valid is passed to the gate.
//!
//! It must never depend on the gate's half of the workspace: only `wire`, `vocab` and `sandbox`.

mod aggregator;
mod args;
mod clerk;
mod convert;
mod courier;
mod descriptor;
mod desk;
mod failure;
mod fair;
mod input;
mod memory;
mod net;
mod output;
mod process;
mod web;

pub use process::main;
