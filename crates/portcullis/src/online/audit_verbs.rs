//! `portcullis audit`: the ledger, read from its files. No gate needs to run.

use std::{thread, time::Duration};

use audit::{Body, Filter, Record};
use serde_json::{Value, json};

use crate::{
    cli::{Exit, args, render},
    home::Home,
    offline::{Screen, Trouble},
};

mod proofs;
mod query;
mod tail;

const POLL: Duration = Duration::from_millis(200);

pub(super) fn run(verb: &args::Audit, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    match verb {
        args::Audit::Tail(args) => tail::run(args, home, screen),
        args::Audit::Verify(args) => verify(args, home, screen),
        args::Audit::Show(args) => show(&args.id, home, screen),
        args::Audit::Query(args) => query::run(args, home, screen),
        args::Audit::Report(_) | args::Audit::Export(_) | args::Audit::Retain(_) => Err(Trouble::failed("not yet")),
        args::Audit::Checkpoint => proofs::checkpoint(home, screen),
        args::Audit::Proof(args) => proofs::prove(args.seq, home, screen),
        args::Audit::CheckProof(args) => proofs::check(args, home, screen),
        args::Audit::Erase(args) => proofs::erase(args, home, screen),
    }
}

fn unreadable(home: &Home, error: &std::io::Error) -> Trouble {
    Trouble::failed(format!("cannot read the ledger in {}: {error}", home.ledger.display()))
}

fn verify(args: &args::AuditVerify, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let look = proofs::verifier(args, home)?;
    let mut report = look().map_err(|error| unreadable(home, &error))?;
    if !report.is_clean() {
        // A running gate may have been in the middle of its last line.
        thread::sleep(POLL);
        report = look().map_err(|error| unreadable(home, &error))?;
    }
    let document = json!({
        "clean": report.is_clean(), "segments": report.segments, "records": report.records, "intents": report.intents,
        "outcomes": report.outcomes, "refusals": report.refusals, "changes": report.changes, "open_intents": report.open_intents,
        "head": report.head.to_string(), "root": report.root.to_string(), "checkpoint": report.checkpoint, "finding": report.finding.as_ref().map(ToString::to_string),
    });
    screen.show(&document, &verdict(&report))?;
    Ok(if report.is_clean() { Exit::Done } else { Exit::Altered })
}

fn verdict(report: &audit::Report) -> String {
    let counts = format!(
        "{} records in {} files: {} intents, {} outcomes, {} refusals, {} changes",
        report.records, report.segments, report.intents, report.outcomes, report.refusals, report.changes
    );
    match &report.finding {
        None => format!("The ledger verifies. {counts}\nHead {}\n", report.head),
        Some(finding) => format!("THE LEDGER DOES NOT VERIFY: {finding}\nUp to there: {counts}\n"),
    }
}

fn show(id: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let (filter, most) = match id.parse::<u64>() {
        Ok(seq) => (Filter { from: seq, ..Filter::default() }, 1),
        Err(_) => (Filter { call: id.to_owned(), ..Filter::default() }, usize::MAX),
    };
    let records = audit::read(&home.ledger, filter).and_then(|records| records.take(most).collect::<Result<Vec<Record>, _>>());
    let records = records.map_err(|error| unreadable(home, &error))?;
    if records.is_empty() {
        return Err(Trouble::failed(format!("no record `{id}`; `portcullis audit tail` shows the latest")));
    }
    let documents: Vec<Value> = records.iter().filter_map(|record| serde_json::to_value(record).ok()).collect();
    let mut text = audit::render_story(&records, screen.style.color);
    if let Some(arguments) = kept_arguments(home, id, &records)? {
        text.push_str(&format!("Arguments as kept, without secrets\n  {}\n", render::visible(&arguments)));
    }
    screen.show(&documents, &text)?;
    Ok(Exit::Done)
}

/// The arguments of the call that was asked for by its id, if they were kept.
fn kept_arguments(home: &Home, id: &str, records: &[Record]) -> Result<Option<String>, Trouble> {
    if !records.iter().any(|record| record.call == id && !record.body.is_empty()) {
        return Ok(None);
    }
    let body = audit::body(&home.ledger, id).map_err(|error| unreadable(home, &error))?;
    Ok(Some(match body {
        Body::Kept { bytes, cut } => {
            let text = String::from_utf8_lossy(&bytes).into_owned();
            if cut { format!("{text} … (cut)") } else { text }
        }
        Body::Erased => "erased by a person".to_owned(),
        Body::Absent => "lost".to_owned(),
    }))
}
