//! The races, and how many orders of each are tried.

use std::thread;

use shuttle::{
    Config, FailurePersistence, Runner,
    scheduler::{PctScheduler, RandomScheduler},
};
use vocab::Level;

use crate::world::{Flaw, World};

/// Two calls read the same secret, one tells the public, and the gate may be killed at any time.
fn race(flaw: Flaw) {
    let world = World::new(flaw);
    let threads = [
        world.spawn(World::reads_notes),
        world.spawn(World::reads_notes),
        world.spawn(World::tells_the_public),
        world.spawn(World::is_killed),
    ];
    for thread in threads {
        thread.join().unwrap();
    }
    assert_eq!(world.disk.lock().unwrap().secrecy, Level::Confidential);
    world.tells_the_public();
}

/// The same with a person who resets the session meanwhile.
fn race_with_reset(flaw: Flaw) {
    let world = World::new(flaw);
    let threads = [
        world.spawn(World::reads_notes),
        world.spawn(World::tells_the_public),
        world.spawn(World::is_reset),
        world.spawn(|world| {
            world.is_killed();
            world.tells_the_public();
        }),
    ];
    for thread in threads {
        thread.join().unwrap();
    }
    world.is_killed();
    world.tells_the_public();
    assert_eq!(world.session.epoch(), 1);
}

fn quiet() -> Config {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    config
}

fn random(world: fn(Flaw), flaw: Flaw, schedules: usize) {
    Runner::new(RandomScheduler::new(schedules), quiet()).run(move || world(flaw));
}

/// Finds bugs that need few switches in unlucky places.
fn unlucky(world: fn(Flaw), flaw: Flaw, schedules: usize) {
    Runner::new(PctScheduler::new(3, schedules), quiet()).run(move || world(flaw));
}

/// How many orders of each race are tried; `FLOW_SCHEDULES` says otherwise.
fn schedules() -> usize {
    std::env::var("FLOW_SCHEDULES").map_or(35_000, |count| count.parse().unwrap())
}

#[test]
fn no_schedule_shows_or_sends_too_early() {
    random(race, Flaw::None, schedules());
}

#[test]
fn no_unlucky_schedule_shows_or_sends_too_early() {
    unlucky(race, Flaw::None, schedules());
}

#[test]
fn no_schedule_washes_a_label_off_with_a_reset() {
    random(race_with_reset, Flaw::None, schedules());
}

#[test]
fn no_unlucky_schedule_washes_a_label_off_with_a_reset() {
    unlucky(race_with_reset, Flaw::None, schedules());
}

const SEED: u64 = 1;
/// A well hidden flaw shows in one of some ten thousand schedules.
const SEARCHED: usize = 400_000;

/// The test of the tests: whichever rule is broken, a schedule is found where it matters.
#[test]
fn every_flaw_is_found() {
    type Race = fn(Flaw);
    // From a fixed seed, or a search would fail to find a well hidden flaw now and then. It ends with the first find.
    let random = |race: Race, flaw, count| {
        Runner::new(RandomScheduler::new_from_seed(SEED, count), quiet()).run(move || race(flaw))
    };
    let unlucky = |race: Race, flaw, count| {
        Runner::new(PctScheduler::new_from_seed(SEED, 3, count), quiet()).run(move || race(flaw))
    };
    // What is found below is the flaw and nothing else.
    for race in [race as Race, race_with_reset] {
        assert_eq!(
            (
                random(race, Flaw::None, 1_000),
                unlucky(race, Flaw::None, 1_000)
            ),
            (1_000, 1_000)
        );
    }
    for (race, flaw) in [
        (race as Race, Flaw::AbsorbsAfterShowing),
        (race, Flaw::ShowsBeforeSaving),
        (race, Flaw::TrustsNothingIsNew),
        (race, Flaw::WeighsBeforeReceived),
        (race_with_reset, Flaw::ForgetsWhatIsLeaving),
        (race_with_reset, Flaw::ForgetsTheArrival),
        (race_with_reset, Flaw::SavesACleanReset),
    ] {
        // Each on a thread of its own: what unwinds leaves traces that the next search would find.
        for found in [
            thread::spawn(move || random(race, flaw, SEARCHED)).join(),
            thread::spawn(move || unlucky(race, flaw, SEARCHED)).join(),
        ] {
            assert!(found.is_err(), "{flaw:?} was not found");
        }
    }
}
