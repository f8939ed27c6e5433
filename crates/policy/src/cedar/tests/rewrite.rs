use proptest::prelude::*;

use super::{bundle, with_arguments};
use crate::cedar::rewrite;

/// What is left of the arguments after the rewrites of these policies.
fn rewritten(changes: &[(&str, &str, &str)], arguments: &str) -> Result<String, String> {
    let policies: String = changes
        .iter()
        .map(|(path, matching, with)| {
            format!("@effect(\"rewrite\") @rewrite({path:?}) @matching({matching:?}) @with({with:?}) permit (principal, action, resource);\n")
        })
        .collect();
    let decision = bundle(&policies).decide(&with_arguments(arguments));
    assert_eq!(decision.rewrites().len(), changes.len());
    rewrite(arguments.as_bytes(), decision.rewrites()).map(|text| String::from_utf8(text).unwrap())
}

#[test]
fn only_the_named_strings_change_and_every_other_byte_stays() {
    let text = "{ \"body\" : \"mail bob@x.org\\u0021\",\n \"n\":1.50, \"other\":\"bob@x.org\" }";
    let masked = rewritten(&[("body", "[a-z]+@([a-z.]+)", "…@$1")], text).unwrap();
    assert_eq!(
        masked,
        "{ \"body\" : \"mail …@x.org!\",\n \"n\":1.50, \"other\":\"bob@x.org\" }"
    );
    assert_eq!(rewritten(&[("other", "nobody", "x")], text).unwrap(), text);
    assert_eq!(
        rewritten(&[("absent.deep[3]", "a", "b")], text).unwrap(),
        text
    );
}

#[test]
fn a_path_reaches_every_string_under_it_and_no_key() {
    let text = r#"{"to":[{"a":"a","n":1,"z":null},{"a":"ba"}],"cc":["a","c"]}"#;
    assert_eq!(
        rewritten(&[("to", "a", "X")], text).unwrap(),
        r#"{"to":[{"a":"X","n":1,"z":null},{"a":"bX"}],"cc":["a","c"]}"#
    );
    assert_eq!(
        rewritten(&[("to[].a", "b", "")], text).unwrap(),
        r#"{"to":[{"a":"a","n":1,"z":null},{"a":"a"}],"cc":["a","c"]}"#
    );
    assert_eq!(
        rewritten(&[("cc[1]", "c", "\"\n")], text).unwrap(),
        r#"{"to":[{"a":"a","n":1,"z":null},{"a":"ba"}],"cc":["a","\"\n"]}"#
    );
}

#[test]
fn rewrites_follow_one_another_in_the_order_of_the_bundle() {
    assert_eq!(
        rewritten(&[("b", "x", "y"), ("b", "y", "z")], r#"{"b":"xy"}"#).unwrap(),
        r#"{"b":"zz"}"#
    );
    assert_eq!(
        rewritten(&[("b", "y", "z"), ("b", "x", "y")], r#"{"b":"xy"}"#).unwrap(),
        r#"{"b":"yz"}"#
    );
}

#[test]
fn what_a_rewrite_cannot_change_fails() {
    for held in ["1", "true"] {
        let error = rewritten(&[("b", "x", "y")], &format!("{{\"b\":{held}}}")).unwrap_err();
        assert!(error.contains("`b`"), "{error}");
    }
    assert!(rewritten(&[("b.c", "x", "y")], r#"{"b":"x"}"#).is_err());
    assert!(rewritten(&[("b[0]", "x", "y")], r#"{"b":{"x":"x"}}"#).is_err());
    assert_eq!(
        rewritten(&[("b", "x", "y")], r#"{"b":null}"#).unwrap(),
        r#"{"b":null}"#
    );
    let growth = rewritten(
        &[("b", "x", &"y".repeat(2000))],
        &format!("{{\"b\":\"{}\"}}", "x".repeat(2000)),
    );
    assert!(growth.unwrap_err().contains("too long"));
}

proptest! {
    /// Whatever the strings hold, the result is valid JSON and only the value at the path is another.
    #[test]
    fn the_result_is_json_and_differs_only_at_the_path(a in any::<String>(), b in any::<String>()) {
        let text = serde_json::json!({"a": a, "b": b}).to_string();
        let changed = rewritten(&[("a", ".", "\\$0")], &text).unwrap();
        let value: serde_json::Value = serde_json::from_str(&changed).unwrap();
        prop_assert_eq!(value["b"].as_str(), Some(b.as_str()));
        wire::Json::parse(changed.as_bytes(), wire::Limits::default()).unwrap();
    }
}
