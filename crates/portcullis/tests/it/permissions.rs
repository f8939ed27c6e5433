//! Who may use what: users, departments and agents on credentials, limits per server and tool, and one's own account.

use std::time::Duration;

use serde_json::json;
use testkit::client::{Client, Era};
use testkit::gate::{Gate, Setup};
use testkit::shifty::{Shifty, Shown, tool};

use crate::operator::{FLOOR_ONLY, SOON, assert_allowed, assert_refused, caller, done, shifty};
use crate::support::{await_state, client, config, gate, http, portcullis, records};

/// A gate with one server, entered like this; its tools are `read`, `write` and `admin`.
async fn one_server(entry: &str) -> (Gate, Shifty) {
    let up = shifty(Shown::tools(
        ["read", "write", "admin"].map(|name| tool(name, "A tool")),
    ))
    .await;
    let gate = gate(&format!(
        "{FLOOR_ONLY}{}",
        config(&[("up", http(&up.url(), entry))])
    ))
    .await;
    await_state(&gate, "up", "connected", SOON).await;
    (gate, up)
}

async fn may(agent: &Client, tool: &str) -> bool {
    let called = agent
        .call(&format!("up__{tool}"), json!({"text": "x"}))
        .await
        .unwrap();
    if called.is_error {
        assert_refused(&called, "PermissionDenied", "Permission denied");
    }
    !called.is_error
}

/// Two departments, two sets of tools; a person's own name and the program's name count as well.
#[tokio::test]
async fn departments_users_and_agents_have_their_own_tools() {
    let rules = "classification: PUBLIC, tools: { write: { departments: [eng] }, admin: { users: [root], agents: [janitor] } }";
    let (gate, up) = one_server(rules).await;
    let who = [
        (
            "engineer",
            &["--user", "alice", "--department", "eng"][..],
            [true, true, false],
        ),
        (
            "seller",
            &["--user", "bob", "--department", "sales"],
            [true, false, false],
        ),
        (
            "both",
            &[
                "--user",
                "carol",
                "--department",
                "sales",
                "--department",
                "eng",
            ],
            [true, true, false],
        ),
        ("root", &["--user", "root"], [true, false, true]),
        ("janitor", &["--agent", "janitor"], [true, false, true]),
        // A department is not a user, a user is not an agent.
        (
            "impostor",
            &["--user", "eng", "--department", "root", "--agent", "root"],
            [true, false, false],
        ),
        ("nobody", &[], [true, false, false]),
    ];
    for (name, options, expected) in who {
        let agent = caller(&gate, name, options, Era::Modern).await;
        let before = up.count("tools/call");
        let allowed = [
            may(&agent, "read").await,
            may(&agent, "write").await,
            may(&agent, "admin").await,
        ];
        assert_eq!(allowed, expected, "{name}");
        let arrived = up.count("tools/call") - before;
        assert_eq!(
            arrived,
            expected.iter().filter(|allowed| **allowed).count(),
            "{name}"
        );
        let mut listed = agent.tool_names().await.unwrap();
        listed.sort_unstable();
        assert!(
            listed.contains(&"up__read".to_owned()),
            "{name}: {listed:?}"
        );
    }
}

/// A server's list closes all of it, tools with rules of their own included.
#[tokio::test]
async fn a_servers_list_closes_all_of_it() {
    let rules = "classification: PUBLIC, access: { departments: [eng] }, tools: { write: { users: [bob] } }";
    let (gate, up) = one_server(rules).await;
    let alice = caller(
        &gate,
        "alice",
        &["--user", "alice", "--department", "eng"],
        Era::Legacy,
    )
    .await;
    assert!(may(&alice, "read").await && !may(&alice, "write").await);
    let bob = caller(&gate, "bob", &["--user", "bob"], Era::Legacy).await;
    assert!(!may(&bob, "read").await && !may(&bob, "write").await);
    let granted = caller(&gate, "granted", &["--grant", "up__*"], Era::Modern).await;
    assert!(
        !may(&granted, "read").await,
        "a grant is for restricted tools, not for closed servers"
    );
    let read = bob
        .request("resources/read", json!({"uri": "portcullis://up/note://1"}))
        .await
        .unwrap();
    assert!(read.get("error").is_some(), "{read}");
    assert_eq!(
        up.heard()
            .iter()
            .filter(|heard| heard.is_of_a_caller())
            .count(),
        1
    );
}

/// So many calls in so much time, for all callers together; per tool and per server.
#[tokio::test]
async fn rates_are_limited_per_server_and_per_tool() {
    let (gate, up) = one_server(
        "classification: PUBLIC, rate_limit: 5/h, tools: { write: { rate_limit: 2/h } }",
    )
    .await;
    let (one, two) = (
        client(&gate, Era::Modern).await,
        caller(&gate, "two", &[], Era::Legacy).await,
    );
    let write = async |agent: &Client| agent.call("up__write", json!({"text": "x"})).await.unwrap();
    assert_allowed(&write(&one).await, "x");
    assert_allowed(&write(&two).await, "x");
    for agent in [&one, &two] {
        let refused = write(agent).await;
        assert_eq!(
            refused.violation(),
            Some("RateLimitExceeded"),
            "{}",
            refused.answer
        );
    }
    let mut allowed = 0;
    for agent in [&one, &two, &one, &two, &one, &two, &one] {
        allowed += usize::from(
            !agent
                .call("up__read", json!({"text": "x"}))
                .await
                .unwrap()
                .is_error,
        );
    }
    // What the tool's own limit refused may or may not have counted against the server's.
    assert!(
        (1..=3).contains(&allowed),
        "{allowed} calls of five are left after two"
    );
    assert_eq!(up.count("tools/call"), 2 + allowed);
    let last = one.call("up__read", json!({"text": "x"})).await.unwrap();
    assert_eq!(
        last.violation(),
        Some("RateLimitExceeded"),
        "{}",
        last.answer
    );
}

/// A limit is a matter of time: later it lets one through again.
#[tokio::test]
async fn a_rate_recovers() {
    let (gate, up) = one_server("classification: PUBLIC, rate_limit: 1/s").await;
    let agent = client(&gate, Era::Modern).await;
    let mut refused = 0;
    let mut allowed = 0;
    let begin = std::time::Instant::now();
    while begin.elapsed() < Duration::from_millis(2500) {
        let called = agent.call("up__read", json!({"text": "x"})).await.unwrap();
        if called.is_error {
            refused += 1
        } else {
            allowed += 1
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert!(
        refused > 0 && (2..=4).contains(&allowed),
        "{allowed} allowed, {refused} refused"
    );
    assert_eq!(up.count("tools/call"), allowed);
}

/// A tool that wants the person's own account gets that account's token, and never the system's.
#[tokio::test]
async fn a_users_own_account_is_used_and_no_other() {
    let up = shifty(Shown::tools([tool("mine", "Mine"), tool("ours", "Ours")])).await;
    let entry = "classification: PUBLIC, bearer: env:SYSTEM_TOKEN, tools: { mine: { requires_user_auth: true } }";
    let yaml = format!("{FLOOR_ONLY}{}", config(&[("up", http(&up.url(), entry))]));
    let mut gate = Setup::new(portcullis(), yaml)
        .env("SYSTEM_TOKEN", "system-4711")
        .start()
        .await
        .unwrap();
    await_state(&gate, "up", "connected", SOON).await;
    let connected = gate
        .cli_with_input(
            &["connect-account", "up", "--user", "alice"],
            "alice-0815\n",
        )
        .await
        .unwrap();
    assert_eq!(connected.code, Some(0), "{connected:?}");
    assert!(
        !format!("{}{}", connected.stdout, connected.stderr).contains("alice-0815"),
        "{connected:?}"
    );
    let alice = caller(&gate, "alice-laptop", &["--user", "alice"], Era::Modern).await;
    let bob = caller(&gate, "bob-laptop", &["--user", "bob"], Era::Modern).await;
    let nobody = caller(&gate, "nobody", &[], Era::Modern).await;
    let elsewhere = ["--user", "alice", "--tenant", "acme"];
    let namesake = caller(&gate, "namesake", &elsewhere, Era::Modern).await;
    assert_allowed(
        &alice.call("up__mine", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    assert_allowed(
        &alice.call("up__ours", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    for (stranger, how) in [
        (&bob, "connect-account"),
        (&nobody, "user"),
        (&namesake, "--tenant acme"),
    ] {
        let refused = stranger
            .call("up__mine", json!({"text": "x"}))
            .await
            .unwrap();
        assert_refused(&refused, "PermissionDenied", "Permission denied");
        assert!(
            refused.answer.to_string().contains(how),
            "it does not say how: {}",
            refused.answer
        );
        assert_allowed(
            &stranger
                .call("up__ours", json!({"text": "x"}))
                .await
                .unwrap(),
            "x",
        );
    }
    let seen = |name: &str| {
        up.calls_of(name)
            .into_iter()
            .map(|heard| heard.authorization.unwrap_or_default())
            .collect::<Vec<_>>()
    };
    assert_eq!(seen("mine"), ["Bearer alice-0815"]);
    assert_eq!(
        seen("ours"),
        [
            "Bearer system-4711",
            "Bearer system-4711",
            "Bearer system-4711",
            "Bearer system-4711"
        ]
    );
    // Two people at once do not get each other's.
    let bobs = gate
        .cli_with_input(&["connect-account", "up", "--user", "bob"], "bob-1337\n")
        .await
        .unwrap();
    assert_eq!(bobs.code, Some(0), "{bobs:?}");
    let calls: Vec<_> = (0..20)
        .map(|turn| {
            let (agent, whose) = if turn % 2 == 0 {
                (&alice, "alice")
            } else {
                (&bob, "bob")
            };
            agent.start(
                "tools/call",
                json!({"name": "up__mine", "arguments": {"text": format!("of {whose}")}}),
            )
        })
        .collect();
    for call in calls {
        assert!(call.answer().await.unwrap().get("result").is_some());
    }
    // Nor do two of one name in two tenants.
    let connect = [&["connect-account", "up"][..], &elsewhere].concat();
    let acmes = gate.cli_with_input(&connect, "acme-2222\n").await.unwrap();
    assert_eq!(acmes.code, Some(0), "{acmes:?}");
    for (agent, whose) in [(&namesake, "of acme"), (&alice, "of alice")] {
        let called = agent.call("up__mine", json!({"text": whose})).await;
        assert_allowed(&called.unwrap(), whose);
    }
    for heard in up.calls_of("mine").iter().skip(1) {
        let whose = heard.params["arguments"]["text"]
            .as_str()
            .unwrap_or_default()
            .trim_start_matches("of ");
        assert!(
            heard
                .authorization
                .as_deref()
                .is_some_and(|token| token.contains(whose)),
            "{heard:?}"
        );
    }
    let listed = done(&gate, &["connect-account", "--list"]).await;
    assert!(
        listed.stdout.contains("alice") && !listed.stdout.contains("alice-0815"),
        "{listed:?}"
    );
    done(
        &gate,
        &["connect-account", "up", "--user", "alice", "--remove"],
    )
    .await;
    let refused = alice.call("up__mine", json!({"text": "x"})).await.unwrap();
    assert_refused(&refused, "PermissionDenied", "Permission denied");
    let everything = format!("{:?}{}", records(&gate).await, gate.output());
    gate.stop().await.unwrap();
    for secret in ["alice-0815", "bob-1337", "acme-2222", "system-4711"] {
        assert!(
            !everything.contains(secret),
            "{secret} is in the ledger or the log"
        );
        assert_eq!(
            files_with(gate.home(), secret),
            Vec::<String>::new(),
            "{secret} is in clear on disk"
        );
    }
}

/// The files below a directory that contain this text.
fn files_with(directory: &std::path::Path, text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            found.extend(files_with(&path, text));
        } else if std::fs::read(&path).is_ok_and(|bytes| {
            bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes())
        }) {
            found.push(path.display().to_string());
        }
    }
    found
}

/// One's own account needs a server that can be told whose: a program on a pipe cannot.
#[tokio::test]
async fn user_accounts_need_a_remote_server() {
    let yaml = "mcp_servers:\n  up: { command: cat, classification: PUBLIC, tools: { mine: { requires_user_auth: true } } }\n";
    let home = tempfile::tempdir().unwrap();
    std::fs::write(home.path().join("portcullis.yaml"), yaml).unwrap();
    let said = testkit::gate::run(&portcullis(), home.path(), &["config", "check"], "")
        .await
        .unwrap();
    assert_ne!(said.code, Some(0), "{said:?}");
    let words = format!("{}{}", said.stdout, said.stderr);
    assert!(
        words.contains("requires_user_auth") && words.contains("url"),
        "{words}"
    );
}

/// Six facts about every call, allowed or not: server, tool, who, the decision, what became of the label, when.
#[tokio::test]
async fn the_record_of_a_call_has_the_six_facts() {
    let (gate, _up) = one_server("classification: INTERNAL, tools: { admin: blocked }").await;
    let agent = caller(
        &gate,
        "laptop",
        &["--user", "alice", "--agent", "claude"],
        Era::Modern,
    )
    .await;
    assert_allowed(
        &agent.call("up__read", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    agent.call("up__admin", json!({"text": "x"})).await.unwrap();
    let records = records(&gate).await;
    for (tool, kinds) in [
        ("read", &["intent", "outcome"][..]),
        ("admin", &["refusal"]),
    ] {
        let about: Vec<_> = records
            .iter()
            .filter(|record| kinds.iter().any(|kind| record["kind"] == *kind))
            .collect();
        let about: Vec<_> = about
            .into_iter()
            .filter(|record| record["tool"] == tool)
            .collect();
        let words = format!("{about:?}");
        assert!(!about.is_empty(), "{records:#?}");
        for fact in ["up", tool, "alice", "claude", "\"caller\""] {
            assert!(words.contains(fact), "no {fact} in {words}");
        }
        assert!(
            about.iter().any(|record| record["verdict"].is_string()),
            "no decision in {words}"
        );
        assert!(
            words.contains("time") || words.contains("_ms") || words.contains("\"at\""),
            "no time in {words}"
        );
    }
    let read = records
        .iter()
        .find(|record| record["kind"] == "outcome" && record["tool"] == "read");
    let read = read
        .unwrap_or_else(|| panic!("no outcome in {records:#?}"))
        .to_string();
    assert!(
        read.contains("INTERNAL"),
        "the change of the label is not in {read}"
    );
}
