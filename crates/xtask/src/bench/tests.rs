use super::{
    Options,
    decide::{Cost, WORKS},
    judge::judge,
    level::Level,
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
    Row {
        cell,
        place,
        rounds: rounds.collect(),
    }
}

#[test]
fn ratios_are_taken_within_a_round() {
    // The machine slowed down in the second round; the ratio did not change.
    let rows = vec![
        row(CROWD_CELL, Place::Floor, &[0.1, 0.4, 0.1]),
        row(CROWD_CELL, Place::Gate, &[0.5, 2.0, 0.5]),
    ];
    let results = Results {
        rows,
        ..Results::default()
    };
    let ratio = results
        .ratio(CROWD_CELL, Place::Gate, Place::Floor, Measured::cpu)
        .unwrap();
    assert!((ratio - 5.0).abs() < 1e-9);
    assert!(
        results
            .ratio(CROWD_CELL, Place::Crowded, Place::Gate, Measured::cpu)
            .is_none()
    );
}

#[test]
fn targets_can_be_missed() {
    let verdict = |gate: f64| {
        let rows = vec![
            row(CROWD_CELL, Place::Floor, &[0.1]),
            row(CROWD_CELL, Place::Gate, &[gate]),
        ];
        let results = Results {
            rows,
            first_call_ms: vec![50.0],
            idle_gate_bytes: 1,
            ..Results::default()
        };
        judge(&results)
            .into_iter()
            .find(|target| target.name.starts_with("CPU per call, 100 B, c=16"))
            .unwrap()
            .met
    };
    assert!(verdict(0.59));
    assert!(!verdict(0.61));
    let slow = Results {
        first_call_ms: vec![101.0],
        idle_gate_bytes: 31 << 20,
        ..Results::default()
    };
    assert_eq!(
        judge(&slow)
            .iter()
            .map(|target| target.met)
            .collect::<Vec<_>>(),
        [false, false]
    );
}

#[test]
fn decisions_can_be_too_dear() {
    let verdicts = |microseconds: f64| -> Vec<bool> {
        let whats = [
            "decide-1",
            "decide-100",
            "check",
            "weigh-10k",
            "secrets-10k",
            "secrets-10k-found",
        ];
        let costs = whats.map(|what| Cost::of(what, "avx2", vec![1e6, microseconds, 0.0]));
        let judged = judge(&Results {
            costs: costs.into(),
            ..Results::default()
        });
        judged
            .iter()
            .filter(|target| target.name.ends_with("µs"))
            .map(|target| target.met)
            .collect()
    };
    assert_eq!(verdicts(20.0), [true; 5]);
    assert_eq!(verdicts(20.1), [false, true, true, true, true]);
    assert_eq!(verdicts(60.1), [false, false, false, true, true]);
    assert_eq!(verdicts(100.1), [false; 5]);
    assert_eq!(WORKS.iter().filter(|work| work.bound.is_some()).count(), 5);
}

#[test]
fn a_megabyte_may_cost_more_without_avx512() {
    let cell = Cell {
        upstream: Upstream::Http,
        connections: 16,
        size: 1_000_000,
    };
    let verdict = |level: Level, gate: f64| {
        let rows = vec![
            row(cell, Place::Floor, &[0.1]),
            row(cell, Place::Gate, &[gate]),
        ];
        let judged = judge(&Results {
            rows,
            level,
            ..Results::default()
        });
        judged
            .into_iter()
            .find(|target| target.name.starts_with("CPU per call, 1 MB, c=16"))
            .unwrap()
            .met
    };
    assert_eq!(
        [0.29, 0.31].map(|gate| verdict(Level::Avx512, gate)),
        [true, false]
    );
    assert_eq!(
        [0.39, 0.41].map(|gate| verdict(Level::Avx2, gate)),
        [true, false]
    );
    assert!("avx512".parse::<Level>().is_ok() && "avx1024".parse::<Level>().is_err());
}

#[test]
fn vector_instructions_that_gain_nothing_are_noticed() {
    let verdict = |level: Level, with: f64| {
        let whats = [
            ("injection-1m-prose", with),
            ("injection-1m-prose-plain", 100.0),
        ];
        let costs = whats
            .map(|(what, cost)| Cost::of(what, level.to_string().as_str(), vec![cost]))
            .into();
        let judged = judge(&Results {
            costs,
            level,
            ..Results::default()
        });
        judged
            .into_iter()
            .find(|target| target.name.starts_with("1 MB of prose searched for inj"))
            .map(|target| target.met)
    };
    assert_eq!(
        [50.0, 90.0].map(|with| verdict(Level::Avx2, with)),
        [Some(true), Some(false)]
    );
    assert_eq!(verdict(Level::Plain, 100.0), None);
}

#[test]
fn options_of_the_bench_are_read() {
    let read = |words: &str| {
        Options::read(
            &words
                .split(' ')
                .filter(|word| !word.is_empty())
                .map(str::to_owned)
                .collect::<Vec<_>>(),
        )
    };
    let options = read("--quick --level avx2 --text german").unwrap();
    assert_eq!(
        (options.level, options.text.as_str(), options.profile()),
        (Some(Level::Avx2), "german", "bench-level")
    );
    assert_eq!(read("").unwrap().profile(), "dist");
    for wrong in ["--level", "--level avx9", "--smoke --level avx2", "german"] {
        assert!(read(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn another_place_begins_in_every_round() {
    let places = vec![Place::Direct, Place::Floor, Place::Gate];
    let first: Vec<Place> = (0..4).map(|round| turn(places.clone(), round)[0]).collect();
    assert_eq!(
        first,
        [Place::Direct, Place::Floor, Place::Gate, Place::Direct]
    );
}

#[test]
fn plans_hold_the_cells_that_are_judged() {
    for extent in [super::Extent::Full, super::Extent::Quick] {
        let cells = super::plan(extent).cells;
        for connections in [1, 16, 64] {
            assert!(cells.contains(&Cell {
                upstream: Upstream::Http,
                connections,
                size: 100
            }));
        }
        assert!(
            cells.iter().any(|cell| cell.size == 1_000_000)
                && cells.iter().any(|cell| cell.upstream == Upstream::Stdio)
        );
    }
    assert!((median(vec![3.0, 1.0, 2.0]) - 2.0).abs() < 1e-9);
}
