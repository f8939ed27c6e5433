//! The hostile upstream as a process of its own, so that its floods do not slow down whoever measures.

use std::path::Path;
use std::process::Stdio;

use anyhow::{Context, Result};
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::process::{Child, Command};

use super::http::LEDGER_PATH;
use super::{Account, Script};
use crate::client::Target;

/// A running upstream; it ends when dropped.
#[derive(Debug)]
pub struct HostileProcess {
    url: String,
    _child: Child,
}

impl HostileProcess {
    /// Starts `program` with a script, behind all other processes in the queue for the processor: it is the gate that is
    /// measured, not the machine.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn start(program: &Path, script: Script, seed: u64) -> Result<Self> {
        let mut command = Command::new("nice");
        command.args(["-n", "15"]).arg(program).args([
            "--http",
            "--script",
            script.name(),
            "--seed",
            &seed.to_string(),
        ]);
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let stdout = child.stdout.take().context("it has a standard output")?;
        let first = BufReader::new(stdout)
            .lines()
            .next_line()
            .await?
            .context("it said nothing")?;
        let url = first
            .strip_prefix("listening on ")
            .with_context(|| format!("it said '{first}'"))?
            .to_owned();
        Ok(Self { url, _child: child })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// What it was made to do so far.
    ///
    /// # Errors
    /// When it does not answer.
    pub async fn account(&self) -> Result<Account> {
        let reply = Target::new(&self.url, None)?
            .at(LEDGER_PATH)
            .send("GET", &[], Vec::new())
            .await?;
        Ok(serde_json::from_slice(&reply.bytes().await?)?)
    }
}
