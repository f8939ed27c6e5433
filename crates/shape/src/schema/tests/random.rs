//! Whatever the schema and the instance, nothing panics, and our way of reading an instance agrees with the checker's own.

use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::super::Schema;

/// Values of every kind, with keys and texts from a small stock so that schemas and instances meet.
pub(crate) fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-4i64..5).prop_map(Value::from),
        prop::sample::select(&[0.5, 1.0, -0.0, 2.5, 1e20, 9_007_199_254_740_993.0][..])
            .prop_map(Value::from),
        Just(json!(18_446_744_073_709_551_615_u64)),
        word().prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(word(), inner, 0..4)
                .prop_map(|map| Value::Object(Map::from_iter(map))),
        ]
    })
}

fn word() -> impl Strategy<Value = String> {
    prop::sample::select(&["a", "b", "c", "", "ab", "é\n\"\\/", "\u{1f600}"][..])
        .prop_map(str::to_owned)
}

/// Schemas that mean something, of the keywords servers use.
pub(crate) fn schema() -> impl Strategy<Value = Value> {
    let kind = || {
        prop::sample::select(
            &[
                "object", "array", "string", "number", "integer", "boolean", "null",
            ][..],
        )
    };
    let small = || 0i64..4;
    let leaf = prop_oneof![
        any::<bool>().prop_map(Value::from),
        kind().prop_map(|kind| json!({ "type": kind })),
        prop::collection::btree_set(kind(), 1..4).prop_map(|kinds| json!({ "type": kinds })),
        prop::collection::vec(value(), 1..4).prop_map(|mut values| {
            values.dedup();
            json!({ "enum": values })
        }),
        value().prop_map(|value| json!({ "const": value })),
        (small(), small()).prop_map(|(low, high)| json!({"minimum": low, "maximum": high})),
        (small(), small())
            .prop_map(|(low, high)| json!({"exclusiveMinimum": low, "exclusiveMaximum": high})),
        (small(), small()).prop_map(|(low, high)| json!({"minLength": low, "maxLength": high})),
        (small(), small()).prop_map(|(low, high)| json!({"minItems": low, "maxItems": high})),
        (small(), small())
            .prop_map(|(low, high)| json!({"minProperties": low, "maxProperties": high})),
        prop::sample::select(&["^a", "b$", ".", "[^a]"][..])
            .prop_map(|pattern| json!({ "pattern": pattern })),
        (1i64..4).prop_map(|of| json!({ "multipleOf": of })),
        Just(json!({"uniqueItems": true})),
        prop::collection::btree_set(word(), 0..3).prop_map(|names| json!({ "required": names })),
    ];
    leaf.prop_recursive(3, 24, 4, |inner| {
        let map = prop::collection::btree_map(word(), inner.clone(), 0..4);
        let both = (inner.clone(), inner.clone());
        prop_oneof![
            map.prop_map(|properties| json!({ "properties": properties })),
            (prop::collection::btree_map(word(), inner.clone(), 0..4), inner.clone())
                .prop_map(|(properties, rest)| json!({"properties": properties, "additionalProperties": rest})),
            (inner.clone(), inner.clone()).prop_map(|(items, names)| json!({"items": items, "propertyNames": names})),
            inner.clone().prop_map(|items| json!({ "contains": items })),
            inner.clone().prop_map(|inner| json!({ "patternProperties": {"^a": inner} })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({ "anyOf": all })),
            prop::collection::vec(inner.clone(), 1..3).prop_map(|all| json!({ "oneOf": all })),
            inner.clone().prop_map(|inner| json!({ "not": inner })),
            both.prop_map(|(a, b)| {
                let (Value::Object(mut a), Value::Object(b)) = (a, b) else { return json!(true) };
                a.extend(b);
                Value::Object(a)
            }),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn a_tape_is_read_like_a_tree(schema in schema(), instance in value()) {
        let ours = Schema::compile(schema.to_string().as_bytes()).unwrap();
        let theirs = jsonschema::options().should_validate_formats(false).build(&schema).unwrap();
        let verdict = ours.check(instance.to_string().as_bytes());
        prop_assert_eq!(verdict.is_ok(), theirs.is_valid(&instance), "{:?}", verdict);
        // However it is laid out.
        let pretty = serde_json::to_string_pretty(&instance).unwrap();
        prop_assert_eq!(&verdict, &ours.check(pretty.as_bytes()));
        if let Err(mismatch) = verdict {
            prop_assert!(mismatch.message.len() < 1_000 && mismatch.path.len() < 1_000);
            prop_assert!(!mismatch.to_string().contains(|c: char| c.is_control()));
        }
    }

    #[test]
    fn no_text_makes_it_panic(schema in ".{0,60}", instance in ".{0,60}") {
        let _refused = Schema::compile(schema.as_bytes());
        for kept in [r#"{"type":"object","properties":{"a":{"uniqueItems":true,"items":{"enum":[1,"a"]}}}}"#, "true", r#"{"not":{"type":"string"}}"#] {
            let _verdict = Schema::compile(kept.as_bytes()).unwrap().check(instance.as_bytes());
        }
    }

    #[test]
    fn no_schema_makes_it_panic(schema in value(), keyword in prop::sample::select(&["$ref", "$id", "type", "properties", "items",
        "required", "enum", "allOf", "$dynamicRef", "$anchor", "pattern", "dependencies", "minimum", "$schema", "$defs", "if"][..]), instance in value()) {
        if let Ok(schema) = Schema::compile(json!({ keyword: schema }).to_string().as_bytes()) {
            let _verdict = schema.check(instance.to_string().as_bytes());
        }
    }
}
