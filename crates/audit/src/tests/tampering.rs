use super::fake::*;
use crate::record::Draft;
use crate::*;
use proptest::prelude::*;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;

fn verdict_on(dir: &Path, bytes: &[u8]) -> Report {
    std::fs::write(first_segment(dir), bytes).unwrap();
    verify(dir).unwrap()
}

fn lines(bytes: &[u8]) -> Vec<Vec<u8>> {
    bytes
        .split_inclusive(|b| *b == b'\n')
        .map(<[u8]>::to_vec)
        .collect()
}

#[test]
fn an_untouched_ledger_is_clean() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = sample(dir.path(), 50);
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    assert_eq!(
        (report.records, report.segments, report.bytes),
        (50, 1, bytes.len() as u64)
    );
    assert_eq!(report.intents, report.outcomes);
    assert_eq!(report.intents + report.outcomes + report.refusals, 50);
    assert_eq!(report.open_intents, 0);
    assert_eq!(
        report.head.to_string(),
        all(dir.path()).last().unwrap().hash
    );
}

/// Every byte of every record, flipped in place: one bit, the case bit, or all bits, in turn.
#[test]
fn every_flipped_byte_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let bytes = sample(dir.path(), 50);
    let file = OpenOptions::new()
        .write(true)
        .open(first_segment(dir.path()))
        .unwrap();
    let mut line = 1;
    for (at, original) in bytes.iter().enumerate() {
        let flip = [1 << (at % 8), 0x20, 0xff][at % 3];
        file.write_all_at(&[original ^ flip], at as u64).unwrap();
        let finding = verify(dir.path()).unwrap().finding;
        let finding = finding.unwrap_or_else(|| panic!("byte {at} ^ {flip:#x} not found"));
        assert!(
            finding.line == line || finding.line == line + 1,
            "byte {at}: {finding:?}"
        );
        file.write_all_at(&[*original], at as u64).unwrap();
        line += u64::from(*original == b'\n');
    }
    assert!(verify(dir.path()).unwrap().is_clean());
}

#[test]
fn deletion_insertion_and_swap_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let whole = lines(&sample(dir.path(), 50));
    for at in 0..whole.len() {
        if at + 1 < whole.len() {
            let mut deleted = whole.clone();
            deleted.remove(at);
            assert!(
                !verdict_on(dir.path(), &deleted.concat()).is_clean(),
                "deleted {at}"
            );
        }
        let mut inserted = whole.clone();
        inserted.insert(at, whole[at / 2].clone());
        assert!(
            !verdict_on(dir.path(), &inserted.concat()).is_clean(),
            "inserted at {at}"
        );
        for other in at + 1..whole.len() {
            let mut swapped = whole.clone();
            swapped.swap(at, other);
            assert!(
                !verdict_on(dir.path(), &swapped.concat()).is_clean(),
                "swapped {at}, {other}"
            );
        }
    }
}

/// A forger who recomputes one hash must recompute all that follow.
#[test]
fn a_rewritten_record_with_a_fitting_hash_is_found_at_the_next() {
    let dir = tempfile::tempdir().unwrap();
    let mut whole = lines(&sample(dir.path(), 10));
    let text = String::from_utf8(whole[3].clone())
        .unwrap()
        .replace("cred-7", "cred-8");
    let body = text.get(..text.len() - 76).unwrap();
    let prev = all(dir.path())[3].prev.clone();
    let hash = Hash::link(&Hash::from_hex(prev.as_bytes()).unwrap(), body.as_bytes());
    whole[3] = format!("{body},\"hash\":\"{hash}\"}}\n").into_bytes();
    let finding = verdict_on(dir.path(), &whole.concat()).finding.unwrap();
    assert_eq!(finding.line, 5);
}

#[test]
fn missing_and_renamed_segments_are_found() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), std::sync::Arc::default(), 2_000);
    for i in 0..40 {
        let detail = format!("change {i}");
        ledger
            .record(&Draft {
                action: "config.loaded",
                detail: &detail,
                ..Draft::default()
            })
            .unwrap();
    }
    drop(ledger);
    let mut files: Vec<_> = std::fs::read_dir(dir.path())
        .unwrap()
        .map(|e| e.unwrap().path())
        .collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "log"));
    files.sort();
    assert!(files.len() > 4);
    assert!(verify(dir.path()).unwrap().is_clean());
    for file in &files[..files.len() - 1] {
        let kept = std::fs::read(file).unwrap();
        std::fs::remove_file(file).unwrap();
        assert!(!verify(dir.path()).unwrap().is_clean(), "{file:?} removed");
        std::fs::write(file, b"").unwrap();
        assert!(!verify(dir.path()).unwrap().is_clean(), "{file:?} emptied");
        std::fs::write(file, kept).unwrap();
    }
    assert!(verify(dir.path()).unwrap().is_clean());
}

/// The writer's own check at open must not accept damage in the middle as a torn tail.
#[test]
fn damage_in_the_middle_keeps_the_ledger_shut() {
    let dir = tempfile::tempdir().unwrap();
    let mut bytes = sample(dir.path(), 10);
    drop(open(dir.path())); // closes with a signed head over 10 records
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    std::fs::write(first_segment(dir.path()), &bytes).unwrap();
    let error = Ledger::at(dir.path()).unwrap_err();
    assert!(matches!(error, OpenError::Corrupt { .. }), "{error}");
    assert_eq!(
        std::fs::read(first_segment(dir.path())).unwrap(),
        bytes,
        "nothing was cut"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Any splice that changes bytes and keeps at least one of the later lines is found.
    #[test]
    fn any_splice_is_found(start in 0usize..4000, drop in 0usize..600, put in proptest::collection::vec(any::<u8>(), 0..40)) {
        let dir = tempfile::tempdir().unwrap();
        let bytes = sample(dir.path(), 20);
        let end = (start + drop).min(bytes.len() - 1);
        let spliced = [&bytes[..start.min(end)], &put, &bytes[end..]].concat();
        prop_assume!(spliced != bytes);
        prop_assert!(!verdict_on(dir.path(), &spliced).is_clean());
    }
}
