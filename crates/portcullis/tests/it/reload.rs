//! Hot reload: the new set is built, then swapped; calls to servers that did not change do not notice.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use serde_json::json;
use testkit::client::{Client, Era};
use testkit::gate::Gate;

use crate::support::{
    admin_target, alone, await_state, client, config, connected, eventually, fixture, http,
    stdio_everything, worker_pid,
};

const PUBLIC: &str = "classification: PUBLIC";
const RELOADS: usize = 20;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reloading_under_load_loses_no_call() {
    let _alone = alone().await;
    let (steady, other) = (fixture().await, fixture().await);
    let entry = http(&steady.url(), PUBLIC);
    let program = stdio_everything("both", PUBLIC);
    let gate = connected(&[("steady", entry.clone()), ("program", program.clone())]).await;
    let worker = worker_pid(&gate).await;
    let stop = Arc::new(AtomicBool::new(false));
    let mut callers = Vec::new();
    for (name, era) in [
        ("steady", Era::Legacy),
        ("steady", Era::Modern),
        ("program", Era::Legacy),
        ("program", Era::Modern),
    ] {
        let (caller, stop) = (client(&gate, era).await, stop.clone());
        callers.push(tokio::spawn(async move {
            keep_calling(&caller, name, &stop).await
        }));
    }
    for turn in 0..RELOADS {
        let mut servers = vec![("steady", entry.clone()), ("program", program.clone())];
        if turn % 2 == 0 {
            servers.push((
                "other",
                http(
                    &other.url(),
                    if turn % 4 == 0 {
                        PUBLIC
                    } else {
                        "classification: INTERNAL"
                    },
                ),
            ));
        }
        gate.write_config(&config(&servers)).unwrap();
        reload(&gate).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    stop.store(true, Ordering::Relaxed);
    for caller in callers {
        assert!(caller.await.expect("no caller lost a call") > 10);
    }
    assert_eq!(
        worker_pid(&gate).await,
        worker,
        "the same worker served all of it"
    );
}

/// A call that is running when its own server is replaced ends definitely: answered or an error, never silence.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn replacing_a_server_swaps_to_the_new_one() {
    let (old, new) = (fixture().await, fixture().await);
    let gate = connected(&[("up", http(&old.url(), PUBLIC))]).await;
    let caller = client(&gate, Era::Modern).await;
    let pending = caller.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 3_000}}),
    );
    eventually(
        "the call to be in flight",
        Duration::from_secs(5),
        || async {
            if old.effects().started == 1 {
                Ok(())
            } else {
                Err("not yet".to_owned())
            }
        },
    )
    .await;
    gate.write_config(&config(&[("up", http(&new.url(), PUBLIC))]))
        .unwrap();
    reload(&gate).await;
    eventually(
        "calls to reach the new server",
        Duration::from_secs(5),
        || async {
            caller
                .call("up__effect", json!({}))
                .await
                .map_err(|error| error.to_string())?;
            if new.effects().effects > 0 {
                Ok(())
            } else {
                Err("still the old one".to_owned())
            }
        },
    )
    .await;
    let answer = tokio::time::timeout(Duration::from_secs(6), pending.answer())
        .await
        .expect("never silence")
        .unwrap();
    assert!(
        answer.get("result").is_some() || answer.get("error").is_some(),
        "{answer}"
    );
    assert_eq!(
        new.effects().started,
        0,
        "the running call is not repeated elsewhere"
    );
}

#[tokio::test]
async fn removing_a_server_removes_its_tools_and_tells_clients() {
    let (one, two) = (fixture().await, fixture().await);
    let gate = connected(&[
        ("one", http(&one.url(), PUBLIC)),
        ("two", http(&two.url(), PUBLIC)),
    ])
    .await;
    let caller = client(&gate, Era::Modern).await;
    caller.listen(&[]).await.unwrap();
    gate.write_config(&config(&[("one", http(&one.url(), PUBLIC))]))
        .unwrap();
    reload(&gate).await;
    caller
        .wait_for("notifications/tools/list_changed", Duration::from_secs(5))
        .await
        .unwrap();
    let names = caller.tool_names().await.unwrap();
    assert!(
        names.contains(&"one__echo".to_owned())
            && !names.iter().any(|name| name.starts_with("two__")),
        "{names:?}"
    );
    assert!(
        caller
            .call("two__effect", json!({}))
            .await
            .unwrap()
            .is_error
    );
    assert_eq!(two.effects().effects, 0);
}

/// A rule that is tightened holds from the next call on.
#[tokio::test]
async fn a_tightened_rule_holds_at_once() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let caller = client(&gate, Era::Modern).await;
    assert!(!caller.call("up__effect", json!({})).await.unwrap().is_error);
    gate.write_config(&config(&[(
        "up",
        http(
            &fixture.url(),
            "classification: PUBLIC, tools: { effect: blocked }",
        ),
    )]))
    .unwrap();
    reload(&gate).await;
    assert_eq!(
        caller
            .call("up__effect", json!({}))
            .await
            .unwrap()
            .violation(),
        Some("ToolNotAllowed")
    );
    gate.write_config(&config(&[("up", http(&fixture.url(), "enabled: true"))]))
        .unwrap();
    reload(&gate).await;
    await_state(&gate, "up", "connected", Duration::from_secs(5)).await;
    assert_eq!(
        caller
            .call("up__effect", json!({}))
            .await
            .unwrap()
            .violation(),
        Some("ServerNotApproved")
    );
    assert_eq!(fixture.effects().effects, 1);
}

pub(crate) async fn reload(gate: &Gate) {
    let reply = admin_target(gate, "reload")
        .send("POST", &[], Vec::new())
        .await
        .unwrap();
    let status = reply.status;
    assert_eq!(status, 200, "{}", reply.json().await.unwrap());
}

/// Calls until told to stop; every call must be answered rightly. How many there were.
async fn keep_calling(caller: &Client, server: &str, stop: &AtomicBool) -> u64 {
    for turn in 0_u64.. {
        if stop.load(Ordering::Relaxed) {
            return turn;
        }
        let text = format!("{server} turn {turn}");
        let called = caller
            .call(&format!("{server}__echo"), json!({"text": text}))
            .await
            .expect("every call is answered");
        assert_eq!(
            called.text, text,
            "a call was lost or crossed: {}",
            called.answer
        );
    }
    0
}

const MANIFEST: &str = "apiVersion: 100monkeys.ai/v1\nkind: Agent\nmetadata: { name: coder, version: 1.0.0 }\nspec: { tools: [fs.read] }\n";
/// A provider's keys: the public one of RFC 8037, appendix A.
const KEYS: &str = r#"{"keys":[{"kty":"OKP","crv":"Ed25519","kid":"1","use":"sig","alg":"EdDSA","x":"11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo"}]}"#;
const POLICY: &str = "@id(\"all\") permit(principal, action, resource);\n";

/// What the gate with all these files says of `up`: its tools, and how many calls a caller may have in flight.
fn with_every_file(url: &str, rule: &str, most: u32) -> String {
    format!(
        "policy: {{ bundle: ./rules.cedar }}\nagents: {{ coder: coder.yaml }}\nseal: {{ private_key_path: seal.pem }}\n\
         limits: {{ max_concurrent_calls_per_caller: {most} }}\n\
         oauth: {{ resource: 'https://gate.example/mcp', issuers: [{{ issuer: 'https://id.example', jwks_file: keys.json }}] }}\n{}",
        config(&[("up", http(url, &format!("classification: PUBLIC, {rule}")))])
    )
}

/// Each file that a reload reads is broken in turn, beside a configuration that would change several things.
#[tokio::test]
async fn a_reload_that_fails_at_any_step_leaves_everything_as_it_was() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let home = gate.home().to_owned();
    let file = |name: &str| home.join(name);
    for (name, text) in [
        ("rules.cedar", POLICY),
        ("coder.yaml", MANIFEST),
        ("keys.json", KEYS),
    ] {
        std::fs::write(file(name), text).unwrap();
    }
    let key = file("seal.pem").display().to_string();
    let made = gate.cli(&["seal", "keygen", &key]).await.unwrap();
    assert_eq!(made.code, Some(0), "{made:?}");
    let first = with_every_file(&fixture.url(), "rate_limit: 1000/s", 8);
    let second = with_every_file(&fixture.url(), "tools: { effect: blocked }", 4);
    let caller = client(&gate, Era::Modern).await;
    gate.write_config(&first).unwrap();
    reload(&gate).await;
    let bundle = gate.status().await.unwrap()["bundle"].clone();
    assert!(bundle.as_str().unwrap().starts_with("rules"), "{bundle}");
    let named = "reading the files that it names";
    let policies = "reading policies, manifests and keys of providers";
    for (name, step) in [
        ("rules.cedar", policies),
        ("keys.json", policies),
        ("coder.yaml", named),
        ("seal.pem", named),
        ("state/tokens.json", "reading the credentials"),
        ("portcullis.lock", "reading `portcullis.lock`"),
        ("portcullis.yaml", "reading `portcullis.yaml`"),
    ] {
        let before = std::fs::read(file(name)).unwrap();
        std::fs::write(file(name), "}{ nonsense").unwrap();
        if name != "portcullis.yaml" {
            gate.write_config(&second).unwrap();
        }
        let (status, problem) = crate::operator::post(&gate, "reload", &json!({})).await;
        let sentence = problem["detail"].as_str().unwrap_or_default();
        assert_eq!(status, 422, "{name}: {problem}");
        assert!(
            sentence.contains(&format!("{step} failed"))
                && sentence.contains("before stays in force"),
            "{name}: {problem}"
        );
        let called = caller.call("up__effect", json!({})).await.unwrap();
        assert!(!called.is_error, "{name}: {}", called.answer);
        assert_eq!(gate.status().await.unwrap()["bundle"], bundle, "{name}");
        // In this order: the gate may look at any time.
        gate.write_config(&first).unwrap();
        std::fs::write(file(name), before).unwrap();
        reload(&gate).await;
    }
    gate.write_config(&second).unwrap();
    reload(&gate).await;
    let called = caller.call("up__effect", json!({})).await.unwrap();
    assert_eq!(called.violation(), Some("ToolNotAllowed"));
}

/// The file of the lock that edits take cannot be had, so the file is not written.
#[tokio::test]
async fn an_edit_that_cannot_be_written_changes_nothing_and_is_on_record() {
    let fixture = fixture().await;
    let gate = connected(&[("up", http(&fixture.url(), PUBLIC))]).await;
    let caller = client(&gate, Era::Modern).await;
    let lock = gate.home().join("state/config.lock");
    let _ = std::fs::remove_file(&lock);
    std::fs::create_dir(&lock).unwrap();
    let asked = json!({ "reason": "it leaks" });
    let (status, problem) = crate::operator::post(&gate, "servers/up/block", &asked).await;
    assert_ne!(status, 200, "{problem}");
    let sentence = problem["detail"].as_str().unwrap_or_default();
    assert!(
        sentence.contains("changing `portcullis.yaml` failed")
            && sentence.contains("before stays in force"),
        "{problem}"
    );
    let called = caller.call("up__effect", json!({})).await.unwrap();
    assert!(!called.is_error, "{}", called.answer);
    let records = crate::support::records(&gate).await;
    let failed: Vec<_> = records
        .iter()
        .filter(|record| record["action"] == "config.failed")
        .collect();
    assert_eq!(failed.len(), 1, "{failed:?}");
    assert_eq!(failed[0]["server"], "up");
    std::fs::remove_dir(&lock).unwrap();
    let (status, body) = crate::operator::post(&gate, "servers/up/block", &asked).await;
    assert_eq!(status, 200, "{body}");
    assert!(caller.call("up__effect", json!({})).await.unwrap().is_error);
}
