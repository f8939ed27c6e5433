//! A gate started for one run of the suite: one upstream, a home of its own, and no authentication or that of an identity provider.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail, ensure};

use crate::tools::Suite;
use crate::tools::process::{self, Running};

/// The only upstream's id, and so part of its mount's path.
pub(super) const UPSTREAM: &str = "everything";

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
        Self::start_behind(programs, home, upstream, &Behind::nobody())
    }

    /// The same behind an identity provider.
    pub(super) fn start_behind(
        programs: &Path,
        home: &Path,
        upstream: &str,
        behind: &Behind,
    ) -> Result<Self> {
        let gate = Self::begin(programs, home, upstream, behind)?;
        await_state(&programs.join("portcullis"), home, &["\"connected\""])?;
        Ok(gate)
    }

    /// Starts one whose upstream may want a login first.
    pub(super) fn launch(programs: &Path, home: &Path, upstream: &str) -> Result<Self> {
        Self::begin(programs, home, upstream, &Behind::nobody())
    }

    fn begin(programs: &Path, home: &Path, upstream: &str, behind: &Behind) -> Result<Self> {
        let address = free_address()?;
        fs::write(
            home.join("portcullis.yaml"),
            configuration(address, upstream, behind),
        )?;
        let mut up = Command::new(programs.join("portcullis"));
        up.args(["up", "--no-snippets", "--home"]).arg(home);
        let running = Running::start(&mut up, &home.join("gate.log"))?;
        Ok(Self {
            _running: running,
            address,
        })
    }

    /// Where the upstream is mounted by itself, under its own names.
    pub(super) fn url(&self) -> String {
        format!("http://{}/u/{UPSTREAM}/mcp", self.address)
    }
}

/// Who says who calls.
pub(super) struct Behind {
    issuer: Option<String>,
}

impl Behind {
    fn nobody() -> Self {
        Self { issuer: None }
    }

    pub(super) fn provider(issuer: &str) -> Self {
        Self {
            issuer: Some(issuer.to_owned()),
        }
    }

    /// The gate's own address is the resource, without a path: then every path of the gate is it, mounts included.
    fn configuration(&self, address: SocketAddr) -> String {
        match &self.issuer {
            None => "authentication: none\n".to_owned(),
            Some(issuer) => format!(
                "oauth:\n  resource: \"http://{address}\"\n  scopes: [\"mcp:use\"]\n  dpop: allowed\n  \
                 issuers:\n    - {{ issuer: \"{issuer}\", jwks_url: \"{issuer}/jwks\" }}\n"
            ),
        }
    }
}

/// What the suite shows with every request.
pub(super) struct Credential<'a> {
    /// A module that is loaded before the suite and adds it.
    pub(super) preload: &'a Path,
    pub(super) url: &'a str,
    pub(super) token: &'a str,
}

impl Credential<'_> {
    pub(super) fn command(&self, suite: &Suite, arguments: &[&str]) -> Command {
        let mut command = suite.command_after(self.preload, arguments);
        command
            .env("GATE_URL", self.url)
            .env("GATE_TOKEN", self.token);
        command
    }
}

fn configuration(address: SocketAddr, upstream: &str, behind: &Behind) -> String {
    let who = behind.configuration(address);
    format!(
        "listen: \"{address}\"\n\
         {who}\
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
pub(super) fn free_address() -> Result<SocketAddr> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?)
}

/// Waits until the gate says one of these words of its upstream.
pub(super) fn await_state(program: &Path, home: &Path, states: &[&str]) -> Result<()> {
    let deadline = Instant::now() + READY_LIMIT;
    loop {
        let listed = Command::new(program)
            .args(["servers", "list", "--json", "--home"])
            .arg(home)
            .output()?;
        let text = String::from_utf8_lossy(&listed.stdout);
        if states.iter().any(|state| text.contains(state)) {
            return Ok(());
        }
        if Instant::now() >= deadline {
            let log = fs::read_to_string(home.join("gate.log")).unwrap_or_default();
            bail!(
                "the gate did not connect its upstream within {READY_LIMIT:?}; it says:\n{text}\n{log}"
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The client under test, as the suite starts it: a gate in front of the suite's server, and the reference client in front
/// of the gate. The suite then judges what the gate did.
pub(super) fn play_through(options: &[&str], url: &str) -> Result<()> {
    ensure!(
        options.is_empty(),
        "unexpected arguments before the URL: {}",
        options.join(" ")
    );
    let programs = own_directory()?;
    let home = Home::new()?;
    let gate = Gate::start(&programs, &home.0, url)?;
    let mut client = Command::new(programs.join("conformance-client"));
    if std::env::var("MCP_CONFORMANCE_SCENARIO")
        .is_ok_and(|scenario| scenario == "http-invalid-tool-headers")
    {
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

pub(super) fn own_directory() -> Result<PathBuf> {
    let this = process::this_program()?;
    this.parent()
        .map(Path::to_path_buf)
        .context("xtask's program is in no directory")
}

/// A gate's home that goes away with the run.
pub(super) struct Home(PathBuf);

impl Home {
    pub(super) fn new() -> Result<Self> {
        let directory = process::target()?
            .join("conformance")
            .join(format!("home-{}", std::process::id()));
        fs::create_dir_all(&directory)?;
        Ok(Self(directory))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Home {
    fn drop(&mut self) {
        let _left_behind = fs::remove_dir_all(&self.0);
    }
}
