mod bombs;
pub(crate) mod random;
mod suite;

use super::*;

fn schema(text: &str) -> Schema {
    Schema::compile(text.as_bytes()).unwrap_or_else(|problem| panic!("{text}: {problem}"))
}

fn says(schema: &Schema, instance: &str) -> String {
    schema
        .check(instance.as_bytes())
        .map_or_else(|mismatch| mismatch.to_string(), |()| "ok".to_owned())
}

#[test]
fn what_is_expected_is_said() {
    let schema = schema(
        r#"{"type":"object","required":["owner","count"],"additionalProperties":false,
            "properties":{"owner":{"type":"string","minLength":2,"maxLength":4,"pattern":"^[a-z]+$"},
              "count":{"type":"integer","minimum":1,"exclusiveMaximum":10,"multipleOf":3},
              "tags":{"type":"array","items":{"enum":["x","y"]},"uniqueItems":true,"maxItems":2,"minItems":1},
              "any":{"anyOf":[{"type":"string"},{"type":"object","properties":{"deep":{"const":5}}}]},
              "maybe":{"type":["string","null"]}}}"#,
    );
    for (instance, wanted) in [
        (r#"{"owner":"abc","count":3}"#, "ok"),
        (r#" { "count" : 3, "\u006fwner" : "\u0061bc" } "#, "ok"),
        (r#"{}"#, "required and missing or null: `count`, `owner`"),
        (
            r#"{"owner":null,"count":3}"#,
            "required and missing or null: `owner`",
        ),
        (r#"[]"#, "must be an object"),
        (
            r#"{"owner":"a","count":3}"#,
            "/owner: must have at least 2 characters",
        ),
        (
            r#"{"owner":"secret","count":3}"#,
            "/owner: must have at most 4 characters",
        ),
        (
            r#"{"owner":"SeCr","count":3}"#,
            "/owner: must match the pattern `^[a-z]+$`",
        ),
        (
            r#"{"owner":"abc","count":"3"}"#,
            "/count: must be an integer",
        ),
        (r#"{"owner":"abc","count":3.0}"#, "ok"),
        (r#"{"owner":"abc","count":0}"#, "/count: must be at least 1"),
        (
            r#"{"owner":"abc","count":12}"#,
            "/count: must be less than 10",
        ),
        (
            r#"{"owner":"abc","count":4}"#,
            "/count: must be a multiple of 3",
        ),
        (
            r#"{"owner":"abc","count":3,"tags":["z"]}"#,
            r#"/tags/0: must be one of [\"x\",\"y\"]"#,
        ),
        (
            r#"{"owner":"abc","count":3,"tags":["x","x"]}"#,
            "/tags: must not have the same item twice",
        ),
        (
            r#"{"owner":"abc","count":3,"tags":[]}"#,
            "/tags: must have at least 1 items",
        ),
        (
            r#"{"owner":"abc","count":3,"any":5}"#,
            "/any: matches none of the 2 allowed forms",
        ),
        (
            r#"{"owner":"abc","count":3,"any":{"deep":6}}"#,
            "/any: matches none of the 2 allowed forms; the closest: /any/deep: must be 5",
        ),
        (r#"{"owner":"abc","count":3,"maybe":null}"#, "ok"),
        (
            r#"{"owner":"abc","count":3,"maybe":1}"#,
            "/maybe: must be null or a string",
        ),
        (
            r#"{"owner":"abc","count":3,"sk-secret":1}"#,
            "must not have the properties `sk-secret`",
        ),
    ] {
        assert_eq!(says(&schema, instance), wanted, "{instance}");
    }
}
