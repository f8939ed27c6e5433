//! A real gate in a home of its own: the shipped programs, started as a user starts them.
//!
//! Invariant: whatever is started here is gone when the [`Gate`] is dropped, and only that. Processes are ended by
//! the ids this harness learned itself, never by name.

use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use tempfile::TempDir;

use crate::client::Target;

/// How long a gate may take to be ready: far more than it needs, because two cores run other tests too.
const READY_WITHIN: Duration = Duration::from_secs(20);
/// How long a gate may take to stop when asked.
const STOP_WITHIN: Duration = Duration::from_secs(18);
const BETWEEN_LOOKS: Duration = Duration::from_millis(10);
/// A gate that is only to go away is told again after this.
const TELL_AGAIN: Duration = Duration::from_millis(300);

/// How to start a gate.
#[derive(Debug)]
pub struct Setup {
    program: PathBuf,
    yaml: String,
    environment: Vec<(String, String)>,
    /// Where the home is made, if not where temporary files are.
    place: Option<PathBuf>,
}

impl Setup {
    /// A gate of this program with this configuration file.
    pub fn new(program: impl Into<PathBuf>, yaml: impl Into<String>) -> Self {
        Self {
            program: program.into(),
            yaml: yaml.into(),
            environment: Vec::new(),
            place: None,
        }
    }

    /// Adds a variable to the gate's own environment.
    #[must_use]
    pub fn env(mut self, name: &str, value: &str) -> Self {
        self.environment.push((name.to_owned(), value.to_owned()));
        self
    }

    /// Another configuration file.
    #[must_use]
    pub fn with_config(mut self, yaml: &str) -> Self {
        yaml.clone_into(&mut self.yaml);
        self
    }

    /// Makes the home in this directory.
    #[must_use]
    pub fn home_in(mut self, dir: &Path) -> Self {
        self.place = Some(dir.to_owned());
        self
    }

    /// Starts it and waits until its door is open.
    ///
    /// # Errors
    /// When a program is missing, or the gate stops or is not ready in time; its own words are in the error.
    pub async fn start(self) -> Result<Gate> {
        let worker = self.program.with_file_name("portcullis-worker");
        if !worker.exists() {
            bail!(
                "{} is missing: run `cargo build -p worker` first",
                worker.display()
            );
        }
        let place = self.place.clone().unwrap_or_else(std::env::temp_dir);
        let home = tempfile::Builder::new().prefix("gate-").tempdir_in(place)?;
        std::fs::write(home.path().join("portcullis.yaml"), &self.yaml)?;
        let child = spawn(&self, home.path())?;
        let mut gate = Gate {
            setup: self,
            home,
            child,
            face: Face::default(),
        };
        gate.await_ready().await?;
        Ok(gate)
    }
}

/// What a gate says about itself when it is ready.
#[derive(Clone, Debug, Default)]
struct Face {
    url: String,
}

/// A running gate.
#[derive(Debug)]
pub struct Gate {
    setup: Setup,
    home: TempDir,
    child: Child,
    face: Face,
}

/// What a command printed, and how it ended.
#[derive(Clone, Debug)]
pub struct Said {
    pub code: Option<i32>,
    pub stdout: String,
    pub stderr: String,
}

impl Said {
    /// Standard output as JSON.
    ///
    /// # Errors
    /// When it is not JSON.
    pub fn json(&self) -> Result<Value> {
        serde_json::from_str(&self.stdout).with_context(|| format!("not JSON: {self:?}"))
    }
}

impl Gate {
    /// Where its home is.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The URL of its MCP door.
    pub fn url(&self) -> &str {
        &self.face.url
    }

    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The door, with the client credential that was made at the first start.
    ///
    /// # Errors
    /// When the credential file cannot be read.
    pub fn target(&self) -> Result<Target> {
        Target::new(self.url(), Some(&self.token()?))
    }

    /// The client credential.
    ///
    /// # Errors
    /// When the credential file cannot be read.
    pub fn token(&self) -> Result<String> {
        let path = self.home().join("state/client.token");
        let text = std::fs::read_to_string(&path)
            .with_context(|| format!("cannot read {}", path.display()))?;
        Ok(text.trim().to_owned())
    }

    /// Runs `portcullis --home HOME ARGS…` to its end.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn cli(&self, args: &[&str]) -> Result<Said> {
        self.cli_with_input(args, "").await
    }

    /// The same with something on standard input.
    ///
    /// # Errors
    /// When it cannot be started.
    pub async fn cli_with_input(&self, args: &[&str], input: &str) -> Result<Said> {
        run(&self.setup.program, self.home(), args, input).await
    }

    /// `portcullis status --json`.
    ///
    /// # Errors
    /// When the command fails or prints something else.
    pub async fn status(&self) -> Result<Value> {
        let said = self.cli(&["status", "--json"]).await?;
        if said.code != Some(0) {
            bail!("status failed: {said:?}");
        }
        said.json()
    }

    /// The process id of the worker.
    ///
    /// # Errors
    /// When the status does not name one.
    pub async fn worker_pid(&self) -> Result<u32> {
        let status = self.status().await?;
        let pid = status.pointer("/worker/pid").and_then(Value::as_u64);
        Ok(u32::try_from(
            pid.with_context(|| format!("no worker.pid in {status}"))?,
        )?)
    }

    /// Everything the gate wrote to its output so far.
    pub fn output(&self) -> String {
        let read = |name: &str| std::fs::read_to_string(self.home().join(name)).unwrap_or_default();
        format!(
            "--- stdout\n{}\n--- stderr\n{}",
            read("gate.stdout"),
            read("gate.stderr")
        )
    }

    /// Whether the gate is still running.
    pub fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Replaces the configuration file; the gate is not told.
    ///
    /// # Errors
    /// When the file cannot be written.
    pub fn write_config(&self, yaml: &str) -> Result<()> {
        Ok(std::fs::write(self.home().join("portcullis.yaml"), yaml)?)
    }

    /// Asks it to stop as a person at a terminal does, and waits: nobody has to be told first that it stops.
    ///
    /// # Errors
    /// When it does not stop in time.
    pub async fn stop(&mut self) -> Result<Option<i32>> {
        signal(self.pid(), Signal::INT)?;
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                return Ok(status.code());
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        bail!(
            "the gate did not stop within {STOP_WITHIN:?}\n{}",
            self.output()
        )
    }

    /// Ends it without asking, as a power cut would.
    ///
    /// # Errors
    /// When it cannot be ended.
    pub fn kill(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }

    /// Starts it again in the same home.
    ///
    /// # Errors
    /// When it is still running, or does not get ready.
    pub async fn start_again(&mut self) -> Result<()> {
        if self.is_running() {
            bail!("the gate is still running");
        }
        match std::fs::remove_file(self.home().join("run/gate.json")) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error.into()),
            _ => {}
        }
        self.child = spawn(&self.setup, self.home.path())?;
        self.await_ready().await
    }

    async fn await_ready(&mut self) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        let path = self.home().join("run/gate.json");
        while Instant::now() < deadline {
            if let Some(status) = self.child.try_wait()? {
                bail!("the gate ended with {status}\n{}", self.output());
            }
            // Half a file is no file: it is read again.
            let face = std::fs::read(&path)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            let is_ours = |face: &Value| {
                face.get("pid").and_then(Value::as_u64) == Some(u64::from(self.child.id()))
            };
            if let Some(face) = face.filter(is_ours) {
                let url = face
                    .get("url")
                    .and_then(Value::as_str)
                    .context("gate.json names no url")?;
                self.face = Face {
                    url: url.to_owned(),
                };
                return Ok(());
            }
            tokio::time::sleep(BETWEEN_LOOKS).await;
        }
        bail!(
            "the gate was not ready within {READY_WITHIN:?}\n{}",
            self.output()
        )
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        if !self.is_running() {
            return;
        }
        let deadline = Instant::now() + STOP_WITHIN;
        let mut told = None;
        while Instant::now() < deadline && self.is_running() {
            // Told again it does not wait for calls that nobody waits for.
            if told.is_none_or(|told: Instant| told.elapsed() > TELL_AGAIN) {
                let _asked = signal(self.pid(), Signal::INT);
                told = Some(Instant::now());
            }
            std::thread::sleep(BETWEEN_LOOKS);
        }
        let _ended = self.kill();
    }
}

/// Runs `PROGRAM --home HOME ARGS…` to its end.
///
/// # Errors
/// When it cannot be started, or does not end within two minutes.
pub async fn run(program: &Path, home: &Path, args: &[&str], input: &str) -> Result<Said> {
    let mut command = tokio::process::Command::new(program);
    command
        .arg("--home")
        .arg(home)
        .args(args)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    let mut child = command
        .kill_on_drop(true)
        .spawn()
        .with_context(|| format!("cannot start {}", program.display()))?;
    if let Some(mut stdin) = child.stdin.take() {
        // A command that does not read its input has closed it; that is its right.
        let _written = tokio::io::AsyncWriteExt::write_all(&mut stdin, input.as_bytes()).await;
    }
    let ended = tokio::time::timeout(Duration::from_secs(120), child.wait_with_output());
    let output = ended
        .await
        .with_context(|| format!("{args:?} did not end"))??;
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Said {
        code: output.status.code(),
        stdout: text(output.stdout),
        stderr: text(output.stderr),
    })
}

/// Sends a signal to one process.
///
/// # Errors
/// When there is no such process.
pub fn signal(pid: u32, signal: Signal) -> Result<()> {
    let pid = i32::try_from(pid)
        .ok()
        .and_then(Pid::from_raw)
        .context("not a process id")?;
    Ok(kill_process(pid, signal)?)
}

fn spawn(setup: &Setup, home: &Path) -> Result<Child> {
    let file = |name: &str| std::fs::File::create(home.join(name));
    Command::new(&setup.program)
        .arg("--home")
        .arg(home)
        .args(["up", "--listen", "127.0.0.1:0", "--no-snippets"])
        .envs(setup.environment.iter().map(|(name, value)| (name, value)))
        .stdin(Stdio::null())
        .stdout(file("gate.stdout")?)
        .stderr(file("gate.stderr")?)
        .spawn()
        .with_context(|| format!("cannot start {}", setup.program.display()))
}
