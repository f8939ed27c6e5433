//! The numbers on the screen, and all rounds in a file.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Result;
use serde_json::json;

use super::{
    decide::Cost,
    judge::Target,
    matrix::{Cell, Measured, Place, Results, Row, Upstream, median},
    neighbours,
};
use crate::say;

pub(super) const MIB: f64 = 1024.0 * 1024.0;

pub(super) fn show(results: &Results, targets: &[Target]) {
    let mut last: Option<(Upstream, usize)> = None;
    for row in &results.rows {
        let Cell {
            upstream,
            size,
            connections,
        } = row.cell;
        if last != Some((upstream, size)) {
            say(format_args!(
                "\n{upstream:?} upstream, {} of text (medians over {} rounds)",
                bytes(size),
                row.rounds.len()
            ));
            say(
                "   c  place      calls/s    p50 µs    p99 µs  CPU s/10k  RSS MiB   × floor: calls/s   p50   CPU",
            );
            last = Some((upstream, size));
        }
        say(format_args!(
            "{connections:4}  {}{}",
            numbers(row),
            ratios(results, row)
        ));
    }
    say(format_args!(
        "\nidle memory: floor {:.1} MiB, gate and worker {:.1} MiB; first call after a start: {:.0} ms",
        results.idle_floor_bytes as f64 / MIB,
        results.idle_gate_bytes as f64 / MIB,
        median(results.first_call_ms.clone())
    ));
    decisions(&results.costs);
    neighbours::show(&results.neighbours, &results.unread);
    if !targets.is_empty() {
        say("");
    }
    for target in targets {
        let verdict = if target.met { "PASS" } else { "FAIL" };
        say(format_args!(
            "{verdict}  {:48} {:8.2}  ({})",
            target.name, target.value, target.bound
        ));
    }
}

fn decisions(costs: &[Cost]) {
    let Some(first) = costs.first() else { return };
    say(format_args!(
        "\nwhat deciding costs (CPU time, medians over {} rounds)       µs",
        first.microseconds.len()
    ));
    for cost in costs {
        say(format_args!("  {:52} {:8.2}", cost.name(), cost.median()));
    }
}

fn numbers(row: &Row) -> String {
    let measured = |of: fn(&Measured) -> f64| row.median(of);
    let place = format!("{:?}", row.place).to_lowercase();
    let head = format!(
        "{place:8} {:9.0} {:9.0} {:9.0}",
        measured(|m| m.calls_per_second),
        measured(|m| m.p50_us),
        measured(|m| m.p99_us)
    );
    if row.place == Place::Direct {
        return format!("{head}          –        –");
    }
    format!(
        "{head}  {:9.2}  {:7.1}",
        measured(Measured::cpu),
        measured(|m| m.resident_bytes as f64 / MIB)
    )
}

fn ratios(results: &Results, row: &Row) -> String {
    if !matches!(row.place, Place::Gate | Place::Crowded | Place::Signed) {
        return String::new();
    }
    let ratio = |of: fn(&Measured) -> f64| results.ratio(row.cell, row.place, Place::Floor, of);
    let (Some(calls), Some(p50), Some(cpu)) = (
        ratio(|m| m.calls_per_second),
        ratio(|m| m.p50_us),
        ratio(Measured::cpu),
    ) else {
        return String::new();
    };
    format!("            {calls:7.2} {p50:5.2} {cpu:5.2}")
}

fn bytes(size: usize) -> String {
    match size {
        1_000_000.. => format!("{} MB", size / 1_000_000),
        1_000.. => format!("{} KB", size / 1_000),
        _ => format!("{size} B"),
    }
}

/// Writes every round and every target to a file in `directory`.
pub(super) fn save(directory: &Path, results: &Results, targets: &[Target]) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let file = directory.join("latest.json");
    fs::write(
        &file,
        format!("{:#}\n", json!({ "results": results, "targets": targets })),
    )?;
    Ok(file)
}
