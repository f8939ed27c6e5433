//! Arguments satisfy the input schema of the approved definition. Many clients write null for what they leave out, so null for a
//! property that is not required counts as nothing.

use vocab::Violation;
use wire::{Json, write};

use super::arguments_present::invalid;
use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let Some(schema) = facts.input_schema else {
        return Ok(());
    };
    let arguments = facts.arguments.unwrap_or(Json::EMPTY_OBJECT);
    let Err(mismatch) = schema.check(arguments.as_bytes()) else {
        return Ok(());
    };
    match without_nulls(schema, arguments) {
        Some(rest) if schema.check(&rest).is_ok() => Ok(()),
        _ => Err(invalid(&mismatch.to_string())),
    }
}

/// The arguments without the nulls that stand for nothing; `None` if there are none.
fn without_nulls(schema: &shape::Schema, arguments: Json<'_>) -> Option<Vec<u8>> {
    let nulls: Vec<String> = arguments
        .fields()
        .filter(|(_, value)| value.is_null())
        .map(|(key, _)| key.into_owned())
        .collect();
    let drop = |names: &[&str]| write::replace_fields(arguments, names, |_| ());
    let all: Vec<&str> = nulls.iter().map(String::as_str).collect();
    let bare = drop(&all);
    // A required property may be null where its schema says so; then null is its value.
    let required = schema.missing(&bare).unwrap_or_default();
    let optional: Vec<&str> = all
        .iter()
        .copied()
        .filter(|name| !required.contains(name))
        .collect();
    if optional.is_empty() {
        None
    } else {
        Some(drop(&optional))
    }
}
