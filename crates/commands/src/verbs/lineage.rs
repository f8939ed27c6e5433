//! `portcullis lineage`: what may have influenced a call, and what its result may have influenced.
//!
//! It is a bound, not a proof of use: the gate knows what an agent was shown, and cannot look into it.

use api::{Lineage, ShownCall};
use home::{Home, answers};
use reports::Calls;
use terminal::{
    Exit, Screen, Style, Trouble,
    style::{Cell, Paint, cell, painted, table},
};

use crate::args;

pub fn run(args: &args::Lineage, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let found = answers::lineage(home, &args.call, args.forward)?;
    screen.show(&found, &render(&found, screen.style))?;
    Ok(Exit::Done)
}

/// The latest results a session was shown, its head first.
pub(super) fn read_by(home: &Home, head: &str, most: usize) -> Result<Vec<ShownCall>, Trouble> {
    let around = Calls::around(&home.ledger, head).map_err(|error| {
        let ledger = home.ledger.display();
        Trouble::failed(format!("cannot read the ledger in {ledger}: {error}"))
    })?;
    let Some(calls) = around else {
        return Ok(Vec::new());
    };
    // Whatever the head was shown after is in what the next call would derive from, so it is asked as that one would be.
    Ok(calls.shown_until(head).into_iter().take(most).collect())
}

pub(super) fn render_read(read: &[ShownCall], style: Style) -> String {
    match read {
        [] => String::new(),
        read => format!(
            "\n{}\n{}",
            style.paint("What it has read, latest first", Paint::Bold),
            rows(read, style)
        ),
    }
}

fn render(found: &Lineage, style: Style) -> String {
    let mut out = rows(std::slice::from_ref(&found.call), style);
    let (title, none) = match found.forward {
        false => (
            "What may have influenced it, latest first",
            "Nothing: the session had read nothing before.",
        ),
        true => (
            "What it may have influenced, latest first",
            "Nothing: no call of this session came after it.",
        ),
    };
    match found.calls.as_slice() {
        [] if found.whole => out.push_str(&format!("\n{none}\n")),
        calls => out.push_str(&format!(
            "\n{}\n{}",
            style.paint(title, Paint::Bold),
            rows(calls, style)
        )),
    }
    if !found.whole {
        out.push_str(
            "There is more, which this ledger does not have, or which is too long to show.\n",
        );
    }
    out
}

fn rows(calls: &[ShownCall], style: Style) -> String {
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
