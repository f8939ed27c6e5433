//! A call's life in the ledger, as types: [`Opened`] → [`Intent`] → [`Concluded`].
//!
//! The constructors are private and nothing here is `Clone`, so holding an `Intent` *is* the proof that the intent is on
//! disk, and holding a `Concluded` that the outcome is. An `Opened` must be concluded; dropping it writes an `abandoned`
//! outcome, because a call that vanishes from the ledger is a bug worth a record.
//!
//! **Invariant: what clients were told, what we recorded and what servers did agree.** Tests
//! `three_ledgers_agree_over_random_kills`, `a_full_disk_stops_effects_and_nothing_else`.

use crate::error::LedgerUnavailable;
use crate::ledger::{Ledger, Position};
use crate::record::{Draft, Kind, Verdict};
use std::borrow::Cow;
use vocab::{Effect, Stage};

type Text = Cow<'static, str>;

/// What is known about a call so far. Stages fill it in as they learn; each record holds what was known by then.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    pub call: Text,
    pub door: Text,
    pub action: Text,
    pub caller: Text,
    pub session: Text,
    pub server: Text,
    pub tool: Text,
    /// The name that the caller used, where it is not the one that server and tool make.
    pub target: Text,
    /// Who the credential belongs to, and the agent it was made for.
    pub user: Text,
    pub agent: Text,
    pub tenant: Text,
    /// The execution a signed call belongs to, its security context, and the client's signature.
    pub execution: Text,
    pub context: Text,
    pub signature: Text,
    /// What the operator says the tool does to the world.
    pub effect: Option<Effect>,
    /// Digest of the pinned definition that the call was weighed against.
    pub definition: Text,
    pub bundle: Text,
    /// The policies that decided, by id, with a space between.
    pub policy: Text,
    /// The approval that let it through, or that it waits for.
    pub approval: Text,
    /// The session's label when the call was weighed.
    pub label: Text,
    /// Where the session's data came from by then.
    pub origins: Text,
    /// The call whose result the session had taken in last: the head of its lineage.
    pub after: Text,
    /// BLAKE3 of the canonical arguments, in hex.
    pub args: Text,
    pub args_bytes: Option<u64>,
    /// Digest of the kept, sealed arguments; [`Opened::keep_body`] fills it in.
    pub body: Text,
}

impl Facts {
    fn draft(&self) -> Draft<'_> {
        Draft {
            call: &self.call,
            door: &self.door,
            action: &self.action,
            caller: &self.caller,
            session: &self.session,
            server: &self.server,
            tool: &self.tool,
            target: &self.target,
            user: &self.user,
            agent: &self.agent,
            tenant: &self.tenant,
            execution: &self.execution,
            context: &self.context,
            signature: &self.signature,
            effect: self.effect,
            definition: &self.definition,
            bundle: &self.bundle,
            policy: &self.policy,
            approval: &self.approval,
            label: &self.label,
            origins: &self.origins,
            after: &self.after,
            args: &self.args,
            args_bytes: self.args_bytes,
            body: &self.body,
            ..Draft::default()
        }
    }
}

/// How a call ended.
#[derive(Clone, Copy, Debug)]
pub struct Outcome<'a> {
    pub verdict: Verdict,
    /// The stage that decided.
    pub stage: Stage,
    /// Stable code, for a refusal or a failure.
    pub violation: &'a str,
    /// What the rule looked at, as a JSON object.
    pub payload: &'a str,
    /// For the operator: which check, which policy, what broke.
    pub detail: &'a str,
    /// The session's label afterwards.
    pub label_after: &'a str,
    /// BLAKE3 of the result as delivered, in hex.
    pub result: &'a str,
    pub result_bytes: Option<u64>,
}

impl<'a> Outcome<'a> {
    /// An outcome with only a verdict and a stage; fill in the rest with struct update.
    pub fn new(verdict: Verdict, stage: Stage) -> Outcome<'a> {
        Outcome {
            verdict,
            stage,
            violation: "",
            payload: "",
            detail: "",
            label_after: "",
            result: "",
            result_bytes: None,
        }
    }
}

/// A call that the ledger knows in memory only. It must be concluded.
#[derive(Debug)]
#[must_use = "an opened call must be concluded; dropping it records a bug"]
pub struct Opened {
    pub facts: Facts,
    ledger: Ledger,
    opened_us: u64,
    intent: Option<u64>,
    concluded: bool,
}

impl Opened {
    /// Whether the effect may have begun.
    pub fn has_intent(&self) -> bool {
        self.intent.is_some()
    }

    /// Keeps the call's redacted arguments, sealed and apart from the chain; the records from here on name their digest.
    pub fn keep_body(&mut self, redacted: &[u8]) -> Result<(), LedgerUnavailable> {
        self.facts.body = self
            .ledger
            .keep_body(&self.facts.call, redacted)?
            .to_string()
            .into();
        Ok(())
    }

    pub(crate) fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Ends the call without a record of its own; it is counted instead.
    pub(crate) fn forgo(&mut self) {
        self.concluded = true;
    }

    /// Microseconds since the call was opened.
    pub fn elapsed_us(&self) -> u64 {
        self.ledger.now().mono_us.saturating_sub(self.opened_us)
    }

    fn write_outcome(&mut self, outcome: &Outcome<'_>) -> Result<Position, LedgerUnavailable> {
        // Even a failed attempt is the last one: the ledger says `indeterminate` for this call when it recovers.
        self.concluded = true;
        let refused_before_effect = outcome.verdict == Verdict::Refused && self.intent.is_none();
        let now = self.ledger.now();
        let draft = Draft {
            kind: if refused_before_effect {
                Kind::Refusal
            } else {
                Kind::Outcome
            },
            intent: self.intent,
            stage: Some(outcome.stage),
            verdict: Some(outcome.verdict),
            violation: outcome.violation,
            payload: outcome.payload,
            detail: outcome.detail,
            label_after: outcome.label_after,
            result: outcome.result,
            result_bytes: outcome.result_bytes,
            us: Some(now.mono_us.saturating_sub(self.opened_us)),
            ..self.facts.draft()
        };
        self.ledger.record_at(now, &draft)
    }
}

impl Drop for Opened {
    fn drop(&mut self) {
        if self.concluded {
            return;
        }
        let mut abandoned = Outcome::new(Verdict::Abandoned, Stage::Conclude);
        abandoned.detail = "the gate dropped this call without concluding it: a bug in the gate";
        // Nobody is left to tell; a broken ledger says so on its own.
        let _ = self.write_outcome(&abandoned);
    }
}

/// Evidence that a call's intent is written. Needed, by value, to have an effect.
#[derive(Debug)]
#[must_use = "an intent is spent by the effect it allows"]
pub struct Intent {
    position: Position,
}

impl Intent {
    pub fn position(&self) -> Position {
        self.position
    }
}

/// Evidence that a call's outcome is written. Needed to reply.
#[derive(Debug)]
#[must_use = "a sealed outcome is what allows the reply"]
pub struct Concluded {
    position: Position,
}

impl Concluded {
    pub fn position(&self) -> Position {
        self.position
    }
}

impl Ledger {
    /// Begins a call. Nothing is written yet.
    pub fn open(&self, facts: Facts) -> Opened {
        Opened {
            facts,
            opened_us: self.now().mono_us,
            ledger: self.clone(),
            intent: None,
            concluded: false,
        }
    }

    /// Writes that the call is about to have its effect. No record, no action. A call intends once: its second intent
    /// would leave the first without an outcome, so it is refused.
    pub fn intend(&self, opened: &mut Opened) -> Result<Intent, LedgerUnavailable> {
        if opened.intent.is_some() {
            return Err(LedgerUnavailable {
                reason: "this call already has an intent".into(),
            });
        }
        let draft = Draft {
            kind: Kind::Intent,
            stage: Some(Stage::Intend),
            verdict: Some(Verdict::Permitted),
            ..opened.facts.draft()
        };
        let position = self.record(&draft)?;
        opened.intent = Some(position.seq);
        Ok(Intent { position })
    }

    /// [`Ledger::intend`], ready only when the intent survives a power cut: for effects that cannot be taken back. When the
    /// disk fails the call keeps its intent, has no effect, and must still be concluded.
    pub async fn intend_durable(&self, opened: &mut Opened) -> Result<Intent, LedgerUnavailable> {
        let intent = self.intend(opened)?;
        self.synced(intent.position.seq).await?;
        Ok(intent)
    }

    /// Writes how the call ended. Only then may it be answered.
    pub fn conclude(
        &self,
        mut opened: Opened,
        outcome: &Outcome<'_>,
    ) -> Result<Concluded, LedgerUnavailable> {
        let position = opened.write_outcome(outcome)?;
        Ok(Concluded { position })
    }
}
