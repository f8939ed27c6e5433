//! The same journey with every client that npm and PyPI offer: connect, list, call, wait for a person, and be refused with a reason that
//! is shown, also by a tool that declares an output schema.

use serde_json::{Value, json};
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown, tool};

use crate::foreign::{Node, older_python, python, script, talk, text};
use crate::operator::{SOON, done, listed, shifty};
use crate::support::{await_state, config, gate, http, new_token};

/// A server whose words are anybody's, one that acts, and one with something to hide.
pub(crate) struct Scene {
    gate: Gate,
    open: Shifty,
    bank: Shifty,
    _vault: Shifty,
}

impl Scene {
    pub(crate) async fn set() -> Self {
        let mut typed = tool("weather", "Tells the weather");
        typed["outputSchema"] = json!({"type": "object", "required": ["said"], "additionalProperties": false,
            "properties": {"said": {"type": "string"}}});
        let open = shifty(Shown::tools([tool("say", "Says"), typed])).await;
        let bank = shifty(Shown::tools([tool("pay", "Pays")])).await;
        let vault = shifty(Shown::tools([tool("say", "Says")])).await;
        let servers = [
            (
                "open",
                http(
                    &open.url(),
                    "classification: PUBLIC, open_world: true, tools: { \"*\": { effect: read } }",
                ),
            ),
            (
                "bank",
                http(
                    &bank.url(),
                    "classification: INTERNAL, open_world: false, tools: { pay: { effect: consequential } }",
                ),
            ),
            (
                "vault",
                http(
                    &vault.url(),
                    "classification: CONFIDENTIAL, open_world: false, tools: { say: { effect: read } }",
                ),
            ),
        ];
        let gate = gate(&format!(
            "policy: {{ bundle: observe }}\nuntrusted_influence: ask\n{}",
            config(&servers)
        ))
        .await;
        for (id, _) in &servers {
            await_state(&gate, id, "connected", SOON).await;
        }
        Self {
            gate,
            open,
            bank,
            _vault: vault,
        }
    }

    /// Lets a client walk, with a person at hand who agrees, and checks what it says of each step.
    pub(crate) async fn walk(
        &self,
        name: &str,
        client: impl AsyncFnOnce(&str, &str, &str) -> Value,
    ) {
        let token = new_token(&self.gate, name, &[]).await;
        let (heard, paid) = (
            self.open.calls_of("weather").len(),
            self.bank.calls_of("pay").len(),
        );
        let steps = json!([
            ["open__say", {"text": "hello"}],
            ["open__weather", {"text": "rain"}],
            ["bank__pay", {"text": "rent"}],
            ["vault__say", {"text": "hush"}],
            ["open__say", {"text": "hush"}],
            ["open__weather", {"text": "hush"}],
        ])
        .to_string();
        let said = tokio::select! {
            said = client(self.gate.url(), &token, &steps) => said,
            () = self.agree() => unreachable!("a person never tires"),
        };
        let tools = said["tools"]
            .as_array()
            .unwrap_or_else(|| panic!("{name}: {said}"));
        for tool in ["open__say", "open__weather", "bank__pay", "vault__say"] {
            assert!(
                tools.iter().any(|shown| shown == tool),
                "{name} does not show {tool}: {said}"
            );
        }
        let steps = said["said"].as_array().unwrap();
        assert_eq!(steps.len(), 6, "{name}: {said}");
        for (step, words) in steps.iter().zip(["hello", "rain", "rent", "hush"]) {
            // Where a client does not say whether it was an error, the words must.
            assert_ne!(step["error"], true, "{name}: {said}");
            assert!(
                step["text"].as_str().unwrap().contains(words),
                "{name}: {said}"
            );
        }
        for step in &steps[4..] {
            assert_ne!(step["error"], false, "{name}: {said}");
            let reason = step["text"].as_str().unwrap();
            assert!(
                reason.contains("CONFIDENTIAL") && reason.contains("`open`"),
                "{name} hides the reason: {said}"
            );
        }
        assert_eq!(
            self.open.calls_of("weather").len(),
            heard + 1,
            "{name}: what was refused was not done"
        );
        assert_eq!(
            self.bank.calls_of("pay").len(),
            paid + 1,
            "{name}: what was approved was done once"
        );
    }

    /// Approves whatever is asked, for ever.
    async fn agree(&self) {
        loop {
            for approval in listed(&self.gate, "approvals", "approvals").await {
                if approval["state"] == "pending" {
                    done(
                        &self.gate,
                        &["approvals", "approve", approval["id"].as_str().unwrap()],
                    )
                    .await;
                }
            }
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
    }
}

#[tokio::test]
async fn clients_of_the_first_python_sdk() {
    let scene = Scene::set().await;
    let program = text(&older_python().join("python"));
    for client in ["sdk", "langchain", "openai-agents", "pydantic-ai"] {
        let walk = async |url: &str, token: &str, steps: &str| {
            talk(
                &program,
                &[&script("journey_older.py"), client, url, token, steps],
            )
            .await
        };
        scene.walk(client, walk).await;
    }
}

#[tokio::test]
async fn clients_of_the_second_python_sdk() {
    let scene = Scene::set().await;
    let program = text(&python().join("python"));
    for client in ["auto", "legacy", "fastmcp"] {
        let walk = async |url: &str, token: &str, steps: &str| {
            talk(
                &program,
                &[&script("journey_newer.py"), client, url, token, steps],
            )
            .await
        };
        scene.walk(client, walk).await;
    }
}

#[tokio::test]
async fn clients_of_both_typescript_sdks() {
    let scene = Scene::set().await;
    let node = Node::get();
    let (modules, remote) = (text(&node.home), node.script("mcp-remote", "mcp-remote"));
    for client in ["first", "auto", "legacy", "remote"] {
        let walk = async |url: &str, token: &str, steps: &str| {
            talk(
                &node.program,
                &[
                    &script("journey.mjs"),
                    &modules,
                    client,
                    url,
                    token,
                    steps,
                    &remote,
                ],
            )
            .await
        };
        scene.walk(client, walk).await;
    }
}

/// Every step is a run of its own; the credential is what they share.
#[tokio::test]
async fn the_inspector() {
    let scene = Scene::set().await;
    let node = Node::get();
    let inspector = node.script("@modelcontextprotocol/inspector", "mcp-inspector");
    let walk = async |url: &str, token: &str, steps: &str| {
        let header = format!("Authorization: Bearer {token}");
        let inspect = async |more: &[&str]| {
            let mut client = tokio::process::Command::new(&node.program);
            client
                .args([
                    inspector.as_str(),
                    "--cli",
                    url,
                    "--transport",
                    "http",
                    "--header",
                    &header,
                ])
                .args(more);
            client.stdin(std::process::Stdio::null()).kill_on_drop(true);
            let output =
                tokio::time::timeout(std::time::Duration::from_secs(60), client.output()).await;
            let output = output
                .expect("the inspector ends")
                .expect("the inspector starts");
            // An error result has an exit code of its own and is printed all the same.
            serde_json::from_slice::<Value>(&output.stdout)
                .unwrap_or_else(|error| panic!("{error}: {output:?}"))
        };
        let listed = inspect(&["--method", "tools/list"]).await;
        let names = listed["tools"]
            .as_array()
            .into_iter()
            .flatten()
            .map(|tool| tool["name"].clone());
        let tools: Vec<Value> = names.collect();
        let mut said = Vec::new();
        let steps: Vec<(String, Value)> = serde_json::from_str(steps).unwrap();
        for (tool, arguments) in steps {
            let argument = format!("text={}", arguments["text"].as_str().unwrap());
            let result = inspect(&[
                "--method",
                "tools/call",
                "--tool-name",
                &tool,
                "--tool-arg",
                &argument,
            ])
            .await;
            said.push(
                json!({"error": result["isError"] == true, "text": result["content"][0]["text"]}),
            );
        }
        json!({"tools": tools, "said": said})
    };
    scene.walk("inspector", walk).await;
}
