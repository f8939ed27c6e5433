//! `portcullis audit query`: questions to the index, answered with the ledger's own records. No gate needs to run.

use home::{Home, answers, tokens};
use reports::{Found, Query};
use terminal::{Exit, Screen, Trouble};

use crate::{args, verbs::audit::tail::Printer};

pub(super) fn run(
    args: &args::AuditQuery,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let names = tokens::caller_names(home);
    let query = Query {
        limit: args.limit,
        ..answers::question(home, &wanted(args))?
    };
    let (found, lost) = answers::find(home, &query)?;
    if lost > 0 {
        tracing::warn!(
            "{} had lost {lost} rows and was made anew; nothing is missing from this answer",
            home.index_file().display()
        );
    }
    if let (true, Some(given)) = (found.records.is_empty(), &args.conditions.caller) {
        let caller = query.filter.caller.clone();
        let by_caller = Query {
            filter: audit::Filter {
                caller,
                ..audit::Filter::default()
            },
            all: true,
            limit: 1,
            ..Query::default()
        };
        let is_known = names.knows(&query.filter.caller)
            || !answers::find(home, &by_caller)?.0.records.is_empty();
        if !is_known {
            let said = format!(
                "there is no caller `{given}`; `portcullis token list` shows the credentials"
            );
            return Err(Trouble::usage(said));
        }
    }
    let mut printer = Printer::new(names);
    for record in &found.records {
        printer.print(record, screen)?;
    }
    if !screen.json {
        writeln!(screen.out, "{}", summary(&found, &query, args.limit))?;
    }
    Ok(Exit::Done)
}

/// Holds the index against the ledger and mends it: what was wrong with it, in words.
pub(super) fn mend_index(home: &Home) -> Option<String> {
    let file = home.index_file();
    if !file.exists() {
        return None;
    }
    let runtime = answers::runtime().ok()?;
    runtime.block_on(reports::compare_index(&file, &home.ledger))
}

/// All records of a call and the changes of its approval, in order; nothing where there is no index to ask.
pub(super) fn story(home: &Home, call: &str) -> Option<Vec<audit::Record>> {
    let runtime = answers::runtime().ok()?;
    let index = home.index_file();
    let story = reports::story(&index, &home.ledger, call);
    runtime.block_on(story).ok()
}

/// The question in the words of the interface.
fn wanted(args: &args::AuditQuery) -> api::RecordsQuery {
    api::RecordsQuery {
        since: args.since.clone(),
        until: args.until.clone(),
        lineage: args.lineage.clone(),
        all: args.all,
        ..args.conditions.query()
    }
}

fn summary(found: &Found, query: &Query, limit: u32) -> String {
    let (one, many) = if query.calls_only {
        ("call", "calls")
    } else {
        ("record", "records")
    };
    match (found.records.len(), found.more) {
        (0, _) if query.calls_only => {
            "No calls match. Changes are shown with --all, --kind or --action.".to_owned()
        }
        (0, _) => "No records match.".to_owned(),
        (_, true) => format!("The newest {limit} {many}; there are more, see --limit."),
        (1, false) => format!("1 {one}."),
        (count, false) => format!("{count} {many}."),
    }
}
