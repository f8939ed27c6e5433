use std::collections::BTreeMap;

use serde_json::json;

use super::random::Draw;
use super::*;

/// Calls drawn from this many worlds, a hundred each.
const WORLDS: u64 = 300;
const CALLS_PER_WORLD: usize = 100;

fn each_call(mut see: impl FnMut(&ModelWorld, &ModelCall)) {
    for seed in 0..WORLDS {
        let mut draw = Draw::new(seed);
        let world = draw.world();
        for _ in 0..CALLS_PER_WORLD {
            see(&world, &draw.call(&world));
        }
    }
}

/// A model that is never asked about a rule says nothing about it.
#[test]
fn every_outcome_is_drawn_often() {
    let mut counts: BTreeMap<Expected, usize> = BTreeMap::new();
    each_call(|world, call| *counts.entry(expected(world, call)).or_default() += 1);
    let wanted = [
        "ServerNotApproved",
        "ToolNotAllowed",
        "DefinitionChanged",
        "PermissionDenied",
        "RateLimitExceeded",
        "WouldViolateWriteDown",
        "UntrustedInfluence",
        "ToolExplicitlyDenied",
        "PathOutsideBoundary",
        "PathTraversalAttempt",
        "UnauthorizedVolumeAccess",
        "DomainNotAllowed",
        "CommandNotAllowed",
        "SubcommandNotAllowed",
        "InvalidArguments",
        "InvalidParameters",
        "PotentialInjection",
        "PolicyDenied",
    ];
    for outcome in wanted
        .map(Expected::Refuse)
        .into_iter()
        .chain([Expected::Allow, Expected::Ask])
    {
        let drawn = counts.get(&outcome).copied().unwrap_or(0);
        assert!(
            drawn >= 100,
            "{outcome:?} was drawn {drawn} times of {counts:?}"
        );
    }
}

/// Each check decides some calls alone: without it they would come to something else.
#[test]
fn every_check_decides_some_calls_alone() {
    for check in Check::ORDER {
        let mut decided = 0;
        each_call(|world, call| {
            decided +=
                usize::from(expected(world, call) != expected_without(world, call, Some(check)))
        });
        assert!(decided >= 20, "{check:?} decides {decided} calls alone");
    }
}

/// The five refusals of the specification, in its order: with everything wrong at once, each repair shows the next one.
#[test]
fn refusals_come_in_the_specified_order() {
    let tool = ModelTool {
        name: "send".to_owned(),
        permission: Permission::Blocked,
        definition: Definition::Pinned,
        access: Access {
            users: vec!["alice".to_owned()],
            ..Access::default()
        },
        needs_account: false,
        calls_left: None,
        consequential: true,
        input_schema: json!({"type": "object", "properties": {"to": {"type": "string"}}, "required": ["to"]}),
    };
    let server = ModelServer {
        id: "mail".to_owned(),
        blocked: false,
        classification: None,
        accepts: None,
        access: Access::default(),
        calls_left: None,
        scans_for_injection: true,
        tools: vec![tool],
    };
    let allow = ModelPolicy {
        decision: Decision::Allow,
        when: Vec::new(),
    };
    let mut world = ModelWorld {
        servers: vec![server],
        influence: Influence::Ask,
        policies: vec![allow],
    };
    let caller = ModelCaller::default();
    let mut call = ModelCall {
        caller,
        server: 0,
        tool: 0,
        secrecy: Level::Confidential,
        untrusted: false,
        vouched: false,
        arguments: json!({"to": 7}),
        signed: None,
        places: Vec::new(),
    };
    assert_eq!(
        expected(&world, &call),
        Expected::Refuse("ServerNotApproved")
    );
    world.servers[0].classification = Some(Level::Public);
    assert_eq!(expected(&world, &call), Expected::Refuse("ToolNotAllowed"));
    world.servers[0].tools[0].permission = Permission::Restricted;
    assert_eq!(
        expected(&world, &call),
        Expected::Refuse("PermissionDenied")
    );
    call.caller.user = Some("alice".to_owned());
    assert_eq!(
        expected(&world, &call),
        Expected::Refuse("WouldViolateWriteDown")
    );
    call.secrecy = Level::Public;
    assert_eq!(
        expected(&world, &call),
        Expected::Refuse("InvalidParameters")
    );
    call.arguments = json!({"to": "you"});
    assert_eq!(expected(&world, &call), Expected::Allow);
    call.untrusted = true;
    assert_eq!(expected(&world, &call), Expected::Ask);
    call.vouched = true;
    assert_eq!(expected(&world, &call), Expected::Allow);
}
