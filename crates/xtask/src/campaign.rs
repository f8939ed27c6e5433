//! `cargo xtask campaign NAME`: what is too large or takes too long for every change, run before a release and when its subject was
//! touched.
//!
//! To add a campaign, give it a row here: a name, a sentence, and the commands of cargo that it is. A campaign installs what it needs
//! under `target/tools`, uses loopback only, and leaves no process behind.

use std::process::Command;

use anyhow::{Context, Result, bail, ensure};

use crate::{say, tools::process};

struct Campaign {
    name: &'static str,
    about: &'static str,
    commands: &'static [&'static [&'static str]],
}

const CAMPAIGNS: &[Campaign] = &[Campaign {
    name: "clients",
    about: "every client and agent that npm and PyPI offer: connect, list, call, be refused, wait for a person; installs a gigabyte",
    commands: &[
        &["build", "--quiet", "--workspace", "--bins"],
        &[
            "test",
            "--quiet",
            "-p",
            "portcullis",
            "--features",
            "campaign",
            "--test",
            "it",
            "--",
            "agents::",
            "journey::",
            "clients::",
        ],
    ],
}];

pub(crate) fn run(arguments: &[String]) -> Result<()> {
    let found = match arguments {
        [name] => CAMPAIGNS.iter().find(|campaign| campaign.name == name),
        _ => None,
    };
    let Some(campaign) = found else {
        say("usage: cargo xtask campaign NAME");
        CAMPAIGNS
            .iter()
            .for_each(|campaign| say(format_args!("  {:12} {}", campaign.name, campaign.about)));
        bail!("there is no such campaign");
    };
    for command in campaign.commands {
        say(format_args!("cargo {}", command.join(" ")));
        let status = Command::new("cargo")
            .args(*command)
            .current_dir(process::root()?)
            .status()
            .context("cannot run cargo")?;
        ensure!(status.success(), "`cargo {}` failed", command.join(" "));
    }
    say(format_args!("the campaign `{}` passed", campaign.name));
    Ok(())
}
