//! The agents that npm offers, unmodified, with a model on loopback that calls the tools: the journey of `journey.rs`, judged by what
//! the model was shown. They are a gigabyte, so they are a campaign: `cargo xtask campaign clients`.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use crate::foreign::{Agents, Node, script, talk};
use crate::journey::Scene;

/// One agent may take this long: its first start unpacks things.
const PATIENCE: Duration = Duration::from_secs(180);

/// A directory to run an agent in, with nothing of anybody's.
struct Desk {
    directory: tempfile::TempDir,
    model: String,
    _stub: Child,
}

impl Desk {
    async fn set(steps: &str) -> Self {
        let mut stub = Command::new(Node::get().program);
        stub.arg(script("stub_model.mjs"))
            .arg(steps)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true);
        let mut stub = stub.spawn().expect("the stub starts");
        let mut lines = BufReader::new(stub.stdout.take().unwrap()).lines();
        let model = lines
            .next_line()
            .await
            .unwrap()
            .expect("the stub says where it is");
        Self {
            directory: tempfile::tempdir().unwrap(),
            model,
            _stub: stub,
        }
    }

    fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.directory.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    fn program(&self, path: &Path) -> Command {
        let mut command = Command::new(path);
        command
            .current_dir(self.directory.path())
            .env("HOME", self.directory.path())
            .stdin(Stdio::null())
            .kill_on_drop(true);
        command
    }

    /// Runs the agent to its end; what its model was shown.
    async fn run(&self, mut agent: Command) -> Value {
        let ended = tokio::time::timeout(PATIENCE, agent.output())
            .await
            .expect("the agent ends")
            .expect("the agent starts");
        let node = Node::get();
        let ask = format!(
            "fetch('{}/said').then(async (answer) => console.log(await answer.text()))",
            self.model
        );
        let said = talk(&node.program, &["-e", &ask]).await;
        assert!(
            said["tools"]
                .as_array()
                .is_some_and(|tools| !tools.is_empty()),
            "the model was not asked:\n{}\n{}",
            String::from_utf8_lossy(&ended.stdout),
            String::from_utf8_lossy(&ended.stderr)
        );
        said
    }
}

#[tokio::test]
async fn claude_code() {
    let walk = async |url: &str, token: &str, steps: &str| {
        let desk = Desk::set(steps).await;
        let headers = json!({"Authorization": format!("Bearer {token}")});
        let servers =
            json!({"mcpServers": {"gate": {"type": "http", "url": url, "headers": headers}}});
        let config = desk.write("mcp.json", &servers.to_string());
        let mut agent = desk.program(&Agents::get().claude_code);
        agent
            .args([
                "-p",
                "go",
                "--strict-mcp-config",
                "--allowedTools",
                "mcp__gate",
                "--mcp-config",
            ])
            .arg(config);
        agent
            .env("ANTHROPIC_BASE_URL", &desk.model)
            .env("ANTHROPIC_API_KEY", "stub");
        agent
            .env("CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC", "1")
            .env("DISABLE_AUTOUPDATER", "1");
        desk.run(agent).await
    };
    Scene::set().await.walk("claude-code", walk).await;
}

#[tokio::test]
async fn codex() {
    let walk = async |url: &str, token: &str, steps: &str| {
        let desk = Desk::set(steps).await;
        let toml = format!(
            "model = \"stub\"\nmodel_provider = \"stub\"\napproval_policy = \"never\"\nsandbox_mode = \"danger-full-access\"\n\
             [model_providers.stub]\nname = \"stub\"\nbase_url = \"{}/v1\"\nwire_api = \"responses\"\n\
             [mcp_servers.gate]\nurl = \"{url}\"\nhttp_headers = {{ Authorization = \"Bearer {token}\" }}\n",
            desk.model
        );
        let config = desk.write("codex/config.toml", &toml);
        let mut agent = desk.program(&Agents::get().codex);
        agent
            .args(["exec", "--skip-git-repo-check", "go"])
            .env("CODEX_HOME", config.parent().unwrap());
        desk.run(agent).await
    };
    Scene::set().await.walk("codex", walk).await;
}

#[tokio::test]
async fn opencode() {
    let walk = async |url: &str, token: &str, steps: &str| {
        let desk = Desk::set(steps).await;
        let headers = json!({"Authorization": format!("Bearer {token}")});
        let provider = json!({"npm": "@ai-sdk/openai-compatible", "name": "stub",
            "options": {"baseURL": format!("{}/v1", desk.model), "apiKey": "stub"}, "models": {"stub": {"name": "stub", "tool_call": true}}});
        let config = json!({"autoupdate": false, "share": "disabled", "model": "stub/stub", "small_model": "stub/stub",
            "permission": "allow", "provider": {"stub": provider},
            "mcp": {"gate": {"type": "remote", "url": url, "enabled": true, "oauth": false, "headers": headers}}});
        let config = desk.write("opencode.json", &config.to_string());
        let mut agent = desk.program(&Agents::get().opencode);
        agent
            .args(["run", "--model", "stub/stub", "go"])
            .env("OPENCODE_CONFIG", config)
            .env("XDG_DATA_HOME", desk.directory.path().join("data"));
        agent
            .env("OPENCODE_DISABLE_AUTOUPDATE", "1")
            .env("OPENCODE_DISABLE_MODELS_FETCH", "1");
        desk.run(agent).await
    };
    Scene::set().await.walk("opencode", walk).await;
}

#[tokio::test]
async fn gemini_cli() {
    let walk = async |url: &str, token: &str, steps: &str| {
        let desk = Desk::set(steps).await;
        let headers = json!({"Authorization": format!("Bearer {token}")});
        let settings = json!({"mcpServers": {"gate": {"httpUrl": url, "headers": headers, "trust": true}},
            "security": {"auth": {"selectedType": "gemini-api-key"}}, "privacy": {"usageStatisticsEnabled": false},
            "telemetry": {"enabled": false}});
        desk.write(".gemini/settings.json", &settings.to_string());
        let mut agent = desk.program(Path::new(&Node::get().program));
        agent
            .arg(&Agents::get().gemini_cli)
            .args(["-p", "go", "--yolo", "-m", "gemini-2.5-flash"]);
        agent
            .env("GEMINI_API_KEY", "stub")
            .env("GOOGLE_GEMINI_BASE_URL", &desk.model)
            .env("GEMINI_CLI_TRUST_WORKSPACE", "true");
        desk.run(agent).await
    };
    Scene::set().await.walk("gemini-cli", walk).await;
}
