//! A fault at every operation, and power cuts: what was acknowledged is there, what was synced survives, and nothing alarms falsely.

use super::fake::{clock, facts};
use super::sim::*;
use crate::verify::Check;
use crate::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use vocab::Stage;

const DIR: &str = "/ledger";

/// What the outside world knows: the client's and the upstream's ledgers, to be reconciled with ours.
#[derive(Debug, Default)]
struct Outside {
    /// Records the ledger has acknowledged.
    acknowledged: Vec<Position>,
    /// How many records it has said survive a power cut.
    durable: u64,
    executed: BTreeSet<String>,
    refused: BTreeSet<String>,
    answered: BTreeMap<String, u64>,
    calls: u64,
}

fn open(sim: &Sim) -> Result<Ledger, OpenError> {
    Ledger::with(
        DIR,
        Box::new(sim.clone()),
        clock().0,
        Options {
            segment_bytes: 2_500,
        },
    )
}

impl Outside {
    fn call(&mut self, ledger: &Ledger, body: usize, durable: bool) {
        let call = format!("c-{}", self.calls);
        self.calls += 1;
        let mut opened = ledger.open(facts(&call));
        if body > 0 {
            let _ = opened.keep_body(&vec![b'b'; body]);
        }
        match ledger.intend(&mut opened) {
            Ok(intent) => {
                self.acknowledged.push(intent.position());
                if durable && ledger.sync().is_err() {
                    self.refused.insert(call);
                    let _ = ledger.conclude(opened, &Outcome::new(Verdict::Refused, Stage::Intend));
                    return;
                }
                if durable {
                    self.durable = self.durable.max(intent.position().seq + 1);
                }
                self.executed.insert(call.clone());
                if let Ok(sealed) =
                    ledger.conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
                {
                    self.acknowledged.push(sealed.position());
                    self.answered.insert(call, sealed.position().seq);
                }
            }
            Err(_) => {
                self.refused.insert(call);
                let _ = ledger.conclude(opened, &Outcome::new(Verdict::Refused, Stage::Intend));
            }
        }
    }

    fn sync(&mut self, ledger: &Ledger) {
        if let Ok(durable) = ledger.sync() {
            self.durable = self.durable.max(durable);
        }
    }

    /// What a gate does with its ledger, in little.
    fn act(&mut self, ledger: &Ledger, dice: &mut Dice) {
        match dice.roll(12) {
            0..5 => self.call(ledger, 0, false),
            5 => self.call(ledger, 700, false),
            6 => self.call(ledger, 30, true),
            7 => {
                let change = Change {
                    action: "server.state",
                    server: "github",
                    ..Change::default()
                };
                self.acknowledged.extend(ledger.change(&change));
            }
            8 => self.sync(ledger),
            9 => {
                if let Ok(note) = ledger.checkpoint() {
                    self.durable = self
                        .durable
                        .max(note.lines().nth(1).unwrap().parse().unwrap());
                }
            }
            _ => drop(ledger.tend()),
        }
    }

    /// Everything below `floor` that was acknowledged is there as it was acknowledged, and the three ledgers agree.
    fn reconcile(&self, sim: &Sim, floor: u64, context: &str) {
        let report = sim.verify();
        assert!(report.is_clean(), "{context}: {:?}", report.finding);
        assert_eq!(report.open_intents, 0, "{context}");
        let records = sim.records();
        for position in self
            .acknowledged
            .iter()
            .filter(|position| position.seq < floor)
        {
            let found = records
                .get(position.seq as usize)
                .map(|record| record.hash.clone());
            assert_eq!(
                found,
                Some(position.hash.to_string()),
                "{context}: record {} is lost",
                position.seq
            );
        }
        let of = |call: &str, kind: &str| {
            records
                .iter()
                .filter(|r| r.call == call && r.kind == kind)
                .count()
        };
        if floor == u64::MAX {
            for call in &self.executed {
                assert_eq!(
                    (of(call, "intent"), of(call, "outcome")),
                    (1, 1),
                    "{context}: {call} was executed"
                );
            }
            for (call, seq) in &self.answered {
                assert_eq!(records[*seq as usize].call, *call, "{context}");
            }
        }
        assert!(self.executed.is_disjoint(&self.refused), "{context}");
        for record in records
            .iter()
            .filter(|record| record.verdict == "permitted" && record.kind == "outcome")
        {
            assert!(
                self.executed.contains(&record.call),
                "{context}: {} was not executed",
                record.call
            );
        }
    }
}

/// The workload of the exhaustive test: every kind of thing, several rotations, one restart.
fn workload(sim: &Sim, outside: &mut Outside) -> Result<(), OpenError> {
    for _ in 0..2 {
        let ledger = open(sim)?;
        for i in 0..4 {
            outside.call(&ledger, if i % 2 == 0 { 0 } else { 300 }, i == 2);
            let change = Change {
                action: "server.state",
                server: "github",
                ..Change::default()
            };
            outside.acknowledged.extend(ledger.change(&change));
            let _ = ledger.tend();
        }
        let _ = ledger.erase_body(&Change {
            call: "c-1",
            reason: "a test",
            ..Change::default()
        });
        if let Ok(note) = ledger.checkpoint() {
            outside.durable = outside
                .durable
                .max(note.lines().nth(1).unwrap().parse().unwrap());
        }
        outside.call(&ledger, 10, true);
        // A broken ledger comes back by being tended, and a gate tends until it does.
        while ledger.status().broken.is_some() && ledger.tend().is_err() && !sim.is_stopped() {}
        outside.call(&ledger, 0, false);
    }
    Ok(())
}

#[test]
fn a_fault_at_every_operation_loses_nothing_that_was_acknowledged() {
    let calm = Sim::default();
    let mut outside = Outside::default();
    workload(&calm, &mut outside).unwrap();
    outside.reconcile(&calm, u64::MAX, "calm");
    let (ops, trace) = (calm.ops(), calm.trace());
    for kind in [
        "mkdir",
        "openat",
        "write",
        "fdatasync",
        "rename",
        "ftruncate",
        "fsync directory",
        "read",
        "getdents",
    ] {
        assert!(
            kind == "ftruncate" || trace.contains(&kind),
            "the workload has no {kind}"
        );
    }
    assert!(calm.verify().segments > 4);
    let mut runs = 0;
    for fault in Fault::ALL {
        for at in 0..ops {
            let context = format!("{fault:?} at operation {at}, {}", trace[at as usize]);
            let sim = Sim::default();
            sim.plan(at, fault);
            let mut outside = Outside::default();
            let opened = workload(&sim, &mut outside);
            assert!(
                opened.is_ok() || sim.is_stopped() || fault != Fault::KillBefore,
                "{context}: {opened:?}"
            );
            // The next process finds what the kernel has; the one after it finds nothing left to repair.
            for life in 0..2 {
                let next = sim.after_kill();
                drop(open(&next).unwrap_or_else(|error| panic!("{context}, life {life}: {error}")));
                outside.reconcile(&next, u64::MAX, &context);
            }
            // And if the power goes at the same moment, what was synced is still there.
            let mut dice = Dice(at * 7 + fault as u64);
            let next = sim.after_power_cut(&mut dice);
            drop(open(&next).unwrap_or_else(|error| panic!("{context}, power cut: {error}")));
            outside.reconcile(&next, outside.durable, &context);
            runs += 1;
        }
    }
    assert!(runs > 500, "{runs}");
}

/// Two lives per seed: random work with random faults, a power cut at a random operation (in recovery too), then reconcile.
fn power_cut(seed: u64) {
    let mut dice = Dice(seed);
    let mut sim = Sim::default();
    let mut outside = Outside::default();
    for life in 0..3 {
        let cut = dice.roll(120);
        sim.plan(
            cut,
            if dice.chance(50) {
                Fault::KillBefore
            } else {
                Fault::KillAfter
            },
        );
        if let Ok(ledger) = open(&sim) {
            for _ in 0..dice.roll(40) {
                if !sim.is_stopped() && dice.chance(4) {
                    sim.plan(
                        sim.ops() + dice.roll(4),
                        [Fault::Eio, Fault::Enospc, Fault::Short][dice.roll(3) as usize],
                    );
                }
                outside.act(&ledger, &mut dice);
            }
            // Half of the time the last handle goes in peace, unless the process is gone already.
            if dice.chance(50) {
                sim.stop();
            }
        }
        sim.stop();
        let context = format!("seed {seed}, life {life}");
        let next = sim.after_power_cut(&mut dice);
        let check = next.after_kill();
        drop(open(&check).unwrap_or_else(|error| panic!("{context}: false alarm: {error}")));
        outside.reconcile(&check, outside.durable, &context);
        // What was not durable is forgotten by the outside too: its numbers may be used again.
        outside
            .acknowledged
            .retain(|position| position.seq < outside.durable);
        sim = next;
    }
}

/// More of them with `AUDIT_POWER_CUTS`.
#[test]
fn twenty_thousand_power_cuts_lose_nothing_synced_and_alarm_nobody() {
    let told = std::env::var("AUDIT_POWER_CUTS");
    let each = told.map_or(10_000, |count| count.parse::<u64>().unwrap() / 2);
    let threads: Vec<_> = (0..2_u64)
        .map(|half| {
            std::thread::spawn(move || (half * each..(half + 1) * each).for_each(power_cut))
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
}

/// The pages of a failed sync are lost unless they are written again: this is what `reopen` must do.
#[test]
fn what_a_failed_sync_dropped_is_written_again() {
    let sim = Sim::default();
    let ledger = open(&sim).unwrap();
    let mut outside = Outside::default();
    for _ in 0..3 {
        outside.call(&ledger, 0, false);
    }
    sim.plan(sim.ops(), Fault::Eio);
    assert!(ledger.sync().is_err());
    ledger.reopen().unwrap();
    outside.durable = ledger.sync().unwrap();
    assert!(outside.durable >= 6);
    sim.stop();
    let next = sim.after_power_cut(&mut Dice(4));
    drop(open(&next).unwrap());
    outside.reconcile(&next, outside.durable, "after the cut");
}

/// Every byte of a 200-record ledger, each changed to every other value that differs in one bit, and in all. What comes before the
/// changed line is the same each time, so it is checked once; every 97th byte is also checked from the beginning.
#[test]
fn every_flipped_byte_of_two_hundred_records_is_found() {
    let sim = Sim::default();
    let ledger = Ledger::with(DIR, Box::new(sim.clone()), clock().0, Options::default()).unwrap();
    let mut outside = Outside::default();
    while ledger.status().records < 200 {
        outside.call(&ledger, 0, false);
    }
    drop(ledger);
    let path = Path::new(DIR).join("00000000000000000000.log");
    let bytes = sim.bytes(&path);
    assert!(sim.verify().is_clean() && sim.verify().records == 200 && bytes.len() > 80_000);
    let (mut before, mut start) = (Check::new(), 0);
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        // What is wrong must show in the line or in the one that follows it.
        let mut shown = bytes[start..bytes.len().min(start + 3 * line.len())].to_vec();
        for at in start..start + line.len() {
            for bits in [1, 2, 4, 8, 16, 32, 64, 128, 0xff] {
                shown[at - start] ^= bits;
                let mut check = before.clone();
                check.lines(&mut shown.as_slice(), true).unwrap();
                let found = check
                    .report
                    .finding
                    .as_ref()
                    .is_some_and(|finding| finding.line <= before.report.records + 2);
                assert!(found, "byte {at} ^ {bits:#x} is not found");
                shown[at - start] ^= bits;
            }
            if at % 97 == 0 {
                sim.flip(&path, at, 1);
                assert!(!sim.verify().is_clean(), "byte {at} is not found");
                sim.flip(&path, at, 1);
            }
        }
        before.lines(&mut &*line, true).unwrap();
        start += line.len();
    }
    assert!(before.report.is_clean() && before.report.records == 200);
}
