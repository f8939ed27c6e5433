//! A client's file without the servers that were taken over, and with the gate in their place. What is not part of that stays to the byte.

use serde_json::{Value as Json, json};
use toml_edit::{Array, DocumentMut, Item, Table, Value};

use crate::{clients::Client, jsonc};

/// The name under which clients know the gate.
const GATE: &str = "portcullis";

/// The command by which a client reaches the gate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gate {
    pub command: String,
    pub args: Vec<String>,
}

/// The file without the entries at these places, and with the gate beside where the first of them was.
pub fn without(
    client: &Client,
    text: &str,
    entries: &[Vec<String>],
    gate: &Gate,
) -> Result<String, String> {
    match client.is_toml {
        true => toml_without(text, entries, gate),
        false => json_without(client, text, entries, gate),
    }
}

fn json_without(
    client: &Client,
    text: &str,
    entries: &[Vec<String>],
    gate: &Gate,
) -> Result<String, String> {
    let mut text = text.to_owned();
    for at in entries {
        // A key that stands there twice goes twice.
        while let Some(shorter) =
            jsonc::Document::read(&text)?.without(&|path, _| path == at.as_slice())
        {
            text = shorter;
        }
    }
    let Some((_, section)) = entries.first().and_then(|at| at.split_last()) else {
        return Ok(text);
    };
    let path: Vec<&str> = section.iter().map(String::as_str).chain([GATE]).collect();
    let Gate { command, args } = gate;
    let entry = match client.id {
        "opencode" => {
            let words: Vec<&String> = std::iter::once(command).chain(args).collect();
            json!({ "type": "local", "command": words, "enabled": true })
        }
        "vscode" | "claude-code" => json!({ "type": "stdio", "command": command, "args": args }),
        _ => json!({ "command": command, "args": args }),
    };
    let document = jsonc::Document::read(&text)?;
    let is_there = path
        .iter()
        .try_fold(document.value(), |node, key| node.get(key));
    match is_there {
        Some(_) => Ok(text),
        None => document.with(&path, &entry),
    }
}

fn toml_without(text: &str, entries: &[Vec<String>], gate: &Gate) -> Result<String, String> {
    let mut document: DocumentMut = text.parse().map_err(of_toml)?;
    let servers = document
        .get_mut("mcp_servers")
        .and_then(Item::as_table_like_mut)
        .ok_or("it has no table `mcp_servers`")?;
    for at in entries {
        if let Some(name) = at.last() {
            servers.remove(name);
        }
    }
    if !servers.contains_key(GATE) {
        let mut table = Table::new();
        table.insert("command", toml_edit::value(&gate.command));
        let args: Array = gate.args.iter().collect();
        table.insert("args", toml_edit::value(args));
        let item = match servers
            .iter()
            .next()
            .is_some_and(|(_, item)| item.is_inline_table())
        {
            true => Item::Value(Value::InlineTable(table.into_inline_table())),
            false => Item::Table(table),
        };
        servers.insert(GATE, item);
    }
    Ok(document.to_string())
}

/// What a text in TOML says, in the words of JSON.
pub(crate) fn toml_value(text: &str) -> Result<Json, String> {
    let document: DocumentMut = text.parse().map_err(of_toml)?;
    Ok(of_item(document.as_item(), 0))
}

/// Without the line it points at, which may hold a secret.
fn of_toml(error: toml_edit::TomlError) -> String {
    format!("it is no TOML: {}", error.message())
}

/// Deeper tables than anybody writes.
const DEEPEST: usize = 32;

fn of_item(item: &Item, depth: usize) -> Json {
    if let Some(table) = item.as_table_like()
        && depth < DEEPEST
    {
        let pairs = table
            .iter()
            .map(|(key, item)| (key.to_owned(), of_item(item, depth + 1)));
        return Json::Object(pairs.collect());
    }
    item.as_value()
        .map_or(Json::Null, |value| of_value(value, depth))
}

fn of_value(value: &Value, depth: usize) -> Json {
    match value {
        Value::String(text) => Json::from(text.value().as_str()),
        Value::Integer(number) => Json::from(*number.value()),
        Value::Float(number) => Json::from(*number.value()),
        Value::Boolean(flag) => Json::from(*flag.value()),
        Value::Array(items) if depth < DEEPEST => {
            items.iter().map(|item| of_value(item, depth + 1)).collect()
        }
        Value::InlineTable(table) if depth < DEEPEST => {
            let pairs = table
                .iter()
                .map(|(key, value)| (key.to_owned(), of_value(value, depth + 1)));
            Json::Object(pairs.collect())
        }
        _ => Json::Null,
    }
}
