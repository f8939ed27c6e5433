//! `sessions` and `workloads`: what operators do with sessions of signed calls.

use gateway::{Caller, NewWorkload, SessionRequest, SignedStatus};
use http::{Method, StatusCode};
use wire::{Json, Limits, write::Object};

use super::{Request, Verb, attest, render::Said};
use crate::{door::Door, query};

const MAX_BODY: usize = 64 << 10;
const MAX_DEPTH: usize = 8;
const MAX_PATTERNS: usize = 256;
const WORKLOAD_TTL_SECONDS: u64 = 3600;
const MAX_WORKLOAD_TTL_SECONDS: u64 = 30 * 24 * 3600;

pub(super) async fn answer(door: &Door, operator: &Caller, request: &Request) -> Said {
    match (&request.verb, &request.method) {
        (Verb::Sessions, &Method::POST) => match read_session(&request.body) {
            Ok(new) => match door.gate.open_signed(operator, new).await {
                Ok(attested) => attest::granted(&attested),
                Err(error) => attest::refused(&error),
            },
            Err(problem) => Said::refused(StatusCode::BAD_REQUEST, &problem),
        },
        (Verb::Workloads, _) => match read_workload(&request.body) {
            Ok(new) => match door.gate.add_workload(operator, new).await {
                Ok(new) => {
                    let mut out = Object::new();
                    out.str("status", "success")
                        .str("workload_id", new.id.expose())
                        .str("security_context", &new.context);
                    Said::new(StatusCode::OK, out.finish())
                }
                Err(error) => attest::refused(&error),
            },
            Err(problem) => Said::refused(StatusCode::BAD_REQUEST, &problem),
        },
        (Verb::Session(execution), &Method::DELETE) => revoke(door, operator, execution).await,
        (Verb::Session(execution), _) => match door.gate.signed_session_json(operator, execution) {
            Some(body) => Said::new(StatusCode::OK, body),
            None => unknown(execution),
        },
        _ => {
            let all = query::pairs(&request.query).is_ok_and(|pairs| {
                let yes = |value: &str| matches!(value, "" | "1" | "true");
                pairs.iter().any(|(key, value)| key == "all" && yes(value))
            });
            let mut out = Object::new();
            out.raw("sessions", &door.gate.signed_sessions_json(operator, all));
            Said::new(StatusCode::OK, out.finish())
        }
    }
}

async fn revoke(door: &Door, operator: &Caller, execution: &str) -> Said {
    match door
        .gate
        .revoke_signed(operator, execution, "revoked by an operator")
        .await
    {
        Ok(Some(ended)) => {
            let mut out = Object::new();
            out.str("status", "success")
                .str("execution_id", &ended.execution)
                .str("session_status", ended.status.as_str());
            out.str(
                if ended.status == SignedStatus::Revoked {
                    "revoked_at"
                } else {
                    "expired_at"
                },
                &ended.at,
            );
            Said::new(StatusCode::OK, out.finish())
        }
        Ok(None) => unknown(execution),
        Err(detail) => {
            tracing::error!(detail, "a session was ended, but that could not be kept");
            Said::refused(
                StatusCode::INTERNAL_SERVER_ERROR,
                "The session is over, but that could not be recorded; try again",
            )
        }
    }
}

fn unknown(execution: &str) -> Said {
    let shown: String = execution.chars().take(64).collect();
    Said::refused(
        StatusCode::NOT_FOUND,
        &format!("There is no session of execution `{shown}`"),
    )
}

/// A JSON object whose texts can be taken out by name.
struct Fields<'a>(Json<'a>);

impl<'a> Fields<'a> {
    fn read(body: &'a [u8]) -> Result<Self, String> {
        let json = Json::parse(body, Limits::new(MAX_BODY, MAX_DEPTH))
            .map_err(|error| format!("not JSON: {error}"))?;
        if json.is_object() {
            Ok(Self(json))
        } else {
            Err("the body must be a JSON object".to_owned())
        }
    }

    fn given(&self, name: &str) -> Option<Json<'a>> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn text(&self, name: &str) -> Result<Option<String>, String> {
        match self.given(name) {
            None => Ok(None),
            Some(value) => value
                .as_str()
                .map(|text| Some(text.into_owned()))
                .ok_or(format!("`{name}` must be text")),
        }
    }

    fn required(&self, name: &str) -> Result<String, String> {
        self.text(name)?
            .filter(|text| !text.is_empty())
            .ok_or(format!("`{name}` is missing"))
    }

    fn number(&self, name: &str, default: u64) -> Result<u64, String> {
        self.given(name).map_or(Ok(default), |value| {
            value
                .as_u64()
                .ok_or(format!("`{name}` must be a whole number"))
        })
    }

    fn texts(&self, name: &str) -> Result<Option<Vec<String>>, String> {
        let wrong = || format!("`{name}` must be a list of at most {MAX_PATTERNS} texts");
        let Some(list) = self.given(name) else {
            return Ok(None);
        };
        if !list.is_array() || list.items().nth(MAX_PATTERNS).is_some() {
            return Err(wrong());
        }
        list.items()
            .map(|item| item.as_str().map(|text| text.into_owned()))
            .collect::<Option<_>>()
            .map(Some)
            .ok_or_else(wrong)
    }
}

fn read_session(body: &[u8]) -> Result<SessionRequest, String> {
    let fields = Fields::read(body)?;
    // The gateway's own spelling, and the protocol's.
    let either = |one: &str, other: &str| {
        fields
            .text(one)
            .and_then(|text| text.map_or_else(|| fields.text(other), |text| Ok(Some(text))))
    };
    Ok(SessionRequest {
        execution_id: fields.required("execution_id")?,
        sub: either("agent_id", "sub")?
            .filter(|text| !text.is_empty())
            .ok_or("`sub` is missing")?,
        security_context_name: either("security_context", "security_context_name")?,
        public_key_b64: fields.required("public_key_b64")?,
        allowed_tool_patterns: fields.texts("allowed_tool_patterns")?,
        tenant_id: fields.text("tenant_id")?,
    })
}

fn read_workload(body: &[u8]) -> Result<NewWorkload, String> {
    let fields = Fields::read(body)?;
    let ttl = fields.number("ttl_seconds", WORKLOAD_TTL_SECONDS)?;
    if ttl == 0 || ttl > MAX_WORKLOAD_TTL_SECONDS {
        return Err(format!(
            "`ttl_seconds` is between 1 and {MAX_WORKLOAD_TTL_SECONDS}"
        ));
    }
    let uses = u32::try_from(fields.number("uses", 1)?)
        .ok()
        .filter(|uses| (1..=10_000).contains(uses));
    Ok(NewWorkload {
        security_context: fields.text("security_context")?,
        agent_id: fields.text("agent_id")?,
        tenant_id: fields.text("tenant_id")?,
        uses: uses.ok_or("`uses` is between 1 and 10000")?,
        ttl_ms: ttl * 1000,
    })
}
