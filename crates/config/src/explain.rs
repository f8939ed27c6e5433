//! Every value in force, and where it came from.

pub use api::ConfigValue as Explained;
use serde_json::json;

use super::{
    Raw,
    check::join,
    keys::{self, Key, Kind},
    layers,
    tree::{Node, Value},
};

/// A value set outside the file, such as by `--listen`.
#[derive(Debug, Clone)]
pub struct Override {
    pub key: &'static str,
    pub value: String,
    pub origin: &'static str,
}

/// In the order of the table; servers in the order of the file. Call it on a file that resolves.
#[must_use]
pub fn explain(raw: &Raw, overrides: &[Override]) -> Vec<Explained> {
    let mut walk = Walk {
        raw,
        rows: Vec::new(),
    };
    walk.table(Some(&raw.root), keys::ROOT, "");
    for set in overrides {
        if let Some(row) = walk.rows.iter_mut().find(|row| row.key == set.key) {
            row.value.clone_from(&set.value);
            row.origin = set.origin.to_owned();
        }
    }
    for row in &mut walk.rows {
        row.lock = raw.layers.lock_of(&row.key).map(ToString::to_string);
    }
    walk.rows
}

struct Walk<'a> {
    raw: &'a Raw,
    rows: Vec<Explained>,
}

impl Walk<'_> {
    fn table(&mut self, node: Option<&Node>, keys: &'static [Key], path: &str) {
        let idle = node.map_or(&[][..], idle_keys);
        for key in keys.iter().filter(|key| !idle.contains(&key.name)) {
            let written = node
                .and_then(|node| node.get(key.name))
                .filter(|node| !node.is_null());
            self.key(key, written, &join(path, key.name));
        }
    }

    fn key(&mut self, key: &'static Key, written: Option<&Node>, path: &str) {
        match (&key.kind, written) {
            (Kind::Table(keys), _) => self.table(written, keys, path),
            (Kind::TableOrWord(keys, _), _) if written.is_none_or(|node| node.text().is_none()) => {
                self.table(written, keys, path)
            }
            (Kind::Servers(mapped, listed) | Kind::Named(mapped, listed), Some(node)) => {
                self.named(node, mapped, listed, path)
            }
            (_, Some(node)) => {
                let file = self.raw.layers.file_of(&self.raw.file, node.place);
                self.rows.push(Explained {
                    key: path.to_owned(),
                    value: show(node),
                    origin: format!("{file}:{}", node.place.line),
                    layer: layers::name(node.place.layer).to_owned(),
                    ..Explained::default()
                });
            }
            (_, None) if key.default.is_empty() => {}
            (_, None) => {
                let (value, origin) = (key.default.to_owned(), "default".to_owned());
                self.rows.push(Explained {
                    key: path.to_owned(),
                    value,
                    origin,
                    layer: "built-in".to_owned(),
                    ..Explained::default()
                });
            }
        }
    }

    fn named(&mut self, node: &Node, mapped: &'static [Key], listed: &'static [Key], path: &str) {
        match &node.value {
            Value::List(items) => {
                for item in items {
                    let name = item.get("name").and_then(Node::text).unwrap_or_default();
                    self.table(Some(item), listed, &join(path, name));
                }
            }
            _ => {
                for (key, server) in node.entries().unwrap_or_default() {
                    self.table(Some(server), mapped, &join(path, &key.name));
                }
            }
        }
    }
}

/// Keys of the other kind of server: their defaults are not in force.
fn idle_keys(node: &Node) -> &'static [&'static str] {
    let has = |name: &str| node.get(name).is_some_and(|node| !node.is_null());
    match (has("command") || has("executable"), has("url")) {
        (true, false) => &["transport", "headers", "bearer"],
        (false, true) => &[
            "args",
            "env",
            "environment",
            "credentials",
            "cwd",
            "resource_limits",
            "jail",
        ],
        _ => &[],
    }
}

/// On one line.
fn show(node: &Node) -> String {
    match &node.value {
        Value::Scalar { text, .. } => text.clone(),
        Value::List(_) | Value::Map(_) => json_of(node).to_string(),
    }
}

fn json_of(node: &Node) -> serde_json::Value {
    match &node.value {
        Value::Scalar { text, .. } => json!(text),
        Value::List(items) => items.iter().map(json_of).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, node)| (key.name.clone(), json_of(node)))
            .collect(),
    }
}
