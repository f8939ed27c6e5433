//! kill -9 while appending. The child is this test binary again, running only `child_appends`.

use super::fake::all;
use crate::*;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use vocab::Stage;

const DIR: &str = "AUDIT_KILL_TEST_DIR";

/// Does nothing unless it is the child: then it appends until it is killed, telling each acknowledged record.
#[test]
fn child_appends() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let disk = Box::new(RealDisk);
    let options = Options { segment_bytes: 20_000 };
    let ledger = Ledger::with(dir, disk, system_clock(), options).unwrap();
    let mut out = std::io::stdout();
    for i in 0..1_000_000 {
        let mut opened = ledger.open(super::fake::facts(&format!("c-{i}")));
        let intent = ledger.intend(&mut opened).unwrap().position();
        let sealed = ledger.conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb)).unwrap().position();
        for position in [intent, sealed] {
            writeln!(out, "\nack {} {}", position.seq, position.hash).unwrap();
        }
    }
}

/// Runs the child until it has acknowledged `records`, kills it, and returns everything it acknowledged.
fn killed_after(dir: &Path, records: usize) -> Vec<(usize, String)> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "tests::kill::child_appends", "--nocapture"])
        .env(DIR, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut acknowledged = Vec::new();
    for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
        let Ok(line) = String::from_utf8(line.unwrap()) else { continue };
        let mut words = line.split(' ');
        if words.next() != Some("ack") {
            continue;
        }
        // The last line may be half of one.
        if let (Some(Ok(seq)), Some(hash)) = (words.next().map(str::parse), words.next())
            && hash.len() == 64
        {
            acknowledged.push((seq, hash.to_owned()));
        }
        if acknowledged.len() == records {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    acknowledged
}

#[test]
fn acknowledged_records_survive_kill_9_fifty_times() {
    let dir = tempfile::tempdir().unwrap();
    let mut acknowledged = Vec::new();
    for round in 0..50 {
        acknowledged.extend(killed_after(dir.path(), 1 + round * 7 % 90));
    }
    assert!(acknowledged.len() > 1_000);
    let found = verify(dir.path()).unwrap().finding;
    assert!(found.is_none_or(|finding| finding.incomplete_tail));
    drop(Ledger::at(dir.path()).unwrap());
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    assert_eq!(report.open_intents, 0, "unknown outcomes are recorded as such");
    let records = all(dir.path());
    for (seq, hash) in acknowledged {
        assert_eq!(records[seq].hash, hash);
    }
}
