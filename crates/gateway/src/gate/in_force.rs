//! What is in force: one configuration, with the servers it names as they are now, in one value that is replaced by one store.
//!
//! **Invariant: a call sees one configuration.** It takes this value when it is received and looks at nothing else until it is concluded;
//! only a call that waited, for a person or for a server's first catalog, takes the one in force then, and all of it. Test
//! `no_call_sees_parts_of_two_configurations`.

use std::sync::Arc;

use arc_swap::ArcSwap;
use callers::{Caller, CredentialSet, oauth::ProviderSet, settings::Seal, signed::Under};
use upstreams::{Board, Catalog, Servers};
use vocab::{Rule, Violation};

use crate::{
    settings::{Rules, Terms, WebTerms},
    volumes::VolumeSet,
};

#[derive(Debug, Clone)]
pub(crate) struct InForce {
    pub(crate) terms: Arc<Terms>,
    pub(crate) rules: Arc<Rules>,
    pub(crate) credentials: Arc<CredentialSet>,
    pub(crate) seal: Arc<Seal>,
    pub(crate) providers: Arc<ProviderSet>,
    pub(crate) servers: Arc<Servers>,
    pub(crate) volumes: Arc<VolumeSet>,
    /// What the tools for the web may do; `None`: there are none.
    pub(crate) web: Option<Arc<WebTerms>>,
    /// Keys of the configuration whose values are in force only after a restart.
    pub(crate) awaiting_restart: Arc<Vec<&'static str>>,
}

impl InForce {
    pub(crate) fn catalog(&self) -> &Arc<Catalog> {
        &self.servers.catalog
    }

    /// The same party as this configuration has it; `None` where it lets them in no more.
    pub(crate) fn caller(&self, caller: &Caller) -> Option<Caller> {
        let is_let_in = match caller.is_vouched() {
            true => self.providers.vouch_for(caller.id()),
            false => !caller.is_anonymous() || !self.terms.door.requires_credential,
        };
        self.credentials.current(caller).filter(|_| is_let_in)
    }

    /// What sessions of signed calls begin under.
    pub(crate) fn under(&self) -> Under<'_> {
        Under {
            contexts: &self.rules.contexts,
            seal: &self.seal,
            credentials: &self.credentials,
        }
    }

    /// Whether a credential, and the session of signed calls under it, are in force. A credential may be revoked, and a session may end,
    /// between a call's coming in and its being made.
    pub(crate) fn admits(&self, caller: &Caller, now_ms: u64) -> Result<(), Violation> {
        if self.caller(caller).is_none() {
            let detail = format!("credential `{}` was revoked", caller.id());
            return Err(Violation::new(Rule::Unauthenticated, detail));
        }
        caller.in_force(now_ms)
    }
}

/// The one place where it stands.
#[derive(Debug)]
pub(super) struct Cell(ArcSwap<InForce>);

impl Cell {
    pub(super) fn new(first: InForce) -> Arc<Self> {
        Arc::new(Self(ArcSwap::from_pointee(first)))
    }

    pub(super) fn now(&self) -> Arc<InForce> {
        self.0.load_full()
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&InForce) -> T) -> T {
        look(&self.0.load())
    }

    pub(super) fn swap(&self, next: InForce) {
        self.0.store(Arc::new(next));
    }
}

/// Only whoever has the hub's turn changes the servers, so nothing is lost between looking and storing.
impl Board for Cell {
    fn servers(&self) -> Arc<Servers> {
        Arc::clone(&self.0.load().servers)
    }

    fn put(&self, servers: Servers) {
        let mut next = InForce::clone(&self.0.load());
        next.servers = Arc::new(servers);
        self.swap(next);
    }
}
