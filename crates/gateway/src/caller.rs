//! Who is calling. A [`Caller`] is evidence: only a credential that the gate knows makes one.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use state::SavedSession;
use tokio::sync::Semaphore;
use vocab::{ServerId, View};

use crate::settings::Access;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    Client,
    Operator,
}

/// A credential as the gate holds it: never the token, only its digest.
#[derive(Debug, Clone)]
pub struct Credential {
    pub id: String,
    pub name: String,
    pub role: Role,
    pub view: View,
    /// Restricted tools this credential may call: `server__tool` or `server__*`.
    pub grants: Vec<String>,
    /// The person it stands for.
    pub user: Option<String>,
    pub departments: Vec<String>,
    /// The program it was given to.
    pub agent: Option<String>,
    pub digest: [u8; 32],
}

#[derive(Debug)]
struct Known {
    credential: Credential,
    /// Cleared when the credential is revoked; calls that already hold the caller see it at Verify.
    active: AtomicBool,
    session: Arc<flow::Session>,
    /// Places for its calls in flight.
    slots: Arc<Semaphore>,
    /// Places for its calls that wait for a person.
    waiting: Arc<Semaphore>,
    counts: Arc<Counts>,
}

/// How often each target was called, for policies that count.
#[derive(Debug, Default)]
pub(crate) struct Counts(Mutex<HashMap<String, u64>>);

/// Calls of one caller that may wait for a person, those that ask the same included.
const MAX_WAITING: usize = 64;

/// Targets that are counted one by one; further ones are not counted.
const MAX_COUNTED: usize = 4096;

impl Counts {
    fn with<T>(&self, look: impl FnOnce(&mut HashMap<String, u64>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub(crate) fn of(&self, key: &str) -> u64 {
        self.with(|counts| counts.get(key).copied().unwrap_or(0))
    }

    pub(crate) fn add(&self, key: &str) {
        self.with(|counts| {
            if let Some(count) = counts.get_mut(key) {
                *count += 1;
            } else if counts.len() < MAX_COUNTED {
                counts.insert(key.to_owned(), 1);
            }
        });
    }

    pub(crate) fn clear(&self) {
        self.with(HashMap::clear);
    }
}

/// An authenticated party. Cheap to clone; cannot be made outside this module.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Known>);

impl Caller {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.credential.id
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.credential.name
    }

    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.0.credential.role == Role::Operator
    }

    #[must_use]
    pub fn view(&self) -> View {
        self.0.credential.view
    }

    #[must_use]
    pub fn is_active(&self) -> bool {
        self.0.active.load(Ordering::Acquire)
    }

    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.0.credential.user.as_deref()
    }

    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        self.0.credential.agent.as_deref()
    }

    #[must_use]
    pub fn departments(&self) -> &[String] {
        &self.0.credential.departments
    }

    /// Is the caller's user, agent or one of its departments listed?
    pub(crate) fn is_listed(&self, access: &Access) -> bool {
        let has = |list: &[String], name: Option<&str>| name.is_some_and(|name| list.iter().any(|listed| listed == name));
        has(&access.users, self.user())
            || has(&access.agents, self.agent())
            || self.departments().iter().any(|department| has(&access.departments, Some(department)))
    }

    pub(crate) fn slots(&self) -> &Arc<Semaphore> {
        &self.0.slots
    }

    pub(crate) fn waiting(&self) -> &Arc<Semaphore> {
        &self.0.waiting
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.0.counts
    }

    /// Does the credential name this restricted target?
    pub(crate) fn is_granted(&self, server: &ServerId, target: &str) -> bool {
        self.0.credential.grants.iter().any(|grant| {
            grant
                .strip_prefix(server.as_str())
                .and_then(|rest| rest.strip_prefix("__"))
                .is_some_and(|name| name == "*" || name == target)
        })
    }

    /// The label of everything this caller has been shown. It belongs to the credential, so no new connection washes it off.
    pub(crate) fn session(&self) -> &Arc<flow::Session> {
        &self.0.session
    }
}

/// Every credential the gate knows, by the digest of its token.
#[derive(Debug)]
pub(crate) struct Callers {
    known: ArcSwap<HashMap<[u8; 32], Caller>>,
    anonymous: ArcSwap<Option<Caller>>,
    /// Sessions of earlier runs, by credential.
    saved: HashMap<String, SavedSession>,
    max_calls: usize,
}

impl Callers {
    pub(crate) fn new(saved: Vec<SavedSession>, max_calls: usize) -> Self {
        let saved = saved.into_iter().map(|session| (session.caller.clone(), session)).collect();
        Self { known: ArcSwap::default(), anonymous: ArcSwap::default(), saved, max_calls }
    }

    fn admit(&self, credential: Credential, before: Option<&Caller>) -> Caller {
        let (session, slots, waiting, counts) = match before {
            Some(Caller(known)) => {
                let Known { session, slots, waiting, counts, .. } = &**known;
                (Arc::clone(session), Arc::clone(slots), Arc::clone(waiting), Arc::clone(counts))
            }
            None => {
                let session = match self.saved.get(&credential.id) {
                    Some(saved) => flow::Session::restore(saved.label.clone(), saved.epoch, &saved.head),
                    None => flow::Session::new(),
                };
                let places = |count| Arc::new(Semaphore::new(count));
                (Arc::new(session), places(self.max_calls), places(MAX_WAITING), Arc::default())
            }
        };
        Caller(Arc::new(Known { credential, active: AtomicBool::new(true), session, slots, waiting, counts }))
    }

    /// A caller by the id of its credential, or by its name if no other has it.
    pub(crate) fn find(&self, id_or_name: &str) -> Option<Caller> {
        let all = self.all();
        if let Some(caller) = all.iter().find(|caller| caller.id() == id_or_name) {
            return Some(caller.clone());
        }
        let mut named = all.iter().filter(|caller| caller.name() == id_or_name);
        named.next().filter(|_| named.next().is_none()).cloned()
    }

    pub(crate) fn identify(&self, token: &str) -> Option<Caller> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        self.known.load().get(&digest).cloned()
    }

    pub(crate) fn anonymous(&self) -> Option<Caller> {
        Option::clone(&self.anonymous.load())
    }

    /// Everyone, in the order of their ids.
    pub(crate) fn all(&self) -> Vec<Caller> {
        let mut all: Vec<Caller> = self.known.load().values().cloned().chain(self.anonymous()).collect();
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// What [`Callers::replace`] would let in and turn away, as changes for the ledger.
    pub(crate) fn record_replacement(
        &self,
        credentials: &[Credential],
        ledger: &audit::Ledger,
    ) -> Result<(), audit::LedgerUnavailable> {
        let before = self.known.load_full();
        let record = |action: &str, credential: &Credential| {
            let role = if credential.role == Role::Operator { "operator" } else { "client" };
            let change = audit::Change {
                action,
                target: &credential.id,
                user: credential.user.as_deref().unwrap_or_default(),
                agent: credential.agent.as_deref().unwrap_or_default(),
                detail: &format!("{role} `{}`", credential.name),
                ..audit::Change::default()
            };
            ledger.change(&change).map(drop)
        };
        let known = |id: &str| before.values().any(|caller| caller.id() == id);
        for credential in credentials.iter().filter(|credential| !known(&credential.id)) {
            record("credential.created", credential)?;
        }
        let stays = |id: &str| credentials.iter().any(|credential| credential.id == id);
        for caller in before.values().filter(|caller| !stays(caller.id())) {
            record("credential.revoked", &caller.0.credential)?;
        }
        Ok(())
    }

    /// Replaces the set. Credentials that stay keep their label; those that go are inactive at once, in calls under way too.
    pub(crate) fn replace(&self, credentials: Vec<Credential>) {
        let before = self.known.load_full();
        let sessions: HashMap<&str, &Caller> = before.values().map(|caller| (caller.id(), caller)).collect();
        let mut after = HashMap::new();
        for credential in credentials {
            let digest = credential.digest;
            let caller = self.admit(credential.clone(), sessions.get(credential.id.as_str()).copied());
            after.insert(digest, caller);
        }
        let kept: Vec<String> = after.values().map(|caller| caller.id().to_owned()).collect();
        self.known.store(Arc::new(after));
        for caller in before.values().filter(|caller| !kept.iter().any(|id| id == caller.id())) {
            caller.0.active.store(false, Ordering::Release);
        }
    }

    /// Lets callers without a credential in, as one shared caller.
    pub(crate) fn allow_anonymous(&self, allowed: bool) {
        if allowed == self.anonymous.load().is_some() {
            return;
        }
        let caller = allowed.then(|| {
            let credential = Credential {
                id: "anonymous".into(),
                name: "anonymous".into(),
                role: Role::Client,
                view: View::Double,
                grants: Vec::new(),
                user: None,
                departments: Vec::new(),
                agent: None,
                digest: [0; 32],
            };
            self.admit(credential, None)
        });
        self.anonymous.store(Arc::new(caller));
    }
}
