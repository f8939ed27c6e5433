//! Calls that wait for a stateless client to come back with an answer.
//!
//! An upstream of the older kind asks in the middle of a call; a client of the newer kind can only be answered with "input required"
//! and comes back later. Meanwhile the call is parked here, under a handle that only its caller can use, for a limited time: a chore of
//! the gate cancels those that nobody came back for, so that each is concluded and recorded. A parked call has no place among the calls
//! in flight; how many there are is bounded by the places of those who wait (`call/slots.rs`).

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use callers::Caller;
use tokio::time::Instant;
use vocab::{Rule, Violation};
use wire::{Json, Kind};

use crate::{
    Action, Answer, Running, Wrapper, tokens,
    wrapper::{join, split},
};

const PURPOSE: &str = "parked";
/// More than can wait at once, so this is never reached.
const MAX_PARKED: usize = 16_384;

#[derive(Debug)]
struct Parked {
    running: Running,
    since: Instant,
}

#[derive(Debug, Default)]
pub struct Parking {
    calls: Mutex<HashMap<u64, Parked>>,
    next: std::sync::atomic::AtomicU64,
}

/// What a parked call is bound to, so that nobody comes back with another one's answers.
fn binding(caller: &Caller, action: Action, params: Json<'_>, handle: u64) -> Vec<u8> {
    let name = params
        .get("name")
        .or_else(|| params.get("uri"))
        .and_then(Json::as_str)
        .unwrap_or_default();
    let digest = tokens::digest(&name, params.get("arguments").map_or(b"", Json::as_bytes));
    join(&[
        caller.id().as_bytes(),
        action.method().as_bytes(),
        &digest,
        &handle.to_le_bytes(),
    ])
}

impl Parking {
    fn calls(&self) -> MutexGuard<'_, HashMap<u64, Parked>> {
        self.calls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn put(&self, running: Running) -> u64 {
        let handle = self.next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut calls = self.calls();
        if calls.len() < MAX_PARKED {
            calls.insert(
                handle,
                Parked {
                    running,
                    since: Instant::now(),
                },
            );
        } else {
            running.cancel();
        }
        handle
    }

    /// Cancels the calls that nobody came back for in time; they end by themselves then, and say so on record.
    pub fn expire(&self, patience: Duration) {
        let is_over = |_: &u64, parked: &mut Parked| parked.since.elapsed() >= patience;
        let expired: Vec<Parked> = self
            .calls()
            .extract_if(is_over)
            .map(|(_, parked)| parked)
            .collect();
        for Parked { running, .. } in expired {
            running.cancel();
        }
    }

    pub fn count(&self) -> usize {
        self.calls().len()
    }

    pub fn take(&self, handle: u64) -> Option<Running> {
        self.calls().remove(&handle).map(|parked| parked.running)
    }
}

impl Parking {
    /// Parks a call and returns the `requestState` under which its caller can come back to it.
    #[must_use]
    pub fn park(
        &self,
        wrapper: &Wrapper,
        running: Running,
        caller: &Caller,
        action: Action,
        params: Json<'_>,
    ) -> String {
        let handle = self.put(running);
        wrapper.wrap(PURPOSE, &binding(caller, action, params, handle))
    }

    /// Takes a parked call up again if `params` names one. `None`: this is not about a parked call.
    pub fn resume(
        &self,
        wrapper: &Wrapper,
        caller: &Caller,
        action: Action,
        params: Json<'_>,
    ) -> Option<Result<Running, Violation>> {
        let state = params.get("requestState")?.as_str()?;
        let value = wrapper.open(PURPOSE, &state)?;
        Some(self.take_up(caller, action, params, &value))
    }

    fn take_up(
        &self,
        caller: &Caller,
        action: Action,
        params: Json<'_>,
        value: &[u8],
    ) -> Result<Running, Violation> {
        let wrong = |why: &str| {
            Violation::new(Rule::Malformed, format!("requestState {why}"))
                .with_hint(format!("requestState {why}"))
        };
        let [_, _, _, handle] = split::<4>(value).ok_or_else(|| wrong("is damaged"))?;
        let handle = handle.try_into().map_or(0, u64::from_le_bytes);
        if binding(caller, action, params, handle) != value {
            return Err(wrong("was issued for another call"));
        }
        let answers = params
            .get("inputResponses")
            .filter(|json| json.kind() == Kind::Object);
        let answers = answers.ok_or_else(|| wrong("needs `inputResponses`"))?;
        let mut running = self
            .take(handle)
            .ok_or_else(|| wrong("has expired or was used already"))?;
        for (key, answer) in answers.fields() {
            if running.is_open(&key) && answer.is_object() {
                running.answer(
                    &key,
                    Answer::Result(bytes::Bytes::copy_from_slice(answer.as_bytes())),
                );
            }
        }
        running.ask_again();
        Ok(running)
    }
}
