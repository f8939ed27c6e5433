use super::fake::*;
use crate::*;
use proptest::prelude::*;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vocab::Stage;

fn kept(dir: &Path, call: &str) -> Option<Vec<u8>> {
    body(dir, call).unwrap().bytes()
}

fn files(dir: &Path, extension: &str) -> Vec<PathBuf> {
    let mut files: Vec<_> = std::fs::read_dir(dir.join("bodies"))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.retain(|path| path.extension().unwrap() == extension);
    files.sort();
    files
}

fn call_with(ledger: &Ledger, call: &str, text: &[u8]) {
    let mut opened = ledger.open(facts(call));
    opened.keep_body(text).unwrap();
    let _ = ledger.intend(&mut opened).unwrap();
    let _ = ledger
        .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
}

#[test]
fn a_body_is_with_the_kernel_when_its_intent_is() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let mut opened = ledger.open(facts("c-1"));
    opened.keep_body(br#"{"q":"a canary"}"#).unwrap();
    assert_eq!(
        body(dir.path(), "c-1").unwrap(),
        Body::Absent,
        "keeping alone writes nothing"
    );
    let _ = ledger.intend(&mut opened).unwrap();
    assert_eq!(kept(dir.path(), "c-1").unwrap(), br#"{"q":"a canary"}"#);
    assert_eq!(body(dir.path(), "c-2").unwrap(), Body::Absent);
    drop(opened);
    let records = all(dir.path());
    let sealed = BodyReader::open(dir.path())
        .unwrap()
        .sealed_bytes("c-1")
        .unwrap()
        .unwrap();
    assert_eq!(
        records[0].body,
        Hash::of(&sealed).to_string(),
        "the record names the sealed bytes"
    );
    assert_eq!(records[1].body, records[0].body);
}

#[test]
fn neither_bodies_nor_ledger_hold_the_text_in_the_clear() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    call_with(&ledger, "c-1", b"CANARY-CANARY");
    let everything = files(dir.path(), "bodies")
        .into_iter()
        .chain([first_segment(dir.path())]);
    for file in everything {
        let bytes = std::fs::read(&file).unwrap();
        assert!(
            !bytes.windows(6).any(|window| window == b"CANARY"),
            "{file:?}"
        );
    }
}

#[test]
fn erasing_destroys_the_key_and_leaves_the_proof() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    for i in 0..20 {
        call_with(&ledger, &format!("c-{i}"), format!("body {i}").as_bytes());
    }
    let before = std::fs::read(&files(dir.path(), "keys")[0]).unwrap();
    let erased = ledger.erase_body(&Change {
        call: "c-7",
        caller: "op",
        reason: "asked to",
        ..Change::default()
    });
    assert_eq!(erased.unwrap(), 1);
    assert_eq!(body(dir.path(), "c-7").unwrap(), Body::Erased);
    assert_eq!(kept(dir.path(), "c-8").unwrap(), b"body 8");
    let keys = std::fs::read(&files(dir.path(), "keys")[0]).unwrap();
    assert_eq!(
        (keys.len(), &keys[7 * 64 + 32..8 * 64]),
        (20 * 64, &[0; 32][..])
    );
    assert_eq!(
        (&keys[..7 * 64], &keys[8 * 64..]),
        (&before[..7 * 64], &before[8 * 64..])
    );

    let last = all(dir.path()).pop().unwrap();
    assert_eq!(
        (&*last.action, &*last.call, &*last.caller, &*last.reason),
        ("body.erased", "c-7", "op", "asked to")
    );
    let sealed = BodyReader::open(dir.path())
        .unwrap()
        .sealed_bytes("c-7")
        .unwrap()
        .unwrap();
    let of_call = read(
        dir.path(),
        Filter {
            call: "c-7".into(),
            kind: "intent".into(),
            ..Filter::default()
        },
    )
    .unwrap();
    assert!(
        of_call
            .map(Result::unwrap)
            .all(|record| record.body == Hash::of(&sealed).to_string())
    );
    assert!(verify(dir.path()).unwrap().is_clean());
    assert_eq!(
        ledger
            .erase_body(&Change {
                call: "c-7",
                ..Change::default()
            })
            .unwrap(),
        0
    );
}

#[test]
fn a_long_body_is_cut_with_a_mark() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    for (call, size) in [
        ("empty", 0),
        ("fits", BODY_LIMIT),
        ("over", BODY_LIMIT + 1),
        ("far over", 3 * BODY_LIMIT),
    ] {
        call_with(&ledger, call, &vec![b'x'; size]);
        let Body::Kept { bytes, cut } = body(dir.path(), call).unwrap() else {
            panic!("{call}")
        };
        assert_eq!(
            (bytes.len(), cut),
            (size.min(BODY_LIMIT), size > BODY_LIMIT),
            "{call}"
        );
    }
}

#[test]
fn every_start_and_every_full_part_begins_a_new_pair() {
    let dir = tempfile::tempdir().unwrap();
    for round in 0..3 {
        let ledger = open_with(dir.path(), Arc::default(), 2_000);
        for i in 0..30 {
            call_with(&ledger, &format!("{round}-{i}"), &[b'y'; 300]);
        }
    }
    assert!(files(dir.path(), "keys").len() >= 9);
    let reader = BodyReader::open(dir.path()).unwrap();
    for round in 0..3 {
        assert!(
            (0..30)
                .all(|i| reader.get(&format!("{round}-{i}")).unwrap().bytes()
                    == Some(vec![b'y'; 300]))
        );
    }
}

/// The body goes to the disk before its record: no room for it means no intent, and nothing is lost when room is back.
#[test]
fn a_disk_without_room_for_a_body_refuses_the_intent() {
    for room in (0..400).step_by(7) {
        let dir = tempfile::tempdir().unwrap();
        let faults = Arc::new(Faults::default());
        let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
        call_with(&ledger, "before", b"before");
        faults.room.store(room, Ordering::SeqCst);
        let mut opened = ledger.open(facts("during"));
        opened.keep_body(&[b'z'; 200]).unwrap();
        assert!(ledger.intend(&mut opened).is_err());
        let waiting = ledger.keep_body("waiting", b"waiting").unwrap();
        faults.room.store(i64::MAX, Ordering::SeqCst);
        ledger.tend().unwrap();
        call_with(&ledger, "after", b"after");
        assert_eq!(kept(dir.path(), "before").unwrap(), b"before");
        assert_eq!(
            kept(dir.path(), "waiting").unwrap(),
            b"waiting",
            "room {room}"
        );
        assert_eq!(kept(dir.path(), "after").unwrap(), b"after");
        let sealed = BodyReader::open(dir.path())
            .unwrap()
            .sealed_bytes("waiting")
            .unwrap()
            .unwrap();
        assert_eq!(Hash::of(&sealed), waiting);
        drop(opened);
    }
}

/// A folder that nobody can write to must not make the ledger break and recover, with a record, again and again.
#[test]
fn while_bodies_cannot_be_written_the_ledger_stays_broken_and_quiet() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("bodies"), b"in the way").unwrap();
    let ledger = open(dir.path());
    let mut opened = ledger.open(facts("c-1"));
    opened.keep_body(b"{}").unwrap();
    assert!(ledger.intend(&mut opened).is_err());
    for _ in 0..5 {
        assert!(ledger.tend().is_err());
    }
    assert_eq!(all(dir.path()), []);
    std::fs::remove_file(dir.path().join("bodies")).unwrap();
    ledger.tend().unwrap();
    assert_eq!(all(dir.path()).len(), 1);
    assert_eq!(kept(dir.path(), "c-1").unwrap(), b"{}");
    let _ = ledger
        .conclude(opened, &Outcome::new(Verdict::Refused, Stage::Intend))
        .unwrap();
}

#[test]
fn memory_is_bounded_while_nothing_can_be_written() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    let big = vec![b'x'; BODY_LIMIT];
    let taken = (0..1_000)
        .take_while(|i| ledger.keep_body(&format!("c-{i}"), &big).is_ok())
        .count();
    assert!((100..200).contains(&taken), "{taken}");
    ledger
        .change(&Change {
            action: "config.reloaded",
            ..Change::default()
        })
        .unwrap();
    assert!(ledger.keep_body("again", &big).is_ok());
}

#[test]
fn bodies_are_held_against_their_records() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    for i in 0..6 {
        call_with(&ledger, &format!("c-{i}"), format!("body {i}").as_bytes());
    }
    ledger
        .erase_body(&Change {
            call: "c-1",
            ..Change::default()
        })
        .unwrap();
    assert_eq!(
        verify_bodies(dir.path()).unwrap(),
        BodyReport {
            kept: 5,
            erased: 1,
            ..BodyReport::default()
        }
    );
    // Somebody with the keys seals another body in the place of one: the record knows better.
    let (sealed, keys) = (
        &files(dir.path(), "bodies")[0],
        &files(dir.path(), "keys")[0],
    );
    let (old_sealed, old_keys) = (std::fs::read(sealed).unwrap(), std::fs::read(keys).unwrap());
    let other = tempfile::tempdir().unwrap();
    let forger = open(other.path());
    for i in 0..6 {
        call_with(&forger, &format!("c-{i}"), format!("BODY {i}").as_bytes());
    }
    std::fs::copy(&files(other.path(), "bodies")[0], sealed).unwrap();
    std::fs::copy(&files(other.path(), "keys")[0], keys).unwrap();
    assert_eq!(
        kept(dir.path(), "c-3").unwrap(),
        b"BODY 3",
        "unsealed as such"
    );
    assert_eq!(
        verify_bodies(dir.path()).unwrap().altered,
        [0, 2, 4, 6, 8, 10]
    );
    std::fs::write(sealed, &old_sealed[..old_sealed.len() - 1]).unwrap();
    std::fs::write(keys, &old_keys).unwrap();
    assert_eq!(
        verify_bodies(dir.path()).unwrap(),
        BodyReport {
            kept: 4,
            erased: 1,
            missing: 1,
            ..BodyReport::default()
        }
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whatever happens to the files, a body is what was kept, or it is not there.
    #[test]
    fn a_damaged_body_is_never_another_body(at in 0usize..2_000, flip in 1u8.., keys in any::<bool>(), cut in any::<bool>()) {
        let dir = tempfile::tempdir().unwrap();
        let ledger = open(dir.path());
        for i in 0..9 {
            call_with(&ledger, &format!("c-{i}"), format!("body {i}").as_bytes());
        }
        let file = &files(dir.path(), if keys { "keys" } else { "bodies" })[0];
        let mut bytes = std::fs::read(file).unwrap();
        let at = at % bytes.len();
        if cut { bytes.truncate(at) } else { bytes[at] ^= flip }
        std::fs::write(file, &bytes).unwrap();
        let reader = BodyReader::open(dir.path()).unwrap();
        for i in 0..9 {
            let found = reader.get(&format!("c-{i}")).unwrap().bytes();
            let expected = format!("body {i}").into_bytes();
            prop_assert!(found.is_none() || found == Some(expected));
        }
    }
}
