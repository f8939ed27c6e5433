//! The command line: what can be asked, and how answers look.
//!
//! Everything here is pure. Arguments are a data type, rendering is `fn(&Model, Style) -> String`; talking to the gate and writing
//! to the terminal is the program's part. Text that came from a server is never printed as it is: it could drive the terminal.

pub mod args;
pub mod exit;
pub mod page;
pub mod pretty;
pub mod render;
pub mod style;
pub mod terminal;
pub mod when;

pub use args::{Cli, Verb};
pub use exit::Exit;
pub use style::Style;

#[cfg(test)]
mod tests;
