//! What whoever watches the gate reads, judged by Prometheus' own tool.

use std::{net::TcpListener, path::Path, process::Stdio};

use serde_json::{Value, json};
use testkit::client::Era;
use tokio::io::AsyncWriteExt;

use crate::{
    operator::SOON,
    support::{await_state, client, fixture, gate, http, workspace},
};

async fn get(url: &str) -> (String, String) {
    let mut curl = tokio::process::Command::new("curl");
    curl.args([
        "--silent",
        "--show-error",
        "--max-time",
        "60",
        "--write-out",
        "\n%{http_code}",
        url,
    ]);
    let output = curl.output().await.expect("`curl` is needed");
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let (body, code) = text.rsplit_once('\n').unwrap();
    (body.to_owned(), code.to_owned())
}

async fn promtool(args: &[&str], input: &str) {
    let mut child = tokio::process::Command::new("promtool")
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("`promtool` of Debian's package prometheus is needed");
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(input.as_bytes()).await.unwrap();
    drop(stdin);
    let output = child.wait_with_output().await.unwrap();
    assert!(
        output.status.success() && output.stderr.is_empty(),
        "{output:?}"
    );
}

fn value(text: &str, row: &str) -> Option<f64> {
    text.lines()
        .find_map(|line| line.strip_prefix(row)?.trim().parse().ok())
}

/// Names of metrics of ours in a text.
fn names(text: &str) -> Vec<String> {
    let mut found: Vec<String> = text
        .split(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
        .filter(|word| word.starts_with("portcullis_"))
        .map(|word| {
            let ends = ["_bucket", "_sum", "_count"];
            ends.iter()
                .find_map(|end| word.strip_suffix(end))
                .unwrap_or(word)
                .to_owned()
        })
        .collect();
    found.sort();
    found.dedup();
    found
}

#[tokio::test]
async fn metrics_agree_with_what_was_called_and_no_name_of_a_caller_makes_a_series() {
    let fixture = fixture().await;
    let port = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port();
    let gate = gate(&format!(
        "admin_listen: 127.0.0.1:{port}\nmcp_servers:\n  up: {}\n",
        http(
            &fixture.url(),
            "classification: PUBLIC, tools: { slow: blocked }"
        )
    ))
    .await;
    await_state(&gate, "up", "connected", SOON).await;
    let agent = client(&gate, Era::Modern).await;
    for _ in 0..7 {
        agent
            .call("up__echo", json!({"text": "hello"}))
            .await
            .unwrap();
    }
    for _ in 0..3 {
        let refused = agent.call("up__slow", json!({"ms": 1})).await.unwrap();
        assert!(refused.error_code().is_some(), "{}", refused.answer);
    }
    for nth in 0..200 {
        let _ = agent.call(&format!("up__made_up_{nth}"), json!({})).await;
    }
    let base = format!("http://127.0.0.1:{port}");
    let (text, code) = get(&format!("{base}/metrics")).await;
    assert_eq!(code, "200");
    promtool(&["check", "metrics"], &text).await;
    let permitted = value(
        &text,
        "portcullis_calls_total{server=\"up\",verdict=\"permitted\",rule=\"\"}",
    );
    assert_eq!(permitted, Some(7.0), "{text}");
    let refused: f64 = text
        .lines()
        .filter(|line| line.starts_with("portcullis_calls_total{server=\"up\",verdict=\"refused\""))
        .filter_map(|line| line.rsplit_once(' ')?.1.parse::<f64>().ok())
        .sum();
    assert_eq!(refused, 3.0, "{text}");
    assert_eq!(
        value(&text, "portcullis_server_up{server=\"up\"}"),
        Some(1.0)
    );
    assert_eq!(value(&text, "portcullis_ledger_stopped"), Some(0.0));
    assert_eq!(
        value(&text, "portcullis_call_duration_seconds_count"),
        Some(210.0),
        "{text}"
    );
    assert!(!text.contains("made_up"), "a caller's word is a label");
    assert!(text.lines().filter(|line| !line.starts_with('#')).count() < 100);

    for path in ["/livez", "/readyz"] {
        assert_eq!(get(&format!("{base}{path}")).await.1, "200", "{path}");
    }
    assert_eq!(get(&format!("{base}/v1/admin/status")).await.1, "404");
    assert_eq!(get(&format!("{base}/mcp")).await.1, "404");

    // What operators are given asks for nothing that is not there.
    let monitoring = workspace().join("packaging/monitoring");
    let there = names(&text);
    for file in ["alerts.yml", "dashboard.json"] {
        let text = std::fs::read_to_string(monitoring.join(file)).unwrap();
        let asked = names(&text);
        assert!(asked.len() > 5, "{file}");
        for name in asked {
            assert!(
                there.contains(&name),
                "{file} asks for {name}, which is not in /metrics"
            );
        }
    }
}

#[tokio::test]
async fn alerts_and_dashboard_are_what_their_readers_take() {
    let monitoring = workspace().join("packaging/monitoring");
    let at = |file: &str| monitoring.join(file).to_str().unwrap().to_owned();
    promtool(&["check", "rules", &at("alerts.yml")], "").await;
    promtool(&["test", "rules", &at("alerts-test.yml")], "").await;
    let text = std::fs::read_to_string(Path::new(&at("dashboard.json"))).unwrap();
    let dashboard: Value = serde_json::from_str(&text).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    assert!(panels.len() >= 10, "{}", panels.len());
    for panel in panels {
        assert!(
            panel["title"].is_string() && panel["targets"][0]["expr"].is_string(),
            "{panel}"
        );
    }
}
