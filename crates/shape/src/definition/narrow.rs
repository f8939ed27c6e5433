//! A proof, keyword by keyword, that one schema accepts nothing that another does not.
//!
//! Sound and far from complete: a keyword that is not understood here must be the same on both sides. Two schemas side by side are
//! enough because a reference may only lead into definitions that did not change.

use std::collections::BTreeSet;

use serde_json::{Map, Value};

/// Keywords whose value is text for people and models.
const NOTES: [&str; 10] = [
    "title",
    "description",
    "$comment",
    "default",
    "examples",
    "deprecated",
    "readOnly",
    "writeOnly",
    "format",
    "$schema",
];

/// Words of the schema language that a narrower schema may use though the wider one did not.
const VOCABULARY: &[&str] = &[
    "additionalItems",
    "additionalProperties",
    "array",
    "boolean",
    "const",
    "enum",
    "exclusiveMaximum",
    "exclusiveMinimum",
    "integer",
    "items",
    "maxItems",
    "maxLength",
    "maxProperties",
    "maximum",
    "minItems",
    "minLength",
    "minProperties",
    "minimum",
    "multipleOf",
    "not",
    "null",
    "number",
    "object",
    "properties",
    "propertyNames",
    "required",
    "string",
    "type",
    "uniqueItems",
];

/// Whether the new schema holds a text that the old one does not, or has other notes where they were.
pub(super) fn says_more(old: &Value, new: &Value) -> bool {
    let (mut before, mut after) = (BTreeSet::new(), BTreeSet::new());
    texts(old, &mut before);
    texts(new, &mut after);
    after
        .iter()
        .any(|text| !before.contains(text) && !VOCABULARY.contains(text))
        || notes_differ(old, new)
}

fn texts<'a>(value: &'a Value, out: &mut BTreeSet<&'a str>) {
    match value {
        Value::String(text) => {
            out.insert(text);
        }
        Value::Array(items) => items.iter().for_each(|item| texts(item, out)),
        Value::Object(map) => {
            for (key, value) in map {
                out.insert(key);
                texts(value, out);
            }
        }
        _ => {}
    }
}

/// Compares notes wherever both schemas have an object at the same place. Moving a text elsewhere makes it mean something else.
fn notes_differ(old: &Value, new: &Value) -> bool {
    match (old, new) {
        (Value::Object(old), Value::Object(new)) => {
            NOTES.iter().any(|note| old.get(*note) != new.get(*note))
                || old
                    .iter()
                    .any(|(key, old)| new.get(key).is_some_and(|new| notes_differ(old, new)))
                || new
                    .iter()
                    .any(|(key, new)| !old.contains_key(key) && has_notes(new))
        }
        (Value::Array(old), Value::Array(new)) if old.len() == new.len() => {
            old.iter().zip(new).any(|(old, new)| notes_differ(old, new))
        }
        (old, new) => old != new && has_notes(new),
    }
}

fn has_notes(value: &Value) -> bool {
    match value {
        Value::Object(map) => map
            .iter()
            .any(|(key, value)| NOTES.contains(&key.as_str()) || has_notes(value)),
        Value::Array(items) => items.iter().any(has_notes),
        _ => false,
    }
}

/// Whether every instance the new schema accepts is accepted by the old one. `false` means that it could not be shown.
pub(super) fn accepts_no_more(old: &Value, new: &Value) -> bool {
    let whole = [old, new];
    whole.iter().all(|schema| simple(schema)) && within(old, new)
}

/// Nothing in it depends on where it stands: references lead to definitions only, and nothing collects what others have seen.
fn simple(value: &Value) -> bool {
    match value {
        Value::Object(map) => map.iter().all(|(key, value)| match key.as_str() {
            "$ref" => value
                .as_str()
                .is_some_and(|to| to.starts_with("#/$defs/") || to.starts_with("#/definitions/")),
            "$dynamicRef"
            | "$recursiveRef"
            | "unevaluatedProperties"
            | "unevaluatedItems"
            | "$id"
            | "$anchor"
            | "$dynamicAnchor" => false,
            _ => simple(value),
        }),
        Value::Array(items) => items.iter().all(simple),
        _ => true,
    }
}

fn within(old: &Value, new: &Value) -> bool {
    match (old, new) {
        _ if old == new => true,
        (Value::Bool(true), _) | (_, Value::Bool(false)) => true,
        (Value::Object(old), _) if imposes_nothing(old) => true,
        (Value::Object(old), Value::Object(new)) => {
            // In draft-07 a reference hides its neighbours, so its presence must not change.
            old.get("$ref") == new.get("$ref")
                && old
                    .iter()
                    .all(|(keyword, value)| implied(keyword, value, old, new))
                && additions(old, new)
        }
        _ => false,
    }
}

fn imposes_nothing(schema: &Map<String, Value>) -> bool {
    schema
        .keys()
        .all(|keyword| NOTES.contains(&keyword.as_str()))
}

/// Keywords that only the new schema has can but refuse more, as long as they are understood. Where one changes what another means, as
/// `properties` does for `additionalProperties`, the other is compared together with it.
fn additions(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    let known = |keyword: &String| {
        VOCABULARY.contains(&keyword.as_str()) || NOTES.contains(&keyword.as_str())
    };
    new.keys()
        .all(|keyword| old.contains_key(keyword) || known(keyword))
}

/// Whether the new schema refuses everything that this keyword of the old one refuses.
fn implied(
    keyword: &str,
    value: &Value,
    old: &Map<String, Value>,
    new: &Map<String, Value>,
) -> bool {
    let other = new.get(keyword);
    match keyword {
        _ if NOTES.contains(&keyword) => other == Some(value),
        "type" => types_within(value, new),
        "enum" | "const" => values_within(value, keyword, new),
        "minimum" | "exclusiveMinimum" => at_least(
            value,
            new.get("minimum"),
            new.get("exclusiveMinimum"),
            keyword == "minimum",
        ),
        "maximum" | "exclusiveMaximum" => at_most(
            value,
            new.get("maximum"),
            new.get("exclusiveMaximum"),
            keyword == "maximum",
        ),
        "minLength" | "minItems" | "minProperties" => {
            compare(value, other).is_some_and(std::cmp::Ordering::is_le)
        }
        "maxLength" | "maxItems" | "maxProperties" => {
            compare(value, other).is_some_and(std::cmp::Ordering::is_ge)
        }
        "required" => is_list_within(other.unwrap_or(&Value::Null), value),
        "uniqueItems" => value == &Value::Bool(false) || other == Some(value),
        "properties" | "additionalProperties" | "patternProperties" => properties_within(old, new),
        "propertyNames" => other.is_some_and(|other| within(value, other)),
        "items" | "prefixItems" | "additionalItems" => items_within(old, new),
        "anyOf" => other.is_some_and(|other| other == value || is_list_within(value, other)),
        _ => other == Some(value),
    }
}

/// Whether `list` holds all of `of`.
fn is_list_within(list: &Value, of: &Value) -> bool {
    let (Value::Array(list), Value::Array(of)) = (list, of) else {
        return false;
    };
    of.iter().all(|one| list.contains(one))
}

fn types_within(old: &Value, new: &Map<String, Value>) -> bool {
    let names = |value: &Value| -> Option<Vec<String>> {
        match value {
            Value::String(one) => Some(vec![one.clone()]),
            Value::Array(several) => several
                .iter()
                .map(|one| one.as_str().map(str::to_owned))
                .collect(),
            _ => None,
        }
    };
    let (Some(old), Some(new)) = (names(old), new.get("type").and_then(names)) else {
        return false;
    };
    new.iter()
        .all(|one| old.contains(one) || (one == "integer" && old.iter().any(|old| old == "number")))
}

/// `enum` and `const` say the same thing in two ways.
fn values_within(old: &Value, keyword: &str, new: &Map<String, Value>) -> bool {
    let one = std::slice::from_ref::<Value>;
    let allowed = if keyword == "const" {
        Some(one(old))
    } else {
        old.as_array().map(Vec::as_slice)
    };
    let listed = new.get("enum").and_then(Value::as_array).map(Vec::as_slice);
    let wanted = [new.get("const").map(one), listed];
    allowed.is_some_and(|allowed| {
        wanted
            .into_iter()
            .flatten()
            .any(|wanted| wanted.iter().all(|value| allowed.contains(value)))
    })
}

/// Order of two numbers, if it is certain.
fn compare(a: &Value, b: Option<&Value>) -> Option<std::cmp::Ordering> {
    let (Value::Number(a), Value::Number(b)) = (a, b?) else {
        return None;
    };
    if let (Some(a), Some(b)) = (a.as_i64(), b.as_i64()) {
        return Some(a.cmp(&b));
    }
    const EXACT: f64 = 9_007_199_254_740_992.0;
    let exact = |number: &serde_json::Number| number.as_f64().filter(|number| number.abs() < EXACT);
    exact(a)?.partial_cmp(&exact(b)?)
}

fn at_least(
    limit: &Value,
    minimum: Option<&Value>,
    above: Option<&Value>,
    inclusive: bool,
) -> bool {
    let by_minimum = compare(limit, minimum).is_some_and(|order| {
        if inclusive {
            order.is_le()
        } else {
            order.is_lt()
        }
    });
    by_minimum || compare(limit, above).is_some_and(std::cmp::Ordering::is_le)
}

fn at_most(limit: &Value, maximum: Option<&Value>, below: Option<&Value>, inclusive: bool) -> bool {
    let by_maximum = compare(limit, maximum).is_some_and(|order| {
        if inclusive {
            order.is_ge()
        } else {
            order.is_gt()
        }
    });
    by_maximum || compare(limit, below).is_some_and(std::cmp::Ordering::is_ge)
}

/// `properties`, `patternProperties` and `additionalProperties` together: every name meets a schema no wider than before.
fn properties_within(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    const ANYTHING: Value = Value::Bool(true);
    let empty = Map::new();
    let named = |schema: &Map<String, Value>| match schema.get("properties") {
        None => Some(empty.clone()),
        Some(Value::Object(named)) => Some(named.clone()),
        Some(_) => None,
    };
    let (Some(before), Some(after)) = (named(old), named(new)) else {
        return false;
    };
    let patterns = old.get("patternProperties");
    if patterns != new.get("patternProperties") {
        return false;
    }
    // Whether a name falls to the patterns or to the rest cannot be told here, so names may not move.
    if patterns.is_some()
        && !(before.len() == after.len() && before.keys().all(|name| after.contains_key(name)))
    {
        return false;
    }
    let rest = |schema: &Map<String, Value>| {
        schema
            .get("additionalProperties")
            .cloned()
            .unwrap_or(ANYTHING)
    };
    let (rest_before, rest_after) = (rest(old), rest(new));
    before
        .iter()
        .all(|(name, old)| within(old, after.get(name).unwrap_or(&rest_after)))
        && after
            .iter()
            .filter(|(name, _)| !before.contains_key(*name))
            .all(|(_, new)| within(&rest_before, new))
        && within(&rest_before, &rest_after)
}

/// One schema for all items can narrow; lists of them must stay as they are.
fn items_within(old: &Map<String, Value>, new: &Map<String, Value>) -> bool {
    if old.get("prefixItems") != new.get("prefixItems")
        || old.get("additionalItems") != new.get("additionalItems")
    {
        return false;
    }
    match (old.get("items"), new.get("items")) {
        (old, new) if old == new => true,
        (Some(Value::Array(_)), _) | (_, Some(Value::Array(_))) | (Some(_), None) => false,
        (None, _) => true,
        (Some(old), Some(new)) => within(old, new),
    }
}
