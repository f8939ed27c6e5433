//! The little of JSON Schema and of the injection table that the random worlds use, written down a second time.

use serde_json::Value;

/// Texts that must be found wherever they stand, in any case.
pub(super) const INJECTIONS: [&str; 6] = [
    "ignore all previous instructions",
    "disregard the previous instructions",
    "system prompt override",
    "forget your instructions",
    "bypass your safety rules",
    "\u{0}",
];

/// Whether a value is of a schema, for the keywords the random schemas use.
pub(super) fn accepts(schema: &Value, value: &Value) -> bool {
    let number = |keyword: &str| schema.get(keyword).and_then(Value::as_f64);
    let is_of_type = match schema.get("type") {
        Some(Value::String(name)) => is_a(name, value),
        Some(Value::Array(names)) => names
            .iter()
            .filter_map(Value::as_str)
            .any(|name| is_a(name, value)),
        _ => true,
    };
    let is_listed = schema
        .get("enum")
        .and_then(Value::as_array)
        .is_none_or(|all| all.contains(value));
    let size = value.as_f64();
    let is_in_range = size.is_none_or(|n| {
        number("minimum").is_none_or(|min| n >= min) && number("maximum").is_none_or(|max| n <= max)
    });
    let length = value.as_str().map(|text| text.chars().count());
    let limit = schema
        .get("maxLength")
        .and_then(Value::as_u64)
        .and_then(|limit| usize::try_from(limit).ok());
    let is_short = length.is_none_or(|length| limit.is_none_or(|limit| length <= limit));
    is_of_type
        && is_listed
        && is_in_range
        && is_short
        && members_fit(schema, value)
        && items_fit(schema, value)
}

/// The same for the arguments of a call, where null for what is not required may stand for nothing.
pub(super) fn accepts_arguments(schema: &Value, arguments: &Value) -> bool {
    let is_required = |key: &str| {
        schema
            .get("required")
            .and_then(Value::as_array)
            .is_some_and(|names| names.iter().any(|name| name == key))
    };
    let mut rest = arguments.clone();
    if let Some(members) = rest.as_object_mut() {
        members.retain(|key, value| !value.is_null() || is_required(key));
    }
    accepts(schema, arguments) || accepts(schema, &rest)
}

fn members_fit(schema: &Value, value: &Value) -> bool {
    let Some(members) = value.as_object() else {
        return true;
    };
    let required = schema
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str);
    let closed = schema.get("additionalProperties") == Some(&Value::Bool(false));
    let known = |key: &str| {
        schema
            .get("properties")
            .and_then(|properties| properties.get(key))
    };
    required.into_iter().all(|key| members.contains_key(key))
        && members
            .iter()
            .all(|(key, member)| known(key).map_or(!closed, |schema| accepts(schema, member)))
}

fn items_fit(schema: &Value, value: &Value) -> bool {
    let (Some(of), Some(items)) = (schema.get("items"), value.as_array()) else {
        return true;
    };
    items.iter().all(|item| accepts(of, item))
}

fn is_a(name: &str, value: &Value) -> bool {
    match name {
        "object" => value.is_object(),
        "array" => value.is_array(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "null" => value.is_null(),
        "integer" => value.is_i64() || value.is_u64(),
        _ => value.is_number(),
    }
}

/// Whether an injection stands in any string or key, however deep.
pub(super) fn holds_injection(value: &Value) -> bool {
    match value {
        Value::String(text) => is_injection(text),
        Value::Array(items) => items.iter().any(holds_injection),
        Value::Object(members) => members
            .iter()
            .any(|(key, member)| is_injection(key) || holds_injection(member)),
        _ => false,
    }
}

fn is_injection(text: &str) -> bool {
    let text = text.to_lowercase();
    INJECTIONS.iter().any(|injection| text.contains(injection))
}
