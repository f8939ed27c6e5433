//! The command line: what can be asked, what each verb does, and how answers look.
//!
//! Arguments are a data type, rendering is `fn(&Model, Style) -> String`. One file per group of verbs is in `verbs`. What a running gate
//! knows is asked over its line door, as clients do; what the files of the home say, `home` answers.
//!
//! This crate must never start a gate or decide a call. What only the program can do, it is handed as [`Program`].

pub mod args;
mod chosen_credential;
mod client_hooks;
pub mod files;
pub mod line;
mod out_file;
pub mod page;
mod prompt;
pub mod record;
pub mod render;
mod report;
pub mod result;
pub mod snippets;
pub mod verbs;

pub use args::{Cli, Verb};
pub use verbs::{Program, run};

#[cfg(test)]
mod tests;
