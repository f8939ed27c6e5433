//! Who is calling. A [`Caller`] is evidence: only a credential that the gate knows makes one.

mod credentials;
mod for_gate;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

pub use api::Role;
use arc_swap::ArcSwap;
use bytes::Bytes;
pub use credentials::CredentialSet;
pub use for_gate::ForGate;
use provenance::Conversation;
use state::SavedSession;
use tokio::sync::Semaphore;
use vocab::{Rule, ServerId, View, Violation};

use crate::{
    meters::SessionMeters,
    places::Places,
    refusals::Refusals,
    room::{Account, RequestRoom, Rooms},
    settings::Access,
    signed::{SignedSession, verify},
};

/// A credential as the gate holds it: never the token, only its digest.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Credential {
    pub id: String,
    pub name: String,
    pub role: Role,
    pub view: View,
    /// Restricted tools this credential may call: `server__tool` or `server__*`.
    pub grants: Vec<String>,
    /// The person it stands for.
    pub user: Option<String>,
    pub departments: Vec<String>,
    /// The program it was given to.
    pub agent: Option<String>,
    /// The tenant it belongs to; what belongs to another does not exist for it.
    pub tenant: Option<String>,
    /// The security context that bounds its calls.
    pub context: Option<String>,
    pub digest: [u8; 32],
}

/// How ids of callers begin whom an identity provider vouches for; issuer and subject follow.
pub const VOUCHED: &str = "oauth:";
/// How ids of callers begin whom a client certificate makes; the authority's key and the name follow.
pub const CERTIFIED: &str = "cert:";
/// The id of the caller without a credential.
const ANONYMOUS: &str = "anonymous";

impl Credential {
    /// Whether a reload left it what it was. A caller that holds an open line is asked for its credential only once, so what it may see and
    /// do there must not have changed; what its calls may do is looked up for each of them.
    fn is_same(&self, other: &Self) -> bool {
        (self.digest, self.role, &self.tenant, &self.context)
            == (other.digest, other.role, &other.tenant, &other.context)
    }

    /// Somebody an identity provider vouched for in an earlier run, by what the id says.
    fn vouched(id: &str) -> Self {
        let subject = id
            .strip_prefix(VOUCHED)
            .or_else(|| id.strip_prefix(CERTIFIED))
            .and_then(|rest| rest.split_once(':'))
            .map_or(id, |(_, subject)| subject);
        Self {
            id: id.to_owned(),
            name: subject.to_owned(),
            role: Role::Client,
            view: View::Double,
            grants: Vec::new(),
            user: Some(subject.to_owned()),
            departments: Vec::new(),
            agent: None,
            tenant: None,
            context: None,
            digest: [0; 32],
        }
    }
}

#[derive(Debug)]
struct Known {
    credential: Credential,
    shared: Arc<Shared>,
    /// The session of signed calls that this caller is, if it is one.
    signed: Option<Arc<SignedSession>>,
    /// Whose session that is.
    owner: Option<Caller>,
    /// Set when a reload changed what this credential is: whoever holds it as it was must come again.
    replaced: AtomicBool,
}

/// What everyone who calls under one credential shares, over reloads and in all its sessions of signed calls.
#[derive(Debug)]
struct Shared {
    /// Cleared when the credential is revoked; calls that already hold the caller see it at Verify.
    active: AtomicBool,
    session: Arc<flow::Session>,
    /// Places for its calls in flight.
    slots: Arc<Places>,
    /// Places for its calls that wait for a person or for its client.
    waiting: Arc<Places>,
    /// Room for answers that it has not read yet, and for those that are kept for when it was cut off.
    room: Arc<Account>,
    kept: Arc<Account>,
    /// Room for what it sends.
    requests: Arc<Account>,
    counts: Counts,
    meters: SessionMeters,
    refusals: Refusals,
    /// What was said and read since its session was last begun anew.
    conversation: Mutex<Conversation>,
    key: provenance::Key,
    /// Its turn among its own long texts: one at a time.
    long_texts: Arc<Semaphore>,
}

/// How often each target was called, for policies that count.
#[derive(Debug, Default)]
pub struct Counts(Mutex<HashMap<String, u64>>);

/// Targets that are counted one by one; further ones are not counted.
const MAX_COUNTED: usize = 4096;

impl Counts {
    fn with<T>(&self, look: impl FnOnce(&mut HashMap<String, u64>) -> T) -> T {
        look(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    pub fn of(&self, key: &str) -> u64 {
        self.with(|counts| counts.get(key).copied().unwrap_or(0))
    }

    pub fn add(&self, key: &str) {
        self.with(|counts| {
            if let Some(count) = counts.get_mut(key) {
                *count += 1;
            } else if counts.len() < MAX_COUNTED {
                counts.insert(key.to_owned(), 1);
            }
        });
    }

    pub fn clear(&self) {
        self.with(HashMap::clear);
    }
}

/// An authenticated party. Cheap to clone; cannot be made outside this module.
#[derive(Debug, Clone)]
pub struct Caller(Arc<Known>);

impl Caller {
    #[must_use]
    pub fn id(&self) -> &str {
        &self.0.credential.id
    }

    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.credential.name
    }

    #[must_use]
    pub fn is_operator(&self) -> bool {
        self.may(Role::Operator)
    }

    #[must_use]
    pub fn role(&self) -> Role {
        self.0.credential.role
    }

    /// Whether its role is this one, or one that may do more.
    #[must_use]
    pub fn may(&self, role: Role) -> bool {
        self.0.credential.role.may(role)
    }

    #[must_use]
    pub fn view(&self) -> View {
        self.0.credential.view
    }

    #[must_use]
    pub fn is_active(&self) -> bool {
        let is_replaced = |of: &Self| of.0.replaced.load(Ordering::Acquire);
        self.0.shared.active.load(Ordering::Acquire)
            && !is_replaced(self)
            && !self.0.owner.as_ref().is_some_and(is_replaced)
    }

    /// Whether its credential, and the session of signed calls under it, are in force. A credential may be revoked, and a session may
    /// end, between a call's coming in and its being made.
    pub fn in_force(&self, now_ms: u64) -> Result<(), Violation> {
        if !self.is_active() {
            return Err(Violation::new(
                Rule::Unauthenticated,
                format!("credential `{}` was revoked", self.id()),
            ));
        }
        self.signed()
            .map_or(Ok(()), |session| verify::in_force(session, now_ms))
    }

    /// Nobody in particular, where the operator lets such in.
    #[must_use]
    pub fn is_anonymous(&self) -> bool {
        self.id() == ANONYMOUS
    }

    /// Somebody an identity provider vouches for.
    #[must_use]
    pub fn is_vouched(&self) -> bool {
        self.id().starts_with(VOUCHED)
    }

    /// Somebody whom a client certificate makes. Which certificates do is fixed with the doors.
    #[must_use]
    pub fn is_certified(id: &str) -> bool {
        id.starts_with(CERTIFIED)
    }

    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.0.credential.tenant.as_deref()
    }

    /// The security context that bounds its calls, if one does.
    #[must_use]
    pub fn context(&self) -> Option<&str> {
        self.0.credential.context.as_deref()
    }

    /// The session of signed calls that this caller is, if it is one.
    #[must_use]
    pub fn signed(&self) -> Option<&Arc<SignedSession>> {
        self.0.signed.as_ref()
    }

    /// Whether something of this tenant exists for the caller; what belongs to nobody exists for everybody.
    #[must_use]
    pub fn sees(&self, tenant: Option<&str>) -> bool {
        tenant.is_none() || tenant == self.tenant()
    }

    /// The agent by name, also where only the agent itself says so: for records, and for lists of tools, which can only narrow.
    #[must_use]
    pub fn agent_name(&self) -> Option<&str> {
        self.agent()
            .or_else(|| self.signed().map(|session| session.agent.as_str()))
    }

    /// The same party, calling in a session of signed calls: never an operator, and under its own context.
    pub(crate) fn sign(&self, session: Arc<SignedSession>) -> Self {
        let mut credential = self.0.credential.clone();
        credential.role = Role::Client;
        credential.context = Some(session.context.clone());
        credential.tenant = Some(session.tenant.clone()).filter(|tenant| !tenant.is_empty());
        Self(Arc::new(Known {
            credential,
            shared: Arc::clone(&self.0.shared),
            signed: Some(session),
            owner: Some(self.clone()),
            replaced: AtomicBool::new(false),
        }))
    }

    #[must_use]
    pub fn user(&self) -> Option<&str> {
        self.0.credential.user.as_deref()
    }

    #[must_use]
    pub fn agent(&self) -> Option<&str> {
        self.0.credential.agent.as_deref()
    }

    #[must_use]
    pub fn departments(&self) -> &[String] {
        &self.0.credential.departments
    }

    /// Is the caller's user, agent or one of its departments listed?
    pub fn is_listed(&self, access: &Access) -> bool {
        let has = |list: &[String], name: Option<&str>| {
            name.is_some_and(|name| list.iter().any(|listed| listed == name))
        };
        has(&access.users, self.user())
            || has(&access.agents, self.agent())
            || self
                .departments()
                .iter()
                .any(|department| has(&access.departments, Some(department)))
    }

    /// Counts a text that holds words of a server to this caller, for as long as it exists.
    #[must_use]
    pub fn counted(&self, text: impl Into<Bytes>) -> Bytes {
        let text = text.into();
        self.0.shared.room.take_anyway(text.len()).hold(text)
    }

    /// Counts a text that is kept so that it can be sent a second time. `None`: there is no room to keep it.
    #[must_use]
    pub fn kept(&self, text: impl Into<Bytes>) -> Option<Bytes> {
        let text = text.into();
        Some(self.0.shared.kept.take(text.len())?.hold(text))
    }

    /// Waits for room for a request of this length; whoever reads it has the clock.
    pub async fn room_for_request(&self, bytes: usize) -> RequestRoom {
        RequestRoom::take(&self.0.shared.requests, bytes).await
    }

    /// Restricted tools that its credential names.
    pub fn grants(&self) -> &[String] {
        &self.0.credential.grants
    }

    /// Does the credential name this restricted target?
    pub fn is_granted(&self, server: &ServerId, target: &str) -> bool {
        self.0.credential.grants.iter().any(|grant| {
            grant
                .strip_prefix(server.as_str())
                .and_then(|rest| rest.strip_prefix("__"))
                .is_some_and(|name| name == "*" || name == target)
        })
    }
}

/// Puts back what a person said in this conversation before the gate was started. What was read is not known any more.
fn recall(
    conversation: &mut Conversation,
    key: provenance::Key,
    words: Option<&(u64, provenance::Saved)>,
) {
    if let Some((epoch, saved)) = words
        && *epoch == conversation.epoch()
    {
        *conversation = Conversation::restore(key, *epoch, saved);
    }
}

/// Every party that the gate knows, and what they may hold together. Which credentials are in force is a [`CredentialSet`].
#[derive(Debug)]
pub struct Callers {
    /// Whoever shows no credential. Made once and inactive while they are not let in, so that its label is not forgotten meanwhile.
    anonymous: OnceLock<Caller>,
    /// Sessions of earlier runs, by credential.
    saved: HashMap<String, SavedSession>,
    /// Sessions of credentials that were taken away in this run: who gets one back has seen what they saw. As many as were taken away.
    gone: Mutex<HashMap<String, Arc<flow::Session>>>,
    /// What people said in earlier runs, by credential, and in which epoch.
    words: HashMap<String, (u64, provenance::Saved)>,
    /// What values are kept under.
    key: provenance::Key,
    /// Parties of signed calls that have no bearer of their own; as many as there are such parties.
    guests: Mutex<HashMap<String, Caller>>,
    /// Those whom an identity provider vouched for in this run, by id.
    vouched: ArcSwap<HashMap<String, Caller>>,
    vouching: Mutex<()>,
    /// What all of them may hold together: unread, kept for a second time, and sent to us.
    rooms: Arc<Rooms>,
    kept: Arc<Rooms>,
    requests: Arc<Rooms>,
}

/// What one caller's streams may keep is four times this, and what those of all callers may is sixteen times this.
const KEPT: usize = 4 << 20;

/// Callers of identity providers. Their labels must not be forgotten within a run, so beyond this no new one is let in.
const MAX_VOUCHED: usize = 16_384;

impl Callers {
    pub fn new(saved: Vec<SavedSession>, secret: [u8; 32]) -> Self {
        let saved = saved
            .into_iter()
            .map(|session| (session.caller.clone(), session))
            .collect();
        let callers = Self {
            anonymous: OnceLock::new(),
            saved,
            gone: Mutex::default(),
            words: HashMap::new(),
            key: provenance::Key::new(secret),
            guests: Mutex::default(),
            vouched: ArcSwap::default(),
            vouching: Mutex::default(),
            rooms: Arc::default(),
            kept: Arc::default(),
            requests: Arc::default(),
        };
        callers.kept.set_largest(KEPT);
        // So that an operator can see and reset their labels before they come again.
        let ids = callers
            .saved
            .keys()
            .filter(|id| id.starts_with(VOUCHED) || id.starts_with(CERTIFIED));
        let vouched = ids
            .map(|id| (id.clone(), callers.admit(Credential::vouched(id), None)))
            .collect();
        callers.vouched.store(Arc::new(vouched));
        callers
    }

    /// The same, with what people said in earlier runs.
    #[must_use]
    pub fn with_words(self, words: HashMap<String, (u64, provenance::Saved)>) -> Self {
        let vouched = self.vouched.load();
        for caller in vouched.values() {
            let words = words.get(caller.id());
            caller.conversation(|conversation| recall(conversation, self.key, words));
        }
        drop(vouched);
        Self { words, ..self }
    }

    /// The largest answer and the largest request that there can be: each finds room where nobody holds any.
    pub fn set_largest(&self, answer: usize, request: usize) {
        self.rooms.set_largest(answer);
        self.requests.set_largest(request.max(answer));
    }

    /// Bytes of answers that nobody has read yet, and of requests that are being read or worked on.
    pub fn held(&self) -> (usize, usize) {
        (self.rooms.held(), self.requests.held())
    }

    fn admit(&self, credential: Credential, before: Option<&Caller>) -> Caller {
        let shared = match before {
            Some(Caller(known)) => Arc::clone(&known.shared),
            None => {
                let (session, was_before) = self.session_of(&credential.id);
                let mut conversation = Conversation::new(self.key, session.epoch());
                if was_before {
                    // It goes on with a session of before, of which nothing but the label is known.
                    conversation.pass_over();
                    let words = self.words.get(&credential.id);
                    recall(&mut conversation, self.key, words);
                }
                Arc::new(Shared {
                    active: AtomicBool::new(true),
                    session,
                    slots: Arc::default(),
                    waiting: Arc::default(),
                    room: Account::under(&self.rooms),
                    kept: Account::under(&self.kept),
                    requests: Account::under(&self.requests),
                    counts: Counts::default(),
                    meters: SessionMeters::default(),
                    refusals: Refusals::default(),
                    conversation: Mutex::new(conversation),
                    key: self.key,
                    long_texts: Arc::new(Semaphore::new(1)),
                })
            }
        };
        Caller(Arc::new(Known {
            credential,
            shared,
            signed: None,
            owner: None,
            replaced: AtomicBool::new(false),
        }))
    }

    /// The session of a credential that is let in now: the one it had before in this run, or as an earlier run left it.
    /// And whether there was one.
    fn session_of(&self, id: &str) -> (Arc<flow::Session>, bool) {
        let gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(session) = gone.get(id) {
            return (Arc::clone(session), true);
        }
        match self.saved.get(id) {
            Some(saved) => {
                let label = saved.label.clone();
                let session = flow::Session::restore(label, saved.epoch, &saved.head);
                (Arc::new(session), true)
            }
            None => (Arc::new(flow::Session::new()), false),
        }
    }

    /// Credentials that `after` does not have are inactive at once, in calls under way too; so are those that are something else there, for
    /// whoever holds them as they were. What a credential has seen is kept: it may come back.
    pub fn retire(&self, before: &CredentialSet, after: &CredentialSet) {
        for caller in before.iter() {
            match after.of_id(caller.id()) {
                Some(now) if now.0.credential.is_same(&caller.0.credential) => {}
                Some(_) => caller.0.replaced.store(true, Ordering::Release),
                None => {
                    caller.0.shared.active.store(false, Ordering::Release);
                    let mut gone = self.gone.lock().unwrap_or_else(PoisonError::into_inner);
                    gone.insert(caller.id().to_owned(), Arc::clone(caller.session()));
                }
            }
        }
    }

    /// Nobody in particular, who has seen nothing: for explaining, never for calling.
    pub fn nobody(&self) -> Caller {
        self.admit(
            Credential {
                name: "nobody".to_owned(),
                user: None,
                ..Credential::vouched("nobody")
            },
            None,
        )
    }

    /// Somebody without a bearer of their own, whose label is kept under this id: the same one each time.
    pub fn guest(&self, id: &str, name: &str, tenant: Option<&str>, agent: Option<&str>) -> Caller {
        let mut guests = self.guests.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(guest) = guests.get(id) {
            return guest.clone();
        }
        let credential = Credential {
            id: id.to_owned(),
            name: name.to_owned(),
            role: Role::Client,
            view: View::Double,
            grants: Vec::new(),
            user: None,
            departments: Vec::new(),
            agent: agent.map(str::to_owned),
            tenant: tenant.map(str::to_owned),
            context: None,
            digest: [0; 32],
        };
        let guest = self.admit(credential, None);
        guests.insert(id.to_owned(), guest.clone());
        guest
    }

    /// Somebody an identity provider vouches for: the same caller each time, as they are described this time. `None` when there are
    /// too many.
    pub fn vouched(&self, credential: Credential) -> Option<Caller> {
        let as_before = |known: &HashMap<String, Caller>| {
            let before = known
                .get(&credential.id)
                .filter(|before| before.0.credential == credential)?;
            before.is_active().then(|| before.clone())
        };
        if let Some(caller) = as_before(&self.vouched.load()) {
            return Some(caller);
        }
        // One at a time, so that nobody gets two labels.
        let _turn = self.vouching.lock().unwrap_or_else(PoisonError::into_inner);
        let known = self.vouched.load_full();
        if let Some(caller) = as_before(&known) {
            return Some(caller);
        }
        let before = known.get(&credential.id);
        if before.is_none() && known.len() >= MAX_VOUCHED {
            return None;
        }
        if let Some(Caller(before)) = before {
            before.shared.active.store(true, Ordering::Release);
        }
        let id = credential.id.clone();
        let caller = self.admit(credential, before);
        let mut known = HashMap::clone(&known);
        known.insert(id, caller.clone());
        self.vouched.store(Arc::new(known));
        Some(caller)
    }

    /// Those whose provider is no longer named are inactive at once. They are not forgotten: their labels would be.
    pub fn keep_vouched(&self, stays: impl Fn(&str) -> bool) {
        for caller in self
            .vouched
            .load()
            .values()
            .filter(|caller| !stays(caller.id()))
        {
            caller.0.shared.active.store(false, Ordering::Release);
        }
    }

    /// A party by the id of its credential. `known` are the credentials in force.
    pub fn of_id(&self, known: &CredentialSet, id: &str) -> Option<Caller> {
        let found = known.of_id(id).cloned();
        found.or_else(|| self.all(known).into_iter().find(|caller| caller.id() == id))
    }

    /// A caller by the id of its credential, or by its name if no other has it, among those that this one may know of.
    pub fn find(
        &self,
        known: &CredentialSet,
        id_or_name: &str,
        is_known: impl Fn(&Caller) -> bool,
    ) -> Option<Caller> {
        let mut all = self.all(known);
        all.retain(is_known);
        if let Some(caller) = all.iter().find(|caller| caller.id() == id_or_name) {
            return Some(caller.clone());
        }
        let mut named = all.iter().filter(|caller| caller.name() == id_or_name);
        named.next().filter(|_| named.next().is_none()).cloned()
    }

    pub fn anonymous(&self) -> Option<Caller> {
        self.anonymous
            .get()
            .filter(|caller| caller.is_active())
            .cloned()
    }

    /// Everyone, in the order of their ids. `known` are the credentials in force.
    pub fn all(&self, known: &CredentialSet) -> Vec<Caller> {
        let mut all: Vec<Caller> = known.iter().chain(self.anonymous.get()).cloned().collect();
        all.extend(
            self.guests
                .lock()
                .unwrap_or_else(PoisonError::into_inner)
                .values()
                .cloned(),
        );
        all.extend(self.vouched.load().values().cloned());
        all.sort_by(|a, b| a.id().cmp(b.id()));
        all
    }

    /// The set of these credentials. Those that `before` has keep their label and what they hold.
    pub fn prepare(&self, before: &CredentialSet, credentials: Vec<Credential>) -> CredentialSet {
        let admit = |credential: Credential| {
            let known = before.of_id(&credential.id);
            self.admit(credential, known)
        };
        credentials.into_iter().map(admit).collect()
    }

    /// Whether callers without a credential are let in, as one shared caller. Where they no longer are, calls under way see it too.
    pub fn allow_anonymous(&self, allowed: bool) {
        if !allowed && self.anonymous.get().is_none() {
            return;
        }
        let caller = self.anonymous.get_or_init(|| {
            let credential = Credential {
                id: ANONYMOUS.into(),
                name: ANONYMOUS.into(),
                role: Role::Client,
                view: View::Double,
                grants: Vec::new(),
                user: None,
                departments: Vec::new(),
                agent: None,
                tenant: None,
                context: None,
                digest: [0; 32],
            };
            self.admit(credential, None)
        });
        caller.0.shared.active.store(allowed, Ordering::Release);
    }
}
