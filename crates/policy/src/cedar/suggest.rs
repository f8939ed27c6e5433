//! The smallest bundle that admits recorded calls and nothing else, written for a person to edit.
//!
//! Calls of one caller to one target with arguments of one outline become one policy, where that admits no more than was recorded:
//! two calls are folded only if they differ in a single argument. Every scalar is compared and the outline fixes the rest, so an
//! argument more, an argument less, another kind or another value is refused.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use wire::Json;

use super::{
    facts::{self, MAX_LEAVES, MAX_TEXT},
    path,
    question::Act,
    recorded::{Ending, Recorded},
};

/// What stands in a recorded text where a secret stood.
const REDACTED: &str = "[redacted: ";

/// What one policy of the suggestion is about.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Subject {
    caller: String,
    act: Act,
    server: String,
    target: String,
    is_approved: bool,
    outline: String,
}

/// The values one argument may have.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Cell {
    Exact(BTreeSet<String>),
    /// A Cedar pattern, where a part of the text was not recorded.
    Like(String),
}

type Row = BTreeMap<String, Cell>;

/// Writes a bundle that admits the recorded calls that went ahead. Calls that a person approved are asked about again.
#[must_use]
pub fn suggest(calls: &[Recorded]) -> String {
    let mut subjects: BTreeMap<Subject, Vec<Row>> = BTreeMap::new();
    let mut people: BTreeMap<&str, String> = BTreeMap::new();
    let mut left_out = Vec::new();
    for call in calls.iter().filter(|call| call.ending != Ending::Refused) {
        people.insert(&call.caller, person(call));
        match row(call) {
            Ok((subject, row)) => subjects.entry(subject).or_default().push(row),
            Err(why) => left_out.push(format!(
                "// Left out: call {}, {why}.\n",
                call.id.escape_debug()
            )),
        }
    }
    let mut out = heading(calls);
    out.extend(left_out);
    let mut number = 0;
    for (subject, rows) in subjects {
        let recorded = rows.len();
        let rows = fold(rows);
        let who = people
            .get(subject.caller.as_str())
            .map_or("", String::as_str);
        _ = write!(
            out,
            "\n// {who}: {} of {}/{}",
            subject.act.action(),
            subject.server.escape_debug(),
            subject.target.escape_debug()
        );
        _ = writeln!(out, ", recorded {}.", times(recorded));
        for row in rows {
            number += 1;
            policy(&mut out, &subject, &row, number);
        }
    }
    out
}

fn heading(calls: &[Recorded]) -> String {
    let refused = calls
        .iter()
        .filter(|call| call.ending == Ending::Refused)
        .count();
    let mut out = format!(
        "// Suggested from {} that went ahead; everything else is blocked.\n\
         // Loosen what should vary: take a condition away to allow any value, or write `like \"/srv/reports/*\"` for `==`. The outline fixes\n\
         // which arguments there are and of what kind: take it away too where arguments may be added or left out.\n",
        counted(calls.len() - refused)
    );
    if refused > 0 {
        _ = writeln!(
            out,
            "// {} refused; nothing here admits them.",
            counted(refused)
        );
    }
    out
}

fn counted(count: usize) -> String {
    if count == 1 {
        "1 recorded call".to_owned()
    } else {
        format!("{count} recorded calls")
    }
}

fn times(count: usize) -> String {
    if count == 1 {
        "once".to_owned()
    } else {
        format!("{count} times")
    }
}

fn person(call: &Recorded) -> String {
    let named: Vec<&str> = [call.user.as_deref(), call.agent.as_deref()]
        .into_iter()
        .flatten()
        .collect();
    let more = if named.is_empty() {
        String::new()
    } else {
        format!(" ({})", named.join(", ").escape_debug())
    };
    format!("{}{more}", call.caller.escape_debug())
}

fn row(call: &Recorded) -> Result<(Subject, Row), String> {
    if !is_plain(&call.caller) {
        return Err("whose caller's name may not stand in a policy".to_owned());
    }
    let arguments = Json::checked_before(call.arguments.trim_ascii());
    let (_, outline) = facts::outline(arguments)?;
    let mut row = Row::new();
    for leaf in path::leaves(arguments, MAX_LEAVES).unwrap_or_default() {
        let Some(text) = leaf.text else { continue };
        if text.len() > MAX_TEXT {
            return Err(format!(
                "whose argument `{}` is longer than a policy may be shown",
                leaf.path.escape_debug()
            ));
        }
        row.insert(leaf.path, cell(&text));
    }
    let subject = Subject {
        caller: call.caller.clone(),
        act: call.act,
        server: call.server.clone(),
        target: call.target.clone(),
        is_approved: call.ending == Ending::Approved,
        outline,
    };
    Ok((subject, row))
}

fn cell(text: &str) -> Cell {
    if !text.contains(REDACTED) {
        return Cell::Exact(BTreeSet::from([text.to_owned()]));
    }
    let mut pattern = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once(REDACTED) {
        pattern.push_str(&escape_pattern(before));
        pattern.push('*');
        rest = after.split_once(']').map_or("", |(_, rest)| rest);
    }
    pattern.push_str(&escape_pattern(rest));
    Cell::Like(pattern)
}

/// Rows that together admit exactly what the given rows admit, fewer where two differ in one argument only.
fn fold(mut rows: Vec<Row>) -> Vec<Row> {
    rows.sort();
    rows.dedup();
    let columns: Vec<String> = rows
        .first()
        .map(|row| row.keys().cloned().collect())
        .unwrap_or_default();
    loop {
        let before = rows.len();
        for column in &columns {
            rows = fold_column(rows, column);
        }
        if rows.len() == before {
            return rows;
        }
    }
}

fn fold_column(rows: Vec<Row>, column: &str) -> Vec<Row> {
    let mut folded: BTreeMap<Row, BTreeSet<String>> = BTreeMap::new();
    let mut others = Vec::new();
    for mut row in rows {
        match row.remove(column) {
            Some(Cell::Exact(values)) => folded.entry(row).or_default().extend(values),
            Some(like @ Cell::Like(_)) => {
                row.insert(column.to_owned(), like);
                others.push(row);
            }
            None => others.push(row),
        }
    }
    let whole = folded.into_iter().map(|(mut row, values)| {
        row.insert(column.to_owned(), Cell::Exact(values));
        row
    });
    let mut all: Vec<Row> = whole.chain(others).collect();
    all.sort();
    all
}

fn policy(out: &mut String, subject: &Subject, row: &Row, number: usize) {
    let name: String = subject
        .target
        .chars()
        .map(|next| {
            if next.is_ascii_alphanumeric() {
                next
            } else {
                '-'
            }
        })
        .take(40)
        .collect();
    _ = writeln!(out, "@id(\"{}-{name}-{number}\")", subject.server);
    if subject.is_approved {
        _ = writeln!(
            out,
            "@effect(\"ask\")\n@agent(\"A person has to approve this first. Wait for the answer.\")"
        );
    }
    if row.values().any(|cell| matches!(cell, Cell::Like(_))) {
        _ = writeln!(
            out,
            "// A part of an argument was redacted in the record; `*` stands for it."
        );
    }
    let (resource, mut conditions) = resource_scope(subject.act, &subject.server, &subject.target);
    _ = writeln!(
        out,
        "permit (\n    principal == Caller::{},",
        quoted(&subject.caller)
    );
    _ = writeln!(
        out,
        "    action == Action::{},\n    {resource}\n)",
        quoted(subject.act.action())
    );
    conditions.push(if subject.outline.is_empty() {
        "context.argument_count == 0".to_owned()
    } else {
        format!("context.outline == {}", quoted(&subject.outline))
    });
    conditions.extend(row.iter().map(|(path, cell)| condition(path, cell)));
    _ = writeln!(out, "when {{\n    {}\n}};", conditions.join(" &&\n    "));
}

/// The scope that is about one target only, and the condition that takes where no scope can say it: names that are not plain may
/// not stand in a scope, where they could pass for others, so they are compared as text.
pub(super) fn resource_scope(act: Act, server: &str, target: &str) -> (String, Vec<String>) {
    let kind = act.target_type();
    match is_plain(target) {
        true => (
            format!(
                "resource == {kind}::{}",
                quoted(&format!("{server}/{target}"))
            ),
            Vec::new(),
        ),
        false => (
            format!("resource is {kind} in Server::{}", quoted(server)),
            vec![format!("resource.name == {}", quoted(target))],
        ),
    }
}

fn is_plain(name: &str) -> bool {
    name.chars()
        .all(|next| next == ' ' || next.is_ascii_graphic())
}

fn condition(path: &str, cell: &Cell) -> String {
    let tag = quoted(path);
    let value = format!("context.arguments.getTag({tag})");
    let test = match cell {
        Cell::Exact(values) if values.len() == 1 => {
            format!(
                "{value} == {}",
                values.iter().map(|text| quoted(text)).collect::<String>()
            )
        }
        Cell::Exact(values) => {
            let values: Vec<String> = values.iter().map(|text| quoted(text)).collect();
            format!("[{}].contains({value})", values.join(", "))
        }
        Cell::Like(pattern) => format!("{value} like \"{pattern}\""),
    };
    format!("context.arguments.hasTag({tag}) && {test}")
}

/// A Cedar text; nothing in it can end it.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", text.escape_debug())
}

fn escape_pattern(text: &str) -> String {
    text.escape_debug().to_string().replace('*', "\\*")
}
