//! What only the call path asks of a caller.
//!
//! **Invariant: doors cannot raise or reset a label, take a place or suppose another caller.** These are functions of a trait that
//! `gateway` does not pass on, and doors may not link this crate: tidy rule `direction`, by the table in
//! `crates/xtask/src/tidy/links.rs`.

use std::sync::{Arc, PoisonError, atomic::AtomicBool};

use provenance::Conversation;
use tokio::sync::Semaphore;
use vocab::Mark;

use super::{Caller, Counts, Known};
use crate::{Role, meters::SessionMeters, places::Places, refusals::Refusals, room::Account};

pub trait ForGate: Sized {
    /// The label of everything this caller has been shown. It belongs to the credential, so no new connection washes it off.
    fn session(&self) -> &Arc<flow::Session>;

    /// What was said and read in the epoch that its session is in. A new epoch begins with nothing said.
    fn conversation<T>(&self, look: impl FnOnce(&mut Conversation) -> T) -> T;

    /// The length of what a person said, and a digest that only this gate can make.
    fn words_in_short(&self, text: &str) -> String;

    /// Places for its calls in flight.
    fn slots(&self) -> &Arc<Places>;

    /// Places for its calls that wait for a person or for its client.
    fn waiting(&self) -> &Arc<Places>;

    /// Room for answers that it has not read yet.
    fn room(&self) -> &Arc<Account>;

    /// What its security context counts its calls against.
    fn meters(&self) -> &SessionMeters;

    /// What of its refusals is on record one by one.
    fn refusals(&self) -> &Refusals;

    /// Its turn among its own long texts.
    fn long_texts(&self) -> &Arc<Semaphore>;

    /// How often each target was called.
    fn counts(&self) -> &Counts;

    /// The same number for everyone who calls under this credential, never 0, and no other's as long as it is known.
    fn key(&self) -> usize;

    /// The same party as it would be in another context, as another agent or of another tenant: for explaining, never for calling.
    #[must_use]
    fn supposed(&self, context: Option<&str>, agent: Option<&str>, tenant: Option<&str>) -> Self;
}

impl ForGate for Caller {
    fn session(&self) -> &Arc<flow::Session> {
        &self.0.shared.session
    }

    fn conversation<T>(&self, look: impl FnOnce(&mut Conversation) -> T) -> T {
        let shared = &self.0.shared;
        let mut conversation = shared
            .conversation
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        let epoch = shared.session.epoch();
        if conversation.epoch() != epoch {
            *conversation = Conversation::new(shared.key, epoch);
            if shared.session.mark() != Mark::default() {
                // What was still on its way when the epoch began was read, and nobody looked at it.
                conversation.pass_over();
            }
        }
        look(&mut conversation)
    }

    fn words_in_short(&self, text: &str) -> String {
        let digest = self.0.shared.key.text(text);
        format!("words: {} bytes, keyed blake3 {digest}", text.len())
    }

    fn slots(&self) -> &Arc<Places> {
        &self.0.shared.slots
    }

    fn waiting(&self) -> &Arc<Places> {
        &self.0.shared.waiting
    }

    fn room(&self) -> &Arc<Account> {
        &self.0.shared.room
    }

    fn meters(&self) -> &SessionMeters {
        self.0
            .signed
            .as_deref()
            .map_or(&self.0.shared.meters, |session| &session.meters)
    }

    fn refusals(&self) -> &Refusals {
        &self.0.shared.refusals
    }

    fn long_texts(&self) -> &Arc<Semaphore> {
        &self.0.shared.long_texts
    }

    fn counts(&self) -> &Counts {
        &self.0.shared.counts
    }

    fn key(&self) -> usize {
        Arc::as_ptr(&self.0.shared) as usize
    }

    fn supposed(&self, context: Option<&str>, agent: Option<&str>, tenant: Option<&str>) -> Self {
        let mut credential = self.0.credential.clone();
        credential.role = Role::Client;
        credential.context = context.map(str::to_owned).or(credential.context);
        credential.agent = agent
            .map(str::to_owned)
            .or_else(|| self.agent_name().map(str::to_owned));
        credential.tenant = tenant.map(str::to_owned);
        Self(Arc::new(Known {
            credential,
            shared: Arc::clone(&self.0.shared),
            signed: None,
            owner: None,
            replaced: AtomicBool::new(false),
        }))
    }
}
