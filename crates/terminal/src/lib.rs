//! What a person is shown: exit codes, colours, columns, and text that cannot hurt a terminal.
//!
//! **Invariant: text that came from a server is never printed as it is.** It could drive the terminal. Tests
//! `only_colours_of_ours_reach_a_terminal`, `escaping_changes_no_meaning_and_leaves_nothing_to_obey`.
//!
//! This crate must never know a gate, a home or a verb.

mod exit;
pub mod pretty;
mod screen;
pub mod sheet;
pub mod style;

pub use exit::Exit;
pub use screen::{Screen, Trouble};
pub use style::{ColorChoice, Style};
