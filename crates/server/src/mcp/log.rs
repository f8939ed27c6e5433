//! Levels of log messages, and which of them a client asked for.

use wire::Json;

/// The eight levels of RFC 5424, quietest first.
const LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Severity(usize);

impl Severity {
    pub(crate) fn parse(text: &str) -> Option<Self> {
        LEVELS.iter().position(|level| *level == text).map(Self)
    }

    pub(crate) fn as_str(self) -> &'static str {
        LEVELS.get(self.0).copied().unwrap_or("emergency")
    }

    /// May these parameters of a log message pass? One without a known level is not a log message.
    pub(crate) fn admits(self, params: &[u8]) -> bool {
        Json::checked_before(params)
            .get("level")
            .and_then(Json::as_str)
            .and_then(|level| Self::parse(&level))
            .is_some_and(|level| level >= self)
    }
}
