use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytes::Bytes;
use policy::Permission;
use vocab::{Level, ServerId, View};

use crate::{
    Catalog, Era,
    catalog::{Face, Found, Names},
    settings::{Allow, ServerSpec, Standing, Transport},
};

fn spec(id: &str, classification: Option<Level>) -> Arc<ServerSpec> {
    Arc::new(ServerSpec {
        id: ServerId::parse(id).unwrap(),
        transport: Transport::Nothing,
        classification,
        standing: Standing::Enabled,
        timeout: Duration::from_secs(60),
        max_result_bytes: 1 << 20,
        default_permission: Permission::Permitted,
        permissions: BTreeMap::from([("secret".to_owned(), Permission::Blocked)]),
        health: None,
        allow: Allow { sampling: false, roots: false, elicitation: true },
    })
}

fn face(tools: &str) -> Arc<Face> {
    let hello = Bytes::from_static(
        br#"{"protocol":"2025-11-25","era":"legacy","capabilities":{"tools":{},"tasks":{"x":1},"extensions":{}}}"#,
    );
    let lists = format!(r#"{{"tools":[{tools}],"resources":[{{"uri":"demo://a","name":"a"}}],"templates":[],"prompts":[]}}"#);
    Arc::new(Face::read(&hello, &lists.into()).unwrap())
}

fn names(view: View) -> Names<'static> {
    Names { mount: None, view }
}

fn target(found: Found) -> (String, String) {
    match found {
        Found::Target(target) => (target.spec.id.to_string(), target.name.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_tool_is_found_under_every_view_and_shown_verbatim_but_for_its_name() {
    let tool = r#"{"title":"T" , "name":"my__tool","inputSchema":{"type":"object","$defs":{"x":1.10}}}"#;
    let catalog = Catalog::build(&[(spec("github", Some(Level::Public)), Some(face(tool)))]);
    assert_eq!(target(catalog.tool(names(View::Double), "github__my__tool")), ("github".into(), "my__tool".into()));
    assert_eq!(target(catalog.tool(names(View::Flat), "mcp_github_my__tool")), ("github".into(), "my__tool".into()));
    let id = ServerId::parse("github").unwrap();
    let mounted = Names { mount: Some(&id), view: View::Double };
    assert_eq!(target(catalog.tool(mounted, "my__tool")), ("github".into(), "my__tool".into()));
    let shown = &catalog.tools(None, View::Double)[0];
    assert_eq!(
        std::str::from_utf8(&shown.raw).unwrap(),
        r#"{"title":"T","name":"github__my__tool","inputSchema":{"type":"object","$defs":{"x":1.10}}}"#
    );
    assert_eq!(catalog.tools(Some(&id), View::Double)[0].raw, tool);
}

#[test]
fn an_unclassified_server_is_routable_for_a_clear_refusal_but_not_shown() {
    let catalog = Catalog::build(&[(spec("new", None), Some(face(r#"{"name":"x"}"#)))]);
    assert!(catalog.tools(None, View::Double).is_empty());
    assert!(catalog.resources(None, View::Double).is_empty());
    assert_eq!(target(catalog.tool(names(View::Double), "new__x")), ("new".into(), "x".into()));
}

#[test]
fn a_blocked_tool_is_not_shown() {
    let catalog = Catalog::build(&[(spec("s", Some(Level::Public)), Some(face(r#"{"name":"secret"},{"name":"open"}"#)))]);
    let shown: Vec<_> = catalog.tools(None, View::Double).iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(shown, ["s__open"]);
}

#[test]
fn names_that_break_the_grammar_or_look_alike_are_refused_with_a_reason() {
    let tools = r#"{"name":"read_file"},{"name":"Read-File"},{"name":"bad name"},{"name":""},{"name":"caf\u00e9"},{"name":"l1st"},{"name":"list"}"#;
    let catalog = Catalog::build(&[(spec("s", Some(Level::Public)), Some(face(tools)))]);
    let shown: Vec<_> = catalog.tools(None, View::Double).iter().map(|tool| tool.name.as_str()).collect();
    assert_eq!(shown, ["s__read_file", "s__l1st"]);
    assert_eq!(catalog.refused_names().len(), 5);
}

#[test]
fn pairs_that_meet_in_a_view_do_not_answer_for_each_other() {
    let servers = [
        (spec("a", Some(Level::Public)), Some(face(r#"{"name":"b_c"}"#))),
        (spec("a_b", Some(Level::Public)), Some(face(r#"{"name":"c"}"#))),
    ];
    let catalog = Catalog::build(&servers);
    assert_eq!(target(catalog.tool(names(View::Flat), "mcp_a_b_c")), ("a".into(), "b_c".into()));
    assert_eq!(target(catalog.tool(names(View::Double), "a_b__c")), ("a_b".into(), "c".into()));
    assert_eq!(catalog.refused_names().len(), 1);
}

#[test]
fn an_unknown_name_is_nothing_and_a_server_without_a_catalog_is_not_yet() {
    let catalog = Catalog::build(&[(spec("s", Some(Level::Public)), None)]);
    assert!(matches!(catalog.tool(names(View::Double), "s__x"), Found::NotYet(_)));
    assert!(matches!(catalog.tool(names(View::Double), "other__x"), Found::Nothing));
    assert!(matches!(catalog.tool(names(View::Double), "plain"), Found::Nothing));
}

#[test]
fn resources_are_found_by_exposed_uri_alias_and_when_unambiguous_by_their_own() {
    let one = (spec("one", Some(Level::Public)), Some(face("")));
    let catalog = Catalog::build(std::slice::from_ref(&one));
    for uri in ["portcullis://one/demo://a", "capsem://one/demo://a", "demo://a"] {
        assert_eq!(target(catalog.resource(None, uri)), ("one".into(), "demo://a".into()), "{uri}");
    }
    assert_eq!(target(catalog.resource(None, "portcullis://one/tmpl://x/1")), ("one".into(), "tmpl://x/1".into()));
    assert!(matches!(catalog.resource(None, "portcullis://nobody/demo://a"), Found::Nothing));
    let both = Catalog::build(&[one, (spec("two", Some(Level::Public)), Some(face("")))]);
    assert!(matches!(both.resource(None, "demo://a"), Found::Nothing), "two servers offer it");
}

#[test]
fn capabilities_lose_what_does_not_cross_between_eras() {
    let face = face("");
    assert_eq!(face.capabilities_for(Era::Legacy), r#"{"tools":{},"tasks":{"x":1}}"#);
    assert_eq!(face.capabilities_for(Era::Modern), r#"{"tools":{}}"#);
}
