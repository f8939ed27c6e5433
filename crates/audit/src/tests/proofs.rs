use super::fake::*;
use crate::record::Draft;
use crate::tree::Tree;
use crate::*;
use std::path::Path;
use std::sync::Arc;

/// The tree by its definition (RFC 6962, 2.1), without any cleverness.
fn root_by_definition(records: &[Hash]) -> Hash {
    match records {
        [] => Hash::of(b""),
        [record] => Hash::leaf(record),
        _ => {
            let (left, right) = records.split_at(records.len().next_power_of_two() / 2);
            Hash::node(&root_by_definition(left), &root_by_definition(right))
        }
    }
}

fn hashes(dir: &Path) -> Vec<Hash> {
    all(dir)
        .iter()
        .map(|record| Hash::from_hex(record.hash.as_bytes()).unwrap())
        .collect()
}

fn grow(ledger: &Ledger, by: u64) {
    for i in 0..by {
        ledger
            .record(&Draft {
                action: "config.loaded",
                count: Some(i),
                ..Draft::default()
            })
            .unwrap();
    }
}

#[test]
fn the_tree_is_the_one_of_rfc_6962() {
    let records: Vec<Hash> = (0..300_u64).map(|i| Hash::of(&i.to_le_bytes())).collect();
    let mut tree = Tree::default();
    for (size, record) in records.iter().enumerate() {
        assert_eq!(tree.root(), root_by_definition(&records[..size]));
        assert_eq!(Tree::from_hex(size as u64, &tree.to_hex()).unwrap(), tree);
        assert_eq!(
            Tree::from_hex(size as u64 + 1, &tree.to_hex()).is_some(),
            (size + 1).count_ones() == size.count_ones()
        );
        tree.push(record);
    }
    // The first test vectors of RFC 6962's reference code are over other leaves; the empty root is the same.
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert_eq!(Tree::default().root().to_string(), empty);
}

#[test]
fn a_checkpoint_is_a_signed_note_over_what_is_synced() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 2_000);
    grow(&ledger, 77);
    let note = ledger.checkpoint().unwrap();
    assert_eq!(ledger.status().synced, ledger.status().records);
    assert_eq!(read_checkpoint(dir.path()).unwrap().unwrap(), note);
    let key = read_public_key(dir.path()).unwrap().unwrap();
    let head = Head::verified(&note, &key).unwrap();
    let records = hashes(dir.path());
    assert_eq!(
        (head.size, head.root),
        (records.len() as u64, root_by_definition(&records))
    );
    assert_eq!(note.lines().next().unwrap(), head.origin);
    assert_eq!(key.split('+').next().unwrap(), head.origin);
    let report = verify(dir.path()).unwrap();
    assert_eq!(
        (report.root, report.checkpoint),
        (head.root, Some(head.size))
    );
    // The key stays: a ledger that is opened again is the same ledger.
    drop(ledger);
    let again = open(dir.path());
    grow(&again, 1);
    assert!(
        Head::verified(&again.checkpoint().unwrap(), &key)
            .unwrap()
            .size
            > head.size
    );
}

#[test]
fn the_signing_key_is_for_its_owner_only() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().unwrap();
    let ledger = Ledger::at(dir.path()).unwrap();
    grow(&ledger, 1);
    ledger.checkpoint().unwrap();
    let mode = std::fs::metadata(dir.path().join("checkpoint.key"))
        .unwrap()
        .permissions()
        .mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn tend_signs_once_a_second_and_only_news() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, passed) = clock();
    let disk = Box::new(FaultyDisk(Arc::default()));
    let ledger = Ledger::with(dir.path(), disk, clock, Options::default()).unwrap();
    let signed = || {
        read_checkpoint(dir.path())
            .unwrap()
            .map(|note| note.lines().nth(1).unwrap().parse::<u64>().unwrap())
    };
    ledger.tend().unwrap();
    assert_eq!(
        signed(),
        Some(0),
        "a ledger has a head from its first moment on"
    );
    for (ms, expected) in [
        (0, 1),
        (200, 1),
        (900, 1),
        (1_100, 4),
        (1_300, 4),
        (2_200, 6),
    ] {
        passed.store(ms, std::sync::atomic::Ordering::SeqCst);
        grow(&ledger, 1);
        ledger.tend().unwrap();
        assert_eq!(signed(), Some(expected), "at {ms} ms");
    }
}

/// Any one byte of the signed head, of its key, or of both in a row: not accepted.
#[test]
fn a_changed_checkpoint_is_no_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    grow(&ledger, 9);
    let note = ledger.checkpoint().unwrap();
    let key = read_public_key(dir.path()).unwrap().unwrap();
    for at in 0..note.len() {
        for flip in [1, 2, 0x20] {
            let mut bytes = note.clone().into_bytes();
            bytes[at] ^= flip;
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            assert!(
                Head::verified(&changed, &key).is_err(),
                "byte {at} ^ {flip}"
            );
            std::fs::write(dir.path().join("checkpoint"), &bytes).unwrap();
            assert!(
                !verify(dir.path()).unwrap().is_clean(),
                "byte {at} ^ {flip}"
            );
        }
    }
    std::fs::write(dir.path().join("checkpoint"), &note).unwrap();
    for at in 0..key.len() {
        let mut bytes = key.clone().into_bytes();
        bytes[at] ^= 1;
        assert!(
            Head::verified(&note, &String::from_utf8_lossy(&bytes)).is_err(),
            "key byte {at}"
        );
    }
    // A witness's signature below ours changes nothing.
    let witnessed = format!("{note}— witness.example AAAAAAAA\n");
    assert_eq!(
        Head::verified(&witnessed, &key).unwrap(),
        Head::verified(&note, &key).unwrap()
    );
    assert!(verify(dir.path()).unwrap().is_clean());
}

#[test]
fn every_record_has_a_proof_at_every_size() {
    for size in 1..40 {
        let dir = tempfile::tempdir().unwrap();
        let ledger = open_with(dir.path(), Arc::default(), 3_000);
        grow(&ledger, size);
        ledger.checkpoint().unwrap();
        let key = read_public_key(dir.path()).unwrap().unwrap();
        let records = all(dir.path());
        for record in &records {
            let proven = check_proof(&prove(dir.path(), record.seq).unwrap(), &key).unwrap();
            assert_eq!(&proven.record, record);
            assert_eq!(proven.head.size, records.len() as u64);
        }
        let beyond = prove(dir.path(), records.len() as u64).unwrap_err();
        assert!(matches!(beyond, ProofError::NoRecord { .. }), "{beyond}");
        ledger
            .change(&Change {
                action: "config.applied",
                ..Change::default()
            })
            .unwrap();
        let unsigned = prove(dir.path(), records.len() as u64).unwrap_err();
        assert!(
            matches!(unsigned, ProofError::NotCovered { .. }),
            "{unsigned}"
        );
    }
}

#[test]
fn a_proof_with_any_byte_changed_proves_nothing_else() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    grow(&ledger, 21);
    ledger.checkpoint().unwrap();
    let key = read_public_key(dir.path()).unwrap().unwrap();
    let proof = prove(dir.path(), 13).unwrap();
    let shown = check_proof(&proof, &key).unwrap();
    for at in 0..proof.len() {
        for flip in [1, 4, 0x20] {
            let mut bytes = proof.clone().into_bytes();
            bytes[at] ^= flip;
            let changed = String::from_utf8_lossy(&bytes).into_owned();
            assert!(check_proof(&changed, &key).is_err(), "byte {at} ^ {flip}");
        }
    }
    // Another ledger's key does not accept it.
    let other = tempfile::tempdir().unwrap();
    let stranger = open(other.path());
    grow(&stranger, 21);
    stranger.checkpoint().unwrap();
    assert!(check_proof(&proof, &read_public_key(other.path()).unwrap().unwrap()).is_err());
    assert_eq!(shown.record.seq, 13);
}

/// A ledger written anew from some record on, with every hash recomputed: what a forger without the key can do.
fn rewrite(dir: &Path, from: usize, keep: usize) {
    let mut previous = Hash::GENESIS;
    let mut out = Vec::new();
    for record in all(dir).iter().take(keep) {
        let mut fields = serde_json::to_string(record).unwrap();
        if record.seq as usize >= from {
            fields = fields.replace("config.loaded", "config.forged");
        }
        let body = fields.split(",\"prev\":").next().unwrap().to_owned()
            + &format!(",\"prev\":\"{previous}\"");
        previous = Hash::link(&previous, body.as_bytes());
        out.extend_from_slice(format!("{body},\"hash\":\"{previous}\"}}\n").as_bytes());
    }
    std::fs::write(first_segment(dir), out).unwrap();
}

#[test]
fn rollback_and_forks_are_found_against_a_kept_checkpoint() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    grow(&ledger, 20);
    let kept = ledger.checkpoint().unwrap();
    grow(&ledger, 10);
    drop(ledger);
    let key = read_public_key(dir.path()).unwrap().unwrap();
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    let against = || {
        verify_against(dir.path(), &kept, &key)
            .unwrap()
            .finding
            .map(|finding| finding.reason)
    };
    assert_eq!(against(), None);

    // The forger also takes the ledger's own head away, so that only the kept one tells.
    forget_checkpoint(dir.path());
    for keep in [0, 1, 19] {
        std::fs::write(first_segment(dir.path()), &bytes).unwrap();
        rewrite(dir.path(), usize::MAX, keep);
        assert!(
            verify(dir.path()).unwrap().is_clean(),
            "a shorter ledger is a ledger"
        );
        assert!(against().unwrap().starts_with("rolled back"), "kept {keep}");
    }
    for from in [0, 7, 19] {
        std::fs::write(first_segment(dir.path()), &bytes).unwrap();
        rewrite(dir.path(), from, 30);
        assert!(
            verify(dir.path()).unwrap().is_clean(),
            "a rewritten ledger is a ledger"
        );
        assert!(against().unwrap().starts_with("forked"), "from {from}");
    }
    std::fs::write(first_segment(dir.path()), &bytes).unwrap();
    rewrite(dir.path(), 20, 30);
    assert_eq!(
        against(),
        None,
        "what came after the kept checkpoint is not covered by it"
    );
    let error = verify_against(dir.path(), &kept.replace("20\n", "19\n"), &key).unwrap_err();
    assert!(error.to_string().contains("does not fit"), "{error}");
}

/// The ledger's own head finds the same, as long as the forger does not have its key.
#[test]
fn rollback_and_forks_are_found_against_the_own_head() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    grow(&ledger, 20);
    drop(ledger);
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    rewrite(dir.path(), usize::MAX, 19);
    assert!(
        verify(dir.path())
            .unwrap()
            .finding
            .unwrap()
            .reason
            .starts_with("rolled back")
    );
    std::fs::write(first_segment(dir.path()), &bytes).unwrap();
    rewrite(dir.path(), 3, 20);
    assert!(
        verify(dir.path())
            .unwrap()
            .finding
            .unwrap()
            .reason
            .starts_with("forked")
    );
}

/// A key that was kept outside decides, whatever lies beside the ledger.
#[test]
fn a_kept_key_must_have_signed_the_own_head() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    for dir in [&dir, &other] {
        grow(&open(dir.path()), 5);
    }
    let key = read_public_key(dir.path()).unwrap().unwrap();
    let foreign = read_public_key(other.path()).unwrap().unwrap();
    assert!(verify_signed(dir.path(), &key).unwrap().is_clean());
    for (ledger, key) in [(&dir, &foreign), (&other, &key)] {
        let finding = verify_signed(ledger.path(), key)
            .unwrap()
            .finding
            .expect("another ledger, or another key");
        assert!(
            finding.reason.contains("not signed with the given key"),
            "{finding}"
        );
    }
    for bad in [
        "",
        "garbage",
        "a+b+c",
        key.trim_end_matches('=')
            .trim_end_matches(char::is_alphanumeric),
    ] {
        assert_eq!(
            verify_signed(dir.path(), bad).unwrap_err().kind(),
            std::io::ErrorKind::InvalidInput,
            "{bad}"
        );
    }
}

#[test]
fn a_ledger_without_a_head_says_what_it_cannot_show() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open(dir.path());
    grow(&ledger, 10);
    drop(ledger);
    assert!(verify(dir.path()).unwrap().unproven.is_empty());
    forget_checkpoint(dir.path());
    rewrite(dir.path(), usize::MAX, 6);
    let report = verify(dir.path()).unwrap();
    assert!(
        report.is_clean() && report.unproven[0].contains("no checkpoint"),
        "{report:?}"
    );
    // Whoever opens it is told, and so is whoever reads it later; from then on there is a head again.
    let ledger = open(dir.path());
    assert!(
        ledger.unsigned().unwrap().starts_with("6 records"),
        "{:?}",
        ledger.unsigned()
    );
    drop(ledger);
    let said = all(dir.path()).pop().unwrap();
    assert!(
        said.action == "ledger.head_missing" && said.detail.contains("6 records"),
        "{said:?}"
    );
    assert!(
        open(dir.path()).unsigned().is_none() && verify(dir.path()).unwrap().unproven.is_empty()
    );
    assert!(
        open(&dir.path().join("new")).unsigned().is_none(),
        "a new ledger misses nothing"
    );
}
