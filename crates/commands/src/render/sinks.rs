//! Where events are sent, as people read it.

use terminal::style::{Cell, Paint, Style, cell, cut, painted, table};

/// The longest error that is shown in a row.
const MAX_NOTE: usize = 120;

#[must_use]
pub fn sinks(sinks: &[api::Sink], style: Style) -> String {
    if sinks.is_empty() {
        return "No sinks are configured, so events stay in the ledger. Add some under `audit.sinks` in portcullis.yaml; see docs/operate/events.md\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = sinks.iter().map(row).collect();
    table(
        &["SINK", "KIND", "STATE", "NEXT", "BEHIND", "NOTE"],
        &rows,
        style,
    )
}

fn row(sink: &api::Sink) -> Vec<Cell> {
    let paint = match sink.state.as_str() {
        "failing" => Paint::Red,
        "stopped" => Paint::Yellow,
        _ => Paint::Green,
    };
    let lost = if sink.lost > 0 {
        format!("{} records lost; ", sink.lost)
    } else {
        String::new()
    };
    let note = cut(&format!("{lost}{}", sink.error), MAX_NOTE);
    vec![
        painted(&sink.name, Paint::Bold),
        cell(&sink.kind),
        painted(&sink.state, paint),
        cell(&sink.position),
        cell(sink.lag.to_string()),
        cell(&note),
    ]
}
