//! Reading values by key, with the table's defaults.
//!
//! Silent by design: a value that does not fit its key was reported by [`super::check`], and a file with findings is never used.

use std::time::Duration;

use super::{
    keys::{Key, Kind},
    tree::{self, Node},
    units,
};

/// One map of the file, seen through the table that governs it.
#[derive(Clone, Copy)]
pub(super) struct Fields<'a> {
    node: Option<&'a Node>,
    keys: &'static [Key],
}

impl<'a> Fields<'a> {
    pub(super) fn new(node: Option<&'a Node>, keys: &'static [Key]) -> Self {
        Self { node, keys }
    }

    /// Whether this dialect has the key at all.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.keys.iter().any(|key| key.name == name)
    }

    /// What is written under `name`, unless nothing is.
    pub(super) fn node(&self, name: &str) -> Option<&'a Node> {
        debug_assert!(self.knows(name), "`{name}` is not in the table");
        self.node?.get(name).filter(|node| !node.is_null())
    }

    /// The table under `name`.
    pub(super) fn table(&self, name: &str) -> Fields<'a> {
        let keys = match self
            .keys
            .iter()
            .find(|key| key.name == name)
            .map(|key| &key.kind)
        {
            Some(Kind::Table(keys) | Kind::TableOrWord(keys, _) | Kind::RateOrTable(keys)) => *keys,
            _ => &[][..],
        };
        Fields::new(self.node(name), keys)
    }

    pub(super) fn written(&self, name: &str) -> Option<&'a str> {
        self.node(name).and_then(Node::text)
    }

    /// What is written, else the default.
    pub(super) fn text(&self, name: &str) -> &'a str {
        self.written(name).unwrap_or_else(|| self.default(name))
    }

    pub(super) fn flag(&self, name: &str) -> bool {
        self.node(name)
            .and_then(Node::flag)
            .unwrap_or_else(|| self.default(name) == "true")
    }

    pub(super) fn count(&self, name: &str) -> u64 {
        self.read(name, |text| text.parse().ok())
            .unwrap_or_default()
    }

    pub(super) fn size(&self, name: &str) -> u64 {
        self.read(name, units::size).unwrap_or_default()
    }

    pub(super) fn duration(&self, name: &str) -> Duration {
        self.read(name, units::duration).unwrap_or_default()
    }

    pub(super) fn texts(&self, name: &str) -> Vec<String> {
        self.items(name)
            .iter()
            .filter_map(Node::text)
            .map(str::to_owned)
            .collect()
    }

    pub(super) fn items(&self, name: &str) -> &'a [Node] {
        self.node(name).and_then(Node::items).unwrap_or_default()
    }

    pub(super) fn entries(&self, name: &str) -> &'a [(tree::Key, Node)] {
        self.node(name).and_then(Node::entries).unwrap_or_default()
    }

    fn read<T>(&self, name: &str, parse: impl Fn(&str) -> Option<T>) -> Option<T> {
        self.written(name)
            .and_then(&parse)
            .or_else(|| parse(self.default(name)))
    }

    fn default(&self, name: &str) -> &'static str {
        self.keys
            .iter()
            .find(|key| key.name == name)
            .map_or("", |key| key.default)
    }
}
