//! The files in which other programs keep their MCP servers: where they are, what they say in this gate's words, and how they look without.
//!
//! Pure: texts come in, and values go out. A secret that was written in clear leaves as a [`secrets::Secret`], never as text. What cannot be
//! understood is named, and never guessed.
//!
//! **Invariant: no value that looks like a credential is given out as text.** Tests `no_canary_is_given_out_as_text`,
//! `every_field_with_a_canary_keeps_it`.

mod clients;
mod edit;
mod entry;
pub mod jsonc;
mod url;
mod value;

pub use clients::{CLIENTS, Client, Place, Surroundings, of_file};
pub use edit::{Gate, without};
pub use entry::{Entry, Filter, Server, Transport};
pub use value::{Value, env_file};

use serde_json::Value as Json;
use vocab::ServerId;

/// The largest file that is read; the largest known is a fiftieth of it.
pub const MOST_BYTES: usize = 1 << 20;
/// More servers than anybody has in one file.
const MOST_ENTRIES: usize = 512;

/// The servers of a file, each with what can be said of it, in the file's order.
pub fn read(client: &Client, text: &str, around: &Surroundings) -> Result<Vec<Entry>, String> {
    if text.len() > MOST_BYTES {
        return Err(format!("it has more than {MOST_BYTES} bytes"));
    }
    let document = document(client, text)?;
    let mut entries = Vec::new();
    for section in client.sections(&document, around) {
        let Some(servers) = section
            .iter()
            .try_fold(&document, |node, key| node.get(key))
        else {
            continue;
        };
        let Some(servers) = servers.as_object() else {
            return Err(format!("`{}` is no map of servers", section.join(".")));
        };
        for (name, value) in servers {
            if entries.len() >= MOST_ENTRIES {
                return Err(format!("it has more than {MOST_ENTRIES} servers"));
            }
            // opencode keeps servers of its second version one level deeper.
            if client.id == "opencode" && name == "servers" && section.len() == 1 {
                continue;
            }
            let at = [section.as_slice(), std::slice::from_ref(name)].concat();
            entries.push(entry::read(client, name, at, value, around));
        }
    }
    Ok(entries)
}

fn document(client: &Client, text: &str) -> Result<Json, String> {
    if text.trim().is_empty() {
        return Ok(Json::Object(serde_json::Map::new()));
    }
    match client.is_toml {
        true => edit::toml_value(text),
        false => jsonc::Document::read(text).map(|document| document.value().clone()),
    }
}

/// The id that a server of this name gets: the same in the narrower grammar of ids.
#[must_use]
pub fn id_of(name: &str) -> String {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let id: String = words.join("-").chars().take(56).collect();
    let id = id.trim_end_matches('-');
    let candidates = [id.to_owned(), format!("{id}-server"), "server".to_owned()];
    candidates
        .into_iter()
        .find(|id| ServerId::parse(id).is_ok())
        .unwrap_or_default()
}

#[cfg(test)]
mod tests;
