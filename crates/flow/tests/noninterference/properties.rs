//! The properties.

use std::cell::Cell;

use proptest::{
    prelude::*,
    strategy::ValueTree,
    test_runner::{Config, RngAlgorithm, TestRng, TestRunner},
};
use vocab::Level;

use crate::{
    plan::{Flaw, Plan, Resets},
    world::{Outcome, Received, run},
};

const PAIRS: u32 = 12_000;

fn any_plan(resets: Resets) -> impl Strategy<Value = Plan> {
    let levels = prop::collection::vec(
        (0u8..4).prop_map(|rank| Level::from_rank(rank).unwrap()),
        2..6,
    );
    (levels, 1usize..4, 2u64..16, any::<u64>(), any::<bool>()).prop_map(
        move |(levels, callers, wakes, seed, is_killed)| Plan {
            levels,
            callers,
            wakes,
            seed,
            is_killed,
            resets,
            flaw: Flaw::None,
        },
    )
}

fn runner(cases: u32) -> TestRunner {
    TestRunner::new(Config {
        cases,
        failure_persistence: None,
        ..Config::default()
    })
}

/// Two runs that differ in the secrets above `line`.
fn pair(plan: &Plan, line: Level) -> (Outcome, Outcome) {
    (run(plan, line, 1), run(plan, line, 2))
}

/// What the servers at or below `line` received.
fn below(line: Level, outcome: &Outcome) -> Received {
    outcome
        .received
        .iter()
        .filter(|(level, _)| *level <= line)
        .cloned()
        .collect()
}

fn count(received: &Received) -> u64 {
    received.iter().map(|(_, calls)| calls.len() as u64).sum()
}

#[test]
fn what_servers_above_a_level_answer_changes_nothing_below_it() {
    let (differing, sent, refused) = (Cell::new(0_u32), Cell::new(0_u64), Cell::new(0_u64));
    let plans = (any_plan(Resets::WhenQuiet), 0u8..3);
    runner(PAIRS)
        .run(&plans, |(plan, rank)| {
            let line = Level::from_rank(rank).unwrap();
            let (one, two) = pair(&plan, line);
            prop_assert_eq!(below(line, &one), below(line, &two));
            differing.set(differing.get() + u32::from(one.received != two.received));
            sent.set(sent.get() + count(&below(line, &one)));
            refused.set(refused.get() + one.refused);
            Ok(())
        })
        .unwrap();
    // The runs of a pair must really differ above the line, and there must be something to see below it.
    assert!(
        differing.get() > PAIRS / 4,
        "{} of {PAIRS} pairs differ",
        differing.get()
    );
    assert!(
        sent.get() > u64::from(PAIRS) && refused.get() > u64::from(PAIRS),
        "{} sent, {} refused",
        sent.get(),
        refused.get()
    );
}

#[test]
fn no_value_arrives_below_its_level_whenever_a_session_is_reset() {
    let (sent, resets) = (Cell::new(0_u64), Cell::new(0_u64));
    runner(PAIRS)
        .run(&any_plan(Resets::AtAnyTime), |plan| {
            let outcome = run(&plan, Level::Restricted, 1);
            prop_assert_eq!(outcome.leaks, 0);
            sent.set(sent.get() + count(&outcome.received));
            resets.set(resets.get() + outcome.resets);
            Ok(())
        })
        .unwrap();
    assert!(
        sent.get() > u64::from(PAIRS) && resets.get() > u64::from(PAIRS) / 2,
        "{} sent, {} resets",
        sent.get(),
        resets.get()
    );
}

/// The test of the tests: whichever rule of the gate is broken, both properties notice where they must.
#[test]
fn every_flaw_is_found() {
    for (flaw, resets) in [
        (Flaw::NeverWeighs, Resets::WhenQuiet),
        (Flaw::WeighsBeforeReceived, Resets::WhenQuiet),
        (Flaw::AbsorbsAfterShowing, Resets::WhenQuiet),
        (Flaw::ShowsBeforeSaving, Resets::WhenQuiet),
        (Flaw::ForgetsAtRestart, Resets::WhenQuiet),
        (Flaw::ForgetsTheArrival, Resets::AtAnyTime),
        (Flaw::ForgetsWhatIsLeaving, Resets::AtAnyTime),
    ] {
        let mut runner = TestRunner::new_with_rng(
            Config::default(),
            TestRng::deterministic_rng(RngAlgorithm::ChaCha),
        );
        let plans = any_plan(resets);
        let is_found = (0..20_000).any(|_| {
            let plan = Plan {
                flaw,
                ..plans.new_tree(&mut runner).unwrap().current()
            };
            match resets {
                Resets::WhenQuiet => {
                    let (one, two) = pair(&plan, Level::Internal);
                    below(Level::Internal, &one) != below(Level::Internal, &two)
                }
                Resets::AtAnyTime => run(&plan, Level::Restricted, 1).leaks > 0,
            }
        });
        assert!(is_found, "{flaw:?} was not found");
    }
}
