//! A new entry as lines of YAML.

use std::fmt::Write as _;

use vocab::Level;

/// What `portcullis servers add` was told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewServer {
    pub id: String,
    pub transport: NewTransport,
    pub classification: Option<Level>,
    pub accepts: Option<Level>,
    pub open_world: Option<bool>,
    /// Further keys, with values that are YAML on one line.
    pub more: Vec<(String, String)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NewTransport {
    Stdio {
        command: String,
        args: Vec<String>,
        env: Vec<(String, String)>,
        cwd: Option<String>,
    },
    Http {
        url: String,
        bearer: Option<String>,
        headers: Vec<(String, String)>,
    },
}

impl NewServer {
    /// `id:` with its keys below, `indent` spaces in.
    pub(super) fn as_entry(&self, indent: usize, newline: &str) -> String {
        let mut lines = vec![format!("{}{}:", " ".repeat(indent), scalar(&self.id))];
        lines.extend(
            self.keys()
                .into_iter()
                .map(|line| format!("{}{line}", " ".repeat(indent + 2))),
        );
        lines.into_iter().map(|line| line + newline).collect()
    }

    /// `- name: id` with its other keys below, the dash `indent` spaces in.
    pub(super) fn as_item(&self, indent: usize, newline: &str) -> String {
        let mut lines = vec![format!(
            "{}- name: {}",
            " ".repeat(indent),
            scalar(&self.id)
        )];
        lines.extend(
            self.keys()
                .into_iter()
                .map(|line| format!("{}{line}", " ".repeat(indent + 2))),
        );
        lines.into_iter().map(|line| line + newline).collect()
    }

    fn keys(&self) -> Vec<String> {
        let mut lines = Vec::new();
        match &self.transport {
            NewTransport::Stdio {
                command,
                args,
                env,
                cwd,
            } => {
                lines.push(format!("command: {}", scalar(command)));
                if !args.is_empty() {
                    lines.push(format!(
                        "args: [{}]",
                        args.iter()
                            .map(|arg| quoted(arg))
                            .collect::<Vec<_>>()
                            .join(", ")
                    ));
                }
                map(&mut lines, "env", env);
                lines.extend(cwd.iter().map(|cwd| format!("cwd: {}", scalar(cwd))));
            }
            NewTransport::Http {
                url,
                bearer,
                headers,
            } => {
                lines.push(format!("url: {}", scalar(url)));
                lines.extend(
                    bearer
                        .iter()
                        .map(|bearer| format!("bearer: {}", scalar(bearer))),
                );
                map(&mut lines, "headers", headers);
            }
        }
        lines.extend(
            self.classification
                .map(|level| format!("classification: {level}")),
        );
        lines.extend(self.accepts.map(|level| format!("accepts: {level}")));
        lines.extend(
            self.open_world
                .map(|is_open| format!("open_world: {is_open}")),
        );
        lines.extend(
            self.more
                .iter()
                .map(|(key, value)| format!("{}: {value}", scalar(key))),
        );
        lines
    }
}

fn map(lines: &mut Vec<String>, name: &str, pairs: &[(String, String)]) {
    if !pairs.is_empty() {
        lines.push(format!("{name}:"));
        lines.extend(
            pairs
                .iter()
                .map(|(key, value)| format!("  {}: {}", scalar(key), scalar(value))),
        );
    }
}

/// Bare where no reader could take it for anything else than text, quoted otherwise.
pub fn scalar(text: &str) -> String {
    let first = text
        .chars()
        .next()
        .is_some_and(|c| c.is_ascii_alphabetic() || c == '/');
    let rest = text.chars().all(|c| {
        c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.' | '/' | ':' | '@' | '+' | '#')
    });
    let words = ["true", "false", "null", "yes", "no", "on", "off", "y", "n"];
    if first && rest && !text.ends_with(':') && !words.contains(&text.to_ascii_lowercase().as_str())
    {
        text.to_owned()
    } else {
        quoted(text)
    }
}

/// YAML's double-quoted style, with every character that is not printable ASCII or a letter escaped.
pub(super) fn quoted(text: &str) -> String {
    let mut out = String::from('"');
    for c in text.chars() {
        match c {
            '"' | '\\' => out.extend(['\\', c]),
            ' '..='~' => out.push(c),
            _ if c.is_alphanumeric() => out.push(c),
            // Writing to a String cannot fail.
            _ => _ = write!(out, "\\U{:08x}", u32::from(c)),
        }
    }
    out.push('"');
    out
}
