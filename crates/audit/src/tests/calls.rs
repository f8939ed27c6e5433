use super::fake::*;
use crate::*;
use std::sync::atomic::Ordering;
use vocab::Stage;

#[test]
fn a_permitted_call_is_an_intent_and_an_outcome() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, passed) = clock();
    let ledger = Ledger::with(dir.path(), Box::new(RealDisk), clock, Options::default()).unwrap();

    let mut opened = ledger.open(facts("c-1"));
    assert_eq!(ledger.status().records, 0, "opened is memory only");
    let intent = ledger.intend(&mut opened).unwrap();
    assert_eq!(
        (intent.position().seq, ledger.status().open_intents),
        (0, 1)
    );
    passed.store(12, Ordering::SeqCst);
    let outcome = Outcome {
        label_after: "CONFIDENTIAL",
        result: &"cd".repeat(32),
        result_bytes: Some(99),
        ..Outcome::new(Verdict::Permitted, Stage::Absorb)
    };
    let sealed = ledger.conclude(opened, &outcome).unwrap();
    assert_eq!(
        (sealed.position().seq, ledger.status().open_intents),
        (1, 0)
    );

    let records = all(dir.path());
    let [intent, outcome] = records.as_slice() else {
        panic!("{records:?}")
    };
    assert_eq!(
        (&*intent.kind, &*intent.stage, intent.intent),
        ("intent", "Intend", None)
    );
    assert_eq!(
        (&*outcome.kind, &*outcome.verdict, outcome.intent),
        ("outcome", "permitted", Some(0))
    );
    assert_eq!(
        (outcome.us, outcome.result_bytes, &*outcome.label_after),
        (Some(12_000), Some(99), "CONFIDENTIAL")
    );
    assert_eq!(
        (outcome.ms, &*intent.time),
        (START_MS + 12, "2026-11-15T10:47:05.123Z")
    );
    assert_eq!(outcome.prev, intent.hash);
    assert_eq!(outcome.hash, ledger.status().head.to_string());
}

#[test]
fn a_refused_call_is_one_refusal() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let opened = ledger.open(facts("c-1"));
    let outcome = Outcome {
        violation: "WouldViolateWriteDown",
        detail: "session CONFIDENTIAL, server PUBLIC",
        ..Outcome::new(Verdict::Refused, Stage::Weigh)
    };
    let _ = ledger.conclude(opened, &outcome).unwrap();
    let records = all(dir.path());
    assert_eq!(records.len(), 1);
    assert_eq!(
        (&*records[0].kind, &*records[0].violation),
        ("refusal", "WouldViolateWriteDown")
    );
}

#[test]
fn a_dropped_call_is_a_bug_record() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let mut opened = ledger.open(facts("c-1"));
    let _ = ledger.intend(&mut opened).unwrap();
    drop(opened);
    let records = all(dir.path());
    assert_eq!(
        (&*records[1].verdict, records[1].intent),
        ("abandoned", Some(0))
    );
    assert_eq!(ledger.status().open_intents, 0);
}

#[test]
fn a_call_intends_once() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let mut opened = ledger.open(facts("c-1"));
    let _ = ledger.intend(&mut opened).unwrap();
    assert!(ledger.intend(&mut opened).is_err());
    let _ = ledger
        .conclude(opened, &Outcome::new(Verdict::Failed, Stage::Dispatch))
        .unwrap();
    assert_eq!(all(dir.path()).len(), 2);
    assert!(verify(dir.path()).unwrap().is_clean());
}

#[test]
fn a_batch_is_one_write() {
    let dir = tempfile::tempdir().unwrap();
    let faults = std::sync::Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    let draft = Change {
        action: "server.state",
        server: "github",
        ..Change::default()
    };
    let appended = ledger.append(&[draft; 7]).unwrap();
    assert_eq!((appended.first, appended.last), (0, 6));
    assert_eq!(appended.head, ledger.status().head);
    assert_eq!(faults.writes.lock().unwrap().len(), 1);
    assert_eq!(ledger.sync().unwrap(), 7);
}

/// Evidence cannot be copied: this does not compile if one of the three becomes `Clone`.
#[test]
fn evidence_is_not_clone() {
    trait AmbiguousIfClone<Marker> {
        fn check() {}
    }
    impl<T> AmbiguousIfClone<()> for T {}
    impl<T: Clone> AmbiguousIfClone<u8> for T {}
    <Opened as AmbiguousIfClone<_>>::check();
    <Intent as AmbiguousIfClone<_>>::check();
    <Concluded as AmbiguousIfClone<_>>::check();
}
