//! Everything a server offers, gathered page by page and capped in every direction.

use std::{
    collections::{HashMap, HashSet},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::timeout;
use wire::{
    Json,
    mcp::code,
    write::{self, Object},
};

use super::{connection::Connection, incoming::known, link::Link, plan::Plan};
use crate::{
    failure::{Failure, clip},
    fair::Turn,
};

const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 8 << 20;
const MAX_PAGES: usize = 1_000;
/// Tools left out of one catalogue that are logged.
const MAX_LOGGED: usize = 5;
/// For one list with all its pages.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Debug, Default)]
pub(crate) struct Catalog {
    pub(crate) tools: Vec<Bytes>,
    pub(crate) resources: Vec<Bytes>,
    pub(crate) templates: Vec<Bytes>,
    pub(crate) prompts: Vec<Bytes>,
    truncated: Vec<&'static str>,
    failed: Vec<(&'static str, String)>,
    dropped: Vec<(String, String)>,
}

/// One list, as far as it could be read.
#[derive(Debug, Default)]
struct Listing {
    items: Vec<Bytes>,
    truncated: bool,
    failed: Option<Failure>,
}

impl Catalog {
    /// Asks for every list the server says it has, side by side.
    pub(crate) async fn fetch(conn: &Rc<Connection>) -> Self {
        let (tools, resources, templates, prompts) = tokio::join!(
            list(conn, "tools", "tools/list", "tools"),
            list(conn, "resources", "resources/list", "resources"),
            list(conn, "resources", "resources/templates/list", "resourceTemplates"),
            list(conn, "prompts", "prompts/list", "prompts"),
        );
        let mut catalog = Self::default();
        catalog.tools = catalog.keep("tools", tools);
        catalog.resources = catalog.keep("resources", resources);
        catalog.templates = catalog.keep("templates", templates);
        catalog.prompts = catalog.keep("prompts", prompts);
        if matches!(conn.link, Link::Http(_) | Link::Sse(_)) {
            catalog.dropped = replan(conn, &mut catalog.tools).await;
        }
        catalog
    }

    fn keep(&mut self, name: &'static str, listing: Listing) -> Vec<Bytes> {
        if listing.truncated {
            self.truncated.push(name);
        }
        if let Some(failure) = listing.failed {
            // Templates are an optional part of resources; not knowing the method is no failure.
            if name != "templates" || failure.code() != Some(code::METHOD_NOT_FOUND) {
                self.failed.push((name, failure.text));
            }
        }
        listing.items
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        let mut out = Object::with_capacity(64 << 10);
        out.raw("tools", &array(&self.tools)).raw("resources", &array(&self.resources));
        out.raw("templates", &array(&self.templates)).raw("prompts", &array(&self.prompts));
        let truncated: Vec<Bytes> = self.truncated.iter().map(|name| write::quoted(name).into()).collect();
        out.raw("truncated", &array(&truncated));
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

/// Learns how each tool's headers are computed, and takes out the tools that must not be offered.
async fn replan(conn: &Connection, tools: &mut Vec<Bytes>) -> Vec<(String, String)> {
    let mut plans = HashMap::new();
    let mut dropped = Vec::new();
    let mut turn = Turn::default();
    let mut kept = Vec::with_capacity(tools.len());
    for tool in tools.drain(..) {
        turn.spend(tool.len());
        turn.pass().await;
        let json = known(&tool);
        let plan = Plan::of(json);
        let name = json.get("name").and_then(Json::as_str).unwrap_or_default().into_owned();
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
    conn.plans.replace(plans);
    dropped
}

/// Asks for the tools only to learn their headers anew.
pub(crate) async fn refresh_plans(conn: &Rc<Connection>) {
    let mut listing = list(conn, "tools", "tools/list", "tools").await;
    if listing.failed.is_none() {
        replan(conn, &mut listing.items).await;
    }
}

async fn list(conn: &Rc<Connection>, capability: &str, method: &str, key: &str) -> Listing {
    let mut listing = Listing::default();
    if !conn.declares(&[capability]) {
        return listing;
    }
    if timeout(PATIENCE, pages(conn, method, key, &mut listing)).await.is_err() {
        listing.give_up(Failure::timeout(format!("timeout: `{method}` took more than {} s", PATIENCE.as_secs())));
    }
    listing
}

async fn pages(conn: &Rc<Connection>, method: &str, key: &str, listing: &mut Listing) {
    let mut cursor: Option<Bytes> = None;
    let mut seen = HashSet::new();
    let mut bytes = 0;
    let mut turn = Turn::default();
    for _ in 0..MAX_PAGES {
        let params = cursor.as_ref().map(|cursor| {
            let mut params = Object::new();
            params.raw("cursor", cursor);
            Bytes::from(params.finish())
        });
        let page = match conn.request(method, params.as_ref().map(known)).await {
            Ok(page) => page,
            Err(failure) => return listing.give_up(failure),
        };
        let json = known(&page);
        let Some(items) = json.get(key).filter(|items| items.is_array()) else {
            return listing.give_up(Failure::invalid(format!("`{method}` answered without `{key}`")));
        };
        for item in items.items() {
            turn.spend(item.as_bytes().len());
            turn.pass().await;
            bytes += item.as_bytes().len();
            if listing.items.len() >= MAX_ENTRIES || bytes > MAX_BYTES {
                listing.truncated = true;
                return;
            }
            // A copy, so that one small item does not keep a whole page in memory.
            listing.items.push(Bytes::copy_from_slice(item.as_bytes()));
        }
        let Some(next) = json.get("nextCursor").filter(|next| next.as_str().is_some()) else { return };
        if !seen.insert(next.as_bytes().to_vec()) {
            listing.truncated = true;
            return;
        }
        cursor = Some(page.slice_ref(next.as_bytes()));
    }
    listing.truncated = true;
}

impl Listing {
    /// What was read so far is kept, and known to be incomplete.
    fn give_up(&mut self, failure: Failure) {
        if self.items.is_empty() {
            self.failed = Some(failure);
        } else {
            self.truncated = true;
        }
    }
}
