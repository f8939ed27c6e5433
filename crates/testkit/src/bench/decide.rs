//! What deciding costs: the bundle, all checks of a call, and the search for secrets, without a socket in sight.
//!
//! Costs are CPU time of the thread that does the work, so what else the machine does hardly shows in them. Everything runs in
//! rounds, one piece of work after the other in each, and every answer is looked at: work that came out wrong has no cost.

mod clock;
mod scene;

use std::{hint::black_box, time::Duration};

use anyhow::{Context, Result, ensure};
use serde::Serialize;
use shape::{
    injection,
    secrets::{self, Held},
};

use wire::{Json, Limits};

use scene::{Call, Scene};

/// The sizes of the bundles that are asked.
pub const POLICIES: [usize; 4] = [1, 10, 100, 1000];
/// The size of the bundle in a full check.
const CHECKED_WITH: usize = 100;

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
    /// Microseconds of CPU for one run, in each round.
    pub microseconds: Vec<f64>,
}

/// One piece of work under a name.
struct Work<'a> {
    what: String,
    run: Box<dyn FnMut() -> Result<()> + 'a>,
}

impl<'a> Work<'a> {
    fn new(what: impl Into<String>, run: impl FnMut() -> Result<()> + 'a) -> Self {
        Self { what: what.into(), run: Box::new(run) }
    }
}

/// Runs everything and says what it costs.
pub fn measure(plan: &Plan) -> Result<Vec<Cost>> {
    let scenes: Vec<Scene> = POLICIES.into_iter().map(Scene::new).collect::<Result<_>>()?;
    let calls: Vec<Call<'_>> = scenes.iter().map(Scene::call).collect::<Result<_>>()?;
    let checked = Scene::new(CHECKED_WITH)?;
    let (call, session) = (checked.call()?, checked.session());
    // Strangers fill the shelf of slices, so they have a bundle of their own.
    let crowded = Scene::new(CHECKED_WITH)?;
    let crowd = crowded.call()?;
    let strangers = strangers();
    let mut arrivals = strangers.iter().cycle();
    let prose = scene::prose(1_000_000);
    let long = Json::parse(&prose, Limits::new(2_000_000, 8))?;
    let (texts, held) = (texts(), &Held::new(scene::HELD.into_iter()));

    let decisions = scenes.iter().zip(&calls);
    let mut works: Vec<Work<'_>> =
        decisions.map(|(scene, call)| Work::new(format!("decide-{}", scene.policies), || call.decide("cred-0"))).collect();
    works.push(Work::new("decide-stranger", || crowd.decide(arrivals.next().context("nobody is left")?)));
    works.push(Work::new("check", || call.check(&session)));
    works.extend([("injection-1k", call.arguments), ("injection-1m", long)].map(|(what, arguments)| {
        Work::new(what, move || {
            ensure!(black_box(injection::scan(black_box(arguments))).is_none(), "an honest text was taken for an injection");
            Ok(())
        })
    }));
    works.extend(texts.iter().map(|(what, text, secrets)| {
        Work::new(*what, move || {
            let found = black_box(secrets::redact(black_box(text), held)).map_or(0, |clean| clean.found.len());
            ensure!(found == *secrets, "{found} kinds of secrets were found and {secrets} are there");
            Ok(())
        })
    }));
    run(plan, works)
}

/// Results to look for secrets in, and how many kinds there are in each.
fn texts() -> [(&'static str, Vec<u8>, usize); 3] {
    [
        ("secrets-10k", scene::result(10_000), 0),
        ("secrets-10k-found", scene::leaking(10_000), 2),
        ("secrets-1m", scene::result(1_000_000), 0),
    ]
}

/// More callers than a bundle keeps slices for, so that each is new whenever it comes.
fn strangers() -> Vec<String> {
    (0..5_000).map(|number| format!("cred-{number}")).collect()
}

fn run(plan: &Plan, mut works: Vec<Work<'_>>) -> Result<Vec<Cost>> {
    works.retain(|work| plan.only.as_ref().is_none_or(|only| *only == work.what));
    let mut costs: Vec<Cost> = works.iter().map(|work| Cost { what: work.what.clone(), microseconds: Vec::new() }).collect();
    for _ in 0..plan.rounds {
        for (work, cost) in works.iter_mut().zip(&mut costs) {
            let each = clock::cpu_each(plan.round, &mut work.run).with_context(|| work.what.clone())?;
            cost.microseconds.push(each.as_secs_f64() * 1e6);
        }
    }
    Ok(costs)
}
