//! Sessions of signed calls. A client makes a key pair, proves who it is once (it *attests*), and from then on signs each call; the
//! token it got names the session, the signature makes the call its own.
//!
//! A session is a [`Caller`]: it calls under the credential that attested it, bounded by its security context, and shares that
//! credential's label, so that attesting again washes nothing off. What has ended stays ended, on disk and in memory.
//!
//! It must never accept a call whose signature it has not checked: [`Signed::recognise`] only says whose session a token names, and
//! [`Signed::verify`], in the call path, says whether this very call is that session's own and the first of its kind.

mod attest;
mod gate;
mod verify;
mod view;

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU8, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use audit::Ledger;
use identity::{Claims, Expect, PublicKey, Replay, TokenCache, TokenKeys};
use policy::context::ToolPattern;
use state::{SavedSigned, SignedStatus, State};

use crate::{Caller, call::SoFar, caller::Callers, meters::SessionMeters, settings::Signing};

pub use attest::{AttestError, AttestRequest, Attested, Evidence as AttestProof, NewWorkload, SessionRequest};
pub(crate) use verify::in_force;
pub use view::Revoked;

/// Sessions in force at once; a new one beyond is refused.
const MAX_SESSIONS: usize = 10_000;
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
    /// Calls that were let in.
    pub(crate) made: AtomicU64,
    pub(crate) meters: SessionMeters,
}

impl SignedSession {
    fn new(saved: SavedSigned, key: PublicKey) -> Self {
        Self {
            id: saved.id,
            execution: saved.execution,
            agent: saved.agent,
            context: saved.context,
            workload: saved.workload,
            tenant: saved.tenant,
            attested_by: saved.attested_by,
            // One that cannot be read allows nothing.
            patterns: saved.patterns.iter().filter_map(|text| ToolPattern::parse(text).ok()).collect(),
            created_ms: saved.created_ms,
            expires_ms: saved.expires_ms,
            key,
            status: AtomicU8::new(saved.status as u8),
            made: AtomicU64::new(0),
            meters: SessionMeters::default(),
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
    pub(crate) fn so_far(&self, tool: &str) -> SoFar {
        SoFar { calls: self.made.load(Ordering::Relaxed), of_tool: self.meters.made(tool) }
    }

    /// In force on the next look, whatever becomes of the disk.
    fn end(&self, status: SignedStatus) -> bool {
        let (active, ended) = (SignedStatus::Active as u8, status as u8);
        self.status.compare_exchange(active, ended, Ordering::AcqRel, Ordering::Acquire).is_ok()
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

/// The party that a session calls under.
fn owner_of(callers: &Callers, owner: &str, session: &SignedSession) -> Option<Caller> {
    let tenant = Some(session.tenant.as_str()).filter(|tenant| !tenant.is_empty());
    match attest::is_guest(owner) {
        true => Some(callers.guest(owner, &session.agent, tenant, Some(&session.agent))),
        false => callers.find(owner),
    }
}

/// Every session of signed calls, and what it takes to recognise one.
pub(crate) struct Signed {
    keys: ArcSwap<TokenKeys>,
    issuer: String,
    audiences: Vec<String>,
    cache: TokenCache<Claims>,
    replay: Arc<Replay>,
    tidy: crate::settings::Tidy,
    ttl: Duration,
    max_per_workload: usize,
    random: secrets::Entropy,
    /// Of this run and of earlier ones, by id; ended ones until they are cleared away.
    sessions: ArcSwap<HashMap<String, Caller>>,
    /// Held while a session begins or ends, so that two cannot take one place.
    turn: tokio::sync::Mutex<()>,
    state: State,
    ledger: Ledger,
}

impl std::fmt::Debug for Signed {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Signed").field("sessions", &self.sessions.load().len()).finish_non_exhaustive()
    }
}

impl Signed {
    pub(crate) fn new(signing: Signing, callers: &Callers, state: State, ledger: Ledger) -> Self {
        let Signing { keys, issuer, audiences, ttl, max_sessions_per_workload, replay, tidy, random, sessions } = signing;
        let signed = Self {
            keys: ArcSwap::from_pointee(keys),
            issuer,
            audiences,
            cache: TokenCache::new(KEPT_TOKENS),
            replay,
            tidy,
            ttl,
            max_per_workload: max_sessions_per_workload,
            random,
            sessions: ArcSwap::default(),
            turn: tokio::sync::Mutex::new(()),
            state,
            ledger,
        };
        let known = sessions.into_iter().filter_map(|saved| signed.revive(callers, saved)).collect();
        signed.sessions.store(Arc::new(known));
        signed
    }

    /// A session of an earlier run.
    fn revive(&self, callers: &Callers, saved: SavedSigned) -> Option<(String, Caller)> {
        let key = PublicKey::from_bytes(&saved.public_key).ok()?;
        let owner = saved.owner.clone();
        let session = Arc::new(SignedSession::new(saved, key));
        // Without its credential there is no session.
        let owner = owner_of(callers, &owner, &session)?;
        Some((session.id.clone(), owner.sign(session)))
    }

    /// The credentials were read again: sessions call under what theirs stand for now, and end with those that are gone.
    pub(crate) fn refresh(&self, callers: &Callers) {
        self.sessions.rcu(|sessions| {
            let mut fresh = HashMap::clone(sessions);
            for caller in fresh.values_mut() {
                let Some(session) = caller.signed().cloned() else { continue };
                // Whose credential is gone keeps the one that is marked so, and is refused by it.
                if let Some(owner) = owner_of(callers, caller.id(), &session) {
                    *caller = owner.sign(session);
                }
            }
            fresh
        });
    }

    /// Other keys sign and recognise tokens from now on.
    pub(crate) fn set_keys(&self, keys: TokenKeys) {
        self.keys.store(Arc::new(keys));
    }

    fn expect(&self) -> Expect<'_> {
        Expect { issuer: &self.issuer, audience: self.audiences.first().map_or("", String::as_str) }
    }

    pub(crate) fn all(&self) -> Vec<Caller> {
        self.sessions.load().values().cloned().collect()
    }

    fn enter(&self, caller: Caller) {
        let Some(session) = caller.signed() else { return };
        let id = session.id.clone();
        self.sessions.rcu(|sessions| {
            let mut sessions = HashMap::clone(sessions);
            sessions.insert(id.clone(), caller.clone());
            sessions
        });
    }

    /// Ends what has run out, on record, and forgets what ended long ago.
    pub(crate) async fn tidy(&self, now_ms: u64) {
        const FORGET_MS: u64 = 10 * 60 * 1000;
        self.replay.sweep(now_ms);
        if let Err(error) = (self.tidy)(&self.replay) {
            tracing::warn!(%error, "the list of used envelopes cannot be written anew; it grows");
        }
        let all = self.sessions.load_full();
        for session in all.values().filter_map(Caller::signed) {
            if session.expires_ms <= now_ms
                && session.status() == SignedStatus::Active
                && let Err(error) = self.finish(session, SignedStatus::Expired, "", "", now_ms).await
            {
                tracing::error!(error, execution = session.execution, "an expired session could not be recorded");
            }
        }
        let over = |caller: &Caller| {
            caller.signed().is_none_or(|session| {
                session.status() != SignedStatus::Active && session.expires_ms.saturating_add(FORGET_MS) < now_ms
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

    /// Ends a session: in memory at once, then on record, then on disk. `false`: it had ended before.
    async fn finish(
        &self,
        session: &SignedSession,
        status: SignedStatus,
        who: &str,
        reason: &str,
        now_ms: u64,
    ) -> Result<bool, String> {
        if !session.end(status) {
            return Ok(false);
        }
        let change = audit::Change {
            action: if status == SignedStatus::Expired { "seal.session_expired" } else { "seal.session_revoked" },
            caller: who,
            reason,
            door: "seal",
            ..view::about(session)
        };
        let recorded = self.ledger.change(&change).map(drop).map_err(|error| error.to_string());
        let kept = self.state.end_signed(&session.id, status, reason, now_ms).await.map(drop).map_err(|error| error.to_string());
        if kept.is_ok() {
            // It can never come back, so neither can its calls.
            self.replay.forget(&session.id);
        }
        recorded.and(kept).map(|()| true)
    }
}
