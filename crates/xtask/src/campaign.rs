//! `cargo xtask campaign NAME`: what is too large or takes too long for every change, run before a release and when its subject was
//! touched.
//!
//! To add a campaign, give it a row in [`CAMPAIGNS`]: a name, a sentence, what it promises, and the commands of cargo or the replay that it is. A
//! campaign installs what it needs under `target/tools`, uses loopback only, and leaves no process behind. One that passed writes its
//! figure into `docs/understand/promises.md`.

mod autonomy;
mod promises;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{say, tools::process};

/// One campaign: a row here, and a row on the page of promises.
struct Campaign {
    name: &'static str,
    about: &'static str,
    /// What holds if it passes, and the bound.
    promise: &'static str,
    bound: &'static str,
    work: Work,
}

/// What a campaign does.
enum Work {
    Cargo(&'static [CargoCommand]),
    /// Replays tasks and attacks through the gate.
    Replay,
}

/// A command of cargo, with what it is told through the environment.
struct CargoCommand {
    arguments: &'static str,
    environment: &'static [(&'static str, &'static str)],
}

const fn cargo(
    arguments: &'static str,
    environment: &'static [(&'static str, &'static str)],
) -> CargoCommand {
    CargoCommand {
        arguments,
        environment,
    }
}

const BUILD: CargoCommand = cargo("build --quiet --workspace --bins", &[]);

const CAMPAIGNS: &[Campaign] = &[
    Campaign {
        name: "clients",
        about: "every client and agent that npm and PyPI offer: connect, list, call, be refused, wait for a person; installs a gigabyte",
        promise: "Clients and agents as their makers publish them work through the gate and show the reason of a refusal",
        bound: "every one of them",
        work: Work::Cargo(&[
            BUILD,
            cargo(
                "test --quiet -p portcullis --features campaign --test it -- agents:: journey:: clients::",
                &[],
            ),
        ]),
    },
    Campaign {
        name: "kills",
        about: "a gate that is killed a thousand times under load: three ledgers of what happened agree",
        promise: "What was done is on record and what is on record was done, whenever the gate is killed",
        bound: "1,000 kills, no difference",
        work: Work::Cargo(&[
            BUILD,
            cargo(
                "test --quiet --workspace --test it -- --test-threads 1 three_ledgers_agree_over_random_kills",
                &[("RECONCILE_KILLS", "1000")],
            ),
        ]),
    },
    Campaign {
        name: "scenes",
        about: "the three properties of words, of what is sent and of what is held, on a million random scenes each",
        promise: "Nothing above a label or outside access is shown, nothing unjudged is sent, nothing is held without an owner",
        bound: "1,000,000 random scenes each, none wrong",
        work: Work::Cargo(&[cargo(
            "test --quiet --workspace --lib -- nothing_above_a_label what_is_sent_is_what_was_judged nothing_is_held_without_an_owner",
            &[("PORTCULLIS_SCENES", "1000000")],
        )]),
    },
    Campaign {
        name: "jails",
        about: "a thousand jails started and killed, every attempt to get out of one, as root and as an ordinary user, and what a jail and a command cost on an idle machine",
        promise: "What runs in a jail reaches nothing that its profile does not show, and leaves nothing behind",
        bound: "1,000 starts and kills leave no process and no mount; no attempt but those on the page; a start 8 ms (p50), a command 12 ms more than a call",
        work: Work::Cargo(&[
            BUILD,
            cargo(
                "test --quiet --workspace --test jails",
                &[("JAIL_CYCLES", "1000"), ("JAIL_FIGURES", "1")],
            ),
            cargo("test --quiet --workspace --test it -- jails::", &[]),
            cargo(
                "test --quiet --workspace --test it -- a_command_costs_little_more_than_a_call",
                &[("JAIL_FIGURES", "1")],
            ),
        ]),
    },
    Campaign {
        name: "web",
        about: "every spelling of an inner address, as an address, a name, a redirect and a name that changes, against listeners that count who connects",
        promise: "The tools for the web connect to no address inside, and still to those outside",
        bound: "about 4,000 addresses, 500 redirects, 20 changing names, none connected to; all of 50 open addresses served",
        work: Work::Cargo(&[
            BUILD,
            cargo(
                "test --quiet -p portcullis --test it -- web::",
                &[("PORTCULLIS_CAMPAIGN", "1")],
            ),
        ]),
    },
    Campaign {
        name: "autonomy",
        about: "AgentDojo's tasks and attacks through the gate, without a model: attacks stopped, questions asked; may name a program",
        promise: "Attacks by text that an agent reads are stopped, as servers are added by README and with everything declared",
        bound: "README's way 99 %, everything declared all; of 100 honest calls 30 held with words and own rules, 10 with plans",
        work: Work::Replay,
    },
];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let named = |name| CAMPAIGNS.iter().find(|campaign| campaign.name == name);
    let (found, program) = match arguments {
        [name] => (named(name.as_str()), None),
        [name, program] if name == "autonomy" => (named(name.as_str()), Some(program.as_str())),
        _ => (None, None),
    };
    let Some(campaign) = found else {
        say("usage: cargo xtask campaign NAME [PROGRAM]");
        CAMPAIGNS
            .iter()
            .for_each(|campaign| say(format_args!("  {:12} {}", campaign.name, campaign.about)));
        bail!("there is no such campaign");
    };
    let figure = match campaign.work {
        Work::Cargo(commands) => {
            let mut passed = 0;
            for command in commands {
                passed += command.run()?;
            }
            format!("{}; {passed} tests passed", campaign.bound)
        }
        Work::Replay => autonomy::run(program)?,
    };
    promises::write_down(campaign, &figure)?;
    say(format_args!("the campaign `{}` passed", campaign.name));
    Ok(())
}

impl CargoCommand {
    /// Runs it, showing what it prints; how many tests passed.
    fn run(&self) -> Result<usize> {
        let told = self
            .environment
            .iter()
            .map(|(name, value)| format!("{name}={value} "));
        say(format_args!(
            "{}cargo {}",
            told.collect::<String>(),
            self.arguments
        ));
        let mut child = Command::new("cargo")
            .args(self.arguments.split(' '))
            .envs(self.environment.iter().copied())
            .current_dir(process::root()?)
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot run cargo")?;
        let mut passed = 0;
        for line in BufReader::new(child.stdout.take().context("no output")?).lines() {
            let line = line?;
            passed += promises::passed(&line);
            say(&line);
        }
        ensure!(child.wait()?.success(), "`cargo {}` failed", self.arguments);
        Ok(passed)
    }
}
