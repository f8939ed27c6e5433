//! A gate started for one run of the suite: one upstream, no authentication, a home of its own.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::process::{self, Running};

/// The only upstream's id, and so part of its mount's path.
const UPSTREAM: &str = "everything";

/// How long a gate may take until its upstream is connected.
const READY_LIMIT: Duration = Duration::from_secs(20);

/// A running gate; it is killed when this is dropped.
pub(super) struct Gate {
    _running: Running,
    address: SocketAddr,
}

impl Gate {
    /// Starts a gate in `home` whose only upstream is `upstream`, and waits until that is connected.
    pub(super) fn start(programs: &Path, home: &Path, upstream: &str) -> Result<Self> {
        let address = free_address()?;
        fs::write(home.join("portcullis.yaml"), configuration(address, upstream))?;
        let program = programs.join("portcullis");
        let mut up = Command::new(&program);
        up.args(["up", "--no-snippets", "--home"]).arg(home);
        let running = Running::start(&mut up, &home.join("gate.log"))?;
        await_upstream(&program, home)?;
        Ok(Self { _running: running, address })
    }

    /// Where the upstream is mounted by itself, under its own names.
    pub(super) fn url(&self) -> String {
        format!("http://{}/u/{UPSTREAM}/mcp", self.address)
    }
}

fn configuration(address: SocketAddr, upstream: &str) -> String {
    format!(
        "listen: \"{address}\"\n\
         authentication: none\n\
         mcp_servers:\n  \
         {UPSTREAM}:\n    \
         url: \"{upstream}\"\n    \
         classification: PUBLIC\n    \
         open_world: false\n    \
         definitions: {{ new: accept }}\n    \
         allow: {{ sampling: true, roots: true, elicitation: true }}\n"
    )
}

/// A loopback port that was free a moment ago.
fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

fn await_upstream(program: &Path, home: &Path) -> Result<()> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        let listed = Command::new(program).args(["servers", "list", "--json", "--home"]).arg(home).output()?;
        let text = String::from_utf8_lossy(&listed.stdout);
        if text.contains("\"connected\"") {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let log = fs::read_to_string(home.join("gate.log")).unwrap_or_default();
            bail!("the gate did not connect its upstream within {READY_LIMIT:?}; it says:\n{text}\n{log}");
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The client under test, as the suite starts it: a gate in front of the suite's server, and the reference client in front
/// of the gate. The suite then judges what the gate did.
pub(super) fn play_through(options: &[&str], url: &str) -> Result<()> {
    ensure!(options.is_empty(), "unexpected arguments before the URL: {}", options.join(" "));
    let programs = own_directory()?;
    let home = Home::new()?;
    let gate = Gate::start(&programs, &home.0, url)?;
    let mut client = Command::new(programs.join("conformance-client"));
    if std::env::var("MCP_CONFORMANCE_SCENARIO").is_ok_and(|scenario| scenario == "http-invalid-tool-headers") {
        // A modern client drops tools with invalid annotations itself; a legacy one shows whether the gate did.
        client.env("MCP_CONFORMANCE_OPENING", "legacy");
    }
    let status = client.arg(gate.url()).status()?;
    if !status.success() {
        let log = fs::read_to_string(home.0.join("gate.log")).unwrap_or_default();
        bail!("the reference client failed ({status}); the gate says:\n{log}");
    }
    Ok(())
}

fn own_directory() -> Result<PathBuf> {
    let this = process::this_program()?;
    this.parent().map(Path::to_path_buf).context("xtask's program is in no directory")
}

/// A gate's home that goes away with the run.
struct Home(PathBuf);

impl Home {
    fn new() -> Result<Self> {
        let directory = process::root()?.join("target").join("conformance").join(format!("home-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}
