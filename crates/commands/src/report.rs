//! The summary for a terminal: figures, bars and short tables.

use std::fmt::Write as _;

use api::{Party, Report, Row, Step};
use reports::page::{charts::short, total};
use terminal::style::{Paint, Style, cell, columns, cut, table, tame};

/// Rows of each list; the other formats have all.
const ROWS: usize = 10;
const BAR: usize = 32;
/// The longest name before a bar.
const NAME: usize = 44;

pub(crate) fn render(summary: &Report, style: Style) -> String {
    let mut out = String::new();
    let _ = writeln!(
        out,
        "{} to {} UTC, {} records",
        short(&summary.since),
        short(&summary.until),
        summary.records
    );
    out.push_str(&ledger(summary, style));
    let verdict = |name: &str| summary.calls.by_verdict.get(name).copied().unwrap_or(0);
    let (permitted, refused) = (verdict("permitted"), verdict("refused"));
    let other = summary.calls.total.saturating_sub(permitted + refused);
    let calls = summary.calls.total;
    let _ = writeln!(
        out,
        "\n{}: {permitted} permitted, {refused} refused, {other} failed, cancelled or unknown",
        counted(calls, "call")
    );
    let approvals = &summary.approvals;
    let _ = writeln!(
        out,
        "{} asked: {} approved, {} denied, {} expired",
        counted(approvals.asked, "approval"),
        approvals.approved,
        approvals.denied,
        approvals.expired
    );
    let _ = writeln!(
        out,
        "{} refused without a valid credential",
        total(&summary.authentication_failures)
    );
    steps(&mut out, &summary.steps, style);
    bars(
        &mut out,
        "Refusals by rule",
        &summary.refusals_by_rule,
        style,
    );
    bars(
        &mut out,
        "Refusals by tool",
        &summary.refusals_by_tool,
        style,
    );
    bars(
        &mut out,
        "Failures by code",
        &summary.failures_by_code,
        style,
    );
    bars(&mut out, "Labels raised", &summary.label_rises, style);
    parties(&mut out, "CALLER", &summary.callers, style);
    parties(&mut out, "SERVER", &summary.servers, style);
    let _ = writeln!(
        out,
        "\nEverything, with charts: portcullis audit report --format html --out report.html"
    );
    out
}

fn counted(count: u64, what: &str) -> String {
    if count == 1 {
        format!("1 {what}")
    } else {
        format!("{count} {what}s")
    }
}

fn ledger(summary: &Report, style: Style) -> String {
    match &summary.ledger.finding {
        None if summary.ledger.verifies => {
            format!("{}\n", style.paint("The ledger verifies.", Paint::Green))
        }
        finding => {
            let why = tame(finding.as_deref().unwrap_or_default());
            format!(
                "{}\n",
                style.paint(&format!("The ledger does not verify: {why}"), Paint::Red)
            )
        }
    }
}

fn bar(count: u64, most: u64) -> String {
    let cells = usize::try_from(count * BAR as u64 / most.max(1)).unwrap_or(BAR);
    "█".repeat(cells.max(usize::from(count > 0)))
}

/// The steps in which something happened; a quiet week is not a screen of zeros.
fn steps(out: &mut String, steps: &[Step], style: Style) {
    let sum = |step: &Step| step.permitted + step.refused + step.other;
    let busy: Vec<&Step> = steps.iter().filter(|step| sum(step) > 0).collect();
    let Some(most) = busy.iter().map(|step| sum(step)).max() else {
        return;
    };
    let _ = writeln!(out, "\n{}", style.paint("Calls over time", Paint::Bold));
    for step in busy.iter().rev().take(ROWS).rev() {
        let refused = if step.refused > 0 {
            format!(" ({} refused)", step.refused)
        } else {
            String::new()
        };
        let _ = writeln!(
            out,
            "  {}  {:>6}  {}{refused}",
            short(&step.from),
            sum(step),
            bar(sum(step), most)
        );
    }
}

fn bars(out: &mut String, title: &str, rows: &[Row], style: Style) {
    let Some(most) = rows.iter().map(|row| row.count).max() else {
        return;
    };
    let _ = writeln!(out, "\n{}", style.paint(title, Paint::Bold));
    let shown = || rows.iter().take(ROWS);
    let name = |row: &Row| cut(&tame(&row.name), NAME);
    let width = shown().map(|row| columns(&name(row))).max().unwrap_or(0);
    for row in shown() {
        let name = name(row);
        let pad = " ".repeat(width.saturating_sub(columns(&name)));
        let (count, bar) = (row.count, bar(row.count, most));
        let _ = writeln!(out, "  {name}{pad}  {count:>6}  {bar}");
    }
    let rest = total(rows.get(ROWS..).unwrap_or_default());
    if rest > 0 {
        let _ = writeln!(out, "  and {rest} more");
    }
}

fn parties(out: &mut String, what: &str, parties: &[Party], style: Style) {
    if parties.is_empty() {
        return;
    }
    let rows: Vec<_> = parties
        .iter()
        .take(ROWS)
        .map(|party| {
            let figures = [party.calls, party.permitted, party.refused, party.other]
                .map(|figure| cell(figure.to_string()));
            let mean = cell(format!("{:.1} ms", party.mean_ms));
            std::iter::once(cell(&party.name))
                .chain(figures)
                .chain([cell(&party.highest_level), mean])
                .collect()
        })
        .collect();
    let head = [
        what,
        "CALLS",
        "PERMITTED",
        "REFUSED",
        "OTHER",
        "HIGHEST SESSION LEVEL",
        "MEAN TIME",
    ];
    let _ = write!(out, "\n{}", table(&head, &rows, style));
}

#[cfg(test)]
mod tests;
