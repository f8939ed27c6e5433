//! The things that are measured, started once and ended when dropped: upstream, floor, a gate, and a gate with many servers.

use std::{
    fs,
    net::TcpListener,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread::sleep,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use super::matrix::{Measured, Place, Upstream};

const READY_WITHIN: Duration = Duration::from_secs(30);
const STOP_WITHIN: Duration = Duration::from_secs(8);
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// How long a greedy caller is at it before the polite one comes.
const HEAD_START: Duration = Duration::from_millis(800);
/// Servers of a gate, and of the crowded one, those that are called among them.
const SERVERS: usize = 3;
const CROWD: usize = 200;
/// Connections of one caller that never read.
pub(super) const CONNECTIONS_UNREAD: usize = 4096;

/// What takes part.
pub(super) const PROGRAMS: [&str; 6] = [
    "portcullis",
    "portcullis-worker",
    "bench-upstream",
    "bench-floor",
    "bench-load",
    "bench-decide",
];

/// Where the built programs are.
#[derive(Debug, Clone)]
pub(super) struct Programs(PathBuf);

impl Programs {
    pub(super) fn in_directory(directory: PathBuf) -> Result<Self> {
        for name in PROGRAMS {
            ensure!(
                directory.join(name).is_file(),
                "{} was not built",
                directory.join(name).display()
            );
        }
        Ok(Self(directory))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

/// A process that is asked to end, then made to, when this is dropped.
struct Owned(Child);

impl Owned {
    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        let _asked = Command::new("kill")
            .arg(self.pid().to_string())
            .stderr(Stdio::null())
            .status();
        let deadline = Instant::now() + STOP_WITHIN;
        while Instant::now() < deadline {
            if !matches!(self.0.try_wait(), Ok(None)) {
                return;
            }
            sleep(LOOK_AGAIN);
        }
        let _made = self.0.kill();
        let _status = self.0.wait();
    }
}

/// A program that says where it listens.
struct Service {
    process: Owned,
    url: String,
}

impl Service {
    fn start(command: &mut Command) -> Result<Self> {
        let program = command.get_program().to_owned();
        let mut child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .with_context(|| format!("cannot start {program:?}"))?;
        let stdout = child.stdout.take().context("no stdout")?;
        let process = Owned(child);
        let mut line = String::new();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut line)?;
        let url = line
            .trim()
            .strip_prefix("listening on ")
            .with_context(|| format!("{program:?} said `{line}`"))?;
        Ok(Self {
            url: url.to_owned(),
            process,
        })
    }

    fn authority(&self) -> &str {
        let rest = self.url.strip_prefix("http://").unwrap_or(&self.url);
        rest.split('/').next().unwrap_or(rest)
    }
}

/// A gate in a home of its own, with credentials and ledger on, as a user has them.
pub(super) struct Gate {
    process: Option<Owned>,
    home: PathBuf,
    program: PathBuf,
    listen: String,
    token: String,
    /// Of a second caller.
    another: String,
    /// Of one that may run commands.
    worker: String,
}

impl Gate {
    fn start(programs: &Programs, upstreams: (&str, &str), servers: usize) -> Result<Self> {
        let home =
            std::env::temp_dir().join(format!("portcullis-bench-{}-{servers}", std::process::id()));
        fs::create_dir_all(&home)?;
        fs::write(
            home.join("portcullis.yaml"),
            configuration(programs, upstreams, servers),
        )?;
        let listen = TcpListener::bind("127.0.0.1:0")?.local_addr()?.to_string();
        let mut gate = Self {
            process: None,
            home,
            program: programs.path("portcullis"),
            listen,
            token: String::new(),
            another: String::new(),
            worker: String::new(),
        };
        gate.up()?;
        let token = gate.home.join("state").join("client.token");
        let text = fs::read_to_string(&token)
            .with_context(|| format!("cannot read {}", token.display()))?;
        gate.token = text.trim().to_owned();
        gate.another = gate.new_token("another", &[])?;
        gate.worker = gate.new_token("worker", &["--context", "bench"])?;
        Ok(gate)
    }

    fn new_token(&self, name: &str, more: &[&str]) -> Result<String> {
        let said = output(
            Command::new(&self.program)
                .arg("--home")
                .arg(&self.home)
                .args(["--json", "token", "new", name])
                .args(more),
        )?;
        let said: Value =
            serde_json::from_str(&said).with_context(|| format!("`token new` said {said}"))?;
        Ok(said
            .get("token")
            .and_then(Value::as_str)
            .context("`token new` said no token")?
            .to_owned())
    }

    fn command(&self) -> Vec<String> {
        let text = |path: &Path| path.display().to_string();
        let up = ["up", "--listen", &self.listen, "--no-snippets"].map(str::to_owned);
        [
            vec![text(&self.program), "--home".to_owned(), text(&self.home)],
            up.to_vec(),
        ]
        .concat()
    }

    /// Starts it and waits until its door is open.
    fn up(&mut self) -> Result<()> {
        let (log, face) = (
            self.home.join("gate.log"),
            self.home.join("run").join("gate.json"),
        );
        let words = self.command();
        let mut command = Command::new(&self.program);
        command
            .args(words.iter().skip(1))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(fs::File::create(&log)?);
        let mut process = Owned(
            command
                .spawn()
                .with_context(|| format!("cannot start {}", self.program.display()))?,
        );
        let said = || fs::read_to_string(&log).unwrap_or_default();
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            if let Some(status) = process.0.try_wait()? {
                bail!("the gate ended with {status}:\n{}", said());
            }
            let shown = fs::read(&face)
                .ok()
                .and_then(|bytes| serde_json::from_slice::<Value>(&bytes).ok());
            if shown.and_then(|face| face.get("pid")?.as_u64()) == Some(u64::from(process.pid())) {
                self.process = Some(process);
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "the gate was not ready within {READY_WITHIN:?}:\n{}",
                said()
            );
            sleep(LOOK_AGAIN);
        }
    }

    /// Waits until this many servers are connected.
    fn await_servers(&self, wanted: usize) -> Result<()> {
        let deadline = Instant::now() + READY_WITHIN;
        loop {
            let listed = Command::new(&self.program)
                .arg("--home")
                .arg(&self.home)
                .args(["servers", "list", "--json"])
                .output()?;
            let text = String::from_utf8_lossy(&listed.stdout);
            if text.matches("\"connected\"").count() >= wanted {
                return Ok(());
            }
            ensure!(
                Instant::now() < deadline,
                "not all of {wanted} servers are connected: {text}{}",
                String::from_utf8_lossy(&listed.stderr)
            );
            sleep(Duration::from_millis(100));
        }
    }

    /// The gate and its worker; servers it started are not its own cost.
    fn pids(&self) -> Vec<u32> {
        let own = self.process.as_ref().map(Owned::pid);
        let all = own
            .into_iter()
            .flat_map(|pid| descendants(pid).into_iter().chain([pid]));
        all.filter(|pid| !command_line(*pid).contains("bench-upstream"))
            .collect()
    }

    fn url(&self) -> String {
        format!("http://{}/mcp", self.listen)
    }
}

impl Drop for Gate {
    fn drop(&mut self) {
        drop(self.process.take());
        let _gone = fs::remove_dir_all(&self.home);
    }
}

fn configuration(
    programs: &Programs,
    (upstream, elsewhere): (&str, &str),
    servers: usize,
) -> String {
    let command = programs.path("bench-upstream");
    let mut yaml = format!(
        "security_contexts:\n  - name: bench\n    description: what is measured\n    capabilities:\n      \
         - tool_pattern: '*'\nmcp_servers:\n  echo:\n    url: \"{upstream}\"\n    classification: PUBLIC\n    open_world: false\n  \
         elsewhere:\n    url: \"{elsewhere}\"\n    classification: PUBLIC\n    open_world: false\n  \
         pipe:\n    command: \"{}\"\n    args: [stdio]\n    classification: PUBLIC\n    open_world: false\n",
        command.display()
    );
    for number in SERVERS..servers {
        yaml.push_str(&format!(
            "  other{number}:\n    url: \"{upstream}\"\n    classification: PUBLIC\n    open_world: false\n"
        ));
    }
    yaml
}

/// Children, their children, and so on.
fn descendants(parent: u32) -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let children: Vec<u32> = pids.filter(|pid| parent_of(*pid) == Some(parent)).collect();
    let below = children
        .iter()
        .flat_map(|child| descendants(*child))
        .collect();
    [children, below].concat()
}

fn parent_of(pid: u32) -> Option<u32> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold anything; the fields start after its closing bracket.
    stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok()
}

fn command_line(pid: u32) -> String {
    fs::read(format!("/proc/{pid}/cmdline"))
        .map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        .unwrap_or_default()
}

/// Everything that takes part, up and connected.
pub(super) struct Stand {
    programs: Programs,
    era: String,
    text: String,
    // The gates go first when this is dropped, so that none sees its upstream die.
    gate: Gate,
    crowded: Gate,
    floor: Service,
    upstream: Service,
    /// What the second caller calls, so that nobody waits for the server itself.
    _elsewhere: Service,
}

impl Stand {
    pub(super) fn start(programs: &Programs, era: &str, text: &str) -> Result<Self> {
        let upstream = Service::start(Command::new(programs.path("bench-upstream")).arg("http"))?;
        let floor = Service::start(
            Command::new(programs.path("bench-floor")).args(["--upstream", upstream.authority()]),
        )?;
        let elsewhere = Service::start(Command::new(programs.path("bench-upstream")).arg("http"))?;
        let gate = Gate::start(programs, (&upstream.url, &elsewhere.url), SERVERS)?;
        let crowded = Gate::start(programs, (&upstream.url, &elsewhere.url), CROWD)?;
        gate.await_servers(SERVERS)?;
        crowded.await_servers(CROWD)?;
        Ok(Self {
            programs: programs.clone(),
            era: era.to_owned(),
            text: text.to_owned(),
            gate,
            crowded,
            floor,
            upstream,
            _elsewhere: elsewhere,
        })
    }

    /// Runs the load once.
    pub(super) fn load(
        &self,
        place: Place,
        upstream: Upstream,
        options: &[(&str, String)],
    ) -> Result<Measured> {
        let mut load = Command::new(self.programs.path("bench-load"));
        let direct_pipe = (place, upstream) == (Place::Direct, Upstream::Stdio);
        load.arg(match place {
            _ if direct_pipe => "stdio",
            Place::Signed => "signed",
            _ => "http",
        });
        for (name, value) in options {
            load.arg(format!("--{name}")).arg(value);
        }
        if direct_pipe {
            load.arg("--")
                .arg(self.programs.path("bench-upstream"))
                .arg("stdio");
        } else {
            self.address(&mut load, place, upstream);
        }
        json(&mut load).with_context(|| format!("{place:?}, {upstream:?} upstream, {options:?}"))
    }

    fn address(&self, load: &mut Command, place: Place, upstream: Upstream) {
        let tool = match (place, upstream) {
            (Place::Command, _) => "cmd.run",
            (_, Upstream::Http) => "echo__echo",
            (_, Upstream::Stdio) => "pipe__echo",
        };
        let (url, gate) = match place {
            Place::Direct => (self.upstream.url.clone(), None),
            Place::Floor => (self.floor.url.clone(), None),
            Place::Gate | Place::Signed | Place::Command => (self.gate.url(), Some(&self.gate)),
            Place::Crowded => (self.crowded.url(), Some(&self.crowded)),
        };
        load.args(["--url", &url, "--text", &self.text]);
        let pids = match gate {
            Some(gate) => {
                let token = match place {
                    Place::Command => &gate.worker,
                    _ => &gate.token,
                };
                load.args(["--bearer", token, "--tool", tool, "--era", &self.era]);
                gate.pids()
            }
            None if place == Place::Floor => vec![self.floor.process.pid()],
            None => Vec::new(),
        };
        let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
        load.args(["--pids", &pids.join(",")]);
    }

    /// A caller with one call in flight.
    pub(super) fn polite(&self, seconds: f64) -> Result<Measured> {
        let mut load = Command::new(self.programs.path("bench-load"));
        load.args(["http", "--measure", &seconds.to_string()]);
        self.address(&mut load, Place::Gate, Upstream::Http);
        json(&mut load)
    }

    /// The polite caller beside another one, who begins before it and ends after it.
    pub(super) fn beside(
        &self,
        options: &[(&str, String)],
        seconds: f64,
    ) -> Result<(Measured, Measured)> {
        let mut load = Command::new(self.programs.path("bench-load"));
        load.arg("http");
        self.as_another(&mut load, options);
        load.args([
            "--warm-up",
            &HEAD_START.as_secs_f64().to_string(),
            "--measure",
            &(seconds + 0.5).to_string(),
        ]);
        let greedy = load
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()?;
        sleep(HEAD_START);
        let polite = self.polite(seconds);
        let output = greedy.wait_with_output()?;
        ensure!(
            output.status.success(),
            "the other caller failed: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        Ok((polite?, serde_json::from_slice(&output.stdout)?))
    }

    /// Connections of one caller that ask for a long result and never read it.
    ///
    /// The gate begins anew for it: what others left behind is not what this takes.
    pub(super) fn unread(&mut self, bytes: usize, seconds: f64) -> Result<Measured> {
        drop(self.gate.process.take());
        self.gate.up()?;
        self.gate.await_servers(SERVERS)?;
        let mut load = Command::new(self.programs.path("bench-load"));
        load.arg("unread");
        let options = [
            ("connections", CONNECTIONS_UNREAD.to_string()),
            ("tool", "elsewhere__fill".to_owned()),
            ("fill", bytes.to_string()),
            ("measure", (seconds + 2.0).to_string()),
        ];
        self.as_another(&mut load, &options);
        json(&mut load).context("connections that never read")
    }

    /// As another caller than the rest; the first of two options with the same name counts.
    fn as_another(&self, load: &mut Command, options: &[(&str, String)]) {
        for (name, value) in options {
            load.arg(format!("--{name}")).arg(value);
        }
        load.args(["--bearer", &self.gate.another]);
        self.address(load, Place::Gate, Upstream::Http);
    }

    /// Resident memory of the floor, and of the gate and its worker together, in bytes.
    pub(super) fn idle_bytes(&self) -> (u64, u64) {
        let sum = |pids: &[u32]| pids.iter().map(|pid| resident_bytes(*pid)).sum();
        (sum(&[self.floor.process.pid()]), sum(&self.gate.pids()))
    }

    /// Ends the gate, starts it again and times its first call, this many times; milliseconds.
    pub(super) fn first_calls(&mut self, times: usize) -> Result<Vec<f64>> {
        drop(self.gate.process.take());
        let mut all = Vec::new();
        for _ in 0..times {
            let mut load = Command::new(self.programs.path("bench-load"));
            load.arg("first");
            self.address(&mut load, Place::Gate, Upstream::Http);
            load.arg("--").args(self.gate.command());
            let said: Value = json(&mut load).context("the first call after a start")?;
            all.push(
                said.get("milliseconds")
                    .and_then(Value::as_f64)
                    .context("bench-load said no time")?,
            );
        }
        self.gate.up()?;
        self.gate.await_servers(SERVERS)?;
        Ok(all)
    }
}

fn resident_bytes(pid: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("VmRSS:"))
        .unwrap_or_default();
    line.trim()
        .trim_end_matches("kB")
        .trim()
        .parse::<u64>()
        .unwrap_or(0)
        * 1024
}

/// What a program prints, as a value.
fn json<T: serde::de::DeserializeOwned>(command: &mut Command) -> Result<T> {
    let said = output(command)?;
    serde_json::from_str(&said).with_context(|| format!("not what was expected: {said}"))
}

/// What a program prints.
pub(super) fn output(command: &mut Command) -> Result<String> {
    let output = command
        .stdin(Stdio::null())
        .output()
        .with_context(|| format!("cannot start {:?}", command.get_program()))?;
    let complained = String::from_utf8_lossy(&output.stderr);
    ensure!(
        output.status.success(),
        "{:?} failed: {complained}",
        command.get_program()
    );
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}
