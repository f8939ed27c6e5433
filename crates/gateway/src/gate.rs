//! The gate as doors see it.

mod chores;
mod executions;
mod greeting;
mod in_force;
mod program;
mod providers;
mod refused;
mod reload;
mod signing;
mod visits;

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use api::Problem;
use audit::{Clock, Filter, Ledger, Place, RefusalCounter, StrangerCounter};
use callers::{
    CredentialSet, ForGate, caller::Callers, oauth::Providers, places::Places, signed::Signed,
    turns::Turns, visits::Visits,
};
use calls::{
    aside::Aside, awaited::Awaited, finish::Flights, parking::Parking, states::SpentStates,
};
use state::{Approval, ApprovalState, SavedSession, State};
use tokio::sync::{broadcast, watch};
use upstreams::{
    Board, commands::Commands, executions::Executions, settings::HubSettings, upstream::Hub,
    workers::Workers,
};
use vocab::{Fault, FaultKind, ServerId, Stop, Violation};
use wire::Json;

use crate::{
    Action, Admin, CallRequest, Caller, Catalog, Change, DoorSettings, Pins, Running, Wrapper,
    call,
    events::Subscription,
    mount::Mounts,
    offers::Offers,
    problem,
    readers::Readers,
    said::SaidFiles,
    settings::{Account, Accounts, Rules, Settings},
    tally::{Tallied, Tally},
    volumes::Volumes,
    web::Web,
    words::Unheard,
};

pub use executions::{DispatchRefusal, Executor};
pub(crate) use in_force::InForce;
pub use program::{Edit, Program, Reading};
pub use providers::Certified;
pub use refused::DoorRefusal;

/// Between writing and the disk: read-only calls are on disk within this time, without waiting for it.
const SYNC_PERIOD: Duration = Duration::from_millis(200);
/// How soon after its time an unanswered approval is closed on record; it counts as expired at once.
const APPROVAL_PERIOD: Duration = Duration::from_secs(5);

/// How long calls may take that were cancelled because the gate stops.
const CANCEL: Duration = Duration::from_secs(3);
/// How long a renewal of a login may take then: what an authorization server has already answered must not be lost.
const RENEWAL: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub struct Gate(Arc<Inner>);

pub(crate) struct Inner {
    pub(crate) ledger: Ledger,
    pub(crate) hub: Arc<Hub>,
    pub(crate) commands: Commands,
    pub(crate) executions: Executions,
    pub(crate) wrapper: Wrapper,
    pub(crate) slots: Arc<Places>,
    /// Places of calls that wait for somebody outside: a person, or the client.
    pub(crate) waiting: Arc<Places>,
    /// Everything that a reload replaces.
    in_force: Arc<in_force::Cell>,
    /// One reload at a time.
    reloading: Mutex<()>,
    pub(crate) clock: Clock,
    pub(crate) state: State,
    accounts: Accounts,
    pub(crate) callers: Callers,
    pub(crate) signed: Signed,
    pub(crate) providers: Providers,
    parking: Parking,
    pub(crate) states: SpentStates,
    strangers: StrangerCounter,
    pub(crate) refusals: RefusalCounter,
    pub(crate) aside: Aside,
    turns: Turns,
    pub(crate) readers: Readers,
    /// How many records survive a power cut; what listeners are woken by.
    durable: watch::Sender<u64>,
    call_ids: AtomicU64,
    /// Tells the calls of this run from those of others.
    run: String,
    program: Arc<dyn Program>,
    url: String,
    born_us: u64,
    pub(crate) tally: Tally,
    answered: AtomicU64,
    refused: AtomicU64,
    failed: AtomicU64,
    pub(crate) flights: Flights,
    pub(crate) unheard: Unheard,
    pub(crate) awaited: Awaited,
    pub(crate) offers: Offers,
    pub(crate) said: SaidFiles,
    pub(crate) volumes: Volumes,
    pub(crate) mounts: Mounts,
    pub(crate) mount_key: [u8; 32],
    pub(crate) visits: Visits,
    /// The host on which the console is, and nothing else.
    console_host: String,
    pub(crate) web: Web,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate")
            .field("hub", &self.0.hub)
            .finish_non_exhaustive()
    }
}

impl Inner {
    pub(crate) fn next_call_id(&self) -> String {
        format!(
            "{}-{}",
            self.run,
            self.call_ids.fetch_add(1, Ordering::Relaxed)
        )
    }

    pub(crate) fn now_us(&self) -> u64 {
        (self.clock)().mono_us
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock)().unix_ms
    }

    /// What is in force now. Whoever looks at more than one part of it takes it once.
    pub(crate) fn now(&self) -> Arc<InForce> {
        self.in_force.now()
    }

    /// Takes in what other gates have shown this caller, where they share a store. What a client sent is received in full before this,
    /// and weighed after it.
    pub(crate) async fn read_session(&self, caller: &Caller) -> Result<(), Stop> {
        let read = self.state.refresh(caller.id(), caller.session()).await;
        read.map_err(|error| {
            Fault::new(
                FaultKind::Gate,
                format!("the session's label cannot be read: {error}"),
            )
            .into()
        })
    }

    /// The rules in force now.
    pub(crate) fn rules(&self) -> Arc<Rules> {
        self.in_force.look(|now| Arc::clone(&now.rules))
    }

    /// The user's own credential for a server, if there is one.
    pub(crate) fn account(
        &self,
        server: &ServerId,
        tenant: Option<&str>,
        user: &str,
    ) -> Option<Account> {
        match (self.accounts)(server, tenant, user) {
            Ok(account) => {
                if let Some(Account::Token(token)) = &account {
                    self.hub.hold(token.expose());
                }
                account
            }
            Err(error) => {
                tracing::error!(%server, user, error, "a user's account cannot be read");
                None
            }
        }
    }

    /// Text of a caller without secrets in it; `None` if there are none.
    pub(crate) fn without_secrets(&self, text: &[u8]) -> Option<Vec<u8>> {
        shape::secrets::redact(text, &self.hub.held()).map(|redacted| redacted.text)
    }

    /// The same for a text that is not JSON.
    pub(crate) fn text_without_secrets(&self, text: &str) -> Option<String> {
        shape::secrets::redact_text(text, &self.hub.held())
    }

    /// Takes a person's answer to an open approval. Nothing is answered unrecorded.
    pub(crate) async fn answer_approval(
        &self,
        id: &str,
        approve: bool,
        (who, reason): (&str, &str),
        lasts: &str,
    ) -> Result<Approval, Problem> {
        let open = self.state.get(id).await;
        let open = open
            .map_err(|error| problem::state(&error))?
            .ok_or_else(|| problem::no_approval(id))?
            .at(self.now_ms());
        if open.state != ApprovalState::Pending {
            let text = format!(
                "approval {id} has already been answered: it is {}",
                open.state
            );
            return Err(problem::conflict("already_answered", text));
        }
        let change = audit::Change {
            action: if approve {
                "approval.approved"
            } else {
                "approval.denied"
            },
            caller: who,
            reason,
            server: &open.server,
            tool: &open.target,
            approval: &open.id,
            detail: lasts,
            ..audit::Change::default()
        };
        self.ledger
            .change(&change)
            .map_err(|error| problem::ledger(&error))?;
        self.state
            .answer(id, approve, who, reason, self.now_ms())
            .await
            .map_err(|error| problem::answer(id, &error))
    }

    /// Tells listeners how far the ledger is durable now.
    fn wake_listeners(&self) {
        let synced = self.ledger.status().synced;
        self.durable
            .send_if_modified(|known| std::mem::replace(known, synced) != synced);
    }

    /// Counts how a call ended.
    pub(crate) fn count(&self, verdict: audit::Verdict) {
        let counter = match verdict {
            audit::Verdict::Permitted => &self.answered,
            audit::Verdict::Refused => &self.refused,
            _ => &self.failed,
        };
        counter.fetch_add(1, Ordering::Relaxed);
    }
}

impl Gate {
    /// Opens the gate: starts the worker and begins connecting servers, waiting for none of it. Needs a tokio runtime.
    #[must_use]
    pub fn open(
        settings: Settings,
        sessions: Vec<SavedSession>,
        ledger: Ledger,
        clock: Clock,
    ) -> Self {
        let Settings {
            configuration,
            worker,
            ..
        } = settings;
        let workers = Workers::new(worker.clone());
        let key = blake3::derive_key("portcullis provenance 1", &settings.wrapper_key);
        let said = SaidFiles::new(settings.said);
        let callers = Callers::new(sessions, key).with_words(said.load());
        // Sessions of signed calls are brought back under them, so they are there first.
        let credentials = configuration.credentials.clone();
        let known = callers.prepare(&CredentialSet::default(), credentials);
        let terms = configuration.terms.clone();
        let in_force = in_force::Cell::new(InForce {
            terms: Arc::new(terms.clone()),
            rules: Arc::new(configuration.rules.clone()),
            credentials: Arc::new(known),
            seal: Arc::clone(&configuration.seal),
            providers: Arc::default(),
            servers: Arc::default(),
            volumes: Arc::default(),
            web: None,
            awaiting_restart: Arc::default(),
        });
        let hub = HubSettings {
            name: terms.door.name,
            version: terms.door.version,
            host_path: worker.path,
            jails: settings.jails,
            snapshots: settings.snapshots,
            secrets: settings.secrets,
            logins: settings.logins,
            pins: settings.pins,
            board: Arc::clone(&in_force) as Arc<dyn Board>,
        };
        let hub = Hub::new(hub, Arc::clone(&workers), ledger.clone());
        ledger.scrub_with(scrub(&hub));
        let visits = Visits::new(settings.signing.random.clone());
        let console_host = visits::host(&settings.wrapper_key);
        let providers = Providers::new(settings.proofs);
        let signed = Signed::new(
            settings.signing,
            (&callers, &in_force.now().credentials),
            settings.state.clone(),
            ledger.clone(),
        );
        let durable = watch::Sender::new(ledger.status().synced);
        let volumes = Volumes::new(
            settings.state.clone(),
            settings.protected,
            settings.own_volumes,
        );
        let states = SpentStates::new(clock().unix_ms);
        let gate = Self(Arc::new(Inner {
            ledger,
            durable,
            hub: Arc::clone(&hub),
            commands: Commands::new(settings.commands),
            executions: Executions::new(settings.executions, settings.state.clone()),
            wrapper: Wrapper::new(&settings.wrapper_key),
            slots: Arc::default(),
            waiting: Arc::default(),
            in_force,
            reloading: Mutex::default(),
            run: format!("{:x}", clock().unix_ms),
            born_us: clock().mono_us,
            clock,
            state: settings.state,
            accounts: settings.accounts,
            callers,
            signed,
            providers,
            parking: Parking::default(),
            states,
            strangers: StrangerCounter::new(),
            refusals: RefusalCounter::default(),
            aside: Aside::default(),
            turns: Turns::default(),
            readers: Readers::default(),
            call_ids: AtomicU64::new(1),
            program: settings.program,
            url: settings.url,
            tally: Tally::default(),
            answered: AtomicU64::new(0),
            refused: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            flights: Flights::default(),
            unheard: Unheard::default(),
            awaited: Awaited::default(),
            offers: Offers::default(),
            said,
            volumes,
            mounts: Mounts::default(),
            mount_key: blake3::derive_key("portcullis mounts 1", &settings.wrapper_key),
            visits,
            console_host,
            web: Web::new(settings.web),
        }));
        tokio::spawn(workers.supervise());
        tokio::spawn(Arc::clone(&hub).listen());
        tokio::spawn(Arc::clone(&hub).sign());
        tokio::spawn(chores::keep_ledger(Arc::downgrade(&gate.0)));
        tokio::spawn(chores::close_approvals(Arc::downgrade(&gate.0)));
        tokio::spawn(chores::end_sessions(Arc::downgrade(&gate.0)));
        tokio::spawn(chores::end_parked(Arc::downgrade(&gate.0)));
        tokio::spawn(chores::tend_providers(Arc::downgrade(&gate.0)));
        gate.0.begin_with(configuration);
        gate
    }

    /// Whether work on a text of this length would keep others waiting, so that it belongs on a thread of its own.
    #[must_use]
    pub fn is_long(&self, bytes: usize) -> bool {
        self.0.aside.is_long(bytes, || self.0.now_us())
    }

    /// Waits until a request of this caller is next, where others are there too.
    pub async fn turn(&self, caller: &Caller) {
        if self.0.aside.is_crowded(|| self.0.now_us()) {
            self.0.turns.turn(caller.key()).await;
        }
    }

    /// Who presents this bearer token; `None` if nobody we know.
    #[must_use]
    pub fn identify(&self, bearer: &str) -> Option<Caller> {
        self.0.in_force.look(|now| now.credentials.identify(bearer))
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

    /// What doors are held to now. It may change between two requests, so it is asked for anew with each.
    #[must_use]
    pub fn settings(&self) -> Arc<DoorSettings> {
        self.0.in_force.look(|now| Arc::clone(&now.terms.door))
    }

    /// Keys of the configuration whose values are in force only after a restart.
    pub(crate) fn awaiting_restart(&self) -> Arc<Vec<&'static str>> {
        self.0
            .in_force
            .look(|now| Arc::clone(&now.awaiting_restart))
    }

    /// Starts a call. Whoever asks for its events moves it; it comes to its end whatever becomes of the door.
    #[must_use]
    pub fn start(&self, request: CallRequest) -> Running {
        Running::new(|wires| call::call(Arc::clone(&self.0), request, wires))
    }

    #[must_use]
    pub fn catalog(&self) -> Arc<Catalog> {
        self.0.in_force.look(|now| Arc::clone(now.catalog()))
    }

    #[must_use]
    pub fn changes(&self) -> broadcast::Receiver<Change> {
        self.0.hub.changes()
    }

    /// Whether a person's words began this caller's conversation, so that it may plan.
    #[must_use]
    pub fn plans(&self, caller: &Caller) -> bool {
        caller.conversation(|conversation| conversation.index().has_words())
    }

    /// Whether sealed texts are of use to this caller: a person's words began its conversation, or a tool it may use is always sealed.
    #[must_use]
    pub fn seals(&self, caller: &Caller) -> bool {
        let seals = |spec: &crate::settings::TargetSpec| {
            let rules = spec.rules.values().chain([&spec.default_rule]);
            rules
                .into_iter()
                .any(|rule| rule.sealed == crate::settings::Sealing::Always)
        };
        let catalog = self.catalog();
        let mut servers = catalog.servers();
        self.plans(caller)
            || servers.any(|spec| upstreams::words::is_for(caller, spec) && seals(spec))
    }

    #[must_use]
    pub fn wrapper(&self) -> &Wrapper {
        &self.0.wrapper
    }

    #[must_use]
    pub fn admin(&self) -> Admin {
        Admin::new(self.clone())
    }

    /// Events from a place on, or those that come from now on.
    #[must_use]
    pub fn subscribe(&self, from: Option<Place>, filter: Filter) -> Subscription {
        Subscription::new(&self.0.ledger, self.0.durable.subscribe(), from, filter)
    }

    /// How many records survive a power cut, as it grows; and where they are.
    #[must_use]
    pub fn durable_records(&self) -> (std::path::PathBuf, watch::Receiver<u64>) {
        (self.0.ledger.dir().to_owned(), self.0.durable.subscribe())
    }

    /// Parks a call and returns the `requestState` under which its caller can come back to it.
    #[must_use]
    pub fn park(
        &self,
        running: Running,
        caller: &Caller,
        action: Action,
        params: Json<'_>,
    ) -> String {
        let (parking, wrapper) = (&self.0.parking, &self.0.wrapper);
        parking.park(wrapper, running, caller, action, params)
    }

    /// Takes a parked call up again if `params` names one. `None`: this is not about a parked call.
    pub fn resume(
        &self,
        caller: &Caller,
        action: Action,
        params: Json<'_>,
    ) -> Option<Result<Running, Violation>> {
        let (parking, wrapper) = (&self.0.parking, &self.0.wrapper);
        parking.resume(wrapper, caller, action, params)
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

    pub(crate) fn counts(&self) -> api::Calls {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let (unread, requests) = self.0.callers.held();
        api::Calls {
            in_flight: self.0.slots.taken() as u64,
            waiting: self.0.waiting.taken() as u64,
            parked: self.0.parking.count() as u64,
            unread_bytes: unread as u64,
            request_bytes: requests as u64,
            answered: read(&self.0.answered),
            refused: read(&self.0.refused),
            failed: read(&self.0.failed),
            withheld: self.0.unheard.count(),
        }
    }

    /// How calls ended since the gate opened, and how long they took.
    #[must_use]
    pub fn tallied(&self) -> Tallied {
        self.0.tally.read()
    }

    /// Callers that have shown their credential since the gate opened, or whose session has seen something.
    pub(crate) fn callers(&self) -> Vec<Caller> {
        self.0.callers.all(&self.0.now().credentials)
    }

    /// Where the gate's HTTP door is.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.0.url
    }

    /// Who answers from files.
    pub(crate) fn program(&self) -> &Arc<dyn Program> {
        &self.0.program
    }

    pub(crate) fn inner(&self) -> &Arc<Inner> {
        &self.0
    }

    pub(crate) fn find_caller(&self, id_or_name: &str) -> Option<Caller> {
        self.find_caller_for(id_or_name, |_| true)
    }

    /// The same among those of whom whoever asks may know.
    pub(crate) fn find_caller_for(
        &self,
        id_or_name: &str,
        may_know: impl Fn(&Caller) -> bool,
    ) -> Option<Caller> {
        let known = &self.0.now().credentials;
        self.0.callers.find(known, id_or_name, may_know)
    }

    /// The approved definitions.
    #[must_use]
    pub fn pins(&self) -> &Arc<Pins> {
        self.0.hub.pins()
    }

    /// Reads the approved definitions again and holds calls to them from now on.
    pub fn reload_pins(&self) -> Result<(), String> {
        self.0.hub.reload_pins()
    }

    /// Takes secrets out of a line, for a log; `None` if there are none in it.
    #[must_use]
    pub fn without_secrets(&self, text: &str) -> Option<String> {
        shape::secrets::redact_text(text, &self.0.hub.held())
    }

    /// Writes a change to the ledger; nothing changes unrecorded.
    pub fn record_change(&self, action: &str, detail: &str) -> Result<(), Problem> {
        let change = audit::Change {
            action,
            detail,
            ..audit::Change::default()
        };
        self.0
            .ledger
            .change(&change)
            .map(drop)
            .map_err(|error| problem::ledger(&error))
    }

    /// Waits for the calls under way; after `grace` they are cancelled, which is recorded and answered like any other end. Nobody may start
    /// calls meanwhile.
    pub async fn finish(&self, grace: Duration) {
        let left = self.0.flights.finish(grace, CANCEL).await;
        if left > 0 {
            tracing::warn!(calls = left, "stopping although calls are under way");
        }
        self.0.hub.logins().settle(RENEWAL).await;
    }

    /// The gate is about to stop and says so to whoever asks whether it is ready; calls go on as before.
    pub fn drain(&self) {
        self.0.flights.drain();
    }

    /// Whether new work should come here.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.0.flights.is_open()
    }

    /// Calls under way have no more time: [`Gate::finish`] cancels them now.
    pub fn hurry(&self) {
        self.0.flights.hurry();
    }

    /// The last words of a gate that shuts down: what was only counted, and everything to the disk.
    pub fn close(&self) {
        let ledger = &self.0.ledger;
        let counted = self
            .0
            .strangers
            .close(ledger)
            .and_then(|()| self.0.refusals.close(ledger));
        let closed = counted.and_then(|()| ledger.sync().map(drop));
        if let Err(error) = closed {
            tracing::error!(%error, "the ledger could not be closed cleanly");
        }
        self.0.wake_listeners();
    }
}

/// No record holds a secret, whoever put it into whichever field. The hub has the ledger, so it is not held from here.
fn scrub(hub: &Arc<Hub>) -> audit::Scrub {
    let hub = Arc::downgrade(hub);
    Box::new(move |json| {
        let held = hub.upgrade().map(|hub| hub.held()).unwrap_or_default();
        shape::secrets::redact(json, &held).map(|redacted| redacted.text)
    })
}
