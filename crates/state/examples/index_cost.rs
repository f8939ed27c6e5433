//! How fast a ledger is indexed, and how fast questions to a large one are answered.
//!
//! `cargo run --release -p state --example index_cost -- [RECORDS] [DIR]` makes a ledger of so many records (1,000,000 unless said) in
//! DIR, or in a place that is removed afterwards, indexes it, and asks.

use std::{
    borrow::Cow,
    error::Error,
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Instant,
};

use audit::{Change, Clock, Facts, Ledger, Moment, Options, Outcome, RealDisk, Verdict};
use state::index::{Index, Query};
use vocab::Stage;

/// 2026-10-16T00:00:00Z: thirty days, whatever the number of records.
const START_MS: u64 = 1_792_108_800_000;
const SPAN_MS: u64 = 30 * 86_400_000;
const TOOLS: [(&str, &str, &str); 6] = [
    ("github", "search_issues", "INTERNAL"),
    ("github", "create_issue", "INTERNAL"),
    ("notes", "search_notes", "CONFIDENTIAL"),
    ("web", "fetch", "PUBLIC"),
    ("mail", "send", "CONFIDENTIAL"),
    ("payroll", "list_salaries", "RESTRICTED"),
];
const RULES: [&str; 5] = [
    "ToolNotAllowed",
    "WouldViolateWriteDown",
    "PolicyDenied",
    "InvalidParameters",
    "RateLimitExceeded",
];

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let records: u64 = args.next().map_or(Ok(1_000_000), |text| text.parse())?;
    let own = tempfile::tempdir()?;
    let dir = args
        .next()
        .map_or_else(|| own.path().to_owned(), PathBuf::from);
    let ledger = dir.join("ledger");
    let mut out = io::stdout();
    let start = Instant::now();
    fill(&ledger, records)?;
    writeln!(
        out,
        "{records} records written in {:.1} s",
        start.elapsed().as_secs_f64()
    )?;
    tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?
        .block_on(ask(&dir, &ledger, &mut out))
}

async fn ask(dir: &Path, ledger: &Path, out: &mut io::Stdout) -> Result<(), Box<dyn Error>> {
    let start = Instant::now();
    let file = dir.join("index.db");
    let mut index = Index::open(&file, ledger).await?;
    let done = index.catch_up().await?;
    let seconds = start.elapsed().as_secs_f64();
    let rate = done.added as f64 / seconds;
    writeln!(
        out,
        "{} indexed in {seconds:.1} s, {rate:.0}/s; {} MiB",
        done.added,
        std::fs::metadata(&file)?.len() >> 20
    )?;
    let text = str::to_owned;
    let queries = [
        ("newest 100", Query::default()),
        (
            "caller and tool",
            Query {
                filter: audit::Filter {
                    caller: text("cred-7"),
                    tool: text("create_issue"),
                    ..audit::Filter::default()
                },
                ..Query::default()
            },
        ),
        (
            "refused write-downs of a user",
            Query {
                filter: audit::Filter {
                    user: text("user-3"),
                    violation: text("WouldViolateWriteDown"),
                    ..audit::Filter::default()
                },
                ..Query::default()
            },
        ),
        (
            "restricted, one day",
            Query {
                filter: audit::Filter {
                    level: text("RESTRICTED"),
                    since_ms: START_MS + SPAN_MS / 2,
                    until_ms: START_MS + SPAN_MS / 2 + 86_400_000,
                    ..audit::Filter::default()
                },
                ..Query::default()
            },
        ),
        (
            "verdict failed, all of it",
            Query {
                filter: audit::Filter {
                    verdict: text("failed"),
                    ..audit::Filter::default()
                },
                limit: 1_000_000,
                ..Query::default()
            },
        ),
        (
            "lineage of a call",
            Query {
                lineage: format!("call-{}", done.added / 3),
                ..Query::default()
            },
        ),
        (
            "nobody",
            Query {
                filter: audit::Filter {
                    caller: text("nobody"),
                    ..audit::Filter::default()
                },
                ..Query::default()
            },
        ),
    ];
    for (name, query) in queries {
        let query = Query {
            limit: query.limit.max(100),
            ..query
        };
        let start = Instant::now();
        index.catch_up().await?;
        let found = index.find(&query).await?;
        writeln!(
            out,
            "{name:<32} {:>7} records  {:>8.2} ms",
            found.records.len(),
            start.elapsed().as_secs_f64() * 1e3
        )?;
    }
    Ok(())
}

fn fill(dir: &Path, records: u64) -> Result<(), Box<dyn Error>> {
    let now = Arc::new(AtomicU64::new(START_MS));
    let hand = Arc::clone(&now);
    let clock: Clock = Arc::new(move || {
        let unix_ms = hand.load(Ordering::Relaxed);
        Moment {
            unix_ms,
            mono_us: unix_ms * 1000,
        }
    });
    let ledger = Ledger::with(dir, Box::new(RealDisk), clock, Options::default())?;
    let mut call = 0_u64;
    while ledger.status().records < records {
        let ms = START_MS + SPAN_MS * ledger.status().records / records.max(1);
        // Busier in the day than in the night.
        now.store(ms + call * 7919 % 3_600_000, Ordering::Relaxed);
        record_call(&ledger, call)?;
        if call.is_multiple_of(997) {
            let (server, who) = (pick(&TOOLS, call).0, format!("user-{}", call % 4));
            for action in [
                "approval.asked",
                "approval.approved",
                "definition.quarantined",
                "config.applied",
            ] {
                ledger.change(&Change {
                    action,
                    server,
                    user: &who,
                    reason: "it was looked at",
                    ..Change::default()
                })?;
            }
            ledger.change(&Change {
                action: "strangers.refused",
                door: "mcp-http",
                violation: "unauthenticated",
                count: Some(3),
                ..Change::default()
            })?;
        }
        call += 1;
    }
    Ok(())
}

/// One of a few, in turn.
fn pick<T: Copy + Default>(all: &[T], turn: u64) -> T {
    all.iter()
        .cycle()
        .nth((turn % all.len().max(1) as u64) as usize)
        .copied()
        .unwrap_or_default()
}

fn record_call(ledger: &Ledger, n: u64) -> Result<(), Box<dyn Error>> {
    let (server, tool, level) = pick(&TOOLS, n * 31);
    let text = |text: String| Cow::<'static, str>::from(text);
    let mut opened = ledger.open(Facts {
        call: text(format!("call-{n}")),
        door: "mcp-http".into(),
        action: "tools/call".into(),
        caller: text(format!("cred-{}", n % 23)),
        session: text(format!("cred-{}", n % 23)),
        server: server.into(),
        tool: tool.into(),
        user: text(format!("user-{}", n % 11)),
        agent: "claude-code".into(),
        label: "PUBLIC".into(),
        after: text(
            n.checked_sub(23)
                .map(|before| format!("call-{before}"))
                .unwrap_or_default(),
        ),
        args: text("ab".repeat(32)),
        args_bytes: Some(57),
        ..Facts::default()
    });
    if n % 9 == 4 {
        let mut outcome = Outcome::new(Verdict::Refused, Stage::Admit);
        outcome.violation = pick(&RULES, n / 9);
        let _sealed = ledger.conclude(opened, &outcome)?;
        return Ok(());
    }
    let _intent = ledger.intend(&mut opened)?;
    let mut outcome = Outcome::new(
        if n.is_multiple_of(41) {
            Verdict::Failed
        } else {
            Verdict::Permitted
        },
        Stage::Absorb,
    );
    if n.is_multiple_of(41) {
        outcome.violation = "timeout";
    } else if n.is_multiple_of(13) {
        outcome.label_after = level;
    }
    let _sealed = ledger.conclude(opened, &outcome)?;
    Ok(())
}
