//! Edits of one entry's keys beyond a single word: programs, variables, effects of tools.

use vocab::Effect;

use super::{EditError, Found, Source, entry::quoted, set, unset, verify};
use crate::tree::Value;

/// What `portcullis servers edit` was told. What is not named stays.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Changes {
    pub command: Option<String>,
    pub args: Option<Vec<String>>,
    pub env: Vec<(String, String)>,
    pub unset_env: Vec<String>,
    pub cwd: Option<String>,
    pub url: Option<String>,
    pub bearer: Option<String>,
    pub headers: Vec<(String, String)>,
}

/// Keys that belong to one way of reaching a server and not to the other.
const OF_PROGRAMS: [&str; 4] = ["command", "args", "env", "cwd"];
const OF_ADDRESSES: [&str; 3] = ["url", "bearer", "headers"];

/// Changes how a server is reached. Going from a program to an address, or back, takes the keys of the other along.
pub fn edit_server(text: &str, id: &str, changes: &Changes) -> Result<String, EditError> {
    let source = Source::read(text)?;
    let map = |key: &str,
               add: &[(String, String)],
               remove: &[String]|
     -> Result<Option<String>, EditError> {
        if add.is_empty() && remove.is_empty() {
            return Ok(None);
        }
        let node = source.find(id)?.node.get(key);
        let old = node.and_then(|node| node.entries()).unwrap_or_default();
        let kept = old
            .iter()
            .filter_map(|(key, node)| Some((key.name.clone(), node.text()?.to_owned())));
        let kept = kept.filter(|(name, _)| {
            !remove.contains(name) && !add.iter().any(|(added, _)| added == name)
        });
        let pairs: Vec<String> = kept
            .chain(add.iter().cloned())
            .map(|(name, value)| format!("{}: {}", quoted(&name), quoted(&value)))
            .collect();
        Ok(Some(format!("{{ {} }}", pairs.join(", "))))
    };
    let list = |items: &Vec<String>| {
        format!(
            "[{}]",
            items
                .iter()
                .map(|item| quoted(item))
                .collect::<Vec<_>>()
                .join(", ")
        )
    };
    let values = [
        ("command", changes.command.as_deref().map(quoted)),
        ("url", changes.url.as_deref().map(quoted)),
        ("args", changes.args.as_ref().map(list)),
        ("env", map("env", &changes.env, &changes.unset_env)?),
        ("cwd", changes.cwd.as_deref().map(quoted)),
        ("bearer", changes.bearer.as_deref().map(quoted)),
        ("headers", map("headers", &changes.headers, &[])?),
    ];
    let gone: &[&str] = match (&changes.command, &changes.url) {
        (Some(_), _) => &OF_ADDRESSES,
        (None, Some(_)) => &OF_PROGRAMS,
        (None, None) => &[],
    };
    // In between the entry may lack what it needs, so only the end is checked.
    let mut edited = text.to_owned();
    for key in gone {
        edited = take_out(&edited, id, key)?;
    }
    for (key, value) in values {
        if let Some(value) = value {
            edited = put(&take_out(&edited, id, key)?, id, key, &value)?;
        }
    }
    let body = edited.strip_prefix('\u{feff}').unwrap_or(&edited);
    verify::only_entry_changed(&source, body, id)?;
    Ok(edited)
}

fn take_out(text: &str, id: &str, key: &str) -> Result<String, EditError> {
    let source = Source::read_loosely(text)?;
    let entry = source.find(id)?;
    let keys = entry.node.entries().unwrap_or_default();
    match keys.iter().position(|(known, _)| known.name == key) {
        Some(at) => source
            .remove_key(&entry, keys, at)
            .map(|edited| source.with_mark(edited)),
        None => Ok(text.to_owned()),
    }
}

fn put(text: &str, id: &str, key: &str, value: &str) -> Result<String, EditError> {
    let source = Source::read_loosely(text)?;
    let entry = source.find(id)?;
    source
        .insert_key(&entry, key, value)
        .map(|edited| source.with_mark(edited))
}

/// Whether strangers can write what a server returns; `None` leaves it open.
pub fn set_open_world(text: &str, id: &str, value: Option<bool>) -> Result<String, EditError> {
    match value {
        Some(value) => set(text, id, "open_world", if value { "true" } else { "false" }),
        None => unset(text, id, "open_world"),
    }
}

/// Says what calling one tool does.
pub fn set_effect(text: &str, id: &str, tool: &str, effect: Effect) -> Result<String, EditError> {
    set_of_tool(text, id, tool, "effect", effect.as_str())
}

/// Says whether strangers can write what one tool returns.
pub fn set_tool_open_world(
    text: &str,
    id: &str,
    tool: &str,
    is_open: bool,
) -> Result<String, EditError> {
    let word = if is_open { "true" } else { "false" };
    set_of_tool(text, id, tool, "open_world", word)
}

/// Sets one key of a tool's rule.
fn set_of_tool(
    text: &str,
    id: &str,
    tool: &str,
    key: &str,
    word: &str,
) -> Result<String, EditError> {
    let source = Source::read(text)?;
    let entry = source.find(id)?;
    let name = quoted(tool);
    let Some(tools) = entry.node.get("tools").filter(|tools| !tools.is_null()) else {
        let edited = source.insert_key(
            &entry,
            "tools",
            &format!("{{ {name}: {{ {key}: {word} }} }}"),
        )?;
        verify::only_entry_changed(&source, &edited, id)?;
        return Ok(source.with_mark(edited));
    };
    let style = || EditError::Style {
        line: tools.place.line,
    };
    let line = tools.place.line;
    let within = Found {
        node: tools,
        first_line: line,
        indent: entry.indent + 2,
    };
    let edited = match tools.get(tool) {
        None if tools.entries().is_none() => return Err(style()),
        None => source.insert_key(&within, &name, &format!("{{ {key}: {word} }}"))?,
        Some(rule) => match (&rule.value, rule.get(key)) {
            (Value::Map(_), Some(old)) if old.text().is_some() => {
                source.splice_chars(old.place.start, old.place.end, word)
            }
            (Value::Map(keys), None) => {
                let indent = keys
                    .first()
                    .map_or(entry.indent + 6, |(key, _)| key.place.column - 1);
                let first_line = rule.place.line;
                source.insert_key(
                    &Found {
                        node: rule,
                        first_line,
                        indent: indent.saturating_sub(2),
                    },
                    key,
                    word,
                )?
            }
            // Only a word: its permission.
            _ => match rule
                .text()
                .filter(|_| rule.place.line == rule.place.end_line)
            {
                Some(permission) => {
                    let both = format!("{{ permission: {permission}, {key}: {word} }}");
                    source.splice_chars(rule.place.start, rule.place.end, &both)
                }
                None => return Err(style()),
            },
        },
    };
    verify::only_entry_changed(&source, &edited, id)?;
    Ok(source.with_mark(edited))
}
