//! How the text of a client's file changes: hooks and the gate as a server come in, and go out again.

use serde_json::{Value, json};

use imports::jsonc::Document;

/// One change of a file's text, or what takes it back.
#[derive(Debug)]
pub(super) enum Edit {
    /// An entry in the list of each event.
    Hooks {
        client: String,
        entries: Vec<(&'static str, Value)>,
        /// What the file must say of its own form.
        version: Option<u64>,
    },
    /// The gate as a server in a section.
    Server {
        section: &'static str,
        entry: Value,
    },
    /// The whole file is ours, and begins with a mark.
    Whole {
        mark: &'static str,
        text: String,
    },
    Both(Box<Edit>, Box<Edit>),
}

/// The name of the gate among a client's servers.
const SERVER: &str = "portcullis";

impl Edit {
    /// The text with what is wanted in it, once.
    pub(super) fn install(&self, text: &str) -> Result<String, String> {
        match self {
            Self::Hooks {
                entries, version, ..
            } => {
                if self.is_installed(text) {
                    return Ok(text.to_owned());
                }
                let mut text = self.uninstall(text)?;
                if text.trim().is_empty() {
                    text = "{}\n".to_owned();
                }
                if let Some(version) = version
                    && Document::read(&text)?.value().get("version").is_none()
                {
                    text = Document::read(&text)?.with(&["version"], &json!(version))?;
                }
                for (event, entry) in entries {
                    let document = Document::read(&text)?;
                    let place = ["hooks", event];
                    let is_new = document
                        .value()
                        .pointer(&format!("/hooks/{event}"))
                        .is_none();
                    let entry = if is_new {
                        json!([entry])
                    } else {
                        entry.clone()
                    };
                    text = document.with(&place, &entry)?;
                }
                Ok(text)
            }
            Self::Server { section, entry } => {
                let text = if text.trim().is_empty() { "{}\n" } else { text };
                let document = Document::read(text)?;
                match document
                    .value()
                    .get(section)
                    .and_then(|all| all.get(SERVER))
                {
                    // Whoever wrote another one there meant it.
                    Some(_) => Ok(text.to_owned()),
                    None => document.with(&[section, SERVER], entry),
                }
            }
            Self::Whole { mark, text: wanted } => {
                match text.trim().is_empty() || text.starts_with(mark) {
                    true => Ok(wanted.clone()),
                    false => Err(format!(
                        "it does not begin with `{mark}`, so somebody else wrote it"
                    )),
                }
            }
            Self::Both(first, second) => second.install(&first.install(text)?),
        }
    }

    /// Whether every entry is there once, as it is wanted, and none of ours beside them.
    fn is_installed(&self, text: &str) -> bool {
        let (Self::Hooks { entries, .. }, Ok(document)) = (self, Document::read(text)) else {
            return false;
        };
        let all = entries.iter().all(|(event, entry)| {
            let list = document.value().pointer(&format!("/hooks/{event}"));
            let list = list.and_then(Value::as_array).into_iter().flatten();
            list.filter(|there| *there == entry).count() == 1
        });
        let ours = document.count(&|path, value| self.is_ours(path, value));
        all && ours == entries.len()
    }

    fn is_ours(&self, path: &[String], value: &Value) -> bool {
        match self {
            Self::Hooks { client, .. } => {
                let ours = format!(" task hook {client} --caller ");
                let command = value.get("command").and_then(Value::as_str);
                path.first().is_some_and(|first| first == "hooks")
                    && command.is_some_and(|command| command.contains(&ours))
            }
            Self::Server { section, .. } => {
                path == [*section, SERVER] && value.to_string().contains("\"connect\"")
            }
            Self::Whole { .. } | Self::Both(..) => false,
        }
    }

    /// The text without anything that this puts there.
    pub(super) fn uninstall(&self, text: &str) -> Result<String, String> {
        if text.trim().is_empty() {
            return Ok(text.to_owned());
        }
        match self {
            Self::Hooks { .. } | Self::Server { .. } => {
                remove(text, &|path, value| self.is_ours(path, value))
            }
            Self::Whole { mark, .. } => Ok(match text.starts_with(mark) {
                true => String::new(),
                false => text.to_owned(),
            }),
            Self::Both(first, second) => first.uninstall(&second.uninstall(text)?),
        }
    }
}

fn remove(text: &str, is_it: &dyn Fn(&[String], &Value) -> bool) -> Result<String, String> {
    let mut text = text.to_owned();
    while let Some(without) = Document::read(&text)?.without(is_it) {
        text = without;
    }
    Ok(text)
}
