//! The bearer of a login, which the gate can replace while a connection lives.

use std::{
    cell::{Cell, RefCell},
    time::Duration,
};

use http::{HeaderMap, HeaderValue, header};
use tokio::{sync::Notify, time::timeout};

use super::{connection::Connection, proofs::Prover};
use crate::failure::Failure;

/// How long a call waits for its login to be renewed.
const RENEWAL: Duration = Duration::from_secs(20);

#[derive(Debug, Default)]
pub(super) struct Login {
    /// The gate was told that the server does not take it.
    is_told: Cell<bool>,
    /// The gate has no other.
    is_over: Cell<bool>,
    replaced: Notify,
}

impl Login {
    /// Tells the gate that the server does not take this bearer, and waits for another.
    pub(super) async fn is_renewed(
        &self,
        conn: &Connection,
        headers: &RefCell<HeaderMap>,
        refused: Option<&HeaderValue>,
    ) -> bool {
        let another = async {
            loop {
                let replaced = self.replaced.notified();
                if bearer(headers).as_ref() != refused {
                    return true;
                }
                if self.is_over.get() {
                    return false;
                }
                if !self.is_told.replace(true) {
                    conn.hub
                        .tell("unauthorized", &conn.server, conn.generation, |_| {});
                }
                replaced.await;
            }
        };
        let outcome = timeout(RENEWAL, another).await;
        if outcome.is_err() {
            self.is_told.set(false);
        }
        outcome.unwrap_or(false)
    }

    /// The gate renewed the login, or has none any more.
    pub(super) fn replace(
        &self,
        headers: &RefCell<HeaderMap>,
        prover: &Prover,
        (bearer, key): (Option<&str>, Option<u64>),
    ) -> Result<(), Failure> {
        if let Some(bearer) = bearer {
            let value = super::connect::authorization(bearer, key)?;
            headers.borrow_mut().insert(header::AUTHORIZATION, value);
            prover.replace(key);
        }
        self.is_over.set(bearer.is_none());
        self.is_told.set(false);
        self.replaced.notify_waiters();
        Ok(())
    }
}

pub(super) fn bearer(headers: &RefCell<HeaderMap>) -> Option<HeaderValue> {
    headers.borrow().get(header::AUTHORIZATION).cloned()
}
