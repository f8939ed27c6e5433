//! Which walls this machine offers, found out by building one, and what to do where it offers too few.

use std::path::Path;

use super::spec::{Access, Calls, Jail, Limits, Mount, Network, Rung};
use super::standard::standard_view;
use super::start::Jailer;
use crate::jail::Report;

/// What became of each rung, best first.
#[derive(Debug, Clone)]
pub struct Probe {
    pub tried: Vec<(Rung, Result<Report, String>)>,
}

impl Probe {
    /// The best rung there is.
    #[must_use]
    pub fn rung(&self) -> Option<Rung> {
        self.tried
            .iter()
            .find_map(|(rung, outcome)| outcome.is_ok().then_some(*rung))
    }

    /// What the best rung leaves open; nothing where it is the first.
    #[must_use]
    pub fn leaves_open(&self) -> &'static str {
        match self.rung() {
            Some(Rung::Namespaces) => "",
            Some(Rung::Reduced) => {
                "a server sees which files and processes exist outside, can change modes, times and attributes of the user's files, \
                 and has no limit of processes of its own"
            }
            None => {
                "stdio servers and commands do not start, unless `jail: none` lets a server run without walls"
            }
        }
    }

    /// Why the first rung is not there, and what to do.
    #[must_use]
    pub fn repair(&self) -> Option<String> {
        let (_, Err(why)) = self.tried.first()? else {
            return None;
        };
        Some(format!("{why}; {}", advice()))
    }
}

/// Builds a jail of each rung until one stands. `own` is the jailer's own program, which the jail executes and which ends at once.
#[must_use]
pub fn probe(jailer: &Jailer, idle: &[&str]) -> Probe {
    let mut tried = Vec::new();
    for rung in [Rung::Namespaces, Rung::Reduced] {
        let outcome = attempt(jailer, idle, rung);
        let stands = outcome.is_ok();
        tried.push((rung, outcome));
        if stands {
            break;
        }
    }
    Probe { tried }
}

fn attempt(jailer: &Jailer, idle: &[&str], rung: Rung) -> Result<Report, String> {
    let own = jailer
        .program
        .canonicalize()
        .map_err(|error| format!("{}: {error}", jailer.program.display()))?;
    let mut view = standard_view();
    view.push(Mount::same(&own, Access::ReadOnly));
    let jail = Jail {
        program: own.into(),
        args: idle.iter().map(Into::into).collect(),
        env: Vec::new(),
        directory: "/".into(),
        view,
        network: Network::Own,
        limits: Limits::default(),
        calls: Calls::default(),
        rung,
        insist: false,
        shown_user: None,
    };
    let jailed = jail.start(jailer).map_err(|error| error.to_string())?;
    let report = jailed.report;
    // It ends by itself; whoever drops it makes sure.
    drop(jailed.spawned);
    Ok(report)
}

fn advice() -> &'static str {
    let says = |file: &str, value: &str| {
        std::fs::read_to_string(file).is_ok_and(|text| text.trim() == value)
    };
    if says(
        "/proc/sys/kernel/apparmor_restrict_unprivileged_userns",
        "1",
    ) {
        "AppArmor refuses user namespaces to programs it does not know: put the shipped profile `packaging/apparmor/portcullis-worker` into /etc/apparmor.d and run `sudo apparmor_parser -r /etc/apparmor.d/portcullis-worker`"
    } else if says("/proc/sys/kernel/unprivileged_userns_clone", "0") {
        "the system refuses user namespaces: `sudo sysctl kernel.unprivileged_userns_clone=1`"
    } else if says("/proc/sys/user/max_user_namespaces", "0") {
        "the system allows no user namespaces: `sudo sysctl user.max_user_namespaces=10000`"
    } else if Path::new("/.dockerenv").exists() || Path::new("/run/.containerenv").exists() {
        "the container refuses namespaces: start it with `--security-opt seccomp=unconfined --security-opt systempaths=unconfined`, or give servers containers of their own"
    } else {
        "the kernel must be Linux 5.12 or newer and allow user namespaces"
    }
}
