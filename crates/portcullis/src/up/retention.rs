//! Applies what the configuration says about how long the ledger is kept, on a thread that may block, while calls go on.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use audit::{Change, Ledger};
use config::Retention;

use home::{
    Home,
    retention::{describe, keep_of},
};

use super::files::Applied;

/// How often it is seen whether something has become too old or too large.
const PERIOD: Duration = Duration::from_secs(3600);
/// How soon a change of the configuration counts.
const LOOK: Duration = Duration::from_secs(2);

pub(super) async fn keep(ledger: Ledger, home: Home, applied: Arc<Applied>) {
    let mut last: Option<(Retention, Instant)> = None;
    loop {
        tokio::time::sleep(LOOK).await;
        let wanted = applied.retention();
        let is_due = last.is_none_or(|(known, at)| known != wanted || at.elapsed() >= PERIOD);
        if !is_due {
            continue;
        }
        last = Some((wanted, Instant::now()));
        if wanted == Retention::default() {
            continue;
        }
        let read_from = applied.read_from(&home);
        let ledger = ledger.clone();
        let done = tokio::task::spawn_blocking(move || apply(&ledger, wanted, read_from)).await;
        if let Ok(Err(error)) = done {
            tracing::error!(%error, "what the ledger need not keep any more could not be removed");
        }
    }
}

fn apply(
    ledger: &Ledger,
    wanted: Retention,
    read_from: Option<u64>,
) -> Result<(), audit::RetainError> {
    let now = (audit::system_clock())().unix_ms;
    let why = describe(wanted);
    let change = Change {
        reason: &why,
        door: "gate",
        ..Change::default()
    };
    if let Some(gone) = ledger.retain(&keep_of(wanted, read_from, now), &change)? {
        tracing::info!(
            records = gone.records,
            segments = gone.segments,
            "the oldest part of the ledger was removed"
        );
    }
    Ok(())
}
