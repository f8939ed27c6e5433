//! Executions, for people.

use api::Execution;
use terminal::style::{Cell, Paint, Style, cell, painted, table, tame};

#[must_use]
pub fn executions(all: &[Execution], style: Style) -> String {
    if all.is_empty() {
        return "No execution has been begun; commands run in jails of the gate.\n".to_owned();
    }
    let rows: Vec<Vec<Cell>> = all
        .iter()
        .map(|execution| {
            vec![
                painted(&execution.id, Paint::Bold),
                cell(&execution.caller),
                cell(&execution.state),
                cell(execution.waiting.to_string()),
                cell(execution.executed.to_string()),
                cell(execution.heard_at.as_deref().unwrap_or("never")),
            ]
        })
        .collect();
    let heads = ["EXECUTION", "OF", "STATE", "WAITING", "RAN", "HEARD"];
    table(&heads, &rows, style)
}

#[must_use]
pub fn execution(one: &Execution) -> String {
    let extent = match one.signed {
        true => "signed calls of this execution",
        false => "all commands of the credential",
    };
    let prints = match one.closed {
        true => "as trusted as what was sent there",
        false => "a stranger's words",
    };
    let rows = [
        ("state", one.state.clone()),
        ("of", one.caller.clone()),
        ("takes", extent.to_owned()),
        ("accepts", one.accepts.clone()),
        ("prints", prints.to_owned()),
        (
            "commands",
            format!("{} wait, {} ran", one.waiting, one.executed),
        ),
        (
            "runs now",
            one.running.clone().unwrap_or_else(|| "-".into()),
        ),
        (
            "answers",
            format!(
                "{} came again, {} to unknown ids",
                one.repeated, one.unknown
            ),
        ),
        (
            "heard",
            one.heard_at.clone().unwrap_or_else(|| "never".into()),
        ),
        ("begun", format!("{} by {}", one.created_at, one.made_by)),
        (
            "over",
            one.ended_at
                .clone()
                .unwrap_or_else(|| one.expires_at.clone()),
        ),
    ];
    let mut text = format!("{}\n", tame(&one.id));
    for (name, value) in rows {
        text.push_str(&format!("  {name:<9} {}\n", tame(&value)));
    }
    text
}
