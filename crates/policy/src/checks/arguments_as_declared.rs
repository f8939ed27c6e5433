//! Arguments satisfy the input schema of the approved definition.

use vocab::Violation;
use wire::Json;

use super::arguments_present::invalid;
use crate::Facts;

pub(super) fn check(facts: &Facts<'_>) -> Result<(), Violation> {
    let Some(schema) = facts.input_schema else { return Ok(()) };
    let arguments = facts.arguments.unwrap_or(Json::EMPTY_OBJECT);
    schema.check(arguments.as_bytes()).map_err(|mismatch| invalid(&mismatch.to_string()))
}
