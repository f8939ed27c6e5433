//! The four variables of AuroraSOC's `MCPSettings`. They count more than the file, as they do there, and what they changed is said.

use std::time::Duration;

use super::finding::{Finding, Place};

/// What was said outside the file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Environment {
    pub tool_timeout: Option<Duration>,
    pub rate_limit_enabled: Option<bool>,
    pub rate_limit_requests: Option<u32>,
    pub rate_limit_window: Option<Duration>,
    /// Variable, key and value, for whoever asks where a value came from.
    pub said: Vec<(&'static str, &'static str, String)>,
    pub(crate) mistakes: Vec<(&'static str, String, &'static str)>,
}

/// Each variable, with the key that it stands for.
pub const VARIABLES: [(&str, &str); 4] = [
    ("MCP_TOOL_TIMEOUT_SECONDS", "tool_timeout"),
    ("MCP_RATE_LIMIT_ENABLED", "rate_limit.enabled"),
    ("MCP_RATE_LIMIT_REQUESTS", "rate_limit.requests"),
    ("MCP_RATE_LIMIT_WINDOW_SECONDS", "rate_limit.window"),
];

impl Environment {
    /// Reads the variables. One that is empty is not there.
    #[must_use]
    pub fn read(variable: impl Fn(&str) -> Option<String>) -> Self {
        let mut out = Self::default();
        for (name, key) in VARIABLES {
            let Some(text) = variable(name).map(|text| text.trim().to_owned()) else {
                continue;
            };
            if text.is_empty() {
                continue;
            }
            let (shown, wanted) = match name {
                "MCP_TOOL_TIMEOUT_SECONDS" => {
                    out.tool_timeout = seconds(&text, 3600.0);
                    (
                        out.tool_timeout.map(shown),
                        "a number of seconds, at most 3600",
                    )
                }
                "MCP_RATE_LIMIT_ENABLED" => {
                    out.rate_limit_enabled = flag(&text);
                    (
                        out.rate_limit_enabled.map(|on| on.to_string()),
                        "`true` or `false`",
                    )
                }
                "MCP_RATE_LIMIT_REQUESTS" => {
                    out.rate_limit_requests = text.parse().ok().filter(|count| *count > 0);
                    (
                        out.rate_limit_requests.map(|count| count.to_string()),
                        "a number of requests, at least 1",
                    )
                }
                _ => {
                    out.rate_limit_window =
                        seconds(&text, 86_400.0).filter(|window| *window >= Duration::from_secs(1));
                    (
                        out.rate_limit_window.map(shown),
                        "a number of seconds, from 1 to 86400",
                    )
                }
            };
            match shown {
                Some(value) => out.said.push((name, key, value)),
                None => out
                    .mistakes
                    .push((name, text.chars().take(40).collect(), wanted)),
            }
        }
        out
    }

    /// What to tell whoever has both.
    pub(crate) fn findings(&self) -> Vec<Finding> {
        let mistaken = self.mistakes.iter().map(|(name, text, wanted)| {
            Finding::error(
                Place::start(),
                format!("the environment has {name}=`{text}`"),
                format!("write {wanted}, or take the variable away"),
            )
        });
        mistaken.collect()
    }
}

fn shown(span: Duration) -> String {
    format!("{}s", span.as_secs_f64())
}

fn seconds(text: &str, most: f64) -> Option<Duration> {
    let seconds: f64 = text.parse().ok()?;
    (seconds >= 0.001 && seconds <= most).then(|| Duration::from_secs_f64(seconds))
}

fn flag(text: &str) -> Option<bool> {
    match text.to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" | "t" | "y" => Some(true),
        "0" | "false" | "no" | "off" | "f" | "n" => Some(false),
        _ => None,
    }
}
