//! Reading the ledger as an operator does, with a gate running and without: questions, stories, reports, exports, retention.

use std::fs;
use std::time::Duration;

use audit::{Change, Ledger, Options, RealDisk};
use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::{Gate, Setup};
use testkit::shifty::{Shown, tool};

use crate::operator::{FLOOR_ONLY, SOON, done, shifty, told};
use crate::support::{
    await_state, client, config, connected, eventually, fixture, http, portcullis,
};

/// One record per line.
async fn found(gate: &Gate, conditions: &[&str]) -> Vec<Value> {
    let said = done(gate, &[&["--json", "audit", "query"], conditions].concat()).await;
    said.stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

#[tokio::test]
async fn questions_are_answered_with_and_without_a_gate() {
    let mut shown = Shown::usual();
    shown.tools.push(tool("never", "Is blocked"));
    let up = shifty(shown).await;
    let yaml = format!(
        "{FLOOR_ONLY}{}",
        config(&[(
            "up",
            http(
                &up.url(),
                "classification: INTERNAL, tools: { never: blocked }"
            )
        )])
    );
    let mut gate = Setup::new(portcullis(), yaml).start().await.unwrap();
    await_state(&gate, "up", "connected", SOON).await;
    let agent = client(&gate, Era::Modern).await;
    for n in 0..6 {
        agent
            .call("up__say", json!({"text": format!("number {n}")}))
            .await
            .unwrap();
        agent
            .call("up__never", json!({"text": "no"}))
            .await
            .unwrap();
    }
    for _ in 0..2 {
        let refused = found(
            &gate,
            &["--verdict", "refused", "--server", "up", "--since", "1h"],
        )
        .await;
        assert!(
            refused.len() == 6 && refused.iter().all(|record| record["tool"] == "never"),
            "{refused:?}"
        );
        let said = found(&gate, &["--tool", "say", "--verdict", "permitted"]).await;
        assert_eq!(said.len(), 6, "one record for a call that ended");
        let all = found(&gate, &["--tool", "say", "--all"]).await;
        assert_eq!(
            all.iter()
                .filter(|record| record["kind"] != "change")
                .count(),
            12,
            "intents and outcomes: {all:?}"
        );
        let calls = found(&gate, &[]).await;
        assert!(
            calls.len() == 12 && calls.iter().all(|record| record["kind"] != "change"),
            "calls unless asked: {calls:?}"
        );
        assert!(
            !found(&gate, &["--kind", "change"]).await.is_empty(),
            "changes where they are asked for"
        );
        let lines = done(&gate, &["audit", "query", "--verdict", "refused"])
            .await
            .stdout;
        let caller = said[0]["caller"].as_str().unwrap();
        assert!(
            lines.starts_with("TIME (UTC)") && lines.ends_with("6 calls.\n"),
            "{lines}"
        );
        assert!(
            lines.contains("  first-client  ") && !lines.contains(caller),
            "names instead of ids: {lines}"
        );
        assert_eq!(
            found(&gate, &["--level", "INTERNAL", "--limit", "3"])
                .await
                .len(),
            3
        );
        assert_eq!(found(&gate, &["--until", "2020-01-01"]).await.len(), 0);
        let last = said.last().unwrap()["call"].as_str().unwrap();
        let influences = found(&gate, &["--lineage", last]).await;
        assert_eq!(
            influences.len(),
            6,
            "it, and what its session was shown before: {influences:?}"
        );
        let story = done(&gate, &["audit", "show", last]).await.stdout;
        assert!(
            story.contains("✓ Dispatch") && story.contains("session"),
            "{story}"
        );
        assert!(
            story.contains(r#"{"text":"number 5"}"#),
            "a pipe gets the arguments as they were kept: {story}"
        );
        // The second time nobody is there to ask.
        if gate.is_running() {
            gate.stop().await.unwrap();
        }
    }
    let refusal = found(&gate, &["--violation", "ToolNotAllowed"])
        .await
        .pop()
        .or(found(&gate, &["--verdict", "refused"]).await.pop());
    let story = done(
        &gate,
        &["audit", "show", refusal.unwrap()["call"].as_str().unwrap()],
    )
    .await
    .stdout;
    assert!(
        story.contains("✗ Admit") && story.contains("· Dispatch"),
        "{story}"
    );
    fs::remove_file(gate.home().join("state/index.db")).unwrap();
    assert_eq!(
        found(&gate, &["--tool", "say", "--verdict", "permitted"])
            .await
            .len(),
        6,
        "an index can be lost"
    );
}

#[tokio::test]
async fn reports_and_exports_stand_by_themselves() {
    let fixture = fixture().await;
    let mut gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    client(&gate, Era::Modern)
        .await
        .call("up__effect", json!({}))
        .await
        .unwrap();
    let report = told(&gate, &["audit", "report"]).await;
    assert_eq!(
        (
            &report["ledger"]["verifies"],
            &report["calls"]["by_verdict"]["permitted"]
        ),
        (&json!(true), &json!(1)),
        "{report}"
    );
    let text = done(&gate, &["audit", "report"]).await.stdout;
    assert!(
        text.contains("1 call: 1 permitted") && text.contains("The ledger verifies"),
        "{text}"
    );
    let unknown = testkit::gate::run(
        &portcullis(),
        gate.home(),
        &["audit", "query", "--caller", "nosuch"],
        "",
    )
    .await
    .unwrap();
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains("there is no caller `nosuch`"),
        "{unknown:?}"
    );
    let unknown = testkit::gate::run(
        &portcullis(),
        gate.home(),
        &["tools", "list", "--server", "nosuch"],
        "",
    )
    .await
    .unwrap();
    assert!(
        unknown.code == Some(2) && unknown.stderr.contains("there is no server `nosuch`"),
        "{unknown:?}"
    );
    let page = gate.home().join("report.html");
    done(
        &gate,
        &[
            "audit",
            "report",
            "--format",
            "html",
            "--since",
            "1h",
            "--out",
            page.to_str().unwrap(),
        ],
    )
    .await;
    assert!(
        fs::read_to_string(page)
            .unwrap()
            .contains("The ledger verifies")
    );
    gate.stop().await.unwrap();
    let file = gate.home().join("all.ledger");
    let name = file.to_str().unwrap();
    done(&gate, &["audit", "export", "--out", name]).await;
    let key = told(&gate, &["audit", "checkpoint"]).await["public_key"]
        .as_str()
        .unwrap()
        .to_owned();
    // Somewhere else, where there is no ledger.
    let elsewhere = tempfile::tempdir().unwrap();
    let verify = |args: &[&str]| {
        let args: Vec<String> = [&["audit", "verify", "--export", name], args]
            .concat()
            .iter()
            .map(|arg| (*arg).to_owned())
            .collect();
        let home = elsewhere.path().to_owned();
        async move {
            let args: Vec<&str> = args.iter().map(String::as_str).collect();
            testkit::gate::run(&portcullis(), &home, &args, "")
                .await
                .unwrap()
        }
    };
    let said = verify(&["--key", &key]).await;
    assert!(
        said.code == Some(0) && said.stdout.contains("The export holds"),
        "{said:?}"
    );
    assert!(verify(&[]).await.stdout.contains("the key it names itself"));
    let text = fs::read_to_string(&file).unwrap().replacen(
        "\"tool\":\"effect\"",
        "\"tool\":\"secret\"",
        1,
    );
    fs::write(&file, text).unwrap();
    let said = verify(&["--key", &key]).await;
    assert!(
        said.code == Some(6) && said.stdout.contains("DOES NOT HOLD"),
        "{said:?}"
    );
}

/// A gate removes what is too old by itself, while calls go on, and says so.
#[tokio::test]
async fn a_gate_keeps_its_ledger_as_long_as_it_is_told_to() {
    let fixture = fixture().await;
    let entries = config(&[("up", http(&fixture.url(), "classification: PUBLIC"))]);
    let mut gate = Setup::new(portcullis(), entries.clone())
        .start()
        .await
        .unwrap();
    await_state(&gate, "up", "connected", SOON).await;
    gate.stop().await.unwrap();
    // As if it had run for long: several small segments, all of now.
    let place = gate.home().join("ledger");
    let ledger = Ledger::with(
        &place,
        Box::new(RealDisk),
        audit::system_clock(),
        Options {
            segment_bytes: 3_000,
        },
    )
    .unwrap();
    for n in 0..60 {
        ledger
            .change(&Change {
                action: "server.state",
                detail: &format!("number {n} {}", "x".repeat(200)),
                ..Change::default()
            })
            .unwrap();
    }
    drop(ledger);
    let old = gate.home().join("old.checkpoint");
    let early = told(&gate, &["audit", "checkpoint"]).await["checkpoint"]
        .as_str()
        .unwrap()
        .to_owned();
    fs::write(&old, &early).unwrap();
    let said = gate.cli(&["audit", "retain"]).await.unwrap();
    assert!(
        said.code == Some(2) && said.stderr.contains("keep everything"),
        "{said:?}"
    );

    gate.write_config(&format!("audit: {{ retention: 1s }}\n{entries}"))
        .unwrap();
    eventually("everything to be a second old", SOON, || async {
        let would = told(&gate, &["audit", "retain", "--dry-run"]).await;
        if would["segments"].as_u64() > Some(2) && would["removed"] == false {
            Ok(())
        } else {
            Err(would.to_string())
        }
    })
    .await;
    gate.start_again().await.unwrap();
    await_state(&gate, "up", "connected", SOON).await;
    let agent = client(&gate, Era::Modern).await;
    let verified = eventually("a removal", Duration::from_secs(20), || async {
        assert!(
            !agent.call("up__effect", json!({})).await.unwrap().is_error,
            "calls go on"
        );
        let said = gate.cli(&["--json", "audit", "verify"]).await.unwrap();
        let report = said.json().map_err(|error| error.to_string())?;
        assert_eq!(said.code, Some(0), "{report}");
        // It goes on record first, and then one segment after the other goes.
        let said = found(&gate, &["--action", "ledger.trimmed"]).await;
        let is_done = said
            .first()
            .is_some_and(|said| said["count"] == report["first"]);
        if is_done {
            Ok(report)
        } else {
            Err(format!("{report} {said:?}"))
        }
    })
    .await;
    let said = found(&gate, &["--action", "ledger.trimmed"]).await;
    assert!(
        said[0]["reason"]
            .as_str()
            .unwrap()
            .contains("audit.retention"),
        "{said:?}"
    );
    let busy = gate.cli(&["audit", "retain"]).await.unwrap();
    assert!(
        busy.code == Some(1) && busy.stderr.contains("a gate is running"),
        "{busy:?}"
    );
    // A head from before covers records that are still there, up to its end: it can be compared.
    let against = gate
        .cli(&["audit", "verify", "--against", old.to_str().unwrap()])
        .await
        .unwrap();
    let covers: u64 = early.lines().nth(1).unwrap().parse().unwrap();
    let expected = if covers >= verified["first"].as_u64().unwrap() {
        Some(0)
    } else {
        Some(1)
    };
    assert_eq!(against.code, expected, "{against:?}");
}
