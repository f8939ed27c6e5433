//! The JSON Schema of the file, for editors; drawn from the table of keys.

use serde_json::{Map, Value, json};

use super::keys::{self, Key, Kind};

/// JSON Schema, draft 2020-12, ending in a newline.
#[must_use]
pub fn schema() -> String {
    let mut root = table(keys::ROOT);
    if let Some(object) = root.as_object_mut() {
        object.insert(
            "$schema".to_owned(),
            json!("https://json-schema.org/draft/2020-12/schema"),
        );
        object.insert("title".to_owned(), json!("portcullis.yaml"));
        object.insert("$defs".to_owned(), definitions());
    }
    let mut text = serde_json::to_string_pretty(&root).unwrap_or_default();
    text.push('\n');
    text
}

fn definitions() -> Value {
    json!({
        "duration": {
            "description": "As in 30s, 500ms, 2m, 1h, or a number of seconds.",
            "anyOf": [
                { "type": "string", "pattern": "^[0-9]+(\\.[0-9]+)? ?(ms|s|m|h)?$" },
                { "type": "number", "exclusiveMinimum": 0 }
            ]
        },
        "size": {
            "description": "A number of bytes, or as in 512 KiB, 4 MiB, 1 GiB.",
            "anyOf": [
                { "type": "string", "pattern": "^[0-9]+( *(KiB|MiB|GiB))?$" },
                { "type": "integer", "minimum": 0 }
            ]
        },
        "rate": {
            "description": "Calls per time, as in 5/s, 60/min, 1000/h.",
            "type": "string",
            "pattern": "^[0-9]{1,7} */ *(s|min|h)$"
        },
        "reference": {
            "description": "Where a secret is kept: env:NAME, keychain:name or secret:engine/path#field.",
            "type": "string",
            "pattern": "^(env:[A-Za-z_][A-Za-z0-9_]*|keychain:.+|secret:[^/]+/.+)$"
        },
        "scalar": { "type": ["string", "number", "boolean"] },
        "server": table(keys::SERVER),
        "listed_server": table(keys::LISTED_SERVER),
    })
}

fn table(keys: &[Key]) -> Value {
    let properties: Map<String, Value> = keys
        .iter()
        .map(|key| (key.name.to_owned(), property(key)))
        .collect();
    json!({ "type": ["object", "null"], "additionalProperties": false, "properties": properties })
}

fn property(key: &Key) -> Value {
    let mut schema = kind(&key.kind);
    if let Some(object) = schema.as_object_mut() {
        let idle = if key.idle.is_empty() {
            ""
        } else {
            " No effect in this version."
        };
        object.insert(
            "description".to_owned(),
            json!(format!("{}{idle}", key.doc)),
        );
        if let Some(default) = default(key) {
            object.insert("default".to_owned(), default);
        }
    }
    schema
}

fn kind(kind: &Kind) -> Value {
    match kind {
        Kind::Text => json!({ "$ref": "#/$defs/scalar" }),
        Kind::Flag => json!({ "type": "boolean" }),
        Kind::Count(range) => {
            json!({ "type": "integer", "minimum": range.start(), "maximum": range.end() })
        }
        Kind::Size(_) => json!({ "$ref": "#/$defs/size" }),
        Kind::Duration(_) => json!({ "$ref": "#/$defs/duration" }),
        Kind::Choice(choices) => json!({ "enum": choices }),
        Kind::Reference => json!({ "$ref": "#/$defs/reference" }),
        Kind::TextList => {
            json!({ "type": ["array", "null"], "items": { "$ref": "#/$defs/scalar" } })
        }
        Kind::TextMap => map(json!({ "$ref": "#/$defs/scalar" })),
        Kind::ReferenceMap => map(json!({ "$ref": "#/$defs/reference" })),
        Kind::Rate => json!({ "$ref": "#/$defs/rate" }),
        Kind::RuleMap(words, keys) => map(json!({ "anyOf": [{ "enum": words }, table(keys)] })),
        Kind::Table(keys) => table(keys),
        Kind::TableOrWord(keys, words) => json!({ "anyOf": [{ "enum": words }, table(keys)] }),
        Kind::TableList(keys) => {
            json!({ "type": ["array", "null"], "items": { "anyOf": [{ "type": "string" }, table(keys)] } })
        }
        Kind::Servers(..) => json!({
            "anyOf": [map(json!({ "$ref": "#/$defs/server" })), { "type": "array", "items": { "$ref": "#/$defs/listed_server" } }]
        }),
        Kind::Named(mapped, listed) => {
            json!({ "anyOf": [map(table(mapped)), { "type": "array", "items": table(listed) }] })
        }
        Kind::AgentMap(keys) => map(json!({ "anyOf": [{ "type": "string" }, table(keys)] })),
        Kind::Subcommands => {
            let list = json!({ "type": ["array", "null"], "items": { "$ref": "#/$defs/scalar" } });
            json!({ "anyOf": [map(list.clone()), list] })
        }
        Kind::RateOrTable(keys) => json!({ "anyOf": [{ "$ref": "#/$defs/rate" }, table(keys)] }),
    }
}

fn map(values: Value) -> Value {
    json!({ "type": ["object", "null"], "additionalProperties": values })
}

/// The default as a value of the key's own type.
fn default(key: &Key) -> Option<Value> {
    match (&key.kind, key.default) {
        (_, "") => None,
        (Kind::Flag, text) => Some(json!(text == "true")),
        (Kind::Count(_), text) => text.parse::<u64>().ok().map(|number| json!(number)),
        (_, "[]") => Some(json!([])),
        (_, "{}") => Some(json!({})),
        (Kind::TextList, text) => Some(json!([text.trim_matches(['[', ']'])])),
        (_, text) => Some(json!(text)),
    }
}
