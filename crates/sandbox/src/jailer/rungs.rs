//! Which walls this machine offers, found out by building one, and what to do where it offers too few.

use std::path::Path;

use super::locks;
use super::spec::{Access, Calls, Jail, Limits, Mount, Network, Rung};
use super::standard::standard_view;
use super::start::Jailer;
use crate::jail::Report;
use crate::sys;

/// What became of each rung, best first.
#[derive(Debug, Clone)]
pub struct Probe {
    pub tried: Vec<(Rung, Result<Report, String>)>,
    /// The version of Landlock here.
    pub landlock: Option<u32>,
}

impl Probe {
    /// The best rung there is.
    #[must_use]
    pub fn rung(&self) -> Option<Rung> {
        self.tried
            .iter()
            .find_map(|(rung, outcome)| outcome.is_ok().then_some(*rung))
    }

    /// What the best rung leaves open to a server that shares the host's network, besides that network; nothing where it is the first, on a
    /// kernel that has all of Landlock.
    #[must_use]
    pub fn leaves_open(&self) -> Option<String> {
        let rung = self.rung();
        let shared = Network::Host {
            ports: Some(Vec::new()),
            listen: false,
        };
        let by_rung = match rung {
            Some(Rung::Namespaces) => None,
            Some(Rung::Reduced) => Some(
                "a server sees which files and processes exist outside, can change modes, times and attributes of the user's files, \
                 and has no limit of processes of its own",
            ),
            None => Some(
                "stdio servers and commands do not start, unless `jail: none` lets a server run without walls",
            ),
        };
        let by_landlock = rung.and_then(|rung| locks::missing(self.landlock, rung, &shared));
        let open: Vec<String> = by_rung
            .map(str::to_owned)
            .into_iter()
            .chain(by_landlock)
            .collect();
        (!open.is_empty()).then(|| open.join("; "))
    }

    /// Why the best rungs are not there, and what to do.
    #[must_use]
    pub fn repair(&self) -> Option<String> {
        let refused: Vec<&str> = self
            .tried
            .iter()
            .filter_map(|(_, outcome)| outcome.as_ref().err().map(String::as_str))
            .collect();
        (!refused.is_empty()).then(|| format!("{}; {}", refused.join("; "), advice()))
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
    Probe {
        tried,
        landlock: sys::landlock_abi(),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_open_is_said_for_each_rung_and_kernel() {
        let probe = |tried: &[(Rung, bool)], landlock| Probe {
            tried: tried
                .iter()
                .map(|&(rung, stands)| {
                    let report = Report::new(Vec::new());
                    (
                        rung,
                        if stands {
                            Ok(report)
                        } else {
                            Err(format!("no {}", rung.as_str()))
                        },
                    )
                })
                .collect(),
            landlock,
        };
        let best = probe(&[(Rung::Namespaces, true)], Some(7));
        assert_eq!((best.leaves_open(), best.repair()), (None, None));
        let old = probe(&[(Rung::Namespaces, true)], Some(5));
        assert!(old.leaves_open().unwrap().contains("abstract unix sockets"));
        assert_eq!(old.repair(), None);
        let reduced = probe(&[(Rung::Namespaces, false), (Rung::Reduced, true)], Some(7));
        assert!(reduced.leaves_open().unwrap().contains("modes, times"));
        let none = probe(&[(Rung::Namespaces, false), (Rung::Reduced, false)], None);
        assert!(none.leaves_open().unwrap().contains("do not start"));
        assert!(
            none.repair()
                .unwrap()
                .starts_with("no namespaces; no reduced; ")
        );
    }
}
