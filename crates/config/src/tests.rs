use std::{collections::BTreeMap, path::Path, sync::Arc, time::Duration};

use gateway::{
    DoorSettings,
    settings::{
        Allow, Health, HealthMethod, HttpKind, ServerSpec, Standing, Terms, Text, Transport,
    },
};
use policy::{Budget, Permission};
use proptest::prelude::*;
use vocab::Level;

use super::*;

mod doors;
mod idle;
mod oauth;
mod rules;
mod signed;
mod web;

fn good(text: &str) -> Resolved {
    parse(Path::new("/etc/p/portcullis.yaml"), text).unwrap_or_else(|report| panic!("{report}"))
}

fn bad(text: &str) -> String {
    match parse(Path::new("portcullis.yaml"), text) {
        Ok(resolved) => panic!("accepted: {resolved:#?}"),
        Err(report) => report.to_string(),
    }
}

/// Command, arguments, environment and directory of a server that is a program.
fn program(server: &ServerSpec) -> (&str, &[String], &BTreeMap<String, Text>, Option<&Path>) {
    match &server.transport {
        Transport::Stdio {
            command,
            args,
            env,
            cwd,
            ..
        } => (command, args, env, cwd.as_deref()),
        other => panic!("{other:?}"),
    }
}

fn secret(reference: &str) -> Text {
    Text::Secret(reference.to_owned())
}

/// Every finding on one line: `line:column what | fix`.
fn findings(text: &str) -> Vec<String> {
    let report = parse(Path::new("portcullis.yaml"), text).expect_err("accepted");
    let errors = report
        .findings
        .iter()
        .filter(|f| f.severity == Severity::Error);
    errors
        .map(|f| format!("{}:{} {} | {}", f.place.line, f.place.column, f.what, f.fix))
        .collect()
}

#[test]
fn an_empty_file_is_all_defaults() {
    for text in [
        "",
        "# nothing\n",
        "mcp_servers:\n",
        "mcp_servers: {}\nlimits:\n",
        "---\n...\n",
    ] {
        let config = good(text);
        assert_eq!(config.listen.to_string(), "127.0.0.1:7878");
        assert_eq!(
            config.terms,
            Terms {
                door: Arc::new(DoorSettings {
                    name: "portcullis",
                    version: env!("CARGO_PKG_VERSION"),
                    max_body_bytes: 4 << 20,
                    max_depth: 64,
                    max_header_bytes: 16 << 10,
                    max_sessions: 10_000,
                    allowed_origins: Vec::new(),
                    allowed_hosts: Vec::new(),
                    requires_credential: true,
                    question_timeout: Duration::from_secs(600),
                    write_timeout: Duration::from_secs(30),
                }),
                ceiling: Budget {
                    time: Duration::from_secs(3600),
                    result_bytes: 32 << 20,
                },
                max_concurrent_calls: 256,
                max_calls_per_caller: 64,
                attempts: 10,
            }
        );
        assert!(config.servers.is_empty() && config.warnings.is_empty());
    }
}

const EVERYTHING: &str = r#"
listen: "[::1]:9000"
authentication: none
allowed_origins: [https://App.example.com, "http://localhost:3000"]
limits: { max_body_bytes: 1 MiB, max_depth: 10, max_result_bytes: 2048 KiB }
trust:
  ca_files: [corp.pem, /abs/ca.pem]
retry: { attempts: 3 }
mcp_servers:
  github:
    command: npx
    args: ["-y", "@modelcontextprotocol/server-github", 8080]
    env:
      GITHUB_PERSONAL_ACCESS_TOKEN: "keychain:github-pat"
      PLAIN_VAR: literal-value
      PORT: 8080
      TEST_PASSWORD: literal:hunter2
    credentials: { KEY: secret:kv/team/key#token }
    cwd: jobs
    classification: CONFIDENTIAL
    timeout: 500ms
    tools: { "*": restricted, list_repos: permitted, delete_repo: blocked }
    health_check: off
    allow: { sampling: true, elicitation: false }
    max_result_bytes: 64 MiB
  remote_api:
    url: "https://mcp.example.com/sse"
    transport: sse
    headers: { X-Team: core, X-Api-Key: env:TEAM_KEY }
    bearer: env:REMOTE_TOKEN
    classification: PUBLIC
    timeout: 5
    health_check: { interval: 1m, method: tools/list }
    connect_timeout: 2m
"#;

#[test]
fn the_map_form_with_every_key() {
    let config = good(EVERYTHING);
    assert_eq!(config.listen.to_string(), "[::1]:9000");
    assert_eq!(
        config.terms.door.allowed_origins,
        ["https://app.example.com", "http://localhost:3000"]
    );
    assert_eq!(
        config.ca_files,
        [Path::new("/etc/p/corp.pem"), Path::new("/abs/ca.pem")]
    );
    assert_eq!(
        (
            config.terms.door.max_body_bytes,
            config.terms.door.max_depth,
            config.terms.attempts
        ),
        (1 << 20, 10, 3)
    );
    let (idle, others): (Vec<_>, Vec<_>) = config
        .warnings
        .iter()
        .partition(|warning| warning.what.contains("no effect"));
    assert_eq!(
        (idle.len(), others.len()),
        (1, 1),
        "a secret store, and authentication is off: {:?}",
        config.warnings
    );

    let github = config.server("github").unwrap();
    let (_, args, env, cwd) = program(github);
    assert_eq!(args, ["-y", "@modelcontextprotocol/server-github", "8080"]);
    assert_eq!(cwd, Some(Path::new("/etc/p/jobs")));
    assert_eq!(
        env["GITHUB_PERSONAL_ACCESS_TOKEN"],
        secret("keychain:github-pat")
    );
    assert_eq!(env["PLAIN_VAR"], Text::Literal("literal-value".into()));
    assert_eq!(env["PORT"], Text::Literal("8080".into()));
    assert_eq!(env["TEST_PASSWORD"], Text::Literal("hunter2".into()));
    assert_eq!(env["KEY"], secret("secret:kv/team/key#token"));
    assert_eq!(github.classification, Some(Level::Confidential));
    assert_eq!(github.budget.time, Duration::from_millis(500));
    assert_eq!(github.rule("list_repos").permission, Permission::Permitted);
    assert_eq!(github.rule("delete_repo").permission, Permission::Blocked);
    assert_eq!(github.rule("other").permission, Permission::Restricted);
    assert_eq!(github.health, None);
    assert_eq!(
        github.allow,
        Allow {
            sampling: true,
            roots: false,
            elicitation: false
        }
    );
    assert_eq!(
        github.budget.result_bytes,
        2 << 20,
        "the global limit holds"
    );

    let remote = config.server("remote_api").unwrap();
    let Transport::Http {
        kind,
        bearer,
        headers,
        ..
    } = &remote.transport
    else {
        panic!("{remote:?}")
    };
    assert_eq!(*kind, HttpKind::Sse);
    assert_eq!(*bearer, Some(secret("env:REMOTE_TOKEN")));
    assert_eq!(headers["x-team"], Text::Literal("core".into()));
    assert_eq!(remote.budget.time, Duration::from_secs(5));
    assert_eq!(
        (remote.connect_timeout, github.connect_timeout),
        (Some(Duration::from_secs(120)), None)
    );
    assert_eq!(
        remote.allow,
        Allow {
            sampling: false,
            roots: false,
            elicitation: true
        }
    );
    assert_eq!(
        remote.health,
        Some(Health {
            interval: Duration::from_secs(60),
            timeout: Duration::from_secs(5),
            method: HealthMethod::ListTools
        })
    );
}

#[test]
fn the_list_form_is_the_same_model_with_its_own_defaults() {
    let config = good(
        r#"
mcp_servers:
- name: web-search
  executable: "node"
  args: ["/opt/tools/web-search/index.js"]
  capabilities: [web.search, {name: web.fetch, skip_judge: true}, "web.*"]
  credentials:
    SEARCH_API_KEY: "secret:aegis-system/tools/search-api-key"
  environment: { LANG: C }
  classification: PUBLIC
  health_check:
    interval_seconds: 15
- name: other
  command: other
  classification: INTERNAL
"#,
    );
    let search = config.server("web-search").unwrap();
    let (command, _, env, _) = program(search);
    assert_eq!((command, env.len()), ("node", 2));
    assert_eq!(
        env["SEARCH_API_KEY"],
        secret("secret:aegis-system/tools/search-api-key#value")
    );
    assert_eq!(search.capabilities, ["web.search", "web.fetch", "web.*"]);
    let every = |seconds| {
        Some(Health {
            interval: Duration::from_secs(seconds),
            timeout: Duration::from_secs(5),
            method: HealthMethod::ListTools,
        })
    };
    assert!(
        config
            .warnings
            .iter()
            .all(|warning| warning.what.contains("no effect")),
        "{:?}",
        config.warnings
    );
    assert_eq!(search.health, every(15));
    assert_eq!(config.server("other").unwrap().health, every(60));
}

#[test]
fn entries_that_do_not_connect_are_kept_and_say_why() {
    let config = good(
        "mcp_servers:\n  empty:\n  off:\n    command: x\n    enabled: false\n  bare: { classification: PUBLIC }\n",
    );
    let states: Vec<_> = config
        .servers
        .iter()
        .map(|s| (s.id.as_str(), s.standing.clone()))
        .collect();
    let skipped = || Standing::Skipped("it has neither `command` nor `url`".to_owned());
    assert_eq!(
        states,
        [
            ("empty", skipped()),
            ("off", Standing::Disabled),
            ("bare", skipped())
        ]
    );
}

#[test]
fn a_server_without_classification_is_untrusted_and_warned_about() {
    let config = good("mcp_servers:\n  a: { command: x }\n");
    assert_eq!(config.server("a").unwrap().classification, None);
    assert_eq!(config.warnings[0].excerpt, "  a: { command: x }");
    assert!(config.warnings[0].what.contains("UNTRUSTED"));
}

#[test]
fn a_report_reads_like_a_compiler() {
    let text = "listen: 0.0.0.0:7878\nmcp_servers:\n  github:\n    comand: npx\n    classification: confidential\n";
    assert_eq!(
        bad(text),
        "\
error: `0.0.0.0:7878` can be reached from other machines, and the first door is for this one
 --> portcullis.yaml:1:9
  |
1 | listen: 0.0.0.0:7878
  |         ^^^^^^^^^^^^
  = fix: use `127.0.0.1:7878`, and make a door with TLS for the others: `doors: [{ listen: \"0.0.0.0:7878\", tls: { cert: …, key: … } }]`

error: unknown key `comand` in `mcp_servers.github`
 --> portcullis.yaml:4:5
  |
4 |     comand: npx
  |     ^^^^^^
  = fix: did you mean `command`?

error: `mcp_servers.github.classification` cannot be `confidential`
 --> portcullis.yaml:5:21
  |
5 |     classification: confidential
  |                     ^^^^^^^^^^^^
  = fix: write `CONFIDENTIAL`
"
    );
}

#[test]
fn credentials_in_clear_are_refused_and_not_repeated() {
    let secret = "ghp_0123456789abcdefghijABCDEFGHIJ012345";
    let text = format!(
        "mcp_servers:\n  a:\n    command: x\n    args: [--token={secret}]\n    env:\n      FOO: {secret}\n      DB_PASSWORD: hunter2\n  \
         b:\n    url: https://user:{secret}@h/\n  c:\n    url: https://h/?token=hunter2\n  d:\n    url: https://h/\n    bearer: {secret}\n    \
         headers:\n      Proxy-Authorization: Bearer hunter2\n      X-Any: {secret}\n"
    );
    let report = bad(&text);
    assert!(
        !report.contains(secret) && !report.contains("hunter2"),
        "{report}"
    );
    assert!(report.contains("      DB_PASSWORD: (hidden)\n"), "{report}");
    let lines: Vec<_> = findings(&text)
        .iter()
        .map(|f| f.split_once(' ').unwrap().0.to_owned())
        .collect();
    assert_eq!(
        lines,
        [
            "4:12", "6:12", "7:20", "9:10", "11:10", "14:13", "16:28", "17:14"
        ]
    );
}

#[test]
fn each_mistake_has_a_place_and_a_repair() {
    let cases = [
        (
            "a: &x 1\n",
            "1:4 anchors (`&name`) are not accepted here | write the value out where it is used",
        ),
        (
            "<<: {a: 1}\n",
            "1:1 merge keys (`<<`) are not accepted here | write the keys out",
        ),
        (
            "listen: !secret x\n",
            "1:9 the tag `!secret` is not accepted here | remove the tag; the key decides the type",
        ),
        (
            "retry:\nretry:\n",
            "2:1 `retry` is written twice; the first is on line 1 | remove one of the two",
        ),
        (
            "retry: {}\n---\nretry: {}\n",
            "2:1 a second YAML document starts here | keep one document; remove the `---` line and what follows it",
        ),
        (
            "- a\n",
            "1:1 the file is a map, not a list | write the keys on indented lines below, as in `listen: …`",
        ),
        (
            "server: {}\n",
            "1:1 unknown key `server` at the top of the file | the keys here are listen, doors, allowed_hosts, rate_limit, tool_timeout, admin_listen, drain, authentication, allowed_origins, policy, untrusted_influence, approvals, audit, limits, trust, retry, jails, mcp_servers, volumes, web, security_contexts, agents, builtin_dispatchers, seal, connectors, secrets, oauth",
        ),
        (
            "mcp-servers: {}\n",
            "1:1 unknown key `mcp-servers` at the top of the file | did you mean `mcp_servers`?",
        ),
        (
            "limits: { max_depth: 1000 }\n",
            "1:22 `limits.max_depth` must be between 4 and 256 | choose a value in that range, or remove the key for the default",
        ),
        (
            "limits: { max_depth: deep }\n",
            "1:22 `limits.max_depth` is a whole number, not `deep` | write a number such as `4`",
        ),
        (
            "limits: { max_body_bytes: 4 MB }\n",
            "1:27 `limits.max_body_bytes` is a number of bytes, not `4 MB` | write a number of bytes, or as in `512 KiB`, `4 MiB`",
        ),
        (
            "listen: here\n",
            "1:9 `here` is not an address and port | write it as in `127.0.0.1:7878`, or `\"[::1]:7878\"`",
        ),
        (
            "allowed_origins: ['*']\n",
            "1:19 `*` is not a web origin | write scheme, host and port only, as in `https://app.example.com` or `http://localhost:3000`",
        ),
        (
            "trust: { ca_files: [~/ca.pem] }\n",
            "1:21 `~/ca.pem`: `~` is not expanded here | write the whole path",
        ),
        (
            "mcp_servers: x\n",
            "1:14 `mcp_servers` is a map, not text | write `name: value` on indented lines below",
        ),
        (
            "mcp_servers: [{command: x}]\n",
            "1:15 a server in a list has a `name` | add `name: some-id`",
        ),
        (
            "mcp_servers: {GitHub: {}}\n",
            "1:15 `GitHub` cannot be a server's id: `G` cannot be part of a name | call it `github`",
        ),
        (
            "mcp_servers: {builtin: {}}\n",
            "1:15 `builtin` cannot be a server's id: this name is reserved for Portcullis itself | call it `builtin-server`",
        ),
        (
            "mcp_servers: {a-b: {}, a_b: {}}\n",
            "1:24 `a_b` and `a-b` (line 1) would be shown under the same name | rename one of the two",
        ),
        (
            "mcp_servers: [{name: a}, {name: a}]\n",
            "1:33 the server `a` is already defined on line 1 | rename one of the two",
        ),
        (
            "mcp_servers: {a: {command: x, url: http://h/}}\n",
            "1:36 `mcp_servers.a` has both `command` and `url` | keep one: `command` starts a program, `url` connects to one",
        ),
        (
            "mcp_servers: {a: {command: x, bearer: env:A}}\n",
            "1:39 `mcp_servers.a.bearer` only means something beside `url` | remove it",
        ),
        (
            "mcp_servers: {a: {url: http://h/, args: [x]}}\n",
            "1:41 `mcp_servers.a.args` only means something beside `command` | remove it",
        ),
        (
            "mcp_servers: {a: {url: ftp://h/}}\n",
            "1:24 `mcp_servers.a.url` is not an http URL | write it as in `https://host/mcp`",
        ),
        (
            "mcp_servers: {a: {enabled: yes}}\n",
            "1:28 `mcp_servers.a.enabled` is `true` or `false`, not `yes` | write `true` or `false`",
        ),
        (
            "mcp_servers: {a: {args: x}}\n",
            "1:25 `mcp_servers.a.args` is a list, not text | write `[x]`",
        ),
        (
            "mcp_servers: {a: {timeout: soon}}\n",
            "1:28 `mcp_servers.a.timeout` is a duration, not `soon` | write it as in `30s`, `500ms`, `2m`, or as a number of seconds",
        ),
        (
            "mcp_servers: {a: {timeout: 0}}\n",
            "1:28 `mcp_servers.a.timeout` must be between 1ms and 1h | choose a value in that range, or remove the key for the default",
        ),
        (
            "mcp_servers: {a: {tools: {x: alowed}}}\n",
            "1:30 `mcp_servers.a.tools.x` cannot be `alowed` | use one of permitted, restricted, blocked",
        ),
        (
            "mcp_servers: {a: {tools: {x: block}}}\n",
            "1:30 `mcp_servers.a.tools.x` cannot be `block` | write `blocked`",
        ),
        (
            "mcp_servers: {a: {health_check: false}}\n",
            "1:33 `mcp_servers.a.health_check` is a map or the word `off`, not a boolean | write `off`, or a map",
        ),
        (
            "mcp_servers: {a: {health_check: {interval: 9s, interval_seconds: 9}}}\n",
            "1:66 `mcp_servers.a.health_check` has both `interval` and `interval_seconds` | keep `interval`",
        ),
        (
            "mcp_servers: {a: {url: http://h/, headers: {Host: x}}}\n",
            "1:51 the header `Host` is set by the connection itself | remove or rename it",
        ),
        (
            "mcp_servers: {a: {command: x, env: {A: 'env:'}}}\n",
            "1:40 `mcp_servers.a.env.A`: `env:` needs a variable name of letters, digits and `_`, as in `env:GITHUB_TOKEN` | use `env:NAME`, `keychain:name` (stored with `portcullis secret set name`) or `secret:engine/path#field`",
        ),
    ];
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let found = findings(text);
        if found.first().map(String::as_str) != Some(expected) {
            wrong.push(format!(
                "{text:?}\n  expected {expected}\n  found {found:#?}"
            ));
        }
        assert!(
            found.iter().all(|line| !line.ends_with("| ")),
            "a finding without a repair: {found:?}"
        );
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn all_mistakes_are_reported_at_once() {
    let text = "listen: 0.0.0.0:1\nlimits: { max_depth: x, bogus: 1 }\nmcp_servers:\n  A: {}\n  b: { enabled: 3, command: x, url: y }\n";
    assert_eq!(findings(text).len(), 6, "{:#?}", findings(text));
}

#[test]
fn budgets_hold() {
    let deep = format!("a: {}{}", "[".repeat(40), "]".repeat(40));
    assert!(bad(&deep).contains("nested more than 32 deep"));
    let long = format!("# {}\n", "x".repeat(tree::MAX_BYTES));
    assert!(bad(&long).contains("the limit is 1048576"));
    let bomb: String = (1..30)
        .map(|n| format!("a{n}: &a{n} [*a{0}, *a{0}]\n", n - 1))
        .collect();
    assert!(bad(&bomb).contains("not"));
}

#[test]
fn terminal_controls_never_reach_the_terminal() {
    let report = bad("listen: \"\u{7}x\\e[31m\"\nmcp_servers: {\"a\\e[2J\": {}}\n");
    assert!(
        report.chars().all(|c| c == '\n' || !c.is_control()),
        "{report:?}"
    );
}

#[test]
fn the_file_of_a_new_home_resolves_without_a_warning() {
    let text = default_file(Path::new("/opt/some dir/portcullis"));
    let config = good(&text);
    assert!(config.warnings.is_empty(), "{:?}", config.warnings);
    let shown: Vec<_> = config
        .servers
        .iter()
        .map(|s| (s.id.as_str(), s.classification.unwrap().as_str()))
        .collect();
    assert_eq!(
        shown,
        [("demo-notes", "CONFIDENTIAL"), ("demo-web", "PUBLIC")]
    );
    let (command, args, ..) = program(&config.servers[0]);
    assert_eq!(
        (command, args.join(" ")),
        ("/opt/some dir/portcullis", "demo-server notes".to_owned())
    );
    // What is commented out must work when someone removes the `#`.
    let (head, yours) = text.split_once("  # Yours.").unwrap();
    let active: String = yours
        .lines()
        .skip(2)
        .map(|line| format!("{}\n", line.replacen("  # ", "  ", 1).trim_end_matches('#')))
        .collect();
    assert_eq!(good(&format!("{head}{active}")).servers.len(), 4);
}

#[test]
fn moving_an_entry_does_not_change_it() {
    let (before, after) = (
        "mcp_servers:\n  a: {command: x}\n",
        "# new\nmcp_servers:\n  a: {command: x}\n",
    );
    let (a, b, c) = (good(before), good(after), good(&after.replace("x}", "y}")));
    assert!(a.servers[0] == b.servers[0] && a.servers[0] != c.servers[0]);
    assert_ne!(a.place("a").unwrap(), b.place("a").unwrap());
}

#[test]
fn explain_names_the_origin_of_every_value() {
    let text =
        "retry: { attempts: 3 }\nmcp_servers:\n  a:\n    command: x\n    env: { B: env:C }\n";
    let raw = Raw::parse(Path::new("/c/portcullis.yaml"), text).unwrap();
    let rows = explain(
        &raw,
        &[Override {
            key: "listen",
            value: "127.0.0.1:9".to_owned(),
            origin: "--listen",
        }],
    );
    let row = |key: &str| {
        rows.iter()
            .find(|row| row.key == key)
            .map(|row| (row.value.as_str(), row.origin.as_str()))
    };
    assert_eq!(row("listen"), Some(("127.0.0.1:9", "--listen")));
    assert_eq!(row("retry.attempts"), Some(("3", "portcullis.yaml:1")));
    assert_eq!(row("limits.max_depth"), Some(("64", "default")));
    assert_eq!(
        row("mcp_servers.a.command"),
        Some(("x", "portcullis.yaml:4"))
    );
    assert_eq!(
        row("mcp_servers.a.env"),
        Some((r#"{"B":"env:C"}"#, "portcullis.yaml:5"))
    );
    assert_eq!(
        row("mcp_servers.a.health_check.interval"),
        Some(("30s", "default"))
    );
    assert_eq!(
        row("mcp_servers.a.classification"),
        None,
        "no value, no row"
    );
    assert_eq!(row("mcp_servers.a.transport"), None, "not a remote server");
}

/// Every default must be what the key accepts, or the table lies.
#[test]
fn defaults_in_the_table_pass_their_own_check() {
    fn walk(keys: &'static [keys::Key], path: &str) {
        for key in keys {
            let path = format!("{path}.{}", key.name);
            if !key.default.is_empty() {
                let node = tree::parse(key.default).unwrap();
                let mut findings = Vec::new();
                check::check(&node, &key.kind, &path, &mut findings);
                assert!(findings.is_empty(), "{path}: {findings:?}");
            }
            assert!(
                key.doc.ends_with('.') && key.doc.len() > 10,
                "{path} is not documented"
            );
            match key.kind {
                keys::Kind::Table(below)
                | keys::Kind::TableOrWord(below, _)
                | keys::Kind::TableList(below) => walk(below, &path),
                keys::Kind::Servers(mapped, listed) => {
                    walk(mapped, &path);
                    walk(listed, &path);
                }
                _ => {}
            }
        }
    }
    walk(keys::ROOT, "");
}

/// A table that the page leaves out cannot be looked up.
#[test]
fn the_reference_has_a_section_for_every_table() {
    use keys::{Key, Kind};
    fn walk(keys: &'static [Key], path: &str, page: &str) {
        for key in keys {
            let path = if path.is_empty() {
                key.name.to_owned()
            } else {
                format!("{path}.{}", key.name)
            };
            let (title, below) = match key.kind {
                Kind::Table(below) | Kind::TableOrWord(below, _) | Kind::RateOrTable(below) => {
                    (path, below)
                }
                Kind::TableList(below) => (format!("{path}[]"), below),
                Kind::Servers(mapped, _) => (format!("{path}.ID"), mapped),
                Kind::Named(mapped, _) | Kind::AgentMap(mapped) | Kind::RuleMap(_, mapped) => {
                    (format!("{path}.NAME"), mapped)
                }
                _ => continue,
            };
            assert!(page.contains(&format!("\n## {title}\n")), "{title}");
            walk(below, &title, page);
        }
    }
    walk(keys::ROOT, "", &reference());
}

proptest! {
    #[test]
    fn no_text_panics(text in "\\PC{0,200}") {
        let _ = parse(Path::new("x"), &text);
    }

    #[test]
    fn no_yaml_like_text_panics(text in "([a-z_]{0,6}[:\\-&*!|>'\"\\[\\]{},#% \n\t]{1,3}){0,40}") {
        let _ = parse(Path::new("x"), &text);
    }

    #[test]
    fn a_damaged_file_is_reported_inside_itself(cut in 0usize..600, gone in 0usize..40, junk in "[a-z:\\-\\[\\]{}&*!|>'\"#% \n\t\u{e9}]{0,12}") {
        let whole: Vec<char> = EVERYTHING.chars().collect();
        let cut = cut.min(whole.len());
        let tail = whole.iter().skip(cut + gone);
        let text: String = whole.iter().take(cut).copied().chain(junk.chars()).chain(tail.copied()).collect();
        match parse(Path::new("x"), &text) {
            Ok(resolved) => {
                for server in &resolved.servers {
                    // What resolves can be edited, or says that it cannot; it is never edited wrongly.
                    let _ = edit::set_enabled(&text, server.id.as_str(), false);
                    let _ = edit::remove_server(&text, server.id.as_str());
                }
            }
            Err(report) => {
                prop_assert!(report.has_errors());
                let lines = text.lines().count() + 1;
                for finding in &report.findings {
                    prop_assert!((1..=lines).contains(&finding.place.line), "{finding:?} in {lines} lines");
                    prop_assert!(!finding.what.is_empty() && !finding.fix.is_empty());
                }
            }
        }
    }

    #[test]
    fn sizes_and_durations_read_back(bytes in 0u64..1 << 40, ms in 0u64..1 << 36) {
        prop_assert_eq!(units::size(&units::show_size(bytes)), Some(bytes));
        let duration = Duration::from_millis(ms);
        prop_assert_eq!(units::duration(&units::show_duration(duration)), Some(duration));
    }
}
