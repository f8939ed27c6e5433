//! Contexts, agents, ceilings and the seal.

use gateway::settings::SealTerms;
use policy::context::{
    AgentTool, AgentTools, Ceilings, Denial, DomainPattern, PathPattern, RateLimit, Subcommands,
    ToolPattern,
};

use super::*;

const SIGNED: &str = r#"
security_contexts:
  - name: code-assistant
    description: Reads and writes the workspace
    capabilities:
      - tool_pattern: fs.*
        path_allowlist: [/workspace, "/data/**/public"]
        max_response_size: 1 MiB
      - tool_pattern: cmd.run
        command_allowlist: [cargo, git]
        subcommand_allowlist: { cargo: [build, test], git: [] }
        max_concurrent: 2
      - tool_pattern: web.*
        domain_allowlist: [example.com, "*.wikipedia.org"]
        rate_limit: { calls: 30, per_seconds: 60 }
      - tool_pattern: email.send
        account_allowlist: [ann@example.com]
        rate_limit: 5/h
      - docs__find
    deny_list: [fs.delete, "cmd.run:rm", "fs.read:/etc/*"]
  - { name: tenant-acme-research, description: Theirs, capabilities: [{ tool_pattern: "*", path_allowlist: [] }] }
agents:
  coder:
    tools:
      - fs.read
      - mcp:search
      - { name: cmd, executor: "builtin:cmd", config: { subcommand_allowlist: { cargo: [build] }, timeout_ceiling_secs: 30, max_output_bytes: 64 KiB } }
      - { name: web, server: "mcp:web-search", config: { allowed_domains: [example.com], max_calls_per_execution: 50 } }
      - { name: fs.write, config: { allowed_paths: [/workspace/out] } }
    max_calls_per_execution: 100
    subcommand_allowlist: [build, test]
    security_context: code-assistant
    tenant: acme
  idle: {}
  listed: manifests/listed.yaml
builtin_dispatchers:
  cmd:
    default_timeout_secs: 30
    max_timeout_ceiling_secs: 120
    max_output_bytes: 256 KiB
    workspace_bytes: 1024 MiB
    max_concurrent_per_execution: 4
    global_env_denylist: [AWS_SECRET]
    subcommand_allowlist: { cargo: [build, test, fmt] }
  web: { search_host: search.example.com }
  email: { enabled: false }
seal:
  issuer: gate.example
  audiences: [a, b]
  token_ttl_seconds: 600
  private_key_path: keys/seal.pem
  max_sessions_per_workload: 3
mcp_servers:
  search: { command: search, classification: PUBLIC }
  web-search:
    command: search
    classification: PUBLIC
    capabilities: [web.fetch, { name: web.search, skip_judge: true }]
    tenant: acme
"#;

fn by_command(list: &[(&str, &[&str])]) -> Subcommands {
    let texts = |list: &[&str]| list.iter().map(|text| (*text).to_owned()).collect();
    Subcommands::ByCommand(
        list.iter()
            .map(|(command, first)| ((*command).to_owned(), texts(first)))
            .collect(),
    )
}

#[test]
fn contexts_arrive_as_they_are_written() {
    let config = good(SIGNED);
    assert!(
        config
            .warnings
            .iter()
            .all(|warning| warning.what.contains("no effect")),
        "{:?}",
        config.warnings
    );
    let [code, theirs] = config.contexts.as_slice() else {
        panic!("{:?}", config.contexts)
    };
    assert_eq!(
        (code.name.as_str(), &*code.description, &code.tenant),
        ("code-assistant", "Reads and writes the workspace", &None)
    );
    let [fs, cmd, web, mail, docs] = code.capabilities.as_slice() else {
        panic!("{:?}", code.capabilities)
    };
    assert_eq!(fs.tool_pattern, ToolPattern::Prefix("fs.".to_owned()));
    let path = |text| PathPattern::parse(text).unwrap();
    assert_eq!(
        fs.path_allowlist,
        Some(vec![path("/workspace"), path("/data/**/public")])
    );
    assert_eq!(
        (fs.max_response_size, fs.max_concurrent),
        (Some(1 << 20), None)
    );
    assert_eq!(
        cmd.command_allowlist,
        Some(vec!["cargo".to_owned(), "git".to_owned()])
    );
    assert_eq!(
        cmd.subcommand_allowlist,
        Some(by_command(&[("cargo", &["build", "test"]), ("git", &[])]))
    );
    assert_eq!(cmd.max_concurrent, Some(2));
    assert_eq!(
        web.domain_allowlist.as_ref().unwrap()[1],
        DomainPattern::parse("*.wikipedia.org").unwrap()
    );
    assert_eq!(
        web.rate_limit,
        Some(RateLimit {
            calls: 30,
            per_seconds: 60
        })
    );
    assert_eq!(
        mail.rate_limit,
        Some(RateLimit {
            calls: 5,
            per_seconds: 3600
        })
    );
    assert_eq!(
        docs.tool_pattern,
        ToolPattern::Exact("docs__find".to_owned())
    );
    assert_eq!(docs.path_allowlist, None);
    assert_eq!(code.deny_list[1], Denial::parse("cmd.run:rm").unwrap());
    assert_eq!(theirs.tenant.as_deref(), Some("acme"));
    assert_eq!(
        theirs.capabilities[0].path_allowlist,
        Some(Vec::new()),
        "an empty list allows nothing, and is not no list"
    );
}

#[test]
fn agents_ceilings_and_the_seal_arrive() {
    let config = good(SIGNED);
    let [coder, idle, listed] = config.agents.as_slice() else {
        panic!("{:?}", config.agents)
    };
    let agent = &coder.agent;
    assert_eq!(
        (
            agent.max_calls_per_execution,
            agent.security_context.as_deref()
        ),
        (Some(100), Some("code-assistant"))
    );
    assert_eq!(
        agent.subcommand_allowlist,
        Some(Subcommands::ForAll(vec![
            "build".to_owned(),
            "test".to_owned()
        ]))
    );
    let expected = vec![
        AgentTool {
            pattern: ToolPattern::Exact("fs.read".to_owned()),
            ..AgentTool::default()
        },
        AgentTool {
            pattern: ToolPattern::Any,
            server: Some("search".to_owned()),
            ..AgentTool::default()
        },
        AgentTool {
            pattern: ToolPattern::Prefix("cmd.".to_owned()),
            subcommand_allowlist: Some(by_command(&[("cargo", &["build"])])),
            timeout_ceiling_secs: Some(30),
            max_output_bytes: Some(64 << 10),
            ..AgentTool::default()
        },
        AgentTool {
            pattern: ToolPattern::Any,
            server: Some("web-search".to_owned()),
            allowed_domains: Some(vec![DomainPattern::parse("example.com").unwrap()]),
            max_calls_per_execution: Some(50),
            ..AgentTool::default()
        },
        AgentTool {
            pattern: ToolPattern::Exact("fs.write".to_owned()),
            allowed_paths: Some(vec![PathPattern::parse("/workspace/out").unwrap()]),
            ..AgentTool::default()
        },
    ];
    assert_eq!(agent.tools, expected);
    assert_eq!(
        idle.agent,
        AgentTools {
            name: "idle".to_owned(),
            ..AgentTools::default()
        },
        "no tools are none"
    );
    assert_eq!(
        listed.manifest.as_deref(),
        Some(Path::new("/etc/p/manifests/listed.yaml"))
    );
    let ceilings = Ceilings {
        default_timeout_secs: 30,
        max_timeout_ceiling_secs: 120,
        max_output_bytes: 256 << 10,
        max_concurrent_per_execution: 4,
        workspace_bytes: 1 << 30,
        subcommand_allowlist: Some(by_command(&[("cargo", &["build", "test", "fmt"])])),
        env_denylist: vec!["AWS_SECRET".to_owned()],
        disabled: vec![ToolPattern::Prefix("email.".to_owned())],
        search_host: "search.example.com".to_owned(),
    };
    assert_eq!(config.ceilings, ceilings);
    assert_eq!(
        config.seal,
        SealTerms {
            issuer: "gate.example".to_owned(),
            audiences: vec!["a".to_owned(), "b".to_owned()],
            ttl: Duration::from_secs(600),
            max_sessions_per_workload: 3,
        }
    );
    let keys = config.seal_keys.as_ref().unwrap();
    assert_eq!(keys.public, None);
    let (path, place) = (&keys.private.path, keys.private.place);
    assert_eq!(
        (path.to_str(), place.line, place.column),
        (Some("/etc/p/keys/seal.pem"), 51, 21)
    );
    let server = config.server("web-search").unwrap();
    assert_eq!(server.capabilities, ["web.fetch", "web.search"]);
    assert_eq!(server.tenant.as_deref(), Some("acme"));
}

#[test]
fn both_forms_say_the_same() {
    let listed = good(
        "security_contexts:\n  - { name: a, description: x, capabilities: [fs.read] }\nbuiltin_dispatchers:\n  - { name: cmd, enabled: false, capabilities: [cmd.run] }\n  - { name: \"builtin:fs\", capabilities: [{ name: fs.read, skip_judge: true }] }\n",
    );
    let mapped = good(
        "security_contexts:\n  a: { description: x, capabilities: [fs.read] }\nbuiltin_dispatchers:\n  cmd: { enabled: false, capabilities: [cmd.run] }\n  fs: { capabilities: [{ name: fs.read, skip_judge: true }] }\n",
    );
    assert_eq!(listed.contexts, mapped.contexts);
    assert_eq!(listed.ceilings, mapped.ceilings);
    assert_eq!(
        listed.ceilings.disabled,
        [ToolPattern::Prefix("cmd.".to_owned())]
    );
}

#[test]
fn nothing_written_is_the_defaults() {
    let config = good("");
    assert!(config.contexts.is_empty() && config.agents.is_empty());
    assert_eq!(config.ceilings, Ceilings::default());
    assert_eq!(config.seal.issuer, "aegis-orchestrator");
    assert_eq!(
        (config.seal.audiences, config.seal.ttl),
        (vec!["aegis-agents".to_owned()], Duration::from_secs(3600))
    );
}

#[test]
fn mistakes_are_named_with_line_column_and_repair() {
    let one = |text: &str| findings(text).join("\n");
    let cases = [
        (
            "security_contexts: { Bad_Name: {} }",
            "1:22 `Bad_Name` cannot be a context's name | use lower-case letters",
        ),
        (
            "security_contexts:\n  - { description: x }",
            "2:5 a context in a list has a `name` | add `name: …`",
        ),
        (
            "security_contexts:\n  - { name: a }\n  - { name: a }",
            "3:13 `a` is already defined on line 2 | rename one of the two",
        ),
        (
            "security_contexts:\n  a:\n    capabilities: [{ path_allowlist: [/x] }]",
            "3:20 a capability has a `tool_pattern`",
        ),
        (
            "security_contexts:\n  a:\n    capabilities: [fs*]",
            "3:20 `fs*` cannot be read | `*` stands alone",
        ),
        (
            "security_contexts:\n  a:\n    capabilities:\n      - tool_pattern: fs.*\n        path_allowlist: [/w, /w/../etc]",
            "5:30 `/w/../etc` cannot be read | a path is written",
        ),
        (
            "security_contexts:\n  a:\n    capabilities:\n      - tool_pattern: web.*\n        domain_allowlist: [\"https://example.com\"]",
            "5:28 `https://example.com` cannot be read | a domain is written",
        ),
        (
            "security_contexts:\n  a:\n    deny_list: [\"fs.read:\"]",
            "3:17 `fs.read:` cannot be read | after the colon",
        ),
        (
            "security_contexts:\n  a:\n    capabilities: [{ tool_pattern: x, rate_limit: { per_seconds: 5 } }]",
            "`rate_limit` has no `calls`",
        ),
        (
            "security_contexts:\n  a:\n    capabilities: [{ tool_pattern: x, rate_limit: lots }]",
            "is calls per time, not `lots`",
        ),
        (
            "security_contexts:\n  a:\n    capability: []",
            "3:5 unknown key `capability` in `security_contexts.a` | did you mean `capabilities`?",
        ),
        (
            "security_contexts:\n  a:\n    capabilities: [{ tool_pattern: x, subcommand_allowlist: { git: status } }]",
            "is a list, not text",
        ),
        (
            "security_contexts: { tenant-acme-x: { tenant: other } }",
            "is named after another tenant than `other`",
        ),
        (
            "security_contexts: { a: { tenant: \"Acme!\" } }",
            "`Acme!` cannot be a tenant",
        ),
        (
            "security_contexts: { tenant-: {} }",
            "1:22 `tenant-` begins like a tenant's context, and does not say whose | call it",
        ),
        (
            "security_contexts: { tenant-acme: {} }",
            "`tenant-acme` begins like a tenant's context",
        ),
        (
            "security_contexts: { tenant-acme-: { tenant: acme } }",
            "is named after another tenant than `acme`",
        ),
        (
            "security_contexts: { a: { deny_list: [5] } }",
            "1:39 `5` is a number, and matches nothing",
        ),
        (
            "security_contexts: { a: { capabilities: [true] } }",
            "`true` is a boolean, and matches nothing",
        ),
        (
            "security_contexts: { a: { deny_list: [fs] } }",
            "`fs` is a family of tools, and denies none of them | write `fs.*`",
        ),
        (
            "builtin_dispatchers: { cmdd: { enabled: false } }",
            "1:24 `cmdd` is no family of built-in tools | did you mean `cmd`?",
        ),
        (
            "builtin_dispatchers: [{ name: \"builtin:jira\" }]",
            "`builtin:jira` is no family of built-in tools | the families are cmd",
        ),
        (
            "agents: { coder: { security_context: code } }\nsecurity_contexts: { coda: {} }",
            "there is no context `code` | did you mean `coda`?",
        ),
        (
            "agents: { coder: { tools: [{ name: a, server: b, executor: \"builtin:cmd\" }] } }",
            "not both | keep one of the two",
        ),
        (
            "agents: { coder: { tools: [{ name: cmd, executor: docker }] } }",
            "this names no tool | an executor is written `builtin:cmd`",
        ),
        (
            "agents: { coder: { tools: [{ name: fs.read, config: { access_mode: read-only } }] } }",
            "unknown key `access_mode`",
        ),
        (
            "agents: { coder: { manifest: a.yaml, tools: [x] } }",
            "has both `manifest` and `tools`",
        ),
        ("agents: { Coder: {} }", "`Coder` cannot be an agent's name"),
        (
            "builtin_dispatchers: { fs: { max_output_bytes: 1 MiB } }",
            "only means something for `cmd`",
        ),
        (
            "builtin_dispatchers: { cmd: { search_host: x.org } }",
            "only means something for `web`",
        ),
        (
            "builtin_dispatchers: { cmd: { default_timeout_secs: 301 } }",
            "is more than `max_timeout_ceiling_secs` | write at most `300`",
        ),
        (
            "builtin_dispatchers: { web: { search_host: \"*.x.org\" } }",
            "is not a host",
        ),
        (
            "seal: { token_ttl_seconds: 86401 }",
            "must be between 1 and 86400",
        ),
        ("seal: { audiences: [] }", "so no token is for anybody"),
        (
            "seal: { public_key_path: a.pem }",
            "needs `seal.private_key_path`",
        ),
    ];
    for (text, expected) in cases {
        let found = one(text);
        assert!(found.contains(expected), "{text}\n{found}\n{expected}");
    }
}

#[test]
fn a_dotted_name_leads_to_one_server() {
    let two = |first: &str, second: &str| {
        format!(
            "mcp_servers:\n  a:\n    command: a\n    capabilities: [web.fetch, web.*]\n{first}  b:\n    command: b\n    capabilities: [{second}]\n"
        )
    };
    let found = findings(&two("", "web.fetch"));
    assert_eq!(
        found,
        ["7:20 `web.fetch` leads to `a` already, on line 4 | keep it at one of the two servers"]
    );
    assert_eq!(
        findings(&two("", "web.*")).len(),
        1,
        "the same prefix is the same name"
    );
    good(&two("", "web.search"));
    let with_tenant = two("    tenant: acme\n", "web.fetch");
    assert_eq!(
        findings(&with_tenant).len(),
        1,
        "one that is everyone's meets those of every tenant"
    );
    good(&format!("{with_tenant}    tenant: other\n"));
}

#[test]
fn a_family_in_place_of_a_tool_is_pointed_out() {
    let config = good("agents: { coder: { tools: [cmd] } }");
    assert!(
        config.warnings[0].what.contains("is a family of tools"),
        "{:?}",
        config.warnings
    );
}

#[test]
fn what_bounds_nothing_and_allows_nothing_is_pointed_out() {
    let pointed_out = |text: &str| {
        let warnings = good(text).warnings;
        warnings
            .iter()
            .map(|warning| format!("{} | {}", warning.what, warning.fix))
            .collect::<Vec<_>>()
            .join("\n")
    };
    let capability = |pattern: &str, bound: &str| {
        pointed_out(&format!(
            "security_contexts: {{ a: {{ capabilities: [{{ tool_pattern: '{pattern}', {bound} }}] }} }}"
        ))
    };
    let said = capability("fs.read", "domain_allowlist: [example.com]");
    assert_eq!(
        said,
        "`domain_allowlist` bounds nothing here: `fs.read` has nothing to do with hosts | remove it, or write it for `web.*`"
    );
    for (pattern, bound) in [
        ("web.*", "command_allowlist: [git]"),
        ("fs.*", "account_allowlist: [a@example.com]"),
        ("email.send", "subcommand_allowlist: [status]"),
        ("cmd.run", "domain_allowlist: [example.com]"),
    ] {
        assert!(
            capability(pattern, bound).contains("bounds nothing here"),
            "{pattern} {bound}"
        );
    }
    for (pattern, bound) in [
        ("*", "domain_allowlist: [example.com]"),
        ("github__*", "command_allowlist: [git]"),
        ("email.send", "domain_allowlist: [example.com]"),
        ("web.fetch", "path_allowlist: [/workspace]"),
        (
            "fs.read",
            "path_allowlist: [/workspace], rate_limit: 5/min, max_concurrent: 1",
        ),
    ] {
        assert_eq!(capability(pattern, bound), "", "{pattern} {bound}");
    }
    let agent = |tool: &str| {
        pointed_out(&format!(
            "agents: {{ a: {{ tools: [{tool}] }} }}\nmcp_servers: {{ search: {{ command: x, classification: PUBLIC }} }}"
        ))
    };
    assert!(
        agent("{ name: fs.read, config: { allowed_domains: [example.com] } }")
            .contains("`allowed_domains` bounds nothing")
    );
    assert!(
        agent("'mcp:serch'").contains(
            "there is no server `serch`, so this allows nothing | did you mean `search`?"
        )
    );
    assert!(agent("{ name: x, server: 'mcp:nosuch' }").contains("there is no server `nosuch`"));
    assert_eq!(agent("'mcp:search'"), "");
}

#[test]
fn every_mistake_of_a_file_is_named_at_once() {
    let text = "\
security_contexts:
  tenant-: {}
  a: { capabilities: [fs*], deny_list: [5, fs] }
agents: { coder: { tools: ['mcp:nosuch', fs*], security_context: none } }
builtin_dispatchers: { cmdd: { enabled: false } }
seal: { token_ttl_seconds: 0 }
listne: 1
";
    let report = parse(Path::new("portcullis.yaml"), text).expect_err("accepted");
    let places: Vec<_> = report
        .findings
        .iter()
        .map(|found| (found.place.line, found.place.column))
        .collect();
    assert_eq!(
        places,
        [
            (2, 3),
            (3, 23),
            (3, 41),
            (3, 44),
            (4, 28),
            (4, 42),
            (4, 66),
            (5, 24),
            (6, 28),
            (7, 1)
        ]
    );
}
