//! `tools`: what a session may call.

use gateway::Caller;
use http::StatusCode;
use wire::write::Object;

use super::{
    Request, envelope,
    render::{self, PROTOCOL, Said},
};
use crate::{door::Door, query};

pub(super) fn answer(door: &Door, request: &Request) -> Said {
    let recognised = match (&request.caller, &request.bearer) {
        // A session's token says more than the credential of whoever passes it on.
        (_, Some(token)) if token.contains('.') => door
            .gate
            .recognise(token)
            .and_then(|caller| door.gate.in_force(&caller).map(|()| caller)),
        (Some(caller), _) => Ok(caller.clone()),
        (None, _) => match door.gate.anonymous() {
            Some(caller) => Ok(caller),
            None => {
                door.gate.strangers("no credential");
                return Said::refused(
                    StatusCode::UNAUTHORIZED,
                    "Send a credential or a session's token: `Authorization: Bearer …`",
                );
            }
        },
    };
    match recognised {
        Ok(caller) => {
            // A name that is escaped badly is the name of nothing.
            let unreadable = |_| vec![("security_context".to_owned(), String::new())];
            let asked = query::pairs(&request.query)
                .unwrap_or_else(unreadable)
                .into_iter()
                .find_map(|(key, value)| (key == "security_context").then_some(value))
                .filter(|_| caller.context().is_none());
            if let Some(name) = asked
                .as_deref()
                .filter(|name| !door.gate.has_context(&caller, name))
            {
                let shown: String = name.chars().take(64).collect();
                return Said::refused(
                    StatusCode::NOT_FOUND,
                    &format!("There is no security context `{shown}`"),
                );
            }
            described(door, &caller, asked.as_deref())
        }
        Err(violation) => {
            door.gate.strangers(violation.rule.code());
            render::refusal(None, &violation)
        }
    }
}

fn described(door: &Door, caller: &Caller, asked: Option<&str>) -> Said {
    let base = door.gate.url().trim_end_matches("/mcp");
    let context = caller.context().or(asked);
    let mut out = Object::new();
    out.str("protocol", PROTOCOL);
    out.str("attestation_endpoint", &format!("{base}/v1/seal/attest"))
        .str("invoke_endpoint", &format!("{base}/v1/seal/invoke"));
    if let Some(context) = context {
        out.str("security_context", context);
    }
    out.raw("tools", &array(door, caller, context));
    Said::new(StatusCode::OK, out.finish())
}

/// The result of `tools/list`.
pub(super) fn list(door: &Door, caller: &Caller) -> Vec<u8> {
    envelope::as_result(&array(door, caller, caller.context()))
}

fn array(door: &Door, caller: &Caller, context: Option<&str>) -> Vec<u8> {
    let sight = door.gate.sight(caller);
    let tools: Vec<_> = door
        .gate
        .callable(&sight, context, None)
        .into_iter()
        .map(|listed| listed.raw)
        .chain(door.gate.volume_tools(caller, context))
        .collect();
    let mut out = Vec::with_capacity(tools.iter().map(|raw| raw.len() + 1).sum::<usize>() + 2);
    out.push(b'[');
    for (index, raw) in tools.iter().enumerate() {
        if index > 0 {
            out.push(b',');
        }
        out.extend_from_slice(raw);
    }
    out.push(b']');
    out
}
