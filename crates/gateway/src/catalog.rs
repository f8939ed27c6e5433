//! The catalog: what every server offers, under every name it is shown by.
//!
//! A catalog is an immutable value, built when something changes and swapped in whole. Routing a call is one lookup in it: never a
//! split, never a walk over servers. Items are the upstream's own text; only the name or URI is spliced.

mod build;
pub(crate) mod builtin;
pub(crate) mod definition;
mod face;
mod headers;
mod routes;
mod snapshot;

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use vocab::{Effect, Mark, ServerId, View, split_double};
use wire::{Json, Limits, mcp::TASKS_EXTENSION, write::Object};

pub(crate) use build::Basis;
pub(crate) use face::{Face, Item};
pub use headers::HeaderParam;
pub(crate) use routes::dotted_names;
pub(crate) use snapshot::Snapshots;

use crate::{Caller, ask::Era, meters::Metered, pins::Standing, settings::ServerSpec, words::mark_of};
use definition::Definition;
use routes::Routes;

/// The scheme under which resources of many servers are shown side by side.
const SCHEME: &str = "portcullis://";
/// A scheme of the same form that we accept as well.
const SCHEME_ALIAS: &str = "capsem://";

/// One line of a list, as a client sees it.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: String,
    /// The item's JSON with its name or URI as shown.
    pub raw: Bytes,
    pub server: ServerId,
    /// Who may see it, if not everybody.
    pub tenant: Option<Arc<str>>,
}

/// Where a name leads: a server, and the name that server knows.
#[derive(Debug)]
pub(crate) struct Target {
    pub(crate) spec: Arc<ServerSpec>,
    pub(crate) name: String,
    /// The upstream speaks the stateless revision.
    pub(crate) era: Option<Era>,
    header_params: Vec<HeaderParam>,
    /// What the server says it is, for what has a definition.
    pub(crate) definition: Option<Arc<Definition>>,
    pub(crate) standing: Standing,
    /// What calling it does to the world.
    pub(crate) effect: Effect,
    /// Whether what the server says may be anyone's words.
    pub(crate) is_open_world: bool,
    pub(crate) meters: Metered,
}

impl Target {
    /// Something of a server that has no definition of its own: a resource, or what has not been shown yet.
    fn plain(spec: Arc<ServerSpec>, name: &str, era: Option<Era>, is_open_world: bool, meters: Metered) -> Self {
        Self {
            spec,
            name: name.to_owned(),
            era,
            header_params: Vec::new(),
            definition: None,
            standing: Standing::Approved,
            effect: Effect::Read,
            is_open_world,
            meters,
        }
    }

    /// Something of a server that has shown no catalog.
    pub(crate) fn unseen(spec: Arc<ServerSpec>, name: &str) -> Self {
        Self::plain(spec, name, None, true, Metered::default())
    }

    /// The digest of its definition; empty where it has none.
    pub(crate) fn digest(&self) -> &str {
        self.definition.as_deref().map_or("", Definition::digest)
    }

    /// What its results carry.
    pub(crate) fn mark(&self) -> Mark {
        mark_of(&self.spec, self.is_open_world)
    }
}

#[derive(Debug, Default)]
struct Lists {
    tools: Vec<Listed>,
    prompts: Vec<Listed>,
    resources: Vec<Listed>,
    templates: Vec<Listed>,
}

type Table = HashMap<Box<str>, Arc<Target>>;

/// A name refused, and why; for the operator.
#[derive(Debug, Clone)]
pub struct RefusedName {
    pub server: ServerId,
    pub name: String,
    pub reason: String,
}

#[derive(Debug, Default)]
struct ViewTables {
    lists: Lists,
    tools: Table,
    prompts: Table,
}

/// One server seen on its own, under its own names.
#[derive(Debug)]
struct Mounted {
    spec: Arc<ServerSpec>,
    /// `None` until the server has connected once, now or in an earlier run.
    face: Option<Arc<Face>>,
    tables: ViewTables,
    resources: Table,
    is_open_world: bool,
    /// What the server's rate limit counts.
    meters: Metered,
    /// Its instructions, if they are as approved.
    instructions: Option<String>,
}

#[derive(Debug, Default)]
pub struct Catalog {
    double: ViewTables,
    flat: ViewTables,
    servers: HashMap<ServerId, Mounted>,
    /// Upstream URIs that only one server offers, so that links inside results can be followed.
    unambiguous_uris: Table,
    refused: Vec<RefusedName>,
    /// Dotted names, by the capabilities that servers declare.
    routes: Routes,
}

/// Which names a caller uses.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Names<'a> {
    pub(crate) mount: Option<&'a ServerId>,
    pub(crate) view: View,
    pub(crate) tenant: Option<&'a str>,
}

impl Catalog {
    fn tables(&self, names: Names<'_>) -> Option<&ViewTables> {
        match (names.mount, names.view) {
            (Some(id), _) => self.servers.get(id).map(|mounted| &mounted.tables),
            (None, View::Flat) => Some(&self.flat),
            (None, View::Double | View::Raw) => Some(&self.double),
        }
    }

    fn list(&self, mount: Option<&ServerId>, view: View, pick: fn(&Lists) -> &Vec<Listed>) -> &[Listed] {
        self.tables(Names { mount, view, tenant: None }).map_or(&[], |tables| pick(&tables.lists))
    }

    #[must_use]
    pub fn tools(&self, mount: Option<&ServerId>, view: View) -> &[Listed] {
        self.list(mount, view, |lists| &lists.tools)
    }

    #[must_use]
    pub fn prompts(&self, mount: Option<&ServerId>, view: View) -> &[Listed] {
        self.list(mount, view, |lists| &lists.prompts)
    }

    #[must_use]
    pub fn resources(&self, mount: Option<&ServerId>, view: View) -> &[Listed] {
        self.list(mount, view, |lists| &lists.resources)
    }

    #[must_use]
    pub fn templates(&self, mount: Option<&ServerId>, view: View) -> &[Listed] {
        self.list(mount, view, |lists| &lists.templates)
    }

    /// Whether a server of this id is configured.
    #[must_use]
    pub fn has_server(&self, id: &ServerId) -> bool {
        self.servers.contains_key(id)
    }

    /// Whether a server exists for this caller.
    #[must_use]
    pub fn shows(&self, id: &ServerId, caller: &Caller) -> bool {
        self.servers.get(id).is_some_and(|mounted| caller.sees(mounted.spec.tenant.as_deref()))
    }

    /// Dotted names by which tools can be called too, with what they lead to, for callers of one tenant.
    pub fn routed(&self, tenant: Option<&str>) -> Vec<Listed> {
        self.routes.listed(tenant)
    }

    #[must_use]
    pub fn instructions(&self, mount: &ServerId) -> Option<&str> {
        self.servers.get(mount)?.instructions.as_deref()
    }

    /// Why nobody is shown or can call a tool that its server lists, where its name is the reason.
    pub(crate) fn left_out(&self, id: &ServerId, tool: &Item) -> Option<&str> {
        let known = self.servers.get(id)?.tables.tools.get(tool.name.as_str()).and_then(|target| target.definition.as_ref());
        if known.is_some_and(|definition| Arc::ptr_eq(definition, &tool.definition)) {
            return None;
        }
        let refused = self.refused.iter().find(|refused| refused.server == *id && refused.name == tool.name);
        refused.map(|refused| refused.reason.as_str())
    }

    pub fn refused_names(&self) -> &[RefusedName] {
        &self.refused
    }

    /// Headers that must repeat arguments of this tool.
    #[must_use]
    pub fn header_params(&self, mount: Option<&ServerId>, view: View, tool: &str) -> &[HeaderParam] {
        let target = self.tables(Names { mount, view, tenant: None }).and_then(|tables| tables.tools.get(tool));
        target.map_or(&[], |target| &target.header_params)
    }

    pub(crate) fn tool(&self, names: Names<'_>, name: &str) -> Found {
        if let Some(target) = self.tables(names).and_then(|tables| tables.tools.get(name)) {
            return Found::Target(Arc::clone(target));
        }
        match names.mount {
            Some(_) => self.absent_named(names, name),
            None => match self.routes.find(names.tenant, name, &self.servers) {
                Found::Nothing => self.absent_named(names, name),
                found => found,
            },
        }
    }

    pub(crate) fn prompt(&self, names: Names<'_>, name: &str) -> Found {
        match self.tables(names).and_then(|tables| tables.prompts.get(name)) {
            Some(target) => Found::Target(Arc::clone(target)),
            None => self.absent_named(names, name),
        }
    }

    fn absent_named(&self, names: Names<'_>, name: &str) -> Found {
        let id = match names.mount {
            Some(id) => Some(id.clone()),
            None => {
                let double = split_double(name).and_then(|(server, _)| ServerId::parse(server).ok());
                double.or_else(|| self.flat_owner(name))
            }
        };
        self.absent(id)
    }

    /// The server among whose flat names this one lies. Only asked for names that are in no table.
    fn flat_owner(&self, name: &str) -> Option<ServerId> {
        let owners = self.servers.keys().filter(|id| name.starts_with(&View::Flat.expose(id, "")));
        owners.max_by_key(|id| id.as_str().len()).cloned()
    }

    /// A name that is in no table: unknown, or of a server that has not shown its catalog yet.
    fn absent(&self, id: Option<ServerId>) -> Found {
        match id.and_then(|id| self.servers.get(&id)) {
            Some(mounted) if mounted.face.is_none() => Found::NotYet(Arc::clone(&mounted.spec)),
            _ => Found::Nothing,
        }
    }

    pub(crate) fn resource(&self, mount: Option<&ServerId>, uri: &str) -> Found {
        if let Some(id) = mount {
            return self.on_server(id, uri);
        }
        let inside = uri.strip_prefix(SCHEME).or_else(|| uri.strip_prefix(SCHEME_ALIAS));
        if let Some((server, original)) = inside.and_then(|rest| rest.split_once('/')) {
            return ServerId::parse(server).map_or(Found::Nothing, |id| self.on_server(&id, original));
        }
        self.unambiguous_uris.get(uri).map_or(Found::Nothing, |target| Found::Target(Arc::clone(target)))
    }

    /// A resource need not be listed to be read: templates make more URIs than any list holds.
    fn on_server(&self, id: &ServerId, uri: &str) -> Found {
        let Some(mounted) = self.servers.get(id) else { return Found::Nothing };
        if let Some(target) = mounted.resources.get(uri) {
            return Found::Target(Arc::clone(target));
        }
        let Some(face) = &mounted.face else { return Found::NotYet(Arc::clone(&mounted.spec)) };
        let (spec, meters) = (Arc::clone(&mounted.spec), mounted.meters.clone());
        Found::Target(Arc::new(Target::plain(spec, uri, Some(face.era), mounted.is_open_world, meters)))
    }

    /// A server itself, for what is addressed to it as a whole.
    pub(crate) fn server(&self, id: &ServerId) -> Found {
        self.on_server(id, "")
    }

    /// Whether what this server says may be anyone's words.
    pub(crate) fn is_open_world(&self, id: &ServerId) -> bool {
        self.servers.get(id).is_none_or(|mounted| mounted.is_open_world)
    }

    /// How a resource of a server is shown to callers of the aggregate door.
    #[must_use]
    pub fn exposed_uri(server: &ServerId, uri: &str) -> String {
        format!("{SCHEME}{server}/{uri}")
    }

    /// The capabilities object of a door, for a client of one era.
    #[must_use]
    pub fn capabilities(&self, mount: Option<&ServerId>, era: Era) -> Bytes {
        match mount.and_then(|id| self.servers.get(id)).and_then(|mounted| mounted.face.as_deref()) {
            Some(face) => face.capabilities_for(era),
            None => self.aggregate_capabilities(era),
        }
    }

    fn aggregate_capabilities(&self, era: Era) -> Bytes {
        let mut out = Object::new();
        out.raw("tools", br#"{"listChanged":true}"#)
            .raw("resources", br#"{"subscribe":true,"listChanged":true}"#)
            .raw("prompts", br#"{"listChanged":true}"#)
            .raw("completions", b"{}")
            .raw("logging", b"{}");
        let faces = || self.servers.values().filter_map(|mounted| mounted.face.as_deref());
        match era {
            Era::Modern if faces().any(Face::has_tasks_extension) => {
                out.object("extensions", |out| {
                    out.raw(TASKS_EXTENSION, b"{}");
                });
            }
            Era::Legacy => {
                if let Some(tasks) = faces().find_map(Face::legacy_tasks) {
                    out.raw("tasks", &tasks);
                }
            }
            Era::Modern => {}
        }
        out.finish().into()
    }
}

/// The answer to a lookup.
#[derive(Debug)]
pub(crate) enum Found {
    Target(Arc<Target>),
    /// The server is configured but has never shown its catalog.
    NotYet(Arc<ServerSpec>),
    Nothing,
}

/// Limits for a snapshot, which was checked when it was made but has been on a disk since.
pub(crate) fn inner_limits() -> Limits {
    Limits::new(64 << 20, wire::worker::DEPTH)
}

/// A view of text that the link checked when it arrived.
pub(crate) fn reparse(bytes: &[u8]) -> Json<'_> {
    Json::checked_before(bytes)
}
