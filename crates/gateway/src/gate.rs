//! The gate as doors see it.

use std::{
    sync::{
        Arc, OnceLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use audit::{Clock, Ledger, StrangerCounter};
use policy::Budget;
use tokio::sync::{Semaphore, broadcast};
use vocab::{Mark, Stop};
use wire::write::Object;

use crate::{
    Admin, Ask, Caller, Catalog, Change, Credential, DoorSettings, Outcome, Running, Seal, call,
    caller::Callers,
    parking::Parking,
    settings::{ServerSpec, Settings},
    upstream::Hub,
    workers::Workers,
};

/// Between writing and the disk: read-only calls are on disk within this time, without waiting for it.
const SYNC_PERIOD: Duration = Duration::from_millis(200);

/// Reads the configuration again and applies it; says what is wrong if it cannot.
pub type Reload = Box<dyn Fn(&Gate) -> Result<String, String> + Send + Sync>;

#[derive(Clone)]
pub struct Gate(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ledger: Ledger,
    pub(crate) hub: Arc<Hub>,
    pub(crate) seal: Seal,
    pub(crate) slots: Arc<Semaphore>,
    pub(crate) ceiling: Budget,
    max_calls: usize,
    pub(crate) clock: Clock,
    callers: Callers,
    door: Arc<DoorSettings>,
    parking: Parking,
    strangers: StrangerCounter,
    call_ids: AtomicU64,
    /// Tells the calls of this run from those of others.
    run: String,
    reload: OnceLock<Reload>,
    url: OnceLock<String>,
    born_us: u64,
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("hub", &self.0.hub).finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn next_call_id(&self) -> String {
        format!("{}-{}", self.run, self.call_ids.fetch_add(1, Ordering::Relaxed))
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)().unix_ms
    }

    /// Counts how a call ended.
    pub(crate) fn count(&self, outcome: &Outcome) {
        let counter = match outcome {
            Outcome::Result(_) => &self.answered,
            Outcome::Stopped(Stop::Refused(_)) => &self.refused,
            Outcome::Rpc(_) | Outcome::Stopped(Stop::Failed(_)) => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// Opens the gate: starts the worker and begins connecting servers, waiting for none of it. Needs a tokio runtime.
    #[must_use]
    pub fn open(settings: Settings, credentials: Vec<Credential>, ledger: Ledger, clock: Clock) -> Self {
        let workers = Workers::new(settings.worker.clone());
        let hub = Hub::new(&settings, Arc::clone(&workers));
        let callers = Callers::default();
        callers.replace(credentials);
        callers.allow_anonymous(!settings.door.requires_credential);
        let gate = Self(Arc::new(Inner {
            ledger,
            hub: Arc::clone(&hub),
            seal: Seal::new(&settings.seal_key),
            slots: Arc::new(Semaphore::new(settings.max_concurrent_calls)),
            ceiling: settings.ceiling,
            max_calls: settings.max_concurrent_calls,
            run: format!("{:x}", clock().unix_ms),
            born_us: clock().mono_us,
            clock,
            callers,
            door: Arc::new(settings.door),
            parking: Parking::default(),
            strangers: StrangerCounter::new(),
            call_ids: AtomicU64::new(1),
            reload: OnceLock::new(),
            url: OnceLock::new(),
            answered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }));
        tokio::spawn(workers.supervise());
        tokio::spawn(Arc::clone(&hub).listen());
        tokio::spawn(keep_ledger(Arc::downgrade(&gate.0)));
        hub.apply(settings.servers);
        gate
    }

    /// Who presents this bearer token; `None` if nobody we know.
    #[must_use]
    pub fn identify(&self, bearer: &str) -> Option<Caller> {
        self.0.callers.identify(bearer)
    }

    /// The shared caller without a credential, where the operator allows one.
    #[must_use]
    pub fn anonymous(&self) -> Option<Caller> {
        self.0.callers.anonymous()
    }

    /// Counts a refusal of somebody we do not know. Strangers are counted, not recorded one by one, so they cannot fill the ledger.
    pub fn strangers(&self, reason: &'static str) {
        if let Err(error) = self.0.strangers.note(&self.0.ledger, "mcp", reason) {
            tracing::error!(%error, "cannot record refused strangers");
        }
    }

    #[must_use]
    pub fn settings(&self) -> Arc<DoorSettings> {
        Arc::clone(&self.0.door)
    }

    /// Starts a call. It runs in a task of its own, whatever becomes of the door.
    #[must_use]
    pub fn start(&self, ask: Ask) -> Running {
        let (running, wires) = Running::pair();
        tokio::spawn(call::call(Arc::clone(&self.0), ask, wires));
        running
    }

    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.hub.catalog()
    }

    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.hub.changes()
    }

    /// Must be asked before a change that carries an upstream's words is shown to a caller: raises the caller's label. `false`: do
    /// not show it.
    #[must_use]
    pub fn deliver(&self, caller: &Caller, change: &Change) -> bool {
        let (Change::Updated { server, .. } | Change::Log { server, .. } | Change::ElicitationComplete { server, .. }) = change
        else {
            return true;
        };
        let Some(level) = self.0.hub.upstream(server).and_then(|upstream| upstream.spec().classification) else { return false };
        caller.session().absorb(Mark::trusted(level), server);
        true
    }

    #[must_use]
    pub fn seal(&self) -> &Seal {
        &self.0.seal
    }

    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    pub(crate) fn parking(&self) -> &Parking {
        &self.0.parking
    }

    pub(crate) fn hub(&self) -> &Arc<Hub> {
        &self.0.hub
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.0.ledger
    }

    pub(crate) fn uptime_ms(&self) -> u64 {
        (self.0.clock)().mono_us.saturating_sub(self.0.born_us) / 1000
    }

    pub(crate) fn counts_json(&self) -> Vec<u8> {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let in_flight = self.0.max_calls.saturating_sub(self.0.slots.available_permits());
        let mut out = Object::new();
        out.u64("in_flight", in_flight as u64).u64("answered", read(&self.0.answered));
        out.u64("refused", read(&self.0.refused)).u64("failed", read(&self.0.failed));
        out.finish()
    }

    /// Callers that have shown their credential since the gate opened, or whose session has seen something.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        self.0.callers.all()
    }

    /// Where the gate's HTTP door is; empty until it is open.
    #[must_use]
    pub fn url(&self) -> &str {
        self.0.url.get().map_or("", String::as_str)
    }

    /// Set once, by the program that opened the door.
    pub fn set_url(&self, url: String) {
        let _ = self.0.url.set(url);
    }

    /// How the program reads its configuration again; set once, by the program.
    pub fn on_reload(&self, reload: Reload) {
        let _ = self.0.reload.set(reload);
    }

    pub(crate) fn reload(&self) -> Result<String, String> {
        match self.0.reload.get() {
            Some(reload) => reload(self),
            None => Err("this gate was not told how to reload".into()),
        }
    }

    /// Makes the servers and credentials be exactly these, and records that they changed. Calls under way go on.
    pub fn apply(&self, servers: Vec<ServerSpec>, credentials: Vec<Credential>) -> Result<(), String> {
        self.record_change("config.applied", &format!("{} servers, {} credentials", servers.len(), credentials.len()))?;
        self.0.callers.replace(credentials);
        self.0.hub.apply(servers);
        Ok(())
    }

    /// Writes a change to the ledger; nothing changes unrecorded.
    pub fn record_change(&self, action: &str, detail: &str) -> Result<(), String> {
        let change = audit::Change { action, detail, ..audit::Change::default() };
        self.0.ledger.change(&change).map(drop).map_err(|error| error.to_string())
    }

    /// The last words of a gate that shuts down: what strangers did, and everything to the disk.
    pub fn close(&self) {
        let closed = self.0.strangers.close(&self.0.ledger).and_then(|()| self.0.ledger.sync().map(drop));
        if let Err(error) = closed {
            tracing::error!(%error, "the ledger could not be closed cleanly");
        }
    }
}

/// Brings the ledger to the disk every so often, and back to life when the disk is back.
async fn keep_ledger(gate: std::sync::Weak<Inner>) {
    loop {
        tokio::time::sleep(SYNC_PERIOD).await;
        let Some(gate) = gate.upgrade() else { return };
        let kept = tokio::task::spawn_blocking(move || {
            gate.ledger.tend()?;
            gate.strangers.flush(&gate.ledger)
        });
        if let Ok(Err(error)) = kept.await {
            tracing::error!(%error, "the ledger is not available; no call has effects until it is");
        }
    }
}
