//! `portcullis audit query`: questions to the index, answered with the ledger's own records. No gate needs to run.

use std::time::{SystemTime, UNIX_EPOCH};

use state::index::{Found, Index, Query};

use super::tail::Printer;
use crate::{
    caller_names::CallerNames,
    cli::{Exit, args},
    home::Home,
    offline::{Screen, Trouble},
};

pub(super) fn run(
    args: &args::AuditQuery,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let names = CallerNames::of(home);
    let query = question(args, &names);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    let (found, lost) = runtime
        .block_on(answer(home, &query))
        .map_err(Trouble::failed)?;
    if lost > 0 {
        tracing::warn!(
            "{} had lost {lost} rows and was made anew; nothing is missing from this answer",
            home.index_file().display()
        );
    }
    if let (true, Some(given)) = (found.records.is_empty(), &args.caller) {
        let by_caller = Query {
            caller: query.caller.clone(),
            all: true,
            limit: 1,
            ..Query::default()
        };
        let is_known = names.knows(&query.caller)
            || !runtime
                .block_on(answer(home, &by_caller))
                .map_err(Trouble::failed)?
                .0
                .records
                .is_empty();
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

/// The answer, and how many rows the index had lost.
async fn answer(home: &Home, query: &Query) -> Result<(Found, u64), state::index::IndexError> {
    let mut index = Index::open(&home.index_file(), &home.ledger).await?;
    let lost = index.catch_up().await?.lost;
    Ok((index.find(query).await?, lost))
}

/// Holds the index against the ledger and mends it: what was wrong with it, in words.
pub(super) fn mend_index(home: &Home) -> Option<String> {
    if !home.index_file().exists() {
        return None;
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let mended = runtime.block_on(async {
        let mut index = Index::open(&home.index_file(), &home.ledger).await?;
        let found = index.compare().await?;
        if found.any() {
            index.begin_again().await?;
        }
        Ok::<_, state::index::IndexError>(found)
    });
    let file = home.index_file();
    match mended {
        Ok(found) if !found.any() => None,
        Ok(found) => Some(format!(
            "the index {} did not agree with the ledger: {} rows missing, {} altered, {} of no record. It was made anew; answers of \
             `audit query` before may have been incomplete",
            file.display(),
            found.missing,
            found.altered,
            found.foreign
        )),
        Err(error) => Some(error.to_string()),
    }
}

/// All records of a call and the changes of its approval, in order; nothing where there is no index to ask.
pub(super) fn story(home: &Home, call: &str) -> Option<Vec<audit::Record>> {
    const MOST: u32 = 1_000;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .ok()?;
    let by_call = Query {
        call: call.to_owned(),
        all: true,
        limit: MOST,
        ..Query::default()
    };
    let mut records = runtime.block_on(answer(home, &by_call)).ok()?.0.records;
    let approval = records
        .iter()
        .map(|record| record.approval.clone())
        .find(|approval| !approval.is_empty());
    if let Some(approval) = approval {
        let by_approval = Query {
            approval,
            kind: "change".to_owned(),
            all: true,
            limit: MOST,
            ..Query::default()
        };
        records.extend(runtime.block_on(answer(home, &by_approval)).ok()?.0.records);
    }
    records.sort_by_key(|record| record.seq);
    records.dedup_by_key(|record| record.seq);
    Some(records)
}

pub(super) fn now_ms() -> u64 {
    SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .map_or(0, |since| {
            u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
        })
}

fn question(args: &args::AuditQuery, names: &CallerNames) -> Query {
    let now = now_ms();
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    Query {
        kind: text(&args.kind),
        action: text(&args.action),
        call: String::new(),
        caller: args
            .caller
            .as_deref()
            .map(|caller| names.id(caller).to_owned())
            .unwrap_or_default(),
        session: text(&args.session),
        server: text(&args.server),
        tool: text(&args.tool),
        user: text(&args.user),
        agent: text(&args.agent),
        tenant: text(&args.tenant),
        execution: text(&args.execution),
        effect: String::new(),
        verdict: text(&args.verdict),
        violation: text(&args.violation),
        approval: String::new(),
        level: args
            .level
            .map(|level| level.to_string())
            .unwrap_or_default(),
        lineage: text(&args.lineage),
        since_ms: args.since.map_or(0, |when| when.ms(now)),
        until_ms: args.until.map_or(0, |when| when.ms(now)),
        // Whoever asks for a kind or an action says by it whether changes are wanted.
        calls_only: !args.all && args.kind.is_none() && args.action.is_none(),
        all: args.all,
        limit: args.limit,
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
