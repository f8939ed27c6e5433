//! What a record costs: `cargo run --release -p audit --example append_cost [DIR]`.
//!
//! Writes intents and outcomes of realistic size with one thread, two and four, without and with a kilobyte of arguments each,
//! then verifies the result; then durable intents with 128 calls in flight.

use audit::{Facts, Ledger, LedgerUnavailable, Outcome, Verdict, verify};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use vocab::Stage;

const CALLS: u32 = 200_000;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let base = std::env::args_os()
        .nth(1)
        .map_or_else(std::env::temp_dir, PathBuf::from);
    let mut out = std::io::stdout().lock();
    for (threads, body) in [(1, 0), (2, 0), (4, 0), (1, 1024), (4, 1024)] {
        let dir = base.join(format!(
            "append-cost-{}-{threads}-{body}",
            std::process::id()
        ));
        let result = measure(&dir, threads, body, &mut out);
        std::fs::remove_dir_all(&dir)?;
        result?;
    }
    let dir = base.join(format!("append-cost-{}-durable", std::process::id()));
    let result = durable(&dir, &mut out);
    std::fs::remove_dir_all(&dir)?;
    result
}

fn measure(
    dir: &Path,
    threads: u32,
    body: usize,
    out: &mut impl Write,
) -> Result<(), Box<dyn Error + Send + Sync>> {
    let ledger = Ledger::at(dir)?;
    let (start, cpu) = (Instant::now(), cpu_ticks()?);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads)
            .map(|_| scope.spawn(|| calls(&ledger, CALLS / threads, &vec![b'x'; body])))
            .collect();
        running
            .into_iter()
            .try_for_each(|thread| thread.join().unwrap_or(Err("a thread panicked".into())))
    })?;
    let records = ledger.status().records;
    let per_record = start.elapsed().as_nanos() / u128::from(records.max(1));
    let cpu = u128::from(cpu_ticks()? - cpu) * 10_000_000 / u128::from(records.max(1));
    let start = Instant::now();
    ledger.sync()?;
    let synced = start.elapsed();
    let (start, before) = (Instant::now(), cpu_ticks()?);
    let report = verify(dir)?;
    let rate = report.records as f64 / start.elapsed().as_secs_f64();
    let of_cpu = report.records as f64 * 100.0 / (cpu_ticks()? - before).max(1) as f64;
    writeln!(
        out,
        "{threads} thread(s), {body} bytes kept per call: {per_record} ns per record ({cpu} ns of CPU) over {records} records, {} bytes each; \
         last sync {synced:.1?}; verify {rate:.0} records/s ({of_cpu:.0} per second of CPU), clean: {}",
        report.bytes / report.records.max(1),
        report.is_clean(),
    )?;
    Ok(())
}

/// User and system time of this process, in hundredths of a second.
fn cpu_ticks() -> Result<u64, Box<dyn Error + Send + Sync>> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    let ticks = after_name.split_whitespace().skip(11).take(2);
    Ok(ticks.filter_map(|field| field.parse::<u64>().ok()).sum())
}

fn facts(call: String, digest: &str) -> Facts {
    Facts {
        call: call.into(),
        door: "mcp-http".into(),
        action: "tools/call".into(),
        caller: "cred-laptop".into(),
        session: "ses-3b1f".into(),
        server: "github".into(),
        tool: "search_repositories".into(),
        user: "alice".into(),
        agent: "claude".into(),
        definition: digest.to_owned().into(),
        bundle: "embedded-1".into(),
        label: "PUBLIC trusted".into(),
        args: digest.to_owned().into(),
        args_bytes: Some(128),
        ..Facts::default()
    }
}

fn outcome(digest: &str) -> Outcome<'_> {
    Outcome {
        label_after: "INTERNAL untrusted",
        result: digest,
        result_bytes: Some(512),
        ..Outcome::new(Verdict::Permitted, Stage::Absorb)
    }
}

fn calls(ledger: &Ledger, count: u32, body: &[u8]) -> Result<(), Box<dyn Error + Send + Sync>> {
    let digest = "7f".repeat(32);
    for n in 0..count {
        let mut opened = ledger.open(facts(format!("01JCQ8-{n}"), &digest));
        if !body.is_empty() {
            opened.keep_body(body)?;
        }
        let _ = ledger.intend(&mut opened)?;
        let _ = ledger.conclude(opened, &outcome(&digest))?;
    }
    Ok(())
}

/// Wakes the thread that drives a set of calls.
struct Unpark(std::thread::Thread);

impl std::task::Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Two threads, 64 calls in flight each, every intent on the disk before its outcome is written.
fn durable(dir: &Path, out: &mut impl Write) -> Result<(), Box<dyn Error + Send + Sync>> {
    const IN_FLIGHT: u32 = 64;
    let ledger = Ledger::at(dir)?;
    let fsync = one_sync(&ledger)?;
    let (start, before) = (Instant::now(), ledger.status().records);
    let waits = std::thread::scope(|scope| {
        let running: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| in_flight(&ledger, IN_FLIGHT, 20_000)))
            .collect();
        let joined = running
            .into_iter()
            .map(|thread| thread.join().unwrap_or(Err("a thread panicked".into())));
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let rate = (ledger.status().records - before) as f64 / start.elapsed().as_secs_f64();
    let mut waits: Vec<_> = waits.into_iter().flatten().collect();
    waits.sort_unstable();
    let at = |part: usize| {
        waits
            .get(waits.len() * part / 100)
            .copied()
            .unwrap_or_default()
    };
    writeln!(
        out,
        "durable, 128 in flight: {rate:.0} records/s; an intent waits {:.1?} (p50), {:.1?} (p99); one sync takes {fsync:.1?}",
        at(50),
        at(99),
    )?;
    Ok(())
}

/// The median of 21 syncs of one record.
fn one_sync(ledger: &Ledger) -> Result<Duration, Box<dyn Error + Send + Sync>> {
    let mut times = Vec::new();
    for _ in 0..21 {
        ledger.change(&audit::Change {
            action: "config.reloaded",
            ..audit::Change::default()
        })?;
        let start = Instant::now();
        ledger.sync()?;
        times.push(start.elapsed());
    }
    times.sort_unstable();
    Ok(times.get(10).copied().unwrap_or_default())
}

type Waits = Vec<Duration>;

fn in_flight(
    ledger: &Ledger,
    width: u32,
    count: u32,
) -> Result<Waits, Box<dyn Error + Send + Sync>> {
    let digest = "7f".repeat(32);
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut context = Context::from_waker(&waker);
    let call = async |n: u32| -> Result<Duration, LedgerUnavailable> {
        let mut opened = ledger.open(facts(format!("01JCQ8-{n}"), &digest));
        let start = Instant::now();
        let _ = ledger.intend_durable(&mut opened).await?;
        let waited = start.elapsed();
        let _ = ledger.conclude(opened, &outcome(&digest))?;
        Ok(waited)
    };
    let (mut started, mut waits) = (0, Vec::new());
    let mut running = Vec::new();
    while (waits.len() as u32) < count {
        while running.len() < width as usize && started < count {
            running.push(Box::pin(call(started)));
            started += 1;
        }
        let before = waits.len();
        let mut failed = None;
        running.retain_mut(|future| match future.as_mut().poll(&mut context) {
            Poll::Ready(Ok(waited)) => {
                waits.push(waited);
                false
            }
            Poll::Ready(Err(error)) => {
                failed = Some(error);
                false
            }
            Poll::Pending => true,
        });
        if let Some(error) = failed {
            return Err(error.into());
        }
        if waits.len() == before {
            std::thread::park();
        }
    }
    Ok(waits)
}
