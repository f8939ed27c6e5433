//! The first line: who calls, and which server alone they want to see.

use std::time::Duration;

use gateway::Caller;
use vocab::{ErrorCode, ServerId};
use wire::{Json, Limits, line::Line, write::Object};

use super::Reader;
use crate::{door::Door, refused};

const DEADLINE: Duration = Duration::from_secs(10);
const LIMITS: Limits = Limits::new(4096, 4);

/// Reads the greeting and answers it; an error is the line to send before closing.
pub(super) async fn greet(
    door: &Door,
    reader: &mut Reader,
) -> Result<(Caller, Option<ServerId>), Vec<u8>> {
    let line = match tokio::time::timeout(DEADLINE, reader.next()).await {
        Ok(Some(Line::Whole(line))) => line,
        Ok(Some(Line::TooLong { .. })) => return Err(refusal("the first line is too long")),
        Ok(None) | Err(_) => return Err(refusal("no hello came")),
    };
    let hello = Json::parse(&line, LIMITS)
        .map_err(|error| refusal(&format!("the first line must be a hello: {error}")))?;
    let text = |key: &str| hello.get(key).and_then(Json::as_str);
    if text("portcullis").as_deref() != Some("hello") {
        return Err(refusal(
            "the first line must be {\"portcullis\":\"hello\",\"token\":\"…\"}",
        ));
    }
    let caller = match text("token") {
        Some(token) => door.gate.identify(&token),
        None => door.gate.anonymous(),
    };
    let Some(caller) = caller else {
        door.gate.strangers("unknown credential");
        return Err(refusal("unknown or revoked credential"));
    };
    let mount = match text("mount") {
        None => None,
        Some(id) => {
            let known = ServerId::parse(&id)
                .ok()
                .filter(|id| door.gate.catalog().shows(id, &caller));
            Some(known.ok_or_else(|| {
                refused::note_one(
                    door,
                    "mcp-stdio",
                    &caller,
                    "hello",
                    ErrorCode::NotFound.as_str(),
                    "no such server to mount",
                );
                refusal("no such server to mount")
            })?)
        }
    };
    Ok((caller, mount))
}

pub(super) fn refusal(sentence: &str) -> Vec<u8> {
    let mut out = Object::new();
    out.str("error", sentence);
    let mut line = out.finish();
    line.push(b'\n');
    line
}
