//! What a live page is told: frames of rows and exact counts, as JSON that the page writes into text nodes.

use serde::Serialize;
use serde_json::Value;

use crate::marked::{Marked, marked};

/// Rows of one frame; above that, refusals come before permitted calls.
const MAX_ROWS: usize = 50;

/// A call that has ended, as a row of the list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    pub call: Marked,
    /// The call's id for its address.
    pub id: String,
    pub time: Marked,
    pub verdict: Marked,
    pub caller: Marked,
    pub target: Marked,
    pub why: Marked,
}

/// The row of an event, if it tells of the end of a call.
#[must_use]
pub fn row_of_event(line: &str, name: impl Fn(&str) -> String) -> Option<Row> {
    let event: Value = serde_json::from_str(line).ok()?;
    let text = |key: &str| event.get(key).and_then(Value::as_str).unwrap_or_default();
    let verdict = match text("event") {
        "MCPToolEvent::InvocationCompleted" => "permitted",
        "MCPToolEvent::InvocationFailed" => text("verdict"),
        "MCPToolEvent::ToolPolicyViolation" => "refused",
        _ => return None,
    };
    let payload = |key: &str| {
        let found = event.get("payload").and_then(|payload| payload.get(key));
        found.and_then(Value::as_str).unwrap_or_default()
    };
    let why = match verdict {
        "refused" => format!(
            "{}: {}. {}",
            payload("stage"),
            payload("violation_type"),
            payload("detail")
        ),
        _ => String::new(),
    };
    let id = text("call");
    Some(Row {
        call: marked(id),
        id: id.to_owned(),
        time: marked(text("time")),
        verdict: marked(verdict),
        caller: marked(&name(text("caller"))),
        target: marked(&format!("{}/{}", text("server"), text("tool"))),
        why: marked(why.get(..200).unwrap_or(&why)),
    })
}

#[derive(Serialize)]
struct Frame<'a> {
    /// Calls since the last frame, and those of them that were refused; more than rows where there are many.
    count: usize,
    refused: usize,
    rows: Vec<&'a Row>,
    waiting: Option<u64>,
}

/// One frame of what came since the last.
#[must_use]
pub fn frame(rows: &[Row], waiting: Option<u64>) -> String {
    let is_refused = |row: &&Row| row.verdict == marked("refused");
    let refused = rows.iter().filter(is_refused).count();
    let shown = if rows.len() <= MAX_ROWS {
        rows.iter().collect()
    } else {
        let rest = rows.iter().filter(|row| !is_refused(row));
        let mut shown: Vec<&Row> = rows
            .iter()
            .filter(is_refused)
            .chain(rest)
            .take(MAX_ROWS)
            .collect();
        shown.sort_by(|a, b| a.id.len().cmp(&b.id.len()).then(a.id.cmp(&b.id)));
        shown
    };
    let frame = Frame {
        count: rows.len(),
        refused,
        rows: shown,
        waiting,
    };
    serde_json::to_string(&frame).unwrap_or_default()
}
