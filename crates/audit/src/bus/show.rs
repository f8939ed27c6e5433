//! Events for human eyes: one line each, and nothing in it drives the terminal.

use super::{Event, Severity};
use crate::encode::printable;

/// The titles above lines of [`render_event`].
#[must_use]
pub fn render_event_head(colours: bool) -> String {
    let head = format!(
        "{:<19}  {:<7}  {:<42}  {:<32}  {:<16}  PLACE",
        "TIME (UTC)", "LEVEL", "EVENT", "ABOUT", "CALLER"
    );
    if colours {
        format!("\u{1b}[2m{head}\u{1b}[0m")
    } else {
        head
    }
}

/// Time, severity, name, what it was about, who, and the place to replay from.
#[must_use]
pub fn render_event(event: &Event, colours: bool) -> String {
    let clock = event
        .time
        .get(..19)
        .unwrap_or(&event.time)
        .replace('T', " ");
    let about = match (event.server.as_str(), event.tool.as_str()) {
        ("", "") => event
            .payload
            .get("target")
            .and_then(|target| target.as_str())
            .unwrap_or_default()
            .to_owned(),
        ("", tool) => tool.to_owned(),
        (server, "") => server.to_owned(),
        (server, tool) => format!("{server}/{tool}"),
    };
    let word = format!("{:<7}", event.severity.as_str());
    let word = match (colours, event.severity) {
        (true, Severity::Warning) => format!("\u{1b}[33m{word}\u{1b}[0m"),
        (true, Severity::Error) => format!("\u{1b}[31m{word}\u{1b}[0m"),
        _ => word,
    };
    let (clock, about, caller) = (
        printable(&clock),
        printable(&about),
        printable(&event.caller),
    );
    let line = format!(
        "{clock}  {word}  {:<42}  {about:<32}  {caller:<16}  {}",
        event.event, event.position
    );
    line.trim_end().to_owned()
}
