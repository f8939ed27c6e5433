//! The targets: what the gate may cost, as multiples of the floor in the same round, and what deciding may cost in itself.

use serde::Serialize;

use super::{
    decide::{WORKS, gains},
    level::Level,
    matrix::{COMMAND_CELL, CROWD_CELL, Cell, Measured, Place, Results, Upstream, median},
    neighbours::Neighbour,
    report::MIB,
};

/// One target and how the run did.
#[derive(Debug, Serialize)]
pub(super) struct Target {
    pub(super) name: String,
    pub(super) value: f64,
    pub(super) bound: String,
    pub(super) met: bool,
}

/// Of one caller: 128 MiB of unread answers, 192 MiB that arrive in the worker, 64 MiB shared by both and counted twice, and what so many
/// connections and an idle gate take themselves.
const UNREAD_MIB: f64 = 768.0;

/// Every target the run has numbers for.
pub(super) fn judge(results: &Results) -> Vec<Target> {
    let mut targets = Vec::new();
    for connections in [16, 64] {
        let cell = Cell {
            upstream: Upstream::Http,
            connections,
            size: 100,
        };
        targets.extend(at_most(
            format!("CPU per call, 100 B, c={connections}, × floor"),
            to_floor(results, cell, Measured::cpu),
            6.0,
        ));
        let throughput = to_floor(results, cell, |measured| measured.calls_per_second);
        targets.extend(at_least(
            format!("calls per second, 100 B, c={connections}, × floor"),
            throughput,
            0.2,
        ));
    }
    let alone = Cell {
        upstream: Upstream::Http,
        connections: 1,
        size: 100,
    };
    targets.extend(at_most(
        "p50, 100 B, c=1, × floor".to_owned(),
        to_floor(results, alone, |measured| measured.p50_us),
        2.2,
    ));
    for (connections, bound) in results.level.megabyte_bounds() {
        let cell = Cell {
            upstream: Upstream::Http,
            connections,
            size: 1_000_000,
        };
        targets.extend(at_most(
            format!("CPU per call, 1 MB, c={connections}, × floor"),
            to_floor(results, cell, Measured::cpu),
            bound,
        ));
    }
    let crowd = results.ratio(CROWD_CELL, Place::Crowded, Place::Gate, Measured::cpu);
    targets.extend(at_most(
        "CPU per call with 200 servers, × with 2".to_owned(),
        crowd,
        1.15,
    ));
    let signed = results.above(CROWD_CELL, Place::Signed, Place::Gate);
    targets.extend(at_most(
        "CPU of a signed call above an unsigned one, µs".to_owned(),
        signed,
        150.0,
    ));
    let command = results.later_ms(COMMAND_CELL, Place::Command, Place::Gate);
    targets.extend(at_most(
        "p50 of a command above a call, c=1, ms".to_owned(),
        command,
        12.0,
    ));
    targets.extend(at_most(
        "idle memory of gate and worker, MiB".to_owned(),
        Some(results.idle_gate_bytes as f64 / MIB),
        30.0,
    ));
    targets.extend(at_most(
        "first call after a start, ms".to_owned(),
        Some(median(results.first_call_ms.clone())),
        100.0,
    ));
    for work in &WORKS {
        let cost = work.among(&results.costs).zip(work.bound);
        targets.extend(cost.and_then(|(cost, bound)| {
            at_most(format!("{}, µs", cost.name()), Some(cost.median()), bound)
        }));
    }
    let long = results
        .neighbours
        .iter()
        .filter(|neighbour| neighbour.is_long());
    let worst = long.map(Neighbour::beside_ms).max_by(f64::total_cmp);
    targets.extend(at_most(
        "p99 beside 30 MiB results of any text, ms".to_owned(),
        worst,
        50.0,
    ));
    let busy = results
        .neighbours
        .iter()
        .find(|neighbour| !neighbour.is_long());
    targets.extend(at_most(
        "p99 beside a greedy caller, × alone".to_owned(),
        busy.map(Neighbour::ratio),
        3.0,
    ));
    let unread = &results.unread;
    let memory = (unread.connections > 0).then_some(unread.resident_bytes as f64 / MIB);
    targets.extend(at_most(
        format!("memory, {} connections unread, MiB", unread.connections),
        memory,
        UNREAD_MIB,
    ));
    if results.level != Level::Plain {
        targets.extend(
            gains(&results.costs)
                .filter_map(|(name, value, bound)| at_most(name, Some(value), bound)),
        );
    }
    targets
}

fn to_floor(results: &Results, cell: Cell, of: fn(&Measured) -> f64) -> Option<f64> {
    results.ratio(cell, Place::Gate, Place::Floor, of)
}

fn at_most(name: String, value: Option<f64>, bound: f64) -> Option<Target> {
    value.map(|value| Target {
        name,
        value,
        bound: format!("≤ {bound}"),
        met: value <= bound,
    })
}

fn at_least(name: String, value: Option<f64>, bound: f64) -> Option<Target> {
    value.map(|value| Target {
        name,
        value,
        bound: format!("≥ {bound}"),
        met: value >= bound,
    })
}
