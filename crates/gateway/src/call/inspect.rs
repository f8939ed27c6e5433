//! Inspect: what came back, before anyone sees it. Size, declared shape, secrets; then what clients carry for us is wrapped.

use std::borrow::Cow;

use calls::{
    receive::{Address, Received},
    running::Outcome,
    tokens,
};
use policy::Budget;
use upstreams::{Route, catalog::Target, link::UNREADABLE};
use vocab::{Rule, Stop, Violation};
use wire::{Json, Limits, Text, json, worker, write};

use super::{Case, adapt::Anew, links, server_error, shape};
use crate::{Action, CallRequest, gate::Inner, route::Raw};

/// What may go on to the caller.
#[derive(Debug)]
pub(super) struct Inspected {
    pub(super) outcome: Outcome,
    /// The upstream delivered, but what it delivered says that the call failed.
    pub(super) is_error: bool,
    /// For the operator: what was taken out of it, and what a server's error really said.
    pub(super) remark: Option<String>,
}

pub(super) fn inspect(
    case: Case<'_>,
    received: &Received<'_>,
    target: &Target,
    raw: Raw,
    budget: Budget,
) -> Result<Inspected, Stop> {
    let Case { gate, request, .. } = case;
    let result = match raw {
        Raw::Stopped(stop) => return Err(stop),
        Raw::Rpc(error) => {
            let (error, redacted) = gate.hub.redacted(&target.spec, error.into());
            let scrub = |text: &str| gate.text_without_secrets(text);
            let asked = Json::checked_before(&case.request.params)
                .get("uri")
                .and_then(Json::as_str);
            let server_error::Told { object, cause } =
                server_error::told(Json::checked_before(&error), asked.as_deref(), scrub);
            let remark = match redacted {
                Some(redacted) => format!("{cause}; {redacted}"),
                None => cause,
            };
            return Ok(Inspected {
                outcome: Outcome::Rpc(object.into()),
                is_error: true,
                remark: Some(remark),
            });
        }
        raw => raw,
    };
    // What a command may print was counted as it printed; the envelope around it is ours.
    let most = match target.route {
        Some(Route::Command | Route::Execution(_)) => usize::MAX,
        _ => budget.result_bytes,
    };
    let actual = result.len();
    let limit = target
        .spec
        .budget
        .result_bytes
        .min(case.now.terms.ceiling.result_bytes);
    if actual > limit {
        let detail = format!(
            "{actual} bytes from `{}`; the limit is {limit}",
            target.spec.id
        );
        return Err(Violation::new(Rule::ResultTooLarge, detail).into());
    }
    if actual > most {
        // The server's entry would let it pass; the caller's context does not.
        let detail = format!(
            "{actual} bytes from `{}`; the context allows {most}",
            target.spec.id
        );
        let payload = format!("{{\"actual_bytes\":{actual},\"max_bytes\":{most}}}");
        return Err(Violation::new(Rule::OutputSizeLimitExceeded, detail)
            .with_payload(payload)
            .into());
    }
    let result = read(result)?;
    if !Json::checked_before(&result).is_object() {
        return Err(Violation::new(Rule::InvalidResult, "the result is not an object").into());
    }
    let (result, remark) = gate.hub.redacted(&target.spec, result);
    // What takes the place of a result takes its room too.
    let result = if remark.is_some() {
        request.caller.counted(result.into_bytes()).into()
    } else {
        result
    };
    let mut found = Found::default();
    let fields = result.fields();
    for &(key, value) in &fields {
        match &*json::decode_key(key) {
            "requestState" => found.state = Some(value),
            "taskId" => found.task = value.as_str(),
            "task" => found.nested = Some(value),
            "structuredContent" => found.structured = Some(value),
            "_meta" => found.meta = Some(value),
            "isError" => found.is_error = value.as_bool() == Some(true),
            _ => {}
        }
    }
    let acts_for_user =
        request.action.is_of_tool() && target.spec.rule(&target.name).requires_user_auth;
    if acts_for_user && (found.task.is_some() || found.nested.is_some()) {
        let detail = format!(
            "`{}` answered a user's call with a task, which cannot be followed under that user's name",
            target.name
        );
        return Err(Violation::new(Rule::InvalidResult, detail).into());
    }
    as_declared(request, target, &found)?;
    let is_error = found.is_error;
    let mut anew = Anew::default();
    let misfit = anew.meta(case, target, &found);
    links::rename(case, received, target, &fields, &mut anew);
    if let Some((field, value)) = wrapped(gate, request, received, target, found) {
        anew.set(field, value);
    }
    let remark = [remark, misfit]
        .into_iter()
        .flatten()
        .reduce(|first, second| format!("{first}; {second}"));
    Ok(Inspected {
        outcome: Outcome::Result(digested(anew.apply(request, result))),
        is_error,
        remark,
    })
}

/// The text of a result, copied if nobody has done that yet, and validated.
fn read(raw: Raw) -> Result<Text, Violation> {
    let read = match raw {
        // The worker says that it is JSON, and the worker is not believed.
        Raw::Result(text) => Json::parse_line(&text, Limits::new(text.len(), worker::DEPTH))
            .is_ok()
            .then_some(text),
        Raw::Unread(result, room) => result.fetch(room),
        // These are no results, and were dealt with before.
        Raw::Rpc(_) | Raw::Stopped(_) => None,
    };
    read.ok_or_else(|| Violation::new(Rule::InvalidResult, UNREADABLE))
}

/// The record names the digest, and here nobody waits for it.
pub(super) fn digested(text: Text) -> Text {
    match text.digest() {
        Some(_) => text,
        None => {
            let digest = *blake3::hash(&text).as_bytes();
            text.with_digest(digest)
        }
    }
}

/// A finished result of a tool that declares an output schema satisfies it.
fn as_declared(request: &CallRequest, target: &Target, found: &Found<'_>) -> Result<(), Violation> {
    let is_finished =
        found.state.is_none() && found.task.is_none() && found.nested.is_none() && !found.is_error;
    let Some(definition) = target
        .definition
        .as_deref()
        .filter(|_| request.action == Action::CallTool && is_finished)
    else {
        return Ok(());
    };
    let wrong = |detail: String| {
        Violation::new(
            Rule::InvalidResult,
            format!("`{}` of `{}`: {detail}", target.name, target.spec.id),
        )
    };
    match (definition.output(), found.structured) {
        (Ok(None), _) => Ok(()),
        (Ok(Some(_)), None) => Err(wrong(
            "it declares an output schema and returned no structured content".into(),
        )),
        (Ok(Some(schema)), Some(content)) => schema
            .check(content.as_bytes())
            .map_err(|mismatch| wrong(mismatch.to_string())),
        (Err(why), _) => Err(wrong(why.clone())),
    }
}

/// What matters to us in a result, found in one walk over it.
#[derive(Default)]
pub(super) struct Found<'a> {
    state: Option<Json<'a>>,
    task: Option<Cow<'a, str>>,
    nested: Option<Json<'a>>,
    pub(super) structured: Option<Json<'a>>,
    pub(super) meta: Option<Json<'a>>,
    pub(super) is_error: bool,
}

/// The field with request state or task ids, wrapped; `None` when there is nothing to wrap.
fn wrapped(
    gate: &Inner,
    request: &CallRequest,
    received: &Received<'_>,
    target: &Target,
    found: Found<'_>,
) -> Option<(&'static str, Vec<u8>)> {
    let Found {
        state,
        task,
        nested,
        ..
    } = found;
    let show = |id: &str| match &received.address {
        // The caller's own words for a task it asked about.
        Address::Task(asked) => asked.clone().into_owned(),
        _ => {
            let (server, tool) = (target.spec.id.clone(), target.name.clone());
            // Behind a door that shows one server its names are that server's; lists of names have the gate's.
            let asked = match &request.mount {
                Some(_) => vocab::View::Double.expose(&server, &tool),
                None => received.address.text().to_owned(),
            };
            tokens::wrap_task(
                &gate.wrapper,
                &request.caller,
                &tokens::Task {
                    server,
                    tool,
                    asked,
                    id: id.to_owned(),
                },
            )
        }
    };
    let rename = |task: Json<'_>| {
        let id = task.get("taskId").and_then(Json::as_str)?;
        Some(write::replace_fields(task, &["taskId"], |out| {
            out.str("taskId", &show(&id));
        }))
    };
    Some(if let Some(state) = state {
        let state = tokens::wrap_state(
            &gate.wrapper,
            shape::bound(request, received, target),
            gate.now_ms(),
            state.as_bytes(),
        );
        ("requestState", write::quoted(&state))
    } else if let Some(task) = task {
        ("taskId", write::quoted(&show(&task)))
    } else if let Some(task) = nested {
        ("task", rename(task)?)
    } else {
        return None;
    })
}
