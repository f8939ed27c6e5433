//! The earliest failing step is the one that is reported, for every combination of failures.

use proptest::prelude::*;
use vocab::{Effect, Level, ServerId};

use super::*;
use crate::{Account, Facts, Influence, Permission, ServerState, Standing, Unmetered};

/// Every tool, with arguments that pass and arguments that fail its own bound.
const CALLS: &[(&str, &str, &str, Rule)] = &[
    (
        "fs.read",
        r#"{"path":"/workspace/a"}"#,
        r#"{"path":"/etc/a"}"#,
        Rule::PathOutsideBoundary,
    ),
    (
        "fs.read",
        r#"{"path":"a"}"#,
        r#"{"path":"/workspace/../a"}"#,
        Rule::PathTraversalAttempt,
    ),
    (
        "web.fetch",
        r#"{"url":"https://example.com"}"#,
        r#"{"url":"https://evil.com"}"#,
        Rule::DomainNotAllowed,
    ),
    (
        "cmd.run",
        r#"{"command":"ls","args":["a"]}"#,
        r#"{"command":"rm"}"#,
        Rule::CommandNotAllowed,
    ),
    (
        "cmd.run",
        r#"{"command":"ls","args":["a"]}"#,
        r#"{"command":"ls","args":["b"]}"#,
        Rule::SubcommandNotAllowed,
    ),
    (
        "cmd.run",
        r#"{"command":"ls","args":["a"]}"#,
        r#"{"command":"ls","args":["a"],"timeout_secs":999}"#,
        Rule::ExecTimeoutCeilingExceeded,
    ),
];

fn world(name: &str, is_listed: bool, is_denied: bool, is_spent: bool) -> World {
    let all = Capability {
        path_allowlist: paths(&["/workspace"]),
        domain_allowlist: domains(&["example.com"]),
        subcommand_allowlist: by_command(&[("ls", &["a"])]),
        ..capability("*")
    };
    let listed = if is_listed { name } else { "other.tool" };
    World {
        agent: Some(AgentTools {
            max_calls_per_execution: Some(5),
            ..agent(&[listed])
        }),
        calls: if is_spent { 5 } else { 4 },
        ..World::of(context(vec![all], if is_denied { &["*"] } else { &[] }))
    }
}

proptest! {
    #[test]
    fn the_earliest_failing_step_is_reported(
        at in 0..CALLS.len(), is_listed: bool, is_denied: bool, is_spent: bool, is_outside: bool,
    ) {
        let (name, good, bad, own) = CALLS[at];
        let world = world(name, is_listed, is_denied, is_spent);
        let expected = match (is_listed, is_denied, is_spent, is_outside) {
            (false, ..) => Some(Rule::ToolNotAllowed),
            (_, true, ..) => Some(Rule::ToolExplicitlyDenied),
            (_, _, true, _) => Some(Rule::RateLimitExceeded),
            (.., true) => Some(own),
            _ => None,
        };
        let arguments = if is_outside { bad } else { good };
        prop_assert_eq!(world.rule(name, arguments), expected);
        prop_assert_eq!(through_the_table(&world, name, arguments), expected, "and the table hears them in the same order");
    }
}

/// The same through the rows of the check table.
fn through_the_table(world: &World, name: &str, arguments: &str) -> Option<Rule> {
    let id = ServerId::parse("s").unwrap();
    world.with(name, &[], arguments, |boundary| {
        let facts = facts(&id, boundary, arguments);
        let admitted = crate::admit(&facts).map(drop);
        let budget = crate::Budget {
            time: Duration::from_secs(60),
            result_bytes: 1 << 20,
        };
        let bounded = admitted.and_then(|()| crate::bound(&facts, budget, budget).map(drop));
        bounded
            .and_then(|()| crate::shape(&facts).map(drop))
            .err()
            .map(|violation| violation.rule)
    })
}

fn facts<'a>(id: &'a ServerId, boundary: &'a Boundary<'a>, arguments: &'a str) -> Facts<'a> {
    Facts {
        server: id,
        state: ServerState::Classified(Level::Internal),
        target: "own",
        permission: Permission::Permitted,
        standing: Standing::Approved,
        may_use_server: true,
        is_named: false,
        account: Account::Shared,
        meter: &Unmetered,
        accepts: None,
        effect: Effect::Read,
        influence: Influence::Ask,
        ruling: None,
        arguments: Some(Json::checked_before(arguments.as_bytes())),
        sent: Some(Json::checked_before(arguments.as_bytes())),
        input_schema: None,
        scans_injection: true,
        built_in: None,
        boundary: Some(boundary),
        on_volumes: &[],
    }
}

#[test]
fn a_missing_field_is_named_in_the_agreed_words() {
    let id = ServerId::parse("s").unwrap();
    let world = World::of(context(vec![capability("*")], &[]));
    let schema = shape::Schema::compile(br#"{"type":"object","required":["b","a"]}"#).unwrap();
    let public = |name: &str, arguments: &str, with_schema: bool| {
        world.with(name, &[], arguments, |boundary| {
            let facts = Facts {
                input_schema: with_schema.then_some(&schema),
                ..facts(&id, boundary, arguments)
            };
            crate::shape(&facts)
                .err()
                .map(|violation| (violation.rule, violation.public()))
        })
    };
    let said = |field: &str, tool: &str| {
        let text = format!(
            "Invalid tool arguments: required field '{field}' is missing or null for tool '{tool}'"
        );
        Some((Rule::InvalidArguments, text))
    };
    assert_eq!(
        public("aegis.agent.create", "{}", false),
        said("manifest_yaml", "aegis.agent.create")
    );
    assert_eq!(
        public("fs.write", r#"{"path":"a","content":null}"#, false),
        said("content", "fs.write")
    );
    assert_eq!(public("fs.write", "{}", false), said("path", "fs.write"));
    assert_eq!(
        public("fs.write", r#"{"path":"a","content":""}"#, false),
        None,
        "an empty file is a file"
    );
    for command in [r#""""#, r#"" \t""#, "7", "null", "[]"] {
        assert_eq!(
            public("cmd.run", &format!(r#"{{"command":{command}}}"#), false),
            said("command", "cmd.run"),
            "{command}"
        );
    }
    assert_eq!(
        public("github__push", r#"{"b":1}"#, true),
        said("a", "github__push"),
        "a server's tool in a context"
    );
    assert_eq!(public("aegis.system.info", "{}", false), None);
    assert_eq!(
        public("aegis.tools.list", r#"{"anything":[1]}"#, false),
        None
    );
}
