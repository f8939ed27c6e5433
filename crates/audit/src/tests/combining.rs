use super::fake::*;
use crate::record::Draft;
use crate::*;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use vocab::Stage;

#[test]
fn many_threads_make_one_chain() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 100_000);
    let threads: Vec<_> = (0..8)
        .map(|t| {
            let ledger = ledger.clone();
            std::thread::spawn(move || {
                let mut seqs = Vec::new();
                for i in 0..200 {
                    let mut opened = ledger.open(facts(&format!("{t}-{i}")));
                    let intent = ledger.intend(&mut opened).unwrap();
                    let sealed = ledger
                        .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
                        .unwrap();
                    assert!(sealed.position().seq > intent.position().seq);
                    seqs.extend([intent.position().seq, sealed.position().seq]);
                }
                seqs
            })
        })
        .collect();
    let seqs: Vec<u64> = threads
        .into_iter()
        .flat_map(|t| t.join().unwrap())
        .collect();
    assert_eq!(
        seqs.iter().collect::<HashSet<_>>().len(),
        3200,
        "every record has its own place"
    );
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    assert_eq!(
        (report.intents, report.outcomes, report.open_intents),
        (1600, 1600, 0)
    );
    assert!(report.segments > 5);
}

/// Threads keep calling while the disk comes and goes: what was acknowledged is in the ledger, and what was refused is not.
#[test]
fn acknowledged_means_written_while_the_disk_comes_and_goes() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 50_000);
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let ledger = ledger.clone();
            std::thread::spawn(move || {
                let (mut acknowledged, mut refused) = (Vec::new(), HashSet::new());
                while acknowledged.len() < 500 {
                    let detail = format!("{t}-{}-{}", acknowledged.len(), refused.len());
                    match ledger.record(&Draft {
                        action: "config.loaded",
                        detail: &detail,
                        ..Draft::default()
                    }) {
                        Ok(position) => acknowledged.push((position, detail)),
                        Err(_) => {
                            refused.insert(detail);
                            std::thread::yield_now();
                        }
                    }
                }
                (acknowledged, refused)
            })
        })
        .collect();
    let mut failures = 0;
    let running = || threads.iter().any(|thread| !thread.is_finished());
    while running() {
        faults.room.store(5_000 + failures * 137, Ordering::SeqCst);
        while ledger.status().broken.is_none() && running() {
            std::thread::yield_now();
        }
        failures += i64::from(ledger.status().broken.is_some());
        faults.room.store(i64::MAX, Ordering::SeqCst);
        ledger.tend().unwrap();
    }
    assert!(failures > 10, "the disk failed {failures} times");
    let (acknowledged, refused): (Vec<_>, Vec<_>) =
        threads.into_iter().map(|t| t.join().unwrap()).unzip();
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    let records = all(dir.path());
    for (position, detail) in acknowledged.into_iter().flatten() {
        let record = &records[position.seq as usize];
        assert_eq!(
            (&record.detail, &record.hash),
            (&detail, &position.hash.to_string())
        );
    }
    let refused: HashSet<_> = refused.into_iter().flatten().collect();
    assert!(
        !refused.is_empty(),
        "somebody was refused while the disk was full"
    );
    let there = records
        .iter()
        .find(|record| refused.contains(&record.detail));
    assert!(there.is_none(), "refused and there: {there:?}");
}
