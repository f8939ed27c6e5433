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
    call::{Abilities, Call},
    catalog::Catalog,
    connect::{self, Spec},
    connection::Connection,
    forward::{self, Forward},
    incoming::known,
    methods::{Done, serve},
};
use crate::failure::{Failure, clip};

/// How long a request waits for the servers of the first line.
const SETTLING: Duration = Duration::from_secs(3);
const CALL: Duration = Duration::from_secs(60);
const SCHEMES: [&str; 2] = ["portcullis://", "capsem://"];

/// A server definition, with what it led to.
#[derive(Debug)]
struct Entry {
    name: String,
    url: String,
    enabled: bool,
    source: String,
    is_stdio: bool,
    generation: u64,
    catalog: Option<Rc<Catalog>>,
}

#[derive(Debug, Default)]
pub(crate) struct Seed {
    entries: RefCell<Vec<Entry>>,
    generation: Cell<u64>,
    settled: Cell<bool>,
    settling: Notify,
}

impl Seed {
    fn arrived(&self, name: &str, catalog: Rc<Catalog>) {
        if let Some(entry) = self.entries.borrow_mut().iter_mut().find(|entry| entry.name == name) {
            entry.catalog = Some(catalog);
        }
    }

    async fn settle(&self) {
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
        let text = |key| json.get(key).and_then(Json::as_str).unwrap_or_default().into_owned();
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
            true => match Spec::seed(&entry.name, generation, &entry.url, json.get("headers"), bearer.as_deref()) {
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
        name if before.iter().any(|other| other.entry.name == name) => Some("another server has the same name"),
        _ => None,
    }
}

/// Connects side by side. A server that cannot be reached is logged; the others go on.
///
/// With `eager` each server is in use as soon as it is there, without waiting for the rest.
async fn gather(aggregator: &Rc<Aggregator>, definitions: Vec<Definition>, eager: bool) -> Vec<(Entry, Option<Rc<Connection>>)> {
    let mut tasks = JoinSet::new();
    for Definition { mut entry, spec } in definitions {
        let aggregator = Rc::clone(aggregator);
        tasks.spawn_local(async move {
            let Some(spec) = spec else { return (entry, None) };
            match connect::connect(&aggregator, spec).await {
                Ok(conn) => {
                    let catalog = Rc::new(Catalog::fetch(&conn).await);
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
        Ok(_) => return skip_first(aggregator, "it is not a list of servers"),
        Err(error) => return skip_first(aggregator, &error.to_string()),
    };
    replace(aggregator, json);
}

fn skip_first(aggregator: &Rc<Aggregator>, problem: &str) {
    tracing::warn!("the first line is skipped: {problem}");
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
        *aggregator.seed.entries.borrow_mut() = wanted.iter().map(|one| one.entry.known()).collect();
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
fn swap(aggregator: &Rc<Aggregator>, generation: u64, gathered: Vec<(Entry, Option<Rc<Connection>>)>) {
    if aggregator.seed.generation.get() != generation {
        // A newer list came meanwhile; this one is history before it began.
        for conn in gathered.into_iter().filter_map(|(_, conn)| conn) {
            conn.close(Failure::upstream("a newer list of servers took over"), false);
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

    fn describe(&self, connected: bool) -> Vec<u8> {
        let count = |list: fn(&Catalog) -> usize| {
            let listed = self.catalog.as_ref().filter(|_| connected).map_or(0, |catalog| list(catalog));
            u64::try_from(listed).unwrap_or(u64::MAX)
        };
        let mut out = Object::new();
        out.str("name", &self.name).str("url", &self.url).bool("enabled", self.enabled).str("source", &self.source);
        out.bool("is_stdio", self.is_stdio).bool("unsupported_stdio", self.is_stdio).bool("connected", connected);
        out.u64("tool_count", count(|catalog| catalog.tools.len()));
        out.u64("resource_count", count(|catalog| catalog.resources.len()));
        out.u64("prompt_count", count(|catalog| catalog.prompts.len()));
        out.finish()
    }
}

/// Answers once the first servers have settled, with one row per thing found on connected servers.
fn listing(aggregator: &Rc<Aggregator>, id: u64, key: &'static str, rows: fn(&Entry, &mut Vec<Vec<u8>>, bool)) {
    let aggregator = Rc::clone(aggregator);
    tokio::task::spawn_local(async move {
        aggregator.seed.settle().await;
        let mut found = Vec::new();
        for entry in aggregator.seed.entries.borrow().iter() {
            let connected = aggregator.servers.get(&entry.name).is_some();
            rows(entry, &mut found, connected);
        }
        let mut list = vec![b'['];
        list.extend_from_slice(&found.join(&b','));
        list.push(b']');
        aggregator.hub.out.field(id, key, &list);
    });
}

pub(crate) fn list_servers(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "servers", |entry, rows, connected| rows.push(entry.describe(connected)));
}

pub(crate) fn list_tools(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "tools", |entry, rows, connected| {
        let catalog = entry.catalog.as_ref().filter(|_| connected);
        for tool in catalog.into_iter().flat_map(|catalog| &catalog.tools) {
            let tool = known(tool);
            let Some(mut row) = named_row(entry, tool) else { continue };
            row.json("description", tool.get("description").unwrap_or(Json::NULL));
            row.json("input_schema", tool.get("inputSchema").unwrap_or(Json::EMPTY_OBJECT));
            row.str("server_name", &entry.name);
            if let Some(annotations) = tool.get("annotations") {
                row.json("annotations", annotations);
            }
            rows.push(row.finish());
        }
    });
}

pub(crate) fn list_prompts(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "prompts", |entry, rows, connected| {
        let catalog = entry.catalog.as_ref().filter(|_| connected);
        for prompt in catalog.into_iter().flat_map(|catalog| &catalog.prompts) {
            let prompt = known(prompt);
            let Some(mut row) = named_row(entry, prompt) else { continue };
            row.json("description", prompt.get("description").unwrap_or(Json::NULL));
            row.raw("arguments", prompt.get("arguments").map_or(b"[]", Json::as_bytes));
            row.str("server_name", &entry.name);
            rows.push(row.finish());
        }
    });
}

/// The beginning of a row: both names. Things without a name are left out.
fn named_row(entry: &Entry, json: Json<'_>) -> Option<Object> {
    let name = json.get("name").and_then(Json::as_str).filter(|name| !name.is_empty())?;
    let mut row = Object::new();
    row.str("namespaced_name", &format!("{}__{name}", entry.name)).str("original_name", &name);
    Some(row)
}

pub(crate) fn list_resources(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, _: Json<'_>) {
    listing(aggregator, id, "resources", |entry, rows, connected| {
        let catalog = entry.catalog.as_ref().filter(|_| connected);
        for resource in catalog.into_iter().flat_map(|catalog| &catalog.resources) {
            let resource = known(resource);
            let Some(uri) = resource.get("uri").and_then(Json::as_str).filter(|uri| !uri.is_empty()) else { continue };
            let mut row = Object::new();
            row.str("namespaced_uri", &format!("portcullis://{}/{uri}", entry.name)).str("original_uri", &uri);
            row.json("name", resource.get("name").unwrap_or(Json::NULL));
            row.json("description", resource.get("description").unwrap_or(Json::NULL));
            row.json("mime_type", resource.get("mimeType").unwrap_or(Json::NULL));
            row.str("server_name", &entry.name);
            rows.push(row.finish());
        }
    });
}

pub(crate) fn call_tool(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    named_call(aggregator, id, params, "tools/call", "tool");
}

pub(crate) fn get_prompt(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    named_call(aggregator, id, params, "prompts/get", "prompt");
}

fn named_call(aggregator: &Rc<Aggregator>, id: u64, params: Json<'_>, method: &'static str, thing: &'static str) {
    let name = params.get("name").and_then(Json::as_str).unwrap_or_default();
    let Some((server, own)) = vocab::split_double(&name) else {
        return aggregator.hub.out.error(id, &format!("invalid namespaced {thing} name: {}", clip(&name)));
    };
    let mut body = Object::new();
    body.str("name", own);
    // An empty set of arguments is sent as none.
    if let Some(arguments) = params.get("arguments").filter(|arguments| arguments.fields().next().is_some()) {
        body.json("arguments", arguments);
    }
    plain_call(aggregator, id, server.to_owned(), method, body.finish().into(), format!("{thing} call '{}' failed", clip(&name)));
}

pub(crate) fn read_resource(aggregator: &Rc<Aggregator>, id: u64, _: &Bytes, params: Json<'_>) {
    let uri = params.get("uri").and_then(Json::as_str).unwrap_or_default();
    let rest = SCHEMES.iter().find_map(|scheme| uri.strip_prefix(scheme));
    let Some((server, own)) =
        rest.and_then(|rest| rest.split_once('/')).filter(|(server, own)| !server.is_empty() && !own.is_empty())
    else {
        return aggregator.hub.out.error(id, &format!("invalid namespaced resource URI: {}", clip(&uri)));
    };
    let mut body = Object::new();
    body.str("uri", own);
    let failed = format!("reading '{}' failed", clip(&uri));
    plain_call(aggregator, id, server.to_owned(), "resources/read", body.finish().into(), failed);
}

/// A call without a client behind it. Its errors are plain text, prefixed with what was tried.
fn plain_call(aggregator: &Rc<Aggregator>, id: u64, server: String, method: &'static str, params: Bytes, failed: String) {
    let aggregator = Rc::clone(aggregator);
    let call = Rc::new(Call::new(id, String::new(), Abilities::default(), false, CALL));
    aggregator.began(&call);
    tokio::task::spawn_local(async move {
        aggregator.seed.settle().await;
        let outcome = match lookup(&aggregator, &server) {
            Err(failure) => Err(failure.text),
            Ok(conn) => {
                let forward = Forward::plain(method, Some(params.clone()));
                let ran = match forward::prepare(&conn, &call, &forward, Some(known(&params))) {
                    Ok(first) => forward::run(&conn, &call, &forward, first).await,
                    Err(failure) => Err(failure),
                };
                ran.map_err(|failure| format!("{failed}: {failure}"))
            }
        };
        aggregator.ended(&call);
        match outcome {
            Ok(result) => aggregator.hub.out.result(id, &result),
            Err(text) => aggregator.hub.out.error(id, &text),
        }
    });
}

fn lookup(aggregator: &Aggregator, server: &str) -> Result<Rc<Connection>, Failure> {
    if let Some(conn) = aggregator.servers.get(server) {
        return Ok(conn);
    }
    let known = aggregator.seed.entries.borrow().iter().any(|entry| entry.name == server);
    let state = if known { "connected" } else { "found" };
    Err(Failure::not_found(format!("server not {state}: {server}")))
}
