//! What is measured: cells of upstream, concurrency and size; places that take turns in each; rounds that repeat it all.

use std::{thread::sleep, time::Duration};

use anyhow::Result;
use serde::{Deserialize, Serialize};

use super::{
    decide::Cost,
    level::Level,
    neighbours::{self, Neighbour, Unread},
    places::Stand,
};
use crate::say;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Upstream {
    Http,
    Stdio,
}

/// What stands between the load and the upstream.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Place {
    Direct,
    Floor,
    Gate,
    /// A gate with 200 servers.
    Crowded,
    /// The gate, with signed calls.
    Signed,
    /// The gate, running a command that does nothing.
    Command,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Cell {
    pub(super) upstream: Upstream,
    pub(super) connections: usize,
    pub(super) size: usize,
}

/// The cell in which a gate with many servers is compared with one that has few.
pub(super) const CROWD_CELL: Cell = Cell {
    upstream: Upstream::Http,
    connections: 16,
    size: 100,
};

/// The cell in which a command is compared with a call.
pub(super) const COMMAND_CELL: Cell = Cell {
    upstream: Upstream::Http,
    connections: 1,
    size: 100,
};

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) cells: Vec<Cell>,
    pub(super) rounds: usize,
    pub(super) seconds: f64,
    pub(super) starts: usize,
    /// Rounds of a caller beside another; none where this is 0.
    pub(super) neighbours: usize,
}

/// What `bench-load` says about one run.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Measured {
    pub(super) calls: usize,
    pub(super) calls_per_second: f64,
    pub(super) p50_us: f64,
    pub(super) p99_us: f64,
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
}

impl Measured {
    /// CPU seconds of what stands in between, per 10,000 calls.
    pub(super) fn cpu(&self) -> f64 {
        if self.calls == 0 {
            0.0
        } else {
            self.cpu_seconds * 10_000.0 / self.calls as f64
        }
    }
}

/// All rounds of one place in one cell.
#[derive(Debug, Serialize)]
pub(super) struct Row {
    #[serde(flatten)]
    pub(super) cell: Cell,
    pub(super) place: Place,
    pub(super) rounds: Vec<Measured>,
}

impl Row {
    pub(super) fn median(&self, of: fn(&Measured) -> f64) -> f64 {
        median(self.rounds.iter().map(of).collect())
    }
}

#[derive(Debug, Default, Serialize)]
pub(super) struct Results {
    pub(super) rows: Vec<Row>,
    pub(super) first_call_ms: Vec<f64>,
    pub(super) idle_floor_bytes: u64,
    pub(super) idle_gate_bytes: u64,
    pub(super) costs: Vec<Cost>,
    pub(super) level: Level,
    pub(super) neighbours: Vec<Neighbour>,
    pub(super) unread: Unread,
}

impl Results {
    pub(super) fn row(&self, cell: Cell, place: Place) -> Option<&Row> {
        self.rows
            .iter()
            .find(|row| row.cell == cell && row.place == place)
    }

    /// The median, over rounds, of one place's value divided by another's in the same round.
    pub(super) fn ratio(
        &self,
        cell: Cell,
        place: Place,
        to: Place,
        of: fn(&Measured) -> f64,
    ) -> Option<f64> {
        let (these, those) = (self.row(cell, place)?, self.row(cell, to)?);
        let pairs = these
            .rounds
            .iter()
            .zip(&those.rounds)
            .filter(|(_, that)| of(that) > 0.0);
        let ratios: Vec<f64> = pairs.map(|(this, that)| of(this) / of(that)).collect();
        (!ratios.is_empty()).then(|| median(ratios))
    }

    /// The median, over rounds, of what one place's call costs above another's, in microseconds of CPU time.
    pub(super) fn above(&self, cell: Cell, place: Place, than: Place) -> Option<f64> {
        let (these, those) = (self.row(cell, place)?, self.row(cell, than)?);
        let micros = |measured: &Measured| measured.cpu() * 100.0;
        Some(median(
            these
                .rounds
                .iter()
                .zip(&those.rounds)
                .map(|(this, that)| micros(this) - micros(that))
                .collect(),
        ))
    }

    /// The median, over rounds, of how much later half of one place's calls are answered than half of another's, in milliseconds.
    pub(super) fn later_ms(&self, cell: Cell, place: Place, than: Place) -> Option<f64> {
        let (these, those) = (self.row(cell, place)?, self.row(cell, than)?);
        let pairs = these.rounds.iter().zip(&those.rounds);
        Some(median(
            pairs
                .map(|(this, that)| (this.p50_us - that.p50_us) / 1e3)
                .collect(),
        ))
    }

    fn add(&mut self, cell: Cell, place: Place, measured: Measured) {
        match self
            .rows
            .iter_mut()
            .find(|row| row.cell == cell && row.place == place)
        {
            Some(row) => row.rounds.push(measured),
            None => self.rows.push(Row {
                cell,
                place,
                rounds: vec![measured],
            }),
        }
    }
}

pub(super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

/// Runs the whole plan.
pub(super) fn measure(mut stand: Stand, plan: &Plan) -> Result<Results> {
    let mut results = Results {
        first_call_ms: stand.first_calls(plan.starts)?,
        ..Results::default()
    };
    sleep(Duration::from_secs(1));
    (results.idle_floor_bytes, results.idle_gate_bytes) = stand.idle_bytes();
    for round in 0..plan.rounds {
        say(format_args!("round {} of {}", round + 1, plan.rounds));
        for cell in &plan.cells {
            for place in turn(places(*cell), round) {
                let options = [
                    ("connections", cell.connections.to_string()),
                    ("size", cell.size.to_string()),
                    ("measure", plan.seconds.to_string()),
                ];
                results.add(*cell, place, stand.load(place, cell.upstream, &options)?);
            }
        }
    }
    if plan.neighbours > 0 {
        (results.neighbours, results.unread) =
            neighbours::measure(&mut stand, plan.neighbours, plan.seconds)?;
    }
    Ok(results)
}

/// What takes turns in a cell. There is no bare proxy between pipes.
fn places(cell: Cell) -> Vec<Place> {
    match cell.upstream {
        Upstream::Stdio => vec![Place::Direct, Place::Gate],
        Upstream::Http if cell == CROWD_CELL => vec![
            Place::Direct,
            Place::Floor,
            Place::Gate,
            Place::Crowded,
            Place::Signed,
        ],
        Upstream::Http if cell == COMMAND_CELL => {
            vec![Place::Direct, Place::Floor, Place::Gate, Place::Command]
        }
        Upstream::Http => vec![Place::Direct, Place::Floor, Place::Gate],
    }
}

/// Another one begins in every round, so that none always follows the same one.
pub(super) fn turn(mut places: Vec<Place>, round: usize) -> Vec<Place> {
    let by = round % places.len().max(1);
    places.rotate_left(by);
    places
}
