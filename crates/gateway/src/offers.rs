//! What could last of an answer to a call that waits: offered to whoever answers, for as long as the call waits.
//!
//! An offer is made of the call itself, so nobody who answers can ask for more than was shown. It has an entry per waiting call, and
//! those are bounded for every caller.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use provenance::{Aims, Lasting};

use crate::Caller;

/// A yes that could last, before anybody said it.
#[derive(Debug, Clone)]
pub(crate) struct Offer {
    pub(crate) caller: Caller,
    /// The conversation that it would last for.
    pub(crate) epoch: u64,
    pub(crate) server: String,
    pub(crate) tool: String,
    pub(crate) definition: String,
    pub(crate) aims: Aims,
}

impl Offer {
    /// The yes, once somebody said it.
    pub(crate) fn taken(self, approval: &str, by: &str, said_ms: u64) -> Lasting {
        Lasting {
            approval: approval.to_owned(),
            server: self.server,
            tool: self.tool,
            definition: self.definition,
            aims: self.aims,
            by: by.to_owned(),
            said_ms,
        }
    }
}

/// The offers of calls that wait, by their approvals.
#[derive(Debug, Clone, Default)]
pub(crate) struct Offers(Arc<Mutex<HashMap<String, (usize, Offer)>>>);

/// An offer, for as long as its call waits.
#[derive(Debug)]
pub(crate) struct Standing {
    offers: Offers,
    approval: String,
}

impl Offers {
    pub(crate) fn begin(&self, approval: &str, offer: Offer) -> Standing {
        self.lock()
            .entry(approval.to_owned())
            .or_insert((0, offer))
            .0 += 1;
        Standing {
            offers: self.clone(),
            approval: approval.to_owned(),
        }
    }

    pub(crate) fn get(&self, approval: &str) -> Option<Offer> {
        self.lock().get(approval).map(|(_, offer)| offer.clone())
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, (usize, Offer)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Standing {
    fn drop(&mut self) {
        let mut offers = self.offers.lock();
        match offers.get_mut(&self.approval) {
            Some((count, _)) if *count > 1 => *count -= 1,
            _ => drop(offers.remove(&self.approval)),
        }
    }
}
