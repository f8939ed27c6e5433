//! One value of an entry: a text, a variable, a file's content, or a secret that was written out.

use std::fmt;

use secrets::{Secret, SecretRef, looks_like_credential};

use crate::clients::{Client, Surroundings};

#[derive(Debug)]
pub enum Value {
    Text(String),
    /// A variable of the environment, by name.
    Variable(String),
    /// The content of a file.
    File(String),
    Secret(Secret),
    /// What the client asks a person for.
    Asked(String),
}

impl fmt::Display for Value {
    /// Without anything that must not be shown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Variable(name) => write!(f, "env:{name}"),
            Self::File(_) => f.write_str("(a file's content)"),
            Self::Secret(secret) => write!(f, "(a secret of {} bytes)", secret.expose().len()),
            Self::Asked(_) => f.write_str("(asked for)"),
        }
    }
}

/// What a text under a name means to a client. `notes` gets what is lost.
pub(crate) fn of_text(
    client: &Client,
    key: &str,
    text: &str,
    around: &Surroundings,
    notes: &mut Vec<String>,
) -> Value {
    if client.has_variables
        && let Some(value) = reference(client, text, notes)
    {
        return value;
    }
    let text = match client.has_variables {
        true => expand(text, around),
        false => text.to_owned(),
    };
    if is_secret(key, &text) {
        return Value::Secret(Secret::new(text));
    }
    if client.has_variables && (text.contains("${") || text.contains("{env:")) {
        notes.push(format!(
            "`{}` has a variable inside a text, which the gate does not fill in",
            shown(key)
        ));
    }
    Value::Text(text)
}

/// Whether a text is kept in the vault: what the detector finds, and what no person types by heart.
pub(crate) fn is_secret(key: &str, text: &str) -> bool {
    SecretRef::parse(text).is_err()
        && (looks_like_credential(key, text).is_some() || is_dense(text))
}

/// Twenty characters of letters and digits mixed, with nothing that paths, addresses and sentences have.
fn is_dense(text: &str) -> bool {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-+=.".contains(&byte);
    text.len() >= 20
        && text.bytes().all(plain)
        && text.bytes().any(|byte| byte.is_ascii_digit())
        && text.bytes().any(|byte| byte.is_ascii_uppercase())
        && text.bytes().any(|byte| byte.is_ascii_lowercase())
}

/// A text that is one reference and nothing else.
fn reference(client: &Client, text: &str, notes: &mut Vec<String>) -> Option<Value> {
    let braced = text
        .strip_prefix("${")
        .or_else(|| text.strip_prefix('{').filter(|_| client.id == "opencode"))
        .and_then(|text| text.strip_suffix('}'));
    let bare = || text.strip_prefix('$').filter(|_| client.id == "gemini");
    let inner = braced.or_else(bare)?;
    if let Some(id) = inner.strip_prefix("input:") {
        return Some(Value::Asked(id.to_owned()));
    }
    if let Some(path) = inner.strip_prefix("file:") {
        return Some(Value::File(path.to_owned()));
    }
    let inner = inner.strip_prefix("env:").unwrap_or(inner);
    let (name, default) = match inner.split_once(":-") {
        Some((name, default)) => (name, Some(default)),
        None => (inner, None),
    };
    let is_variable = matches!(
        SecretRef::parse(&format!("env:{name}")),
        Ok(SecretRef::Env { .. })
    );
    if !is_variable {
        return None;
    }
    if default.is_some_and(|default| !default.is_empty()) {
        notes.push(format!(
            "the default of the variable `{name}` is left behind: set it where the gate runs"
        ));
    }
    Some(Value::Variable(name.to_owned()))
}

/// Directories that clients have names for.
pub(crate) fn expand(text: &str, around: &Surroundings) -> String {
    let mut text = text.replace("${userHome}", &around.home.to_string_lossy());
    if let Some(project) = &around.project {
        let project = project.to_string_lossy();
        for name in [
            "${workspaceFolder}",
            "${CLAUDE_PROJECT_DIR}",
            "${CLAUDE_PROJECT_DIR:-.}",
        ] {
            text = text.replace(name, &project);
        }
    }
    text
}

/// The pairs of a file with a variable on each line.
#[must_use]
pub fn env_file(text: &str) -> Vec<(String, String)> {
    let pair = |line: &str| {
        let line = line.trim();
        let line = line.strip_prefix("export ").unwrap_or(line);
        let (name, value) = line.split_once('=').filter(|_| !line.starts_with('#'))?;
        let value = value.trim();
        let quoted = ['"', '\''].iter().find_map(|quote| {
            value
                .strip_prefix(*quote)
                .and_then(|value| value.strip_suffix(*quote))
        });
        Some((name.trim().to_owned(), quoted.unwrap_or(value).to_owned()))
    };
    text.lines().filter_map(pair).collect()
}

/// A name from a file, as a person is shown it.
pub(crate) fn shown(name: &str) -> String {
    match is_secret("", name) {
        true => "(hidden)".to_owned(),
        false => name.chars().take(64).flat_map(char::escape_debug).collect(),
    }
}
