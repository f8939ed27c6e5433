//! `portcullis audit`: the ledger, read from its files. No gate needs to run.

use std::time::Duration;

use audit::{Body, Filter, Record};
use serde_json::Value;

use crate::{
    caller_names::CallerNames,
    cli::{Exit, args},
    home::Home,
    offline::{Screen, Trouble},
};

mod keep;
mod proofs;
mod query;
mod report;
mod sinks;
mod tail;
mod verify;

const POLL: Duration = Duration::from_millis(200);

pub(super) fn run(verb: &args::Audit, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    match verb {
        args::Audit::Tail(args) => tail::run(args, home, screen),
        args::Audit::Verify(args) => verify::run(args, home, screen),
        args::Audit::Show(args) => show(&args.id, home, screen),
        args::Audit::Query(args) => query::run(args, home, screen),
        args::Audit::Report(args) => report::run(args, home, screen),
        args::Audit::Export(args) => keep::export(args, home, screen),
        args::Audit::Retain(args) => keep::retain(args, home, screen),
        args::Audit::Checkpoint => proofs::checkpoint(home, screen),
        args::Audit::Proof(args) => proofs::prove(args.seq, home, screen),
        args::Audit::CheckProof(args) => proofs::check(args, home, screen),
        args::Audit::Erase(args) => proofs::erase(args, home, screen),
        args::Audit::Sinks => sinks::show(home, screen),
    }
}

fn unreadable(home: &Home, error: &std::io::Error) -> Trouble {
    Trouble::failed(format!("cannot read the ledger in {}: {error}", home.ledger.display()))
}

/// One record by its number, with every detail; one call by its id, stage by stage.
fn show(id: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let number = id.parse::<u64>().ok();
    let records = match number {
        Some(seq) => audit::read(&home.ledger, Filter { from: seq, ..Filter::default() })
            .and_then(|records| records.take(1).collect::<Result<Vec<Record>, _>>())
            .map_err(|error| unreadable(home, &error))?,
        None => story(id, home)?,
    };
    if !records.iter().any(|record| number.is_none_or(|seq| record.seq == seq)) {
        return Err(Trouble::failed(format!("no record `{id}`; `portcullis audit tail` shows the latest")));
    }
    let documents: Vec<Value> = records.iter().filter_map(|record| serde_json::to_value(record).ok()).collect();
    let names = CallerNames::of(home);
    let named: Vec<Record> = records.iter().map(|record| names.in_record(record)).collect();
    let mut text = match number {
        Some(_) => audit::render_records(&named, screen.style.color),
        None => audit::render_story(&named, screen.style.color),
    };
    if let Some(arguments) = kept_arguments(home, id, &records)? {
        text.push_str(&format!("\nArguments as kept, without secrets\n{arguments}\n"));
    }
    screen.show(&documents, &text)?;
    Ok(Exit::Done)
}

fn story(id: &str, home: &Home) -> Result<Vec<Record>, Trouble> {
    if let Some(records) = query::story(home, id) {
        return Ok(records);
    }
    // An index that cannot be made, as on a disk that is full, is no reason not to read.
    let filter = Filter { call: id.to_owned(), ..Filter::default() };
    let records = audit::read(&home.ledger, filter).and_then(Iterator::collect);
    records.map_err(|error| unreadable(home, &error))
}

/// The arguments of the call that was asked for by its id, if they were kept.
fn kept_arguments(home: &Home, id: &str, records: &[Record]) -> Result<Option<String>, Trouble> {
    if !records.iter().any(|record| record.call == id && !record.body.is_empty()) {
        return Ok(None);
    }
    let body = audit::body(&home.ledger, id).map_err(|error| unreadable(home, &error))?;
    Ok(Some(match body {
        Body::Kept { bytes, cut } => pretty(&bytes, cut),
        Body::Erased => "  erased by a person".to_owned(),
        Body::Absent => "  lost".to_owned(),
    }))
}

/// JSON over several lines, each without anything a terminal would obey; a text that was cut is no JSON any more and stays as it is.
fn pretty(bytes: &[u8], cut: bool) -> String {
    let value: Option<Value> = serde_json::from_slice(bytes).ok();
    let text = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    let text = text.unwrap_or_else(|| String::from_utf8_lossy(bytes).into_owned());
    let mut lines: Vec<String> = text.lines().map(|line| format!("  {}", audit::printable(line))).collect();
    if cut {
        lines.push("  … (cut)".to_owned());
    }
    lines.join("\n")
}
