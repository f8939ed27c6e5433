//! Which protocol does this request speak? One table, read top to bottom; the first row that fits wins.

use wire::mcp::Revision;

/// What of a request the choice depends on.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Signs<'a> {
    /// `_meta` names a protocol version, whichever.
    pub(crate) meta_version: bool,
    /// The `MCP-Protocol-Version` header.
    pub(crate) header_version: Option<&'a str>,
    pub(crate) session: bool,
    pub(crate) initialize: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Choice {
    /// Stateless; what `_meta` and headers lack is an error there.
    Modern,
    /// The legacy handshake: a session begins.
    Handshake,
    /// Legacy within a session, which must exist.
    Session,
    /// The header names a version we do not speak.
    UnknownVersion,
    /// Neither era can be meant.
    Nothing,
}

impl Choice {
    pub(crate) fn of(signs: Signs<'_>) -> Self {
        let header = signs.header_version.map(Revision::parse);
        match signs {
            Signs {
                meta_version: true, ..
            } => Self::Modern,
            _ if header.flatten().is_some_and(Revision::is_modern) => Self::Modern,
            Signs {
                initialize: true, ..
            } => Self::Handshake,
            _ if header == Some(None) => Self::UnknownVersion,
            Signs { session: true, .. } => Self::Session,
            _ => Self::Nothing,
        }
    }
}

/// What to answer to `initialize`: the revision asked for if we speak it, else our newest that has a handshake.
///
/// 2024-11-05 differs from its successor mostly in its HTTP transport, so lines echo it and HTTP moves one up.
pub(crate) fn negotiate(asked: &str, lines: bool) -> Revision {
    match Revision::parse(asked) {
        Some(Revision::V2024_11_05) if lines => Revision::V2024_11_05,
        Some(Revision::V2024_11_05) => Revision::V2025_03_26,
        Some(revision) if !revision.is_modern() => revision,
        _ => Revision::LATEST_LEGACY,
    }
}

#[cfg(test)]
mod tests;
