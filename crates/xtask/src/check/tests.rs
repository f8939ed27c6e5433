use anyhow::{Result, bail};

use super::{Step, Tally, testrun, walk};

fn fine() -> Result<Tally> {
    Ok(Tally::passed(3))
}

fn red() -> Result<Tally> {
    Ok(Tally {
        passed: 2,
        failed: 1,
    })
}

fn broken() -> Result<Tally> {
    bail!("no such tool")
}

fn step(run: fn() -> Result<Tally>) -> Step {
    Step {
        name: "a step",
        again: "true",
        run,
    }
}

#[test]
fn every_step_is_counted() {
    let (tally, outcome) = walk(&[&step(fine), &step(fine)]);
    assert!(outcome.is_ok());
    assert_eq!(
        tally,
        Tally {
            passed: 6,
            failed: 0
        }
    );
}

#[test]
fn the_first_failure_ends_the_run() {
    let (tally, outcome) = walk(&[&step(fine), &step(red), &step(fine)]);
    assert!(outcome.is_err());
    assert_eq!(
        tally,
        Tally {
            passed: 5,
            failed: 1
        }
    );
    let (tally, outcome) = walk(&[&step(broken), &step(fine)]);
    assert!(outcome.is_err());
    assert_eq!(
        tally,
        Tally {
            passed: 0,
            failed: 1
        }
    );
}

#[test]
fn summaries_of_both_runners_are_read() {
    let check = |line: &str, passed, failed| {
        assert_eq!(
            testrun::summary(line),
            Some(Tally { passed, failed }),
            "{line}"
        )
    };
    check(
        "     Summary [   0.345s] 31 tests run: 31 passed, 0 skipped",
        31,
        0,
    );
    check(
        "     Summary [   9.345s] 31 tests run: 29 passed (1 slow), 2 failed, 0 skipped",
        29,
        2,
    );
    check(
        "     Summary [  60.001s] 9 tests run: 7 passed, 1 failed, 1 timed out, 0 skipped",
        7,
        2,
    );
    check(
        "test result: ok. 12 passed; 0 failed; 0 ignored; 0 measured; 0 filtered out; finished in 0.10s",
        12,
        0,
    );
    check(
        "test result: FAILED. 11 passed; 1 failed; 0 ignored; 0 measured",
        11,
        1,
    );
    assert_eq!(
        testrun::summary("    test result: FAILED. 0 passed; 1 failed; 0 ignored"),
        None,
        "said again"
    );
    assert_eq!(testrun::summary("test a::b ... ok"), None);
}

#[test]
fn verdicts_of_programs_with_their_own_main_are_read() {
    assert_eq!(
        testrun::verdict("test the_jail_holds ... ok"),
        Some(Tally::passed(1))
    );
    assert_eq!(
        testrun::verdict("test the_jail_holds ... FAILED"),
        Some(Tally {
            passed: 0,
            failed: 1
        })
    );
    assert_eq!(
        testrun::verdict("test result: ok. 1 passed; 0 failed"),
        None
    );
}
