//! Lists, written once per catalog and served as they are.
//!
//! A page is a finished result object; asking for it costs a lookup. Pages belong to one catalog snapshot and go with it, and callers who
//! see the same share them. Only callers that a security context bounds have lists of their own, written as they ask: they change with
//! the rules too.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use gateway::{Caller, Catalog, Era, Gate, ListKind, Listed, Pass, Sight, SightKey, Wrapper};
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
/// Servers whose resources are listed once the session has read from them: they are above its label.
const UNLISTED: &str = "portcullis/unlisted";
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

    const fn list(self) -> ListKind {
        match self {
            Self::Tools => ListKind::Tools,
            Self::Prompts => ListKind::Prompts,
            Self::Resources => ListKind::Resources,
            Self::Templates => ListKind::Templates,
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
    /// Who sees the same.
    sight: SightKey,
    /// The security context that bounds them, and the agent.
    bounds: Option<String>,
    /// Whether a person's words began the conversation, so that a plan is of use.
    plans: bool,
    /// Whether it may meet sealed texts.
    seals: bool,
    /// How long the gate's own tools are together: those for files, or those of them that read, and those for the web.
    own: usize,
}

impl Key {
    /// What a cursor of this list is bound to.
    fn name(&self) -> String {
        let mount = self.mount.as_ref().map_or("", |id| id.as_str());
        let bounds = self.bounds.as_deref().unwrap_or_default();
        format!(
            "{} {mount} {:?} {:?} {bounds} {} {} {}",
            self.kind.field(),
            self.view,
            self.sight,
            self.plans,
            self.seals,
            self.own
        )
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
    ) -> (Answer, Pass) {
        let sight = gate.sight(caller);
        let answer = self.written(gate, kind, &sight, (mount, era), params);
        (answer, sight.pass())
    }

    fn written(
        &self,
        gate: &Gate,
        kind: Kind,
        sight: &Sight,
        (mount, era): (Option<&ServerId>, Era),
        params: Option<Json<'_>>,
    ) -> Answer {
        let caller = sight.caller();
        let bounds = caller
            .context()
            .map(|context| format!("{context} {}", caller.agent_name().unwrap_or_default()));
        let own = match (kind, mount) {
            (Kind::Tools, None) => gate.volume_tools(caller, caller.context()),
            _ => Vec::new(),
        };
        let is_own = kind == Kind::Tools && mount.is_none() && bounds.is_none();
        let key = Key {
            own: own.iter().map(Bytes::len).sum(),
            kind,
            mount: mount.cloned(),
            view: caller.view(),
            era,
            sight: sight.key().clone(),
            plans: is_own && gate.plans(caller),
            seals: is_own && gate.seals(caller),
            bounds,
        };
        let pages = match key.bounds {
            None => self.pages(gate, sight, &key, &own),
            Some(_) => Arc::new(Pages::within(gate, sight, &key, &own)),
        };
        if !pages.declared {
            let method = match kind {
                Kind::Templates => "resources/templates/list",
                _ => kind.field(),
            };
            return Problem::no_method(method).into();
        }
        let Some(given) = params
            .and_then(|params| params.get("cursor"))
            .filter(|cursor| !cursor.is_null())
        else {
            return pages
                .pages
                .first()
                .map_or_else(Answer::empty, |(_, page)| Answer::result(page.clone()));
        };
        let place = given
            .as_str()
            .and_then(|text| cursor::read(gate.wrapper(), &key.name(), &text));
        match place.and_then(|place| pages.at(place)) {
            Some(page) => Answer::result(page),
            None => Problem::invalid_params(
                "Invalid cursor: it is not one this list gave out, or the list has changed since",
            )
            .into(),
        }
    }

    fn pages(&self, gate: &Gate, sight: &Sight, key: &Key, own: &[Bytes]) -> Arc<Pages> {
        let catalog = gate.catalog();
        let kept = match self.0.load_full() {
            Some(kept) if Arc::ptr_eq(&kept.catalog, &catalog) => kept,
            _ => {
                let fresh = Arc::new(Kept {
                    catalog,
                    lists: Mutex::default(),
                });
                self.0.store(Some(Arc::clone(&fresh)));
                fresh
            }
        };
        if let Some(pages) = lock(&kept.lists).get(key) {
            return Arc::clone(pages);
        }
        let pages = Arc::new(Pages::write(&kept.catalog, gate.wrapper(), sight, key, own));
        let mut lists = lock(&kept.lists);
        if lists.len() < MAX_KEPT {
            lists.insert(key.clone(), Arc::clone(&pages));
        }
        pages
    }
}

impl Pages {
    fn write(
        catalog: &Catalog,
        wrapper: &Wrapper,
        sight: &Sight,
        key: &Key,
        own: &[Bytes],
    ) -> Self {
        let items = catalog.listed(key.kind.list(), key.mount.as_ref(), sight);
        Self::of((&items, own), catalog, wrapper, sight, key)
    }

    /// What a caller's security context lists.
    fn within(gate: &Gate, sight: &Sight, key: &Key, own: &[Bytes]) -> Self {
        let (catalog, mount) = (gate.catalog(), key.mount.as_ref());
        let method = match key.kind {
            Kind::Tools => {
                let tools = gate.callable(sight, sight.caller().context(), mount);
                let tools: Vec<_> = tools.iter().collect();
                return Self::of((&tools, own), &catalog, gate.wrapper(), sight, key);
            }
            Kind::Prompts => "prompts.get",
            Kind::Resources | Kind::Templates => "resources.read",
        };
        let is_allowed = gate.lists_method(sight.caller(), method);
        let items = if is_allowed {
            catalog.listed(key.kind.list(), mount, sight)
        } else {
            Vec::new()
        };
        Self::of((&items, own), &catalog, gate.wrapper(), sight, key)
    }

    /// What servers list, and then what the gate itself does.
    fn of(
        (items, own): (&[&Listed], &[Bytes]),
        catalog: &Catalog,
        wrapper: &Wrapper,
        sight: &Sight,
        key: &Key,
    ) -> Self {
        let mount = key.mount.as_ref();
        let capabilities = catalog.capabilities(mount, key.era, sight);
        let declared = Json::checked_before(&capabilities)
            .get(key.kind.capability())
            .is_some();
        let unlisted = if key.kind == Kind::Resources {
            catalog.unlisted(mount, sight)
        } else {
            Vec::new()
        };
        let plan = key.plans.then_some(gateway::PLAN_DEFINITION.as_bytes());
        let sealed = [gateway::SEALED_DEFINITION, gateway::OPEN_DEFINITION];
        let sealed = sealed
            .iter()
            .filter(|_| key.seals)
            .map(|text| text.as_bytes());
        let lines: Vec<&[u8]> = items
            .iter()
            .map(|item| &item.raw)
            .chain(own)
            .map(|raw| &**raw)
            .chain(plan)
            .chain(sealed)
            .collect();
        Self {
            pages: pages(key, &lines, &unlisted, |place| {
                cursor::write(wrapper, &key.name(), place)
            }),
            declared,
        }
    }

    /// The page that starts at `place`. After a change of the catalog pages may have moved; then there is none.
    fn at(&self, place: usize) -> Option<Bytes> {
        self.pages
            .iter()
            .find(|(start, _)| *start == place)
            .map(|(_, page)| page.clone())
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

/// The pages of a list, each with the index of its first item.
fn pages(
    key: &Key,
    items: &[&[u8]],
    unlisted: &[&ServerId],
    cursor: impl Fn(usize) -> String,
) -> Vec<(usize, Bytes)> {
    let cuts = cut(items.iter().map(|item| item.len()));
    let page = |(index, &start): (usize, &usize)| {
        let end = cuts.get(index + 1).copied();
        let page = items
            .get(start..end.unwrap_or(items.len()))
            .unwrap_or_default();
        (start, page_object(key, page, unlisted, end.map(&cursor)))
    };
    cuts.iter().enumerate().map(page).collect()
}

fn page_object(key: &Key, items: &[&[u8]], unlisted: &[&ServerId], next: Option<String>) -> Bytes {
    let size: usize = items.iter().map(|item| item.len() + 1).sum();
    let mut array = Vec::with_capacity(size + 2);
    array.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            array.push(b',');
        }
        array.extend_from_slice(item);
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
    if !unlisted.is_empty() {
        let ids: Vec<Vec<u8>> = unlisted.iter().map(|id| quoted(id.as_str())).collect();
        result.object("_meta", |meta| {
            meta.raw(
                UNLISTED,
                &[b"[", ids.join(&b","[..]).as_slice(), b"]"].concat(),
            );
        });
    }
    if key.era == Era::Modern {
        result.u64("ttlMs", TTL_MS).str("cacheScope", "private");
    }
    result.finish().into()
}

#[cfg(test)]
mod tests;
