//! The aggregator's own nine methods: a list of servers to begin with, catalogues by namespaced name, calls by namespaced name.

use std::{
    cell::{Cell, RefCell},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::{sync::Notify, task::JoinSet, time::timeout};
use wire::{Json, Limits, write::Object};

use super::{
    Aggregator,
    catalog::Catalog,
    connect::{self, Spec},
    connection::Connection,
    methods::{Done, serve},
};
use crate::failure::{Failure, clip};

/// How long a request waits for the servers of the first line.
const SETTLING: Duration = Duration::from_secs(3);

/// A server definition, with what it led to.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    url: String,
    enabled: bool,
    source: String,
    is_stdio: bool,
    generation: u64,
    pub(super) catalog: Option<Rc<Catalog>>,
}

#[derive(Debug, Default)]
pub(crate) struct Seed {
    pub(super) entries: RefCell<Vec<Entry>>,
    generation: Cell<u64>,
    settled: Cell<bool>,
    settling: Notify,
}

impl Seed {
    fn arrived(&self, name: &str, catalog: Rc<Catalog>) {
        if let Some(entry) = self
            .entries
            .borrow_mut()
            .iter_mut()
            .find(|entry| entry.name == name)
        {
            entry.catalog = Some(catalog);
        }
    }

    pub(super) async fn settle(&self) {
        let settled = async {
            while !self.settled.get() {
                self.settling.notified().await;
            }
        };
        let _ = timeout(SETTLING, settled).await;
    }
}

/// A definition as read from a line, and how to connect to it if it is to be connected.
struct Definition {
    entry: Entry,
    spec: Option<Spec>,
}

fn definitions(list: Json<'_>, generation: u64) -> Vec<Definition> {
    let mut found: Vec<Definition> = Vec::new();
    for json in list.items() {
        let text = |key| {
            json.get(key)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .into_owned()
        };
        let flag = |key, default| json.get(key).and_then(Json::as_bool).unwrap_or(default);
        let name = text("name");
        if let Some(reason) = bad_name(&name, &found) {
            tracing::warn!(server = %clip(&name), "the server is skipped: {reason}");
            continue;
        }
        let entry = Entry {
            url: text("url"),
            enabled: flag("enabled", true),
            source: text("source"),
            is_stdio: flag("unsupported_stdio", false),
            generation,
            catalog: None,
            name,
        };
        let bearer = json.get("bearer_token").and_then(Json::as_str);
        let spec = match entry.enabled && !entry.is_stdio {
            false => None,
            true => match Spec::seed(
                &entry.name,
                generation,
                &entry.url,
                json.get("headers"),
                bearer.as_deref(),
            ) {
                Ok(spec) => Some(spec),
                Err(failure) => {
                    tracing::warn!(server = %entry.name, "the server is not connected: {failure}");
                    None
                }
            },
        };
        found.push(Definition { entry, spec });
    }
    found
}

fn bad_name(name: &str, before: &[Definition]) -> Option<&'static str> {
    match name {
        "" => Some("its name is empty"),
        "builtin" => Some("its name is reserved"),
        name if name.contains("__") => Some("its name contains `__`"),
        name if before.iter().any(|other| other.entry.name == name) => {
            Some("another server has the same name")
        }
        _ => None,
    }
}

/// Connects side by side. A server that cannot be reached is logged; the others go on.
///
/// With `eager` each server is in use as soon as it is there, without waiting for the rest.
async fn gather(
    aggregator: &Rc<Aggregator>,
    definitions: Vec<Definition>,
    eager: bool,
) -> Vec<(Entry, Option<Rc<Connection>>)> {
    let mut tasks = JoinSet::new();
    for Definition { mut entry, spec } in definitions {
        let aggregator = Rc::clone(aggregator);
        tasks.spawn_local(async move {
            let Some(spec) = spec else {
                return (entry, None);
            };
            match connect::connect(&aggregator, spec).await {
                Ok(conn) => {
                    let catalog = Rc::new(Box::pin(Catalog::fetch(&conn)).await);
                    entry.catalog = Some(Rc::clone(&catalog));
                    if eager {
                        aggregator.seed.arrived(&entry.name, catalog);
                        aggregator.servers.add(Rc::clone(&conn));
                    }
                    (entry, Some(conn))
                }
                Err(failure) => {
                    tracing::warn!(server = %entry.name, "the server cannot be reached: {failure}");
                    (entry, None)
                }
            }
        });
    }
    let mut gathered: Vec<_> = tasks.join_all().await;
    gathered.sort_by(|(a, _), (b, _)| a.name.cmp(&b.name));
    gathered
}

/// The first line: the servers to begin with.
pub(crate) fn begin(aggregator: &Rc<Aggregator>, text: &Bytes) {
    let json = match Json::parse(text, Limits::new(text.len(), wire::worker::DEPTH)) {
        Ok(json) if json.is_array() => json,
        Ok(json) => {
            let id = json.get("id").and_then(Json::as_u64);
            return skip_first(
                aggregator,
                id,
                "the first line must be a list of servers, and this one is none",
            );
        }
        Err(error) => {
            let id = wire::worker::salvage_id(text.get(..text.len().min(256)).unwrap_or_default());
            return skip_first(
                aggregator,
                id,
                &format!("the first line is not valid JSON: {error}"),
            );
        }
    };
    replace(aggregator, json);
}

fn skip_first(aggregator: &Rc<Aggregator>, id: Option<u64>, problem: &str) {
    aggregator.complain(id, problem);
    aggregator.seed.settled.set(true);
    aggregator.seed.settling.notify_waiters();
}

fn replace(aggregator: &Rc<Aggregator>, list: Json<'_>) -> tokio::task::JoinHandle<()> {
    let generation = aggregator.seed.generation.get() + 1;
    aggregator.seed.generation.set(generation);
    let wanted = definitions(list, generation);
    let first = generation == 1;
    if first {
        // Until they are connected, the servers of the first line are known and not connected.
        *aggregator.seed.entries.borrow_mut() =
            wanted.iter().map(|one| one.entry.known()).collect();
    }
    let aggregator = Rc::clone(aggregator);
    tokio::task::spawn_local(async move {
        let gathered = gather(&aggregator, wanted, first).await;
        swap(&aggregator, generation, gathered);
        aggregator.seed.settled.set(true);
        aggregator.seed.settling.notify_waiters();
    })
}

/// The new set takes over in one step; then the old one is let go.
fn swap(
    aggregator: &Rc<Aggregator>,
    generation: u64,
    gathered: Vec<(Entry, Option<Rc<Connection>>)>,
) {
    if aggregator.seed.generation.get() != generation {
        // A newer list came meanwhile; this one is history before it began.
        for conn in gathered.into_iter().filter_map(|(_, conn)| conn) {
            conn.close(
                Failure::upstream("a newer list of servers took over"),
                false,
            );
        }
        return;
    }
    let mut entries = Vec::new();
    for (entry, conn) in gathered {
        if let Some(conn) = conn {
            aggregator.servers.add(conn);
        }
        entries.push(entry);
    }
    for old in aggregator.seed.entries.replace(entries) {
        if old.generation != generation {
            aggregator.servers.remove(&old.name, old.generation);
        }
    }
}

pub(crate) fn refresh(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let Some(list) = params.get("servers").filter(|list| list.is_array()) else {
        return aggregator.hub.out.error(id, "`servers` must be a list");
    };
    let replaced = replace(aggregator, list);
    serve(aggregator, id, async move {
        let _ = replaced.await;
        Ok(Done::Ok)
    });
}

impl Entry {
    fn known(&self) -> Self {
        Self {
            name: self.name.clone(),
            url: self.url.clone(),
            enabled: self.enabled,
            source: self.source.clone(),
            is_stdio: self.is_stdio,
            generation: self.generation,
            catalog: None,
        }
    }

    pub(super) fn describe(&self, connected: bool) -> Vec<u8> {
        let count = |list: fn(&Catalog) -> usize| {
            let listed = self
                .catalog
                .as_ref()
                .filter(|_| connected)
                .map_or(0, |catalog| list(catalog));
            u64::try_from(listed).unwrap_or(u64::MAX)
        };
        let mut out = Object::new();
        out.str("name", &self.name)
            .str("url", &self.url)
            .bool("enabled", self.enabled)
            .str("source", &self.source);
        out.bool("is_stdio", self.is_stdio)
            .bool("unsupported_stdio", self.is_stdio)
            .bool("connected", connected);
        out.u64("tool_count", count(|catalog| catalog.tools.len()));
        out.u64("resource_count", count(|catalog| catalog.resources.len()));
        out.u64("prompt_count", count(|catalog| catalog.prompts.len()));
        out.finish()
    }
}
