//! `portcullis audit`: the ledger, read from its files. No gate needs to run.

use std::time::Duration;

use audit::{Body, Filter, Record};
use home::{Home, tokens};
use serde_json::Value;
use terminal::{Exit, Screen, Trouble, pretty::pretty};

use crate::args;

mod keep;
mod proofs;
mod query;
mod report;
mod sinks;
mod tail;
mod verify;

const POLL: Duration = Duration::from_millis(200);

pub fn run(verb: &args::Audit, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
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
    Trouble::failed(format!(
        "cannot read the ledger in {}: {error}",
        home.ledger.display()
    ))
}

/// One record by its number, with every detail; one call by its id, stage by stage.
fn show(id: &str, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let number = id.parse::<u64>().ok();
    let records = match number {
        Some(seq) => audit::read(
            &home.ledger,
            Filter {
                from: seq,
                ..Filter::default()
            },
        )
        .and_then(|records| records.take(1).collect::<Result<Vec<Record>, _>>())
        .map_err(|error| unreadable(home, &error))?,
        None => story(id, home)?,
    };
    if !records
        .iter()
        .any(|record| number.is_none_or(|seq| record.seq == seq))
    {
        return Err(Trouble::failed(format!(
            "no record `{id}`; `portcullis audit tail` shows the latest"
        )));
    }
    let documents: Vec<Value> = records
        .iter()
        .filter_map(|record| serde_json::to_value(record).ok())
        .collect();
    let names = tokens::caller_names(home);
    let named: Vec<Record> = records
        .iter()
        .map(|record| names.in_record(record))
        .collect();
    let text = match number {
        Some(_) => audit::render_records(&named, screen.style.color),
        None => audit::render_story(&named, screen.style.color),
    };
    screen.show(&documents, &text)?;
    if !screen.json {
        show_arguments(home, id, &records, screen)?;
    }
    Ok(Exit::Done)
}

fn story(id: &str, home: &Home) -> Result<Vec<Record>, Trouble> {
    if let Some(records) = query::story(home, id) {
        return Ok(records);
    }
    // An index that cannot be made, as on a disk that is full, is no reason not to read.
    let filter = Filter {
        call: id.to_owned(),
        ..Filter::default()
    };
    let records = audit::read(&home.ledger, filter).and_then(Iterator::collect);
    records.map_err(|error| unreadable(home, &error))
}

/// The arguments of the call that was asked for by its id, if they were kept: as they are where a program reads, and over several lines
/// where a person does.
fn show_arguments(
    home: &Home,
    id: &str,
    records: &[Record],
    screen: &mut Screen<'_>,
) -> Result<(), Trouble> {
    if !records
        .iter()
        .any(|record| record.call == id && !record.body.is_empty())
    {
        return Ok(());
    }
    writeln!(screen.out, "\nArguments as kept, without secrets")?;
    match audit::body(&home.ledger, id).map_err(|error| unreadable(home, &error))? {
        Body::Kept { bytes, cut } => {
            let shown = if screen.out.is_for_a_person() {
                pretty(&String::from_utf8_lossy(&bytes)).into_bytes()
            } else {
                bytes
            };
            screen.out.data(&shown)?;
            writeln!(screen.out, "{}", if cut { "\n… (cut)" } else { "" })?;
        }
        Body::Erased => writeln!(screen.out, "  erased by a person")?,
        Body::Absent => writeln!(screen.out, "  lost")?,
    }
    Ok(screen.out.flush()?)
}
