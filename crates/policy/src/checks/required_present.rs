//! What a built-in cannot do without is there and not null, on every path; and in a context, what the tool's own schema requires. What a
//! command is given is text: nothing is left out of it in silence.

use vocab::{Rule, Violation};
use wire::{
    Json,
    builtin::{self, Executor, Field, Kind, Tool},
};

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let arguments = facts.arguments.unwrap_or(Json::EMPTY_OBJECT);
    let asked = facts.boundary.map(|boundary| boundary.tool());
    for tool in asked.into_iter().chain(facts.built_in) {
        let mut required = builtin::find(tool).into_iter().flat_map(Tool::required);
        if let Some(field) = required.find(|field| !is_there(field, arguments)) {
            return Err(missing(field.name, tool));
        }
        let command = builtin::find(tool).filter(|tool| tool.executor == Executor::Command);
        let mut fields = command.into_iter().flat_map(|tool| tool.input);
        if let Some(field) = fields.find(|field| !is_text(field, arguments)) {
            return Err(mistyped(field, tool));
        }
    }
    let (Some(tool), Some(schema)) = (asked, facts.input_schema) else {
        return Ok(());
    };
    match schema.missing(arguments.as_bytes()).as_deref() {
        Some([field, ..]) => Err(missing(field, tool)),
        _ => Ok(()),
    }
}

fn is_there(field: &Field, arguments: Json<'_>) -> bool {
    let Some(value) = arguments.get(field.name).filter(|value| !value.is_null()) else {
        return false;
    };
    field.kind != Kind::Words || value.as_str().is_some_and(|text| !text.trim().is_empty())
}

/// Whether a value that should be text, or a list of texts, is that.
fn is_text(field: &Field, arguments: Json<'_>) -> bool {
    let Some(value) = arguments.get(field.name).filter(|value| !value.is_null()) else {
        return true;
    };
    match field.kind {
        Kind::Text | Kind::Words => value.as_str().is_some(),
        Kind::Texts => value.is_array() && value.items().all(|item| item.as_str().is_some()),
        _ => true,
    }
}

fn mistyped(field: &Field, tool: &str) -> Violation {
    let kind = if field.kind == Kind::Texts {
        "a list of texts"
    } else {
        "a text"
    };
    let hint = format!("field '{}' of tool '{tool}' must be {kind}", field.name);
    Violation::new(Rule::InvalidArguments, hint.clone()).with_hint(hint)
}

fn missing(field: &str, tool: &str) -> Violation {
    let hint = format!("required field '{field}' is missing or null for tool '{tool}'");
    let detail = format!("{hint}; arguments with it would be allowed");
    Violation::new(Rule::InvalidArguments, detail).with_hint(hint)
}
