//! `portcullis lineage`: what may have influenced a call, and what its result may have influenced.
//!
//! It is a bound, not a proof of use: the gate knows what an agent was shown, and cannot look into it.

use audit::Filter;
use serde_json::json;

use crate::{
    cli::{
        Exit, Style, args,
        style::{Cell, Paint, cell, painted, table},
    },
    home::Home,
    lineage::{Call, Calls, Walk},
    offline::{Screen, Trouble},
};

pub(super) fn run(
    args: &args::Lineage,
    home: &Home,
    screen: &mut Screen<'_>,
) -> Result<Exit, Trouble> {
    let caller = caller_of(home, &args.call)?.ok_or_else(|| {
        Trouble::usage(format!(
            "no call `{}`; `portcullis audit tail --json` names the latest",
            args.call
        ))
    })?;
    let calls =
        Calls::of_caller(&home.ledger, &caller).map_err(|error| unreadable(home, &error))?;
    let of = calls
        .get(&args.call)
        .ok_or_else(|| Trouble::usage(format!("`{}` is not a call", args.call)))?;
    let walk = if args.forward {
        calls.forward(&args.call)
    } else {
        calls.back(&args.call)
    };
    let document =
        json!({ "call": of, "forward": args.forward, "calls": walk.calls, "whole": walk.whole });
    screen.show(&document, &render(of, &walk, args.forward, screen.style))?;
    Ok(Exit::Done)
}

fn unreadable(home: &Home, error: &std::io::Error) -> Trouble {
    Trouble::failed(format!(
        "cannot read the ledger in {}: {error}",
        home.ledger.display()
    ))
}

/// Who made a call.
fn caller_of(home: &Home, call: &str) -> Result<Option<String>, Trouble> {
    let filter = Filter {
        call: call.to_owned(),
        ..Filter::default()
    };
    let own = |record: &std::io::Result<audit::Record>| {
        record.as_ref().map_or(true, audit::Record::is_of_a_call)
    };
    let first =
        audit::read(&home.ledger, filter).and_then(|mut records| records.find(own).transpose());
    Ok(first
        .map_err(|error| unreadable(home, &error))?
        .map(|record| record.caller))
}

/// The latest results a session was shown, its head first.
pub(super) fn read_by(home: &Home, head: &str, most: usize) -> Result<Vec<Call>, Trouble> {
    let Some(caller) = caller_of(home, head)? else {
        return Ok(Vec::new());
    };
    let calls =
        Calls::of_caller(&home.ledger, &caller).map_err(|error| unreadable(home, &error))?;
    // Whatever the head was shown after is in what the next call would derive from, so it is asked as that one would be.
    Ok(calls.shown_until(head).into_iter().take(most).collect())
}

pub(super) fn render_read(read: &[Call], style: Style) -> String {
    match read {
        [] => String::new(),
        read => format!(
            "\n{}\n{}",
            style.paint("What it has read, latest first", Paint::Bold),
            rows(read, style)
        ),
    }
}

fn render(of: &Call, walk: &Walk, forward: bool, style: Style) -> String {
    let mut out = rows(std::slice::from_ref(of), style);
    let (title, none) = match forward {
        false => (
            "What may have influenced it, latest first",
            "Nothing: the session had read nothing before.",
        ),
        true => (
            "What it may have influenced, latest first",
            "Nothing: no call of this session came after it.",
        ),
    };
    match walk.calls.as_slice() {
        [] if walk.whole => out.push_str(&format!("\n{none}\n")),
        calls => out.push_str(&format!(
            "\n{}\n{}",
            style.paint(title, Paint::Bold),
            rows(calls, style)
        )),
    }
    if !walk.whole {
        out.push_str(
            "There is more, which this ledger does not have, or which is too long to show.\n",
        );
    }
    out
}

fn rows(calls: &[Call], style: Style) -> String {
    let rows: Vec<Vec<Cell>> = calls
        .iter()
        .map(|call| {
            let verdict = match call.verdict.as_str() {
                "permitted" => painted("permitted", Paint::Green),
                "" => painted("under way", Paint::Yellow),
                other => painted(other, Paint::Red),
            };
            let label = match call.label_after.as_str() {
                "" => call.label.clone(),
                after if after == call.label => call.label.clone(),
                after => format!("{} → {after}", call.label),
            };
            let time = call.time.get(..19).unwrap_or(&call.time).replace('T', " ");
            vec![
                painted(&call.call, Paint::Bold),
                cell(time),
                cell(&call.caller),
                verdict,
                cell(format!("{}/{}", call.server, call.tool)),
                cell(label),
            ]
        })
        .collect();
    table(
        &["CALL", "TIME", "CALLER", "VERDICT", "TOOL", "SESSION"],
        &rows,
        style,
    )
}

#[cfg(test)]
mod tests;
