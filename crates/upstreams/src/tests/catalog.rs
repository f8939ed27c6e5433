use std::sync::Arc;

use policy::Permission;
use vocab::{Effect, Level, ServerId, View};

use super::support::{Bench, face, spec};
use crate::{
    Catalog, ListKind,
    catalog::{Face, Found, Names},
    settings::{ServerSpec, ToolRule},
};

/// The catalog of these servers, after the gate has taken notice of what they show.
fn build(servers: &[(Arc<ServerSpec>, Option<Arc<Face>>)]) -> Catalog {
    Bench::new().build(servers)
}

fn blocking(id: &str, tool: &str) -> Arc<ServerSpec> {
    let mut spec = (*spec(id, Some(Level::Public))).clone();
    spec.rules.insert(
        tool.to_owned(),
        ToolRule {
            permission: Permission::Blocked,
            ..ToolRule::default()
        },
    );
    Arc::new(spec)
}

fn names(view: View) -> Names<'static> {
    Names {
        mount: None,
        view,
        tenant: None,
    }
}

fn target(found: Found) -> (String, String) {
    match found {
        Found::Target(target) => (target.spec.id.to_string(), target.name.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tool_is_found_under_every_view_and_shown_verbatim_but_for_its_name() {
    let tool =
        r#"{"title":"T" , "name":"my__tool","inputSchema":{"type":"object","$defs":{"x":1.10}}}"#;
    let catalog = build(&[(spec("github", Some(Level::Public)), Some(face(tool)))]);
    assert_eq!(
        target(catalog.tool(names(View::Double), "github__my__tool")),
        ("github".into(), "my__tool".into())
    );
    assert_eq!(
        target(catalog.tool(names(View::Flat), "mcp_github_my__tool")),
        ("github".into(), "my__tool".into())
    );
    let id = ServerId::parse("github").unwrap();
    let mounted = Names {
        mount: Some(&id),
        view: View::Double,
        tenant: None,
    };
    assert_eq!(
        target(catalog.tool(mounted, "my__tool")),
        ("github".into(), "my__tool".into())
    );
    let shown = &catalog.live(ListKind::Tools, None, View::Double)[0];
    assert_eq!(
        std::str::from_utf8(&shown.raw).unwrap(),
        r#"{"title":"T","name":"github__my__tool","inputSchema":{"type":"object","$defs":{"x":1.10}}}"#
    );
    assert_eq!(
        catalog.live(ListKind::Tools, Some(&id), View::Double)[0].raw,
        tool
    );
}

#[test]
fn an_unclassified_server_is_routable_for_a_clear_refusal_but_not_shown() {
    let catalog = build(&[(spec("new", None), Some(face(r#"{"name":"x"}"#)))]);
    assert!(catalog.live(ListKind::Tools, None, View::Double).is_empty());
    assert!(
        catalog
            .live(ListKind::Resources, None, View::Double)
            .is_empty()
    );
    assert_eq!(
        target(catalog.tool(names(View::Double), "new__x")),
        ("new".into(), "x".into())
    );
}

#[test]
fn a_blocked_tool_is_not_shown() {
    let catalog = build(&[(
        blocking("s", "secret"),
        Some(face(r#"{"name":"secret"},{"name":"open"}"#)),
    )]);
    let shown: Vec<_> = catalog
        .live(ListKind::Tools, None, View::Double)
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(shown, ["s__open"]);
}

#[test]
fn names_that_break_the_grammar_or_look_alike_are_refused_with_a_reason() {
    let tools = r#"{"name":"read_file"},{"name":"Read-File"},{"name":"bad name"},{"name":""},{"name":"caf\u00e9"},{"name":"l1st"},{"name":"list"}"#;
    let catalog = build(&[(spec("s", Some(Level::Public)), Some(face(tools)))]);
    let shown: Vec<_> = catalog
        .live(ListKind::Tools, None, View::Double)
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(shown, ["s__read_file", "s__l1st"]);
    assert_eq!(catalog.refused_names().len(), 5);
}

#[test]
fn digits_and_pairs_of_letters_do_not_pass_for_a_letter() {
    let tools = r#"{"name":"say"},{"name":"5ay"},{"name":"mail"},{"name":"rnail"},{"name":"write"},{"name":"vvrite"},{"name":"s_1"},{"name":"s_2"}"#;
    let catalog = build(&[(spec("s", Some(Level::Public)), Some(face(tools)))]);
    let shown: Vec<_> = catalog
        .live(ListKind::Tools, None, View::Double)
        .iter()
        .map(|tool| tool.name.as_str())
        .collect();
    assert_eq!(shown, ["s__say", "s__mail", "s__write", "s__s_1", "s__s_2"]);
}

#[test]
fn names_that_meet_in_the_flat_view_belong_to_nobody_whoever_connects_first() {
    let short = || {
        (
            spec("a", Some(Level::Public)),
            Some(face(r#"{"name":"b_c"},{"name":"d"}"#)),
        )
    };
    let long = || {
        (
            spec("a_b", Some(Level::Public)),
            Some(face(r#"{"name":"c"}"#)),
        )
    };
    let absent = || (spec("a_b", Some(Level::Public)), None);
    for servers in [[short(), long()], [long(), short()]] {
        let catalog = build(&servers);
        assert!(!matches!(
            catalog.tool(names(View::Flat), "mcp_a_b_c"),
            Found::Target(_)
        ));
        assert_eq!(
            target(catalog.tool(names(View::Double), "a_b__c")),
            ("a_b".into(), "c".into())
        );
        assert_eq!(
            target(catalog.tool(names(View::Flat), "mcp_a_d")),
            ("a".into(), "d".into())
        );
        assert_eq!(
            target(catalog.tool(names(View::Double), "a__b_c")),
            ("a".into(), "b_c".into())
        );
        assert_eq!(catalog.refused_names().len(), 2);
    }
    for servers in [[short(), absent()], [absent(), short()]] {
        let catalog = build(&servers);
        assert!(
            !matches!(
                catalog.tool(names(View::Flat), "mcp_a_b_c"),
                Found::Target(_)
            ),
            "the shorter id stood in"
        );
    }
}

#[test]
fn effects_come_from_the_operator_then_the_lock_then_the_name_and_never_from_hints() {
    let mut said = (*spec("s", Some(Level::Public))).clone();
    said.rules.insert(
        "get_a".to_owned(),
        ToolRule {
            effect: Some(Effect::Consequential),
            ..ToolRule::default()
        },
    );
    let tools = r#"{"name":"get_a"},{"name":"get_b","annotations":{"readOnlyHint":false,"destructiveHint":true}},
        {"name":"delete_c","annotations":{"readOnlyHint":true}}"#;
    let catalog = build(&[(Arc::new(said), Some(face(tools)))]);
    let effect = |name: &str| match catalog.tool(names(View::Double), name) {
        Found::Target(target) => target.effect,
        other => panic!("{other:?}"),
    };
    assert_eq!(effect("s__get_a"), Effect::Consequential);
    assert_eq!(effect("s__get_b"), Effect::Read);
    assert_eq!(effect("s__delete_c"), Effect::Consequential);
}

#[test]
fn an_unknown_name_is_nothing_and_a_server_without_a_catalog_is_not_yet() {
    let catalog = build(&[(spec("s", Some(Level::Public)), None)]);
    assert!(matches!(
        catalog.tool(names(View::Double), "s__x"),
        Found::NotYet(_)
    ));
    assert!(matches!(
        catalog.tool(names(View::Double), "other__x"),
        Found::Nothing
    ));
    assert!(matches!(
        catalog.tool(names(View::Double), "plain"),
        Found::Nothing
    ));
}

#[test]
fn resources_are_found_by_exposed_uri_alias_and_when_unambiguous_by_their_own() {
    let one = (spec("one", Some(Level::Public)), Some(face("")));
    let catalog = build(std::slice::from_ref(&one));
    for uri in [
        "portcullis://one/demo://a",
        "capsem://one/demo://a",
        "demo://a",
    ] {
        assert_eq!(
            target(catalog.resource(None, uri, |_| true)),
            ("one".into(), "demo://a".into()),
            "{uri}"
        );
    }
    assert_eq!(
        target(catalog.resource(None, "portcullis://one/tmpl://x/1", |_| true)),
        ("one".into(), "tmpl://x/1".into())
    );
    assert!(matches!(
        catalog.resource(None, "portcullis://nobody/demo://a", |_| true),
        Found::Nothing
    ));
    let both = build(&[one, (spec("two", Some(Level::Public)), Some(face("")))]);
    assert!(
        matches!(both.resource(None, "demo://a", |_| true), Found::Nothing),
        "two servers offer it"
    );
}
