//! The everything fixture: one MCP server that exercises every feature a gate has to carry.
//!
//! It speaks both eras (revisions with `initialize`, and 2026-07-28 without) on one streamable HTTP endpoint and on
//! stdio, and exposes the tools, prompts and resources the official conformance suite calls by name, next to the
//! tools our own tests need. Every tool works in both eras: one that asks the client something does so by a
//! server request in the old era and by an `input_required` result in the new one.
//!
//! It must never depend on any crate of the gate: it is the independent other side of the wire.

mod ask;
mod handler;
mod http;
mod prompts;
mod resources;
mod stdio;
mod tools;
mod world;

#[cfg(test)]
mod tests;

pub use handler::Everything;
pub use http::{HttpFixture, serve_http};
pub use stdio::serve_stdio;
pub use world::{Effects, World};

/// Which protocol eras the fixture admits to speaking.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Era {
    /// Revisions with an `initialize` handshake and sessions, up to 2025-11-25.
    Legacy,
    /// 2026-07-28 only: stateless, no handshake.
    Modern,
    /// Both on the same endpoint.
    #[default]
    Both,
}

impl std::str::FromStr for Era {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "legacy" => Ok(Self::Legacy),
            "modern" => Ok(Self::Modern),
            "both" => Ok(Self::Both),
            other => Err(format!("unknown era '{other}': use legacy, modern or both")),
        }
    }
}
