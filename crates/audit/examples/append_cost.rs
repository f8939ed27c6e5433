//! What a record costs: `cargo run --release -p audit --example append_cost [DIR]`.
//!
//! Writes intents and outcomes of realistic size with one thread and with four, then verifies the result.

use audit::{Facts, Ledger, Outcome, Verdict, verify};
use std::error::Error;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Instant;
use vocab::Stage;

const CALLS: u32 = 200_000;

fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let base = std::env::args_os().nth(1).map_or_else(std::env::temp_dir, PathBuf::from);
    let mut out = std::io::stdout().lock();
    for threads in [1, 2, 4] {
        let dir = base.join(format!("append-cost-{}-{threads}", std::process::id()));
        let result = measure(&dir, threads, &mut out);
        std::fs::remove_dir_all(&dir)?;
        result?;
    }
    Ok(())
}

fn measure(dir: &Path, threads: u32, out: &mut impl Write) -> Result<(), Box<dyn Error + Send + Sync>> {
    let ledger = Ledger::at(dir)?;
    let (start, cpu) = (Instant::now(), cpu_ticks()?);
    std::thread::scope(|scope| {
        let running: Vec<_> = (0..threads).map(|_| scope.spawn(|| calls(&ledger, CALLS / threads))).collect();
        running.into_iter().try_for_each(|thread| thread.join().unwrap_or(Err("a thread panicked".into())))
    })?;
    let records = ledger.status().records;
    let per_record = start.elapsed().as_nanos() / u128::from(records.max(1));
    let cpu = u128::from(cpu_ticks()? - cpu) * 10_000_000 / u128::from(records.max(1));
    let start = Instant::now();
    ledger.sync()?;
    let synced = start.elapsed();
    let start = Instant::now();
    let report = verify(dir)?;
    let rate = report.records as f64 / start.elapsed().as_secs_f64();
    writeln!(
        out,
        "{threads} thread(s): {per_record} ns per record ({cpu} ns of CPU) over {records} records, {} bytes each; \
         last sync {synced:.1?}; verify {rate:.0} records/s, clean: {}",
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

fn calls(ledger: &Ledger, count: u32) -> Result<(), Box<dyn Error + Send + Sync>> {
    let digest = "7f".repeat(32);
    for n in 0..count {
        let mut opened = ledger.open(Facts {
            call: format!("01JCQ8-{n}").into(),
            door: "mcp-http".into(),
            action: "tools/call".into(),
            caller: "cred-laptop".into(),
            session: "ses-3b1f".into(),
            server: "github".into(),
            tool: "search_repositories".into(),
            bundle: "embedded-1".into(),
            label: "PUBLIC trusted".into(),
            args: digest.clone().into(),
            args_bytes: Some(128),
        });
        let _ = ledger.intend(&mut opened)?;
        let outcome = Outcome {
            label_after: "INTERNAL untrusted",
            result: &digest,
            result_bytes: Some(512),
            ..Outcome::new(Verdict::Permitted, Stage::Absorb)
        };
        let _ = ledger.conclude(opened, &outcome)?;
    }
    Ok(())
}
