//! Signed calls, from the envelope to the verdict. Nothing executes here, so a call that every rule lets through ends in 501: what
//! counts is which rule speaks first, and that nothing else did.

mod sessions;
mod words;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

use audit::{Clock, Moment};
use identity::AgentKey;
use serde_json::{Value, json};
use wire::Json;

use crate::yard::{ALICE, BOB, OPERATOR, Response, TENANT_OPERATOR, TENANTS, Yard};

/// Let through by every rule: nothing executes it.
const PASSED: u16 = 501;

pub(crate) fn now_ms() -> u64 {
    u64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis(),
    )
    .unwrap()
}

pub(crate) struct Agent {
    key: AgentKey,
    token: String,
    execution: String,
    calls: AtomicU64,
}

impl Response {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.body).unwrap_or(Value::Null)
    }

    pub(crate) fn violation(&self) -> String {
        self.json()["error"]["data"]["violation"]
            .as_str()
            .unwrap_or_default()
            .to_owned()
    }
}

async fn attest_as(yard: &Yard, bearer: &str, seed: u8, more: Value) -> (AgentKey, Response) {
    let key = AgentKey::from_seed(&[seed; 32]).unwrap();
    let mut body =
        json!({ "public_key": key.public().to_base64(), "security_context": "everything" });
    body.as_object_mut()
        .unwrap()
        .extend(more.as_object().unwrap().clone());
    let response = yard
        .request("POST", "/v1/seal/attest")
        .by(bearer)
        .with_body(&body.to_string())
        .send()
        .await;
    (key, response)
}

pub(crate) async fn agent(yard: &Yard, bearer: &str, seed: u8, more: Value) -> Agent {
    let (key, response) = attest_as(yard, bearer, seed, more).await;
    assert_eq!(response.status, 200, "{}", response.body);
    let said = response.json();
    assert_eq!(said["status"], "success");
    let text = |key: &str| said[key].as_str().unwrap().to_owned();
    Agent {
        key,
        token: text("security_token"),
        execution: text("execution_id"),
        calls: AtomicU64::new(0),
    }
}

impl Agent {
    pub(crate) fn envelope_at(&self, tool: &str, arguments: &Value, now_ms: u64) -> String {
        let id = format!("req-{}", self.calls.fetch_add(1, Ordering::Relaxed));
        let params = json!({ "name": tool, "arguments": arguments });
        let payload =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
                .to_string();
        String::from_utf8(self.key.envelope(
            Json::checked_before(payload.as_bytes()),
            &self.token,
            now_ms,
        ))
        .unwrap()
    }

    pub(crate) async fn call(&self, yard: &Yard, tool: &str, arguments: Value) -> Response {
        invoke(yard, &self.envelope_at(tool, &arguments, now_ms())).await
    }
}

pub(crate) async fn invoke(yard: &Yard, envelope: &str) -> Response {
    yard.request("POST", "/v1/seal/invoke")
        .with("Authorization", "")
        .with_body(envelope)
        .send()
        .await
}

#[tokio::test]
async fn a_signed_call_needs_no_other_credential() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    let said = agent
        .call(&yard, "fs.read", json!({ "path": "/workspace/a" }))
        .await;
    assert_eq!(said.status, PASSED, "{}", said.body);
    let json = said.json();
    assert_eq!(
        (&json["status"], &json["id"], &json["request_id"]),
        (&json!("error"), &json!("req-0"), &json!("req-0"))
    );
    assert!(
        said.header("Retry-After").is_none(),
        "nothing that waiting would change"
    );
}

#[tokio::test]
async fn every_flipped_byte_is_refused() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    let whole = agent.envelope_at("fs.read", &json!({ "path": "/workspace/a" }), now_ms());
    for at in (0..whole.len())
        .step_by(7)
        .chain(whole.len() - 40..whole.len())
    {
        let mut bytes = whole.clone().into_bytes();
        bytes[at] ^= 1;
        let Ok(text) = String::from_utf8(bytes) else {
            continue;
        };
        let said = invoke(&yard, &text).await;
        assert!(
            matches!(said.status, 400 | 401),
            "byte {at}: {} {}",
            said.status,
            said.body
        );
    }
    assert_eq!(
        invoke(&yard, &whole).await.status,
        PASSED,
        "the whole one was never used up"
    );
}

#[tokio::test]
async fn each_violation_is_its_own_and_the_earliest_wins() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({ "security_context": "bounded" })).await;
    let table = [
        ("aegis.agent.list", json!({}), 403, "ToolNotAllowed", 2000),
        ("no.such.tool", json!({}), 403, "ToolNotFound", 2000),
        (
            "fs.delete",
            json!({ "path": "/etc/passwd" }),
            403,
            "ToolExplicitlyDenied",
            2001,
        ),
        ("fs.delete", json!({}), 403, "ToolExplicitlyDenied", 2001),
        (
            "fs.read",
            json!({ "path": "/workspace/private/key" }),
            403,
            "ToolExplicitlyDenied",
            2001,
        ),
        (
            "fs.read",
            json!({ "path": "/etc/passwd" }),
            403,
            "PathOutsideBoundary",
            2002,
        ),
        (
            "fs.read",
            json!({ "path": "/workspace2/a" }),
            403,
            "PathOutsideBoundary",
            2002,
        ),
        (
            "fs.write",
            json!({ "path": "/workspace/../etc/passwd" }),
            403,
            "PathTraversalAttempt",
            2002,
        ),
        (
            "fs.read",
            json!({ "path": "/workspace/a/../b" }),
            403,
            "PathTraversalAttempt",
            2002,
        ),
        (
            "fs.read",
            json!({ "path": ["/workspace/a", "/etc/passwd"] }),
            403,
            "PathOutsideBoundary",
            2002,
        ),
        (
            "fs.read",
            json!({ "path": 5 }),
            403,
            "PathOutsideBoundary",
            2002,
        ),
        (
            "web.fetch",
            json!({ "url": "https://evilexample.com/" }),
            403,
            "DomainNotAllowed",
            2004,
        ),
        (
            "cmd.run",
            json!({ "command": "bash", "args": ["-c", "x"] }),
            403,
            "CommandNotAllowed",
            2003,
        ),
        (
            "cmd.run",
            json!({ "command": "cargo", "args": ["publish"] }),
            403,
            "SubcommandNotAllowed",
            2003,
        ),
        (
            "cmd.run",
            json!({ "command": "cargo", "args": ["build"], "timeout_secs": 100_000 }),
            403,
            "ExecTimeoutCeilingExceeded",
            2006,
        ),
    ];
    for (tool, arguments, status, violation, number) in table {
        let said = agent.call(&yard, tool, arguments.clone()).await;
        assert_eq!(
            (said.status, said.violation().as_str()),
            (status, violation),
            "{tool} {arguments}: {}",
            said.body
        );
        let json = said.json();
        assert_eq!(json["error"]["code"], -32000, "{}", said.body);
        assert_eq!(json["error"]["data"]["seal_code"], number, "{tool}");
    }
    let payload = agent
        .call(
            &yard,
            "cmd.run",
            json!({ "command": "cargo", "args": ["publish"] }),
        )
        .await
        .json();
    let payload = &payload["error"]["data"]["payload"];
    assert_eq!(
        *payload,
        json!({ "command": "cargo", "subcommand": "publish", "allowed_subcommands": ["build", "test"] })
    );
    let build = json!({ "command": "cargo", "args": ["build"] });
    for (tool, arguments, status) in [
        ("fs.read", json!({ "path": "/workspace/a" }), PASSED),
        // It is carried out, and here is no program that builds jails.
        ("cmd.run", build, 500),
        (
            "web.fetch",
            json!({ "url": "https://sub.example.com/x" }),
            PASSED,
        ),
    ] {
        let said = agent.call(&yard, tool, arguments).await;
        assert_eq!(said.status, status, "{tool}: {}", said.body);
    }
}

#[tokio::test]
async fn a_rate_is_per_session_and_says_when_to_come_back() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({ "security_context": "bounded" })).await;
    for _ in 0..3 {
        assert_eq!(
            agent
                .call(&yard, "web.fetch", json!({ "url": "https://example.com/" }))
                .await
                .status,
            PASSED
        );
    }
    let said = agent
        .call(&yard, "web.fetch", json!({ "url": "https://example.com/" }))
        .await;
    assert_eq!(
        (said.status, said.violation().as_str()),
        (403, "RateLimitExceeded"),
        "{}",
        said.body
    );
    assert!(
        said.header("Retry-After")
            .is_some_and(|wait| wait.parse::<u64>().is_ok_and(|wait| wait <= 60))
    );
    let data = &said.json()["error"]["data"];
    let seconds = said
        .header("Retry-After")
        .and_then(|text| text.parse::<u64>().ok());
    assert_eq!(
        (
            data["retry_after_seconds"].as_u64(),
            data["payload"]["retry_after_seconds"].as_u64()
        ),
        (seconds, seconds)
    );
    let other = self::agent(&yard, ALICE, 2, json!({ "security_context": "bounded" })).await;
    assert_eq!(
        other
            .call(&yard, "web.fetch", json!({ "url": "https://example.com/" }))
            .await
            .status,
        PASSED
    );
}

#[tokio::test]
async fn an_execution_has_as_many_calls_as_its_agent_may_make() {
    let yard = Arc::new(Yard::open().await);
    let agent = Arc::new(agent(&yard, ALICE, 1, json!({ "agent_id": "reader" })).await);
    let unlisted = agent.call(&yard, "fs.write", json!({ "path": "/a" })).await;
    assert_eq!(unlisted.violation(), "ToolNotAllowed", "not on its list");
    let payload = &unlisted.json()["error"]["data"]["payload"];
    assert_eq!(
        *payload,
        json!({ "tool_name": "fs.write", "allowed_tools": ["fs.read"] }),
        "the list that refused"
    );
    let calls: Vec<_> = (0..12)
        .map(|_| {
            let (yard, agent) = (Arc::clone(&yard), Arc::clone(&agent));
            tokio::spawn(async move {
                agent
                    .call(&yard, "fs.read", json!({ "path": "/workspace/a" }))
                    .await
                    .status
            })
        })
        .collect();
    let mut passed = 0;
    for call in calls {
        passed += u32::from(call.await.unwrap() == PASSED);
    }
    assert!(passed <= 3 && passed > 0, "{passed} of at most 3");
    while agent
        .call(&yard, "fs.read", json!({ "path": "/workspace/a" }))
        .await
        .status
        == PASSED
    {
        passed += 1;
    }
    assert_eq!(passed, 3, "no more and no fewer, refused ones not counted");
    assert_eq!(
        agent
            .call(&yard, "fs.read", json!({ "path": "/workspace/a" }))
            .await
            .violation(),
        "RateLimitExceeded"
    );
}

#[tokio::test]
async fn required_arguments_are_missed_by_name() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    for (tool, arguments, field) in [
        ("aegis.agent.create", json!({}), "manifest_yaml"),
        (
            "aegis.agent.create",
            json!({ "manifest_yaml": null }),
            "manifest_yaml",
        ),
        ("fs.write", json!({ "path": "/a" }), "content"),
        ("cmd.run", json!({ "command": "  " }), "command"),
        (
            "aegis.workflow.signal",
            json!({ "execution_id": "e" }),
            "response",
        ),
    ] {
        let said = agent.call(&yard, tool, arguments).await;
        let error = json!({
            "code": -32602,
            "message": format!("Invalid tool arguments: required field '{field}' is missing or null for tool '{tool}'"),
            "data": null,
        });
        assert_eq!(
            (said.status, &said.json()["error"]),
            (422, &error),
            "{tool}"
        );
    }
    assert_eq!(
        agent
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .status,
        PASSED
    );
}

#[tokio::test]
async fn time_is_thirty_seconds_wide() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    let at = |seconds: i64| {
        agent.envelope_at(
            "aegis.agent.list",
            &json!({}),
            now_ms().saturating_add_signed(seconds * 1000),
        )
    };
    for seconds in [-29, 29] {
        assert_eq!(
            invoke(&yard, &at(seconds)).await.status,
            PASSED,
            "{seconds}"
        );
    }
    for seconds in [-32, 32] {
        let said = invoke(&yard, &at(seconds)).await;
        assert_eq!(
            (said.status, said.violation().as_str()),
            (401, "EnvelopeExpired"),
            "{seconds}"
        );
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_many_duplicates_one_wins_also_after_a_restart_and_a_clock_set_back() {
    let offset = Arc::new(AtomicU64::new(0));
    let clock: Clock = {
        let (offset, system) = (Arc::clone(&offset), audit::system_clock());
        Arc::new(move || Moment {
            unix_ms: system().unix_ms - offset.load(Ordering::Relaxed),
            ..system()
        })
    };
    let home = tempfile::tempdir().unwrap();
    let yard = Arc::new(Yard::open_in(home, Arc::clone(&clock)).await);
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    let envelopes: Arc<Vec<String>> = Arc::new(
        (0..20)
            .map(|_| agent.envelope_at("aegis.agent.list", &json!({}), now_ms()))
            .collect(),
    );
    let won = Arc::new(AtomicU64::new(0));
    let racers: Vec<_> = (0..64)
        .map(|_| {
            let (yard, envelopes, won) =
                (Arc::clone(&yard), Arc::clone(&envelopes), Arc::clone(&won));
            tokio::spawn(async move {
                for envelope in envelopes.iter() {
                    let said = invoke(&yard, envelope).await;
                    match said.status {
                        PASSED => drop(won.fetch_add(1, Ordering::Relaxed)),
                        status => assert_eq!(
                            (status, said.violation().as_str()),
                            (401, "EnvelopeReplayed"),
                            "{}",
                            said.body
                        ),
                    }
                }
            })
        })
        .collect();
    for racer in racers {
        racer.await.unwrap();
    }
    assert_eq!(won.load(Ordering::Relaxed), 20, "one winner each");
    let Ok(yard) = Arc::try_unwrap(yard) else {
        panic!("nobody holds it")
    };
    let home = yard.abandon().await;
    let yard = Yard::open_in(home, Arc::clone(&clock)).await;
    for envelope in envelopes.iter() {
        assert_eq!(
            invoke(&yard, envelope).await.status,
            401,
            "known after a restart"
        );
    }
    assert_eq!(
        agent
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .status,
        PASSED,
        "the session goes on"
    );
    offset.store(24 * 3600 * 1000, Ordering::Relaxed);
    for envelope in envelopes.iter() {
        assert_eq!(
            invoke(&yard, envelope).await.status,
            401,
            "a day earlier they lie in the future"
        );
    }
    offset.store(10_000, Ordering::Relaxed);
    for envelope in envelopes.iter() {
        assert_eq!(
            invoke(&yard, envelope).await.violation(),
            "EnvelopeReplayed"
        );
    }
}
