//! What a built-in cannot do without is there and not null, on every path; and in a context, what the tool's own schema requires.

use vocab::{Rule, Violation};
use wire::{
    Json,
    builtin::{self, Field, Kind, Tool},
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

fn missing(field: &str, tool: &str) -> Violation {
    let hint = format!("required field '{field}' is missing or null for tool '{tool}'");
    let detail = format!("{hint}; arguments with it would be allowed");
    Violation::new(Rule::InvalidArguments, detail).with_hint(hint)
}
