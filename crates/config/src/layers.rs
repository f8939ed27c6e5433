//! The files that a configuration is made of: what a company says, what the person says, what was imported.
//!
//! Weakest first: what is built in, the company's file, the person's, the imported one. Maps are merged by name, lists and values replace.
//! The company may lock paths: what the person wrote there is passed over and named, so that a new lock never stops a gate. The imported
//! file only adds servers that nobody else has. Nothing here reads a file or trusts one: whoever hands in the company's text has verified
//! its signature.
//!
//! **Invariant: nothing below a lock comes from another file than the company's.** Tests `what_is_forbidden_is_blocked_wherever_it_stands`,
//! `ten_thousand_merges_equal_a_plain_model`.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use gateway::settings::ServerSpec;

use super::{
    Finding, Place, Raw, Report, Resolved,
    corp::{self, Corp},
    tree::{Key, Node, Value},
};

/// The person's file.
pub const USER: u8 = 0;
/// The company's.
pub const CORP: u8 = 1;
/// What was imported from other programs.
pub const IMPORTED: u8 = 2;

/// Maps that may also be written as a list of items with a `name`.
const NAMED: [&str; 4] = [
    "mcp_servers",
    "volumes",
    "security_contexts",
    "builtin_dispatchers",
];

/// What a person calls a layer.
#[must_use]
pub const fn name(layer: u8) -> &'static str {
    match layer {
        CORP => "corp",
        IMPORTED => "imported",
        _ => "user",
    }
}

/// What the other files say beside their part of the tree.
#[derive(Debug, Clone, Default)]
pub struct Layers {
    pub files: Vec<Other>,
    pub corp: Arc<Corp>,
    /// What the person wrote, or imported, and does not count.
    pub passed_over: Vec<PassedOver>,
    /// What else whoever reads the configuration must know.
    pub notes: Vec<String>,
}

/// A file beside the person's own.
#[derive(Debug, Clone)]
pub struct Other {
    pub layer: u8,
    pub file: PathBuf,
    pub text: String,
}

/// Something that is written and does not count, because of a lock or of another server.
#[derive(Debug, Clone)]
pub struct PassedOver {
    pub path: String,
    pub node: Node,
    /// Where its name stands.
    pub place: Place,
    pub why: String,
}

impl Layers {
    /// The lock that a path is under, if any.
    #[must_use]
    pub fn lock(&self, path: &[&str]) -> Option<&corp::Lock> {
        self.corp.lock(path)
    }

    /// The same for a path with dots, as `config explain` shows it.
    #[must_use]
    pub fn lock_of(&self, path: &str) -> Option<&corp::Lock> {
        self.lock(&path.split('.').collect::<Vec<_>>())
    }

    /// The name of the file that a place is in, without directories.
    #[must_use]
    pub fn file_of(&self, own: &Path, place: Place) -> String {
        let other = self.files.iter().find(|other| other.layer == place.layer);
        let file = other.map_or(own, |other| other.file.as_path());
        file.file_name().map_or_else(
            || file.display().to_string(),
            |name| name.to_string_lossy().into_owned(),
        )
    }

    /// What no server may be, whoever wrote it, and which may be called at all; and what was passed over.
    pub(super) fn hold(&self, resolved: &mut Resolved) {
        let mut findings = Vec::new();
        for server in &mut resolved.servers {
            let place = resolved
                .places
                .get(server.id.as_str())
                .copied()
                .unwrap_or(Place::start());
            if place.layer == CORP {
                continue;
            }
            if let Some(why) = self.corp.forbids(&server.transport) {
                findings.push(Finding::warning(
                    place,
                    format!("`{}` is blocked: {why}", server.id),
                    "remove it, or ask whoever signs corp.yaml",
                ));
                Arc::make_mut(&mut server.target).blocked.get_or_insert(why);
            }
            if server.classification.is_some()
                && let Err(why) = self.may_be_classified(server)
            {
                findings.push(Finding::warning(
                    place,
                    format!("`{}` stays UNTRUSTED: {why}", server.id),
                    "ask whoever signs corp.yaml to approve it",
                ));
                Arc::make_mut(&mut server.target).classification = None;
            }
        }
        findings.extend(self.passed_over.iter().map(|passed| {
            Finding::warning(
                passed.place,
                format!("`{}` does not count: {}", passed.path, passed.why),
                "remove it here",
            )
        }));
        let note =
            |note: &String| Finding::warning(Place::start(), note.as_str(), "ask whoever signs it");
        findings.extend(self.notes.iter().map(note));
        resolved.warnings.extend(findings);
    }

    /// Whether the company's registry, if there is one, lets this server have the level it has; or why not.
    fn may_be_classified(&self, server: &ServerSpec) -> Result<(), String> {
        self.corp
            .approves(server.id.as_str(), &server.transport, server.classification)
    }

    /// Why the company does not let a server be as it is written, if so.
    #[must_use]
    pub fn refuses(&self, raw: &Raw, resolved: &Resolved, id: &str) -> Option<String> {
        let server = resolved.server(id)?;
        let (place, node) = raw.server(id)?;
        if place.layer == CORP {
            return None;
        }
        let level = node.get("classification").and_then(Node::text);
        let level = level.and_then(|level| level.parse().ok());
        self.corp.forbids(&server.transport).or_else(|| {
            level?;
            self.corp.approves(id, &server.transport, level).err()
        })
    }

    /// What does not count here and did before, or was not there: an edit that changes nothing but what is locked.
    #[must_use]
    pub fn newly_passed_over(&self, before: &Self) -> Option<&PassedOver> {
        self.passed_over.iter().find(|passed| {
            !before
                .passed_over
                .iter()
                .any(|known| known.path == passed.path && known.node.same_content(&passed.node))
        })
    }
}

/// The configuration that the files are together. A mistake in one of them is reported with its name.
pub fn merge(user: Raw, corp: Option<Raw>, imported: Option<Raw>) -> Result<Raw, Report> {
    let mut layers = Layers::default();
    let mut below = None;
    if let Some(raw) = corp {
        let (terms, rest) = corp::read(raw.root.clone().in_layer(CORP));
        let terms = terms.map_err(|findings| raw.report(in_own_file(findings)))?;
        layers.corp = Arc::new(terms);
        layers.files.push(other(CORP, &raw));
        below = Some(rest);
    }
    let mut own = user.root;
    // What the file itself says and this gate has nothing for.
    let mut passed_over = user.layers.passed_over;
    pass_over(&mut own, &mut Vec::new(), &layers.corp, &mut passed_over);
    let mut root = match below {
        Some(below) => over(below, own, true),
        None => own,
    };
    if let Some(raw) = imported {
        let mut node = raw.root.clone().in_layer(IMPORTED);
        pass_over(&mut node, &mut Vec::new(), &layers.corp, &mut passed_over);
        add_servers(&mut root, node, &mut passed_over);
        layers.files.push(other(IMPORTED, &raw));
    }
    layers.passed_over = passed_over;
    Ok(Raw {
        root,
        layers,
        ..user
    })
}

fn other(layer: u8, raw: &Raw) -> Other {
    Other {
        layer,
        file: raw.file.clone(),
        text: raw.text.clone(),
    }
}

/// Findings of one file alone, to be shown with that file.
fn in_own_file(findings: Vec<Finding>) -> Vec<Finding> {
    let own = |mut finding: Finding| {
        finding.place.layer = USER;
        finding
    };
    findings.into_iter().map(own).collect()
}

/// Takes out of a tree what stands at locked paths.
fn pass_over(
    node: &mut Node,
    path: &mut Vec<String>,
    corp: &Corp,
    passed_over: &mut Vec<PassedOver>,
) {
    let mut keep = |name: &str, place: Place, child: &mut Node| {
        path.push(name.to_owned());
        let words: Vec<&str> = path.iter().map(String::as_str).collect();
        let is_kept = match corp.lock(&words) {
            Some(lock) => {
                passed_over.push(PassedOver {
                    path: path.join("."),
                    node: child.clone(),
                    place,
                    why: lock.to_string(),
                });
                false
            }
            None => {
                pass_over(child, path, corp, passed_over);
                true
            }
        };
        path.pop();
        is_kept
    };
    match &mut node.value {
        Value::Map(entries) => entries.retain_mut(|(key, child)| keep(&key.name, key.place, child)),
        Value::List(items) => items.retain_mut(|item| {
            let Some(name) = item.get("name").and_then(Node::text).map(str::to_owned) else {
                return true;
            };
            keep(&name, item.place, item)
        }),
        Value::Scalar { .. } => {}
    }
}

/// One tree laid over another. `is_top`: these are the tops of files.
fn over(below: Node, above: Node, is_top: bool) -> Node {
    if above.is_null() {
        return below;
    }
    match (below.value, above.value) {
        (Value::Map(mut lower), Value::Map(upper)) => {
            for (key, child) in upper {
                let at = lower.iter().position(|(known, _)| known.name == key.name);
                let taken = at.map(|at| lower.remove(at));
                let child = match taken {
                    Some((_, node)) if is_top && NAMED.contains(&key.name.as_str()) => {
                        over_named(node, child)
                    }
                    Some((_, node)) => over(node, child, false),
                    None => child,
                };
                let at = at.unwrap_or(lower.len());
                lower.insert(at, (key, child));
            }
            Node {
                place: above.place,
                value: Value::Map(lower),
            }
        }
        (_, value) => Node {
            place: above.place,
            value,
        },
    }
}

/// The same for what may be a map or a list of named items: it stays what the one above is.
fn over_named(below: Node, above: Node) -> Node {
    if above.is_null() {
        return below;
    }
    match (&below.value, &above.value) {
        (Value::List(_), Value::Map(_))
        | (Value::Map(_), Value::List(_))
        | (Value::List(_), Value::List(_)) => {
            let place = above.place;
            let mut items = items(below);
            for item in self::items(above) {
                let name = item.get("name").and_then(Node::text);
                let at = items
                    .iter()
                    .position(|known| known.get("name").and_then(Node::text) == name);
                match at.map(|at| (at, items.remove(at))) {
                    Some((at, known)) => items.insert(at, over(known, item, false)),
                    None => items.push(item),
                }
            }
            Node {
                place,
                value: Value::List(items),
            }
        }
        _ => over(below, above, false),
    }
}

/// The entries of a map as items with a name.
fn items(node: Node) -> Vec<Node> {
    match node.value {
        Value::List(items) => items,
        Value::Map(entries) => entries
            .into_iter()
            .map(|(key, mut node)| {
                let name = Node {
                    place: key.place,
                    value: Value::Scalar {
                        text: key.name,
                        plain: false,
                    },
                };
                let key = Key {
                    name: "name".to_owned(),
                    place: key.place,
                };
                if node.is_null() {
                    node.value = Value::Map(Vec::new());
                }
                if let Value::Map(entries) = &mut node.value {
                    entries.insert(0, (key, name));
                }
                node
            })
            .collect(),
        Value::Scalar { .. } => Vec::new(),
    }
}

/// What a server is called in either form, with `-` and `_` alike: two ids must not share it.
fn folded(name: &str) -> String {
    name.replace('-', "_")
}

/// The servers of the imported file that nobody else has. Everything else in it does not count.
fn add_servers(root: &mut Node, imported: Node, passed_over: &mut Vec<PassedOver>) {
    let mut passes_over = |path: String, place: Place, node: Node, why: &str| {
        passed_over.push(PassedOver {
            path,
            node,
            place,
            why: why.to_owned(),
        });
    };
    let Value::Map(entries) = imported.value else {
        return;
    };
    for (key, node) in entries {
        if key.name != "mcp_servers" {
            passes_over(key.name, key.place, node, "this file only adds servers");
            continue;
        }
        let mut known: Vec<String> =
            root.get("mcp_servers")
                .map_or_else(Vec::new, |servers| match &servers.value {
                    Value::Map(entries) => {
                        entries.iter().map(|(key, _)| folded(&key.name)).collect()
                    }
                    Value::List(items) => items
                        .iter()
                        .filter_map(|item| Some(folded(item.get("name")?.text()?)))
                        .collect(),
                    Value::Scalar { .. } => Vec::new(),
                });
        let Value::Map(servers) = node.value else {
            continue;
        };
        let mut added = Vec::new();
        for (id, server) in servers {
            if known.contains(&folded(&id.name)) {
                let path = format!("mcp_servers.{}", id.name);
                passes_over(
                    path,
                    id.place,
                    server,
                    "another file has a server of this id",
                );
            } else {
                known.push(folded(&id.name));
                added.push((id, server));
            }
        }
        let added = Node {
            place: node.place,
            value: Value::Map(added),
        };
        let Value::Map(top) = &mut root.value else {
            return;
        };
        match top.iter_mut().find(|(known, _)| known.name == key.name) {
            Some((_, servers)) if servers.is_null() => *servers = added,
            Some((_, servers)) => match &mut servers.value {
                Value::List(own) => own.extend(items(added)),
                Value::Map(own) => {
                    if let Value::Map(added) = added.value {
                        own.extend(added);
                    }
                }
                Value::Scalar { .. } => {}
            },
            None => top.push((key, added)),
        }
    }
}

#[cfg(test)]
mod tests;
