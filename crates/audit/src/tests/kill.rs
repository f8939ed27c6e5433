//! kill -9 under load. The child is this test binary again, running only `child_appends`: three threads call, one tends.
//!
//! Two thousand kills each time; `AUDIT_KILLS=10000` for more.

use crate::*;
use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;
use vocab::Stage;

const DIR: &str = "AUDIT_KILL_TEST_DIR";
const KILLS: &str = "AUDIT_KILLS";

/// One write, so that a kill cuts at most the last line.
fn say(line: &str) {
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
}

/// Does nothing unless it is the child: then it calls until it is killed, telling each effect and each acknowledged record.
#[test]
fn child_appends() {
    let Ok(dir) = std::env::var(DIR) else { return };
    let options = Options {
        segment_bytes: 20_000,
    };
    let ledger = Ledger::with(dir, Box::new(RealDisk), system_clock(), options).unwrap();
    let life = std::process::id();
    let threads: Vec<_> = (0..3)
        .map(|t| {
            let ledger = ledger.clone();
            thread::spawn(move || {
                for i in 0..1_000_000 {
                    let call = format!("{life}-{t}-{i}");
                    let mut opened = ledger.open(super::fake::facts(&call));
                    opened.keep_body(call.as_bytes()).unwrap();
                    let intent = ledger.intend(&mut opened).unwrap().position();
                    say(&format!(
                        "\nexec {call} .\nack {} {} .\n",
                        intent.seq, intent.hash
                    ));
                    let outcome = Outcome::new(Verdict::Permitted, Stage::Absorb);
                    let sealed = ledger.conclude(opened, &outcome).unwrap().position();
                    say(&format!("\nack {} {} .\n", sealed.seq, sealed.hash));
                }
            })
        })
        .collect();
    while threads.iter().any(|thread| !thread.is_finished()) {
        ledger.tend().unwrap();
        thread::sleep(Duration::from_millis(1));
    }
}

/// What the children did, as the outside saw it.
#[derive(Default)]
struct Seen {
    executed: BTreeSet<String>,
    acknowledged: Vec<(usize, String)>,
}

impl Seen {
    /// Runs the child until it has acknowledged `records`, kills it, and takes in everything it said.
    fn kill_after(&mut self, dir: &Path, records: usize) {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "tests::kill::child_appends", "--nocapture"])
            .env(DIR, dir)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let enough = self.acknowledged.len() + records;
        for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
            let Ok(line) = String::from_utf8(line.unwrap()) else {
                continue;
            };
            // The last line may be half of one: only those that end in a dot count.
            match line.split(' ').collect::<Vec<_>>().as_slice() {
                ["exec", call, "."] => drop(self.executed.insert((*call).to_owned())),
                ["ack", seq, hash, "."] => self
                    .acknowledged
                    .push((seq.parse().unwrap(), (*hash).to_owned())),
                _ => {}
            }
            if self.acknowledged.len() == enough {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
    }

    fn reconcile(&self, dir: &Path) {
        let found = verify(dir).unwrap().finding;
        assert!(
            found.as_ref().is_none_or(|finding| finding.incomplete_tail),
            "{found:?}"
        );
        drop(Ledger::at(dir).unwrap());
        let report = verify(dir).unwrap();
        assert!(report.is_clean(), "{:?}", report.finding);
        assert_eq!(
            report.open_intents, 0,
            "unknown outcomes are recorded as such"
        );
        let records = super::fake::all(dir);
        for (seq, hash) in &self.acknowledged {
            assert_eq!(records[*seq].hash, *hash, "acknowledged implies recorded");
        }
        let intended: BTreeSet<&str> = records
            .iter()
            .filter(|r| r.kind == "intent")
            .map(|r| &*r.call)
            .collect();
        let lost = self
            .executed
            .iter()
            .find(|call| !intended.contains(call.as_str()));
        assert_eq!(lost, None, "executed implies intended");
        let bodies = BodyReader::open(dir).unwrap();
        for call in &self.executed {
            assert_eq!(
                bodies.get(call).unwrap().bytes().as_deref(),
                Some(call.as_bytes()),
                "its arguments are kept"
            );
        }
    }
}

/// Each ledger is killed a hundred times and then reconciled; two at a time.
#[test]
fn acknowledged_records_survive_two_thousand_kills() {
    let kills: usize = std::env::var(KILLS).map_or(2_000, |kills| kills.parse().unwrap());
    let threads: Vec<_> = (0..2)
        .map(|half| {
            thread::spawn(move || {
                let mut done = 0;
                while done < kills / 2 {
                    let (dir, mut seen) = (tempfile::tempdir().unwrap(), Seen::default());
                    for round in 0..100.min(kills / 2 - done) {
                        seen.kill_after(dir.path(), 1 + (round * 7 + half * 3) % 60);
                        done += 1;
                    }
                    seen.reconcile(dir.path());
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
}
