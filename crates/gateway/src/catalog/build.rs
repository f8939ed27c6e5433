//! Building a catalog from what the servers showed.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use bytes::Bytes;
use policy::Permission;
use vocab::{ToolName, View, skeleton};
use wire::write;

use super::{Catalog, Face, Item, Listed, Mounted, RefusedName, Table, Target, ViewTables, headers, reparse};
use crate::settings::ServerSpec;

impl Catalog {
    /// Builds the catalog of these servers, in their order.
    pub(crate) fn build(servers: &[(Arc<ServerSpec>, Option<Arc<Face>>)]) -> Self {
        let mut catalog = Self::default();
        let mut uris: HashMap<Box<str>, Option<Arc<Target>>> = HashMap::new();
        for (spec, face) in servers {
            let mounted = match face {
                Some(face) => catalog.add(spec, face),
                None => Mounted { spec: Arc::clone(spec), face: None, tables: ViewTables::default(), resources: Table::new() },
            };
            for (uri, target) in &mounted.resources {
                uris.entry(uri.clone()).and_modify(|only| *only = None).or_insert_with(|| Some(Arc::clone(target)));
            }
            catalog.servers.insert(spec.id.clone(), mounted);
        }
        catalog.unambiguous_uris = uris.into_iter().filter_map(|(uri, target)| Some((uri, target?))).collect();
        catalog
    }

    fn add(&mut self, spec: &Arc<ServerSpec>, face: &Arc<Face>) -> Mounted {
        let mut mounted = Mounted {
            spec: Arc::clone(spec),
            face: Some(Arc::clone(face)),
            tables: ViewTables::default(),
            resources: Table::new(),
        };
        let mut looks = HashSet::new();
        for item in &face.tools {
            if let Some(target) = self.accept(spec, face, item, &mut looks) {
                let shown = spec.classification.is_some() && spec.permission(&item.name) != Permission::Blocked;
                self.expose(&mut mounted, item, &target, shown, |tables| (&mut tables.lists.tools, &mut tables.tools));
            }
        }
        looks.clear();
        for item in &face.prompts {
            if let Some(target) = self.accept(spec, face, item, &mut looks) {
                let shown = spec.classification.is_some();
                self.expose(&mut mounted, item, &target, shown, |tables| (&mut tables.lists.prompts, &mut tables.prompts));
            }
        }
        self.add_resources(spec, face, &mut mounted);
        mounted
    }

    /// A name must follow the grammar and not look like another of the same server.
    fn accept(&mut self, spec: &Arc<ServerSpec>, face: &Face, item: &Item, looks: &mut HashSet<String>) -> Option<Arc<Target>> {
        let reason = match ToolName::parse(&item.name) {
            Err(error) => Some(error.to_string()),
            Ok(_) if !looks.insert(skeleton(&item.name)) => Some("looks like another name of the same server".to_owned()),
            Ok(_) => None,
        };
        if let Some(reason) = reason {
            self.refused.push(RefusedName { server: spec.id.clone(), name: item.name.clone(), reason });
            return None;
        }
        Some(Arc::new(Target {
            spec: Arc::clone(spec),
            name: item.name.clone(),
            era: Some(face.era),
            header_params: headers::of_tool(reparse(&item.raw)),
        }))
    }

    /// Enters one name into every view. Servers that nobody has classified are routable, so that a call gets a clear refusal, but
    /// not shown.
    fn expose(
        &mut self,
        mounted: &mut Mounted,
        item: &Item,
        target: &Arc<Target>,
        shown: bool,
        pick: fn(&mut ViewTables) -> (&mut Vec<Listed>, &mut Table),
    ) {
        let id = mounted.spec.id.clone();
        for view in [View::Double, View::Flat, View::Raw] {
            let tables = match view {
                View::Double => &mut self.double,
                View::Flat => &mut self.flat,
                View::Raw => &mut mounted.tables,
            };
            let (list, table) = pick(tables);
            let name = view.expose(&id, &item.name);
            if table.contains_key(name.as_str()) {
                // Two pairs meet in this view; neither may answer for the other, so the later one is not in it.
                let reason = format!("would be shown as `{name}`, which another server's tool is");
                self.refused.push(RefusedName { server: id.clone(), name: item.name.clone(), reason });
                continue;
            }
            table.insert(name.clone().into(), Arc::clone(target));
            if shown {
                let raw = if view == View::Raw { item.raw.clone() } else { renamed(item, "name", &name) };
                list.push(Listed { name, raw, server: id.clone() });
            }
        }
    }

    fn add_resources(&mut self, spec: &Arc<ServerSpec>, face: &Face, mounted: &mut Mounted) {
        for item in &face.resources {
            let target =
                Target { spec: Arc::clone(spec), name: item.name.clone(), era: Some(face.era), header_params: Vec::new() };
            mounted.resources.insert(item.name.clone().into(), Arc::new(target));
        }
        if spec.classification.is_none() {
            return;
        }
        for (items, field) in [(&face.resources, "uri"), (&face.templates, "uriTemplate")] {
            for item in items {
                let name = Self::exposed_uri(&spec.id, &item.name);
                let listed = Listed { raw: renamed(item, field, &name), name, server: spec.id.clone() };
                let own = Listed { raw: item.raw.clone(), name: item.name.clone(), server: spec.id.clone() };
                let lists = [&mut self.double.lists, &mut self.flat.lists, &mut mounted.tables.lists];
                for (lists, listed) in lists.into_iter().zip([listed.clone(), listed, own]) {
                    let list = if field == "uri" { &mut lists.resources } else { &mut lists.templates };
                    list.push(listed);
                }
            }
        }
    }
}

/// The item with one field replaced and everything else byte for byte, the field's place included.
fn renamed(item: &Item, field: &str, name: &str) -> Bytes {
    let json = reparse(&item.raw);
    let mut out = write::Object::with_capacity(item.raw.len() + name.len());
    let mut fields = json.fields();
    while let Some((key, value)) = fields.next_raw() {
        if value.as_bytes().as_ptr() == json.get(field).map_or(std::ptr::null(), |value| value.as_bytes().as_ptr()) {
            out.str(field, name);
        } else {
            out.copied(key, value);
        }
    }
    out.finish().into()
}
