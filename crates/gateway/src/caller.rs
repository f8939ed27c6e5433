//! Who is calling. A [`Caller`] is evidence: only a credential that the gate knows makes one.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use arc_swap::ArcSwap;
use sha2::{Digest, Sha256};
use vocab::{ServerId, View};

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
    pub digest: [u8; 32],
}

#[derive(Debug)]
struct Known {
    credential: Credential,
    /// Cleared when the credential is revoked; calls that already hold the caller see it at Verify.
    active: AtomicBool,
    session: Arc<flow::Session>,
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
#[derive(Debug, Default)]
pub(crate) struct Callers {
    known: ArcSwap<HashMap<[u8; 32], Caller>>,
    anonymous: ArcSwap<Option<Caller>>,
}

impl Callers {
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

    /// Replaces the set. Credentials that stay keep their label; those that go are inactive at once, in calls under way too.
    pub(crate) fn replace(&self, credentials: Vec<Credential>) {
        let before = self.known.load_full();
        let sessions: HashMap<&str, &Caller> = before.values().map(|caller| (caller.id(), caller)).collect();
        let mut after = HashMap::new();
        for credential in credentials {
            let session = sessions.get(credential.id.as_str()).map(|caller| Arc::clone(caller.session())).unwrap_or_default();
            after.insert(credential.digest, Caller(Arc::new(Known { credential, active: AtomicBool::new(true), session })));
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
                digest: [0; 32],
            };
            Caller(Arc::new(Known { credential, active: AtomicBool::new(true), session: Arc::default() }))
        });
        self.anonymous.store(Arc::new(caller));
    }
}
