//! What all requests of a door share: the gate, the sessions, the lists, and the word that the door is closing.

use std::sync::{
    Arc,
    atomic::{AtomicU64, Ordering},
};

use doors::Limiter;
use gateway::Gate;
use tokio::sync::{Semaphore, watch};

use crate::{
    admin::events::MAX_STREAMS,
    mcp::{listen::Listeners, lists::Lists, session::Sessions},
    seal::{KNOWN_ENVELOPES, LONG_ENVELOPES},
};

/// One reads while another begins; more would take the processor from calls.
const FILE_READERS: usize = 2;

pub(crate) struct Door {
    pub(crate) gate: Gate,
    pub(crate) sessions: Sessions,
    pub(crate) lists: Lists,
    pub(crate) listeners: Arc<Listeners>,
    /// Room for streams of events.
    pub(crate) event_streams: Arc<Semaphore>,
    /// Room for answers from files, which may read a whole ledger.
    pub(crate) file_readers: Semaphore,
    /// Room for long bodies of people who have proven nothing yet.
    pub(crate) long_envelopes: Semaphore,
    /// Room for those of sessions in force.
    pub(crate) known_envelopes: Semaphore,
    /// How often one address may ask; shared by all doors that are on a network.
    pub(crate) limiter: Arc<Limiter>,
    closing: watch::Receiver<bool>,
    serial: AtomicU64,
}

impl Door {
    pub(crate) fn new(
        gate: Gate,
        limiter: Arc<Limiter>,
        closing: watch::Receiver<bool>,
    ) -> Arc<Self> {
        let sessions = Sessions::new(gate.settings().max_sessions);
        Arc::new(Self {
            gate,
            sessions,
            lists: Lists::default(),
            listeners: Arc::default(),
            event_streams: Arc::new(Semaphore::new(MAX_STREAMS)),
            file_readers: Semaphore::new(FILE_READERS),
            long_envelopes: Semaphore::new(LONG_ENVELOPES),
            known_envelopes: Semaphore::new(KNOWN_ENVELOPES),
            limiter,
            closing,
            serial: AtomicU64::new(1),
        })
    }

    /// A number no other request of this door has.
    pub(crate) fn serial(&self) -> u64 {
        self.serial.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn is_closing(&self) -> bool {
        *self.closing.borrow()
    }

    /// Resolves when the door stops taking requests; long streams end then.
    pub(crate) async fn closing(&self) {
        let mut closing = self.closing.clone();
        // An error means the server is gone altogether, which is closing too.
        let _ = closing.wait_for(|closing| *closing).await;
    }
}
