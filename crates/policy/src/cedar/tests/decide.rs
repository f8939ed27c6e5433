use vocab::{Effect, Integrity, Level, Mark};

use super::{bundle, outcome, question, with_arguments};
use crate::cedar::{Act, Bundle, Decision, Note, Principal, Provenance, Question};

const ALLOW: &str = "permit (principal, action, resource);\n";

fn allows(policy: &str, question: &Question<'_>) -> bool {
    bundle(policy).decide(question) == Decision::Allow
}

#[test]
fn a_newcomers_first_call_passes_under_balanced_and_nothing_is_asked() {
    let balanced = Bundle::starter("balanced").unwrap();
    for level in [Level::Public, Level::Internal, Level::Confidential] {
        for effect in [Effect::Read, Effect::Consequential] {
            assert_eq!(
                balanced.decide(&Question {
                    level,
                    effect,
                    ..question()
                }),
                Decision::Allow
            );
        }
    }
    for act in Act::ALL {
        let decision = balanced.decide(&Question {
            act,
            effect: Effect::Read,
            level: Level::Restricted,
            ..question()
        });
        assert_eq!(decision, Decision::Allow, "{act:?}");
    }
    let restricted = Question {
        level: Level::Restricted,
        ..question()
    };
    assert_eq!(
        outcome(&balanced.decide(&restricted)),
        ("ask", vec!["change-to-restricted"])
    );
}

#[test]
fn observe_allows_everything() {
    let observe = Bundle::starter("observe").unwrap();
    let untrusted = Mark {
        secrecy: Level::Restricted,
        integrity: Integrity::Untrusted,
    };
    for act in Act::ALL {
        assert_eq!(
            observe.decide(&Question {
                act,
                level: Level::Restricted,
                label: untrusted,
                ..question()
            }),
            Decision::Allow
        );
    }
}

#[test]
fn strict_asks_for_changes_and_says_so_after_untrusted_reading() {
    let strict = Bundle::starter("strict").unwrap();
    assert_eq!(
        outcome(&strict.decide(&question())),
        ("ask", vec!["confirm-change"])
    );
    assert_eq!(
        strict.decide(&Question {
            effect: Effect::Read,
            ..question()
        }),
        Decision::Allow
    );
    let untrusted = Mark {
        secrecy: Level::Public,
        integrity: Integrity::Untrusted,
    };
    let steered = Question {
        label: untrusted,
        ..question()
    };
    assert_eq!(
        outcome(&strict.decide(&steered)),
        (
            "ask",
            vec!["confirm-change", "confirm-change-after-untrusted"]
        )
    );
    assert_eq!(
        strict.decide(&Question {
            effect: Effect::Read,
            ..steered
        }),
        Decision::Allow
    );
    for act in [
        Act::Read,
        Act::Get,
        Act::CompletePrompt,
        Act::CompleteResource,
        Act::Subscribe,
    ] {
        assert_eq!(
            strict.decide(&Question {
                act,
                label: untrusted,
                ..question()
            }),
            Decision::Allow,
            "{act:?}"
        );
    }
}

#[test]
fn strengths_are_block_over_ask_over_rewrite_over_allow_and_rewrites_come_with_an_ask() {
    let rewrite = "@id(\"r\") @effect(\"rewrite\") @rewrite(\"body\") @matching(\"x\") @with(\"y\") permit (principal, action, resource);\n";
    let ask = "@id(\"q\") @effect(\"ask\") @agent(\"wait\") @operator(\"look\") permit (principal, action, resource);\n";
    let block = "@id(\"b\") @agent(\"no\") forbid (principal, action, resource);\n";
    assert_eq!(
        outcome(&bundle(&format!("{ALLOW}{rewrite}")).decide(&question())),
        ("rewrite", vec!["r"])
    );
    let asked = bundle(&format!("{ALLOW}{rewrite}{ask}")).decide(&question());
    assert_eq!(outcome(&asked), ("ask", vec!["q"]));
    assert_eq!(
        asked
            .rewrites()
            .iter()
            .map(|change| change.policy().to_owned())
            .collect::<Vec<_>>(),
        ["r"]
    );
    let blocked = bundle(&format!("{ALLOW}{rewrite}{ask}{block}")).decide(&question());
    let note = Note {
        policy: "b".into(),
        agent: Some("no".into()),
        operator: None,
        file: "test.cedar".into(),
        line: 4,
    };
    assert_eq!(blocked, Decision::Block(note));
}

#[test]
fn nothing_that_permits_is_a_block_and_says_so() {
    let other = bundle("permit (principal, action == Action::\"read\", resource);");
    let Decision::Block(note) = other.decide(&question()) else {
        panic!("it was let through")
    };
    assert_eq!(note.policy, Note::NO_PERMIT);
    assert!(note.operator.unwrap().contains("github/create_issue"));
}

#[test]
fn a_policy_that_fails_blocks_even_where_another_permits() {
    let failing = format!(
        "{ALLOW}@id(\"sum\") permit (principal, action, resource) when {{ context.session_calls + 9223372036854775807 > 0 }};"
    );
    let failing = bundle(&failing);
    assert_eq!(failing.decide(&question()), Decision::Allow);
    let Decision::Block(note) = failing.decide(&Question {
        session_calls: 1,
        ..question()
    }) else {
        panic!("the overflow was ignored")
    };
    assert_eq!((note.policy.as_str(), note.line), ("sum", 2));
    assert!(note.operator.unwrap().contains("overflow"));
}

#[test]
fn principals_are_the_credential_and_what_it_names() {
    let eng = ["eng".to_owned()];
    let question = Question {
        principal: Principal {
            departments: &eng,
            context: Some("prod"),
            is_operator: true,
            ..question().principal
        },
        ..question()
    };
    for scope in [
        "== Caller::\"cred-1\"",
        "in User::\"alice\"",
        "in Agent::\"claude\"",
        "in Department::\"eng\"",
        "in Context::\"prod\"",
    ] {
        assert!(
            allows(
                &format!("permit (principal {scope}, action, resource);"),
                &question
            ),
            "{scope}"
        );
    }
    for scope in [
        "== Caller::\"alice\"",
        "in User::\"claude\"",
        "in Agent::\"alice\"",
        "in Department::\"ops\"",
        "in Context::\"eng\"",
    ] {
        assert!(
            !allows(
                &format!("permit (principal {scope}, action, resource);"),
                &question
            ),
            "{scope}"
        );
    }
    let when = |condition: &str| {
        allows(
            &format!("permit (principal, action, resource) when {{ {condition} }};"),
            &question,
        )
    };
    assert!(when(
        "principal.is_operator && principal has user && principal.user == User::\"alice\""
    ));
    assert!(when(
        "principal has context && principal.context == Context::\"prod\""
    ));
    assert!(!when(
        "principal has agent && principal.agent == Agent::\"alice\""
    ));
}

#[test]
fn resources_carry_server_level_and_effect() {
    let when = |condition: &str| {
        allows(
            &format!("permit (principal, action, resource) when {{ {condition} }};"),
            &question(),
        )
    };
    assert!(when(
        "resource == Tool::\"github/create_issue\" && resource in Server::\"github\" && resource.name == \"create_issue\""
    ));
    assert!(when(
        "resource.level == 1 && resource.level_name == Level::\"INTERNAL\" && resource.server.level < 2"
    ));
    assert!(when(
        "resource.effect == Effect::\"consequential\" && !resource.is_open_world && !resource.server.is_open_world"
    ));
    assert!(!when("resource.effect == Effect::\"read\""));
    let kinds = [
        (Act::Call, "Tool"),
        (Act::Read, "Resource"),
        (Act::Subscribe, "Resource"),
        (Act::Get, "Prompt"),
    ];
    for (act, kind) in kinds.into_iter().chain([
        (Act::CompletePrompt, "Prompt"),
        (Act::CompleteResource, "Resource"),
    ]) {
        let policy = format!(
            "permit (principal, action == Action::\"{}\", resource is {kind} in Server::\"github\");",
            act.action()
        );
        assert!(allows(&policy, &Question { act, ..question() }), "{act:?}");
    }
}

#[test]
fn a_target_cannot_pass_for_one_of_another_server() {
    let policy = "permit (principal, action, resource == Tool::\"a/b/c\");";
    assert!(allows(
        policy,
        &Question {
            server: "a",
            target: "b/c",
            ..question()
        }
    ));
    // Server ids hold no slash; even so the server attribute and the parent tell them apart.
    let policy = "permit (principal, action, resource in Server::\"a\");";
    assert!(!allows(
        policy,
        &Question {
            server: "ab",
            target: "c",
            ..question()
        }
    ));
}

#[test]
fn the_moment_is_label_counts_time_and_door() {
    let label = Mark {
        secrecy: Level::Confidential,
        integrity: Integrity::Untrusted,
    };
    let question = Question {
        label,
        session_calls: 41,
        target_calls: 3,
        ..question()
    };
    let when = |condition: &str| {
        allows(
            &format!("permit (principal, action, resource) when {{ {condition} }};"),
            &question,
        )
    };
    assert!(when(
        "context.label.secrecy == 2 && context.label.secrecy_name == Level::\"CONFIDENTIAL\" && context.label.is_untrusted"
    ));
    assert!(when(
        "context.session_calls == 41 && context.target_calls == 3 && context.door == \"mcp-http\""
    ));
    assert!(when(
        "context.time.hour == 13 && context.time.weekday == 7 && context.time.unix == 1794747600"
    ));
    assert!(!when(
        "context.label.secrecy > 2 || context.target_calls > 3"
    ));
}

#[test]
fn the_epoch_was_a_thursday() {
    let at = |now_ms: u64, condition: &str| {
        allows(
            &format!("permit (principal, action, resource) when {{ {condition} }};"),
            &Question {
                now_ms,
                ..question()
            },
        )
    };
    assert!(at(0, "context.time.weekday == 4 && context.time.hour == 0"));
    assert!(at(
        86_399_999,
        "context.time.weekday == 4 && context.time.hour == 23"
    ));
    assert!(at(4 * 86_400_000, "context.time.weekday == 1"));
    assert!(at(u64::MAX, "context.time.unix == 18446744073709551"));
}

#[test]
fn arguments_are_read_by_path_as_text_numbers_decimals_and_lists() {
    let call = r#"{"path":"/etc/passwd","n":1e3,"price":19.990,"ok":true,"none":null,"to":["a@x","b@x"],"rows":[{"id":7},{"id":8}],"x.y":{"z":"q"}}"#;
    let when = |condition: &str| {
        allows(
            &format!("permit (principal, action, resource) when {{ {condition} }};"),
            &with_arguments(call),
        )
    };
    assert!(when(
        "context.arguments.hasTag(\"path\") && context.arguments.getTag(\"path\") like \"/etc/*\""
    ));
    assert!(when(
        "context.arguments.hasTag(\"to[1]\") && context.arguments.getTag(\"to[1]\") == \"b@x\""
    ));
    assert!(when(
        "context.arguments.hasTag(\"ok\") && context.arguments.getTag(\"ok\") == \"true\""
    ));
    assert!(when(
        "context.arguments.hasTag(\"none\") && context.arguments.getTag(\"none\") == \"null\""
    ));
    assert!(when(
        r#"context.arguments.hasTag("[\"x.y\"].z") && context.arguments.getTag("[\"x.y\"].z") == "q""#
    ));
    assert!(when(
        "context.numbers.hasTag(\"n\") && context.numbers.getTag(\"n\") == 1000 && !context.numbers.hasTag(\"none\")"
    ));
    assert!(when(
        "context.decimals.hasTag(\"price\") && context.decimals.getTag(\"price\").lessThan(decimal(\"20.0\"))"
    ));
    assert!(when(
        "context.lists.hasTag(\"to[]\") && [\"a@x\", \"b@x\", \"c@x\"].containsAll(context.lists.getTag(\"to[]\"))"
    ));
    assert!(!when(
        "context.lists.hasTag(\"to[]\") && [\"a@x\"].containsAll(context.lists.getTag(\"to[]\"))"
    ));
    assert!(when(
        "context.lists.hasTag(\"rows[].id\") && context.lists.getTag(\"rows[].id\").contains(\"8\")"
    ));
    assert!(when(
        "!context.arguments.hasTag(\"absent\") && !context.lists.hasTag(\"absent[]\") && context.argument_count == 10"
    ));
    assert!(when(
        r#"context.outline like "* n:number none:null ok:boolean path:string price:number *""#
    ));
}

#[test]
fn a_number_cannot_slip_past_a_policy_by_its_spelling_or_kind() {
    let limit = bundle(&format!(
        "{ALLOW}@id(\"limit\") forbid (principal, action, resource) when {{ context.numbers.hasTag(\"amount\") && context.numbers.getTag(\"amount\") > 100 }};"
    ));
    assert_eq!(
        limit.decide(&with_arguments(r#"{"amount":100}"#)),
        Decision::Allow
    );
    assert_eq!(
        limit.decide(&with_arguments(r#"{"amount":null}"#)),
        Decision::Allow
    );
    assert_eq!(limit.decide(&with_arguments("{}")), Decision::Allow);
    for over in ["101", "1000.0", "1e3", "10.1E1", "0.0101e+4", "1010e-1"] {
        let call = format!("{{\"amount\":{over}}}");
        assert_eq!(
            outcome(&limit.decide(&with_arguments(&call))),
            ("block", vec!["limit"]),
            "{over}"
        );
    }
    for unreadable in [
        "100.5",
        "1e300",
        "\"1000\"",
        "[1000]",
        "{\"value\":1000}",
        "true",
        "99999999999999999999",
    ] {
        let call = format!("{{\"amount\":{unreadable}}}");
        assert_eq!(
            outcome(&limit.decide(&with_arguments(&call))),
            ("block", vec![Note::UNREADABLE]),
            "{unreadable}"
        );
    }
}

#[test]
fn a_text_cannot_slip_past_a_policy_inside_an_array() {
    let etc = "@id(\"etc\") forbid (principal, action, resource) when { context.arguments.hasTag(\"path\") && context.arguments.getTag(\"path\") like \"/etc/*\" };";
    let guarded = bundle(&format!("{ALLOW}{etc}"));
    assert_eq!(
        outcome(&guarded.decide(&with_arguments(r#"{"path":"/etc/x"}"#))),
        ("block", vec!["etc"])
    );
    assert_eq!(
        outcome(&guarded.decide(&with_arguments(r#"{"path":["/etc/x"]}"#))),
        ("block", vec![Note::UNREADABLE])
    );
    // A bundle that looks inside as well is ready for both.
    let both = bundle(&format!(
        "{ALLOW}{etc} @id(\"list\") forbid (principal, action, resource) when {{ context.lists.hasTag(\"path[]\") && context.lists.getTag(\"path[]\").contains(\"/etc/x\") }};"
    ));
    assert_eq!(
        outcome(&both.decide(&with_arguments(r#"{"path":["/etc/x"]}"#))),
        ("block", vec!["list"])
    );
    assert_eq!(
        outcome(&both.decide(&with_arguments(r#"{"path":"/etc/x"}"#))),
        ("block", vec!["etc"])
    );
    assert_eq!(
        both.decide(&with_arguments(r#"{"path":["/srv/x"]}"#)),
        Decision::Allow
    );
}

#[test]
fn more_than_a_policy_may_be_shown_is_a_block() {
    let counted = bundle(&format!(
        "{ALLOW}forbid (principal, action, resource) when {{ context.argument_count > 1000 }};"
    ));
    let few = format!("{{\"x\":[{}]}}", vec!["1"; 512].join(","));
    let many = format!("{{\"x\":[{}]}}", vec!["1"; 513].join(","));
    assert_eq!(counted.decide(&with_arguments(&few)), Decision::Allow);
    assert_eq!(
        outcome(&counted.decide(&with_arguments(&many))),
        ("block", vec![Note::UNREADABLE])
    );
    let read = bundle(&format!(
        "{ALLOW}forbid (principal, action, resource) when {{ context.arguments.hasTag(\"x\") && context.arguments.getTag(\"x\") like \"*b\" }};"
    ));
    let long = format!("{{\"x\":\"{}\"}}", "a".repeat(300 << 10));
    assert_eq!(
        outcome(&read.decide(&with_arguments(&long))),
        ("block", vec![Note::UNREADABLE])
    );
    // What no policy reads is not looked at.
    assert_eq!(
        bundle(ALLOW).decide(&with_arguments(&many)),
        Decision::Allow
    );
}

#[test]
fn a_version_names_the_bundle_and_its_texts() {
    let one = bundle(ALLOW);
    assert!(one.version().starts_with("test@"));
    assert_eq!(one.version().len(), "test@".len() + 12);
    assert_eq!(one.version(), bundle(ALLOW).version());
    assert_ne!(one.version(), bundle(&format!("{ALLOW} ")).version());
    let load = |files: &[(&str, &str)]| {
        let files: Vec<_> = files
            .iter()
            .map(|(name, text)| ((*name).to_owned(), (*text).to_owned()))
            .collect();
        Bundle::load("two", &files).unwrap().version().to_owned()
    };
    let (permit, forbid) = (
        "permit (principal, action, resource);",
        "forbid (principal, action, resource);",
    );
    assert_eq!(
        load(&[("a.cedar", permit), ("b.cedar", forbid)]),
        load(&[("b.cedar", forbid), ("a.cedar", permit)])
    );
}

#[test]
fn an_endorsement_permits_nothing_and_fails_closed() {
    let endorse = "@id(\"own\")\n@effect(\"endorse\")\npermit (principal, action, resource)\n\
        when { [\"said\"].containsAll(context.provenance.targets) && !context.provenance.servers.contains(\"web\") };\n";
    let traced = |source, server: Option<&str>| Provenance {
        has_words: true,
        arguments: vec![provenance::Traced {
            path: "to".to_owned(),
            role: provenance::Role::Target,
            source,
            server: server.map(str::to_owned),
        }],
    };
    let said = traced(provenance::Source::Said, None);
    let asked = |provenance| Question {
        provenance,
        ..question()
    };
    let alone = bundle(endorse);
    assert_eq!(
        outcome(&alone.decide(&asked(Some(&said)))),
        ("block", vec![Note::NO_PERMIT])
    );
    let with = bundle(&format!("{ALLOW}{endorse}"));
    assert_eq!(
        outcome(&with.decide(&asked(Some(&said)))),
        ("endorse", vec!["own"])
    );
    let read = traced(provenance::Source::Text, Some("web"));
    assert_eq!(with.decide(&asked(Some(&read))), Decision::Allow);
    assert_eq!(with.decide(&asked(None)), Decision::Allow, "nobody knows");
    let nothing = Provenance {
        has_words: true,
        arguments: Vec::new(),
    };
    assert_eq!(
        with.decide(&asked(Some(&nothing))),
        Decision::Allow,
        "what aims at nothing was not said"
    );
    let free = bundle(&format!(
        "{ALLOW}@id(\"free\")\n@effect(\"endorse\")\npermit (principal, action, resource)\n\
         when {{ context.provenance.values == [\"none\"] && context.provenance.objects == [\"none\"] }};\n"
    ));
    assert_eq!(
        outcome(&free.decide(&asked(Some(&said)))),
        ("endorse", vec!["free"])
    );
    let ask = "@id(\"careful\")\n@effect(\"ask\")\npermit (principal, action, resource);\n";
    let stronger = bundle(&format!("{ALLOW}{endorse}{ask}"));
    assert_eq!(
        outcome(&stronger.decide(&asked(Some(&said)))),
        ("ask", vec!["careful"])
    );
}
