use super::{
    decide::{Cost, WORKS},
    judge::judge,
    matrix::{CROWD_CELL, Cell, Measured, Place, Results, Row, Upstream, median, turn},
};

fn row(cell: Cell, place: Place, cpu_seconds: &[f64]) -> Row {
    let rounds = cpu_seconds.iter().map(|cpu| Measured {
        calls: 10_000,
        calls_per_second: 1.0,
        p50_us: 1.0,
        cpu_seconds: *cpu,
        ..Measured::default()
    });
    Row { cell, place, rounds: rounds.collect() }
}

#[test]
fn ratios_are_taken_within_a_round() {
    // The machine slowed down in the second round; the ratio did not change.
    let rows = vec![row(CROWD_CELL, Place::Floor, &[0.1, 0.4, 0.1]), row(CROWD_CELL, Place::Gate, &[0.5, 2.0, 0.5])];
    let results = Results { rows, ..Results::default() };
    let ratio = results.ratio(CROWD_CELL, Place::Gate, Place::Floor, Measured::cpu).unwrap();
    assert!((ratio - 5.0).abs() < 1e-9);
    assert!(results.ratio(CROWD_CELL, Place::Crowded, Place::Gate, Measured::cpu).is_none());
}

#[test]
fn targets_can_be_missed() {
    let verdict = |gate: f64| {
        let rows = vec![row(CROWD_CELL, Place::Floor, &[0.1]), row(CROWD_CELL, Place::Gate, &[gate])];
        let results = Results { rows, first_call_ms: vec![50.0], idle_gate_bytes: 1, ..Results::default() };
        judge(&results).into_iter().find(|target| target.name.starts_with("CPU per call, 100 B, c=16")).unwrap().met
    };
    assert!(verdict(0.59));
    assert!(!verdict(0.61));
    let slow = Results { first_call_ms: vec![101.0], idle_gate_bytes: 31 << 20, ..Results::default() };
    assert_eq!(judge(&slow).iter().map(|target| target.met).collect::<Vec<_>>(), [false, false]);
}

#[test]
fn decisions_can_be_too_dear() {
    let verdicts = |microseconds: f64| -> Vec<bool> {
        let whats = ["decide-1", "decide-100", "check", "secrets-10k", "secrets-10k-found"];
        let costs = whats.map(|what| Cost { what: what.to_owned(), microseconds: vec![1e6, microseconds, 0.0] });
        let judged = judge(&Results { costs: costs.into(), ..Results::default() });
        judged.iter().filter(|target| target.name.ends_with("µs")).map(|target| target.met).collect()
    };
    assert_eq!(verdicts(20.0), [true, true, true, true]);
    assert_eq!(verdicts(20.1), [false, true, true, true]);
    assert_eq!(verdicts(60.1), [false, false, true, true]);
    assert_eq!(verdicts(100.1), [false, false, false, false]);
    assert_eq!(WORKS.iter().filter(|work| work.bound.is_some()).count(), 4);
}

#[test]
fn another_place_begins_in_every_round() {
    let places = vec![Place::Direct, Place::Floor, Place::Gate];
    let first: Vec<Place> = (0..4).map(|round| turn(places.clone(), round)[0]).collect();
    assert_eq!(first, [Place::Direct, Place::Floor, Place::Gate, Place::Direct]);
}

#[test]
fn plans_hold_the_cells_that_are_judged() {
    for extent in [super::Extent::Full, super::Extent::Quick] {
        let cells = super::plan(extent).cells;
        for connections in [1, 16, 64] {
            assert!(cells.contains(&Cell { upstream: Upstream::Http, connections, size: 100 }));
        }
        assert!(cells.iter().any(|cell| cell.size == 1_000_000) && cells.iter().any(|cell| cell.upstream == Upstream::Stdio));
    }
    assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
}
