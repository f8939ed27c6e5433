//! The catalog: what every server offers, under every name it is shown by.
//!
//! A catalog is an immutable value, built when something changes and swapped in whole. Routing a call is one lookup in it: never a
//! split, never a walk over servers. Items are the upstream's own text; only the name or URI is spliced.

pub mod abilities;
mod approved;
mod build;
pub mod builtin;
pub mod definition;
mod face;
mod headers;
mod routes;
mod snapshot;

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use callers::{Caller, meters::Metered};
use vocab::{Effect, Mark, ServerId, View, split_double};
use wire::{Json, Limits, mcp::Era, write::Object};

use crate::{
    ListKind, Sight,
    pins::Standing,
    route::Route,
    settings::{ServerSpec, TargetSpec},
    words::{is_for, mark_of},
};
use abilities::Abilities;
use definition::Definition;
use routes::Routes;

pub use build::Basis;
pub use face::{Face, Item};
pub use headers::HeaderParam;
pub use routes::dotted_names;
pub use snapshot::Snapshots;

/// The scheme under which resources of many servers are shown side by side.
const SCHEME: &str = "portcullis://";
/// A scheme of the same form that we accept as well.
const SCHEME_ALIAS: &str = "capsem://";

/// One line of a list, as a client sees it. Who sees it, a [`Sight`] says.
#[derive(Debug, Clone)]
pub struct Listed {
    pub name: String,
    /// The item's JSON with its name or URI as shown.
    pub raw: Bytes,
    pub server: ServerId,
    pub about: About,
}

/// What decides who sees a line of a list.
#[derive(Debug, Clone)]
pub struct About {
    pub spec: Arc<ServerSpec>,
    /// The server's own name for it.
    pub own: Box<str>,
    pub kind: ListKind,
    /// What everything its server says carries.
    pub mark: Mark,
    /// The place of its server in the configuration.
    place: usize,
}

/// Where a name leads: what is held to which terms, by which route it is reached, and the name it is known by there.
#[derive(Debug)]
pub struct Target {
    pub spec: Arc<TargetSpec>,
    /// `None`: nothing here executes it.
    pub route: Option<Route>,
    pub name: String,
    /// The upstream speaks the stateless revision.
    pub era: Option<Era>,
    header_params: Vec<HeaderParam>,
    /// What the server says it is, for what has a definition.
    pub definition: Option<Arc<Definition>>,
    /// An output schema is declared, by what the server shows or by what was approved and clients may still hold.
    is_typed: bool,
    pub standing: Standing,
    /// What calling it does to the world.
    pub effect: Effect,
    /// Whether what the server says may be anyone's words.
    pub is_open_world: bool,
    pub meters: Metered,
    /// It was approved, and the server does not list it now.
    pub is_absent: bool,
}

impl Target {
    /// Something of a server that has no definition of its own: a resource, or what has not been shown yet.
    fn plain(
        server: Arc<ServerSpec>,
        name: &str,
        era: Option<Era>,
        is_open_world: bool,
        meters: Metered,
    ) -> Self {
        Self {
            spec: Arc::clone(&server.target),
            route: Some(Route::Server(server)),
            name: name.to_owned(),
            era,
            header_params: Vec::new(),
            definition: None,
            is_typed: false,
            standing: Standing::Approved,
            effect: Effect::Read,
            is_open_world,
            meters,
            is_absent: false,
        }
    }

    /// Something of a server that has shown no catalog.
    pub fn unseen(server: Arc<ServerSpec>, name: &str) -> Self {
        Self::plain(server, name, None, true, Metered::default())
    }

    /// The same tool, for what only looks at a task of it.
    fn looked_at(&self, meters: Metered) -> Self {
        Self {
            spec: Arc::clone(&self.spec),
            route: self.route.clone(),
            name: self.name.clone(),
            era: self.era,
            header_params: Vec::new(),
            definition: self.definition.clone(),
            is_typed: self.is_typed,
            standing: self.standing.clone(),
            effect: Effect::Read,
            is_open_world: self.is_open_world,
            meters,
            is_absent: self.is_absent,
        }
    }

    /// The server that executes it, if one does.
    pub fn server(&self) -> Option<&Arc<ServerSpec>> {
        match &self.route {
            Some(Route::Server(server)) => Some(server),
            _ => None,
        }
    }

    /// The digest of its definition; empty where it has none.
    pub fn digest(&self) -> &str {
        self.definition.as_deref().map_or("", Definition::digest)
    }
}

#[derive(Debug, Default)]
struct Lists {
    tools: Vec<Listed>,
    prompts: Vec<Listed>,
    resources: Vec<Listed>,
    templates: Vec<Listed>,
}

impl Lists {
    const fn of(&self, kind: ListKind) -> &Vec<Listed> {
        match kind {
            ListKind::Tools => &self.tools,
            ListKind::Prompts => &self.prompts,
            ListKind::Resources => &self.resources,
            ListKind::Templates => &self.templates,
        }
    }

    const fn of_mut(&mut self, kind: ListKind) -> &mut Vec<Listed> {
        match kind {
            ListKind::Tools => &mut self.tools,
            ListKind::Prompts => &mut self.prompts,
            ListKind::Resources => &mut self.resources,
            ListKind::Templates => &mut self.templates,
        }
    }
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
    /// As the servers list now.
    lists: Lists,
    /// As it was approved.
    approved: Lists,
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
    /// Its instructions, if they are as approved; and those that were approved, whatever it says now.
    instructions: Option<String>,
    approved_instructions: Option<String>,
    /// What it says it can do, as approved.
    approved_abilities: Option<Abilities>,
    /// Its place in the configuration.
    place: usize,
}

#[derive(Debug, Default)]
pub struct Catalog {
    double: ViewTables,
    flat: ViewTables,
    servers: HashMap<ServerId, Mounted>,
    /// Who offers a URI, so that links inside results can be followed.
    uris: HashMap<Box<str>, Vec<Arc<Target>>>,
    /// Somebody may not use something: lists depend on who asks.
    is_kept: bool,
    /// How the addresses begin that a server's approved templates make; each server's once.
    templates_begin: Vec<(Box<str>, ServerId)>,
    refused: Vec<RefusedName>,
    /// Dotted names, by the capabilities that servers declare.
    routes: Routes,
}

/// Which names a caller uses.
#[derive(Debug, Clone, Copy)]
pub struct Names<'a> {
    pub mount: Option<&'a ServerId>,
    pub view: View,
    pub tenant: Option<&'a str>,
}

impl Catalog {
    fn tables(&self, names: Names<'_>) -> Option<&ViewTables> {
        match (names.mount, names.view) {
            (Some(id), _) => self.servers.get(id).map(|mounted| &mounted.tables),
            (None, View::Flat) => Some(&self.flat),
            (None, View::Double | View::Raw) => Some(&self.double),
        }
    }

    /// What servers list now and a person approved. For the gate itself; callers are shown what [`Catalog::listed`] gives.
    pub fn live(&self, kind: ListKind, mount: Option<&ServerId>, view: View) -> &[Listed] {
        self.tables(Names {
            mount,
            view,
            tenant: None,
        })
        .map_or(&[], |tables| tables.lists.of(kind))
    }

    /// What a caller is shown of a list, in the order of the servers.
    #[must_use]
    pub fn listed(&self, kind: ListKind, mount: Option<&ServerId>, sight: &Sight) -> Vec<&Listed> {
        let Some(tables) = self.tables(Names {
            mount,
            view: sight.caller().view(),
            tenant: None,
        }) else {
            return Vec::new();
        };
        let live = tables
            .lists
            .of(kind)
            .iter()
            .filter(|listed| sight.shows_live(&listed.about));
        let approved = tables
            .approved
            .of(kind)
            .iter()
            .filter(|listed| sight.shows_approved(&listed.about));
        let mut listed: Vec<&Listed> = live.chain(approved).collect();
        listed.sort_by_key(|listed| listed.about.place);
        listed
    }

    /// Servers that a caller may use and whose resources are not listed for it: they are above its label.
    #[must_use]
    pub fn unlisted(&self, mount: Option<&ServerId>, sight: &Sight) -> Vec<&ServerId> {
        let is_asked = |id: &ServerId| mount.is_none_or(|mount| mount == id);
        let servers = self
            .servers
            .values()
            .filter(|mounted| is_asked(&mounted.spec.id) && mounted.spec.approved().is_some());
        let above =
            servers.filter(|mounted| sight.is_for(&mounted.spec) && !sight.reaches(mounted.mark()));
        let mut ids: Vec<&ServerId> = above.map(|mounted| &mounted.spec.id).collect();
        ids.sort();
        ids
    }

    /// What everybody is shown of a server's list. Resources are not shown to everybody; their templates are.
    pub fn approved_lines(&self, kind: ListKind, id: &ServerId) -> Vec<Bytes> {
        let kind = if kind == ListKind::Resources {
            ListKind::Templates
        } else {
            kind
        };
        let lines = self
            .servers
            .get(id)
            .map(|mounted| mounted.tables.approved.of(kind));
        lines
            .into_iter()
            .flatten()
            .map(|listed| listed.raw.clone())
            .collect()
    }

    /// Whether a server lists resources now.
    pub fn has_resources(&self, id: &ServerId) -> bool {
        self.servers
            .get(id)
            .is_some_and(|mounted| !mounted.resources.is_empty())
    }

    /// Whether everybody may use everything that exists for them.
    pub const fn is_open(&self) -> bool {
        !self.is_kept
    }

    /// Every server that is configured.
    pub fn servers(&self) -> impl Iterator<Item = &Arc<ServerSpec>> {
        self.servers.values().map(|mounted| &mounted.spec)
    }

    /// Whether a server of this id is configured.
    #[must_use]
    pub fn has_server(&self, id: &ServerId) -> bool {
        self.servers.contains_key(id)
    }

    /// Whether a server exists for this caller.
    #[must_use]
    pub fn shows(&self, id: &ServerId, caller: &Caller) -> bool {
        self.servers
            .get(id)
            .is_some_and(|mounted| caller.sees(mounted.spec.tenant.as_deref()))
    }

    /// Dotted names by which a caller can call tools too, with what they lead to.
    pub fn routed(&self, sight: &Sight) -> Vec<Listed> {
        self.routes.listed(sight)
    }

    /// What a server tells its clients, as far as a caller is shown it.
    #[must_use]
    pub fn instructions(&self, mount: &ServerId, sight: &Sight) -> Option<&str> {
        let mounted = self
            .servers
            .get(mount)
            .filter(|mounted| sight.is_for(&mounted.spec))?;
        let shown = if sight.covers(mounted.mark()) {
            &mounted.instructions
        } else {
            &mounted.approved_instructions
        };
        shown.as_deref()
    }

    /// What every server tells its clients, as far as a caller is shown it, by its id.
    pub fn all_instructions(&self, sight: &Sight) -> Vec<(&Arc<ServerSpec>, &str)> {
        let said = |(id, mounted)| -> Option<(&Arc<ServerSpec>, &str)> {
            let mounted: &Mounted = mounted;
            Some((&mounted.spec, self.instructions(id, sight)?))
        };
        let mut all: Vec<_> = self.servers.iter().filter_map(said).collect();
        all.sort_unstable_by_key(|(spec, _)| &spec.id);
        all
    }

    /// Whether a server lists a resource of this address.
    pub fn lists_resource(&self, id: &ServerId, uri: &str) -> bool {
        self.servers
            .get(id)
            .is_some_and(|mounted| mounted.resources.contains_key(uri))
    }

    /// Why nobody is shown or can call a tool that its server lists, where its name is the reason.
    pub fn left_out(&self, id: &ServerId, tool: &Item) -> Option<&str> {
        let known = self
            .servers
            .get(id)?
            .tables
            .tools
            .get(tool.name.as_str())
            .and_then(|target| target.definition.as_ref());
        if known.is_some_and(|definition| Arc::ptr_eq(definition, &tool.definition)) {
            return None;
        }
        let refused = self
            .refused
            .iter()
            .find(|refused| refused.server == *id && refused.name == tool.name);
        refused.map(|refused| refused.reason.as_str())
    }

    pub fn refused_names(&self) -> &[RefusedName] {
        &self.refused
    }

    /// Headers that must repeat arguments of this tool.
    #[must_use]
    pub fn header_params(
        &self,
        mount: Option<&ServerId>,
        view: View,
        tool: &str,
    ) -> &[HeaderParam] {
        let target = self
            .tables(Names {
                mount,
                view,
                tenant: None,
            })
            .and_then(|tables| tables.tools.get(tool));
        target.map_or(&[], |target| &target.header_params)
    }

    /// Whether a caller knows a tool of this name, and knows of no output schema of it.
    #[must_use]
    pub fn is_untyped(&self, mount: Option<&ServerId>, caller: &Caller, tool: &str) -> bool {
        let names = Names {
            mount,
            view: caller.view(),
            tenant: caller.tenant(),
        };
        matches!(self.tool(names, tool), Found::Target(target) if !target.is_typed)
    }

    pub fn tool(&self, names: Names<'_>, name: &str) -> Found {
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

    pub fn prompt(&self, names: Names<'_>, name: &str) -> Found {
        match self
            .tables(names)
            .and_then(|tables| tables.prompts.get(name))
        {
            Some(target) => Found::Target(Arc::clone(target)),
            None => self.absent_named(names, name),
        }
    }

    fn absent_named(&self, names: Names<'_>, name: &str) -> Found {
        let id = match names.mount {
            Some(id) => Some(id.clone()),
            None => {
                let double =
                    split_double(name).and_then(|(server, _)| ServerId::parse(server).ok());
                double.or_else(|| self.flat_owner(name))
            }
        };
        self.absent(id)
    }

    /// The server among whose flat names this one lies. Only asked for names that are in no table.
    fn flat_owner(&self, name: &str) -> Option<ServerId> {
        let owners = self
            .servers
            .keys()
            .filter(|id| name.starts_with(&View::Flat.expose(id, "")));
        owners.max_by_key(|id| id.as_str().len()).cloned()
    }

    /// A name that is in no table: unknown, or of a server that has not shown its catalog yet.
    fn absent(&self, id: Option<ServerId>) -> Found {
        match id.and_then(|id| self.servers.get(&id)) {
            Some(mounted) if mounted.face.is_none() => Found::NotYet(Arc::clone(&mounted.spec)),
            _ => Found::Nothing,
        }
    }

    /// What a URI leads to. Without the name of its server it leads to the only one of those that `is_known` to the caller: what
    /// others list must make no difference.
    pub fn resource(
        &self,
        mount: Option<&ServerId>,
        uri: &str,
        is_known: impl Fn(&Target) -> bool,
    ) -> Found {
        if let Some(id) = mount {
            return self.on_server(id, uri);
        }
        let inside = uri
            .strip_prefix(SCHEME)
            .or_else(|| uri.strip_prefix(SCHEME_ALIAS));
        if let Some((server, original)) = inside.and_then(|rest| rest.split_once('/')) {
            return ServerId::parse(server)
                .map_or(Found::Nothing, |id| self.on_server(&id, original));
        }
        let mut known = self
            .uris
            .get(uri)
            .into_iter()
            .flatten()
            .filter(|target| is_known(target));
        match (known.next(), known.next()) {
            (Some(target), None) => return Found::Target(Arc::clone(target)),
            (Some(_), Some(_)) => return Found::Nothing,
            (None, _) => {}
        }
        // Nothing lists it. A template of one server alone may make it; what two may make is nobody's.
        let begun = self
            .templates_begin
            .iter()
            .filter(|(begin, _)| uri.starts_with(&**begin));
        let mut makers = begun.filter_map(|(_, id)| match self.on_server(id, uri) {
            Found::Target(target) if is_known(&target) => Some(target),
            _ => None,
        });
        match (makers.next(), makers.next()) {
            (Some(target), None) => Found::Target(target),
            _ => Found::Nothing,
        }
    }

    /// Whether an address, as a caller of the whole gate writes it, leads to this server.
    #[must_use]
    pub fn leads_to(&self, uri: &str, server: &ServerId, caller: &Caller) -> bool {
        let is_known = |target: &Target| is_for(caller, &target.spec);
        matches!(self.resource(None, uri, is_known), Found::Target(target) if target.spec.id == *server)
    }

    /// A resource need not be listed to be read: templates make more URIs than any list holds.
    fn on_server(&self, id: &ServerId, uri: &str) -> Found {
        let Some(mounted) = self.servers.get(id) else {
            return Found::Nothing;
        };
        if let Some(target) = mounted.resources.get(uri) {
            return Found::Target(Arc::clone(target));
        }
        let Some(face) = &mounted.face else {
            return Found::NotYet(Arc::clone(&mounted.spec));
        };
        let (spec, meters) = (Arc::clone(&mounted.spec), mounted.meters.clone());
        Found::Target(Arc::new(Target::plain(
            spec,
            uri,
            Some(face.era),
            mounted.is_open_world,
            meters,
        )))
    }

    /// What a task belongs to: the tool whose call it is. Looking at it only reads, and counts against the server's limit alone.
    pub fn task(&self, id: &ServerId, tool: &str, changes: bool) -> Found {
        let Some(mounted) = self.servers.get(id) else {
            return Found::Nothing;
        };
        match mounted.tables.tools.get(tool) {
            Some(target) if changes => Found::Target(Arc::clone(target)),
            Some(target) => Found::Target(Arc::new(target.looked_at(mounted.meters.clone()))),
            None => self.absent(Some(id.clone())),
        }
    }

    /// Whether what this server says may be anyone's words.
    pub fn is_open_world(&self, id: &ServerId) -> bool {
        self.servers
            .get(id)
            .is_none_or(|mounted| mounted.is_open_world)
    }

    /// How a resource of a server is shown to callers of the aggregate door.
    #[must_use]
    pub fn exposed_uri(server: &ServerId, uri: &str) -> String {
        format!("{SCHEME}{server}/{uri}")
    }

    /// The capabilities object of a door, for a client of one era: in the gate's own words, from what a person approved or, where the
    /// caller's label includes the server's words, from what it says now.
    #[must_use]
    pub fn capabilities(&self, mount: Option<&ServerId>, era: Era, sight: &Sight) -> Bytes {
        let mounted = mount
            .and_then(|id| self.servers.get(id))
            .filter(|mounted| sight.is_for(&mounted.spec));
        match mounted.and_then(|mounted| mounted.abilities(sight)) {
            Some(abilities) => abilities.capabilities(era),
            None => self.aggregate_capabilities(era, sight),
        }
    }

    fn aggregate_capabilities(&self, era: Era, sight: &Sight) -> Bytes {
        let mut out = Object::new();
        out.raw("tools", br#"{"listChanged":true}"#)
            .raw("resources", br#"{"subscribe":true,"listChanged":true}"#)
            .raw("prompts", br#"{"listChanged":true}"#)
            .raw("completions", b"{}")
            .raw("logging", b"{}");
        let usable = self
            .servers
            .values()
            .filter(|mounted| sight.is_for(&mounted.spec));
        if let Some(abilities) = usable
            .filter_map(|mounted| mounted.abilities(sight))
            .find(|able| able.has_tasks(era))
        {
            abilities.write_tasks(&mut out, era);
        }
        out.finish().into()
    }
}

impl Mounted {
    /// What everything it says carries.
    fn mark(&self) -> Mark {
        mark_of(&self.spec, self.is_open_world)
    }

    fn abilities(&self, sight: &Sight) -> Option<&Abilities> {
        let live = self
            .face
            .as_deref()
            .map(|face| &face.abilities)
            .filter(|_| sight.covers(self.mark()));
        live.or(self.approved_abilities.as_ref())
    }
}

/// The answer to a lookup.
#[derive(Debug)]
pub enum Found {
    Target(Arc<Target>),
    /// The server is configured but has never shown its catalog.
    NotYet(Arc<ServerSpec>),
    Nothing,
}

/// Limits for a snapshot, which was checked when it was made but has been on a disk since.
pub fn inner_limits() -> Limits {
    Limits::new(64 << 20, wire::worker::DEPTH)
}

/// A view of text that the link checked when it arrived.
pub fn reparse(bytes: &[u8]) -> Json<'_> {
    Json::checked_before(bytes)
}
