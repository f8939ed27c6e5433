//! The summary as one page: everything inline, no script, nothing fetched, light and dark.
//!
//! INVARIANT: every text that is not written here goes through [`escape`].

use std::fmt::Write as _;

use crate::page::{
    Listed, Party, Report,
    charts::{self, grouped, short},
    total,
};
use vocab::tame;

const STYLE: &str = include_str!("style.css");
/// Rows of a chart, and of a table.
const BARS: usize = 12;
const ROWS: usize = 100;

pub fn render(summary: &Report) -> String {
    let mut page = format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n\
         <title>Portcullis: report from {} to {}</title>\n<style>\n{STYLE}</style>\n</head>\n<body>\n<main>\n",
        escape(&short(&summary.since)),
        escape(&short(&summary.until))
    );
    let _ = writeln!(
        page,
        "<header><h1>Portcullis report</h1><p>{} to {}, UTC. Counted from {} records of the ledger on {}.</p></header>",
        escape(&short(&summary.since)),
        escape(&short(&summary.until)),
        grouped(summary.records),
        escape(&short(&summary.made_at))
    );
    page.push_str(&seal(summary));
    page.push_str(&tiles(summary));
    card(
        &mut page,
        "Calls over time",
        "",
        &charts::steps(&summary.steps),
    );
    page.push_str("<div class=\"pair\">");
    card(
        &mut page,
        "Refusals by rule",
        "",
        &charts::bars(&summary.refusals_by_rule, "refused", BARS),
    );
    card(
        &mut page,
        "Refusals by tool",
        "",
        &charts::bars(&summary.refusals_by_tool, "refused", BARS),
    );
    card(
        &mut page,
        "Labels raised",
        "from what a session had seen to what it has seen since",
        &charts::bars(&summary.label_rises, "plain", BARS),
    );
    card(
        &mut page,
        "Write-down refusals",
        "secret data that did not leave",
        &charts::bars(&summary.write_down_refusals, "refused", BARS),
    );
    card(
        &mut page,
        "Failures by code",
        "",
        &charts::bars(&summary.failures_by_code, "other", BARS),
    );
    card(
        &mut page,
        "Failed authentication",
        "without a valid credential",
        &charts::bars(&summary.authentication_failures, "other", BARS),
    );
    page.push_str("</div>\n");
    card(
        &mut page,
        "Callers",
        "",
        &parties(&summary.callers, "Caller", "People and agents"),
    );
    card(
        &mut page,
        "Servers",
        "",
        &parties(&summary.servers, "Server", ""),
    );
    card(&mut page, "Approvals", "", &approvals(summary));
    for (title, list) in summary.lists() {
        card(
            &mut page,
            &capital(title),
            &grouped(list.count),
            &listed(list),
        );
    }
    card(
        &mut page,
        "Other changes",
        "",
        &charts::bars(&summary.other_changes, "plain", BARS),
    );
    card(&mut page, "The ledger", "", &ledger(summary));
    page.push_str(
        "<footer>Made by portcullis audit report. Figures are counted from the records that the ledger holds; \
         docs/operate/ledger.md says what verifying it proves, and what it cannot.</footer>\n</main>\n</body>\n</html>\n",
    );
    page
}

/// Text as it may stand in markup and in attributes; without anything a viewer would obey or that hides itself.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in tame(text).chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

fn card(page: &mut String, title: &str, small: &str, body: &str) {
    let small = if small.is_empty() {
        String::new()
    } else {
        format!("<small>{}</small>", escape(small))
    };
    let _ = write!(
        page,
        "<section class=\"card\"><h2>{}{small}</h2>\n{body}</section>\n",
        escape(title)
    );
}

fn capital(text: &str) -> String {
    let mut chars = text.chars();
    chars
        .next()
        .map(|first| first.to_uppercase().chain(chars).collect())
        .unwrap_or_default()
}

fn seal(summary: &Report) -> String {
    let ledger = &summary.ledger;
    match &ledger.finding {
        None if ledger.verifies => format!(
            "<div class=\"seal\"><b>The ledger verifies</b><span>{} records; the signed head covers {}</span></div>\n",
            grouped(ledger.records - ledger.first_record),
            ledger
                .checkpoint_covers
                .map_or_else(|| "none".to_owned(), grouped)
        ),
        finding => format!(
            "<div class=\"seal broken\"><b>The ledger does not verify</b><span>{}</span></div>\n",
            escape(finding.as_deref().unwrap_or_default())
        ),
    }
}

fn tiles(summary: &Report) -> String {
    let verdict = |name: &str| summary.calls.by_verdict.get(name).copied().unwrap_or(0);
    let refused = verdict("refused");
    let failed = summary.calls.total - verdict("permitted") - refused;
    let tiles = [
        ("", summary.calls.total, "calls"),
        ("good", verdict("permitted"), "permitted"),
        ("bad", refused, "refused"),
        ("warn", failed, "failed, cancelled or unknown"),
        ("", total(&summary.label_rises), "labels raised"),
        ("", summary.approvals.asked, "approvals asked"),
        (
            "",
            total(&summary.authentication_failures),
            "failed authentications",
        ),
    ];
    let mut out = "<div class=\"tiles\">\n".to_owned();
    for (class, count, what) in tiles {
        let class = if count == 0 { "" } else { class };
        let _ = writeln!(
            out,
            "<div class=\"tile {class}\"><b>{}</b><span>{what}</span></div>",
            grouped(count)
        );
    }
    out.push_str("</div>\n");
    out
}

fn parties(parties: &[Party], what: &str, also: &str) -> String {
    if parties.is_empty() {
        return "<p class=\"none\">None.</p>\n".to_owned();
    }
    let extra = if also.is_empty() {
        String::new()
    } else {
        format!("<th>{also}</th>")
    };
    let mut out = format!(
        "<div class=\"scroll\"><table><tr><th>{what}</th>{extra}<th class=\"n\">Calls</th><th class=\"n\">Permitted</th><th class=\"n\">Refused</th><th class=\"n\">Other</th><th>Highest session level</th><th class=\"n\">Mean time</th></tr>\n"
    );
    for party in parties.iter().take(ROWS) {
        let extra = if also.is_empty() {
            String::new()
        } else {
            format!("<td>{}</td>", escape(&party.also.join(", ")))
        };
        let _ = writeln!(
            out,
            "<tr><td>{}</td>{extra}<td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td class=\"n\">{}</td><td>{}</td><td class=\"n\">{:.1} ms</td></tr>",
            escape(&party.name),
            grouped(party.calls),
            grouped(party.permitted),
            grouped(party.refused),
            grouped(party.other),
            escape(&party.highest_level),
            party.mean_ms
        );
    }
    out.push_str("</table></div>\n");
    out
}

fn approvals(summary: &Report) -> String {
    let approvals = &summary.approvals;
    let mut out = format!(
        "<div class=\"tiles\"><div class=\"tile\"><b>{}</b><span>asked</span></div><div class=\"tile good\"><b>{}</b><span>approved</span></div><div class=\"tile bad\"><b>{}</b><span>denied</span></div><div class=\"tile\"><b>{}</b><span>expired</span></div></div>\n",
        grouped(approvals.asked),
        grouped(approvals.approved),
        grouped(approvals.denied),
        grouped(approvals.expired)
    );
    out.push_str(&charts::bars(&approvals.by_person, "plain", BARS));
    out
}

fn listed(list: &Listed) -> String {
    if list.newest.is_empty() {
        return "<p class=\"none\">None.</p>\n".to_owned();
    }
    let mut out = "<div class=\"scroll\"><table><tr><th>Time</th><th>What</th><th>About</th><th>By</th><th>Detail</th><th class=\"n\">Record</th></tr>\n".to_owned();
    for item in list.newest.iter().rev().take(ROWS) {
        let _ = writeln!(
            out,
            "<tr><td class=\"t\">{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td class=\"n\">{}</td></tr>",
            escape(&short(&item.time)),
            escape(&item.what),
            escape(&item.about),
            escape(&item.by),
            escape(&item.detail),
            item.seq
        );
    }
    out.push_str("</table></div>\n");
    out
}

fn ledger(summary: &Report) -> String {
    let ledger = &summary.ledger;
    let mut out = "<dl>".to_owned();
    let covers = ledger
        .checkpoint_covers
        .map(|size| format!("{size} records"))
        .unwrap_or_default();
    let rows = [
        (
            "Records",
            format!(
                "{} to {}",
                ledger.first_record,
                ledger.records.saturating_sub(1)
            ),
        ),
        ("Hash of the last one", ledger.head.clone()),
        ("Root of the tree", ledger.root.clone()),
        ("Signed head covers", covers),
        ("Public key", ledger.public_key.clone().unwrap_or_default()),
    ];
    for (name, value) in rows {
        let _ = write!(out, "<dt>{name}</dt><dd>{}</dd>", escape(&value));
    }
    out.push_str("</dl>\n");
    if let Some(checkpoint) = &ledger.checkpoint {
        let lines: Vec<String> = checkpoint.lines().map(escape).collect();
        let _ = writeln!(out, "<pre>{}</pre>", lines.join("\n"));
    }
    out
}
