//! What differs between the eras on the wire: the handshake, the headers, how input is asked for.

use anyhow::{Context, Result, bail};
use serde_json::{Value, json};

use super::Shared;

/// The revision this client speaks in its legacy form.
pub const LEGACY: &str = "2025-11-25";
/// The revision without sessions.
pub const MODERN: &str = "2026-07-28";

pub(super) const PREFIX: &str = "io.modelcontextprotocol/";

/// Which side of the divide a client stands on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

pub(super) async fn handshake(shared: &Shared) -> Result<String> {
    let params = json!({"protocolVersion": shared.revision, "capabilities": shared.capabilities,
        "clientInfo": {"name": "testkit", "version": "1"}});
    let message = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params});
    let headers = era_headers(shared, "initialize", &Value::Null);
    let reply = shared
        .target
        .send("POST", &headers, serde_json::to_vec(&message)?)
        .await?;
    let status = reply.status;
    let session = reply.header("mcp-session-id").map(str::to_owned);
    let answer = reply
        .messages()
        .next()
        .await?
        .with_context(|| format!("initialize had no answer (status {status})"))?;
    let agreed = answer
        .pointer("/result/protocolVersion")
        .and_then(Value::as_str);
    if agreed != Some(shared.revision) {
        bail!("initialize was answered with {answer} (status {status})");
    }
    session.context("initialize was answered without a session id")
}

pub(super) fn era_headers(shared: &Shared, method: &str, params: &Value) -> Vec<(String, String)> {
    let mut headers = vec![
        (
            "accept".to_owned(),
            "application/json, text/event-stream".to_owned(),
        ),
        ("content-type".to_owned(), "application/json".to_owned()),
    ];
    let mut add = |name: &str, value: &str| headers.push((name.to_owned(), value.to_owned()));
    match shared.era {
        Era::Legacy if method == "initialize" => {}
        Era::Legacy => {
            add("mcp-protocol-version", shared.revision);
            if let Some(session) = &shared.session {
                add("mcp-session-id", session);
            }
        }
        Era::Modern => {
            add("mcp-protocol-version", MODERN);
            add("mcp-method", method);
            let named = ["name", "uri", "taskId"]
                .iter()
                .find_map(|key| params.get(key)?.as_str());
            if let (
                Some(name),
                "tools/call" | "prompts/get" | "resources/read" | "tasks/get" | "tasks/update"
                | "tasks/cancel",
            ) = (named, method)
            {
                add("mcp-name", name);
            }
        }
    }
    headers
}

/// What the server wants to know first, if that is what it answered.
pub(super) fn input_required(answer: &Value) -> Option<&serde_json::Map<String, Value>> {
    let result = answer.get("result")?;
    if result.get("resultType")?.as_str()? != "input_required" {
        return None;
    }
    result.get("inputRequests")?.as_object()
}
