//! Both eras on both faces: every feature in every combination, over HTTP and stdio upstreams.
//!
//! A cell of the table either works or is refused for the reason `docs/integrate/bridging.md` gives. Nothing is skipped: a
//! refused cell is checked to be refused.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::everything::{self, HttpFixture};
use testkit::gate::Gate;

use crate::support::{await_state, config, gate, http, new_token, stdio_everything, until};

const ALLOW: &str = "classification: INTERNAL, definitions: { new: accept }, allow: { sampling: true, roots: true, elicitation: true }";
const SOON: Duration = Duration::from_secs(5);

#[derive(Clone, Copy, Debug, PartialEq)]
enum Feature {
    Tools,
    Resources,
    Prompts,
    Completion,
    Progress,
    Cancellation,
    Logging,
    ListChanged,
    Elicitation,
    Sampling,
    UrlElicitation,
    Roots,
    Subscription,
}

impl Feature {
    const ALL: [Self; 13] = [
        Self::Tools,
        Self::Resources,
        Self::Prompts,
        Self::Completion,
        Self::Progress,
        Self::Cancellation,
        Self::Logging,
        Self::ListChanged,
        Self::Elicitation,
        Self::Sampling,
        Self::UrlElicitation,
        Self::Roots,
        Self::Subscription,
    ];
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Transport {
    Http,
    Stdio,
}

#[tokio::test]
async fn legacy_client_legacy_http_server() {
    table(Era::Legacy, Era::Legacy, Transport::Http).await;
}

#[tokio::test]
async fn legacy_client_modern_http_server() {
    table(Era::Legacy, Era::Modern, Transport::Http).await;
}

#[tokio::test]
async fn modern_client_legacy_http_server() {
    table(Era::Modern, Era::Legacy, Transport::Http).await;
}

#[tokio::test]
async fn modern_client_modern_http_server() {
    table(Era::Modern, Era::Modern, Transport::Http).await;
}

#[tokio::test]
async fn legacy_client_legacy_stdio_server() {
    table(Era::Legacy, Era::Legacy, Transport::Stdio).await;
}

#[tokio::test]
async fn legacy_client_modern_stdio_server() {
    table(Era::Legacy, Era::Modern, Transport::Stdio).await;
}

#[tokio::test]
async fn modern_client_legacy_stdio_server() {
    table(Era::Modern, Era::Legacy, Transport::Stdio).await;
}

#[tokio::test]
async fn modern_client_modern_stdio_server() {
    table(Era::Modern, Era::Modern, Transport::Stdio).await;
}

/// Every row of the page names a feature of the table, and the page calls each of them carried in all four columns.
#[test]
fn the_bridging_page_shows_this_table() {
    let page =
        std::fs::read_to_string(crate::support::workspace().join("docs/integrate/bridging.md"))
            .unwrap();
    for feature in Feature::ALL {
        let row = page
            .lines()
            .find(|line| line.starts_with(&format!("| {feature:?} |")));
        let row =
            row.unwrap_or_else(|| panic!("docs/integrate/bridging.md has no row for {feature:?}"));
        let carried = row
            .split('|')
            .filter(|cell| cell.trim_start().starts_with("carried"))
            .count();
        assert_eq!(carried, 4, "{row}");
    }
}

/// One pipe for all callers: a question on it that could be anybody's is asked of nobody.
#[tokio::test]
async fn a_question_that_could_be_anybodys_is_refused() {
    let cell = Cell::open(Era::Legacy, Era::Legacy, Transport::Stdio).await;
    let answer = json!({"action": "accept", "content": {"name": "Eve"}});
    let able = cell
        .able_client("elicitation", "elicitation/create", answer.clone())
        .await
        .unwrap();
    let other = new_token(&cell.gate, "other", &[]).await;
    let target = cell.gate.target().unwrap().with_token(Some(&other));
    let other = Client::connect(
        &target,
        Era::Legacy,
        json!({"elicitation": {}}),
        &[("elicitation/create", answer)],
    )
    .await
    .unwrap();
    for client in [&able, &other] {
        client.listen(&[]).await.unwrap();
    }
    let before = cell.counters(&able).await.unwrap()["started"].as_u64();
    let busy = other.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 1500}}),
    );
    until("the other call to be in flight", SOON, || async {
        let now = cell
            .counters(&able)
            .await
            .map_err(|error| error.to_string())?;
        if now["started"].as_u64() > before {
            Ok(())
        } else {
            Err(now.to_string())
        }
    })
    .await
    .unwrap();
    let called = able.call("up__elicit_form", json!({})).await.unwrap();
    assert!(called.is_error, "{}", called.answer);
    assert!(busy.answer().await.unwrap().to_string().contains("slept"));
    for client in [&able, &other] {
        assert!(
            client.seen_of("elicitation/create").is_empty(),
            "somebody was asked: {:?}",
            client.seen()
        );
    }
    let called = able.call("up__elicit_form", json!({})).await.unwrap();
    assert!(
        called.text.contains("Eve"),
        "alone, the question has an owner: {}",
        called.answer
    );
}

/// The two kinds of tasks share a word and nothing else: across eras a call runs to its end instead.
#[tokio::test]
async fn tasks_are_not_translated_between_eras() {
    let extension = json!({"extensions": {"io.modelcontextprotocol/tasks": {}}});
    let params = json!({"name": "up__slow_compute", "arguments": {"seconds": 0.1, "label": "x"}});
    let cell = Cell::open(Era::Modern, Era::Legacy, Transport::Http).await;
    let client = Client::connect(&cell.gate.target().unwrap(), Era::Modern, extension, &[])
        .await
        .unwrap();
    let answer = client.request("tools/call", params.clone()).await.unwrap();
    assert_eq!(
        answer.pointer("/result/content/0/text"),
        Some(&json!("computed x")),
        "{answer}"
    );
    let cell = Cell::open(Era::Legacy, Era::Modern, Transport::Http).await;
    let client = cell.client().await.unwrap();
    let mut with_task = params;
    with_task["task"] = json!({"ttl": 60_000});
    let answer = client.request("tools/call", with_task).await.unwrap();
    let done = answer.pointer("/result/content/0/text") == Some(&json!("computed x"));
    assert!(
        done || answer.get("error").is_some(),
        "neither done nor refused: {answer}"
    );
}

async fn table(client: Era, upstream: Era, transport: Transport) {
    let cell = Cell::open(client, upstream, transport).await;
    let mut failures = Vec::new();
    for feature in Feature::ALL {
        let tried = tokio::time::timeout(Duration::from_secs(20), cell.check(feature)).await;
        let outcome =
            tried.unwrap_or_else(|_| Err(anyhow::anyhow!("nothing came of it within 20 s")));
        if let Err(problem) = outcome {
            failures.push(format!("{feature:?}: {problem:#}"));
        }
    }
    let log = if failures.is_empty() {
        String::new()
    } else {
        cell.gate.output()
    };
    assert!(
        failures.is_empty(),
        "{client:?} client, {upstream:?} {transport:?} server:\n{}\n{log}",
        failures.join("\n")
    );
}

struct Cell {
    gate: Gate,
    _fixture: Option<HttpFixture>,
    era: Era,
}

impl Cell {
    async fn open(era: Era, upstream: Era, transport: Transport) -> Self {
        let (word, fixture_era, protocol) = match upstream {
            Era::Legacy => ("legacy", everything::Era::Legacy, "2025-11-25"),
            Era::Modern => ("modern", everything::Era::Modern, "2026-07-28"),
        };
        let (entry, fixture) = match transport {
            Transport::Stdio => (stdio_everything(word, ALLOW), None),
            Transport::Http => {
                let fixture = HttpFixture::start(fixture_era).await.unwrap();
                (http(&fixture.url(), ALLOW), Some(fixture))
            }
        };
        let gate = gate(&config(&[("up", entry)])).await;
        let server = await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
        assert_eq!(
            server["protocol"], protocol,
            "the combination is the one that is meant: {server}"
        );
        Self {
            gate,
            _fixture: fixture,
            era,
        }
    }

    async fn client(&self) -> Result<Client> {
        Client::plain(&self.gate.target()?, self.era).await
    }

    async fn able_client(&self, capability: &str, method: &str, answer: Value) -> Result<Client> {
        Client::connect(
            &self.gate.target()?,
            self.era,
            json!({capability: {}}),
            &[(method, answer)],
        )
        .await
    }

    async fn check(&self, feature: Feature) -> Result<()> {
        match feature {
            Feature::Tools => self.tools().await,
            Feature::Resources => self.resources().await,
            Feature::Prompts => self.prompts().await,
            Feature::Completion => self.completion().await,
            Feature::Progress => self.progress().await,
            Feature::Cancellation => self.cancellation().await,
            Feature::Logging => self.logging().await,
            Feature::ListChanged => self.list_changed().await,
            Feature::Elicitation => self.elicitation().await,
            Feature::Sampling => self.sampling().await,
            Feature::UrlElicitation => self.url_elicitation().await,
            Feature::Roots => self.roots().await,
            Feature::Subscription => self.subscription().await,
        }
    }

    async fn tools(&self) -> Result<()> {
        let client = self.client().await?;
        let names = client.tool_names().await?;
        ensure!(
            names.iter().any(|name| name == "up__echo"),
            "up__echo is not among {names:?}"
        );
        for text in [
            "plain",
            "späte Grüße \u{1f3f0}",
            "quotes \" and \\ and \u{2028}",
            "",
        ] {
            let called = client.call("up__echo", json!({"text": text})).await?;
            ensure!(
                called.text == text && !called.is_error,
                "{text:?} came back as {}",
                called.answer
            );
        }
        let structured = client
            .request("tools/call", json!({"name": "up__env", "arguments": {}}))
            .await?;
        let complete = structured.pointer("/result/resultType") == Some(&json!("complete"));
        ensure!(
            complete == (self.era == Era::Modern),
            "resultType belongs to modern answers only: {structured}"
        );
        Ok(())
    }

    async fn resources(&self) -> Result<()> {
        let client = self.client().await?;
        let listed = client.list("resources").await?;
        let uris: Vec<&str> = listed
            .iter()
            .filter_map(|resource| resource["uri"].as_str())
            .collect();
        let uri = "portcullis://up/test://static-text";
        ensure!(uris.contains(&uri), "{uri} is not among {uris:?}");
        let read = client
            .request("resources/read", json!({"uri": uri}))
            .await?;
        let text = read
            .pointer("/result/contents/0/text")
            .and_then(Value::as_str);
        ensure!(
            text == Some("This is the content of the static text resource."),
            "read: {read}"
        );
        let templates = client
            .request("resources/templates/list", json!({}))
            .await?;
        let template = templates
            .pointer("/result/resourceTemplates/0/uriTemplate")
            .and_then(Value::as_str);
        ensure!(
            template == Some("portcullis://up/test://template/{id}/data"),
            "templates: {templates}"
        );
        let made = client
            .request(
                "resources/read",
                json!({"uri": "portcullis://up/test://template/42/data"}),
            )
            .await?;
        ensure!(
            made.to_string().contains("Data for ID: 42"),
            "template read: {made}"
        );
        let missing = client
            .request(
                "resources/read",
                json!({"uri": "portcullis://up/test://no-such"}),
            )
            .await?;
        let code = missing.pointer("/error/code").and_then(Value::as_i64);
        // A legacy client understands the newer code too: the servers' own codes changed before the clients did.
        let wanted: &[i64] = if self.era == Era::Modern {
            &[-32602]
        } else {
            &[-32002, -32602]
        };
        ensure!(
            code.is_some_and(|code| wanted.contains(&code)),
            "missing resource: {missing}"
        );
        Ok(())
    }

    async fn prompts(&self) -> Result<()> {
        let client = self.client().await?;
        let listed = client.list("prompts").await?;
        let name = "up__test_prompt_with_arguments";
        ensure!(
            listed.iter().any(|prompt| prompt["name"] == name),
            "{name} is not among {listed:?}"
        );
        let params = json!({"name": name, "arguments": {"arg1": "one", "arg2": "zwei"}});
        let prompt = client.request("prompts/get", params).await?;
        let text = prompt
            .pointer("/result/messages/0/content/text")
            .and_then(Value::as_str);
        ensure!(
            text == Some("Prompt with arguments: arg1='one', arg2='zwei'"),
            "prompt: {prompt}"
        );
        Ok(())
    }

    async fn completion(&self) -> Result<()> {
        let client = self.client().await?;
        let params = json!({"ref": {"type": "ref/prompt", "name": "up__test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "par"}});
        let completed = client.request("completion/complete", params).await?;
        let values = completed.pointer("/result/completion/values");
        ensure!(
            values == Some(&json!(["paris", "park", "party"])),
            "completion: {completed}"
        );
        let params = json!({"ref": {"type": "ref/resource", "uri": "portcullis://up/test://template/{id}/data"},
            "argument": {"name": "id", "value": "test"}});
        let completed = client.request("completion/complete", params).await?;
        let values = completed.pointer("/result/completion/values");
        ensure!(
            values == Some(&json!(["test", "testing", "tested"])),
            "template completion: {completed}"
        );
        Ok(())
    }

    async fn progress(&self) -> Result<()> {
        let client = self.client().await?;
        let params = json!({"name": "up__progress", "arguments": {"steps": 4}, "_meta": {"progressToken": "tok-1"}});
        let answer = client.request("tools/call", params).await?;
        ensure!(
            answer.to_string().contains("reported 5 times"),
            "answer: {answer}"
        );
        let seen = client.seen_of("notifications/progress");
        ensure!(
            seen.iter()
                .all(|note| note["params"]["progressToken"] == "tok-1"),
            "foreign tokens in {seen:?}"
        );
        let values: Vec<f64> = seen
            .iter()
            .filter_map(|note| note["params"]["progress"].as_f64())
            .collect();
        ensure!(
            values == [0.0, 25.0, 50.0, 75.0, 100.0],
            "progress was {values:?}"
        );
        Ok(())
    }

    async fn cancellation(&self) -> Result<()> {
        let client = self.client().await?;
        let before = self.counters(&client).await?;
        let pending = client.start(
            "tools/call",
            json!({"name": "up__slow", "arguments": {"ms": 60_000}}),
        );
        let target = &client;
        until("the call to reach the server", SOON, || async {
            let now = self
                .counters(target)
                .await
                .map_err(|error| error.to_string())?;
            if now["started"].as_u64() > before["started"].as_u64() {
                Ok(())
            } else {
                Err(now.to_string())
            }
        })
        .await?;
        pending.cancel().await?;
        until("the server to hear of the cancellation", SOON, || async {
            let now = self
                .counters(target)
                .await
                .map_err(|error| error.to_string())?;
            if now["cancelled"].as_u64() > before["cancelled"].as_u64() {
                Ok(())
            } else {
                Err(now.to_string())
            }
        })
        .await?;
        Ok(())
    }

    async fn counters(&self, client: &Client) -> Result<Value> {
        let called = client.call("up__count_effects", json!({})).await?;
        serde_json::from_str(&called.text)
            .with_context(|| format!("count_effects said {}", called.answer))
    }

    async fn logging(&self) -> Result<()> {
        let client = self.client().await?;
        client.set_log_level("warning").await?;
        client
            .call("up__log", json!({"level": "error", "steps": 3}))
            .await?;
        until("three log messages", SOON, || async {
            let seen = client.seen_of("notifications/message");
            if seen.len() == 3 {
                Ok(())
            } else {
                Err(format!("{seen:?}"))
            }
        })
        .await?;
        client
            .call("up__log", json!({"level": "info", "steps": 3}))
            .await?;
        let seen = client.seen_of("notifications/message");
        ensure!(
            seen.len() == 3,
            "a level below the asked one came through: {seen:?}"
        );
        ensure!(
            seen.iter().all(|note| note["params"]["level"] == "error"),
            "levels changed on the way: {seen:?}"
        );
        Ok(())
    }

    async fn list_changed(&self) -> Result<()> {
        let client = self.client().await?;
        client.listen(&[]).await?;
        client
            .call("up__emit_list_changed", json!({"name": "grown"}))
            .await?;
        client
            .wait_for("notifications/tools/list_changed", SOON)
            .await?;
        let target = &client;
        until("the new tool in the list", SOON, || async {
            let names = target
                .tool_names()
                .await
                .map_err(|error| error.to_string())?;
            if names.iter().any(|name| name == "up__grown") {
                Ok(())
            } else {
                Err(format!("{names:?}"))
            }
        })
        .await?;
        let called = client.call("up__grown", json!({})).await?;
        ensure!(
            called.text == "grown",
            "the new tool said {}",
            called.answer
        );
        Ok(())
    }

    async fn elicitation(&self) -> Result<()> {
        let answer = json!({"action": "accept", "content": {"name": "Ada", "confirm": true}});
        let client = self
            .able_client("elicitation", "elicitation/create", answer)
            .await?;
        client.listen(&[]).await?;
        let called = client
            .call("up__elicit_form", json!({"message": "Who are you?"}))
            .await?;
        ensure!(
            called.text.contains("action=accept") && called.text.contains("Ada"),
            "answer: {}",
            called.answer
        );
        let asked = client.seen_of("elicitation/create");
        ensure!(asked.len() == 1, "asked {} times: {asked:?}", asked.len());
        ensure!(
            asked[0]["params"]["message"]
                .as_str()
                .is_some_and(|text| text.contains("Who are you?")),
            "{asked:?}"
        );
        ensure!(
            asked[0]["params"]["requestedSchema"]["required"] == json!(["name"]),
            "the form changed: {asked:?}"
        );
        let unable = self.client().await?;
        unable.listen(&[]).await?;
        let called = unable.call("up__elicit_form", json!({})).await?;
        ensure!(
            called.is_error,
            "a client that cannot answer was answered: {}",
            called.answer
        );
        ensure!(
            unable.seen_of("elicitation/create").is_empty(),
            "a client that cannot answer was asked"
        );
        Ok(())
    }

    async fn sampling(&self) -> Result<()> {
        let answer = json!({"role": "assistant", "content": {"type": "text", "text": "forty-two"}, "model": "m",
            "stopReason": "endTurn"});
        let client = self
            .able_client("sampling", "sampling/createMessage", answer)
            .await?;
        client.listen(&[]).await?;
        let called = client
            .call("up__sample", json!({"prompt": "What is the answer?"}))
            .await?;
        ensure!(
            called.text == "Sample: forty-two",
            "answer: {}",
            called.answer
        );
        let asked = client.seen_of("sampling/createMessage");
        ensure!(
            asked.len() == 1 && asked[0].to_string().contains("What is the answer?"),
            "asked: {asked:?}"
        );
        Ok(())
    }

    async fn url_elicitation(&self) -> Result<()> {
        let answers = [("elicitation/create", json!({"action": "accept"}))];
        let able = json!({"elicitation": {"form": {}, "url": {}}});
        let client = Client::connect(&self.gate.target()?, self.era, able, &answers).await?;
        client.listen(&[]).await?;
        let url = "https://example.com/consent?state=1&x=%20";
        let called = client
            .call(
                "up__elicit_url",
                json!({"page": url, "message": "Please visit"}),
            )
            .await?;
        ensure!(
            called.text.contains("action=accept"),
            "answer: {}",
            called.answer
        );
        let asked = client.seen_of("elicitation/create");
        ensure!(
            asked.len() == 1 && asked[0]["params"]["url"] == url,
            "the address changed: {asked:?}"
        );
        ensure!(
            asked[0]["params"]["mode"] == "url",
            "the mode changed: {asked:?}"
        );
        Ok(())
    }

    async fn roots(&self) -> Result<()> {
        let answer = json!({"roots": [{"uri": "file:///srv/project", "name": "project"}]});
        let client = self.able_client("roots", "roots/list", answer).await?;
        client.listen(&[]).await?;
        let called = client.call("up__list_roots", json!({})).await?;
        ensure!(
            called.text.contains("file:///srv/project"),
            "answer: {}",
            called.answer
        );
        Ok(())
    }

    async fn subscription(&self) -> Result<()> {
        let client = self.client().await?;
        let uri = "portcullis://up/test://watched-resource";
        client.listen(&[uri]).await?;
        if self.era == Era::Legacy {
            let answer = client
                .request("resources/subscribe", json!({"uri": uri}))
                .await?;
            ensure!(
                answer.get("result").is_some(),
                "resources/subscribe: {answer}"
            );
        }
        // Another resource changes too, and nobody asked about that one.
        client
            .call("up__touch_resource", json!({"uri": "test://static-text"}))
            .await?;
        client.call("up__touch_resource", json!({})).await?;
        client
            .wait_for("notifications/resources/updated", SOON)
            .await?;
        let seen = client.seen_of("notifications/resources/updated");
        ensure!(
            seen.iter().all(|note| note["params"]["uri"] == uri),
            "told of the wrong resource: {seen:?}"
        );
        Ok(())
    }
}
