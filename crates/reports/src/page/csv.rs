//! The summary as CSV: one figure per line, `section,name,value` and what else there is to say.
//!
//! Names come from callers and servers, and spreadsheets run what looks like a formula. A cell that begins with `=`, `+`, `-`, `@`, a tab or a
//! carriage return therefore begins with an apostrophe instead, which spreadsheets show as text. Controls and direction marks are taken out.

use crate::page::{Party, Report};
use vocab::tame;

pub fn render(summary: &Report) -> String {
    let mut out = String::new();
    let mut line = |cells: &[&str]| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        out.push_str(&cells.join(","));
        out.push_str("\r\n");
    };
    line(&["section", "name", "value", "more"]);
    for (name, value) in head(summary) {
        line(&["summary", name, &value, ""]);
    }
    for (verdict, count) in &summary.calls.by_verdict {
        line(&["calls by verdict", verdict, &count.to_string(), ""]);
    }
    for step in &summary.steps {
        let total = step.permitted + step.refused + step.other;
        let more = format!(
            "permitted {}; refused {}; other {}",
            step.permitted, step.refused, step.other
        );
        line(&["calls by time", &step.from, &total.to_string(), &more]);
    }
    for (title, rows) in summary.tables() {
        for row in rows {
            line(&[title, &row.name, &row.count.to_string(), ""]);
        }
    }
    for (title, parties) in [("callers", &summary.callers), ("servers", &summary.servers)] {
        for party in parties {
            line(&[title, &party.name, &party.calls.to_string(), &about(party)]);
        }
    }
    for (title, list) in summary.lists() {
        line(&[title, "count", &list.count.to_string(), ""]);
        for item in &list.newest {
            let more = format!(
                "record {}; {}; {}; by {}; {}",
                item.seq, item.what, item.about, item.by, item.detail
            );
            line(&[title, &item.time, &item.what, &more]);
        }
    }
    out
}

fn head(summary: &Report) -> Vec<(&'static str, String)> {
    let ledger = &summary.ledger;
    let approvals = &summary.approvals;
    vec![
        ("made at", summary.made_at.clone()),
        ("since", summary.since.clone()),
        ("until", summary.until.clone()),
        ("records", summary.records.to_string()),
        ("calls", summary.calls.total.to_string()),
        ("calls under way", summary.calls.under_way.to_string()),
        ("approvals asked", approvals.asked.to_string()),
        ("approvals approved", approvals.approved.to_string()),
        ("approvals denied", approvals.denied.to_string()),
        ("approvals expired", approvals.expired.to_string()),
        ("ledger verifies", ledger.verifies.to_string()),
        ("ledger finding", ledger.finding.clone().unwrap_or_default()),
        ("ledger first record", ledger.first_record.to_string()),
        ("ledger records", ledger.records.to_string()),
        ("ledger head", ledger.head.clone()),
        (
            "checkpoint covers",
            ledger
                .checkpoint_covers
                .map(|size| size.to_string())
                .unwrap_or_default(),
        ),
        ("checkpoint root", ledger.root.clone()),
        ("public key", ledger.public_key.clone().unwrap_or_default()),
    ]
}

fn about(party: &Party) -> String {
    format!(
        "permitted {}; refused {}; other {}; highest level {}; mean {} ms; {}",
        party.permitted,
        party.refused,
        party.other,
        party.highest_level,
        party.mean_ms,
        party.also.join(" ")
    )
}

/// A quoted cell that no spreadsheet runs.
fn cell(text: &str) -> String {
    let text = tame(text);
    let is_formula = text.starts_with(['=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠']);
    let guard = if is_formula { "'" } else { "" };
    format!("\"{guard}{}\"", text.replace('"', "\"\""))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn formulas_are_text() {
        assert_eq!(cell("=HYPERLINK(\"x\")"), "\"'=HYPERLINK(\"\"x\"\")\"");
        assert_eq!(cell("\t=1"), "\"'=1\"");
        assert_eq!(cell("\r\n@SUM(A1)"), "\"'@SUM(A1)\"");
        assert_eq!(cell("ordinary, text"), "\"ordinary, text\"");
        assert_eq!(cell("-"), "\"'-\"");
    }

    proptest! {
        #[test]
        fn a_cell_is_one_cell_and_no_formula(text in any::<String>()) {
            let cell = cell(&text);
            let inner = cell.strip_prefix('"').unwrap().strip_suffix('"').unwrap();
            prop_assert!(!inner.starts_with(['=', '+', '-', '@']));
            prop_assert!(!inner.replace("\"\"", "").contains(['"', '\r', '\n', '\t']));
        }
    }
}
