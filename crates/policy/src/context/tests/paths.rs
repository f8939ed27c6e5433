//! Paths: nothing outside is ever admitted, whatever it looks like.

use proptest::prelude::*;

use super::*;
use crate::context::path::{BadPath, NormalPath};

fn covers(pattern: &str, path: &str) -> bool {
    PathPattern::parse(pattern)
        .unwrap()
        .covers(&NormalPath::parse(path).unwrap())
}

#[test]
fn an_entry_covers_what_it_matches_and_everything_beneath() {
    let cases = [
        ("/workspace", "/workspace", true),
        ("/workspace", "/workspace/a/b", true),
        ("/workspace/", "/workspace", true),
        ("/workspace", "/workspace2", false),
        ("/workspace", "/workspace_secret/a", false),
        ("/workspace", "/Workspace/a", false),
        ("/workspace", "/", false),
        ("/workspace/src", "/workspace", false),
        ("/workspace/*", "/workspace", false),
        ("/workspace/*", "/workspace/a", true),
        ("/workspace/*", "/workspace/a/b", true),
        ("/workspace/**", "/workspace", true),
        ("/workspace/**/x.rs", "/workspace/a/b/x.rs", true),
        ("/workspace/**/x.rs", "/workspace/x.rs", true),
        ("/workspace/**/x.rs", "/workspace/a/y.rs", false),
        ("/workspace/*.rs", "/workspace/main.rs", true),
        ("/workspace/*.rs", "/workspace/main.py", false),
        ("/workspace/?", "/workspace/ab", false),
        ("/data/*/public", "/data/x/public/y", true),
        ("/data/*/public", "/data/x/private", false),
        ("/", "/anything", true),
        ("src", "/workspace/src/a", true),
        ("src", "src/a", true),
        ("src", "/src/a", false),
    ];
    for (pattern, path, expected) in cases {
        assert_eq!(covers(pattern, path), expected, "{pattern} {path}");
    }
}

#[test]
fn paths_are_normalised_by_component() {
    let normal = |text: &str| NormalPath::parse(text).map(|path| path.to_string());
    assert_eq!(normal("//workspace///a/./b/").unwrap(), "/workspace/a/b");
    assert_eq!(normal("a/b").unwrap(), "/workspace/a/b");
    assert_eq!(normal("./a").unwrap(), "/workspace/a");
    assert_eq!(
        normal("/workspace/100%.txt").unwrap(),
        "/workspace/100%.txt"
    );
    assert_eq!(
        normal("/workspace/My%20File%C3%A9.pdf").unwrap(),
        "/workspace/My%20File%C3%A9.pdf"
    );
    assert_eq!(
        normal("/workspace/a..b/..c").unwrap(),
        "/workspace/a..b/..c"
    );
    assert_eq!(
        normal("/workspace/späte Grüße").unwrap(),
        "/workspace/späte Grüße"
    );
}

#[test]
fn whatever_could_climb_is_a_traversal() {
    let climbing = [
        "..",
        "../etc",
        "/workspace/..",
        "/workspace/../workspace/a",
        "a/../b",
        "/workspace/a/..",
        "..\\..\\etc",
        "a\\..\\b",
        "%2e%2e/etc",
        "/workspace/%2e%2e/%2e%2e/etc",
        "/workspace/..%2f..%2fetc",
        "%252e%252e%252fetc",
        "/workspace/.%2e/a",
        "/workspace/%2E./a",
        "/workspace/.. /a",
        "/workspace/../ ",
        "/workspace/.../a",
        "/workspace/. ./a",
        "/workspace/．．/a",
        "/workspace/‥/a",
        "/workspace/․․/a",
        "..／etc",
        "a∕..∕b",
        "..\0/a",
        "/workspace/..\u{1}/a",
        "/workspace/..%00/a",
        "%25252525252e%25252525252e/x",
    ];
    for text in climbing {
        assert_eq!(NormalPath::parse(text), Err(BadPath::Traversal), "{text:?}");
    }
}

#[test]
fn what_has_two_readings_has_none() {
    let long = format!("/workspace/{}", "a/".repeat(3000));
    let unclear = [
        "",
        "/workspace/a\0b",
        "/workspace/a\nb",
        "/workspace/a\\b",
        "C:\\Windows",
        "/workspace/a%2fb",
        "/workspace/a%5Cb",
        "/workspace/a%00.txt",
        "/workspace/a%252fb",
        "/workspace/%2eenv",
        "/workspace/%61",
        "/workspace/a%7eb",
        "/workspace/a%0ab",
        "~/x",
        "~root/x",
        "file:///etc/passwd",
        "/workspace/a.",
        "/workspace/a ",
        "/workspace /a",
        "/workspace./a",
        long.as_str(),
    ];
    for text in unclear {
        assert!(
            matches!(NormalPath::parse(text), Err(BadPath::Unclear(_))),
            "{text:?} {:?}",
            NormalPath::parse(text)
        );
    }
}

#[test]
fn globs_of_a_search_are_paths_too() {
    let world = World::of(context(
        vec![Capability {
            path_allowlist: paths(&["/workspace"]),
            ..capability("fs.*")
        }],
        &[],
    ));
    let rule = |pattern: &str| {
        world.rule(
            "fs.glob",
            &format!(r#"{{"path":"/workspace","pattern":{pattern:?}}}"#),
        )
    };
    for fine in ["**/*.rs", "/workspace/**", "src/{a,b}/*.ts", "*"] {
        assert_eq!(rule(fine), None, "{fine}");
    }
    for (bad, expected) in [
        ("../**", Rule::PathTraversalAttempt),
        ("{..,src}/**", Rule::PathTraversalAttempt),
        ("a/../../b", Rule::PathTraversalAttempt),
        ("/etc/*", Rule::PathOutsideBoundary),
        ("/*", Rule::PathOutsideBoundary),
        ("a\\b", Rule::PathOutsideBoundary),
    ] {
        assert_eq!(rule(bad), Some(expected), "{bad}");
    }
}

/// Pieces that are put together to texts that try to get out.
fn piece() -> impl Strategy<Value = String> {
    prop_oneof![
        Just("..".to_owned()),
        Just(".".to_owned()),
        Just("...".to_owned()),
        Just(". .".to_owned()),
        Just("%2e%2e".to_owned()),
        Just("workspace".to_owned()),
        Just("workspace2".to_owned()),
        Just("etc".to_owned()),
        Just(String::new()),
        Just("\\".to_owned()),
        Just("~".to_owned()),
        Just("．．".to_owned()),
        "[a-z.%~ ]{0,4}",
    ]
}

/// The plainest possible second opinion: walk the components as a kernel would, and see where one ends up.
fn where_it_leads(text: &str) -> Vec<String> {
    let mut at = if text.starts_with('/') {
        Vec::new()
    } else {
        vec!["workspace".to_owned()]
    };
    for part in text.split('/') {
        match part {
            "" | "." => {}
            ".." => drop(at.pop()),
            name => at.push(name.to_owned()),
        }
    }
    at
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, ..ProptestConfig::default() })]

    #[test]
    fn nothing_outside_is_admitted(parts in prop::collection::vec(piece(), 0..7), absolute: bool) {
        let text = format!("{}{}", if absolute { "/" } else { "" }, parts.join("/"));
        let pattern = PathPattern::parse("/workspace").unwrap();
        let admitted = NormalPath::parse(&text).is_ok_and(|path| pattern.covers(&path));
        if admitted {
            let leads = where_it_leads(&text);
            prop_assert_eq!(leads.first().map(String::as_str), Some("workspace"), "{:?}", text);
            prop_assert!(!text.split('/').any(|part| part == ".."), "{:?}", text);
        }
    }

    #[test]
    fn whatever_is_admitted_normalises_to_itself(text in "[a-z/. ]{0,30}") {
        if let Ok(path) = NormalPath::parse(&text) {
            let once = path.to_string();
            prop_assert_eq!(NormalPath::parse(&once).map(|path| path.to_string()), Ok(once));
        }
    }

    #[test]
    fn a_pattern_without_wildcards_is_a_prefix_by_component(
        pattern in prop::collection::vec("[ab]{1,2}", 0..4),
        path in prop::collection::vec("[ab]{1,2}", 0..6),
    ) {
        let covers = covers(&format!("/{}", pattern.join("/")), &format!("/{}", path.join("/")));
        prop_assert_eq!(covers, path.starts_with(&pattern));
    }
}
