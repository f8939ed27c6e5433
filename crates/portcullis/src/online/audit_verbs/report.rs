//! `portcullis audit report`: reads the ledger, verifies it, and writes what happened in a period. No gate needs to run.

use std::thread;

use audit::Filter;

use super::{POLL, query::now_ms, unreadable};
use crate::{
    caller_names::CallerNames,
    cli::{Exit, args},
    home::Home,
    offline::{Screen, Trouble},
    out_file,
    report::{Collector, LedgerState, Summary, csv, html, text},
};

/// Exit 6 when the ledger does not verify: the report says so too.
pub(super) fn run(
    args: &args::AuditReport,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let now = now_ms();
    let until = args.until.map_or(now, |when| when.ms(now));
    let since = match args.since {
        Some(when) => when.ms(now),
        None => oldest_ms(home)
            .map_err(|error| unreadable(home, &error))?
            .unwrap_or(until),
    };
    if since > until {
        return Err(Trouble::usage("the period ends before it begins"));
    }
    let summary = summarise(home, since, until, now)?;
    let format = if screen.json && args.format == args::ReportFormat::Text {
        args::ReportFormat::Json
    } else {
        args.format
    };
    let text = match format {
        args::ReportFormat::Text => text::render(&summary, screen.style),
        args::ReportFormat::Json => {
            serde_json::to_string_pretty(&summary).map_err(Trouble::failed)? + "\n"
        }
        args::ReportFormat::Csv => csv::render(&summary),
        args::ReportFormat::Html => html::render(&summary),
    };
    match &args.out {
        Some(file) => {
            out_file::write(file, |out| Ok(out.write_all(text.as_bytes())?))?;
            let said = serde_json::json!({ "file": file, "verifies": summary.ledger.verifies });
            if !out_file::is_stdout(file) {
                screen.show(&said, &format!("The report is in {}\n", file.display()))?;
            }
        }
        None => screen.machine(text.as_bytes())?,
    }
    Ok(if summary.ledger.verifies {
        Exit::Done
    } else {
        Exit::Altered
    })
}

fn oldest_ms(home: &Home) -> std::io::Result<Option<u64>> {
    Ok(audit::read(&home.ledger, Filter::default())?
        .next()
        .transpose()?
        .map(|record| record.ms))
}

fn summarise(home: &Home, since: u64, until: u64, now: u64) -> Result<Summary, Trouble> {
    let state = ledger_state(home).map_err(|error| unreadable(home, &error))?;
    let mut collector = Collector::new(since, until, state, CallerNames::of(home));
    let filter = Filter {
        since_ms: since,
        until_ms: until,
        ..Filter::default()
    };
    for record in audit::read(&home.ledger, filter).map_err(|error| unreadable(home, &error))? {
        collector.take(&record.map_err(|error| unreadable(home, &error))?);
    }
    Ok(collector.finish(now))
}

fn ledger_state(home: &Home) -> std::io::Result<LedgerState> {
    let mut report = audit::verify(&home.ledger)?;
    if !report.is_clean() {
        // A running gate may have been in the middle of its last line.
        thread::sleep(POLL);
        report = audit::verify(&home.ledger)?;
    }
    Ok(LedgerState {
        verifies: report.is_clean(),
        finding: report.finding.as_ref().map(ToString::to_string),
        first_record: report.first,
        records: report.records,
        head: report.head.to_string(),
        root: report.root.to_string(),
        checkpoint_covers: report.checkpoint,
        checkpoint: audit::read_checkpoint(&home.ledger)?,
        public_key: audit::read_public_key(&home.ledger)?,
    })
}
