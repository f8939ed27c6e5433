//! Arguments of every type and shape: whatever is let through was read, and is inside.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::context::{domain::Host, path::NormalPath};

/// Texts inside and outside, and everything else JSON has, nested a little.
fn value(texts: &'static [&'static str]) -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        4 => prop::sample::select(texts).prop_map(|text| json!(text)),
        1 => Just(Value::Null),
        1 => any::<bool>().prop_map(|flag| json!(flag)),
        1 => any::<i64>().prop_map(|number| json!(number)),
        1 => any::<f64>().prop_map(|number| json!(number)),
    ];
    let keys = prop::sample::select(&["path", "url", "command", "to", "file", "x"][..]);
    leaf.prop_recursive(3, 12, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::Array),
            prop::collection::vec((keys.clone(), inner), 0..4).prop_map(|fields| Value::Object(
                fields
                    .into_iter()
                    .map(|(key, value)| (key.to_owned(), value))
                    .collect()
            )),
        ]
    })
}

const PATHS: &[&str] = &[
    "/workspace/a",
    "b",
    "/etc/passwd",
    "/workspace/../x",
    "",
    "/workspace2",
    "%2e%2e/x",
    "~",
];
const URLS: &[&str] = &[
    "https://example.com/a",
    "https://a.example.com",
    "https://evil.com",
    "http://example.com@evil.com",
    "x",
    "",
];
const COMMANDS: &[&str] = &["cargo", "rm", "", " cargo", "build", "publish"];

fn world() -> World {
    World::of(context(
        vec![Capability {
            path_allowlist: paths(&["/workspace"]),
            domain_allowlist: domains(&["example.com"]),
            subcommand_allowlist: by_command(&[("cargo", &["build"])]),
            ..capability("*")
        }],
        &[],
    ))
}

/// Every text anywhere under this key.
fn texts_under<'a>(value: &'a Value, key: &str, found: &mut Vec<&'a str>) {
    match value {
        Value::Object(members) => {
            for (name, member) in members {
                match member {
                    Value::String(text) if name == key => found.push(text),
                    Value::Array(items) if name == key => {
                        found.extend(items.iter().filter_map(Value::as_str))
                    }
                    _ => {}
                }
                texts_under(member, key, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| texts_under(item, key, found)),
        _ => {}
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 3000, ..ProptestConfig::default() })]

    #[test]
    fn whatever_the_value_nothing_outside_is_let_through(path in value(PATHS), other in value(PATHS), url in value(URLS)) {
        let world = world();
        let files = json!({ "path": path, "x": other });
        if world.rule("fs.read", &files.to_string()).is_none() {
            prop_assert!(path.is_string() || path.is_null() || path.is_array(), "{}", files);
            let mut texts = Vec::new();
            texts_under(&files, "path", &mut texts);
            for text in texts {
                let inside = PathPattern::parse("/workspace").unwrap().covers(&NormalPath::parse(text).unwrap());
                prop_assert!(inside, "{} in {}", text, files);
            }
        }
        let web = json!({ "url": url, "x": other });
        if world.rule("web.fetch", &web.to_string()).is_none() {
            let mut texts = Vec::new();
            texts_under(&web, "url", &mut texts);
            for text in texts {
                let inside = DomainPattern::parse("example.com").unwrap().matches(&Host::of_url(text).unwrap());
                prop_assert!(inside, "{} in {}", text, web);
            }
        }
    }

    #[test]
    fn only_what_is_listed_runs_whatever_the_types(command in value(COMMANDS), args in value(COMMANDS)) {
        let arguments = json!({ "command": command, "args": args });
        if world().rule("cmd.run", &arguments.to_string()).is_none() && !command.is_null() && command.as_str() != Some("") {
            prop_assert_eq!(&command, &json!("cargo"), "{}", arguments);
            prop_assert_eq!(args.get(0), Some(&json!("build")), "{}", arguments);
            prop_assert!(args.as_array().unwrap().iter().all(Value::is_string), "{}", arguments);
        }
    }
}
