//! Sessions of signed calls. A client makes a key pair, proves who it is once (it *attests*), and from then on signs each call; the
//! token it got names the session, the signature makes the call its own.
//!
//! A session is a [`Caller`]: it calls under the credential that attested it, bounded by its security context, and shares that
//! credential's label, so that attesting again washes nothing off. What has ended stays ended, on disk and in memory.
//!
//! It must never accept a call whose signature it has not checked: [`Signed::recognise`] only says whose session a token names, and
//! [`Signed::verify`], in the call path, says whether this very call is that session's own and the first of its kind.

mod asked;
mod attest;
mod launched;
mod slot;
mod used;
pub(crate) mod verify;
mod view;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use audit::Ledger;
use identity::{Claims, PublicKey, Replay, TokenCache};
use policy::context::ToolPattern;
use state::{SavedSigned, SignedStatus, State};

use crate::{
    Caller,
    caller::{Callers, CredentialSet},
    meters::{Bucket, SessionMeters, SoFar},
    settings::{Rate, Signing},
};
use launched::Launched;

pub use attest::{
    AttestError, AttestRequest, Attested, Evidence as AttestProof, Launchable, NewWorkload,
    SessionRequest, Under,
};
pub use slot::ExecutionSlot;
pub use view::{Ended, about};

/// Sessions in force at once; a new one beyond is refused.
const MAX_SESSIONS: usize = 10_000;
/// So often may one party attest, and so often may strangers try and fail before they are told to wait.
const ATTESTATIONS: Rate = Rate {
    calls: 120,
    per: Duration::from_secs(60),
};
const TRIES: Rate = Rate {
    calls: 600,
    per: Duration::from_secs(60),
};
/// Why a session ended that another one of its execution took the place of.
const REPLACED: &str = "replaced";
/// Tokens whose signature is not verified again.
const KEPT_TOKENS: usize = 16_384;

/// One session of signed calls.
#[derive(Debug)]
pub struct SignedSession {
    /// The token's `jti`.
    pub id: String,
    pub execution: String,
    pub agent: String,
    pub context: String,
    pub workload: String,
    /// Empty where there are no tenants.
    pub tenant: String,
    /// The credential or workload that proved itself.
    pub attested_by: String,
    /// Tools it may call at most.
    pub patterns: Vec<ToolPattern>,
    pub created_ms: u64,
    pub expires_ms: u64,
    key: PublicKey,
    status: AtomicU8,
    /// When it ended; nothing before it has.
    ended_ms: AtomicU64,
    /// Its end is on record and on disk.
    is_kept: AtomicBool,
    /// Another session of the same execution took its place.
    is_replaced: AtomicBool,
    /// The agent it is by more than its own word; empty where there is none.
    vouched: String,
    /// What its execution has used up, over all sessions of that execution.
    pub(crate) meters: Arc<SessionMeters>,
}

impl SignedSession {
    fn new(saved: SavedSigned, key: PublicKey, meters: Arc<SessionMeters>) -> Self {
        Self {
            id: saved.id,
            execution: saved.execution,
            agent: saved.agent,
            context: saved.context,
            workload: saved.workload,
            tenant: saved.tenant,
            attested_by: saved.attested_by,
            // One that cannot be read allows nothing.
            patterns: saved
                .patterns
                .iter()
                .filter_map(|text| ToolPattern::parse(text).ok())
                .collect(),
            created_ms: saved.created_ms,
            expires_ms: saved.expires_ms,
            key,
            status: AtomicU8::new(saved.status as u8),
            ended_ms: AtomicU64::new(saved.ended_ms),
            is_kept: AtomicBool::new(saved.status != SignedStatus::Active),
            is_replaced: AtomicBool::new(saved.reason == REPLACED),
            vouched: saved.vouched,
            meters,
        }
    }

    /// Where it is in its life, by what has been decided so far.
    #[must_use]
    pub fn status(&self) -> SignedStatus {
        match self.status.load(Ordering::Acquire) {
            status if status == SignedStatus::Active as u8 => SignedStatus::Active,
            status if status == SignedStatus::Expired as u8 => SignedStatus::Expired,
            _ => SignedStatus::Revoked,
        }
    }

    /// How many calls it made, and of this tool among them.
    pub fn so_far(&self, tool: &str) -> SoFar {
        self.meters.calls.so_far(tool)
    }

    /// Where it is in its life now, also where nobody has looked since its time was over.
    #[must_use]
    pub fn status_at(&self, now_ms: u64) -> SignedStatus {
        match self.status() {
            SignedStatus::Active if now_ms >= self.expires_ms => SignedStatus::Expired,
            status => status,
        }
    }

    /// In force on the next look, whatever becomes of the disk. The first end is the one that counts, and time may have come first.
    fn end(&self, status: SignedStatus, now_ms: u64) {
        let (status, at) = match self.status_at(now_ms) {
            SignedStatus::Expired => (SignedStatus::Expired, self.expires_ms),
            _ => (status, now_ms),
        };
        let (active, ended) = (SignedStatus::Active as u8, status as u8);
        if self
            .status
            .compare_exchange(active, ended, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            self.ended_ms.store(at, Ordering::Release);
        }
    }

    /// Whether a token names this session in everything it says.
    fn is_named_by(&self, claims: &Claims) -> bool {
        claims.jti == self.id
            && claims.sub == self.agent
            && claims.scp == self.context
            && claims.wid == self.workload
            && claims.exec_id == self.execution
            && claims.tenant_id.as_deref().unwrap_or_default() == self.tenant
    }
}

/// Everybody, and the credentials in force.
type Parties<'a> = (&'a Callers, &'a CredentialSet);

/// The party that a session calls under.
fn owner_of((callers, known): Parties<'_>, owner: &str, session: &SignedSession) -> Option<Caller> {
    let tenant = Some(session.tenant.as_str()).filter(|tenant| !tenant.is_empty());
    match attest::is_guest(owner) {
        true => Some(callers.guest(
            owner,
            &session.agent,
            tenant,
            Some(&*session.vouched).filter(|agent| !agent.is_empty()),
        )),
        false => callers.of_id(known, owner),
    }
}

/// Every session of signed calls, and what it takes to recognise one.
pub struct Signed {
    cache: TokenCache<Claims>,
    replay: Arc<Replay>,
    tidy: crate::settings::Tidy,
    random: secrets::Entropy,
    /// Of this run and of earlier ones, by id; ended ones until they are cleared away.
    sessions: ArcSwap<HashMap<String, Caller>>,
    /// Counts attestations that prove nothing.
    tries: Bucket,
    launched: Launched,
    /// Held while a session begins or ends, so that two cannot take one place.
    turn: tokio::sync::Mutex<()>,
    state: State,
    ledger: Ledger,
}

impl std::fmt::Debug for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signed")
            .field("sessions", &self.sessions.load().len())
            .finish_non_exhaustive()
    }
}

impl Signed {
    pub fn new(signing: Signing, parties: Parties<'_>, state: State, ledger: Ledger) -> Self {
        let Signing {
            replay,
            tidy,
            random,
            sessions,
            used,
            workloads,
        } = signing;
        let signed = Self {
            cache: TokenCache::new(KEPT_TOKENS),
            replay,
            tidy,
            random,
            sessions: ArcSwap::default(),
            tries: Bucket::new("attestations without a credential".to_owned(), TRIES),
            launched: Launched::new(&workloads),
            turn: tokio::sync::Mutex::new(()),
            state,
            ledger,
        };
        let mut meters = used::meters(used);
        let known = sessions
            .into_iter()
            .filter_map(|saved| signed.revive(parties, saved, &mut meters))
            .collect();
        signed.sessions.store(Arc::new(known));
        signed
    }

    /// A session of an earlier run.
    fn revive(
        &self,
        parties: Parties<'_>,
        saved: SavedSigned,
        meters: &mut HashMap<String, Arc<SessionMeters>>,
    ) -> Option<(String, Caller)> {
        let key = PublicKey::from_bytes(&saved.public_key).ok()?;
        let owner = saved.owner.clone();
        // One of all sessions of an execution.
        let meters = Arc::clone(meters.entry(saved.execution.clone()).or_default());
        let session = Arc::new(SignedSession::new(saved, key, meters));
        // Without its credential there is no session.
        let owner = owner_of(parties, &owner, &session)?;
        Some((session.id.clone(), owner.sign(session)))
    }

    /// The credentials were read again: sessions call under what theirs stand for now, and end with those that are gone.
    pub fn refresh(&self, parties: Parties<'_>) {
        self.sessions.rcu(|sessions| {
            let mut fresh = HashMap::clone(sessions);
            for caller in fresh.values_mut() {
                let Some(session) = caller.signed().cloned() else {
                    continue;
                };
                // Whose credential is gone keeps the one that is marked so, and is refused by it.
                if let Some(owner) = owner_of(parties, caller.id(), &session) {
                    *caller = owner.sign(session);
                }
            }
            fresh
        });
    }

    pub fn all(&self) -> Vec<Caller> {
        self.sessions.load().values().cloned().collect()
    }

    fn enter(&self, caller: Caller) {
        let Some(session) = caller.signed() else {
            return;
        };
        let id = session.id.clone();
        self.sessions.rcu(|sessions| {
            let mut sessions = HashMap::clone(sessions);
            sessions.insert(id.clone(), caller.clone());
            sessions
        });
    }

    /// Ends what has run out, on record, and forgets what ended long ago.
    pub async fn tidy(&self, now_ms: u64) {
        const FORGET_MS: u64 = 10 * 60 * 1000;
        self.replay.sweep(now_ms);
        if let Err(error) = (self.tidy)(&self.replay) {
            tracing::warn!(%error, "the list of used envelopes cannot be written anew; it grows");
        }
        let all = self.sessions.load_full();
        for session in all.values().filter_map(Caller::signed) {
            let is_over = session.expires_ms <= now_ms || session.status() != SignedStatus::Active;
            if is_over
                && !session.is_kept.load(Ordering::Acquire)
                && let Err(error) = self
                    .finish(
                        session,
                        End {
                            status: SignedStatus::Expired,
                            who: "",
                            reason: "",
                        },
                        now_ms,
                    )
                    .await
            {
                tracing::error!(
                    error,
                    execution = session.execution,
                    "an expired session could not be recorded"
                );
            }
        }
        let over = |caller: &Caller| {
            caller.signed().is_none_or(|session| {
                session.is_kept.load(Ordering::Acquire)
                    && session.expires_ms.saturating_add(FORGET_MS) < now_ms
            })
        };
        if all.values().any(over) {
            self.sessions.rcu(|sessions| {
                let mut sessions = HashMap::clone(sessions);
                sessions.retain(|_, caller| !over(caller));
                sessions
            });
        }
    }

    /// Ends a session: in memory at once, then on record, then on disk. What could not be kept is tried again by whoever asks next, and
    /// every few seconds.
    async fn finish(
        &self,
        session: &SignedSession,
        end: End<'_>,
        now_ms: u64,
    ) -> Result<(), String> {
        session.end(end.status, now_ms);
        let _turn = self.turn.lock().await;
        self.keep_end(session, end).await
    }

    /// Needs the turn.
    async fn keep_end(&self, session: &SignedSession, end: End<'_>) -> Result<(), String> {
        if session.is_kept.load(Ordering::Acquire) {
            return Ok(());
        }
        let (status, ended_ms) = (session.status(), session.ended_ms.load(Ordering::Acquire));
        // Time asks nobody.
        let end = if status == SignedStatus::Expired {
            End {
                who: "",
                reason: "",
                ..end
            }
        } else {
            end
        };
        let change = audit::Change {
            action: if status == SignedStatus::Expired {
                "seal.session_expired"
            } else {
                "seal.session_revoked"
            },
            caller: end.who,
            reason: end.reason,
            door: "seal",
            ..view::about(session)
        };
        self.ledger
            .change(&change)
            .map_err(|error| error.to_string())?;
        self.state
            .end_signed(&session.id, status, end.reason, ended_ms)
            .await
            .map_err(|error| error.to_string())?;
        session.is_kept.store(true, Ordering::Release);
        // It can never come back, so neither can its calls.
        self.replay.forget(&session.id);
        Ok(())
    }
}

/// How a session ends, by whom and why.
#[derive(Debug, Clone, Copy)]
struct End<'a> {
    status: SignedStatus,
    who: &'a str,
    reason: &'a str,
}
