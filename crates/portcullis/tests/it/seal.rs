//! Signed calls through the shipped programs: a client that knows only the protocol, a shell, a kill -9, and servers that count.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use identity::AgentKey;
use serde_json::{Value, json};
use testkit::client::{Client, Era, Target};
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown};
use wire::Json;

use crate::foreign;
use crate::operator::{FLOOR_ONLY, SOON, done, shifty};
use crate::support::{await_state, config, gate, http, new_token, records};

const CONTEXTS: &str = "\
security_contexts:
  - name: notes
    description: Say and list, on the server that has notes
    capabilities:
      - tool_pattern: notes.*
  - name: both
    description: Everything there is
    capabilities:
      - tool_pattern: '*'
    deny_list: ['outside.forget']
  - name: short
    description: Short answers of the server that has notes
    capabilities:
      - tool_pattern: notes.*
        max_response_size: 1 KiB
";

struct Yard {
    gate: Gate,
    notes: Shifty,
    outside: Shifty,
}

impl Yard {
    async fn open() -> Self {
        let (notes, outside) = (shifty(Shown::usual()).await, shifty(Shown::usual()).await);
        let yaml = config(&[
            (
                "notes",
                http(
                    &notes.url(),
                    "classification: CONFIDENTIAL, open_world: false, capabilities: [notes.*]",
                ),
            ),
            (
                "outside",
                http(
                    &outside.url(),
                    "classification: PUBLIC, open_world: false, capabilities: [outside.say]",
                ),
            ),
        ]);
        let gate = gate(&format!("{FLOOR_ONLY}{CONTEXTS}{yaml}")).await;
        for id in ["notes", "outside"] {
            await_state(&gate, id, "connected", SOON).await;
        }
        Self {
            gate,
            notes,
            outside,
        }
    }

    fn base(&self) -> String {
        self.gate.url().trim_end_matches("/mcp").to_owned()
    }

    fn says(&self) -> [usize; 2] {
        [
            self.notes.calls_of("say").len(),
            self.outside.calls_of("say").len(),
        ]
    }
}

/// A client of the protocol.
pub(crate) struct Agent {
    key: AgentKey,
    token: String,
    execution: String,
    invoke: Target,
    calls: AtomicU64,
}

fn now_ms() -> u64 {
    u64::try_from(
        SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .unwrap()
            .as_millis(),
    )
    .unwrap()
}

impl Agent {
    pub(crate) async fn attest(gate: &Gate, bearer: &str, seed: u8, context: &str) -> Self {
        let key = AgentKey::from_seed(&[seed; 32]).unwrap();
        let body = json!({ "public_key": key.public().to_base64(), "security_context": context });
        let target = Target::new(gate.url(), Some(bearer))
            .unwrap()
            .at("/v1/seal/attest");
        let reply = target
            .send("POST", &json_type(), body.to_string().into_bytes())
            .await
            .unwrap();
        let (status, said) = (reply.status, reply.json().await.unwrap());
        assert_eq!(status, 200, "{said}");
        let text = |key: &str| said[key].as_str().unwrap().to_owned();
        let invoke = target.with_token(None).at("/v1/seal/invoke");
        Self {
            key,
            token: text("security_token"),
            execution: text("execution_id"),
            invoke,
            calls: AtomicU64::new(0),
        }
    }

    pub(crate) fn execution(&self) -> &str {
        &self.execution
    }

    fn envelope(&self, tool: &str, arguments: &Value) -> Vec<u8> {
        let id = format!("req-{}", self.calls.fetch_add(1, Ordering::Relaxed));
        let params = json!({ "name": tool, "arguments": arguments });
        let payload =
            json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params })
                .to_string();
        self.key.envelope(
            Json::checked_before(payload.as_bytes()),
            &self.token,
            now_ms(),
        )
    }

    async fn post(&self, envelope: Vec<u8>) -> (u16, Value) {
        let reply = self
            .invoke
            .send("POST", &json_type(), envelope)
            .await
            .unwrap();
        (reply.status, reply.json().await.unwrap())
    }

    pub(crate) async fn call(&self, tool: &str, arguments: Value) -> (u16, Value) {
        self.post(self.envelope(tool, &arguments)).await
    }
}

fn json_type() -> Vec<(String, String)> {
    vec![("content-type".to_owned(), "application/json".to_owned())]
}

pub(crate) fn violation(said: &Value) -> &str {
    said["error"]["data"]["violation"]
        .as_str()
        .unwrap_or_default()
}

#[tokio::test]
async fn a_client_that_knows_only_the_protocol_needs_nothing_else() {
    // Installing takes a while, and nothing is served meanwhile.
    let python = foreign::text(&foreign::python().join("python"));
    let yard = Yard::open().await;
    let script = foreign::script("seal_client.py");
    let bearer = yard.gate.token().unwrap();
    let words = json!({ "text": "grüße, 漢字 😀 \u{7f}", "n": [1.0, 1e16, -0.0, 1e-7, 12_345_678_901_234_567_890_u64] });
    let said = foreign::talk(
        &python,
        &[
            &script,
            &yard.base(),
            "notes",
            "notes.say",
            &words.to_string(),
            "--bearer",
            &bearer,
            "--times",
            "3",
        ],
    )
    .await;
    assert_eq!(said["errors"], json!([]), "{said}");
    assert_eq!(
        said["results"].as_array().unwrap().len(),
        3,
        "three calls within a second: {said}"
    );
    assert_eq!(yard.says(), [3, 0]);
    let refused = foreign::talk(
        &python,
        &[
            &script,
            &yard.base(),
            "notes",
            "outside.say",
            "{\"text\":\"x\"}",
            "--bearer",
            &bearer,
        ],
    )
    .await;
    assert!(
        refused["errors"][0]
            .as_str()
            .unwrap()
            .starts_with("403 -32000: "),
        "{refused}"
    );
    assert_eq!(yard.says(), [3, 0], "refused means nothing arrives");
    let nobody = foreign::talk(
        &python,
        &[
            &script,
            &yard.base(),
            "notes",
            "notes.say",
            "{\"text\":\"x\"}",
        ],
    )
    .await;
    assert_eq!(
        (&nobody["attested"], yard.says()),
        (&json!(false), [3, 0]),
        "{nobody}"
    );
}

#[tokio::test]
async fn a_launched_workload_attests_by_itself() {
    // Installing takes a while, and nothing is served meanwhile.
    let python = foreign::text(&foreign::python().join("python"));
    let yard = Yard::open().await;
    let script = foreign::script("seal_client.py");
    let command = format!(
        "exec {python} {script} \"$SEAL_GATEWAY_URL\" \"$SEAL_SECURITY_CONTEXT\" notes.say '{{\"text\":\"x\"}}' --workload \"$SEAL_WORKLOAD_ID\""
    );
    let said = yard
        .gate
        .cli(&[
            "seal",
            "run",
            "--context",
            "notes",
            "--",
            "sh",
            "-c",
            &command,
        ])
        .await
        .unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert!(said.stdout.contains("\"attested\": true"), "{said:?}");
    assert_eq!(yard.says(), [1, 0]);
}

#[tokio::test]
async fn a_shell_can_do_it_all() {
    let yard = Yard::open().await;
    let key = yard.gate.home().join("agent.pem");
    let key = key.to_str().unwrap();
    let cli = async |args: &[&str]| done(&yard.gate, args).await.stdout;
    cli(&["seal", "keygen", key]).await;
    cli(&["seal", "attest", "--key", key, "--context", "notes"]).await;
    let said = cli(&[
        "seal",
        "call",
        "--key",
        key,
        "notes.say",
        "{\"text\": \"hello\"}",
    ])
    .await;
    assert!(said.contains("hello"), "{said}");
    assert!(
        cli(&["seal", "tools", "--key", key])
            .await
            .contains("notes.say")
    );
    let sessions = yard
        .gate
        .cli(&["--json", "seal", "sessions"])
        .await
        .unwrap()
        .json()
        .unwrap();
    let execution = sessions[0]["execution_id"].as_str().unwrap().to_owned();
    cli(&["seal", "rotate"]).await;
    cli(&[
        "seal",
        "call",
        "--key",
        key,
        "notes.say",
        "{\"text\": \"after the new key\"}",
    ])
    .await;
    cli(&["seal", "revoke", &execution]).await;
    let refused = yard
        .gate
        .cli(&[
            "seal",
            "call",
            "--key",
            key,
            "notes.say",
            "{\"text\": \"late\"}",
        ])
        .await
        .unwrap();
    assert_eq!(refused.code, Some(3), "{refused:?}");
    assert_eq!(yard.says(), [2, 0]);
}

#[tokio::test]
async fn a_script_reads_refusals_and_exit_codes() {
    let yard = Yard::open().await;
    let key = yard.gate.home().join("agent.pem");
    let key = key.to_str().unwrap();
    done(&yard.gate, &["seal", "keygen", key]).await;
    done(
        &yard.gate,
        &["seal", "attest", "--key", key, "--context", "notes"],
    )
    .await;
    let refused = yard
        .gate
        .cli(&["--json", "seal", "call", "--key", key, "outside.say", "{}"])
        .await
        .unwrap();
    assert_eq!(refused.code, Some(3), "{refused:?}");
    let said = refused.json().unwrap();
    assert_eq!(
        (violation(&said), &said["error"]["exit_code"]),
        ("ToolNotAllowed", &json!(3)),
        "{said}"
    );
    let nowhere = yard
        .gate
        .cli(&[
            "--json",
            "seal",
            "attest",
            "--key",
            key,
            "--context",
            "no-such",
        ])
        .await
        .unwrap();
    assert_eq!(
        (
            nowhere.code,
            &nowhere.json().unwrap()["error"]["error_code"]
        ),
        (Some(3), &json!(3001)),
        "{nowhere:?}"
    );
    let unknown = yard
        .gate
        .cli(&["--json", "call", "nobody__has_this", "{}"])
        .await
        .unwrap();
    assert!(
        unknown.code != Some(0) && unknown.json().unwrap().pointer("/error/message").is_some(),
        "{unknown:?}"
    );
    let run = async |command: &str| {
        let ran = yard
            .gate
            .cli(&[
                "seal",
                "run",
                "--context",
                "notes",
                "--",
                "sh",
                "-c",
                command,
            ])
            .await
            .unwrap();
        (ran.code, ran.stdout)
    };
    assert_eq!(run("exit 7").await, (Some(7), String::new()));
    assert_eq!(
        run("printf %s \"$SEAL_SECURITY_CONTEXT\"").await,
        (Some(0), "notes".to_owned())
    );
    assert_eq!(yard.says(), [0, 0]);
}

#[tokio::test]
async fn a_killed_gate_still_knows_what_it_accepted() {
    let mut yard = Yard::open().await;
    let bearer = yard.gate.token().unwrap();
    let agent = Agent::attest(&yard.gate, &bearer, 1, "notes").await;
    let envelope = agent.envelope("notes.say", &json!({ "text": "once" }));
    assert_eq!(agent.post(envelope.clone()).await.0, 200);
    yard.gate.kill().unwrap();
    yard.gate.start_again().await.unwrap();
    await_state(&yard.gate, "notes", "connected", SOON).await;
    let agent = Agent {
        invoke: Target::new(yard.gate.url(), None)
            .unwrap()
            .at("/v1/seal/invoke"),
        ..agent
    };
    let (status, said) = agent.post(envelope).await;
    assert_eq!(
        (status, violation(&said)),
        (401, "EnvelopeReplayed"),
        "{said}"
    );
    assert_eq!(
        agent.call("notes.say", json!({ "text": "twice" })).await.0,
        200,
        "the session outlives the process"
    );
    assert_eq!(yard.says(), [2, 0]);
}

#[tokio::test]
async fn attesting_again_washes_nothing_off() {
    let yard = Yard::open().await;
    let bearer = new_token(&yard.gate, "runtime", &[]).await;
    let first = Agent::attest(&yard.gate, &bearer, 1, "both").await;
    assert_eq!(
        first
            .call("outside.say", json!({ "text": "clean" }))
            .await
            .0,
        200
    );
    assert_eq!(
        first
            .call("notes.say", json!({ "text": "now it has read something" }))
            .await
            .0,
        200
    );
    let second = Agent::attest(&yard.gate, &bearer, 2, "both").await;
    for agent in [&first, &second] {
        let (status, said) = agent.call("outside.say", json!({ "text": "leak" })).await;
        assert_eq!(
            (status, violation(&said)),
            (403, "WouldViolateWriteDown"),
            "{said}"
        );
    }
    assert_eq!(yard.says(), [1, 1]);
}

#[tokio::test]
async fn the_ledger_has_who_signed_what() {
    let yard = Yard::open().await;
    let bearer = new_token(&yard.gate, "runtime", &[]).await;
    let agent = Agent::attest(&yard.gate, &bearer, 1, "notes").await;
    agent.call("notes.say", json!({ "text": "x" })).await;
    agent.call("outside.say", json!({ "text": "x" })).await;
    let mut forged: Value =
        serde_json::from_slice(&agent.envelope("notes.say", &json!({ "text": "y" }))).unwrap();
    forged["payload"]["params"]["arguments"]["text"] = json!("z");
    assert_eq!(agent.post(forged.to_string().into_bytes()).await.0, 401);
    let records = records(&yard.gate).await;
    let of = |key: &str, value: &str| {
        records
            .iter()
            .filter(|record| record[key] == value)
            .cloned()
            .collect::<Vec<_>>()
    };
    let own = of("execution", &agent.execution);
    let signed: Vec<&Value> = own
        .iter()
        .filter(|record| record["door"] == "seal" && !record["signature"].is_null())
        .collect();
    assert_eq!(
        signed.len(),
        4,
        "an intent, an outcome, two refusals: {own:#?}"
    );
    assert!(
        signed.iter().all(|record| record["context"] == "notes"),
        "{signed:#?}"
    );
    assert_eq!(of("violation", "SignatureVerificationFailed").len(), 1);
    let refused = &of("violation", "ToolNotAllowed")[0];
    let payload: Value = serde_json::from_str(refused["payload"].as_str().unwrap()).unwrap();
    assert_eq!(
        payload,
        json!({ "tool_name": "outside.say", "allowed_tools": ["notes.*"] })
    );
    for action in ["seal.attested", "seal.session_created"] {
        assert_eq!(of("action", action).len(), 1, "{action}");
    }
    let call = refused["call"].as_str().unwrap();
    let explained = yard.gate.cli(&["policy", "explain", call]).await.unwrap();
    assert_eq!(explained.code, Some(3), "{explained:?}");
    let explained = explained.stdout;
    assert!(
        explained.contains("tool_listed") && explained.contains("`tool_pattern` for `outside.say`"),
        "{explained}"
    );
    let permitted = of("target", "notes.say")[0]["call"]
        .as_str()
        .unwrap()
        .to_owned();
    assert!(
        done(&yard.gate, &["policy", "explain", &permitted])
            .await
            .stdout
            .contains("notes__say"),
        "explained by the name that was used"
    );
    assert_eq!(yard.says(), [1, 0]);
}

#[tokio::test]
async fn servers_of_another_tenant_are_not_there() {
    let (mine, theirs) = (shifty(Shown::usual()).await, shifty(Shown::usual()).await);
    let yaml = config(&[
        (
            "mine",
            http(
                &mine.url(),
                "classification: PUBLIC, open_world: false, tenant: acme, capabilities: [chat.*]",
            ),
        ),
        (
            "theirs",
            http(
                &theirs.url(),
                "classification: PUBLIC, open_world: false, tenant: umbrella, capabilities: [chat.*]",
            ),
        ),
    ]);
    let gate = gate(&format!("{FLOOR_ONLY}{CONTEXTS}{yaml}")).await;
    for id in ["mine", "theirs"] {
        await_state(&gate, id, "connected", SOON).await;
    }
    let bearer = new_token(&gate, "acme", &["--tenant", "acme"]).await;
    let agent = Agent::attest(&gate, &bearer, 1, "both").await;
    assert_eq!(agent.call("chat.say", json!({ "text": "x" })).await.0, 200);
    for name in ["theirs__say", "mine__say"] {
        let (status, said) = agent.call(name, json!({ "text": "x" })).await;
        let wanted = if name == "mine__say" {
            (200, "")
        } else {
            (403, "ToolNotFound")
        };
        assert_eq!((status, violation(&said)), wanted, "{said}");
    }
    assert_eq!(
        (mine.calls_of("say").len(), theirs.calls_of("say").len()),
        (2, 0)
    );
    let target = gate.target().unwrap().with_token(Some(&bearer));
    let client = Client::plain(&target, Era::Modern).await.unwrap();
    let listed = client
        .request("tools/list", json!({}))
        .await
        .unwrap()
        .to_string();
    assert!(
        listed.contains("mine__say") && !listed.contains("theirs"),
        "{listed}"
    );
}

/// Why a result is withheld is the server's choice, its size above all: that tells as much as the result, so it counts as seen.
#[tokio::test]
async fn a_result_that_is_withheld_from_a_signed_call_raises_the_label_too() {
    let yard = Yard::open().await;
    let bearer = new_token(&yard.gate, "runtime", &[]).await;
    let agent = Agent::attest(&yard.gate, &bearer, 9, "short").await;
    let (status, said) = agent
        .call("notes.say", json!({ "text": "x".repeat(4096) }))
        .await;
    assert_eq!(
        (status, violation(&said)),
        (403, "OutputSizeLimitExceeded"),
        "{said}"
    );
    let told = said["error"]["data"].to_string();
    assert!(told.contains("actual_bytes"), "{said}");
    assert_eq!(yard.says(), [1, 0], "it was carried out");
    // The label belongs to who attested, so another session of theirs has it too.
    let other = Agent::attest(&yard.gate, &bearer, 10, "both").await;
    let (status, said) = other.call("outside.say", json!({ "text": "x" })).await;
    assert_eq!(
        (status, violation(&said)),
        (403, "WouldViolateWriteDown"),
        "{said}"
    );
    assert_eq!(yard.says(), [1, 0]);
}
