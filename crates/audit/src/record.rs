//! What one line of the ledger says: [`Change`] and [`Draft`] on the way in, [`Record`] on the way out.
//!
//! What goes in borrows everything and copies nothing. It must never carry a secret or an argument body: those are digests.
//! Drafts of intents and outcomes are made in `evidence` only, so that the two always pair.

use serde::{Deserialize, Serialize};
use vocab::{Effect, Stage};

/// `violation` of an outcome whose tool answered that it failed (`isError`).
pub const TOOL_ERROR: &str = "tool_error";
/// `violation` of an outcome whose server answered with a JSON-RPC error.
pub const UPSTREAM_ERROR: &str = "upstream_error";

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// A call is about to have its effect.
    Intent,
    /// How a call with an intent ended, or how one without was answered.
    Outcome,
    /// A call was refused before Intend: no effect was possible.
    Refusal,
    /// Something security-relevant changed: a server, a credential, the configuration, a session, the ledger.
    #[default]
    Change,
}

impl Kind {
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Intent => "intent",
            Kind::Outcome => "outcome",
            Kind::Refusal => "refusal",
            Kind::Change => "change",
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Permitted,
    /// Not executed.
    Refused,
    /// Permitted, but something broke, or what came back may not be shown.
    Failed,
    /// Permitted and cancelled by the caller.
    Cancelled,
    /// The gate died between intent and outcome, or the worker in the middle of the call: the effect may or may not have happened.
    Indeterminate,
    /// The gate forgot to conclude: a bug in the gate.
    Abandoned,
}

impl Verdict {
    pub fn as_str(self) -> &'static str {
        match self {
            Verdict::Permitted => "permitted",
            Verdict::Refused => "refused",
            Verdict::Failed => "failed",
            Verdict::Cancelled => "cancelled",
            Verdict::Indeterminate => "indeterminate",
            Verdict::Abandoned => "abandoned",
        }
    }
}

/// Something security-relevant that changed outside a call. Empty text and `None` are left out of the line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Change<'a> {
    /// Its name: `server.state`, `credential.created`, `config.reloaded`, `session.reset`, …
    pub action: &'a str,
    pub door: &'a str,
    /// The credential id of who did it, or whom it concerns.
    pub caller: &'a str,
    pub session: &'a str,
    pub server: &'a str,
    pub tool: &'a str,
    /// The person behind `caller`, and the agent.
    pub user: &'a str,
    pub agent: &'a str,
    pub tenant: &'a str,
    /// The execution it concerns, and its security context.
    pub execution: &'a str,
    pub context: &'a str,
    /// What was changed, where it is no server, tool or session: a pinned name, a credential, a file.
    pub target: &'a str,
    /// The call it concerns, for an approval.
    pub call: &'a str,
    pub approval: &'a str,
    /// Digest of the definition that was pinned or approved.
    pub definition: &'a str,
    /// Why the person did it, in their words.
    pub reason: &'a str,
    pub violation: &'a str,
    /// For the operator.
    pub detail: &'a str,
    pub label: &'a str,
    pub label_after: &'a str,
    pub bundle: &'a str,
    /// How many events this stands for, where it stands for many.
    pub count: Option<u64>,
}

impl<'a> Change<'a> {
    pub(crate) fn draft(&self) -> Draft<'a> {
        Draft {
            kind: Kind::Change,
            action: self.action,
            door: self.door,
            caller: self.caller,
            session: self.session,
            server: self.server,
            tool: self.tool,
            user: self.user,
            agent: self.agent,
            tenant: self.tenant,
            execution: self.execution,
            context: self.context,
            target: self.target,
            call: self.call,
            approval: self.approval,
            definition: self.definition,
            reason: self.reason,
            violation: self.violation,
            detail: self.detail,
            label: self.label,
            label_after: self.label_after,
            bundle: self.bundle,
            count: self.count,
            ..Draft::default()
        }
    }
}

/// A record to be. Empty text and `None` are left out of the line.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Draft<'a> {
    pub(crate) kind: Kind,
    /// The call this record belongs to.
    pub(crate) call: &'a str,
    /// The `seq` of the intent that this outcome ends.
    pub(crate) intent: Option<u64>,
    /// Where it came in: `mcp-http`, `mcp-stdio`, …
    pub(crate) door: &'a str,
    /// `tools/call`, `resources/read`, …; for a change, its name: `server.state`, `credential.created`, …
    pub(crate) action: &'a str,
    /// The credential id.
    pub(crate) caller: &'a str,
    pub(crate) session: &'a str,
    pub(crate) server: &'a str,
    pub(crate) tool: &'a str,
    pub(crate) user: &'a str,
    pub(crate) agent: &'a str,
    pub(crate) tenant: &'a str,
    /// The execution a signed call belongs to, its security context, and the client's signature.
    pub(crate) execution: &'a str,
    pub(crate) context: &'a str,
    pub(crate) signature: &'a str,
    /// What a change changed, where it is none of the above.
    pub(crate) target: &'a str,
    pub(crate) effect: Option<Effect>,
    /// Digest of the pinned definition.
    pub(crate) definition: &'a str,
    /// The stage that decided.
    pub(crate) stage: Option<Stage>,
    pub(crate) verdict: Option<Verdict>,
    /// The stable code of the violation or fault.
    pub(crate) violation: &'a str,
    /// What the rule looked at, as a JSON object.
    pub(crate) payload: &'a str,
    /// For the operator only; never shown to the caller.
    pub(crate) detail: &'a str,
    pub(crate) label: &'a str,
    pub(crate) label_after: &'a str,
    pub(crate) origins: &'a str,
    /// The call at the head of the session's lineage.
    pub(crate) after: &'a str,
    pub(crate) approval: &'a str,
    /// Why a person did it.
    pub(crate) reason: &'a str,
    /// BLAKE3 of the canonical arguments, in hex.
    pub(crate) args: &'a str,
    pub(crate) args_bytes: Option<u64>,
    /// Digest of the kept, sealed arguments.
    pub(crate) body: &'a str,
    /// BLAKE3 of the result as delivered, in hex.
    pub(crate) result: &'a str,
    pub(crate) result_bytes: Option<u64>,
    /// From opened to concluded, in microseconds.
    pub(crate) us: Option<u64>,
    /// The policy bundle that judged.
    pub(crate) bundle: &'a str,
    pub(crate) policy: &'a str,
    /// The peaks of the hash tree over all records before this one, in hex.
    pub(crate) tree: &'a str,
    /// How many events this record stands for, where it stands for many.
    pub(crate) count: Option<u64>,
}

impl<'a> Draft<'a> {
    /// The same record with the free texts of `clean`, which is this record without its secrets. Ids we make, digests and signatures stay.
    pub(crate) fn with_texts_of<'b>(self, clean: &'b Record) -> Draft<'b>
    where
        'a: 'b,
    {
        Draft {
            action: &clean.action,
            caller: &clean.caller,
            session: &clean.session,
            server: &clean.server,
            tool: &clean.tool,
            user: &clean.user,
            agent: &clean.agent,
            tenant: &clean.tenant,
            execution: &clean.execution,
            context: &clean.context,
            target: &clean.target,
            violation: &clean.violation,
            payload: &clean.payload,
            detail: &clean.detail,
            origins: &clean.origins,
            reason: &clean.reason,
            policy: &clean.policy,
            ..self
        }
    }
}

/// One line as read back. Keys this version does not know are ignored, so an older reader can show a newer ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    pub v: u32,
    pub seq: u64,
    pub ms: u64,
    pub time: String,
    pub kind: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub call: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub intent: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub door: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub action: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub caller: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub session: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub server: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tool: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub user: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub agent: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tenant: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub execution: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub context: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub signature: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub target: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub effect: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub definition: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub stage: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub verdict: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub violation: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub payload: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub detail: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub label_after: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub origins: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub after: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub approval: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub args: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub args_bytes: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub body: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub result: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub result_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub us: Option<u64>,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub bundle: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub policy: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub tree: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub count: Option<u64>,
    pub prev: String,
    pub hash: String,
}

impl Record {
    /// Whether a call wrote this itself: its intent, its outcome or its refusal. A change may name a call and is not one.
    #[must_use]
    pub fn is_of_a_call(&self) -> bool {
        !self.call.is_empty() && matches!(self.kind.as_str(), "intent" | "outcome" | "refusal")
    }
}
