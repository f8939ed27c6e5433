//! The merge, against a model that knows nothing of trees with places.

use std::{collections::BTreeMap, path::Path};

use proptest::prelude::*;
use serde_json::{Map, Value as Json, json};

use super::*;
use crate::explain;

fn raw(name: &str, text: &str) -> Raw {
    Raw::parse(Path::new(name), text).unwrap()
}

fn merged(corp: &str, user: &str, imported: Option<&str>) -> Raw {
    let imported = imported.map(|text| raw("imported.yaml", text));
    merge(
        raw("portcullis.yaml", user),
        Some(raw("corp.yaml", corp)),
        imported,
    )
    .unwrap()
}

/// What a tree says, without places.
fn plain(node: &Node) -> Json {
    match &node.value {
        Value::Scalar { text, .. } => json!(text),
        Value::List(items) => items.iter().map(plain).collect(),
        Value::Map(entries) => entries
            .iter()
            .map(|(key, node)| (key.name.clone(), plain(node)))
            .collect(),
    }
}

/// The model: maps by name, everything else replaces, and nothing of a person's at or below a locked path.
fn model(corp: &Json, user: &Json, locks: &[Vec<String>], path: &[String]) -> Option<Json> {
    let is_locked = |path: &[String]| {
        locks.iter().any(|lock| {
            lock.len() <= path.len()
                && lock
                    .iter()
                    .zip(path)
                    .all(|(lock, name)| lock == "*" || lock == name)
        })
    };
    let (Json::Object(lower), Json::Object(upper)) = (corp, user) else {
        return Some(user.clone());
    };
    let mut whole = lower.clone();
    for (name, value) in upper {
        let path = [path, std::slice::from_ref(name)].concat();
        if is_locked(&path) {
            continue;
        }
        let below = lower.get(name).cloned();
        let value = match below {
            Some(below @ Json::Object(_)) if value.is_object() => {
                model(&below, value, locks, &path)?
            }
            _ => stripped(value, &is_locked, &path),
        };
        whole.insert(name.clone(), value);
    }
    Some(Json::Object(whole))
}

fn stripped(value: &Json, is_locked: &dyn Fn(&[String]) -> bool, path: &[String]) -> Json {
    let Json::Object(map) = value else {
        return value.clone();
    };
    let kept = map.iter().filter_map(|(name, value)| {
        let path = [path, std::slice::from_ref(name)].concat();
        (!is_locked(&path)).then(|| (name.clone(), stripped(value, is_locked, &path)))
    });
    Json::Object(kept.collect::<Map<String, Json>>())
}

fn names() -> impl Strategy<Value = String> {
    prop::sample::select(vec!["a", "b", "c", "d"]).prop_map(str::to_owned)
}

fn tree() -> impl Strategy<Value = Json> {
    let leaf = prop_oneof![
        (0..3u8).prop_map(|number| json!(format!("v{number}"))),
        prop::collection::vec(0..3u8, 0..3)
            .prop_map(|items| items.iter().map(|item| json!(format!("i{item}"))).collect()),
    ];
    let inner = leaf.prop_recursive(3, 24, 4, |inner| {
        prop::collection::btree_map(names(), inner, 0..4)
            .prop_map(|map: BTreeMap<String, Json>| Json::Object(map.into_iter().collect()))
    });
    prop::collection::btree_map(names(), inner, 0..4)
        .prop_map(|map| Json::Object(map.into_iter().collect()))
}

fn lock() -> impl Strategy<Value = Vec<String>> {
    let rest = prop_oneof![3 => names(), 1 => Just("*".to_owned())];
    (names(), prop::collection::vec(rest, 0..2))
        .prop_map(|(first, rest)| [vec![first], rest].concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn ten_thousand_merges_equal_a_plain_model(corp in tree(), user in tree(), locks in prop::collection::vec(lock(), 0..3)) {
        let dotted: Vec<String> = locks.iter().map(|lock| lock.join(".")).collect();
        let mut whole = corp.clone();
        whole["locks"] = json!(dotted);
        let merged = merged(&whole.to_string(), &user.to_string(), None);
        prop_assert_eq!(Some(plain(&merged.root)), model(&corp, &user, &locks, &[]));
        // What was passed over is what the person wrote at a lock, and all of it.
        for passed in &merged.layers.passed_over {
            let path: Vec<&str> = passed.path.split('.').collect();
            prop_assert!(merged.layers.lock(&path).is_some());
        }
    }
}

#[test]
fn a_list_and_a_map_of_servers_are_one_set() {
    let corp = "mcp_servers: { a: { url: \"https://a.example/mcp\", timeout: 5s }, b: { url: \"https://b.example/mcp\" } }\n";
    let user =
        "mcp_servers:\n- { name: a, timeout: 9s }\n- { name: c, url: \"https://c.example/mcp\" }\n";
    let resolved = merged(corp, user, None).resolve().unwrap();
    let ids: Vec<&str> = resolved
        .servers
        .iter()
        .map(|server| server.id.as_str())
        .collect();
    assert_eq!(ids, ["a", "b", "c"]);
    assert_eq!(
        resolved.server("a").unwrap().target.budget.time.as_secs(),
        9
    );
}

#[test]
fn what_is_imported_only_adds() {
    let corp =
        "locks: [mcp_servers.secret]\nmcp_servers: { a: { url: \"https://a.example/mcp\" } }\n";
    let user = "mcp_servers: { b_c: { url: \"https://b.example/mcp\" } }\n";
    let imported = "listen: 127.0.0.1:1\nmcp_servers:\n  a: { command: evil }\n  b-c: { command: evil }\n  secret: { command: evil }\n  d: { command: good, enabled: false }\n";
    let raw = merged(corp, user, Some(imported));
    let resolved = raw.resolve().unwrap();
    let ids: Vec<&str> = resolved
        .servers
        .iter()
        .map(|server| server.id.as_str())
        .collect();
    assert_eq!(ids, ["a", "b_c", "d"]);
    assert_eq!(resolved.listen, crate::default_listen());
    let passed: Vec<&str> = raw
        .layers
        .passed_over
        .iter()
        .map(|passed| passed.path.as_str())
        .collect();
    assert_eq!(
        passed,
        [
            "mcp_servers.secret",
            "listen",
            "mcp_servers.a",
            "mcp_servers.b-c"
        ]
    );
    let rows = explain(&raw, &[]);
    let row = rows
        .iter()
        .find(|row| row.key == "mcp_servers.d.command")
        .unwrap();
    assert_eq!(
        (row.layer.as_str(), row.origin.as_str()),
        ("imported", "imported.yaml:6")
    );
}

#[test]
fn what_is_forbidden_is_blocked_wherever_it_stands() {
    let corp =
        "forbid: [npx, { host: \"*.bad.example\" }]\nmcp_servers: { own: { command: npx } }\n";
    let user = "mcp_servers: { a: { command: /bin/npx }, b: { url: \"https://x.bad.example/mcp\" }, c: { command: node } }\n";
    let resolved = merged(corp, user, None).resolve().unwrap();
    let blocked = |id: &str| resolved.server(id).unwrap().blocked.is_some();
    assert!(blocked("a") && blocked("b") && !blocked("c"));
    assert!(!blocked("own"), "the company may have it");
}

#[test]
fn a_mistake_is_reported_with_the_file_it_is_in() {
    let report = merged(
        "limits: { max_depth: 1000000 }\n",
        "lisen: x\n",
        Some("mcp_servers:\n  A: {}\n"),
    )
    .resolve()
    .unwrap_err()
    .to_string();
    for place in ["corp.yaml:1:", "portcullis.yaml:1:", "imported.yaml:2:"] {
        assert!(report.contains(place), "{place}\n{report}");
    }
}
