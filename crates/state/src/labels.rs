//! The labels of sessions: when they are saved, when they are read again, what a reset does.
//!
//! **Invariant: within an epoch a saved label never falls**, whoever saves what in which order. Tests `a_saved_label_never_falls`,
//! `the_schema_itself_refuses_to_lower_or_forget`.
//!
//! **Invariant: no gate weighs against less than was shown by any.** A rise is saved before its result is seen; where gates share a
//! store, each reads the saved label after a call was received in full and before it is weighed ([`State::refresh`]). Test
//! `what_one_gate_has_shown_every_gate_weighs`.

use flow::{Absorbed, Reset, Session, Showable};
use vocab::Label;

use crate::{State, StateError, Written};

/// What outlives the process of one caller's session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedSession {
    /// The credential id.
    pub caller: String,
    pub epoch: u64,
    pub label: Label,
    /// The call whose result was shown last when this was saved, or nothing. Later ones are in the ledger.
    pub head: String,
}

/// A session that a reset ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ArchivedSession {
    pub session: SavedSession,
    pub who: String,
    pub reason: String,
    pub at_ms: u64,
}

/// How often a rise is tried again because a reset elsewhere came first. Resets are a person's, so one is already rare.
const RESETS_IN_BETWEEN: usize = 8;

impl State {
    /// Every session that was ever saved, by caller.
    pub async fn sessions(&self) -> Result<Vec<SavedSession>, StateError> {
        self.0.store.sessions().await
    }

    /// Saves a session; durable when this returns.
    pub async fn save_session(&self, session: &SavedSession) -> Result<(), StateError> {
        superseded(session, self.0.store.raise(session).await?)
    }

    /// Takes in what other gates have saved of a session. Must be ready before a call of it is weighed. Costs nothing where no other
    /// gate can have written.
    pub async fn refresh(&self, caller: &str, session: &Session) -> Result<(), StateError> {
        if !self.0.store.is_shared() {
            return Ok(());
        }
        if let Some(saved) = self.0.store.session(caller).await? {
            session.catch_up(saved.epoch, &saved.label, &saved.head);
        }
        Ok(())
    }

    /// Makes the label that includes `absorbed` durable, and gives the evidence that it may be shown. Costs nothing if it was durable
    /// before; many that wait at once share one write.
    ///
    /// Where gates share a store, another may have reset the session since. So it is read again even if nothing rises: what was
    /// absorbed then begins the new epoch's label.
    pub async fn keep(&self, caller: &str, absorbed: Absorbed) -> Result<Showable, StateError> {
        self.refresh(caller, absorbed.session()).await?;
        let mut absorbed = match absorbed.durable() {
            Ok(showable) => return Ok(showable),
            Err(absorbed) => absorbed,
        };
        let _turn = self.0.rising.lock().await;
        for _ in 0..RESETS_IN_BETWEEN {
            // Who came before may have saved it for us while we waited.
            if let Some(snapshot) = absorbed.session().unsaved() {
                let session = SavedSession::of(caller, &snapshot);
                match self.0.store.raise(&session).await? {
                    Written::Yes => absorbed.session().saved(&snapshot),
                    Written::NewerIs(_) if self.0.store.is_shared() => {
                        self.refresh(caller, absorbed.session()).await?;
                    }
                    newer => return Err(superseded(&session, newer).err().unwrap_or(UNSAVED)),
                }
            }
            absorbed = match absorbed.durable() {
                Ok(showable) => return Ok(showable),
                Err(absorbed) => absorbed,
            };
        }
        Err(UNSAVED)
    }

    /// Resets a session that the gate holds: archives what it was and saves what it begins with, or changes nothing.
    pub async fn reset(
        &self,
        caller: &str,
        session: &Session,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Reset, StateError> {
        // No label can be kept before this is over: what is shown from now on is absorbed by the new epoch, whose beginning is saved first.
        let _turn = self.0.rising.lock().await;
        self.refresh(caller, session).await?;
        let mut pending = PendingReset {
            session,
            reset: session.reset(),
            is_saved: false,
        };
        let begun = SavedSession::of(caller, &pending.reset.begun);
        let ended = ArchivedSession {
            session: SavedSession::of(caller, &pending.reset.ended),
            who: who.to_owned(),
            reason: reason.to_owned(),
            at_ms: now_ms,
        };
        superseded(&begun, self.0.store.reset(&ended, &begun).await?)?;
        pending.is_saved = true;
        Ok(pending.reset.clone())
    }

    /// Resets a session that no gate holds: archives the saved row and begins `new_epoch` with a clean label. Nothing happens for a
    /// caller that was never shown anything; what was archived is given back.
    pub async fn reset_session(
        &self,
        caller: &str,
        new_epoch: u64,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<Option<ArchivedSession>, StateError> {
        let _turn = self.0.rising.lock().await;
        let Some(session) = self.0.store.session(caller).await? else {
            return Ok(None);
        };
        let begun = SavedSession {
            caller: caller.to_owned(),
            epoch: new_epoch,
            label: Label::default(),
            head: String::new(),
        };
        superseded(&begun, newer_than(&session, new_epoch))?;
        let ended = ArchivedSession {
            session,
            who: who.to_owned(),
            reason: reason.to_owned(),
            at_ms: now_ms,
        };
        superseded(&begun, self.0.store.reset(&ended, &begun).await?)?;
        Ok(Some(ended))
    }

    /// What resets ended, oldest first; of one caller, or of all.
    pub async fn archived_sessions(
        &self,
        caller: Option<&str>,
    ) -> Result<Vec<ArchivedSession>, StateError> {
        self.0.store.archived_sessions(caller).await
    }
}

const UNSAVED: StateError = StateError::Contradiction {
    detail: "a label that was just saved does not count as saved",
};

fn newer_than(saved: &SavedSession, epoch: u64) -> Written {
    if epoch <= saved.epoch {
        Written::NewerIs(saved.epoch)
    } else {
        Written::Yes
    }
}

fn superseded(session: &SavedSession, written: Written) -> Result<(), StateError> {
    match written {
        Written::Yes => Ok(()),
        Written::NewerIs(saved) => Err(StateError::Superseded {
            caller: session.caller.clone(),
            saved,
            given: session.epoch,
        }),
    }
}

/// A reset that has happened in memory. Unless it was saved, it is taken back: also when whoever asked for it went away meanwhile.
struct PendingReset<'a> {
    session: &'a Session,
    reset: Reset,
    is_saved: bool,
}

impl Drop for PendingReset<'_> {
    fn drop(&mut self) {
        if self.is_saved {
            self.session.saved(&self.reset.begun);
        } else {
            self.session.take_back(&self.reset);
        }
    }
}

impl SavedSession {
    fn of(caller: &str, snapshot: &flow::Snapshot) -> Self {
        Self {
            caller: caller.to_owned(),
            epoch: snapshot.epoch,
            label: snapshot.label.clone(),
            head: snapshot.head.clone(),
        }
    }
}
