use super::fake::*;
use crate::record::Draft;
use crate::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vocab::Stage;

/// Space ends at many places within the next record, the first and last bytes among them.
#[test]
fn a_full_disk_stops_effects_and_space_brings_them_back() {
    for room in (0..700).step_by(3) {
        let dir = tempfile::tempdir().unwrap();
        let faults = Arc::new(Faults::default());
        let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
        let mut before = ledger.open(facts("before"));
        let _ = ledger.intend(&mut before).unwrap();

        faults.room.store(room, Ordering::SeqCst);
        let mut during = ledger.open(facts("during"));
        let refused = ledger.intend(&mut during);
        if refused.is_ok() {
            drop(during);
            continue; // the record fitted
        }
        let text = refused.unwrap_err().to_string();
        assert!(
            text.contains("no storage space") || text.contains("No space"),
            "{text}"
        );
        faults.room.store(i64::MAX, Ordering::SeqCst);
        assert!(
            ledger.record(&Draft::default()).is_err(),
            "broken until reopened, even with space"
        );
        assert!(
            ledger
                .conclude(during, &Outcome::new(Verdict::Refused, Stage::Intend))
                .is_err()
        );
        assert!(ledger.status().broken.is_some());

        ledger.reopen().unwrap();
        // The call that was in flight when the disk filled up can still be concluded.
        let _ = ledger
            .conclude(before, &Outcome::new(Verdict::Permitted, Stage::Absorb))
            .unwrap();
        let report = verify(dir.path()).unwrap();
        assert!(report.is_clean(), "room {room}: {:?}", report.finding);
        assert_eq!(report.open_intents, 0);
        assert_eq!(report.head, ledger.status().head);
        let records = all(dir.path());
        assert!(records.iter().any(|r| r.action == "ledger.recovered"));
        assert!(records.iter().all(|r| r.verdict != "abandoned"));
    }
}

#[test]
fn tend_keeps_trying_until_the_disk_has_room() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    ledger
        .record(&Draft {
            action: "a",
            ..Draft::default()
        })
        .unwrap();
    faults.room.store(10, Ordering::SeqCst);
    assert!(ledger.record(&Draft::default()).is_err());
    for _ in 0..5 {
        assert!(ledger.tend().is_err());
        assert!(ledger.record(&Draft::default()).is_err());
    }
    faults.room.store(i64::MAX, Ordering::SeqCst);
    ledger.tend().unwrap();
    ledger
        .record(&Draft {
            action: "b",
            ..Draft::default()
        })
        .unwrap();
    assert_eq!(ledger.sync().unwrap(), ledger.status().records);
    assert!(verify(dir.path()).unwrap().is_clean());
}

/// Tended every 50 ms, as a gate does more seldom: effects are back within a second of the space.
#[test]
fn effects_are_back_within_a_second_of_the_space() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 16 << 20);
    let call = |name: &str| {
        let mut opened = ledger.open(facts(name));
        let intent = ledger.intend(&mut opened).map(drop);
        let _ = ledger.conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb));
        intent
    };
    // A segment that is almost full is the slowest to come back: all of it is read, and written again.
    let long = "x".repeat(4_000);
    while std::fs::metadata(first_segment(dir.path())).unwrap().len() < 15 << 20 {
        ledger
            .append(
                &[Change {
                    action: "config.reloaded",
                    detail: &long,
                    ..Change::default()
                }; 100],
            )
            .unwrap();
    }
    faults.room.store(100, Ordering::SeqCst);
    assert!(call("full").is_err());
    assert!(ledger.tend().is_err(), "still full");
    assert!(call("still full").is_err());
    faults.room.store(i64::MAX, Ordering::SeqCst);
    let space = std::time::Instant::now();
    while call("back").is_err() {
        std::thread::sleep(std::time::Duration::from_millis(50));
        let _ = ledger.tend();
    }
    assert!(
        space.elapsed() < std::time::Duration::from_secs(1),
        "{:?}",
        space.elapsed()
    );
    let refused: Vec<_> = all(dir.path())
        .into_iter()
        .filter(|r| r.call.ends_with("full") && r.kind == "intent")
        .collect();
    assert_eq!(
        refused,
        [],
        "no effect without a record, no record without an effect"
    );
    assert!(verify(dir.path()).unwrap().is_clean());
}

#[test]
fn a_failed_sync_breaks_the_ledger_too() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    ledger
        .record(&Draft {
            action: "a",
            ..Draft::default()
        })
        .unwrap();
    faults.sync_fails.store(true, Ordering::SeqCst);
    assert!(ledger.sync().is_err());
    assert!(ledger.record(&Draft::default()).is_err());
    assert!(ledger.reopen().is_err(), "still failing");
    faults.sync_fails.store(false, Ordering::SeqCst);
    ledger.reopen().unwrap();
    ledger
        .record(&Draft {
            action: "b",
            ..Draft::default()
        })
        .unwrap();
    assert!(verify(dir.path()).unwrap().is_clean());
}

#[test]
fn an_acknowledged_record_that_vanished_is_not_papered_over() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    for _ in 0..3 {
        ledger
            .record(&Draft {
                action: "a",
                ..Draft::default()
            })
            .unwrap();
    }
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    std::fs::write(first_segment(dir.path()), &bytes[..bytes.len() / 2]).unwrap();
    faults.room.store(0, Ordering::SeqCst);
    assert!(ledger.record(&Draft::default()).is_err());
    faults.room.store(i64::MAX, Ordering::SeqCst);
    assert!(matches!(
        ledger.reopen(),
        Err(OpenError::Lost { acknowledged: 2 })
    ));
    assert!(ledger.record(&Draft::default()).is_err());
}

#[test]
fn a_disk_that_fills_up_at_rotation_recovers() {
    for room in (0..6_000).step_by(97) {
        let dir = tempfile::tempdir().unwrap();
        let faults = Arc::new(Faults::default());
        let ledger = open_with(dir.path(), faults.clone(), 1_000);
        faults.room.store(room, Ordering::SeqCst);
        let change = Draft {
            action: "config.loaded",
            ..Draft::default()
        };
        let mut acknowledged = Vec::new();
        while let Ok(position) = ledger.record(&change) {
            acknowledged.push(position);
        }
        faults.room.store(i64::MAX, Ordering::SeqCst);
        ledger.tend().unwrap();
        ledger.record(&change).unwrap();
        let report = verify(dir.path()).unwrap();
        assert!(report.is_clean(), "room {room}: {:?}", report.finding);
        let records = all(dir.path());
        for position in acknowledged {
            assert_eq!(
                records[position.seq as usize].hash,
                position.hash.to_string()
            );
        }
    }
}

/// Answers that could not be recorded are not lost without a trace: the recovery says how many there were, once.
#[test]
fn recovery_says_how_many_answers_are_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    let refuse = |name: String| {
        ledger
            .conclude(
                ledger.open(facts(&name)),
                &Outcome::new(Verdict::Refused, Stage::Weigh),
            )
            .is_ok()
    };
    for (outage, refusals) in [(0, 7), (1, 1), (2, 0)] {
        assert!(refuse(format!("before {outage}")));
        let mut flying = ledger.open(facts("flying"));
        let _ = ledger.intend(&mut flying).unwrap();
        faults.room.store(10, Ordering::SeqCst);
        // The first one finds out, the others are told.
        assert_eq!(
            (0..refusals)
                .filter(|n| refuse(format!("during {outage}.{n}")))
                .count(),
            0
        );
        assert!(
            ledger
                .conclude(flying, &Outcome::new(Verdict::Permitted, Stage::Absorb))
                .is_err(),
            "this one gets an end below"
        );
        assert!(
            ledger.reopen().is_err(),
            "there is still no room, and the number is kept"
        );
        faults.room.store(i64::MAX, Ordering::SeqCst);
        ledger.reopen().unwrap();
        let recovered = all(dir.path())
            .into_iter()
            .rfind(|record| record.action == "ledger.recovered")
            .unwrap();
        assert_eq!(
            recovered.count,
            Some(refusals).filter(|count| *count > 0),
            "{}",
            recovered.detail
        );
        assert_eq!(
            recovered.detail.contains("LedgerUnavailable"),
            refusals > 0,
            "{}",
            recovered.detail
        );
    }
    assert!(verify(dir.path()).unwrap().is_clean());
}
