//! The servers of one configuration, and how others take their place.
//!
//! A replacement is made beside the servers in force. Everything that can fail happens before the swap; what follows it, starting and
//! ending connections, cannot fail the replacement.
//!
//! **Invariant: what is in force changes by one store.** The hub keeps no server of its own to call: it finds them on the [`Board`], where
//! they stand beside the rest of the configuration. Tests `a_reload_that_fails_at_any_step_leaves_everything_as_it_was`,
//! `no_call_sees_parts_of_two_configurations`.

use std::{collections::HashMap, sync::Arc};

use arc_swap::ArcSwap;
use vocab::ServerId;

use super::{
    Hub, Status, Upstream,
    hub::{SUCCESSION, TOLD, Tended},
    lock, presence, tend,
};
use crate::{
    catalog::{Basis, Catalog},
    settings::ServerSpec,
};

/// Servers that are in force together.
#[derive(Debug, Default)]
pub struct Servers {
    by_id: HashMap<ServerId, Arc<Upstream>>,
    /// Every name of theirs, and where it leads.
    pub catalog: Arc<Catalog>,
    /// Connection attempts before a server is `failed`.
    pub attempts: u32,
}

impl Servers {
    #[must_use]
    pub fn upstream(&self, id: &ServerId) -> Option<&Arc<Upstream>> {
        self.by_id.get(id)
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    /// The same servers, offering something else.
    pub(super) fn offering(&self, catalog: Catalog) -> Self {
        Self {
            by_id: self.by_id.clone(),
            catalog: Arc::new(catalog),
            attempts: self.attempts,
        }
    }
}

/// Where the servers in force stand.
pub trait Board: Send + Sync {
    fn servers(&self) -> Arc<Servers>;

    /// The same servers offer something else now.
    fn put(&self, servers: Servers);
}

/// A board with nothing else on it.
impl Board for ArcSwap<Servers> {
    fn servers(&self) -> Arc<Servers> {
        self.load_full()
    }

    fn put(&self, servers: Servers) {
        self.store(Arc::new(servers));
    }
}

/// A change of the set of servers, for the ledger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerNote {
    pub action: &'static str,
    pub server: ServerId,
    pub detail: String,
}

/// Servers that are ready to take the place of those in force.
#[derive(Debug)]
pub struct Replacement {
    pub servers: Arc<Servers>,
    /// Which servers come and go.
    pub notes: Vec<ServerNote>,
}

/// What becomes of one server.
struct Planned {
    spec: Arc<ServerSpec>,
    upstream: Arc<Upstream>,
    /// Its connection stays as it is.
    stays: bool,
}

impl Hub {
    /// Makes the servers be exactly these, with the approved definitions as their file has them now. `swap` puts the replacement in force, or
    /// says why it cannot; then nothing has changed. Untouched servers keep their connection; a changed one is connected beside its
    /// predecessor, which serves until then; none of it waits.
    pub fn replace<E>(
        self: &Arc<Self>,
        specs: Vec<ServerSpec>,
        attempts: u32,
        unreadable: impl FnOnce(String) -> E,
        swap: impl FnOnce(&Replacement) -> Result<(), E>,
    ) -> Result<(), E> {
        // Nobody builds a catalog of the old servers over the new ones.
        let turn = lock(&self.rebuilding);
        let pins = self.pins.read_again().map_err(unreadable)?;
        let (planned, notes) = self.plan(specs);
        let shown: Vec<_> = planned
            .iter()
            .map(|planned| (Arc::clone(&planned.spec), planned.upstream.face()))
            .collect();
        let basis = Basis {
            pins: pins.preview(),
            meters: &self.meters,
        };
        let replacement = Replacement {
            servers: Arc::new(Servers {
                by_id: planned
                    .iter()
                    .map(|planned| (planned.spec.id.clone(), Arc::clone(&planned.upstream)))
                    .collect(),
                catalog: Arc::new(Catalog::build(&shown, basis)),
                attempts,
            }),
            notes,
        };
        swap(&replacement)?;
        pins.keep();
        let gone = self.follow(planned);
        drop(turn);
        // Dropping them ends their tasks and connections.
        drop(gone);
        // What was approved with its server is pinned now, and what is quarantined is on record.
        self.rebuild();
        for upstream in self.upstreams() {
            self.tell_lists(&upstream.spec().id, &TOLD, true);
        }
        Ok(())
    }

    fn plan(&self, specs: Vec<ServerSpec>) -> (Vec<Planned>, Vec<ServerNote>) {
        let tended = lock(&self.tended);
        let mut before: HashMap<ServerId, Arc<Upstream>> = tended
            .iter()
            .map(|entry| {
                (
                    entry.upstream.spec().id.clone(),
                    Arc::clone(&entry.upstream),
                )
            })
            .collect();
        drop(tended);
        let mut notes = Vec::new();
        let mut planned = Vec::new();
        for spec in specs {
            let spec = Arc::new(spec);
            let old = before.remove(&spec.id);
            if old.is_none() {
                notes.push(ServerNote {
                    action: "server.registered",
                    server: spec.id.clone(),
                    detail: presence::state_words(&spec),
                });
            }
            let same = old
                .as_ref()
                .filter(|old| old.spec().connects_like(&spec))
                .cloned();
            planned.push(Planned {
                stays: same.is_some(),
                upstream: same.unwrap_or_else(|| self.successor(&spec, old.as_deref())),
                spec,
            });
        }
        let mut removed: Vec<ServerId> = before.into_keys().collect();
        removed.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        notes.extend(removed.into_iter().map(|server| ServerNote {
            action: "server.removed",
            server,
            detail: String::new(),
        }));
        (planned, notes)
    }

    /// A server that nobody connects yet. Until it has shown its lists, those of its predecessor stand.
    fn successor(&self, spec: &Arc<ServerSpec>, old: Option<&Upstream>) -> Arc<Upstream> {
        let face = self.snapshots().load(spec, &self.held());
        let upstream = Arc::new(Upstream::new(Arc::clone(spec), face));
        if let Some(old) = old
            && upstream.face().is_none()
        {
            upstream.face.store(old.face());
        }
        upstream
    }

    /// Connects what is new and gives back what is left to end.
    fn follow(self: &Arc<Self>, planned: Vec<Planned>) -> Vec<Tended> {
        let mut tended = lock(&self.tended);
        let mut before: HashMap<ServerId, Tended> = tended
            .drain(..)
            .map(|entry| (entry.upstream.spec().id.clone(), entry))
            .collect();
        for Planned {
            spec,
            upstream,
            stays,
        } in planned
        {
            let old = before.remove(&spec.id);
            tended.push(match old {
                Some(old) if stays => {
                    upstream.spec.store(spec);
                    old
                }
                old => self.begin(upstream, old),
            });
        }
        before.into_values().collect()
    }

    fn begin(self: &Arc<Self>, upstream: Arc<Upstream>, old: Option<Tended>) -> Tended {
        let task = upstream
            .spec()
            .runs()
            .then(|| tokio::spawn(tend::tend(Arc::clone(self), Arc::clone(&upstream))));
        // Without a successor the old one ends here, and its process with it.
        if let Some(old) = old.filter(|_| task.is_some()) {
            let mut status = upstream.status.subscribe();
            tokio::spawn(async move {
                let settled =
                    status.wait_for(|status| !matches!(status, Status::Connecting { .. }));
                let _ = tokio::time::timeout(SUCCESSION, settled).await;
                drop(old);
            });
        }
        Tended { upstream, task }
    }
}
