//! Beginning a session: somebody proves who they are, names a security context, and gives the public half of the key that will sign.
//!
//! Two proofs count: a bearer credential, and the secret of a workload that an operator let be launched. A session never gets more
//! than its proof stands for: not another tenant, not another agent's name, not an execution that is somebody else's.
//!
//! **Invariant: attesting washes nothing off**, and gives nothing that the proof does not stand for. Tests
//! `attesting_again_washes_nothing_off`, `only_the_diagonal_of_principals_sessions_and_tenants_passes`.

use std::sync::{Arc, atomic::Ordering};

use audit::rfc3339;
use identity::{Claims, PublicKey};
use policy::Contexts;
use sha2::{Digest as _, Sha256};
use state::{SavedSigned, SignedStatus, Workload};
use subtle::ConstantTimeEq as _;
use vocab::Redacted;

use super::{
    ATTESTATIONS, End, MAX_SESSIONS, REPLACED, Signed, SignedSession,
    asked::{
        agent_fits, checked_id, context_exists, context_for, patterns, public_key, tenant,
        wrong_tenant,
    },
    view,
};
use crate::{
    Caller, ForGate,
    caller::{Callers, CredentialSet},
    settings::{Seal, SealTerms},
};

/// A workload's name and its secret, as it shows them: `wl-…` and the secret behind a dot.
const WORKLOAD: &str = "wl-";
/// A longer summary is left out of the token, as it always was.
const MAX_SUMMARY: usize = 256;

/// What somebody proves themselves with.
#[derive(Debug, Clone, Copy)]
pub enum Evidence<'a> {
    Bearer(&'a Caller),
    /// The workload id carries the secret.
    Workload,
}

#[derive(Debug, Default)]
pub struct AttestRequest {
    pub public_key: String,
    /// Of a launched workload, with its secret; of anybody else, any name.
    pub workload_id: Option<Redacted<String>>,
    /// `None`: the proof's own, or the one that the agent is for.
    pub security_context: Option<String>,
    pub agent_id: Option<String>,
    pub execution_id: Option<String>,
    pub tenant_id: Option<String>,
    pub task_summary: Option<String>,
}

/// A session that an operator begins for somebody.
#[derive(Debug, Clone, Default)]
pub struct SessionRequest {
    pub execution_id: String,
    pub sub: String,
    /// `None`: the one that the agent is for.
    pub security_context_name: Option<String>,
    pub public_key_b64: String,
    /// `None`: whatever the context allows.
    pub allowed_tool_patterns: Option<Vec<String>>,
    pub tenant_id: Option<String>,
}

/// A workload that an operator lets be launched.
#[derive(Debug, Clone, Default)]
pub struct NewWorkload {
    /// `None`: the one that the agent is for.
    pub security_context: Option<String>,
    pub agent_id: Option<String>,
    pub tenant_id: Option<String>,
    pub uses: u32,
    pub ttl_ms: u64,
}

/// A session that has begun. The token is shown once, here.
#[derive(Debug)]
pub struct Attested {
    pub token: Redacted<String>,
    pub session_id: String,
    pub execution_id: String,
    pub context: String,
    pub expires_at: String,
}

/// A workload that may be launched. The id is its proof, and is shown once, here.
#[derive(Debug)]
pub struct Launchable {
    pub id: Redacted<String>,
    pub context: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttestError {
    Malformed(String),
    /// Who they are was not proven.
    Unproven(String),
    /// There is no such context, for them.
    NoContext(String),
    Forbidden(String),
    TooMany(String),
    Unavailable(String),
}

impl std::fmt::Display for AttestError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Malformed(text)
            | Self::Unproven(text)
            | Self::NoContext(text)
            | Self::Forbidden(text)
            | Self::TooMany(text)
            | Self::Unavailable(text) => f.write_str(text),
        }
    }
}

/// Whether the label of this owner is kept for somebody without a bearer credential.
pub(super) fn is_guest(owner: &str) -> bool {
    ["workload:", "agent:", "claimed:"]
        .iter()
        .any(|kind| owner.starts_with(kind))
}

/// Who will call, as far as their proof says.
struct Party {
    owner: Caller,
    attested_by: String,
    agent: Option<String>,
    /// Whether more than its own word says which agent it is.
    is_vouched: bool,
    tenant: Option<String>,
    workload: String,
    /// `None`: whichever the agent is for.
    context: Option<String>,
}

/// What a session of signed calls begins under: parts of one configuration.
#[derive(Debug, Clone, Copy)]
pub struct Under<'a> {
    pub contexts: &'a Contexts,
    pub seal: &'a Seal,
    pub credentials: &'a CredentialSet,
}

impl Signed {
    pub async fn attest(
        &self,
        callers: &Callers,
        under: Under<'_>,
        evidence: Evidence<'_>,
        request: AttestRequest,
        now_ms: u64,
    ) -> Result<Attested, AttestError> {
        let contexts = under.contexts;
        let key = public_key(&request.public_key)?;
        let party = match evidence {
            Evidence::Bearer(caller) => bearer(caller, &request)?,
            Evidence::Workload => self.workload(callers, &request, now_ms).await?,
        };
        let is_vouched = party.is_vouched;
        let agent = match (party.agent, request.agent_id) {
            (Some(own), Some(given)) if own != given => {
                return Err(AttestError::Forbidden(format!(
                    "the proof is agent `{own}`'s, not `{given}`'s"
                )));
            }
            (Some(own), _) => own,
            (None, Some(given))
                if callers
                    .all(under.credentials)
                    .iter()
                    .any(|other| other.agent() == Some(&given)) =>
            {
                return Err(AttestError::Forbidden(format!(
                    "`{given}` is the agent of another credential"
                )));
            }
            (None, given) => self.id_or_new(given, "agent_id")?,
        };
        let begin = Begin {
            vouched: if is_vouched {
                agent.clone()
            } else {
                String::new()
            },
            execution: self.id_or_new(request.execution_id, "execution_id")?,
            context: context_for(
                contexts,
                party.context,
                Some(&agent),
                party.tenant.as_deref(),
            )?,
            agent,
            tenant: party.tenant,
            workload: party.workload,
            attested_by: party.attested_by,
            patterns: vec!["*".to_owned()],
            summary: request
                .task_summary
                .filter(|text| text.len() <= MAX_SUMMARY),
        };
        self.begin(under, party.owner, key, begin, now_ms).await
    }

    /// The session of somebody who needs no proof, because an operator vouches for them.
    pub async fn open(
        &self,
        callers: &Callers,
        under: Under<'_>,
        operator: &Caller,
        request: SessionRequest,
        now_ms: u64,
    ) -> Result<Attested, AttestError> {
        let contexts = under.contexts;
        let key = public_key(&request.public_key_b64)?;
        let tenant = tenant(operator.tenant(), request.tenant_id, true)?;
        let agent = checked_id(request.sub, "sub")?;
        // An operator of one tenant can open sessions for its agents, but says nothing about agents that others' contexts name.
        let is_vouched = operator.tenant().is_none();
        let kind = if is_vouched { "agent" } else { "claimed" };
        let owner = format!("{kind}:{}/{agent}", tenant.as_deref().unwrap_or_default());
        let begin = Begin {
            vouched: if is_vouched {
                agent.clone()
            } else {
                String::new()
            },
            execution: checked_id(request.execution_id, "execution_id")?,
            context: context_for(
                contexts,
                request.security_context_name,
                Some(&agent),
                tenant.as_deref(),
            )?,
            workload: "session".to_owned(),
            attested_by: operator.id().to_owned(),
            patterns: patterns(request.allowed_tool_patterns)?,
            summary: None,
            tenant,
            agent,
        };
        let owner = callers.guest(
            &owner,
            &begin.agent,
            begin.tenant.as_deref(),
            is_vouched.then_some(&*begin.agent),
        );
        self.begin(under, owner, key, begin, now_ms).await
    }

    /// Lets something be launched that will prove itself by this secret. It is shown once, here.
    pub async fn add_workload(
        &self,
        contexts: &Contexts,
        operator: &Caller,
        new: NewWorkload,
        now_ms: u64,
    ) -> Result<Launchable, AttestError> {
        let tenant = tenant(operator.tenant(), new.tenant_id, true)?;
        let context = context_for(
            contexts,
            new.security_context,
            new.agent_id.as_deref(),
            tenant.as_deref(),
        )?;
        context_exists(contexts, &context, tenant.as_deref())?;
        if new.agent_id.is_some() && operator.tenant().is_some() {
            return Err(AttestError::Forbidden(
                "an operator of one tenant cannot say which agent a workload is".to_owned(),
            ));
        }
        let (id, secret) = (self.hex(8)?, self.hex(32)?);
        let workload = Workload {
            id: id.clone(),
            digest: Sha256::digest(secret.as_bytes()).into(),
            context,
            agent: new
                .agent_id
                .map(|id| checked_id(id, "agent_id"))
                .transpose()?
                .unwrap_or_default(),
            tenant: tenant.unwrap_or_default(),
            made_by: operator.id().to_owned(),
            created_ms: now_ms,
            expires_ms: now_ms.saturating_add(new.ttl_ms),
            uses_left: new.uses.max(1),
        };
        let change = audit::Change {
            action: "seal.workload_added",
            door: "seal",
            caller: operator.id(),
            target: &workload.id,
            context: &workload.context,
            agent: &workload.agent,
            tenant: &workload.tenant,
            ..audit::Change::default()
        };
        self.ledger.change(&change).map_err(unavailable)?;
        self.state
            .add_workload(&workload)
            .await
            .map_err(unavailable)?;
        self.launched.add(&workload);
        Ok(Launchable {
            id: Redacted::new(format!("{WORKLOAD}{id}.{secret}")),
            context: workload.context,
        })
    }

    /// Who a workload's secret stands for.
    async fn workload(
        &self,
        callers: &Callers,
        request: &AttestRequest,
        now_ms: u64,
    ) -> Result<Party, AttestError> {
        let unproven = || {
            AttestError::Unproven(
                "the workload is not known here, or its proof was used before".to_owned(),
            )
        };
        let given = request
            .workload_id
            .as_ref()
            .map(Redacted::expose)
            .ok_or_else(no_proof)?;
        let (id, secret) = given
            .strip_prefix(WORKLOAD)
            .and_then(|rest| rest.split_once('.'))
            .ok_or_else(no_proof)?;
        let digest: [u8; 32] = Sha256::digest(secret.as_bytes()).into();
        if !self.launched.proves(id, &digest, now_ms) {
            // Only what proves nothing is counted, so nobody can use up what a launched workload needs.
            let too_many =
                |_| AttestError::TooMany("too many attestations without a credential".to_owned());
            self.tries.take().map_err(too_many)?;
            return Err(unproven());
        }
        let proves = |known: &Workload| bool::from(known.digest.ct_eq(&digest));
        let known = self
            .state
            .use_workload(id, now_ms, proves)
            .await
            .map_err(unavailable)?
            .ok_or_else(unproven)?;
        if request
            .security_context
            .as_ref()
            .is_some_and(|asked| *asked != known.context)
        {
            return Err(AttestError::NoContext(format!(
                "this workload was launched for context `{}`",
                known.context
            )));
        }
        let some = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
        let tenant = match (some(&known.tenant), &request.tenant_id) {
            (own, Some(given)) if own.as_ref() != Some(given) => return Err(wrong_tenant(given)),
            (own, _) => own,
        };
        let owner = format!("workload:{id}");
        Ok(Party {
            owner: callers.guest(
                &owner,
                &owner,
                tenant.as_deref(),
                some(&known.agent).as_deref(),
            ),
            attested_by: owner,
            agent: some(&known.agent),
            is_vouched: !known.agent.is_empty(),
            tenant,
            workload: id.to_owned(),
            context: Some(known.context),
        })
    }

    async fn begin(
        &self,
        Under { contexts, seal, .. }: Under<'_>,
        owner: Caller,
        key: PublicKey,
        begin: Begin,
        now_ms: u64,
    ) -> Result<Attested, AttestError> {
        context_exists(contexts, &begin.context, begin.tenant.as_deref())?;
        agent_fits(contexts, &begin)?;
        let rate = owner.meters().rate("attestations".to_owned(), ATTESTATIONS);
        rate.take()
            .map_err(|_| AttestError::TooMany("too many attestations; wait a minute".to_owned()))?;
        let _turn = self.turn.lock().await;
        let terms = &seal.terms;
        let before = self.room_for(&owner, &begin, terms.max_sessions_per_workload, now_ms)?;
        let expires_ms =
            now_ms.saturating_add(u64::try_from(terms.ttl.as_millis()).unwrap_or(u64::MAX));
        let saved = SavedSigned {
            id: self.uuid()?,
            execution: begin.execution,
            agent: begin.agent,
            context: begin.context,
            workload: begin.workload,
            tenant: begin.tenant.unwrap_or_default(),
            owner: owner.id().to_owned(),
            attested_by: begin.attested_by,
            vouched: begin.vouched,
            public_key: *key.as_bytes(),
            patterns: begin.patterns,
            created_ms: now_ms,
            expires_ms,
            status: SignedStatus::Active,
            ended_ms: 0,
            reason: String::new(),
        };
        let token = seal
            .keys
            .issue(&claims(terms, &saved, begin.summary), now_ms)
            .map_err(unavailable)?;
        let meters = self.meters_of(&saved.execution, before.as_ref()).await?;
        if let Some(before) = before.as_ref().and_then(Caller::signed) {
            before.is_replaced.store(true, Ordering::Release);
            before.end(SignedStatus::Revoked, now_ms);
            let end = End {
                status: SignedStatus::Revoked,
                who: owner.id(),
                reason: REPLACED,
            };
            self.keep_end(before, end).await.map_err(unavailable)?;
        }
        let session = Arc::new(SignedSession::new(saved.clone(), key, meters));
        let about = audit::Change {
            door: "seal",
            caller: owner.id(),
            ..view::about(&session)
        };
        for action in ["seal.attested", "seal.session_created"] {
            self.ledger
                .change(&audit::Change { action, ..about })
                .map_err(unavailable)?;
        }
        self.state.begin_signed(&saved).await.map_err(unavailable)?;
        self.enter(owner.sign(session));
        Ok(Attested {
            token: Redacted::new(token),
            session_id: saved.id,
            execution_id: saved.execution,
            context: saved.context,
            expires_at: rfc3339(expires_ms),
        })
    }

    /// Whether there is room for one more, and the session that it takes the place of. An execution that is somebody else's is not
    /// theirs to take.
    fn room_for(
        &self,
        owner: &Caller,
        begin: &Begin,
        most: usize,
        now_ms: u64,
    ) -> Result<Option<Caller>, AttestError> {
        let all = self.sessions.load();
        let active = || {
            all.values().filter(|caller| {
                caller
                    .signed()
                    .is_some_and(|session| session.status_at(now_ms) == SignedStatus::Active)
            })
        };
        let same = self.latest(&begin.execution);
        if let Some(other) = &same {
            if other.id() != owner.id() {
                return Err(AttestError::Forbidden(format!(
                    "execution `{}` belongs to somebody else",
                    begin.execution
                )));
            }
            let session = other.signed();
            if session.is_some_and(|session| {
                session.status() == SignedStatus::Revoked
                    && !session.is_replaced.load(Ordering::Acquire)
            }) {
                return Err(AttestError::Forbidden(format!(
                    "execution `{}` was revoked; begin another",
                    begin.execution
                )));
            }
            if session.is_some_and(|session| session.status_at(now_ms) == SignedStatus::Active) {
                return Ok(same);
            }
        }
        // A launched workload is an owner of its own. What a credential calls its workloads is its own word, and counts for nothing.
        let of_owner = active().filter(|caller| caller.id() == owner.id()).count();
        if of_owner >= most {
            let whose = if is_guest(owner.id()) {
                "workload"
            } else {
                "credential"
            };
            return Err(AttestError::TooMany(format!(
                "this {whose} has {of_owner} sessions already"
            )));
        }
        if active().count() >= MAX_SESSIONS {
            return Err(AttestError::TooMany(format!(
                "{MAX_SESSIONS} sessions are in force"
            )));
        }
        Ok(same)
    }

    fn id_or_new(&self, given: Option<String>, field: &str) -> Result<String, AttestError> {
        given.map_or_else(|| self.uuid(), |id| checked_id(id, field))
    }

    fn random<const N: usize>(&self) -> Result<[u8; N], AttestError> {
        let mut bytes = [0; N];
        (self.random)(&mut bytes).map_err(unavailable)?;
        Ok(bytes)
    }

    fn hex(&self, bytes: usize) -> Result<String, AttestError> {
        let random = self.random::<32>()?;
        Ok(random
            .iter()
            .take(bytes)
            .map(|byte| format!("{byte:02x}"))
            .collect())
    }

    /// A random UUID (version 4).
    fn uuid(&self) -> Result<String, AttestError> {
        let number = u128::from_be_bytes(self.random()?);
        let number = (number & !(0xf << 76) & !(0x3 << 62)) | (0x4 << 76) | (0x2 << 62);
        let hex = format!("{number:032x}");
        let parts =
            [0..8, 8..12, 12..16, 16..20, 20..32].map(|range| hex.get(range).unwrap_or_default());
        Ok(parts.join("-"))
    }
}

/// A session about to begin.
pub(super) struct Begin {
    pub(super) agent: String,
    /// Empty where only the agent itself says which one it is.
    vouched: String,
    execution: String,
    pub(super) context: String,
    pub(super) tenant: Option<String>,
    workload: String,
    attested_by: String,
    patterns: Vec<String>,
    summary: Option<String>,
}

fn claims(terms: &SealTerms, saved: &SavedSigned, task_summary: Option<String>) -> Claims {
    Claims {
        iss: terms.issuer.clone(),
        aud: terms.audiences.clone(),
        sub: saved.agent.clone(),
        scp: saved.context.clone(),
        wid: saved.workload.clone(),
        jti: saved.id.clone(),
        exec_id: saved.execution.clone(),
        tenant_id: Some(saved.tenant.clone()).filter(|tenant| !tenant.is_empty()),
        task_summary,
        iat: saved.created_ms / 1000,
        nbf: None,
        exp: saved.expires_ms / 1000,
    }
}

/// Who a bearer credential stands for.
fn bearer(caller: &Caller, request: &AttestRequest) -> Result<Party, AttestError> {
    let context = match (caller.context(), &request.security_context) {
        (Some(own), Some(asked)) if own != asked => {
            return Err(AttestError::NoContext(format!(
                "this credential is bound to context `{own}`"
            )));
        }
        (Some(own), _) => Some(own.to_owned()),
        (None, asked) => asked.clone(),
    };
    let tenant = tenant(
        caller.tenant(),
        request.tenant_id.clone(),
        caller.is_operator(),
    )?;
    let workload = match &request.workload_id {
        None => caller.id().to_owned(),
        Some(given) => {
            // A secret that was sent along by mistake must not end up in a token.
            let name = given.expose().split('.').next().unwrap_or_default();
            checked_id(name.to_owned(), "workload_id")?
        }
    };
    let agent = caller.agent().map(str::to_owned);
    let is_vouched = agent.is_some();
    Ok(Party {
        owner: caller.clone(),
        attested_by: caller.id().to_owned(),
        agent,
        is_vouched,
        tenant,
        workload,
        context,
    })
}

fn no_proof() -> AttestError {
    AttestError::Unproven(
        "show a bearer credential, or the id of a workload that was launched here".to_owned(),
    )
}

fn unavailable(error: impl std::fmt::Display) -> AttestError {
    AttestError::Unavailable(error.to_string())
}
