//! Everything a server offers, or the part of it that was asked for.

use std::{collections::HashMap, rc::Rc};

use bytes::Bytes;
use wire::{
    Json,
    mcp::code,
    write::{self, Object},
};

use super::{
    connection::Connection,
    incoming::known,
    link::Link,
    listing::{self, Kind, Listing},
    plan::Plan,
};
use crate::{
    failure::{self, Failure, clip},
    fair::Turn,
};

/// Tools left out of one catalogue that are logged.
const MAX_LOGGED: usize = 5;
const KINDS: [Kind; 4] = [
    listing::TOOLS,
    listing::RESOURCES,
    listing::TEMPLATES,
    listing::PROMPTS,
];

/// What the gate asks for.
#[derive(Debug)]
pub(crate) struct Wanted {
    kinds: Vec<Kind>,
    /// Tags of lists that the gate has already.
    has: Vec<(String, String)>,
}

impl Wanted {
    pub(crate) fn everything() -> Self {
        Self {
            kinds: KINDS.to_vec(),
            has: Vec::new(),
        }
    }

    /// Reads `only` and `if_changed`.
    pub(crate) fn read(params: Json<'_>) -> Result<Self, Failure> {
        let mut wanted = Self::everything();
        if let Some(only) = params.get("only") {
            let unknown = |name: &str| !KINDS.iter().any(|kind| kind.name == name);
            if let Some(name) = only
                .items()
                .filter_map(Json::as_str)
                .find(|name| unknown(name))
            {
                return Err(Failure::invalid(format!(
                    "`only` names `{}`, which is no list",
                    clip(&name)
                )));
            }
            wanted.kinds.retain(|kind| {
                only.items()
                    .any(|name| name.as_str().as_deref() == Some(kind.name))
            });
            if wanted.kinds.is_empty() {
                return Err(Failure::invalid("`only` names no list"));
            }
        }
        let has = params.get("if_changed").into_iter().flat_map(Json::fields);
        wanted.has = has
            .filter_map(|(name, tag)| Some((name.into_owned(), tag.as_str()?.into_owned())))
            .collect();
        Ok(wanted)
    }

    /// Is this what the gate has already?
    fn is_had(&self, catalog: &Catalog) -> bool {
        let has = |kind: &Kind| {
            self.has
                .iter()
                .find(|(name, _)| name == kind.name)
                .map(|(_, tag)| tag.as_str())
        };
        self.kinds
            .iter()
            .all(|kind| has(kind).is_some_and(|tag| catalog.tag(kind.name) == Some(tag)))
    }
}

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Bytes>,
    pub(crate) resources: Vec<Bytes>,
    pub(crate) templates: Vec<Bytes>,
    pub(crate) prompts: Vec<Bytes>,
    truncated: Vec<&'static str>,
    failed: Vec<(&'static str, String)>,
    /// Why there is no answer at all: then nothing is known of what the server offers now.
    lost: Option<Failure>,
    dropped: Vec<(String, String)>,
    /// Of each list that was read.
    tags: Vec<(&'static str, String)>,
}

/// The answer to `catalog`. A server that could not be asked has not shown an empty list.
pub(crate) async fn answer(conn: &Rc<Connection>, wanted: &Wanted) -> Result<Vec<u8>, Failure> {
    let mut catalog = Box::pin(Catalog::list(conn, wanted)).await;
    if let Some(failure) = catalog.lost {
        return Err(failure);
    }
    let is_had = wanted.is_had(&catalog);
    // The gate may have a list that the connection has forgotten: it changed meanwhile, and changed back.
    if !is_had || !catalog.is_planned(conn) {
        catalog.plan(conn).await;
    }
    Ok(if is_had {
        b"{\"unchanged\":true}".to_vec()
    } else {
        catalog.to_json(wanted)
    })
}

impl Catalog {
    /// Everything the server says it has.
    pub(crate) async fn fetch(conn: &Rc<Connection>) -> Self {
        let mut catalog = Box::pin(Self::list(conn, &Wanted::everything())).await;
        catalog.plan(conn).await;
        catalog
    }

    /// Asks for the lists side by side.
    async fn list(conn: &Rc<Connection>, wanted: &Wanted) -> Self {
        let list = async |kind: Kind| match wanted.kinds.contains(&kind) {
            true => Some(Listing::fetch(conn, kind).await),
            false => None,
        };
        let [tools, resources, templates, prompts] = KINDS;
        let (tools, resources, templates, prompts) =
            tokio::join!(list(tools), list(resources), list(templates), list(prompts));
        let mut catalog = Self::default();
        catalog.tools = catalog.keep("tools", tools);
        catalog.resources = catalog.keep("resources", resources);
        catalog.templates = catalog.keep("templates", templates);
        catalog.prompts = catalog.keep("prompts", prompts);
        catalog
    }

    fn keep(&mut self, name: &'static str, listing: Option<Listing>) -> Vec<Bytes> {
        let Some(listing) = listing else {
            return Vec::new();
        };
        if listing.truncated {
            self.truncated.push(name);
        }
        match listing.failed {
            // Templates are an optional part of resources; not knowing the method is no failure.
            Some(failure)
                if name != "templates" || failure.code() != Some(code::METHOD_NOT_FOUND) =>
            {
                self.failed.push((name, failure.text.clone()));
                let is_unanswered = name == "tools"
                    && failure.rpc.is_none()
                    && failure.kind != failure::Kind::Invalid;
                if is_unanswered || failure.unreachable {
                    self.lost.get_or_insert(failure);
                }
            }
            _ => self.tags.push((name, listing.tag)),
        }
        listing.items
    }

    fn tag(&self, name: &str) -> Option<&str> {
        self.tags
            .iter()
            .find(|(listed, _)| *listed == name)
            .map(|(_, tag)| tag.as_str())
    }

    /// Does the connection know already how to call these tools?
    fn is_planned(&self, conn: &Connection) -> bool {
        match self.tag("tools") {
            Some(tag) if has_plans(conn) => conn.planned.borrow().as_deref() == Some(tag),
            _ => true,
        }
    }

    /// Learns how each tool's headers are computed, and takes out the tools that must not be offered.
    async fn plan(&mut self, conn: &Connection) {
        let Some(tag) = self
            .tag("tools")
            .map(str::to_owned)
            .filter(|_| has_plans(conn))
        else {
            return;
        };
        self.dropped = replan(conn, &mut self.tools, tag).await;
    }

    fn to_json(&self, wanted: &Wanted) -> Vec<u8> {
        let mut out = Object::with_capacity(64 << 10);
        let lists = [&self.tools, &self.resources, &self.templates, &self.prompts];
        for (kind, items) in KINDS
            .iter()
            .zip(lists)
            .filter(|(kind, _)| wanted.kinds.contains(kind))
        {
            out.raw(kind.name, &array(items));
        }
        let truncated: Vec<Bytes> = self
            .truncated
            .iter()
            .map(|name| write::quoted(name).into())
            .collect();
        out.raw("truncated", &array(&truncated));
        out.object("tags", |tags| {
            for (name, tag) in &self.tags {
                tags.str(name, tag);
            }
        });
        if !self.failed.is_empty() {
            out.object("failed", |failed| {
                for (name, text) in &self.failed {
                    failed.str(name, text);
                }
            });
        }
        if !self.dropped.is_empty() {
            let dropped: Vec<Bytes> = self
                .dropped
                .iter()
                .map(|(name, reason)| {
                    let mut entry = Object::new();
                    entry.str("name", name).str("reason", reason);
                    entry.finish().into()
                })
                .collect();
            out.raw("dropped", &array(&dropped));
        }
        out.finish()
    }
}

fn array(items: &[Bytes]) -> Vec<u8> {
    let mut out = Vec::with_capacity(items.iter().map(|item| item.len() + 1).sum::<usize>() + 2);
    out.push(b'[');
    for item in items {
        if out.len() > 1 {
            out.push(b',');
        }
        out.extend_from_slice(item);
    }
    out.push(b']');
    out
}

/// Only HTTP has headers.
fn has_plans(conn: &Connection) -> bool {
    matches!(conn.link, Link::Http(_) | Link::Sse(_))
}

async fn replan(conn: &Connection, tools: &mut Vec<Bytes>, tag: String) -> Vec<(String, String)> {
    let mut plans = HashMap::new();
    let mut dropped = Vec::new();
    let mut turn = Turn::default();
    let mut kept = Vec::with_capacity(tools.len());
    for tool in tools.drain(..) {
        turn.spend(tool.len());
        turn.pass().await;
        let json = known(&tool);
        let plan = Plan::of(json);
        let name = json
            .get("name")
            .and_then(Json::as_str)
            .unwrap_or_default()
            .into_owned();
        match plan.invalid.clone() {
            None => kept.push(tool),
            Some(reason) => {
                if dropped.len() < MAX_LOGGED {
                    tracing::warn!(server = &*conn.server, tool = %clip(&name), "the tool is not offered: {reason}");
                }
                dropped.push((name.clone(), reason));
            }
        }
        if !plan.is_plain() {
            plans.insert(name, Rc::new(plan));
        }
    }
    *tools = kept;
    conn.plans.replace(Rc::new(plans));
    conn.planned.replace(Some(tag));
    dropped
}

/// Asks for the tools only to learn their headers anew.
pub(crate) async fn refresh_plans(conn: &Rc<Connection>) {
    let mut listing = Listing::fetch(conn, listing::TOOLS).await;
    if listing.failed.is_none() {
        replan(conn, &mut listing.items, listing.tag).await;
    }
}
