//! `attest`: who somebody is, once, in return for a token.

use gateway::{AttestError, AttestProof, AttestRequest, Attested};
use http::StatusCode;
use vocab::Redacted;
use wire::{Json, Limits, write::Object};

use super::{Request, render::Said};
use crate::door::Door;

/// A key, some names and a summary; nothing of it is long.
const MAX_BODY: usize = 64 << 10;
const MAX_DEPTH: usize = 8;

/// Numbers of the protocol for what can go wrong here.
const WORKLOAD_FAILED: u64 = 3000;
const CONTEXT_NOT_FOUND: u64 = 3001;
const ATTESTATION_FAILED: u64 = 3002;

pub(super) async fn answer(door: &Door, request: &Request) -> Said {
    let read = match read(&request.body) {
        Ok(read) => read,
        Err(problem) => return refused(&AttestError::Malformed(problem)),
    };
    let evidence = request
        .caller
        .as_ref()
        .map_or(AttestProof::Workload, AttestProof::Bearer);
    match door.gate.attest(evidence, read).await {
        Ok(attested) => granted(&attested),
        Err(error) => refused(&error),
    }
}

fn read(body: &[u8]) -> Result<AttestRequest, String> {
    let json = Json::parse(body, Limits::new(MAX_BODY, MAX_DEPTH))
        .map_err(|error| format!("not JSON: {error}"))?;
    if !json.is_object() {
        return Err("the body must be a JSON object".to_owned());
    }
    let text = |names: &[&str]| -> Result<Option<String>, String> {
        let given = names.iter().find_map(|name| {
            json.get(name)
                .filter(|value| !value.is_null())
                .map(|value| (name, value))
        });
        match given {
            None => Ok(None),
            Some((name, value)) => value
                .as_str()
                .map(|text| Some(text.into_owned()))
                .ok_or(format!("`{name}` must be text")),
        }
    };
    Ok(AttestRequest {
        public_key: text(&["public_key", "agent_public_key", "public_key_pem"])?
            .ok_or("`public_key` is missing")?,
        workload_id: text(&["workload_id", "container_id"])?.map(Redacted::new),
        security_context: text(&["security_context", "security_scope", "requested_scope"])?,
        agent_id: text(&["agent_id"])?,
        execution_id: text(&["execution_id"])?,
        tenant_id: text(&["tenant_id"])?,
        task_summary: text(&["task_summary"])?,
    })
}

pub(super) fn granted(attested: &Attested) -> Said {
    let mut out = Object::new();
    out.str("status", "success")
        .str("security_token", attested.token.expose())
        .str("expires_at", &attested.expires_at);
    out.str("session_id", &attested.session_id)
        .str("execution_id", &attested.execution_id);
    out.str("security_context", &attested.context);
    out.str("session_status", "Active");
    Said::new(StatusCode::OK, out.finish())
}

pub(super) fn refused(error: &AttestError) -> Said {
    let (status, number, message) = match error {
        AttestError::Malformed(message) => (StatusCode::BAD_REQUEST, ATTESTATION_FAILED, message),
        AttestError::Unproven(message) => (StatusCode::UNAUTHORIZED, WORKLOAD_FAILED, message),
        AttestError::NoContext(message) => (StatusCode::UNAUTHORIZED, CONTEXT_NOT_FOUND, message),
        AttestError::Forbidden(message) => (StatusCode::FORBIDDEN, ATTESTATION_FAILED, message),
        AttestError::TooMany(message) => {
            (StatusCode::TOO_MANY_REQUESTS, ATTESTATION_FAILED, message)
        }
        AttestError::Unavailable(detail) => {
            tracing::error!(detail, "a session could not begin");
            let mut said = Said::refused_as(
                StatusCode::INTERNAL_SERVER_ERROR,
                ATTESTATION_FAILED,
                "Portcullis could not begin the session",
            );
            said.retry_after = Some(std::time::Duration::from_secs(1));
            return said;
        }
    };
    let mut said = Said::refused_as(status, number, message);
    if status == StatusCode::TOO_MANY_REQUESTS {
        said.retry_after = Some(std::time::Duration::from_secs(60));
    }
    said
}
