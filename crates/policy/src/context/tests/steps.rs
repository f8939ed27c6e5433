//! Every rule with its payload, and how context, agent, session and node meet.

use super::*;

/// What a capability of everything an AEGIS agent commonly has looks like.
fn workspace() -> World {
    World::of(context(
        vec![
            Capability {
                path_allowlist: paths(&["/workspace"]),
                ..capability("fs.*")
            },
            Capability {
                domain_allowlist: domains(&["example.com"]),
                ..capability("web.*")
            },
            Capability {
                subcommand_allowlist: by_command(&[("cargo", &["build", "test"]), ("ls", &[])]),
                ..capability("cmd.run")
            },
            Capability {
                domain_allowlist: domains(&["example.com"]),
                account_allowlist: accounts(&["ann@example.com"]),
                ..capability("email.*")
            },
        ],
        &["fs.delete", "cmd.run:ls -R"],
    ))
}

#[test]
fn every_violation_has_its_payload() {
    let mut world = workspace();
    let said = |world: &World, tool: &str, arguments: &str| {
        let violation = world
            .refusal(tool, arguments)
            .unwrap_or_else(|| panic!("{tool} {arguments} passes"));
        let hint = violation.hint.clone().unwrap_or_default();
        assert!(
            !hint.is_empty() && violation.detail.contains("; "),
            "{violation:?}"
        );
        (violation.rule.code(), violation.payload.unwrap())
    };
    let cases = [
        (
            "github__push",
            "{}",
            "ToolNotAllowed",
            r#"{"tool_name":"github__push","allowed_tools":["fs.*","web.*","cmd.run","email.*"]}"#,
        ),
        (
            "fs.delete",
            r#"{"path":"/workspace/a"}"#,
            "ToolExplicitlyDenied",
            r#"{"tool_name":"fs.delete"}"#,
        ),
        (
            "cmd.run",
            r#"{"command":"/bin/ls","args":["-R"]}"#,
            "ToolExplicitlyDenied",
            r#"{"tool_name":"cmd.run"}"#,
        ),
        (
            "fs.read",
            r#"{"path":"/workspace/../workspace/a"}"#,
            "PathTraversalAttempt",
            r#"{"path":"/workspace/../workspace/a"}"#,
        ),
        (
            "fs.read",
            r#"{"path":"/etc//passwd"}"#,
            "PathOutsideBoundary",
            r#"{"path":"/etc/passwd","allowed_paths":["/workspace"]}"#,
        ),
        (
            "web.fetch",
            r#"{"url":"https://evilexample.com/"}"#,
            "DomainNotAllowed",
            r#"{"domain":"evilexample.com","allowed_domains":["example.com"]}"#,
        ),
        (
            "web.search",
            r#"{"query":"x"}"#,
            "DomainNotAllowed",
            r#"{"domain":"html.duckduckgo.com","allowed_domains":["example.com"]}"#,
        ),
        (
            "email.send",
            r#"{"to":"Ann <ann@evil.com>","account":"ann@example.com"}"#,
            "DomainNotAllowed",
            r#"{"domain":"evil.com","allowed_domains":["example.com"]}"#,
        ),
        (
            "email.read",
            r#"{"account":"bob@example.com"}"#,
            "DomainNotAllowed",
            r#"{"domain":"bob@example.com","allowed_domains":["ann@example.com"]}"#,
        ),
        (
            "cmd.run",
            r#"{"command":"bash"}"#,
            "CommandNotAllowed",
            r#"{"command":"bash","allowed_commands":["cargo","ls"]}"#,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["publish"]}"#,
            "SubcommandNotAllowed",
            r#"{"command":"cargo","subcommand":"publish","allowed_subcommands":["build","test"]}"#,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["build"],"timeout_secs":301}"#,
            "ExecTimeoutCeilingExceeded",
            r#"{"requested_secs":301,"ceiling_secs":300}"#,
        ),
    ];
    for (tool, arguments, code, payload) in cases {
        assert_eq!(
            said(&world, tool, arguments),
            (code, payload.to_owned()),
            "{tool} {arguments}"
        );
    }
    world.agent = Some(AgentTools {
        max_calls_per_execution: Some(2),
        ..agent(&["fs.read"])
    });
    assert_eq!(
        said(&world, "fs.write", r#"{"path":"/workspace/a"}"#),
        (
            "ToolNotAllowed",
            r#"{"tool_name":"fs.write","allowed_tools":["fs.read"]}"#.to_owned()
        )
    );
    world.calls = 2;
    let payload = r#"{"resource_type":"execution","bucket":"max_calls_per_execution","limit":2,"current":2,"retry_after_seconds":null}"#;
    assert_eq!(
        said(&world, "fs.read", r#"{"path":"/workspace/a"}"#),
        ("RateLimitExceeded", payload.to_owned())
    );
    let concurrent = too_many_at_once(1, 1);
    assert_eq!(
        (concurrent.rule, concurrent.payload.as_deref()),
        (
            Rule::ConcurrentExecLimitExceeded,
            Some(r#"{"limit":1,"active":1}"#)
        )
    );
}

#[test]
fn what_is_allowed_passes() {
    let world = workspace();
    let calls = [
        ("fs.read", r#"{"path":"/workspace/src/main.rs"}"#),
        ("fs.read", r#"{"path":"src/main.rs"}"#),
        ("fs.list", r#"{"path":"/workspace/"}"#),
        ("fs.grep", r#"{"path":"/workspace","pattern":"\\.\\./|.."}"#),
        ("fs.glob", r#"{"path":"/workspace","pattern":"**/*.rs"}"#),
        (
            "web.fetch",
            r#"{"url":"https://API.Example.com:8443/x?u=http://other.org"}"#,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["test","--","--nocapture"],"timeout_secs":300}"#,
        ),
        ("cmd.run", r#"{"command":"ls"}"#),
        (
            "email.send",
            r#"{"to":["a@example.com","\"B, C\" <b@sub.example.com>"],"cc":"d@example.com, e@example.com","account":"Ann@Example.com"}"#,
        ),
        (
            "email.read",
            r#"{"account":"ann@example.com","from":"stranger@evil.com","to":"ann@evil.com"}"#,
        ),
    ];
    for (tool, arguments) in calls {
        assert_eq!(world.refusal(tool, arguments), None, "{tool} {arguments}");
    }
}

#[test]
fn what_a_required_argument_would_bound_is_left_to_shape() {
    let world = workspace();
    for (tool, arguments) in [
        ("fs.read", "{}"),
        ("fs.read", r#"{"path":null}"#),
        ("web.fetch", "{}"),
        ("cmd.run", "{}"),
    ] {
        assert_eq!(world.rule(tool, arguments), None, "{tool} {arguments}");
    }
    assert_eq!(
        world.rule("fs.append", r#"{"text":"x"}"#),
        Some(Rule::PathOutsideBoundary),
        "nothing later would refuse it"
    );
    assert_eq!(world.rule("web.crawl", "{}"), Some(Rule::DomainNotAllowed));
    assert_eq!(
        world.rule("email.send", r#"{"account":"ann@example.com"}"#),
        Some(Rule::DomainNotAllowed)
    );
    assert_eq!(
        world.rule("email.read", "{}"),
        Some(Rule::DomainNotAllowed),
        "the account must be named where accounts are listed"
    );
}

#[test]
fn wrong_types_never_skip_a_check() {
    let world = workspace();
    let cases = [
        ("fs.read", r#"{"path":5}"#, Rule::PathOutsideBoundary),
        (
            "fs.read",
            r#"{"path":{"path":"/workspace/a"}}"#,
            Rule::PathOutsideBoundary,
        ),
        (
            "fs.read",
            r#"{"path":["/workspace/a",1]}"#,
            Rule::PathOutsideBoundary,
        ),
        (
            "fs.read",
            r#"{"path":["/workspace/a","/etc/passwd"]}"#,
            Rule::PathOutsideBoundary,
        ),
        (
            "fs.multi_edit",
            r#"{"path":"/workspace/a","edits":[{"path":"/etc/passwd"}]}"#,
            Rule::PathOutsideBoundary,
        ),
        (
            "fs.copy",
            r#"{"source":"/workspace/a","destination":"/etc/cron.d/a"}"#,
            Rule::PathOutsideBoundary,
        ),
        ("web.fetch", r#"{"url":7}"#, Rule::DomainNotAllowed),
        (
            "web.fetch",
            r#"{"url":["https://example.com","https://evil.com"]}"#,
            Rule::DomainNotAllowed,
        ),
        (
            "email.send",
            r#"{"to":5,"account":"ann@example.com"}"#,
            Rule::DomainNotAllowed,
        ),
        (
            "email.send",
            r#"{"to":[{"email":"a@evil.com"}],"account":"ann@example.com"}"#,
            Rule::DomainNotAllowed,
        ),
        (
            "email.send",
            r#"{"to":"a@example.com","account":["ann@example.com"]}"#,
            Rule::DomainNotAllowed,
        ),
        (
            "email.send",
            r#"{"to":"a@example.com","raw":"x","account":"ann@example.com"}"#,
            Rule::DomainNotAllowed,
        ),
        (
            "cmd.run",
            r#"{"command":["cargo","build"]}"#,
            Rule::CommandNotAllowed,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":"build"}"#,
            Rule::SubcommandNotAllowed,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":[["build"]]}"#,
            Rule::SubcommandNotAllowed,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["build"],"timeout_secs":"9"}"#,
            Rule::ExecTimeoutCeilingExceeded,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["build"],"timeout_secs":-1}"#,
            Rule::ExecTimeoutCeilingExceeded,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["build"],"timeout_secs":1e400}"#,
            Rule::ExecTimeoutCeilingExceeded,
        ),
        (
            "cmd.run",
            r#"{"command":"cargo","args":["build"],"timeout_secs":300.5}"#,
            Rule::ExecTimeoutCeilingExceeded,
        ),
    ];
    for (tool, arguments, rule) in cases {
        assert_eq!(
            world.rule(tool, arguments),
            Some(rule),
            "{tool} {arguments}"
        );
    }
}

#[test]
fn any_capability_suffices_and_the_closest_one_speaks() {
    let world = World::of(context(
        vec![
            Capability {
                path_allowlist: paths(&["/tmp"]),
                ..capability("*")
            },
            Capability {
                path_allowlist: paths(&["/workspace"]),
                ..capability("fs.read")
            },
            Capability {
                path_allowlist: paths(&["/data"]),
                max_response_size: Some(10),
                ..capability("fs.*")
            },
        ],
        &[],
    ));
    for path in ["/tmp/a", "/workspace/a", "/data/a"] {
        assert_eq!(
            world.rule("fs.read", &format!(r#"{{"path":"{path}"}}"#)),
            None,
            "{path}"
        );
    }
    let refused = world.refusal("fs.read", r#"{"path":"/etc/a"}"#).unwrap();
    assert!(
        refused
            .payload
            .unwrap()
            .ends_with(r#""allowed_paths":["/workspace"]}"#),
        "the closest capability's list"
    );
    let index = |path: &str| {
        let arguments = format!(r#"{{"path":"{path}"}}"#);
        world.with("fs.read", &[], &arguments, |boundary| {
            (
                boundary.capability().map(|(index, _)| index),
                boundary.output_bytes(),
            )
        })
    };
    assert_eq!(index("/workspace/a"), (Some(1), None));
    assert_eq!(index("/data/a"), (Some(2), Some(10)));
    assert_eq!(index("/tmp/a"), (Some(0), None));
}

#[test]
fn a_manifest_never_exceeds_the_node() {
    let mut world = World::of(context(vec![capability("*")], &[]));
    world.ceilings.subcommand_allowlist = by_command(&[("git", &["status"]), ("cargo", &[])]);
    let entry = AgentTool {
        pattern: tool("cmd.*"),
        subcommand_allowlist: by_command(&[
            ("git", &["status", "push"]),
            ("rm", &[]),
            ("cargo", &["build"]),
        ]),
        timeout_ceiling_secs: Some(10_000),
        max_output_bytes: Some(1 << 30),
        ..AgentTool::default()
    };
    world.agent = Some(AgentTools {
        tools: vec![entry],
        ..agent(&[])
    });
    let run = |world: &World, arguments: &str| world.rule("cmd.run", arguments);
    assert_eq!(run(&world, r#"{"command":"git","args":["status"]}"#), None);
    assert_eq!(run(&world, r#"{"command":"cargo","args":["build"]}"#), None);
    assert_eq!(
        run(&world, r#"{"command":"git","args":["push"]}"#),
        Some(Rule::SubcommandNotAllowed)
    );
    assert_eq!(
        run(&world, r#"{"command":"cargo","args":["publish"]}"#),
        Some(Rule::SubcommandNotAllowed)
    );
    assert_eq!(
        run(&world, r#"{"command":"rm","args":["-rf"]}"#),
        Some(Rule::CommandNotAllowed)
    );
    assert_eq!(
        run(
            &world,
            r#"{"command":"git","args":["status"],"timeout_secs":301}"#
        ),
        Some(Rule::ExecTimeoutCeilingExceeded)
    );
    world.with(
        "cmd.run",
        &[],
        r#"{"command":"git","args":["status"],"timeout_secs":9}"#,
        |boundary| {
            assert_eq!(boundary.output_bytes(), Some(512 << 10));
            assert_eq!(boundary.time(), Some(Duration::from_secs(9)));
            assert_eq!(boundary.concurrency(), Some(1));
            let budget = crate::Budget {
                time: Duration::from_secs(60),
                result_bytes: 1 << 30,
            };
            assert_eq!(
                boundary.narrow(budget),
                crate::Budget {
                    time: Duration::from_secs(9),
                    result_bytes: 512 << 10
                }
            );
        },
    );
    world.ceilings.disabled = vec![tool("cmd.*")];
    assert_eq!(
        run(&world, r#"{"command":"git","args":["status"]}"#),
        Some(Rule::ToolNotAllowed)
    );
}

#[test]
fn an_agent_without_tools_has_none_and_an_empty_session_list_is_for_nothing() {
    let mut world = World::of(context(vec![capability("*")], &[]));
    assert_eq!(world.rule("fs.read", r#"{"path":"a"}"#), None);
    world.session = Some(vec![]);
    assert_eq!(
        world.rule("fs.read", r#"{"path":"a"}"#),
        Some(Rule::ToolNotAllowed)
    );
    world.session = Some(vec![tool("fs.*")]);
    assert_eq!(world.rule("fs.read", r#"{"path":"a"}"#), None);
    assert_eq!(
        world.rule("fsx.read", r#"{"path":"a"}"#),
        Some(Rule::ToolNotAllowed)
    );
    world.agent = Some(agent(&[]));
    assert_eq!(
        world.rule("fs.read", r#"{"path":"a"}"#),
        Some(Rule::ToolNotAllowed)
    );
    assert_eq!(
        World::of(context(vec![], &[])).rule("fs.read", "{}"),
        Some(Rule::ToolNotAllowed),
        "a context without capabilities"
    );
}

#[test]
fn an_entry_of_one_server_is_for_that_server() {
    let mut world = World::of(context(vec![capability("*")], &[]));
    let entry = AgentTool {
        pattern: ToolPattern::Any,
        server: Some("search".to_owned()),
        ..AgentTool::default()
    };
    world.agent = Some(AgentTools {
        tools: vec![entry],
        ..agent(&[])
    });
    let rule = |server: Option<&str>| {
        let scope = Scope {
            context: &world.context,
            agent: world.agent.as_ref(),
            ceilings: &world.ceilings,
            session_patterns: None,
        };
        let call = Call {
            tool: "web.fetch",
            aliases: &[],
            server,
            arguments: None,
            calls_so_far: 0,
            tool_calls_so_far: 0,
        };
        first(&examine(scope, &call)).map(|violation| violation.rule)
    };
    assert_eq!(rule(Some("search")), None);
    assert_eq!(rule(Some("mail")), Some(Rule::ToolNotAllowed));
    assert_eq!(rule(None), Some(Rule::ToolNotAllowed));
}

#[test]
fn an_entry_of_an_agents_list_reads_as_it_is_written() {
    let shown = |pattern: ToolPattern, server: Option<&str>| {
        AgentTool {
            pattern,
            server: server.map(str::to_owned),
            ..AgentTool::default()
        }
        .to_string()
    };
    assert_eq!(shown(tool("fs.*"), None), "fs.*");
    assert_eq!(shown(ToolPattern::Any, Some("search")), "mcp:search");
    assert_eq!(
        shown(tool("web.fetch"), Some("search")),
        "web.fetch of mcp:search"
    );
}

#[test]
fn other_names_of_a_tool_are_bound_and_denied_but_grant_nothing() {
    let world = World::of(context(
        vec![Capability {
            domain_allowlist: domains(&["example.com"]),
            ..capability("*")
        }],
        &["web.search"],
    ));
    let rule = |tool: &str, aliases: &[&str], arguments: &str| {
        world.with(tool, aliases, arguments, |boundary| {
            first(boundary).map(|violation| violation.rule)
        })
    };
    assert_eq!(
        rule("search__find", &["web.search"], "{}"),
        Some(Rule::ToolExplicitlyDenied)
    );
    let evil = r#"{"url":"https://evil.com"}"#;
    assert_eq!(
        rule("search__get", &["web.fetch"], evil),
        Some(Rule::DomainNotAllowed)
    );
    let narrow = World::of(context(vec![capability("web.fetch")], &[]));
    let listed = narrow.with("docs__web.fetch", &["web.fetch"], "{}", |boundary| {
        first(boundary).map(|violation| violation.rule)
    });
    assert_eq!(
        listed,
        Some(Rule::ToolNotAllowed),
        "a server does not get a grant by calling its tool `web.fetch`"
    );
}

#[test]
fn tools_we_do_not_know_are_bounded_by_what_can_be_recognised() {
    let world = World::of(context(
        vec![Capability {
            path_allowlist: paths(&["/workspace"]),
            domain_allowlist: domains(&["example.com"]),
            ..capability("docs__*")
        }],
        &["docs__open:secret*"],
    ));
    assert_eq!(
        world.rule("docs__open", r#"{"path":"/etc/passwd"}"#),
        Some(Rule::PathOutsideBoundary)
    );
    assert_eq!(
        world.rule("docs__open", r#"{"a":[{"url":"https://evil.com"}]}"#),
        Some(Rule::DomainNotAllowed)
    );
    assert_eq!(
        world.rule("docs__open", r#"{"name":["x",{"y":"secret plan"}]}"#),
        Some(Rule::ToolExplicitlyDenied)
    );
    assert_eq!(world.rule("docs__open", r#"{"name":"plan"}"#), None);
}

#[test]
fn tenants_are_told_apart() {
    assert_eq!(
        SecurityContext::tenant_of("tenant-acme-research"),
        Some("acme")
    );
    for name in ["tenant-acme", "tenant--x", "acme-research", "tenant-acme-"] {
        assert_eq!(SecurityContext::tenant_of(name), None, "{name}");
    }
    let own = SecurityContext {
        tenant: Some("acme".to_owned()),
        ..context(vec![], &[])
    };
    assert!(own.admits_tenant(Some("acme")));
    assert!(!own.admits_tenant(Some("acme-corp")) && !own.admits_tenant(None));
    assert!(
        context(vec![], &[]).admits_tenant(None)
            && context(vec![], &[]).admits_tenant(Some("acme"))
    );
}

#[test]
fn everything_configured_is_found_by_name() {
    let contexts = Contexts::new(
        [context(vec![], &[])],
        [agent(&["fs.read"])],
        Ceilings::default(),
    );
    assert!(contexts.context("test").is_some() && contexts.context("other").is_none());
    assert!(contexts.agent("coder").is_some() && contexts.agent("test").is_none());
    assert_eq!(contexts.all().len(), 1);
    let world = context(vec![capability("fs.*")], &["fs.delete", "fs.read:/etc/*"]);
    assert!(
        world.may_call("fs.read") && !world.may_call("fs.delete") && !world.may_call("cmd.run")
    );
}
