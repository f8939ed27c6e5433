//! What a person approved, as it was approved: the lists of callers whose label does not include a server's words.
//!
//! Nothing in them follows what a server shows now, so a server above a caller's level tells nothing by leaving a tool out, listing it
//! twice, or changing the order of names or fields.

use std::{collections::HashSet, sync::Arc};

use bytes::Bytes;
use policy::Permission;
use vocab::{Effect, ServerId, ToolName, View, skeleton};
use wire::json::decode_key;

use super::{
    Catalog, Face, Item, Listed, Mounted, Target,
    build::{Basis, OUTPUT, both, claims, renamed_raw},
    definition::{Definition, Kind},
    headers, reparse,
};
use crate::{ListKind, pins::Standing, route::Route};

impl Catalog {
    pub(super) fn add_approved(
        &mut self,
        mounted: &mut Mounted,
        rivals: &[&ServerId],
        basis: Basis<'_>,
    ) {
        let spec = Arc::clone(&mounted.spec);
        if spec.approved().is_none() {
            return;
        }
        mounted.approved_abilities = basis.pins.abilities(&spec.id);
        let approved = basis.pins.approved(&spec.id);
        let proper = proper(mounted, &approved);
        for (kind, name, text) in approved {
            let raw = Bytes::from(text);
            match kind {
                Kind::Instructions => {
                    mounted.approved_instructions = Some(decode_key(&raw).into_owned())
                }
                Kind::Template => {
                    self.list_both(mounted, ListKind::Templates, &name, &raw, "uriTemplate")
                }
                Kind::Tool | Kind::Prompt => {
                    if proper.contains(&(kind, name.clone())) {
                        self.add_approved_name(mounted, kind, &name, &raw, (rivals, basis));
                    }
                }
            }
        }
        // The names of resources are not approved one by one; what is as it was when the server was, nobody can have shaped since.
        let face = mounted.face.clone();
        let known = |item: &&Item| basis.pins.knows_resource(&spec.id, &item.definition);
        for item in face.iter().flat_map(|face| &face.resources).filter(known) {
            self.list_both(mounted, ListKind::Resources, &item.name, &item.raw, "uri");
        }
    }

    /// One approved name in every view, and a target for it where the server does not list it now.
    fn add_approved_name(
        &mut self,
        mounted: &mut Mounted,
        kind: Kind,
        name: &str,
        raw: &Bytes,
        (rivals, basis): (&[&ServerId], Basis<'_>),
    ) {
        let spec = Arc::clone(&mounted.spec);
        let list = if kind == Kind::Tool {
            ListKind::Tools
        } else {
            ListKind::Prompts
        };
        let is_shown = kind != Kind::Tool || spec.rule(name).permission != Permission::Blocked;
        let absent = mounted
            .face
            .as_deref()
            .map(|face| Arc::new(absent(mounted, face, kind, name, raw, basis)));
        for view in [View::Double, View::Flat, View::Raw] {
            let exposed = view.expose(&spec.id, name);
            if view == View::Flat
                && rivals
                    .iter()
                    .any(|rival| claims(rival, &spec.id, &exposed, basis.pins))
            {
                continue;
            }
            let about = mounted.about(list, name);
            let tables = match view {
                View::Double => &mut self.double,
                View::Flat => &mut self.flat,
                View::Raw => &mut mounted.tables,
            };
            let table = if kind == Kind::Tool {
                &mut tables.tools
            } else {
                &mut tables.prompts
            };
            if let Some(absent) = &absent {
                table
                    .entry(exposed.clone().into())
                    .or_insert_with(|| Arc::clone(absent));
            }
            if is_shown {
                let raw = if view == View::Raw {
                    raw.clone()
                } else {
                    renamed_raw(raw, "name", &exposed)
                };
                tables.approved.of_mut(list).push(Listed {
                    name: exposed,
                    raw,
                    server: spec.id.clone(),
                    about,
                });
            }
        }
        if kind == Kind::Tool {
            self.routes.add_approved(
                &mounted.about(list, name),
                absent.as_ref(),
                is_shown.then_some(raw),
            );
        }
    }

    /// Lists something with a URI as every door shows it.
    fn list_both(
        &mut self,
        mounted: &mut Mounted,
        list: ListKind,
        own: &str,
        raw: &Bytes,
        field: &str,
    ) {
        let [double, flat, own] = both(mounted, list, own, raw, field);
        self.double.approved.of_mut(list).push(double);
        self.flat.approved.of_mut(list).push(flat);
        mounted.tables.approved.of_mut(list).push(own);
    }
}

/// The names that follow the grammar and look like no other. Of two that look alike, the one that has its place already keeps it.
fn proper(mounted: &Mounted, approved: &[(Kind, String, Vec<u8>)]) -> HashSet<(Kind, String)> {
    let has_place = |kind: Kind, name: &str| match kind {
        Kind::Tool => mounted.tables.tools.contains_key(name),
        _ => mounted.tables.prompts.contains_key(name),
    };
    let mut names: Vec<(Kind, &String)> = approved
        .iter()
        .map(|(kind, name, _)| (*kind, name))
        .collect();
    names.sort_by_key(|(kind, name)| !has_place(*kind, name));
    let mut looks = HashSet::new();
    names.retain(|(kind, name)| {
        ToolName::parse(name).is_ok() && looks.insert((*kind, skeleton(name)))
    });
    names
        .into_iter()
        .map(|(kind, name)| (kind, name.clone()))
        .collect()
}

/// Where an approved name leads that its server does not list now: calls are decided as ever, and end like those to a server that is not
/// there.
fn absent(
    mounted: &Mounted,
    face: &Face,
    kind: Kind,
    name: &str,
    raw: &Bytes,
    basis: Basis<'_>,
) -> Target {
    let spec = &mounted.spec;
    let definition = Arc::new(Definition::new(raw.clone()));
    let (effect, meters) = match kind {
        Kind::Tool => (
            basis.effect(spec, name, &definition),
            basis.metered(spec, name),
        ),
        _ => (Effect::Read, mounted.meters.clone()),
    };
    Target {
        spec: Arc::clone(&spec.target),
        route: Some(Route::Server(Arc::clone(spec))),
        name: name.to_owned(),
        era: Some(face.era),
        header_params: headers::of_tool(reparse(raw)),
        definition: Some(definition),
        is_typed: reparse(raw).get(OUTPUT).is_some(),
        standing: Standing::Approved,
        effect,
        is_open_world: mounted.is_open_world_of(kind, name),
        meters,
        is_absent: true,
    }
}
