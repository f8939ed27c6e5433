//! What one server showed when it connected: its revision, capabilities and lists.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use wire::{Json, mcp::Era, write};

use super::{
    abilities::Abilities,
    definition::{Definition, Kind},
    reparse,
};

/// One entry of a list, verbatim, with the field that names it.
#[derive(Debug, Clone)]
pub struct Item {
    pub name: String,
    pub raw: Bytes,
    pub definition: Arc<Definition>,
}

#[derive(Debug, Clone)]
pub struct Face {
    pub protocol: String,
    pub era: Era,
    pub abilities: Abilities,
    pub instructions: Option<(String, Arc<Definition>)>,
    pub tools: Vec<Item>,
    pub prompts: Vec<Item>,
    pub resources: Vec<Item>,
    pub templates: Vec<Item>,
    /// What was cut or dropped while listing; for the operator.
    pub remarks: Vec<String>,
    /// Every list is the server's own answer. What it could not list is not gone.
    pub is_whole: bool,
}

impl Face {
    /// Reads the worker's answers to `connect` and `catalog`. A list that the server could not give is as it was before.
    pub fn read(connected: &Bytes, catalog: &Bytes, before: Option<&Self>) -> Option<Self> {
        let hello = reparse(connected);
        let lists = reparse(catalog);
        let text = |key: &str| hello.get(key).and_then(Json::as_str);
        let era = if text("era")? == "modern" {
            Era::Modern
        } else {
            Era::Legacy
        };
        let failed = lists
            .get("failed")
            .filter(|failed| failed.fields().next().is_some());
        let list = |key: &str, name: &str, kept: fn(&Self) -> &Vec<Item>| -> Vec<Item> {
            match before.map(kept).filter(|kept| {
                !kept.is_empty() && failed.is_some_and(|failed| failed.get(key).is_some())
            }) {
                Some(kept) => kept.clone(),
                None => items(catalog, lists.get(key), name),
            }
        };
        Some(Self {
            protocol: text("protocol")?.into_owned(),
            era,
            abilities: Abilities::read(era, hello.get("capabilities").unwrap_or(reparse(b"{}"))),
            instructions: text("instructions").map(|text| {
                let definition = Definition::new(write::quoted(&text).into());
                (text.into_owned(), Arc::new(definition))
            }),
            tools: list("tools", "name", |face| &face.tools),
            prompts: list("prompts", "name", |face| &face.prompts),
            resources: list("resources", "uri", |face| &face.resources),
            templates: list("templates", "uriTemplate", |face| &face.templates),
            remarks: remarks(lists),
            is_whole: failed.is_none(),
        })
    }

    /// Everything whose text a person approves, each name once.
    pub fn definitions(&self) -> impl Iterator<Item = (Kind, &str, &Definition)> {
        let lists = [
            (Kind::Tool, &self.tools),
            (Kind::Prompt, &self.prompts),
            (Kind::Template, &self.templates),
        ];
        let items = lists
            .into_iter()
            .flat_map(|(kind, items)| items.iter().map(move |item| (kind, item)));
        let named = items.map(|(kind, item)| (kind, item.name.as_str(), &*item.definition));
        let instructions = self
            .instructions
            .iter()
            .map(|(_, definition)| (Kind::Instructions, "", &**definition));
        let mut seen = HashSet::new();
        named
            .chain(instructions)
            .filter(move |(kind, name, _)| seen.insert((*kind, *name)))
    }

    /// Whether every definition is the same in both.
    pub fn defines_the_same(&self, other: &Self) -> bool {
        let digests = |face: &Self| -> Vec<(Kind, String, String)> {
            let named = |(kind, name, definition): (Kind, &str, &Definition)| {
                (kind, name.to_owned(), definition.digest().to_owned())
            };
            let mut digests: Vec<_> = face.definitions().map(named).collect();
            digests.sort();
            digests
        };
        digests(self) == digests(other)
    }
}

fn items(source: &Bytes, list: Option<Json<'_>>, name: &str) -> Vec<Item> {
    let entries = list.into_iter().flat_map(Json::items);
    entries
        .filter_map(|json| {
            let name = json.get(name)?.as_str()?.into_owned();
            let raw = source.slice_ref(json.as_bytes());
            Some(Item {
                name,
                definition: Arc::new(Definition::new(raw.clone())),
                raw,
            })
        })
        .collect()
}

fn remarks(lists: Json<'_>) -> Vec<String> {
    let mut remarks = Vec::new();
    for list in lists.get("truncated").into_iter().flat_map(Json::items) {
        remarks.push(format!(
            "the list of {} was cut at this gate's limit",
            list.as_str().unwrap_or_default()
        ));
    }
    for (list, error) in lists.get("failed").into_iter().flat_map(Json::fields) {
        remarks.push(format!(
            "{list} could not be listed: {}",
            error.as_str().unwrap_or_default()
        ));
    }
    for dropped in lists.get("dropped").into_iter().flat_map(Json::items) {
        let text = |key: &str| dropped.get(key).and_then(Json::as_str).unwrap_or_default();
        remarks.push(format!(
            "tool `{}` dropped: {}",
            text("name"),
            text("reason")
        ));
    }
    remarks
}
