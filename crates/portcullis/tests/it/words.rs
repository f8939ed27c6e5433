//! Words of a server that are no result of a call: lists, capabilities, log messages, refusals. They pass the same door as results.

use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::gate::{Gate, Setup};
use testkit::shifty::{Shifty, Shown, tool};

use crate::operator::{FLOOR_ONLY, SOON, assert_allowed, assert_refused, caller, label, shifty};
use crate::support::{await_state, config, eventually, gate, http, portcullis, records};

const CANARY: &str = "canary-5ec7e7";
const HIGH: &str = "classification: CONFIDENTIAL, open_world: false";
const LOW: &str = "classification: PUBLIC, open_world: false";

/// A server of each kind behind one gate.
struct Pair {
    gate: Gate,
    sec: Shifty,
    public: Shifty,
}

async fn pair(shown: Shown, high: &str) -> Pair {
    let (sec, public) = (shifty(shown).await, shifty(Shown::usual()).await);
    let servers = config(&[
        ("sec", http(&sec.url(), high)),
        ("pub", http(&public.url(), LOW)),
    ]);
    let gate = gate(&format!("{FLOOR_ONLY}{servers}")).await;
    for id in ["sec", "pub"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    Pair { gate, sec, public }
}

/// A client of one server's own door.
async fn mounted(gate: &Gate, name: &str, server: &str, era: Era) -> Client {
    let token = crate::support::new_token(gate, name, &[]).await;
    let target = gate
        .target()
        .unwrap()
        .with_token(Some(&token))
        .at(&format!("/u/{server}/mcp"));
    Client::plain(&target, era).await.unwrap()
}

/// Waits until the gate has read a server's lists again: something that everybody is shown has changed.
async fn await_listed(gate: &Gate, shifty: &Shifty, before: usize) {
    eventually("the lists to be read again", SOON, || async {
        if shifty.count("resources/list") > before {
            Ok(())
        } else {
            Err(gate.output())
        }
    })
    .await;
}

/// Lets the gate read the server's lists anew and waits until they are in force. `probe` may see them.
async fn relist(pair: &Pair, probe: &Client) {
    let marker = format!("marker://{}", pair.sec.count("resources/list"));
    pair.sec.change(|shown| {
        shown
            .resources
            .get_or_insert_default()
            .push(json!({"uri": marker, "name": "marker"}))
    });
    assert_allowed(
        &probe.call("sec__say", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    pair.sec.announce("resources");
    eventually("the new list to be in force", SOON, || async {
        let seen = json!(probe.list("resources").await.unwrap()).to_string();
        if seen.contains(&marker) {
            Ok(())
        } else {
            Err(seen)
        }
    })
    .await;
}

#[tokio::test]
async fn resources_above_a_sessions_label_are_not_listed_and_those_below_are() {
    let pair = pair(Shown::usual(), HIGH).await;
    let probe = caller(&pair.gate, "probe", &[], Era::Modern).await;
    pair.sec.change(|shown| {
        shown.resources = Some(vec![
            json!({"uri": format!("file:///{CANARY}"), "name": CANARY, "description": CANARY,
            "_meta": {"a": CANARY}}),
        ]);
    });
    relist(&pair, &probe).await;
    for era in [Era::Legacy, Era::Modern] {
        let name = format!("agent-{era:?}");
        let agent = caller(&pair.gate, &name, &[], era).await;
        let own = mounted(&pair.gate, &format!("own-{era:?}"), "sec", era).await;
        for client in [&agent, &own] {
            let answer = client.request("resources/list", json!({})).await.unwrap();
            assert!(!answer.to_string().contains(CANARY), "{answer}");
            assert_eq!(
                answer.pointer("/result/_meta/portcullis~1unlisted"),
                Some(&json!(["sec"])),
                "{answer}"
            );
        }
        let answer = agent
            .request("resources/list", json!({}))
            .await
            .unwrap()
            .to_string();
        assert!(answer.contains("portcullis://pub/note://1"), "{answer}");
        assert_eq!(
            label(&pair.gate, &name).await,
            "PUBLIC",
            "listing raises nothing"
        );
        assert_allowed(
            &agent
                .call("pub__say", json!({"text": "still free"}))
                .await
                .unwrap(),
            "still free",
        );
        assert_allowed(
            &agent
                .call("sec__say", json!({"text": "read"}))
                .await
                .unwrap(),
            "read",
        );
        let answer = agent
            .request("resources/list", json!({}))
            .await
            .unwrap()
            .to_string();
        assert!(
            answer.contains(CANARY),
            "who has read from it sees its list: {answer}"
        );
        assert_refused(
            &agent
                .call("pub__say", json!({"text": CANARY}))
                .await
                .unwrap(),
            "WouldViolateWriteDown",
            "",
        );
    }
    assert!(!pair.public.ever_heard(CANARY));
}

#[tokio::test]
async fn a_session_that_comes_to_see_more_is_told_to_look_again() {
    let pair = pair(Shown::usual(), HIGH).await;
    let agent = caller(&pair.gate, "agent", &[], Era::Legacy).await;
    let other = caller(&pair.gate, "other", &[], Era::Legacy).await;
    agent.listen(&[]).await.unwrap();
    other.listen(&[]).await.unwrap();
    assert_allowed(
        &agent.call("sec__say", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    agent
        .wait_for("notifications/resources/list_changed", SOON)
        .await
        .unwrap();
    assert!(
        other.seen().is_empty(),
        "what one session has seen is nobody else's news: {:?}",
        other.seen()
    );
}

#[tokio::test]
async fn what_a_server_leaves_out_or_turns_round_tells_nothing_to_those_below_it() {
    let names: Vec<String> = (0..16).map(|number| format!("bit{number:02}")).collect();
    let tools: Vec<Value> = names
        .iter()
        .map(|name| tool(name, "One bit"))
        .chain([tool("say", "Says")])
        .collect();
    let prompts: Vec<Value> = (0..8)
        .map(|number| json!({"name": format!("p{number}")}))
        .collect();
    let templates: Vec<Value> = (0..8)
        .map(|number| json!({"uriTemplate": format!("t{number}://{{x}}"), "name": "t"}))
        .collect();
    let shown = Shown {
        tools,
        prompts,
        templates,
        instructions: Some("be brief".into()),
        ..Shown::default()
    };
    let pair = pair(shown, HIGH).await;
    let agent = caller(&pair.gate, "agent", &[], Era::Modern).await;
    let own = mounted(&pair.gate, "own", "sec", Era::Modern).await;
    let lists = async || {
        let mut seen = Vec::new();
        for client in [&agent, &own] {
            for method in [
                "tools/list",
                "prompts/list",
                "resources/list",
                "resources/templates/list",
                "server/discover",
            ] {
                seen.push(client.request(method, json!({})).await.unwrap()["result"].clone());
            }
        }
        seen
    };
    let probe = caller(&pair.gate, "probe", &[], Era::Modern).await;
    let before = lists().await;
    agent.listen(&[]).await.unwrap();
    pair.sec.change(|shown| {
        shown
            .tools
            .retain(|tool| !["bit03", "bit07"].iter().any(|gone| tool["name"] == **gone));
        shown.tools.reverse();
        shown.prompts.truncate(3);
        shown.templates.reverse();
        shown.templates.truncate(5);
    });
    relist(&pair, &probe).await;
    assert_eq!(lists().await, before);
    let seen: Vec<Value> = agent
        .seen()
        .into_iter()
        .filter(|said| said["method"] != "notifications/subscriptions/acknowledged")
        .collect();
    assert!(
        seen.is_empty(),
        "a change that it cannot see is no news: {seen:?}"
    );
    // Left out is like not there, and arrives nowhere.
    let called = agent.call("sec__bit03", json!({})).await.unwrap();
    assert_eq!(
        called.error_code(),
        Some("upstream_unavailable"),
        "{}",
        called.answer
    );
    assert!(pair.sec.calls_of("bit03").is_empty());
    assert_eq!(label(&pair.gate, "agent").await, "PUBLIC");
}

#[tokio::test]
async fn capabilities_are_the_gates_own_words() {
    let said = json!({"tools": {"listChanged": true, "note": CANARY}, "resources": {}, "logging": {"a": CANARY},
        "tasks": {"list": {"x": CANARY}}, "experimental": {CANARY: {}}, CANARY: {"x": 1}});
    let shown = Shown {
        capabilities: Some(said),
        ..Shown::usual()
    };
    let pair = pair(shown, LOW).await;
    for era in [Era::Legacy, Era::Modern] {
        let hello = match era {
            Era::Legacy => {
                let params = json!({"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
                let message =
                    json!({"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params});
                let headers = [
                    ("content-type", "application/json"),
                    ("accept", "application/json, text/event-stream"),
                ];
                let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
                let target = pair.gate.target().unwrap().at("/u/sec/mcp");
                target
                    .send("POST", &headers, message.to_string().into_bytes())
                    .await
                    .unwrap()
                    .json()
                    .await
                    .unwrap()
            }
            Era::Modern => mounted(&pair.gate, "own", "sec", era)
                .await
                .request("server/discover", json!({}))
                .await
                .unwrap(),
        };
        assert!(!hello.to_string().contains(CANARY), "{hello}");
        assert_eq!(
            hello.pointer("/result/capabilities/tools"),
            Some(&json!({"listChanged": true})),
            "{hello}"
        );
        assert!(
            hello.pointer("/result/capabilities/prompts").is_none(),
            "{hello}"
        );
    }
}

fn log(text: &str) -> Value {
    json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "error", "data": text}})
}

#[tokio::test]
async fn what_a_server_says_by_itself_reaches_who_uses_it_and_raises_no_label() {
    let (sec, public) = (shifty(Shown::usual()).await, shifty(Shown::usual()).await);
    let kept = "classification: RESTRICTED, open_world: false, access: { users: [alice] }";
    let servers = config(&[
        ("sec", http(&sec.url(), kept)),
        ("pub", http(&public.url(), LOW)),
    ]);
    let gate = gate(&format!("{FLOOR_ONLY}{servers}")).await;
    for id in ["sec", "pub"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let alice = caller(&gate, "alice", &["--user", "alice"], Era::Legacy).await;
    let idle = caller(&gate, "idle", &["--user", "alice"], Era::Legacy).await;
    let bob = caller(&gate, "bob", &["--user", "bob"], Era::Legacy).await;
    for client in [&alice, &idle, &bob] {
        client.listen(&[]).await.unwrap();
        client.set_log_level("debug").await.unwrap();
    }
    assert_allowed(
        &alice.call("sec__say", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    assert_refused(
        &bob.call("sec__say", json!({"text": "x"})).await.unwrap(),
        "PermissionDenied",
        "",
    );
    eventually("the gate to listen", SOON, || async {
        if sec.listeners() > 0 {
            Ok(())
        } else {
            Err("nobody listens".to_owned())
        }
    })
    .await;
    sec.tell(&json!({"jsonrpc": "2.0", "method": "notifications/elicitation/complete", "params": {"elicitationId": CANARY, "x": CANARY}}));
    sec.tell(&json!({"jsonrpc": "2.0", "method": "notifications/resources/updated", "params": {"uri": CANARY}}));
    sec.tell(&log(CANARY));
    alice.wait_for("notifications/message", SOON).await.unwrap();
    assert!(
        json!(alice.seen_of("notifications/message"))
            .to_string()
            .contains(CANARY)
    );
    assert!(
        alice
            .seen_of("notifications/elicitation/complete")
            .is_empty(),
        "nobody was asked to go anywhere"
    );
    // A word of the other server arrives after what was withheld.
    for (name, client) in [("idle", &idle), ("bob", &bob)] {
        assert_allowed(
            &client.call("pub__say", json!({"text": "x"})).await.unwrap(),
            "x",
        );
        public.tell(&log("hello"));
        client
            .wait_for("notifications/message", SOON)
            .await
            .unwrap();
        assert!(
            !json!(client.seen()).to_string().contains(CANARY),
            "{name}: {:?}",
            client.seen()
        );
        assert_eq!(label(&gate, name).await, "PUBLIC", "{name}");
        assert_allowed(
            &client
                .call("pub__say", json!({"text": "free"}))
                .await
                .unwrap(),
            "free",
        );
    }
}

#[tokio::test]
async fn a_result_that_is_withheld_raises_the_label_like_one_that_is_shown() {
    let schema =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let mut shown = Shown::usual();
    shown.tools[1]["outputSchema"] = schema;
    let pair = pair(shown, &format!("{HIGH}, max_result_bytes: 2 KiB")).await;
    let calls = [
        (
            "invalid",
            "sec__give",
            json!({"value": {"n": "no number"}}),
            "InvalidResult",
        ),
        (
            "large",
            "sec__say",
            json!({"text": "x".repeat(4096)}),
            "ResultTooLarge",
        ),
    ];
    for (name, tool, arguments, rule) in calls {
        let agent = caller(&pair.gate, name, &[], Era::Modern).await;
        assert_refused(&agent.call(tool, arguments).await.unwrap(), rule, "");
        assert_eq!(label(&pair.gate, name).await, "CONFIDENTIAL", "{name}");
        assert_refused(
            &agent.call("pub__say", json!({"text": name})).await.unwrap(),
            "WouldViolateWriteDown",
            "",
        );
        let records = records(&pair.gate).await;
        let outcome = records
            .iter()
            .rev()
            .find(|record| record["kind"] == "outcome" && record["violation"] == rule)
            .unwrap();
        assert_eq!(outcome["label_after"], "CONFIDENTIAL", "{outcome}");
    }
    assert!(pair.public.calls_of("say").is_empty());
}

#[tokio::test]
async fn a_server_does_not_become_trusted_by_what_it_leaves_out() {
    let fetch = json!({"name": "fetch_page", "inputSchema": {"type": "object", "properties": {"url": {"type": "string"}}}});
    let shown = Shown::tools([fetch, tool("say", "Says")]);
    // Nobody has said whether strangers write what it returns.
    let pair = pair(shown, "\"classification\": PUBLIC").await;
    pair.sec
        .change(|shown| shown.tools.retain(|tool| tool["name"] != "fetch_page"));
    let before = pair.sec.count("resources/list");
    pair.sec.announce("tools");
    await_listed(&pair.gate, &pair.sec, before).await;
    let agent = caller(&pair.gate, "agent", &[], Era::Modern).await;
    assert_allowed(
        &agent.call("sec__say", json!({"text": "x"})).await.unwrap(),
        "x",
    );
    let label = label(&pair.gate, "agent").await;
    assert!(label.contains("untrusted"), "{label}");
}

#[tokio::test]
async fn a_credential_that_a_server_reflects_in_its_lists_is_neither_shown_nor_written() {
    let secret = "hunter2-correct-horse-battery";
    let token = format!("ghp_{}", "A1b2C3d4E5f6G7h8I9j0K1l2M3n4O5p6Q7r8");
    for secret in [secret, &token] {
        let text = format!("uses {secret}");
        let shown = Shown {
            tools: vec![tool("say", &text)],
            prompts: vec![json!({"name": "letter", "description": text})],
            templates: vec![json!({"uriTemplate": "t://{x}", "name": text})],
            resources: Some(vec![json!({"uri": "note://1", "name": text})]),
            instructions: Some(text.clone()),
            capabilities: None,
        };
        let server = shifty(shown).await;
        let entry = http(
            &server.url(),
            "classification: PUBLIC, open_world: false, bearer: env:UP_TOKEN",
        );
        let yaml = format!("{FLOOR_ONLY}{}", config(&[("up", entry)]));
        let gate = Setup::new(portcullis(), yaml)
            .env("UP_TOKEN", "hunter2-correct-horse-battery")
            .start()
            .await
            .unwrap();
        await_state(&gate, "up", "connected", SOON).await;
        let agent = caller(&gate, "agent", &[], Era::Modern).await;
        let own = mounted(&gate, "own", "up", Era::Modern).await;
        for client in [&agent, &own] {
            for method in [
                "tools/list",
                "prompts/list",
                "resources/list",
                "resources/templates/list",
                "server/discover",
            ] {
                let answer = client.request(method, json!({})).await.unwrap().to_string();
                assert!(!answer.contains(secret), "{method}: {answer}");
            }
        }
        eventually("the snapshot to be kept", SOON, || async {
            std::fs::read(gate.home().join("state/catalog/up.json"))
                .map_err(|error| error.to_string())
        })
        .await;
        assert_nowhere(gate.home(), secret);
    }
}

/// No file below a directory holds this text.
fn assert_nowhere(dir: &std::path::Path, text: &str) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            assert_nowhere(&path, text);
        } else if let Ok(bytes) = std::fs::read(&path) {
            let found = bytes
                .windows(text.len())
                .any(|window| window == text.as_bytes());
            assert!(!found, "{} holds it", path.display());
        }
    }
}

#[tokio::test]
async fn lists_do_not_name_what_a_caller_may_not_use() {
    let shown = Shown {
        prompts: vec![json!({"name": "letter"})],
        templates: vec![json!({"uriTemplate": "t://{x}", "name": "t"})],
        instructions: Some("for alice".into()),
        ..Shown::usual()
    };
    let entry = "classification: PUBLIC, open_world: false, access: { users: [alice, carol] }, tools: { give: { users: [carol] } }";
    let pair = pair(shown, entry).await;
    let expected = [
        ("bob", [0, 0, 0, 0]),
        ("alice", [1, 1, 1, 1]),
        ("carol", [2, 1, 1, 1]),
    ];
    for (user, counts) in expected {
        let agent = caller(&pair.gate, user, &["--user", user], Era::Modern).await;
        let mut seen = Vec::new();
        for method in [
            "tools/list",
            "prompts/list",
            "resources/list",
            "resources/templates/list",
        ] {
            let answer = agent.request(method, json!({})).await.unwrap().to_string();
            seen.push(
                answer.matches("\"sec__").count() + answer.matches("\"portcullis://sec/").count(),
            );
        }
        assert_eq!(seen, counts, "{user}");
    }
}
