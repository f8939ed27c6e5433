//! All servers behind the gate, their tending tasks, and the catalog they add up to.
//!
//! **Invariant: only a list that a server gave replaces the one before.** A server that cannot be reached keeps its
//! tools, and calls say that it is not available. Test `tools_of_a_server_that_is_down_stay_and_say_so`.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use audit::Ledger;
use bytes::Bytes;
use callers::meters::Meters;
use shape::secrets::Held;
use tokio::{
    sync::{broadcast, watch},
    task::JoinHandle,
};
use vocab::ServerId;
use wire::{Json, worker::method, write::Object};
use zeroize::Zeroizing;

use super::{Board, Upstream, lock, start::Jailing};
use crate::{
    ListKind,
    catalog::{Basis, Catalog, Face, Item, Snapshots, reparse},
    change::Change,
    link::{EventName, Link, Word},
    logins::{Holder, Logins},
    pins::Pins,
    settings::HubSettings,
    workers::Workers,
};

/// How long a replaced server serves on while its successor connects.
pub(super) const SUCCESSION: Duration = Duration::from_secs(10);
/// Changes a slow listener may lag behind before it is told that it missed some.
const CHANGES: usize = 1024;

/// The lists that clients are told of.
pub(super) const TOLD: [ListKind; 3] = [ListKind::Tools, ListKind::Prompts, ListKind::Resources];
/// Tokens of one login that are looked for in results: a server may still echo the one before.
const HELD_TOKENS: usize = 3;
/// How long a worker is left alone that asked for too many proofs at once.
const PROOFS_PAUSE: Duration = Duration::from_secs(1);
/// The longest id of a visit that is passed on.
const MAX_VISIT: usize = 256;

pub(super) struct Tended {
    pub(super) upstream: Arc<Upstream>,
    pub(super) task: Option<JoinHandle<()>>,
}

impl Drop for Tended {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

pub struct Hub {
    workers: Arc<Workers>,
    snapshots: Snapshots,
    secrets: Arc<dyn secrets::Store>,
    logins: Arc<Logins>,
    name: &'static str,
    version: &'static str,
    host_path: String,
    jailing: Jailing,
    generations: AtomicU64,
    /// In the order of the configuration.
    pub(super) tended: Mutex<Vec<Tended>>,
    /// Where the servers in force stand.
    board: Arc<dyn Board>,
    pub(super) pins: Arc<Pins>,
    pub(super) meters: Meters,
    ledger: Ledger,
    /// Secrets that were handed to servers, so that none of them comes back to a caller.
    held: ArcSwap<Held>,
    held_values: Mutex<Vec<Zeroizing<String>>>,
    /// The tokens of logins, the last ones of each holder.
    held_logins: Mutex<HashMap<Holder, VecDeque<Zeroizing<String>>>>,
    pub(super) rebuilding: Mutex<()>,
    catalog_version: watch::Sender<u64>,
    changes: broadcast::Sender<Change>,
}

impl std::fmt::Debug for Hub {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hub")
            .field("servers", &self.board.servers().len())
            .finish_non_exhaustive()
    }
}

impl Hub {
    pub fn new(settings: HubSettings, workers: Arc<Workers>, ledger: Ledger) -> Arc<Self> {
        Arc::new(Self {
            workers,
            snapshots: Snapshots::new(settings.snapshots),
            secrets: settings.secrets,
            logins: Arc::new(Logins::new(settings.logins, Some(ledger.clone()))),
            name: settings.name,
            version: settings.version,
            host_path: settings.host_path,
            jailing: Jailing::new(settings.jails),
            generations: AtomicU64::new(1),
            tended: Mutex::default(),
            board: settings.board,
            pins: settings.pins,
            meters: Meters::default(),
            ledger,
            held: ArcSwap::from_pointee(Held::new(std::iter::empty())),
            held_values: Mutex::default(),
            held_logins: Mutex::default(),
            rebuilding: Mutex::default(),
            catalog_version: watch::Sender::new(0),
            changes: broadcast::Sender::new(CHANGES),
        })
    }

    pub(super) fn next_generation(&self) -> u64 {
        self.generations.fetch_add(1, Ordering::Relaxed)
    }

    pub(super) fn attempts(&self) -> u32 {
        self.board.servers().attempts
    }

    pub(crate) fn jailing(&self) -> &Jailing {
        &self.jailing
    }

    pub(super) fn host_path(&self) -> &str {
        &self.host_path
    }

    pub(super) fn name(&self) -> &str {
        self.name
    }

    pub(super) fn version(&self) -> &str {
        self.version
    }

    pub(super) fn snapshots(&self) -> &Snapshots {
        &self.snapshots
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    pub fn logins(&self) -> &Arc<Logins> {
        &self.logins
    }

    pub fn secrets(&self) -> &Arc<dyn secrets::Store> {
        &self.secrets
    }

    pub fn pins(&self) -> &Arc<Pins> {
        &self.pins
    }

    /// The secrets that must not appear in what a caller is shown.
    pub fn held(&self) -> Arc<Held> {
        self.held.load_full()
    }

    /// From now on this value is taken out of results.
    pub fn hold(&self, value: &str) {
        let mut values = lock(&self.held_values);
        if !values.iter().any(|held| held.as_str() == value) {
            values.push(Zeroizing::new(value.to_owned()));
            self.store_held(&values, &lock(&self.held_logins));
        }
    }

    /// From now on the token of this login is taken out of results, and the ones before it for a while.
    pub fn hold_login(&self, holder: &Holder, token: &str) {
        let values = lock(&self.held_values);
        let mut logins = lock(&self.held_logins);
        let tokens = logins.entry(holder.clone()).or_default();
        if tokens.iter().any(|held| held.as_str() == token) {
            return;
        }
        tokens.truncate(HELD_TOKENS - 1);
        tokens.push_front(Zeroizing::new(token.to_owned()));
        self.store_held(&values, &logins);
    }

    fn store_held(
        &self,
        values: &[Zeroizing<String>],
        logins: &HashMap<Holder, VecDeque<Zeroizing<String>>>,
    ) {
        let all = values.iter().chain(logins.values().flatten());
        self.held
            .store(Arc::new(Held::new(all.map(|value| value.as_str()))));
    }

    /// What a server says of itself, without secrets. Unlike results this has no opt-out: it is written to files.
    pub(super) fn cleaned(&self, server: &ServerId, text: Bytes) -> Bytes {
        match shape::secrets::redact(&text, &self.held()) {
            None => text,
            Some(redacted) => {
                tracing::warn!(%server, found = redacted.found.join(", "), "what the server says of itself carried secrets");
                redacted.text.into()
            }
        }
    }

    pub fn workers(&self) -> &Arc<Workers> {
        &self.workers
    }

    pub fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&self.board.servers().catalog)
    }

    pub fn catalog_versions(&self) -> watch::Receiver<u64> {
        self.catalog_version.subscribe()
    }

    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.changes.subscribe()
    }

    pub fn upstream(&self, id: &ServerId) -> Option<Arc<Upstream>> {
        self.board.servers().upstream(id).cloned()
    }

    /// In the order of the configuration.
    pub fn upstreams(&self) -> Vec<Arc<Upstream>> {
        lock(&self.tended)
            .iter()
            .map(|tended| Arc::clone(&tended.upstream))
            .collect()
    }

    /// The living worker; waits for one.
    pub(super) async fn link(&self) -> Arc<Link> {
        let mut links = self.workers.subscribe();
        loop {
            if let Some(link) = links
                .borrow_and_update()
                .clone()
                .filter(|link| !link.is_severed())
            {
                return link;
            }
            if links.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// What may be shown changed without the servers saying so; tells listeners to look again.
    pub fn announce(&self, id: &ServerId) {
        self.rebuild();
        self.tell_lists(id, &TOLD, true);
    }

    pub(super) fn tell_lists(&self, id: &ServerId, lists: &[ListKind], is_approved: bool) {
        for list in lists {
            let _ = self.changes.send(Change::List {
                list: *list,
                server: id.clone(),
                is_approved,
            });
        }
    }

    /// A caller sees another list than before, and may look again.
    pub fn tell_sight(&self, caller: &str, list: ListKind) {
        let _ = self.changes.send(Change::Sight {
            caller: caller.into(),
            list,
        });
    }

    /// A server showed its lists; tells listeners which of them differ from before.
    pub(super) fn face_changed(&self, id: &ServerId, before: Option<&Face>, after: Option<&Face>) {
        let differs = |pick: fn(&Face) -> &Vec<Item>| {
            let raws = |face: Option<&Face>| {
                face.map(|face| {
                    pick(face)
                        .iter()
                        .map(|item| item.raw.clone())
                        .collect::<Vec<_>>()
                })
            };
            raws(before) != raws(after)
        };
        let mut changed = Vec::new();
        if differs(|face| &face.tools) {
            changed.push(ListKind::Tools);
        }
        if differs(|face| &face.resources) || differs(|face| &face.templates) {
            changed.push(ListKind::Resources);
        }
        if differs(|face| &face.prompts) {
            changed.push(ListKind::Prompts);
        }
        let approved = |list: ListKind| self.catalog().approved_lines(list, id);
        let seen_before = TOLD.map(approved);
        let instructions = |face: Option<&Face>| {
            face.and_then(|face| {
                face.instructions
                    .as_ref()
                    .map(|(_, definition)| definition.digest().to_owned())
            })
        };
        let abilities = |face: Option<&Face>| face.map(|face| face.abilities.clone());
        let is_same =
            changed.is_empty() && before.is_some() && abilities(before) == abilities(after);
        if !is_same || instructions(before) != instructions(after) {
            // Listeners look at the catalog when they hear of a change, so it must be there first.
            self.rebuild();
        }
        for (list, seen) in TOLD
            .into_iter()
            .zip(seen_before)
            .filter(|(list, _)| changed.contains(list))
        {
            self.tell_lists(id, &[list], approved(list) != seen);
        }
    }

    /// Reads what was approved again, and holds to it at once.
    pub fn reload_pins(&self) -> Result<(), String> {
        self.pins.reload()?;
        self.rebuild();
        Ok(())
    }

    pub fn rebuild(&self) {
        // One at a time, so that an older view cannot replace a newer one.
        let _turn = lock(&self.rebuilding);
        let servers: Vec<_> = lock(&self.tended)
            .iter()
            .map(|entry| (entry.upstream.spec(), entry.upstream.face()))
            .collect();
        for (spec, face) in &servers {
            if let Some(face) = face {
                self.pins.notice(spec, face, &self.ledger);
            }
        }
        let catalog = Catalog::build(
            &servers,
            Basis {
                pins: &self.pins,
                meters: &self.meters,
            },
        );
        self.board.put(self.board.servers().offering(catalog));
        self.catalog_version.send_modify(|version| *version += 1);
    }

    /// Listens to every worker in turn, until the task is dropped.
    pub async fn listen(self: Arc<Self>) {
        loop {
            let link = self.link().await;
            let (_, mut words) = link.stream(method::WATCH, b"{}");
            while let Some(Word::Event { name, message }) = words.recv().await {
                self.hear(name, reparse(&message), &message);
            }
            link.severed().await;
        }
    }

    /// Signs the proofs that workers ask for, one worker after the other, until the task is dropped.
    pub async fn sign(self: Arc<Self>) {
        loop {
            let link = self.link().await;
            let (_, mut words) = link.stream(method::PROOFS, b"{}");
            while let Some(word) = words.recv().await {
                if let Word::Event {
                    name: EventName::Proof,
                    message,
                } = word
                {
                    link.tell(method::PROOF, &self.proof(reparse(&message)));
                }
            }
            // It may have asked for more at once than is listened to; then those wait in vain, and the next ones do not.
            tokio::time::timeout(PROOFS_PAUSE, link.severed())
                .await
                .ok();
        }
    }

    fn proof(&self, asked: Json<'_>) -> Vec<u8> {
        let text = |name: &str| asked.get(name).and_then(Json::as_str);
        let number = |name: &str| asked.get(name).and_then(Json::as_u64);
        let mut out = Object::new();
        out.u64("asked", number("asked").unwrap_or_default());
        let (key, method, address) = (number("key"), text("htm"), text("htu"));
        if let (Some(key), Some(method), Some(address)) = (key, method, address)
            && let Some(proof) = self
                .logins
                .prove(key, &method, &address, text("nonce").as_deref())
        {
            out.str("proof", proof.expose());
        }
        out.finish()
    }

    fn hear(&self, name: EventName, message: Json<'_>, raw: &Bytes) {
        let Some(id) = message
            .get("server")
            .and_then(Json::as_str)
            .and_then(|id| ServerId::parse(&id).ok())
        else {
            return;
        };
        let Some(upstream) = self.upstream(&id) else {
            return;
        };
        if !message
            .get("generation")
            .and_then(Json::as_u64)
            .is_some_and(|generation| upstream.is_generation(generation))
        {
            return;
        }
        let params = || {
            let params = message
                .get("params")
                .map(|params| raw.slice_ref(params.as_bytes()))
                .unwrap_or_default();
            let redacted = if upstream.spec().redact_results {
                shape::secrets::redact(&params, &self.held())
            } else {
                None
            };
            redacted.map_or(params, |redacted| redacted.text.into())
        };
        match name {
            EventName::Closed => {
                *lock(&upstream.last_error) =
                    message.get("error").and_then(Json::as_str).map(Into::into);
                upstream.closed.notify_one();
            }
            EventName::Changed => upstream.stale.notify_one(),
            EventName::Unauthorized => match message.get("scope").and_then(Json::as_str) {
                Some(scopes) => upstream.want_scopes(&scopes),
                None => upstream.unauthorized.notify_one(),
            },
            EventName::Updated => {
                let Some(uri) = message.get("uri").and_then(Json::as_str) else {
                    return;
                };
                let exposed = Catalog::exposed_uri(&id, &uri).into();
                let _ = self.changes.send(Change::Updated {
                    server: id,
                    uri: uri.as_ref().into(),
                    exposed,
                });
            }
            EventName::Log => drop(self.changes.send(Change::Log {
                server: id,
                params: params(),
            })),
            EventName::ElicitationComplete => {
                let visit = message
                    .path(&["params", "elicitationId"])
                    .and_then(Json::as_str);
                let Some(visit) = visit.filter(|visit| visit.len() <= MAX_VISIT) else {
                    return;
                };
                drop(self.changes.send(Change::ElicitationComplete {
                    server: id,
                    visit: visit.as_ref().into(),
                }));
            }
            EventName::Progress | EventName::Ask | EventName::Proof => {}
        }
    }
}
