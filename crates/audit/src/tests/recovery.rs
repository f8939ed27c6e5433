use super::fake::*;
use crate::record::Draft;
use crate::*;
use proptest::prelude::*;
use std::sync::Arc;
use vocab::Stage;

#[test]
fn a_tail_torn_at_any_byte_loses_no_earlier_record() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = sample(dir.path(), 8);
    let before = all(dir.path());
    let last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    for cut in last..bytes.len() {
        std::fs::write(first_segment(dir.path()), &bytes[..cut]).unwrap();
        forget_checkpoint(dir.path());
        assert_eq!(verify(dir.path()).unwrap().is_clean(), cut == last);
        drop(open(dir.path()));
        let after = all(dir.path());
        assert_eq!(after[..7], before[..7], "cut at {cut}");
        assert_eq!(after[7].action, "ledger.head_missing");
        assert_eq!(after.len(), if cut == last { 8 } else { 9 });
        if cut > last {
            assert_eq!(after[8].action, "ledger.torn_tail_cut");
            assert!(
                after[8]
                    .detail
                    .contains(&format!("cut {} bytes", cut - last)),
                "{}",
                after[8].detail
            );
        }
        assert!(verify(dir.path()).unwrap().is_clean(), "cut at {cut}");
    }
}

#[test]
fn a_last_line_that_does_not_fit_is_cut_and_zeros_too() {
    for tail in [
        &b"{\"v\":1,\"seq\":7}\n"[..],
        &[0; 300],
        b"\n",
        b"\n\n\n",
        b"\xff\xfe\n{",
    ] {
        let dir = tempfile::tempdir().unwrap();
        let bytes = sample(dir.path(), 7);
        std::fs::write(first_segment(dir.path()), [&bytes, tail].concat()).unwrap();
        assert!(!verify(dir.path()).unwrap().is_clean());
        drop(open(dir.path()));
        let report = verify(dir.path()).unwrap();
        assert!(report.is_clean(), "{:?}", report.finding);
        assert_eq!(
            report.records, 9,
            "and two that tell of the cut and of the head that was not there"
        );
    }
}

#[test]
fn a_ledger_is_open_once() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let error = Ledger::at(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::InUse { .. }), "{error}");
    drop(ledger);
    Ledger::at(dir.path()).unwrap();
}

#[test]
fn an_intent_without_an_outcome_becomes_indeterminate_once() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let mut first = ledger.open(facts("c-1"));
    let mut second = ledger.open(facts("c-2"));
    let _ = ledger.intend(&mut first).unwrap();
    let _ = ledger.intend(&mut second).unwrap();
    let _ = ledger
        .conclude(first, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
    // As if the process died here: the bytes as they are, without the drop record.
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    drop(second);
    drop(ledger);
    std::fs::write(first_segment(dir.path()), bytes).unwrap();
    forget_checkpoint(dir.path());

    for _ in 0..2 {
        drop(open(dir.path()));
        let records = all(dir.path());
        assert_eq!(records.len(), 5);
        assert_eq!(
            (&*records[4].verdict, &*records[4].call, records[4].intent),
            ("indeterminate", "c-2", Some(1))
        );
        // It is found by whatever its intent is found by.
        let words = |r: &Record| {
            [
                &r.caller, &r.server, &r.tool, &r.session, &r.action, &r.door, &r.label, &r.args,
            ]
            .map(Clone::clone)
        };
        assert_eq!(
            (words(&records[4]), records[4].args_bytes),
            (words(&records[1]), Some(57))
        );
        assert_eq!(records[4].tool, "search");
        let report = verify(dir.path()).unwrap();
        assert!(report.is_clean() && report.open_intents == 0);
    }
}

/// A call that outlives several segments is still known after a crash, though only the last segment is read.
#[test]
fn open_intents_are_carried_across_segments() {
    let dir = tempfile::tempdir().unwrap();
    let copy = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 4_000);
    let mut long: Vec<Opened> = (0..300)
        .map(|i| ledger.open(facts(&format!("long {i}"))))
        .collect();
    for opened in &mut long {
        let _ = ledger.intend(opened).unwrap();
    }
    for i in 0..60 {
        let mut opened = ledger.open(facts(&format!("short-{i}")));
        let _ = ledger.intend(&mut opened).unwrap();
        let _ = ledger
            .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
            .unwrap();
    }
    let finished = long.pop().unwrap();
    let _ = ledger
        .conclude(finished, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
    for entry in std::fs::read_dir(dir.path()).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, copy.path().join(path.file_name().unwrap())).unwrap();
    }
    let report = verify(copy.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    assert!(report.segments > 20);
    assert_eq!(report.open_intents, 299);
    drop(long);

    drop(open_with(copy.path(), Arc::default(), 4_000));
    let report = verify(copy.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    assert_eq!(report.open_intents, 0);
    let lost: Vec<Record> = all(copy.path())
        .into_iter()
        .filter(|record| record.verdict == "indeterminate")
        .collect();
    assert!(
        lost.iter()
            .all(|record| record.call.starts_with("long ") && record.tool == "search"),
        "{:?}",
        lost[0]
    );
    let lost = read(
        copy.path(),
        Filter {
            verdict: "indeterminate".into(),
            ..Filter::default()
        },
    )
    .unwrap();
    assert_eq!(lost.count(), 299);
}

/// A crash right after the new segment's file appeared, or in the middle of its first batch.
#[test]
fn a_crash_while_rotating_is_recovered_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 1_000);
    let mut long = ledger.open(facts("long"));
    let _ = ledger.intend(&mut long).unwrap();
    let change = Draft {
        action: "config.loaded",
        ..Draft::default()
    };
    let mut second = None;
    while second.is_none() {
        ledger.record(&change).unwrap();
        second = std::fs::read_dir(dir.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .find(|p| p.extension().is_some_and(|e| e == "log") && *p != first_segment(dir.path()));
    }
    let second = second.unwrap();
    let (one, two) = (
        std::fs::read(first_segment(dir.path())).unwrap(),
        std::fs::read(&second).unwrap(),
    );
    drop(long);
    drop(ledger);
    for cut in 0..=two.len() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(first_segment(dir.path()), &one).unwrap();
        std::fs::write(dir.path().join(second.file_name().unwrap()), &two[..cut]).unwrap();
        drop(open(dir.path()));
        let report = verify(dir.path()).unwrap();
        assert!(report.is_clean(), "cut at {cut}: {:?}", report.finding);
        assert_eq!(report.open_intents, 0, "cut at {cut}");
        assert_eq!(
            all(dir.path())
                .iter()
                .filter(|r| r.verdict == "indeterminate")
                .count(),
            1
        );
    }
}

#[test]
fn a_reopened_ledger_goes_on_in_the_same_chain() {
    let dir = tempfile::tempdir().unwrap();
    let mut seqs = 0;
    for round in 0..5 {
        let ledger = open(dir.path());
        assert_eq!(ledger.status().records, seqs);
        for _ in 0..round {
            ledger
                .record(&Draft {
                    action: "credential.created",
                    ..Draft::default()
                })
                .unwrap();
            seqs += 1;
        }
    }
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean() && report.records == 10);
}

/// A ledger that was closed has said how far it is durable. What is gone from below that was taken away.
#[test]
fn a_closed_ledger_that_lost_its_tail_stays_shut() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path(), 9);
    drop(open(dir.path())); // closes with a signed head over 10 records: one says that there was none before
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    let last = bytes[..bytes.len() - 1]
        .iter()
        .rposition(|b| *b == b'\n')
        .unwrap()
        + 1;
    for cut in [last, last + 5, bytes.len() - 1, 0] {
        std::fs::write(first_segment(dir.path()), &bytes[..cut]).unwrap();
        let error = Ledger::at(dir.path()).unwrap_err();
        let found = if cut == 0 { 0 } else { 9 };
        assert!(
            matches!(error, OpenError::RolledBack { checkpoint: 10, found: f, .. } if f == found),
            "{error}"
        );
        assert_eq!(
            std::fs::read(first_segment(dir.path())).unwrap(),
            &bytes[..cut],
            "nothing was cut"
        );
        assert!(
            error
                .to_string()
                .contains("move its file `checkpoint` aside")
        );
    }
    forget_checkpoint(dir.path());
    drop(open(dir.path()));
}

/// A power cut can keep a later write and lose an earlier one. That is no damage unless it was synced.
#[test]
fn records_behind_a_hole_are_cut_and_kept_aside() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = sample(dir.path(), 9);
    let ends: Vec<usize> = bytes
        .iter()
        .enumerate()
        .filter(|(_, b)| **b == b'\n')
        .map(|(at, _)| at + 1)
        .collect();
    let mut holed = bytes.clone();
    holed[ends[4]..ends[6]].fill(0);
    std::fs::write(first_segment(dir.path()), &holed).unwrap();
    drop(open(dir.path()));
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    let cut = all(dir.path())
        .into_iter()
        .find(|r| r.action == "ledger.torn_tail_cut")
        .unwrap();
    assert_eq!(cut.seq, 6);
    assert!(
        cut.detail.contains("2 whole records follow"),
        "{}",
        cut.detail
    );
    let name = cut.detail.rsplit(' ').next().unwrap();
    assert_eq!(
        std::fs::read(dir.path().join(name)).unwrap(),
        &holed[ends[4]..]
    );
}

/// Ledgers of before the tree carry none in their rotation records; every segment is read once, and the tree is the same.
#[test]
fn the_tree_survives_rotation_and_restart() {
    let dir = tempfile::tempdir().unwrap();
    let mut expected = crate::tree::Tree::default();
    for round in 0..12 {
        let ledger = open_with(dir.path(), Arc::default(), 1_500);
        for i in 0..round * 3 {
            ledger
                .record(&Draft {
                    action: "config.loaded",
                    count: Some(i),
                    ..Draft::default()
                })
                .unwrap();
        }
        let tree = ledger.shared.writer.lock().tree.clone();
        for record in all(dir.path()).iter().skip(expected.size() as usize) {
            expected.push(&Hash::from_hex(record.hash.as_bytes()).unwrap());
        }
        assert_eq!(tree, expected, "round {round}");
    }
    assert!(verify(dir.path()).unwrap().segments > 20);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    /// Whatever bytes lie in the directory, nothing panics, and what opens is clean.
    #[test]
    fn any_bytes_are_survived(junk in proptest::collection::vec(any::<u8>(), 0..300), keep in 0usize..3000, prefix in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let mut bytes = if prefix { sample(dir.path(), 5) } else { Vec::new() };
        bytes.truncate(keep);
        bytes.extend(junk);
        std::fs::write(first_segment(dir.path()), &bytes).unwrap();
        let _ = read(dir.path(), Filter::default()).unwrap().count();
        let _ = Follow::new(dir.path(), Filter::default()).poll();
        let _ = verify(dir.path()).unwrap();
        if Ledger::at(dir.path()).is_ok() {
            let report = verify(dir.path()).unwrap();
            prop_assert!(report.is_clean(), "{:?}", report.finding);
            prop_assert_eq!(report.open_intents, 0);
        }
    }
}
