//! `cargo xtask campaign NAME`: what is too large or takes too long for every change, run before a release and when its subject was
//! touched.
//!
//! To add a campaign, give it a row in [`CAMPAIGNS`]: a name, a sentence, what it promises, and the commands of cargo or the replay that it is. A
//! campaign installs what it needs under `target/tools`, uses loopback only, and leaves no process behind. One that passed writes its
//! figure into `docs/understand/promises.md`.

mod autonomy;
mod fuzzing;
mod promises;

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail, ensure};

use crate::{package, say, tools::process};

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
    /// Gives every parser any bytes.
    Fuzz,
    /// Replays tasks and attacks through the gate.
    Replay,
    /// Builds the Debian package, and installs and removes it in a Debian of its own.
    Package,
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
        name: "worker-kills",
        about: "a worker that is killed a thousand times under load",
        promise: "Callers hear of a worker's death at once, nobody gets another's answer, and the next worker takes over",
        bound: "1,000 kills; every caller told within 250 ms, ready again within 1 s (p99)",
        work: Work::Cargo(&[
            BUILD,
            cargo(
                "test --quiet -p portcullis --test it -- --test-threads 1 worker_death::two_hundred_kills_under_load",
                &[("WORKER_KILLS", "1000")],
            ),
        ]),
    },
    Campaign {
        name: "power-cuts",
        about: "power cuts and kills in the middle of writing the ledger, on a disk that fails too",
        promise: "What was acknowledged as durable is there after a power cut, and nothing that was not damaged is called damage",
        bound: "200,000 power cuts and 10,000 kills, nothing lost, no false alarm",
        work: Work::Cargo(&[
            cargo(
                "test --quiet -p audit --lib -- power_cuts_lose_nothing_synced",
                &[("AUDIT_POWER_CUTS", "200000")],
            ),
            cargo(
                "test --quiet -p audit --lib -- acknowledged_records_survive",
                &[("AUDIT_KILLS", "10000")],
            ),
        ]),
    },
    Campaign {
        name: "duplicates",
        about: "a million signed envelopes that 64 threads send again at once",
        promise: "A signed envelope counts once, from however many sides it comes and after a kill",
        bound: "1,000,000 attempts of 64 threads, each envelope accepted once",
        work: Work::Cargo(&[cargo(
            "test --quiet -p identity --lib -- of_64_threads_with_the_same_envelopes_exactly_one_wins_each",
            &[("REPLAY_ATTEMPTS", "1000000")],
        )]),
    },
    Campaign {
        name: "races",
        about: "reading, sending, resetting and being killed at the same time, in half a million orders each",
        promise: "No order of concurrent calls shows a result before its label is durable, sends against a stale label or washes one off",
        bound: "500,000 random and 500,000 unlucky schedules of each race, none wrong",
        work: Work::Cargo(&[cargo(
            "test --quiet -p flow --test schedules -- no_schedule no_unlucky_schedule",
            &[("FLOW_SCHEDULES", "500000")],
        )]),
    },
    Campaign {
        name: "fuzzing",
        about: "every fuzz target on any bytes, a minute each (FUZZ_SECONDS says otherwise); builds the parsers anew, instrumented",
        promise: "No bytes break a parser, or make it break what it promises of what it read",
        bound: "no crash",
        work: Work::Fuzz,
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
        about: "a thousand jails started and killed, every attempt to get out of one, as root and as an ordinary user, sixteen published servers from empty caches, servers in containers (Podman), 10,000 schedules of executors, and what a jail and a command cost on an idle machine",
        promise: "What runs in a jail reaches nothing that its profile does not show, and leaves nothing behind",
        bound: "1,000 starts and kills leave no process and no mount; no attempt but those on the page; a start 8 ms (p50), a server there 150 ms later, a command 12 ms more than a call; sixteen of sixteen servers; each call of 10,000 schedules ends once",
        work: Work::Cargo(&[
            BUILD,
            cargo(
                "test --quiet --workspace --test jails",
                &[("JAIL_CYCLES", "1000"), ("JAIL_FIGURES", "1")],
            ),
            cargo("test --quiet --workspace --test it -- jails::", &[]),
            cargo(
                "test --quiet -p portcullis --features campaign --test it -- --test-threads 1 published:: containers:: dispatch::schedules",
                &[("JAIL_FIGURES", "1"), ("DISPATCH_SCHEDULES", "2500")],
            ),
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
    Campaign {
        name: "package",
        about: "the Debian package: lintian, installed, upgraded, removed and purged in a Debian of its own; the unit held against systemd-analyze; needs root",
        promise: "The package installs on a bare Debian and leaves the ledger when it is purged",
        bound: "no error of lintian; the unit's exposure 3.0 or less",
        work: Work::Package,
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
            ensure!(passed > 0, "no test ran");
            format!("{}; {passed} tests passed", campaign.bound)
        }
        Work::Fuzz => fuzzing::run()?,
        Work::Replay => autonomy::run(program)?,
        Work::Package => package::campaign()?,
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
