//! The names of families, and how grave an event is.

/// How much attention an event asks for. Sinks translate it to their own scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Severity {
    /// What is meant to happen.
    Info,
    /// A person changed something, or was asked.
    Notice,
    /// The gate said no, or something is about to break.
    Warning,
    /// Something broke, or nobody knows how it ended.
    Error,
}

impl Severity {
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Severity::Info => "info",
            Severity::Notice => "notice",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }

    /// The severity of syslog (RFC 5424).
    #[must_use]
    pub fn syslog(self) -> u8 {
        match self {
            Severity::Info => 6,
            Severity::Notice => 5,
            Severity::Warning => 4,
            Severity::Error => 3,
        }
    }

    /// The severity number of OpenTelemetry logs.
    #[must_use]
    pub fn otlp(self) -> u8 {
        match self {
            Severity::Info => 9,
            Severity::Notice => 10,
            Severity::Warning => 13,
            Severity::Error => 17,
        }
    }
}

pub(super) const TOOL: &str = "mcp_tool";
pub(super) const COMMAND: &str = "command_execution";
pub(super) const STORAGE: &str = "storage";
pub(super) const SEAL: &str = "seal";
pub(super) const RATE: &str = "rate_limit";
pub(super) const POLICY: &str = "policy";

/// The type of a family's events, and its own name: `mcp_tool` is `MCPToolEvent`, `approval` is `ApprovalEvent`.
pub(super) fn family(family: &str) -> (String, String) {
    let kind = match family {
        TOOL => "MCPTool".to_owned(),
        other => camel(other),
    };
    (format!("{kind}Event"), family.to_owned())
}

/// `torn_tail_cut` → `TornTailCut`. What is no letter or digit joins words and is dropped.
pub(super) fn camel(words: &str) -> String {
    let mut out = String::with_capacity(words.len());
    let mut upper = true;
    for c in words.chars() {
        if !c.is_ascii_alphanumeric() {
            upper = true;
            continue;
        }
        out.push(if upper { c.to_ascii_uppercase() } else { c });
        upper = false;
    }
    out
}
