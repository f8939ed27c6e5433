//! One list of a server, gathered page by page and capped in every direction.

use std::{
    collections::HashSet,
    hash::{BuildHasher, Hasher},
    rc::Rc,
    time::Duration,
};

use bytes::Bytes;
use tokio::time::timeout;
use wire::write::Object;

use super::{connection::Connection, incoming::known};
use crate::{failure::Failure, fair::Turn};

const MAX_ENTRIES: usize = 10_000;
const MAX_BYTES: usize = 8 << 20;
const MAX_PAGES: usize = 1_000;
/// For one list with all its pages.
const PATIENCE: Duration = Duration::from_secs(30);

/// A list a server may offer: its name here, the capability that announces it, how to ask, and where in the answer it stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Kind {
    pub(crate) name: &'static str,
    capability: &'static str,
    method: &'static str,
    key: &'static str,
}

pub(crate) const TOOLS: Kind = Kind {
    name: "tools",
    capability: "tools",
    method: "tools/list",
    key: "tools",
};
pub(crate) const RESOURCES: Kind = Kind {
    name: "resources",
    capability: "resources",
    method: "resources/list",
    key: "resources",
};
pub(crate) const TEMPLATES: Kind = Kind {
    name: "templates",
    capability: "resources",
    method: "resources/templates/list",
    key: "resourceTemplates",
};
pub(crate) const PROMPTS: Kind = Kind {
    name: "prompts",
    capability: "prompts",
    method: "prompts/list",
    key: "prompts",
};

/// One list, as far as it could be read.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    pub(crate) items: Vec<Bytes>,
    pub(crate) truncated: bool,
    pub(crate) failed: Option<Failure>,
    /// Stands for the text of all items in their order. Two lists of one connection have the same tag only if they are the same.
    pub(crate) tag: String,
}

impl Listing {
    /// Asks for a list, unless the server says that it has none.
    pub(crate) async fn fetch(conn: &Rc<Connection>, kind: Kind) -> Self {
        let mut listing = Self::default();
        let mut hasher = conn.tagger.build_hasher();
        if conn.declares(&[kind.capability])
            && timeout(PATIENCE, listing.pages(conn, kind, &mut hasher))
                .await
                .is_err()
        {
            let seconds = PATIENCE.as_secs();
            listing.give_up(Failure::timeout(format!(
                "timeout: `{}` took more than {seconds} s",
                kind.method
            )));
        }
        hasher.write_u8(listing.truncated.into());
        listing.tag = format!("{:016x}", hasher.finish());
        listing
    }

    async fn pages(&mut self, conn: &Rc<Connection>, kind: Kind, hasher: &mut impl Hasher) {
        let Kind { method, key, .. } = kind;
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
                Err(failure) => return self.give_up(failure),
            };
            let json = known(&page);
            let Some(items) = json.get(key).filter(|items| items.is_array()) else {
                return self.give_up(Failure::invalid(format!(
                    "`{method}` answered without `{key}`"
                )));
            };
            for item in items.items() {
                let item = item.as_bytes();
                turn.spend(item.len());
                turn.pass().await;
                bytes += item.len();
                if self.items.len() >= MAX_ENTRIES || bytes > MAX_BYTES {
                    self.truncated = true;
                    return;
                }
                hasher.write_usize(item.len());
                hasher.write(item);
                // A copy, so that one small item does not keep a whole page in memory.
                self.items.push(Bytes::copy_from_slice(item));
            }
            let Some(next) = json
                .get("nextCursor")
                .filter(|next| next.as_str().is_some())
            else {
                return;
            };
            if !seen.insert(next.as_bytes().to_vec()) {
                self.truncated = true;
                return;
            }
            cursor = Some(page.slice_ref(next.as_bytes()));
        }
        self.truncated = true;
    }

    /// What was read so far is kept, and known to be incomplete.
    fn give_up(&mut self, failure: Failure) {
        self.truncated = !self.items.is_empty();
        self.failed = Some(failure);
    }
}
