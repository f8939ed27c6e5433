//! Lists, written once per catalog and served as they are.
//!
//! A page is a finished result object; asking for it costs a lookup. Pages belong to one catalog snapshot and go with it. Only callers
//! that a security context bounds have lists of their own, written as they ask: they change with the rules too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use gateway::{Caller, Catalog, Era, Gate, Listed, Seal};
use vocab::{ServerId, View};
use wire::{
    Json,
    write::{Object, quoted},
};

use super::{
    answer::{Answer, Problem},
    cursor,
    peer::lock,
};

const PAGE_ITEMS: usize = 500;
const PAGE_BYTES: usize = 1 << 20;
/// How long a modern client may serve a list from memory. Short, since not every client listens for changes.
const TTL_MS: u64 = 5_000;
/// Kinds of lists remembered at once; mounts are few, but their ids come from clients' paths.
const MAX_KEPT: usize = 1024;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Tools,
    Prompts,
    Resources,
    Templates,
}

impl Kind {
    pub(crate) fn from_method(method: &str) -> Option<Self> {
        match method {
            "tools/list" => Some(Self::Tools),
            "prompts/list" => Some(Self::Prompts),
            "resources/list" => Some(Self::Resources),
            "resources/templates/list" => Some(Self::Templates),
            _ => None,
        }
    }

    fn field(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources => "resources",
            Self::Templates => "resourceTemplates",
        }
    }

    /// The capability a server declares for it.
    fn capability(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Prompts => "prompts",
            Self::Resources | Self::Templates => "resources",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Key {
    kind: Kind,
    mount: Option<ServerId>,
    view: View,
    era: Era,
    /// Whose lists these are.
    tenant: Option<String>,
    /// The security context that bounds them, and the agent.
    bounds: Option<String>,
}

impl Key {
    /// What a cursor of this list is bound to.
    fn name(&self) -> String {
        let mount = self.mount.as_ref().map_or("", |id| id.as_str());
        let [tenant, bounds] = [&self.tenant, &self.bounds].map(|text| text.as_deref().unwrap_or_default());
        format!("{} {mount} {:?} {tenant} {bounds}", self.kind.field(), self.view)
    }

    /// What of a catalog exists for whoever asks.
    fn seen_in<'a>(&self, catalog: &'a Catalog) -> Vec<&'a Listed> {
        let mount = self.mount.as_ref();
        let items = match self.kind {
            Kind::Tools => catalog.tools(mount, self.view),
            Kind::Prompts => catalog.prompts(mount, self.view),
            Kind::Resources => catalog.resources(mount, self.view),
            Kind::Templates => catalog.templates(mount, self.view),
        };
        let is_seen = |item: &&Listed| item.tenant.is_none() || item.tenant.as_deref() == self.tenant.as_deref();
        items.iter().filter(is_seen).collect()
    }
}

/// One list of one snapshot.
struct Pages {
    /// Index of the first item of each page, and the page's result object.
    pages: Vec<(usize, Bytes)>,
    declared: bool,
}

struct Kept {
    catalog: Arc<Catalog>,
    lists: Mutex<HashMap<Key, Arc<Pages>>>,
}

#[derive(Default)]
pub(crate) struct Lists(ArcSwapOption<Kept>);

impl Lists {
    pub(crate) fn answer(
        &self,
        gate: &Gate,
        kind: Kind,
        caller: &Caller,
        (mount, era): (Option<&ServerId>, Era),
        params: Option<Json<'_>>,
    ) -> Answer {
        let tenant = caller.tenant().map(str::to_owned);
        let bounds = caller.context().map(|context| format!("{context} {}", caller.agent_name().unwrap_or_default()));
        let key = Key { kind, mount: mount.cloned(), view: caller.view(), era, tenant, bounds };
        let pages = match key.bounds {
            None => self.pages(gate, &key),
            Some(_) => Arc::new(Pages::within(gate, caller, &key)),
        };
        if !pages.declared {
            let method = match kind {
                Kind::Templates => "resources/templates/list",
                _ => kind.field(),
            };
            return Problem::no_method(method).into();
        }
        let Some(given) = params.and_then(|params| params.get("cursor")).filter(|cursor| !cursor.is_null()) else {
            return pages.pages.first().map_or_else(Answer::empty, |(_, page)| Answer::result(page.clone()));
        };
        let place = given.as_str().and_then(|text| cursor::read(gate.seal(), &key.name(), &text));
        match place.and_then(|place| pages.at(place)) {
            Some(page) => Answer::result(page),
            None => {
                Problem::invalid_params("Invalid cursor: it is not one this list gave out, or the list has changed since").into()
            }
        }
    }

    fn pages(&self, gate: &Gate, key: &Key) -> Arc<Pages> {
        let catalog = gate.catalog();
        let kept = match self.0.load_full() {
            Some(kept) if Arc::ptr_eq(&kept.catalog, &catalog) => kept,
            _ => {
                let fresh = Arc::new(Kept { catalog, lists: Mutex::default() });
                self.0.store(Some(Arc::clone(&fresh)));
                fresh
            }
        };
        if let Some(pages) = lock(&kept.lists).get(key) {
            return Arc::clone(pages);
        }
        let pages = Arc::new(Pages::write(&kept.catalog, gate.seal(), key));
        let mut lists = lock(&kept.lists);
        if lists.len() < MAX_KEPT {
            lists.insert(key.clone(), Arc::clone(&pages));
        }
        pages
    }
}

impl Pages {
    fn write(catalog: &Catalog, seal: &Seal, key: &Key) -> Self {
        Self::of(&key.seen_in(catalog), catalog, seal, key)
    }

    /// What a caller's security context lists.
    fn within(gate: &Gate, caller: &Caller, key: &Key) -> Self {
        let catalog = gate.catalog();
        let method = match key.kind {
            Kind::Tools => {
                let tools = gate.callable(caller, caller.context(), key.mount.as_ref());
                return Self::of(&tools.iter().collect::<Vec<_>>(), &catalog, gate.seal(), key);
            }
            Kind::Prompts => "prompts.get",
            Kind::Resources | Kind::Templates => "resources.read",
        };
        let items = if gate.lists_method(caller, method) { key.seen_in(&catalog) } else { Vec::new() };
        Self::of(&items, &catalog, gate.seal(), key)
    }

    fn of(items: &[&Listed], catalog: &Catalog, seal: &Seal, key: &Key) -> Self {
        let mount = key.mount.as_ref();
        let capabilities = catalog.capabilities(mount, key.era);
        let declared = Json::checked_before(&capabilities).get(key.kind.capability()).is_some();
        let cuts = cut(items.iter().map(|item| item.raw.len()));
        let name = key.name();
        let pages = cuts.iter().enumerate().map(|(index, &start)| {
            let end = cuts.get(index + 1).copied();
            let page = items.get(start..end.unwrap_or(items.len())).unwrap_or_default();
            (start, page_object(key, page, end.map(|place| cursor::write(seal, &name, place))))
        });
        Self { pages: pages.collect(), declared }
    }

    /// The page that starts at `place`. After a change of the catalog pages may have moved; then there is none.
    fn at(&self, place: usize) -> Option<Bytes> {
        self.pages.iter().find(|(start, _)| *start == place).map(|(_, page)| page.clone())
    }
}

/// Where pages start, given the items' sizes. There is always a first page.
fn cut(sizes: impl Iterator<Item = usize>) -> Vec<usize> {
    let mut starts = vec![0];
    let (mut items, mut bytes) = (0, 0);
    for (index, size) in sizes.enumerate() {
        if items > 0 && (items >= PAGE_ITEMS || bytes + size > PAGE_BYTES) {
            starts.push(index);
            (items, bytes) = (0, 0);
        }
        items += 1;
        bytes += size;
    }
    starts
}

fn page_object(key: &Key, items: &[&Listed], next: Option<String>) -> Bytes {
    let size: usize = items.iter().map(|item| item.raw.len() + 1).sum();
    let mut array = Vec::with_capacity(size + 2);
    array.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        array.extend_from_slice(&item.raw);
    }
    array.push(b']');
    let mut result = Object::with_capacity(size + 256);
    if key.era == Era::Modern {
        result.str("resultType", "complete");
    }
    result.raw(key.kind.field(), &array);
    if let Some(next) = next {
        result.raw("nextCursor", &quoted(&next));
    }
    if key.era == Era::Modern {
        result.u64("ttlMs", TTL_MS).str("cacheScope", "private");
    }
    result.finish().into()
}

#[cfg(test)]
mod tests;
