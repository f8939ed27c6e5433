//! Arguments are named, so they come as an object; and what is required is there and not null, before anything else is said
//! about it.

use vocab::{Rule, Violation};
use wire::Json;

use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    if facts
        .arguments
        .is_some_and(|arguments| !arguments.is_object())
    {
        return Err(invalid("`arguments` must be an object"));
    }
    let Some(schema) = facts.input_schema else {
        return Ok(());
    };
    match schema.missing(facts.arguments.unwrap_or(Json::EMPTY_OBJECT).as_bytes()) {
        Some(names) => Err(invalid(&format!(
            "required and missing or null: {}",
            names.join(", ")
        ))),
        None => Ok(()),
    }
}

pub(super) fn invalid(hint: &str) -> Violation {
    let detail =
        format!("{hint}; arguments as the tool's input schema declares them would be allowed");
    Violation::new(Rule::InvalidParameters, detail).with_hint(hint)
}
