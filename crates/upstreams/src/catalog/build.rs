//! Building a catalog from what the servers showed and what people approved.
//!
//! **Invariant: two pairs never share a name.** Tests `no_two_pairs_meet_in_the_double_view`,
//! `look_alike_tool_names_share_a_skeleton`, `server_ids_follow_the_grammar`,
//! `names_that_meet_in_the_flat_view_belong_to_nobody_whoever_connects_first`,
//! `shadowing_is_refused_whatever_the_start_order`.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use callers::meters::{Metered, Meters};
use policy::Permission;
use shape::definition::infer_effect;
use vocab::{Effect, ServerId, ToolName, View, skeleton};
use wire::write;

use super::{
    About, Catalog, Face, Item, Listed, Mounted, RefusedName, Table, Target, ViewTables,
    definition::{Definition, Kind},
    headers, reparse,
};
use crate::{
    ListKind,
    pins::{Pins, Standing},
    route::Route,
    settings::ServerSpec,
};

/// The field of a tool's definition that says what its structured content is.
pub(super) const OUTPUT: &str = "outputSchema";

/// What a catalog is built on besides the servers.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'a> {
    pub pins: &'a Pins,
    pub meters: &'a Meters,
}

impl Basis<'_> {
    /// What calling a tool does: as the operator says, then as the lock does, then by its name and what it takes.
    pub(super) fn effect(&self, spec: &ServerSpec, tool: &str, definition: &Definition) -> Effect {
        let said = spec
            .rule(tool)
            .effect
            .or_else(|| self.pins.effect(&spec.id, tool));
        said.unwrap_or_else(|| infer_effect(tool, definition.takes_address()))
    }

    /// What calls of a tool count against.
    pub(super) fn metered(&self, spec: &ServerSpec, tool: &str) -> Metered {
        self.meters
            .of_tool(&spec.id, spec.rate, tool, spec.rule(tool).rate)
    }
}

impl Mounted {
    /// Whether what comes back from this may be anyone's words: as the operator says of the tool, or of the server.
    pub(super) fn is_open_world_of(&self, kind: Kind, name: &str) -> bool {
        let said = match kind {
            Kind::Tool => self.spec.rule(name).open_world,
            _ => None,
        };
        said.unwrap_or(self.is_open_world)
    }

    /// What decides who sees a line of its lists.
    pub(super) fn about(&self, kind: ListKind, own: &str) -> About {
        About {
            spec: Arc::clone(&self.spec),
            own: own.into(),
            kind,
            mark: self.mark(),
            place: self.place,
        }
    }
}

impl Catalog {
    /// Builds the catalog of these servers, in their order.
    pub fn build(servers: &[(Arc<ServerSpec>, Option<Arc<Face>>)], basis: Basis<'_>) -> Self {
        let mut catalog = Self::default();
        let ids: Vec<&ServerId> = servers.iter().map(|(spec, _)| &spec.id).collect();
        let mut uris: HashMap<Box<str>, Vec<Arc<Target>>> = HashMap::new();
        servers
            .iter()
            .for_each(|(spec, _)| catalog.routes.claim(spec));
        catalog.is_kept = servers.iter().any(|(spec, _)| keeps_something(spec));
        for (place, (spec, face)) in servers.iter().enumerate() {
            let mut mounted = Mounted {
                spec: Arc::clone(spec),
                face: face.clone(),
                tables: ViewTables::default(),
                resources: Table::new(),
                is_open_world: is_open_world(spec, face.as_deref(), basis.pins),
                meters: basis.meters.of_server(&spec.id, spec.rate),
                instructions: None,
                approved_instructions: None,
                approved_abilities: None,
                place,
            };
            let rivals: Vec<&ServerId> = ids
                .iter()
                .copied()
                .filter(|other| meet(&spec.id, other) || meet(other, &spec.id))
                .collect();
            if let Some(face) = face {
                catalog.add(face, &mut mounted, &rivals, basis);
            }
            catalog.add_approved(&mut mounted, &rivals, basis);
            for (uri, target) in &mounted.resources {
                uris.entry(uri.clone())
                    .or_default()
                    .push(Arc::clone(target));
            }
            catalog.servers.insert(spec.id.clone(), mounted);
        }
        catalog.uris = uris;
        catalog
    }

    fn add(&mut self, face: &Face, mounted: &mut Mounted, rivals: &[&ServerId], basis: Basis<'_>) {
        let spec = Arc::clone(&mounted.spec);
        for (kind, items) in [(Kind::Tool, &face.tools), (Kind::Prompt, &face.prompts)] {
            let mut looks = HashSet::new();
            let mut items: Vec<(&Item, Standing)> = items
                .iter()
                .map(|item| {
                    (
                        item,
                        basis
                            .pins
                            .standing(&spec, kind, &item.name, &item.definition),
                    )
                })
                .collect();
            // An approved name is never displaced by one that only looks like it, whichever the server lists first.
            items.sort_by_key(|(_, standing)| *standing != Standing::Approved);
            for (item, standing) in items {
                let Some(target) =
                    self.accept(kind, face, item, standing, mounted, &mut looks, basis)
                else {
                    continue;
                };
                let is_shown = spec.approved().is_some()
                    && target.standing == Standing::Approved
                    && (kind != Kind::Tool
                        || spec.rule(&item.name).permission != Permission::Blocked);
                self.expose(mounted, kind, item, &target, is_shown, (rivals, basis.pins));
                if kind == Kind::Tool {
                    self.routes.add(
                        &mounted.about(ListKind::Tools, &item.name),
                        &target,
                        is_shown.then_some(&item.raw),
                    );
                }
            }
        }
        let approved = |(_, definition): &&(String, Arc<super::Definition>)| {
            spec.approved().is_some()
                && basis
                    .pins
                    .standing(&spec, Kind::Instructions, "", definition)
                    == Standing::Approved
        };
        mounted.instructions = face
            .instructions
            .as_ref()
            .filter(approved)
            .map(|(text, _)| text.clone());
        self.add_resources(face, mounted, basis);
    }

    /// A name must follow the grammar and not look like another of the same server.
    #[expect(
        clippy::too_many_arguments,
        reason = "one call site; a struct would only rename them"
    )]
    fn accept(
        &mut self,
        kind: Kind,
        face: &Face,
        item: &Item,
        standing: Standing,
        mounted: &Mounted,
        looks: &mut HashSet<String>,
        basis: Basis<'_>,
    ) -> Option<Arc<Target>> {
        let spec = &mounted.spec;
        let reason = match ToolName::parse(&item.name) {
            Err(error) => Some(error.to_string()),
            Ok(_) if !looks.insert(skeleton(&item.name)) => {
                Some("looks like another name of the same server".to_owned())
            }
            Ok(_) => None,
        };
        if let Some(reason) = reason {
            self.refuse(&spec.id, item, reason);
            return None;
        }
        let (effect, meters) = match kind {
            Kind::Tool => (
                basis.effect(spec, &item.name, &item.definition),
                basis.metered(spec, &item.name),
            ),
            _ => (Effect::Read, mounted.meters.clone()),
        };
        Some(Arc::new(Target {
            spec: Arc::clone(&spec.target),
            route: Some(Route::Server(Arc::clone(spec))),
            name: item.name.clone(),
            era: Some(face.era),
            header_params: headers::of_tool(reparse(&item.raw)),
            definition: Some(Arc::clone(&item.definition)),
            is_typed: item.definition.json().get(OUTPUT).is_some()
                || basis.pins.declares(&spec.id, &item.name, OUTPUT),
            standing,
            effect,
            is_open_world: mounted.is_open_world_of(kind, &item.name),
            meters,
            is_absent: false,
        }))
    }

    fn refuse(&mut self, server: &ServerId, item: &Item, reason: String) {
        self.refused.push(RefusedName {
            server: server.clone(),
            name: item.name.clone(),
            reason,
        });
    }

    /// Enters one name into every view. What is not approved is routable, so that a call gets a clear refusal, but not shown.
    fn expose(
        &mut self,
        mounted: &mut Mounted,
        kind: Kind,
        item: &Item,
        target: &Arc<Target>,
        is_shown: bool,
        (rivals, pins): (&[&ServerId], &Pins),
    ) {
        let id = mounted.spec.id.clone();
        let list = if kind == Kind::Prompt {
            ListKind::Prompts
        } else {
            ListKind::Tools
        };
        for view in [View::Double, View::Flat, View::Raw] {
            let name = view.expose(&id, &item.name);
            if let Some(owner) = rivals
                .iter()
                .find(|rival| view == View::Flat && claims(rival, &id, &name, pins))
            {
                self.refuse(
                    &id,
                    item,
                    format!(
                        "would be shown as `{name}`, which could be a name of server `{owner}`"
                    ),
                );
                continue;
            }
            let about = mounted.about(list, &item.name);
            let tables = match view {
                View::Double => &mut self.double,
                View::Flat => &mut self.flat,
                View::Raw => &mut mounted.tables,
            };
            let table = if kind == Kind::Prompt {
                &mut tables.prompts
            } else {
                &mut tables.tools
            };
            table.insert(name.clone().into(), Arc::clone(target));
            if is_shown {
                let raw = if view == View::Raw {
                    item.raw.clone()
                } else {
                    renamed(item, "name", &name)
                };
                tables.lists.of_mut(list).push(Listed {
                    name,
                    raw,
                    server: id.clone(),
                    about,
                });
            }
        }
    }

    fn add_resources(&mut self, face: &Face, mounted: &mut Mounted, basis: Basis<'_>) {
        let spec = Arc::clone(&mounted.spec);
        for item in &face.resources {
            let target = Target::plain(
                Arc::clone(&spec),
                &item.name,
                Some(face.era),
                mounted.is_open_world,
                mounted.meters.clone(),
            );
            mounted
                .resources
                .insert(item.name.clone().into(), Arc::new(target));
        }
        if spec.approved().is_none() {
            return;
        }
        let is_approved = |item: &&Item| {
            basis
                .pins
                .standing(&spec, Kind::Template, &item.name, &item.definition)
                == Standing::Approved
        };
        let templates: Vec<&Item> = face.templates.iter().filter(is_approved).collect();
        let mut begins: Vec<&str> = templates
            .iter()
            .filter_map(|item| template_begin(&item.name))
            .collect();
        // The shortest says what the longer ones do.
        begins.sort_unstable();
        begins.dedup_by(|longer, shorter| longer.starts_with(*shorter));
        self.templates_begin.extend(
            begins
                .into_iter()
                .map(|begin| (begin.into(), spec.id.clone())),
        );
        let resources: Vec<&Item> = face.resources.iter().collect();
        for (items, list, field) in [
            (resources, ListKind::Resources, "uri"),
            (templates, ListKind::Templates, "uriTemplate"),
        ] {
            for item in items {
                let [double, flat, own] = both(mounted, list, &item.name, &item.raw, field);
                self.double.lists.of_mut(list).push(double);
                self.flat.lists.of_mut(list).push(flat);
                mounted.tables.lists.of_mut(list).push(own);
            }
        }
    }
}

/// Something with a URI as the two views of the whole gate show it, and as its server's own door does.
pub(super) fn both(
    mounted: &Mounted,
    list: ListKind,
    own: &str,
    raw: &Bytes,
    field: &str,
) -> [Listed; 3] {
    let id = &mounted.spec.id;
    let name = Catalog::exposed_uri(id, own);
    let about = mounted.about(list, own);
    let shown = Listed {
        raw: renamed_raw(raw, field, &name),
        name,
        server: id.clone(),
        about: about.clone(),
    };
    let own = Listed {
        raw: raw.clone(),
        name: own.to_owned(),
        server: id.clone(),
        about,
    };
    [shown.clone(), shown, own]
}

/// Whether a server, or one of its tools, is kept for some.
fn keeps_something(spec: &ServerSpec) -> bool {
    let mut rules = spec.rules.values().chain([&spec.default_rule]);
    !spec.access.is_open()
        || rules.any(|rule| rule.permission == Permission::Restricted || !rule.access.is_open())
}

/// What every address that a template makes begins with, if that says at least its scheme.
fn template_begin(template: &str) -> Option<&str> {
    let begin = template.split('{').next()?;
    begin.contains(':').then_some(begin)
}

/// Whether flat names of the longer id lie among those of the shorter one: `mcp_a_b_c` could be of `a` or of `a_b`.
fn meet(shorter: &ServerId, longer: &ServerId) -> bool {
    shorter != longer
        && View::Flat
            .expose(longer, "")
            .starts_with(&View::Flat.expose(shorter, ""))
}

/// Whether a flat name of server `id` may be taken for one of its rival. A name that lies among those of a longer id is never the
/// shorter one's; and the longer one does not get it either while the shorter has a tool that it would hide. That is decided by ids
/// and approved definitions, so it does not matter who connects first, and no name changes hands.
pub(super) fn claims(rival: &ServerId, id: &ServerId, name: &str, pins: &Pins) -> bool {
    let rest = name.strip_prefix(&View::Flat.expose(rival, ""));
    rest.is_some_and(|rest| meet(id, rival) || pins.effect(rival, rest).is_some())
}

/// As the operator says; otherwise a server brings in anyone's words. One that was approved when that was guessed keeps its guess: it does
/// if any of its tools takes addresses, listed now or not, so that no server makes its words trusted by what it leaves out.
fn is_open_world(spec: &ServerSpec, face: Option<&Face>, pins: &Pins) -> bool {
    let shows = || {
        face.is_some_and(|face| {
            face.tools
                .iter()
                .any(|item| item.definition.takes_address())
        })
    };
    spec.open_world.unwrap_or_else(|| {
        !pins.is_guessed_open(&spec.id) || shows() || pins.takes_address(&spec.id)
    })
}

/// The item with one field replaced and everything else byte for byte, the field's place included.
fn renamed(item: &Item, field: &str, name: &str) -> Bytes {
    renamed_raw(&item.raw, field, name)
}

pub(super) fn renamed_raw(raw: &[u8], field: &str, name: &str) -> Bytes {
    let json = reparse(raw);
    let mut out = write::Object::with_capacity(raw.len() + name.len());
    let mut fields = json.fields();
    while let Some((key, value)) = fields.next_raw() {
        if value.as_bytes().as_ptr()
            == json
                .get(field)
                .map_or(std::ptr::null(), |value| value.as_bytes().as_ptr())
        {
            out.str(field, name);
        } else {
            out.copied(key, value);
        }
    }
    out.finish().into()
}
