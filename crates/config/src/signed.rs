//! `security_contexts`, `agents`, `builtin_dispatchers` and `seal`, lowered to what the policy crate examines.
//!
//! Every pattern is read here, with its place, so that nothing that bounds a call can turn out unreadable when one is made.

mod agents;
mod contexts;
mod dispatchers;
mod idle;

use std::{collections::BTreeMap, path::Path, time::Duration};

pub(super) use agents::agents;
pub(crate) use agents::{idle_in_manifest, read_manifest};
pub(super) use contexts::contexts;
pub(super) use dispatchers::dispatchers;
use gateway::settings::SealTerms;
use policy::context::{BadPattern, Subcommands};
use wire::builtin::Family;

use super::{
    fields::Fields,
    finding::Finding,
    keys::Key,
    resolve::path_at,
    resolved::{KeyFiles, NamedFile},
    tree::{self, Node, Value},
};

/// The entries of a map, or of a list whose items carry a name: what each is called, and its fields.
pub(super) fn named<'a>(
    node: Option<&'a Node>,
    mapped: &'static [Key],
    listed: &'static [Key],
    what: &str,
    findings: &mut Vec<Finding>,
) -> Vec<(tree::Key, Fields<'a>)> {
    let mut found: Vec<(tree::Key, Fields<'a>)> = Vec::new();
    match node.map(|node| &node.value) {
        Some(Value::Map(entries)) => {
            found.extend(
                entries
                    .iter()
                    .map(|(key, node)| (key.clone(), Fields::new(Some(node), mapped))),
            );
        }
        Some(Value::List(items)) => {
            for item in items.iter().filter(|item| item.entries().is_some()) {
                match item
                    .get("name")
                    .and_then(|name| Some((name.text()?, name.place)))
                {
                    Some((name, place)) => {
                        found.push((
                            tree::Key {
                                name: name.to_owned(),
                                place,
                            },
                            Fields::new(Some(item), listed),
                        ));
                    }
                    None => findings.push(Finding::error(
                        item.place,
                        format!("{what} in a list has a `name`"),
                        "add `name: …`",
                    )),
                }
            }
        }
        _ => {}
    }
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    for (key, _) in &found {
        if let Some(line) = seen.insert(&key.name, key.place.line) {
            let what = format!("`{}` is already defined on line {line}", key.name);
            findings.push(Finding::error(key.place, what, "rename one of the two"));
        }
    }
    found
}

/// What is written under a key, read item by item. `None`: nothing is, and so nothing is bounded.
fn patterns<T>(
    fields: Fields<'_>,
    name: &str,
    parse: impl Fn(&str) -> Result<T, BadPattern>,
    findings: &mut Vec<Finding>,
) -> Option<Vec<T>> {
    fields.node(name)?;
    Some(
        fields
            .items(name)
            .iter()
            .filter_map(|node| pattern(node, &parse, findings))
            .collect(),
    )
}

fn pattern<T>(
    node: &Node,
    parse: impl Fn(&str) -> Result<T, BadPattern>,
    findings: &mut Vec<Finding>,
) -> Option<T> {
    let text = node.text()?;
    if let kind @ ("a number" | "a boolean") = node.describe() {
        let what = format!("`{text}` is {kind}, and matches nothing");
        findings.push(Finding::error(
            node.place,
            what,
            "write what it stands for, or put it in quotes if that is its name",
        ));
        return None;
    }
    parse(text)
        .map_err(|bad| {
            findings.push(Finding::error(
                node.place,
                format!("`{text}` cannot be read"),
                bad.0,
            ))
        })
        .ok()
}

/// Whether a text is the word of a family of tools, and so no name of a tool.
fn is_family(text: &str) -> bool {
    Family::from_word(text).is_some()
}

fn texts(fields: Fields<'_>, name: &str) -> Option<Vec<String>> {
    fields.node(name).map(|_| fields.texts(name))
}

fn subcommands(fields: Fields<'_>) -> Option<Subcommands> {
    let node = fields.node("subcommand_allowlist")?;
    let list = |node: &Node| {
        node.items()
            .unwrap_or_default()
            .iter()
            .filter_map(Node::text)
            .map(str::to_owned)
            .collect()
    };
    Some(match &node.value {
        Value::List(_) => Subcommands::ForAll(list(node)),
        _ => {
            let entries = node.entries().unwrap_or_default().iter();
            Subcommands::ByCommand(
                entries
                    .map(|(key, node)| (key.name.clone(), list(node)))
                    .collect(),
            )
        }
    })
}

fn count(fields: Fields<'_>, name: &str) -> Option<u64> {
    fields.node(name).map(|_| fields.count(name))
}

fn size(fields: Fields<'_>, name: &str) -> Option<u64> {
    fields.node(name).map(|_| fields.size(name))
}

/// A tenant's slug: lower-case words joined by single dashes.
pub(super) fn tenant(fields: Fields<'_>, findings: &mut Vec<Finding>) -> Option<String> {
    let node = fields.node("tenant")?;
    let text = node.text()?;
    let is_word = |word: &str| {
        !word.is_empty()
            && word
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if text.len() > 64 || !text.split('-').all(is_word) {
        let what = format!("`{text}` cannot be a tenant");
        findings.push(Finding::error(
            node.place,
            what,
            "use lower-case words joined by single `-`",
        ));
    }
    Some(text.to_owned())
}

/// The files of the keys that sign tokens, if the file names them.
pub(super) fn seal_keys(
    fields: Fields<'_>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Option<KeyFiles> {
    let mut file = |name| {
        let node = fields.node(name)?;
        path_at(node, base, findings).map(|path| NamedFile {
            path,
            place: node.place,
        })
    };
    let (private, public) = (file("private_key_path"), file("public_key_path"));
    if let (None, Some(node)) = (&private, fields.node("public_key_path")) {
        let what = "`seal.public_key_path` needs `seal.private_key_path`: tokens are signed here";
        findings.push(Finding::error(node.place, what, "write both, or neither"));
    }
    private.map(|private| KeyFiles { private, public })
}

pub(super) fn seal(fields: Fields<'_>, findings: &mut Vec<Finding>) -> SealTerms {
    if let Some(node) = fields
        .node("issuer")
        .filter(|node| node.text().is_some_and(|text| text.trim().is_empty()))
    {
        findings.push(Finding::error(
            node.place,
            "`seal.issuer` is empty",
            "write who signs, or remove the key",
        ));
    }
    let audiences = texts(fields, "audiences").unwrap_or_else(|| vec!["aegis-agents".to_owned()]);
    if let (true, Some(node)) = (audiences.is_empty(), fields.node("audiences")) {
        findings.push(Finding::error(
            node.place,
            "`seal.audiences` is empty, so no token is for anybody",
            "name one, or remove the key",
        ));
    }
    SealTerms {
        issuer: fields.text("issuer").to_owned(),
        audiences,
        ttl: Duration::from_secs(fields.count("token_ttl_seconds")),
        max_sessions_per_workload: usize::try_from(fields.count("max_sessions_per_workload"))
            .unwrap_or(usize::MAX),
    }
}
