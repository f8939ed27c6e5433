//! What both sides say, compared.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use testkit::model::random::Draw;
use testkit::model::{Expected, expected};

use crate::product::{Prepared, Seen, outcome};
use crate::signed::Bound;

const WORLDS: u64 = 1_020;
const CALLS_PER_WORLD: u64 = 100;

/// Shows every call of every world to `see`, on all processors; how many there were.
fn each_call(worlds: u64, see: impl Fn(&Seen<'_>) + Sync) -> u64 {
    let (next, seen) = (AtomicU64::new(0), AtomicU64::new(0));
    let threads = std::thread::available_parallelism().map_or(2, usize::from);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if seed >= worlds {
                        return;
                    }
                    let mut draw = Draw::new(0x706f_7274 + seed);
                    let world = draw.world();
                    let prepared = Prepared::new(&world);
                    for _ in 0..CALLS_PER_WORLD {
                        let call = draw.call(&world);
                        let bound = Bound::new(&call);
                        if let Some(call) = Seen::new(&world, &prepared, &call, &bound) {
                            see(&call);
                            seen.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                }
            });
        }
    });
    seen.into_inner()
}

#[test]
fn the_gate_decides_as_the_model_says() {
    let seen = each_call(WORLDS, |seen| {
        let (model, product) = (expected(seen.world, seen.call), outcome(seen.judged()));
        assert_eq!(
            product, model,
            "{:#?}\nof {:#?}\nunder {:#?}",
            seen.call, seen.tool, seen.world.policies
        );
    });
    assert!(seen >= 100_000, "only {seen} calls were compared");
}

/// A check nobody would miss is a check that does nothing.
#[test]
fn without_any_one_check_a_difference_shows() {
    let names: Vec<&str> = policy::CHECKS
        .iter()
        .map(|check| check.name)
        .chain(["write_down", "judge"])
        .collect();
    let differences: Vec<AtomicU64> = names.iter().map(|_| AtomicU64::new(0)).collect();
    each_call(100, |seen| {
        let model = expected(seen.world, seen.call);
        assert_eq!(
            seen.judged_without("nothing"),
            model,
            "the copy is a copy: {:#?} of {:#?}",
            seen.call,
            seen.tool
        );
        for (name, differences) in names.iter().zip(differences.iter()) {
            differences.fetch_add(
                u64::from(seen.judged_without(name) != model),
                Ordering::Relaxed,
            );
        }
    });
    for (name, differences) in names.iter().zip(differences.iter()) {
        let differences = differences.load(Ordering::Relaxed);
        assert!(differences > 0, "nothing changes without {name}");
    }
}

/// The worlds are not so mild that some check is never the one that decides.
#[test]
fn every_rule_of_the_floor_is_met() {
    let rules = [
        "ServerNotApproved",
        "ToolNotAllowed",
        "DefinitionChanged",
        "PermissionDenied",
        "RateLimitExceeded",
    ];
    let rules = rules.iter().chain(&[
        "WouldViolateWriteDown",
        "UntrustedInfluence",
        "ToolExplicitlyDenied",
        "PathTraversalAttempt",
        "PathOutsideBoundary",
        "UnauthorizedVolumeAccess",
        "DomainNotAllowed",
        "CommandNotAllowed",
        "SubcommandNotAllowed",
        "InvalidArguments",
        "InvalidParameters",
        "PotentialInjection",
        "PolicyDenied",
    ]);
    let met: Mutex<BTreeSet<String>> = Mutex::default();
    each_call(100, |seen| {
        if let Expected::Refuse(code) = outcome(seen.judged()) {
            met.lock().unwrap().insert(code.to_owned());
        }
    });
    let met = met.into_inner().unwrap();
    for rule in rules {
        assert!(met.contains(*rule), "{rule} is not among {met:?}");
    }
}
