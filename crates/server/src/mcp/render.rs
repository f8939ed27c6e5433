//! How the end of a call looks on the MCP door. The only file that turns a [`Stop`] into MCP.
//!
//! An agent reads stable codes and plain sentences; causes stay in the operator's log. Results pass byte for byte except where the two
//! eras disagree about a field. What the gate says itself never breaks the output schema of a tool: a client that checks one would show
//! its own complaint instead of the reason.
//!
//! **Invariant: the gate's own words break no output schema.** Tests
//! `what_the_gate_says_itself_never_breaks_an_output_schema`,
//! `every_reason_is_readable_though_the_tool_declares_an_output_schema`.

use bytes::Bytes;
use gateway::{Action, Era, Outcome};
use vocab::{ErrorCode, Fault, FaultKind, Rule, Stop, Violation};
use wire::{
    Json, Text, json,
    mcp::code,
    write::{self, Object},
};

use super::answer::{Answer, Problem};

pub(crate) use gateway::REFUSED;
use gateway::{ERROR_META, TIMED_OUT, UPSTREAM_FAILED};

const COMPLETE: &str = "\"resultType\":\"complete\"";
/// A client may keep what a server let it keep, but not longer than this.
const LONGEST_TTL_MS: u64 = 3_600_000;

/// What of a request decides how its end is written.
#[derive(Debug, Clone)]
pub(crate) struct Shape {
    pub(crate) era: Era,
    pub(crate) action: Action,
    pub(crate) params: Bytes,
}

impl Shape {
    /// `is_untyped` says whether the client was shown a tool of this name that declares no output schema. It is asked only about calls
    /// that were stopped.
    pub(crate) fn answer(&self, outcome: Outcome, is_untyped: impl FnOnce(&str) -> bool) -> Answer {
        match outcome {
            Outcome::Result(text) => self.result(text),
            Outcome::Rpc(object) => self.upstream_error(object).into(),
            Outcome::Stopped(Stop::Refused(violation)) => self.refused(&violation, is_untyped),
            Outcome::Stopped(Stop::Failed(fault)) => self.failed(&fault, is_untyped),
        }
    }

    fn result(&self, text: Text) -> Answer {
        let typed = json::find(&text.fields(), "resultType").is_some();
        let body = text.into_bytes();
        match (self.era, self.action) {
            // Legacy clients do not know it.
            (Era::Legacy, _) if typed => Answer::result(write::replace_fields(
                Json::checked_before(&body),
                &["resultType"],
                |_| {},
            )),
            (Era::Modern, Action::ReadResource) => Answer::result(with_cache_hints(body)),
            (Era::Modern, _) if !typed => Answer::Result {
                fields: COMPLETE,
                body,
            },
            _ => Answer::result(body),
        }
    }

    /// What the upstream said, unless it says it in words this client's era does not have.
    fn upstream_error(&self, object: Bytes) -> Problem {
        let error = Json::checked_before(&object);
        let given = error
            .get("code")
            .and_then(Json::as_i64)
            .unwrap_or(code::INTERNAL_ERROR);
        match (self.era, given) {
            (Era::Modern, code::RESOURCE_NOT_FOUND) => {
                let object = write::replace_fields(error, &["code"], |out| {
                    out.i64("code", code::INVALID_PARAMS);
                });
                Problem {
                    code: code::INVALID_PARAMS,
                    object: object.into(),
                }
            }
            _ => Problem {
                code: given,
                object,
            },
        }
    }

    fn refused(&self, violation: &Violation, is_untyped: impl FnOnce(&str) -> bool) -> Answer {
        let public = violation.public();
        let code = match violation.rule {
            Rule::Unauthenticated => return Answer::Unauthenticated,
            Rule::Malformed => code::INVALID_PARAMS,
            Rule::ToolNotFound => return self.not_found(violation).into(),
            _ if self.action == Action::CallTool => {
                return self.tool_error(
                    &public,
                    violation.rule.error_code(),
                    Some(violation.rule),
                    is_untyped,
                );
            }
            Rule::InvalidParameters => code::INVALID_PARAMS,
            Rule::InvalidResult | Rule::ResultDropped | Rule::ResultTooLarge => UPSTREAM_FAILED,
            _ => REFUSED,
        };
        let envelope = self.envelope(&public, violation.rule.error_code(), Some(violation.rule));
        Problem::with_data(code, &public, &envelope).into()
    }

    fn not_found(&self, violation: &Violation) -> Problem {
        let params = Json::checked_before(&self.params);
        let field = |key: &str| {
            params
                .get(key)
                .and_then(Json::as_str)
                .unwrap_or_default()
                .into_owned()
        };
        let (code, message) = match (self.action, self.era) {
            (Action::CallTool, _) => (
                code::INVALID_PARAMS,
                format!("Unknown tool: {}", field("name")),
            ),
            (Action::GetPrompt, _) => (
                code::INVALID_PARAMS,
                format!("Unknown prompt: {}", field("name")),
            ),
            (Action::ReadResource | Action::Subscribe | Action::Unsubscribe, Era::Legacy) => (
                code::RESOURCE_NOT_FOUND,
                format!("Resource not found: {}", field("uri")),
            ),
            (Action::ReadResource | Action::Subscribe | Action::Unsubscribe, Era::Modern) => (
                code::INVALID_PARAMS,
                format!("Resource not found: {}", field("uri")),
            ),
            (Action::TaskGet | Action::TaskUpdate | Action::TaskCancel | Action::TaskResult, _) => {
                (
                    code::INVALID_PARAMS,
                    format!("Unknown task: {}", field("taskId")),
                )
            }
            (Action::Complete, _) => (
                code::INVALID_PARAMS,
                "Nothing to complete under this reference".to_owned(),
            ),
        };
        Problem::with_data(
            code,
            &message,
            &self.envelope(&message, violation.rule.error_code(), Some(violation.rule)),
        )
    }

    fn failed(&self, fault: &Fault, is_untyped: impl FnOnce(&str) -> bool) -> Answer {
        if self.action == Action::CallTool {
            return self.tool_error(fault.public(), fault.error_code(), None, is_untyped);
        }
        let code = match fault.kind {
            FaultKind::Timeout | FaultKind::DispatchTimeout => TIMED_OUT,
            FaultKind::Upstream | FaultKind::Worker => UPSTREAM_FAILED,
            FaultKind::Cancelled => REFUSED,
            FaultKind::Gate => code::INTERNAL_ERROR,
        };
        Problem::with_data(
            code,
            fault.public(),
            &self.envelope(fault.public(), fault.error_code(), None),
        )
        .into()
    }

    /// A tool's failure is a result the model reads, not a protocol error. Programs find the envelope in `_meta`, and in the structured
    /// content too where no schema says what that must be.
    fn tool_error(
        &self,
        public: &str,
        code: ErrorCode,
        rule: Option<Rule>,
        is_untyped: impl FnOnce(&str) -> bool,
    ) -> Answer {
        let mut text = Object::new();
        text.str("type", "text").str("text", public);
        let mut content = vec![b'['];
        content.extend_from_slice(&text.finish());
        content.push(b']');
        let envelope = self.envelope(public, code, rule);
        let mut result = Object::new();
        result.raw("content", &content).bool("isError", true);
        let tool = Json::checked_before(&self.params)
            .get("name")
            .and_then(Json::as_str);
        if tool.is_some_and(|tool| is_untyped(&tool)) {
            result.raw("structuredContent", &envelope);
        }
        result.object("_meta", |meta| {
            meta.raw(ERROR_META, &envelope);
        });
        self.result(result.finish().into())
    }

    fn envelope(&self, public: &str, code: ErrorCode, rule: Option<Rule>) -> Vec<u8> {
        let mut envelope = Object::new();
        envelope
            .str("status", "error")
            .str("error_code", code.as_str())
            .str("error", public);
        if let Some(rule) = rule {
            envelope.str("violation", rule.code());
        }
        let uri = Json::checked_before(&self.params).get("uri");
        if let (Action::ReadResource, Some(uri)) = (self.action, uri) {
            envelope.json("uri", uri);
        }
        envelope.finish()
    }
}

/// What one caller may read is private to that caller, whatever the server says.
fn with_cache_hints(body: Bytes) -> Bytes {
    let result = Json::checked_before(&body);
    let ttl = result
        .get("ttlMs")
        .and_then(Json::as_u64)
        .unwrap_or(0)
        .min(LONGEST_TTL_MS);
    let kind = result.get("resultType");
    if kind
        .and_then(Json::as_str)
        .is_some_and(|kind| kind != "complete")
    {
        return body;
    }
    write::replace_fields(result, &["resultType", "ttlMs", "cacheScope"], |out| {
        out.str("resultType", "complete")
            .u64("ttlMs", ttl)
            .str("cacheScope", "private");
    })
    .into()
}

#[cfg(test)]
mod tests;
