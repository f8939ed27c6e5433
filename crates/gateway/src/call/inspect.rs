//! Inspect: is what came back a result, of a size we forward? What the caller will carry back to us is sealed here.

use std::borrow::Cow;

use vocab::{Rule, Violation};
use wire::{Json, Text, json, write};

use super::{
    Target,
    dispatch::Raw,
    receive::{Address, Received},
    shape,
};
use crate::{Ask, gate::Inner, running::Outcome, tokens};

/// The outcome, and whether it reports an error.
pub(super) fn inspect(
    gate: &Inner,
    ask: &Ask,
    received: &Received<'_>,
    target: &Target,
    raw: Raw,
) -> Result<(Outcome, bool), Violation> {
    let result = match raw {
        Raw::Rpc(error) => return Ok((Outcome::Rpc(error), true)),
        Raw::Result(result) => result,
    };
    let limit = target.spec.max_result_bytes.min(gate.ceiling.result_bytes);
    if result.len() > limit {
        let detail = format!("{} bytes from `{}`; the limit is {limit}", result.len(), target.spec.id);
        return Err(Violation::new(Rule::ResultTooLarge, detail));
    }
    let json = Json::checked_before(&result);
    if !json.is_object() {
        return Err(Violation::new(Rule::InvalidResult, "the result is not an object"));
    }
    let mut found = Found::default();
    for (key, value) in result.fields() {
        match &*json::decode_key(key) {
            "requestState" => found.state = Some(value),
            "taskId" => found.task = value.as_str(),
            "task" => found.nested = Some(value),
            "tasks" => found.list = Some(value),
            "isError" => found.is_error = value.as_bool() == Some(true),
            _ => {}
        }
    }
    let is_error = found.is_error;
    let sealed = seal(gate, ask, received, target, json, found).map(Text::from);
    Ok((Outcome::Result(sealed.unwrap_or(result)), is_error))
}

/// What matters to us in a result, found in one walk over it.
#[derive(Default)]
struct Found<'a> {
    state: Option<Json<'a>>,
    task: Option<Cow<'a, str>>,
    nested: Option<Json<'a>>,
    list: Option<Json<'a>>,
    is_error: bool,
}

/// The result with request state and task ids sealed, or `None` when there is nothing to seal and it is forwarded as it is.
fn seal(gate: &Inner, ask: &Ask, received: &Received<'_>, target: &Target, json: Json<'_>, found: Found<'_>) -> Option<Vec<u8>> {
    let Found { state, task, nested, list, .. } = found;
    let show = |id: &str| match &received.address {
        // The caller's own words for a task it asked about.
        Address::Task(asked) => asked.clone().into_owned(),
        _ => tokens::seal_task(&gate.seal, &ask.caller, &target.spec.id, id),
    };
    let rename = |task: Json<'_>| {
        let id = task.get("taskId").and_then(Json::as_str)?;
        Some(write::replace_fields(task, &["taskId"], |out| {
            out.str("taskId", &show(&id));
        }))
    };
    let (name, value) = if let Some(state) = state {
        let sealed = tokens::seal_state(&gate.seal, shape::bound(ask, received, target), gate.now_ms(), state.as_bytes());
        ("requestState", write::quoted(&sealed))
    } else if let Some(task) = task {
        ("taskId", write::quoted(&show(&task)))
    } else if let Some(task) = nested {
        ("task", rename(task)?)
    } else if let Some(list) = list {
        ("tasks", rename_all(list, rename)?)
    } else {
        return None;
    };
    Some(write::replace_fields(json, &[name], |out| {
        out.raw(name, &value);
    }))
}

fn rename_all(list: Json<'_>, rename: impl Fn(Json<'_>) -> Option<Vec<u8>>) -> Option<Vec<u8>> {
    let tasks: Option<Vec<Vec<u8>>> = list.items().map(rename).collect();
    Some([b"[", tasks?.join(&b","[..]).as_slice(), b"]"].concat())
}
