//! The parts of `cargo xtask bench`: an upstream that echoes, a floor that forwards, a client that loads; and decisions by themselves.
//!
//! The first three run in one thread each and do as little as they can, so that what is measured is what stands between them.

pub mod decide;
pub mod floor;
pub mod load;
pub mod meter;
pub mod options;
pub mod pipe;
pub mod reply;
pub mod signed;
pub mod start;
pub mod template;
pub mod texts;
pub mod upstream;

#[cfg(test)]
mod tests;
