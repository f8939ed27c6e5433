//! Waiting for an answer: a call that was put before a person wakes when this process records what they said.

use std::{
    collections::HashMap,
    sync::{Mutex, PoisonError},
};

use tokio::sync::watch;

use crate::{Approval, ApprovalState, State, StateError};

/// Wakes when an approval is no longer pending.
#[derive(Debug)]
pub struct Watch {
    states: watch::Receiver<ApprovalState>,
}

impl Watch {
    /// Waits until the approval was answered or has expired. Expiry is noticed when [`State::expire`] is called, so whoever waits also
    /// keeps an eye on the clock.
    pub async fn answered(&mut self) -> ApprovalState {
        // An error means that the state is closed: nobody will answer.
        let _closed = self
            .states
            .wait_for(|state| *state != ApprovalState::Pending)
            .await
            .is_err();
        *self.states.borrow()
    }
}

/// Who waits for which approval. Only pending ones are in here.
#[derive(Debug, Default)]
pub(crate) struct Watchers(Mutex<HashMap<String, watch::Sender<ApprovalState>>>);

impl Watchers {
    fn subscribe(&self, id: &str) -> watch::Receiver<ApprovalState> {
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        waiting
            .entry(id.to_owned())
            .or_insert_with(|| watch::Sender::new(ApprovalState::Pending))
            .subscribe()
    }

    /// Nobody can answer an approval that there is not.
    fn forget(&self, id: &str) {
        self.0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(id);
    }

    /// Tells those who wait. Must be called after the change is durable.
    pub(crate) fn tell(&self, approval: &Approval) {
        if approval.state == ApprovalState::Pending {
            return;
        }
        let waiting = self
            .0
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .remove(&approval.id);
        if let Some(sender) = waiting {
            sender.send_replace(approval.state);
        }
    }
}

impl State {
    /// Watches an approval; nothing if there is no such one.
    pub async fn watch(&self, id: &str) -> Result<Option<Watch>, StateError> {
        // First the subscription, then the look: an answer is durable before the look, or told after the subscription.
        let states = self.0.watchers.subscribe(id);
        let found = self.get(id).await;
        match &found {
            Ok(Some(approval)) => self.0.watchers.tell(approval),
            Ok(None) | Err(_) => self.0.watchers.forget(id),
        }
        Ok(found?.map(|_| Watch { states }))
    }
}
