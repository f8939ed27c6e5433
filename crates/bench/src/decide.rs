//! What deciding costs: the bundle, all checks of a call, and the search for secrets, without a socket in sight.
//!
//! Costs are CPU time of the thread that does the work, so what else the machine does hardly shows in them. Everything runs in
//! rounds, one piece of work after the other in each, and every answer is looked at: work that came out wrong has no cost.

mod clock;
mod known;
mod scene;

use std::{hint::black_box, time::Duration};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use shape::{
    injection,
    secrets::{self, Held},
};

use wire::{Json, Limits, vector::Vectors};

use super::texts::Text;
use scene::{Call, Scene};

/// The sizes of the bundles that are asked.
pub const POLICIES: [usize; 4] = [1, 10, 100, 1000];
/// The size of the bundle in a full check.
const CHECKED_WITH: usize = 100;
/// What a long text may be.
const LONG: Limits = Limits::new(2_000_000, 8);

/// How long to measure.
#[derive(Debug, Clone, Default)]
pub struct Plan {
    pub rounds: usize,
    /// CPU time of each piece of work in each round.
    pub round: Duration,
    /// Measure this piece of work alone, to look at it closely.
    pub only: Option<String>,
}

/// What one piece of work costs.
#[derive(Debug, Serialize)]
pub struct Cost {
    pub what: String,
    /// With which vector instructions.
    pub level: &'static str,
    /// Microseconds of CPU for one run, in each round.
    pub microseconds: Vec<f64>,
}

/// One piece of work under a name.
struct Work<'a> {
    what: String,
    level: Vectors,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> Work<'a> {
    fn new(what: impl Into<String>, run: impl FnMut() -> Result<()> + 'a) -> Self {
        Self {
            what: what.into(),
            level: Vectors::in_use(),
            run: Box::new(run),
        }
    }

    /// The same without the vector instructions that only some processors have.
    fn plainly(self) -> Self {
        Self {
            what: format!("{}-plain", self.what),
            level: Vectors::Plain,
            ..self
        }
    }
}

/// Runs everything and says what it costs.
pub fn measure(plan: &Plan) -> Result<Vec<Cost>> {
    let scenes: Vec<Scene> = POLICIES
        .into_iter()
        .map(Scene::new)
        .collect::<Result<_>>()?;
    let calls: Vec<Call<'_>> = scenes.iter().map(Scene::call).collect::<Result<_>>()?;
    let checked = Scene::new(CHECKED_WITH)?;
    let (call, session) = (checked.call()?, checked.session());
    // Strangers fill the shelf of slices, so they have a bundle of their own.
    let crowded = Scene::new(CHECKED_WITH)?;
    let crowd = crowded.call()?;
    let strangers = strangers();
    let mut arrivals = strangers.iter().cycle();
    let megabyte = vec![b'm'; 1_000_000];
    let long: Vec<Long> = Text::ALL.into_iter().map(Long::new).collect();
    let (texts, held) = (texts(), &Held::new(scene::HELD.into_iter()));

    let known = known::Known::new()?;
    let decisions = scenes.iter().zip(&calls);
    let mut works: Vec<Work<'_>> = decisions
        .map(|(scene, call)| {
            Work::new(format!("decide-{}", scene.policies), || {
                call.decide("cred-0")
            })
        })
        .collect();
    works.push(Work::new("decide-stranger", || {
        crowd.decide(arrivals.next().context("nobody is left")?)
    }));
    works.push(Work::new("check", || call.check(&session)));
    works.push(Work::new("weigh-10k", || known.weigh()));
    works.push(Work::new("injection-1k", || search(call.arguments)));
    works.push(Work::new("digest-1m", || {
        ensure!(
            blake3::hash(black_box(&megabyte)).as_bytes() != &[0; 32],
            "a digest of nothing but zeros"
        );
        Ok(())
    }));
    works.extend(texts.iter().map(|(what, text, secrets)| {
        Work::new(*what, move || {
            let found = black_box(secrets::redact(black_box(text), held))
                .map_or(0, |clean| clean.found.len());
            ensure!(
                found == *secrets,
                "{found} kinds of secrets were found and {secrets} are there"
            );
            Ok(())
        })
    }));
    works.extend(long.iter().flat_map(|long| long.works(held)));
    // What the vector instructions are worth, in the same run: a kernel that is not compiled for them shows.
    works.extend(
        long.iter()
            .take(1)
            .flat_map(|long| long.works(held))
            .map(Work::plainly),
    );
    run(plan, works)
}

/// Looks for injections in arguments that hold none.
fn search(arguments: Json<'_>) -> Result<()> {
    ensure!(
        black_box(injection::scan(black_box(arguments))).is_none(),
        "an honest text was taken for an injection"
    );
    Ok(())
}

/// A megabyte, as it is looked at on its way there and back.
struct Long {
    text: Text,
    json: Vec<u8>,
}

impl Long {
    fn new(text: Text) -> Self {
        Self {
            text,
            json: format!(
                r#"{{"path":"notes.md","text":"{}"}}"#,
                text.escaped(1_000_000)
            )
            .into_bytes(),
        }
    }

    fn works<'a>(&'a self, held: &'a Held) -> [Work<'a>; 3] {
        let (name, text) = (self.text.name(), self.json.as_slice());
        let validate = move || {
            ensure!(
                black_box(Json::parse(black_box(text), LONG)).is_ok(),
                "a valid text was refused"
            );
            Ok(())
        };
        // Of those that repeat how a secret begins, some have what looks like one.
        let has_secret = secrets::redact(text, held).is_some();
        let redact = move || {
            let found = black_box(secrets::redact(black_box(text), held)).is_some();
            ensure!(
                found == has_secret,
                "the same text was searched with another result"
            );
            ensure!(
                !found || self.text.is_hostile(),
                "a secret was found and none is there"
            );
            Ok(())
        };
        [
            Work::new(format!("validate-1m-{name}"), validate),
            Work::new(format!("injection-1m-{name}"), move || {
                search(Json::checked_before(text))
            }),
            Work::new(format!("secrets-1m-{name}"), redact),
        ]
    }
}

/// Results to look for secrets in, and how many kinds there are in each.
fn texts() -> [(&'static str, Vec<u8>, usize); 2] {
    [
        ("secrets-10k", scene::result(10_000), 0),
        ("secrets-10k-found", scene::leaking(10_000), 2),
    ]
}

/// More callers than a bundle keeps slices for, so that each is new whenever it comes.
fn strangers() -> Vec<String> {
    (0..5_000).map(|number| format!("cred-{number}")).collect()
}

fn run(plan: &Plan, mut works: Vec<Work<'_>>) -> Result<Vec<Cost>> {
    works.retain(|work| plan.only.as_ref().is_none_or(|only| *only == work.what));
    let cost = |work: &Work<'_>| Cost {
        what: work.what.clone(),
        level: work.level.as_str(),
        microseconds: Vec::new(),
    };
    let mut costs: Vec<Cost> = works.iter().map(cost).collect();
    let level = Vectors::in_use();
    for _ in 0..plan.rounds {
        for (work, cost) in works.iter_mut().zip(&mut costs) {
            work.level.cap();
            let each =
                clock::cpu_each(plan.round, &mut work.run).with_context(|| work.what.clone())?;
            cost.microseconds.push(each.as_secs_f64() * 1e6);
        }
    }
    level.cap();
    Ok(costs)
}
