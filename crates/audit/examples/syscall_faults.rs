//! A fault at every system call of a real ledger on a real disk: `cargo run -p audit --example syscall_faults [DIR [CALL…]]`.
//! Needs `strace`; takes minutes.
//!
//! A child works with a ledger and tells, over a socket, every effect, every acknowledged record and every sync. It is run once to count
//! its system calls, then once per call and fault: killed at it, or answered with EIO, ENOSPC or EINTR; and once per size that a file may
//! reach, so that writes are short at every such place. Each time the ledger must open again, verify, and agree with what was told.

use audit::{
    Change, Facts, Keep, Ledger, Options, Outcome, RealDisk, Verdict, read, system_clock, verify,
};
use std::collections::{BTreeMap, BTreeSet};
use std::error::Error;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use vocab::Stage;

type Outcomes<T> = Result<T, Box<dyn Error + Send + Sync>>;

const CALLS: [&str; 9] = [
    "write",
    "pwrite64",
    "fdatasync",
    "fsync",
    "rename",
    "openat",
    "unlink",
    "ftruncate",
    "mkdir",
];
const FAULTS: [&str; 4] = ["signal=KILL", "error=EIO", "error=ENOSPC", "error=EINTR"];
/// Sizes of files at which a write is cut short, in bytes.
const SIZES: std::ops::Range<u64> = 100..3_000;
const BETWEEN_SIZES: usize = 61;
/// No child takes as long.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
const CHILD: &str = "SYSCALL_FAULTS_SOCKET";

fn main() -> Outcomes<()> {
    let base = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    if let Ok(socket) = std::env::var(CHILD) {
        return child(&base, &mut TcpStream::connect(socket)?);
    }
    let chosen: Vec<String> = std::env::args().skip(2).collect();
    let mut out = std::io::stdout().lock();
    let (mut runs, mut acknowledged) = (0, 0);
    for call in CALLS
        .into_iter()
        .filter(|call| chosen.is_empty() || chosen.iter().any(|name| name == call))
    {
        let instances = count(&base, call)?;
        for fault in FAULTS {
            for when in 1..=instances {
                let dir = base.join(format!("syscall-faults-{}", std::process::id()));
                let told = run(
                    &dir,
                    strace(&["-e", &format!("inject={call}:{fault}:when={when}")]),
                )?;
                let verdict = reconcile(&dir, &told);
                std::fs::remove_dir_all(&dir)?;
                verdict.map_err(|error| format!("{fault} at {call} number {when}: {error}"))?;
                runs += 1;
                acknowledged += told.acknowledged.len();
            }
        }
        writeln!(
            out,
            "{call:<10} {instances:>4} instances, {} faults each: nothing lost",
            FAULTS.len()
        )?;
    }
    for size in SIZES
        .step_by(BETWEEN_SIZES)
        .filter(|_| chosen.is_empty() || chosen.iter().any(|name| name == "short"))
    {
        let dir = base.join(format!("syscall-faults-{}", std::process::id()));
        let told = run(&dir, limited(size))?;
        let verdict = reconcile(&dir, &told);
        std::fs::remove_dir_all(&dir)?;
        verdict.map_err(|error| format!("files of at most {size} bytes: {error}"))?;
        runs += 1;
        acknowledged += told.acknowledged.len();
    }
    writeln!(
        out,
        "{runs} runs, {acknowledged} acknowledged records, all found; every ledger verified"
    )?;
    Ok(())
}

/// What a child told before it ended.
#[derive(Default)]
struct Told {
    /// By call, where its intent stands.
    executed: BTreeMap<String, u64>,
    refused: BTreeSet<String>,
    acknowledged: Vec<(u64, String)>,
    finished: bool,
    pid: Option<u32>,
}

/// `strace` with these options.
fn strace(options: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-o", "/dev/null"]).args(options);
    command
}

/// With a limit on the size of files. The signal that a longer one sends is ignored, so that the write is short, and then fails.
fn limited(size: u64) -> Command {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "trap '' XFSZ; exec prlimit --fsize=\"$0\" \"$@\"",
        &size.to_string(),
    ]);
    command
}

/// Runs the child below `command` and listens until it is gone.
fn run(dir: &Path, mut command: Command) -> Outcomes<Told> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    command
        .arg(std::env::current_exe()?)
        .arg(dir)
        .env(CHILD, listener.local_addr()?.to_string());
    let mut strace = command.stderr(Stdio::null()).spawn()?;
    let mut told = Told::default();
    // A child that was stopped before it could connect tells nothing.
    let stream = loop {
        match listener.accept() {
            Ok((stream, _)) => break Some(stream),
            Err(_) if strace.try_wait()?.is_some() => {
                break listener.accept().ok().map(|(stream, _)| stream);
            }
            Err(_) => std::thread::sleep(std::time::Duration::from_millis(1)),
        }
    };
    if let Some(stream) = stream {
        stream.set_nonblocking(false)?;
        // A child that is stopped from outside says nothing more; it is ended, and that is a fault like another.
        stream.set_read_timeout(Some(PATIENCE))?;
        for line in BufReader::new(stream).split(b'\n') {
            let Ok(line) = line else { break };
            told.take(&String::from_utf8_lossy(&line))?;
        }
    }
    end(&mut strace, told.pid)?;
    std::fs::create_dir_all(dir)?;
    Ok(told)
}

/// Waits for the tracer, which ends with the child; ends the child if it does not end by itself.
fn end(tracer: &mut std::process::Child, child: Option<u32>) -> Outcomes<()> {
    let deadline = std::time::Instant::now() + PATIENCE;
    let mut child = child;
    while tracer.try_wait()?.is_none() {
        if let Some(pid) = child.take_if(|_| std::time::Instant::now() > deadline) {
            Command::new("kill")
                .args(["-9", &pid.to_string()])
                .status()?;
        }
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    Ok(())
}

impl Told {
    /// The last line may be half of one: only those that end in a dot count.
    fn take(&mut self, line: &str) -> Outcomes<()> {
        match line.split(' ').collect::<Vec<_>>().as_slice() {
            ["exec", call, seq, "."] => _ = self.executed.insert((*call).to_owned(), seq.parse()?),
            ["refused", call, "."] => drop(self.refused.insert((*call).to_owned())),
            ["ack", seq, hash, "."] => self.acknowledged.push((seq.parse()?, (*hash).to_owned())),
            ["done", "."] => self.finished = true,
            ["pid", pid, "."] => self.pid = Some(pid.parse()?),
            _ => {}
        }
        Ok(())
    }
}

/// How often the child makes this system call.
fn count(base: &Path, call: &str) -> Outcomes<u64> {
    let dir = base.join(format!("syscall-faults-{}", std::process::id()));
    let trace = base.join(format!("syscall-faults-{}.trace", std::process::id()));
    let told = run(
        &dir,
        strace(&[
            "-o",
            &trace.to_string_lossy(),
            "-e",
            &format!("trace={call}"),
        ]),
    )?;
    reconcile(&dir, &told)?;
    if !told.finished {
        return Err("the child does not finish without a fault either".into());
    }
    let text = std::fs::read_to_string(&trace)?;
    std::fs::remove_dir_all(&dir)?;
    std::fs::remove_file(&trace)?;
    Ok(text
        .lines()
        .filter(|line| line.contains(&format!(" {call}(")))
        .count() as u64)
}

/// The ledger opens, verifies, and agrees with what was told.
fn reconcile(dir: &Path, told: &Told) -> Outcomes<()> {
    drop(Ledger::at(dir)?);
    let report = verify(dir)?;
    if let Some(finding) = report.finding {
        return Err(finding.to_string().into());
    }
    if report.open_intents > 0 {
        return Err("an intent has no outcome".into());
    }
    let records: Vec<_> = read(dir, audit::Filter::default())?.collect::<Result<_, _>>()?;
    // What retention removed is accounted for by what remains, or it would not verify.
    let first = report.first;
    for (seq, hash) in told.acknowledged.iter().filter(|(seq, _)| *seq >= first) {
        let place = usize::try_from(seq - first)?;
        if records.get(place).is_none_or(|record| record.hash != *hash) {
            return Err(format!("acknowledged record {seq} is lost").into());
        }
    }
    let intended: BTreeSet<&str> = records
        .iter()
        .filter(|r| r.kind == "intent")
        .map(|r| &*r.call)
        .collect();
    let mut left = told
        .executed
        .iter()
        .filter(|(_, seq)| **seq >= first)
        .map(|(call, _)| call);
    let unintended = left.find(|call| !intended.contains(call.as_str()));
    let both = told
        .executed
        .keys()
        .find(|call| told.refused.contains(*call));
    match unintended.or(both) {
        Some(call) => {
            Err(format!("{call} was executed without an intent, or although it was refused").into())
        }
        None => Ok(()),
    }
}

/// Calls, changes, bodies, syncs, rotations, checkpoints, an erasure, a removal and a restart; a broken ledger is tended until it is back.
fn child(dir: &Path, teller: &mut TcpStream) -> Outcomes<()> {
    teller.set_nodelay(true)?;
    writeln!(teller, "pid {} .", std::process::id())?;
    for life in 0..2 {
        let options = Options {
            segment_bytes: 2_000,
        };
        let Ok(ledger) = Ledger::with(dir, Box::new(RealDisk), system_clock(), options) else {
            continue;
        };
        for n in 0..5 {
            one_call(&ledger, &format!("{life}-{n}"), n % 2 == 0, teller)?;
            for _ in 0..20 {
                if ledger.tend().is_ok() {
                    break;
                }
            }
            if let Ok(place) = ledger.change(&Change {
                action: "server.state",
                server: "github",
                ..Change::default()
            }) {
                writeln!(teller, "ack {} {} .", place.seq, place.hash)?;
            }
        }
        let _ = ledger.checkpoint();
        let _ = ledger.erase_body(&Change {
            call: "0-0",
            reason: "a test",
            ..Change::default()
        });
        let _ = ledger.retain(
            &Keep {
                since_ms: None,
                max_bytes: Some(6_000),
                read_from: None,
            },
            &Change::default(),
        );
        drop(ledger);
        tear(dir);
    }
    Ok(writeln!(teller, "done .")?)
}

/// Leaves half a record at the end, as an interrupted write does.
fn tear(dir: &Path) {
    let Ok(entries) = std::fs::read_dir(dir) else {
        return;
    };
    let segments = entries.filter_map(|entry| Some(entry.ok()?.path()));
    let Some(last) = segments
        .filter(|path| path.extension().is_some_and(|e| e == "log"))
        .max()
    else {
        return;
    };
    let file = std::fs::OpenOptions::new().append(true).open(last);
    let _ = file.and_then(|mut file| file.write_all(b"{\"v\":1,\"seq\":"));
}

fn one_call(ledger: &Ledger, call: &str, durable: bool, teller: &mut TcpStream) -> Outcomes<()> {
    let mut opened = ledger.open(Facts {
        call: call.to_owned().into(),
        tool: "act".into(),
        ..Facts::default()
    });
    opened.keep_body(b"{\"a\":1}")?;
    let intended = ledger.intend(&mut opened).and_then(|intent| {
        if durable {
            ledger.sync()?;
        }
        Ok(intent.position())
    });
    let Ok(intent) = intended else {
        writeln!(teller, "refused {call} .")?;
        let _ = ledger.conclude(opened, &Outcome::new(Verdict::Refused, Stage::Intend));
        return Ok(());
    };
    write!(
        teller,
        "exec {call} {0} .\nack {0} {1} .\n",
        intent.seq, intent.hash
    )?;
    if let Ok(sealed) = ledger.conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb)) {
        writeln!(
            teller,
            "ack {} {} .",
            sealed.position().seq,
            sealed.position().hash
        )?;
    }
    Ok(())
}
