//! Retention removes whole segments from the front, announces it, and leaves a ledger that verifies, at every moment; exports prove
//! themselves.

use super::fake::{Faults, FaultyDisk, START_MS, all, clock, facts, forget_checkpoint};
use super::sim::*;
use crate::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use vocab::Stage;

const HOUR: u64 = 3_600_000;

struct Kept {
    dir: tempfile::TempDir,
    ledger: Ledger,
    passed: Arc<AtomicU64>,
    calls: u64,
}

impl Kept {
    fn new() -> Kept {
        let dir = tempfile::tempdir().unwrap();
        let (clock, passed) = clock();
        let options = Options {
            segment_bytes: 4_000,
        };
        let ledger = Ledger::with(
            dir.path(),
            Box::new(FaultyDisk(Arc::<Faults>::default())),
            clock,
            options,
        )
        .unwrap();
        Kept {
            dir,
            ledger,
            passed,
            calls: 0,
        }
    }

    /// `count` calls, an hour apart, every third with kept arguments.
    fn work(&mut self, count: u64) {
        for _ in 0..count {
            self.passed.fetch_add(HOUR, Ordering::SeqCst);
            call(
                &self.ledger,
                &format!("c-{}", self.calls),
                if self.calls.is_multiple_of(3) { 300 } else { 0 },
            );
            self.calls += 1;
        }
    }

    fn path(&self) -> &Path {
        self.dir.path()
    }

    fn now(&self) -> u64 {
        START_MS + self.passed.load(Ordering::SeqCst)
    }

    /// Keeps the last `hours`.
    fn retain(&self, hours: u64) -> Option<Trimmed> {
        let keep = Keep {
            since_ms: Some(self.now() - hours * HOUR),
            max_bytes: None,
            read_from: None,
        };
        self.ledger
            .retain(
                &keep,
                &Change {
                    user: "ann",
                    reason: "a test",
                    ..Change::default()
                },
            )
            .unwrap()
    }

    fn clean(&self) -> Report {
        let report = verify(self.path()).unwrap();
        assert!(report.is_clean(), "{:?}", report.finding);
        report
    }
}

fn call(ledger: &Ledger, name: &str, body: usize) {
    let mut opened = ledger.open(facts(name));
    if body > 0 {
        opened.keep_body(&vec![b'b'; body]).unwrap();
    }
    let _ = ledger.intend(&mut opened).unwrap();
    let _ = ledger
        .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
}

#[test]
fn what_is_left_verifies_and_says_what_was_removed() {
    let mut kept = Kept::new();
    // Open over several segments, so that its outcome ends an intent that is gone.
    let mut long = kept.ledger.open(facts("long"));
    let _ = kept.ledger.intend(&mut long).unwrap();
    kept.work(40);
    let before = kept.clean();
    assert!(kept.retain(1_000).is_none(), "nothing is old enough");
    let trimmed = kept.retain(15).unwrap();
    assert!(
        trimmed.segments > 2 && trimmed.records == trimmed.first_kept && trimmed.first_kept > 20
    );
    let report = kept.clean();
    assert_eq!(
        (report.first, report.records),
        (trimmed.first_kept, before.records + 1)
    );
    assert_eq!(report.kept(), all(kept.path()).len() as u64);
    let said = all(kept.path()).pop().unwrap();
    assert_eq!(
        (said.action.as_str(), said.count, said.user.as_str()),
        ("ledger.trimmed", Some(trimmed.first_kept), "ann")
    );
    // It goes on, ends what began before, is opened again, and is trimmed again.
    let _ = kept
        .ledger
        .conclude(long, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
    kept.work(30);
    kept.clean();
    let again = kept.retain(10).unwrap();
    assert!(
        again.first_kept > trimmed.first_kept
            && again.records == again.first_kept - trimmed.first_kept
    );
    kept.clean();
    let Kept { dir, ledger, .. } = kept;
    drop(ledger);
    let ledger = Ledger::with(
        dir.path(),
        Box::new(RealDisk),
        clock().0,
        Options {
            segment_bytes: 4_000,
        },
    )
    .unwrap();
    call(&ledger, "later", 10);
    assert!(verify(dir.path()).unwrap().is_clean());
    assert_eq!(
        Follow::new(dir.path(), Filter::default()).poll().unwrap(),
        all(dir.path()),
        "a follower begins with what is there"
    );
}

#[test]
fn arguments_go_with_their_records() {
    let mut kept = Kept::new();
    kept.work(60);
    kept.retain(15).unwrap();
    let left: Vec<String> = all(kept.path())
        .into_iter()
        .filter(|r| r.kind == "intent")
        .map(|r| r.call)
        .collect();
    for n in (0..60).step_by(3) {
        let name = format!("c-{n}");
        let is_there = matches!(body(kept.path(), &name).unwrap(), Body::Kept { .. });
        assert_eq!(is_there, left.contains(&name), "{name}");
    }
    let report = verify_bodies(kept.path()).unwrap();
    assert!(
        report.missing == 0 && report.altered.is_empty() && report.kept > 3,
        "{report:?}"
    );
    // Only one pair of files was ever open, and it holds bodies that stay: they were destroyed in place. A closed one is removed.
    let Kept {
        dir,
        ledger,
        calls,
        passed,
    } = kept;
    drop(ledger);
    let ledger = Ledger::with(
        dir.path(),
        Box::new(RealDisk),
        clock().0,
        Options {
            segment_bytes: 4_000,
        },
    )
    .unwrap();
    let mut kept = Kept {
        dir,
        ledger,
        calls,
        passed,
    };
    kept.work(40);
    let keep = Keep {
        since_ms: None,
        max_bytes: Some(9_000),
        read_from: None,
    };
    let trimmed = kept
        .ledger
        .retain(&keep, &Change::default())
        .unwrap()
        .unwrap();
    let bodies = std::fs::read_dir(kept.path().join("bodies"))
        .unwrap()
        .count();
    assert!(bodies < 2 * 3, "{bodies}");
    assert!(
        trimmed.segments > 0 && removable(kept.path(), &keep).unwrap().is_none(),
        "once is enough"
    );
    kept.clean();
}

#[test]
fn age_waits_for_whoever_still_reads_and_size_does_not() {
    let mut kept = Kept::new();
    kept.work(60);
    let old = Keep {
        since_ms: Some(kept.now() + HOUR),
        ..Keep::default()
    };
    let all = removable(kept.path(), &old).unwrap().unwrap();
    for from in [0, 1, all.first_kept / 2, all.first_kept - 1] {
        let gone = removable(
            kept.path(),
            &Keep {
                read_from: Some(from),
                ..old
            },
        )
        .unwrap();
        assert!(
            gone.is_none_or(|gone| gone.first_kept <= from),
            "{from}: {gone:?}"
        );
    }
    assert_eq!(
        removable(
            kept.path(),
            &Keep {
                read_from: Some(all.first_kept),
                ..old
            }
        )
        .unwrap(),
        Some(all)
    );
    let large = Keep {
        max_bytes: Some(1),
        read_from: Some(0),
        since_ms: None,
    };
    assert!(
        removable(kept.path(), &large).unwrap().is_some(),
        "a reader that is gone for good must not fill the disk"
    );
}

#[test]
fn a_front_that_nobody_announced_is_found() {
    let mut kept = Kept::new();
    kept.work(40);
    let segment = |kept: &Kept, at: usize| {
        let mut names: Vec<_> = std::fs::read_dir(kept.path())
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        names.retain(|path| path.extension().is_some_and(|e| e == "log"));
        names.sort();
        names[at].clone()
    };
    let whole = std::fs::read(segment(&kept, 0)).unwrap();
    std::fs::remove_file(segment(&kept, 0)).unwrap();
    forget_checkpoint(kept.path());
    let finding = verify(kept.path()).unwrap().finding.unwrap();
    assert!(
        finding
            .reason
            .contains("no record says that they were removed"),
        "{finding}"
    );
    std::fs::write(kept.path().join("00000000000000000000.log"), whole).unwrap();
    kept.retain(15).unwrap();
    // More than was announced.
    let next = segment(&kept, 0);
    let bytes = std::fs::read(&next).unwrap();
    std::fs::remove_file(&next).unwrap();
    assert!(!verify(kept.path()).unwrap().is_clean());
    // Every byte of the first records that are left still counts.
    for at in (0..2_500).step_by(7) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(&next, changed).unwrap();
        assert!(!verify(kept.path()).unwrap().is_clean(), "byte {at}");
    }
    std::fs::write(&next, bytes).unwrap();
    kept.clean();
}

#[test]
fn checkpoints_from_before_and_after_are_told_apart() {
    let mut kept = Kept::new();
    kept.work(10);
    let old = kept.ledger.checkpoint().unwrap();
    kept.work(30);
    let recent = kept.ledger.checkpoint().unwrap();
    let key = read_public_key(kept.path()).unwrap().unwrap();
    let before = prove(kept.path(), 5).unwrap();
    let trimmed = kept.retain(15).unwrap();
    let against = |note: &str| verify_against(kept.path(), note, &key).unwrap();
    assert!(against(&recent).is_clean() && against(&recent).unproven.is_empty());
    let report = against(&old);
    assert!(
        report.is_clean()
            && report.unproven.len() == 1
            && report.unproven[0].contains("retention has removed"),
        "{report:?}"
    );
    // A proof from before still holds; a new one can be made for what is left, from the first record on.
    check_proof(&before, &key).unwrap();
    assert!(matches!(
        prove(kept.path(), 5),
        Err(ProofError::Removed { seq: 5 })
    ));
    for seq in trimmed.first_kept..kept.clean().records {
        check_proof(&prove(kept.path(), seq).unwrap(), &key).unwrap();
    }
    // One that covers exactly what was removed can be compared.
    for size in [trimmed.first_kept, trimmed.first_kept + 1] {
        let forged = recent.replacen(
            &format!("\n{}\n", recent.lines().nth(1).unwrap()),
            &format!("\n{size}\n"),
            1,
        );
        assert!(
            verify_against(kept.path(), &forged, &key).is_err(),
            "a changed checkpoint is not signed"
        );
    }
}

#[test]
fn an_export_proves_itself_and_nothing_else() {
    let mut kept = Kept::new();
    kept.work(40);
    kept.ledger.checkpoint().unwrap();
    let first = kept.retain(25).unwrap().first_kept;
    let key = read_public_key(kept.path()).unwrap().unwrap();
    let note = read_checkpoint(kept.path()).unwrap().unwrap();
    let end = Head::verified(&note, &key).unwrap().size;
    for (from, until) in [
        (0, u64::MAX),
        (first, first + 1),
        (first + 3, first + 20),
        (end - 1, end),
        (first, end - 1),
    ] {
        let mut text = Vec::new();
        let made = export(kept.path(), from..until, &mut text).unwrap();
        assert_eq!(
            (made.first, made.first + made.records),
            (from.max(first), until.min(end))
        );
        for (key, against) in [
            (Some(key.as_str()), None),
            (None, None),
            (Some(key.as_str()), Some(note.as_str())),
        ] {
            assert_eq!(check_export(&text[..], key, against).unwrap(), made);
        }
    }
    let mut text = Vec::new();
    export(kept.path(), first + 1..first + 4, &mut text).unwrap();
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    for gone in 0..lines.len() {
        let rest: Vec<u8> = lines
            .iter()
            .enumerate()
            .filter(|(n, _)| *n != gone)
            .flat_map(|(_, line)| line.iter().copied())
            .collect();
        // The line with its own key is not needed where a key is given; everything else is.
        let found = check_export(&rest[..], Some(&key), None);
        assert!(found.is_err(), "line {gone}: {found:?}");
    }
    for at in 0..text.len() {
        let mut changed = text.clone();
        changed[at] ^= 1;
        let found = check_export(&changed[..], Some(&key), None);
        let is_key = lines[1].as_ptr_range().contains(&text[at..].as_ptr());
        assert!(found.is_err() || is_key, "byte {at}");
    }
    let other = Kept::new();
    other.ledger.change(&Change::default()).unwrap();
    other.ledger.checkpoint().unwrap();
    let strange = read_public_key(other.path()).unwrap().unwrap();
    assert!(matches!(
        check_export(&text[..], Some(&strange), None),
        Err(ExportError::Head(_))
    ));
    assert!(matches!(
        export(kept.path(), end..u64::MAX, &mut Vec::new()),
        Err(ProofError::NotCovered { .. })
    ));
}

fn open(sim: &Sim) -> Result<Ledger, OpenError> {
    Ledger::with(
        "/ledger",
        Box::new(sim.clone()),
        clock().0,
        Options {
            segment_bytes: 2_500,
        },
    )
}

/// Work, a removal with a call in flight, more work, another removal; what was acknowledged.
fn workload(sim: &Sim) -> Vec<Position> {
    let mut acknowledged = Vec::new();
    for life in 0..2 {
        let Ok(ledger) = open(sim) else {
            return acknowledged;
        };
        let mut long = ledger.open(facts("long"));
        acknowledged.extend(ledger.intend(&mut long).map(|intent| intent.position()));
        for n in 0..8 {
            let mut opened = ledger.open(facts(&format!("c-{life}-{n}")));
            let _ = opened.keep_body(&[b'b'; 200]);
            if let Ok(intent) = ledger.intend(&mut opened) {
                acknowledged.push(intent.position());
                let done =
                    ledger.conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb));
                acknowledged.extend(done.map(|sealed| sealed.position()));
            } else {
                let _ = ledger.conclude(opened, &Outcome::new(Verdict::Refused, Stage::Intend));
            }
        }
        let keep = Keep {
            since_ms: None,
            max_bytes: Some(8_000),
            read_from: None,
        };
        let _ = ledger.retain(&keep, &Change::default());
        while ledger.status().broken.is_some() && ledger.tend().is_err() && !sim.is_stopped() {}
        let done = ledger.conclude(long, &Outcome::new(Verdict::Permitted, Stage::Absorb));
        acknowledged.extend(done.map(|sealed| sealed.position()));
        let _ = ledger.tend();
    }
    acknowledged
}

/// The ledger is whole up to its end, and holds everything acknowledged below `durable` that was not removed.
fn reconcile(sim: &Sim, acknowledged: &[Position], durable: u64, context: &str) -> Report {
    drop(open(sim).unwrap_or_else(|error| panic!("{context}: {error}")));
    let report = sim.verify();
    assert!(report.is_clean(), "{context}: {:?}", report.finding);
    assert!(report.unproven.is_empty(), "{context}");
    let records = sim.records();
    for position in acknowledged
        .iter()
        .filter(|position| position.seq < durable && position.seq >= report.first)
    {
        let found = records
            .get((position.seq - report.first) as usize)
            .map(|record| record.hash.clone());
        assert_eq!(
            found,
            Some(position.hash.to_string()),
            "{context}: record {} is lost",
            position.seq
        );
    }
    report
}

#[test]
fn a_fault_at_every_operation_of_a_removal_leaves_a_ledger_that_verifies() {
    let calm = Sim::default();
    let acknowledged = workload(&calm);
    let (ops, trace) = (calm.ops(), calm.trace());
    let report = reconcile(&calm, &acknowledged, u64::MAX, "calm");
    assert!(
        report.first > 10 && trace.iter().filter(|name| **name == "unlink").count() > 4,
        "{report:?}"
    );
    for fault in Fault::ALL {
        for at in 0..ops {
            let context = format!("{fault:?} at operation {at}, {}", trace[at as usize]);
            let sim = Sim::default();
            sim.plan(at, fault);
            let acknowledged = workload(&sim);
            reconcile(&sim.after_kill(), &acknowledged, u64::MAX, &context);
            // After a power cut nothing is known to be durable here but what stands behind a removal: it verifies all the same.
            reconcile(
                &sim.after_power_cut(&mut Dice(at * 7 + fault as u64)),
                &acknowledged,
                0,
                &context,
            );
        }
    }
}
