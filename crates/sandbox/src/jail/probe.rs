//! What this kernel offers, asked without changing anything: for `portcullis doctor` and the start-up lines.

use std::os::fd::AsFd;

use super::landlock::coverage;
use crate::{handover, inspect, sys};

/// One thing the walls are built from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Capability {
    pub name: &'static str,
    pub available: bool,
    /// How far it goes here, or what is lost without it.
    pub detail: String,
}

/// Asks the kernel for everything this crate relies on.
#[must_use]
pub fn probe() -> Vec<Capability> {
    vec![
        seccomp(),
        landlock(),
        no_new_privileges(),
        subreaper(),
        pidfd(),
        children_file(),
        descriptor_passing(),
    ]
}

fn seccomp() -> Capability {
    let available = sys::seccomp_can_refuse();
    let detail = if available {
        "system calls are filtered"
    } else {
        "the worker's system calls cannot be filtered"
    };
    Capability {
        name: "seccomp",
        available,
        detail: detail.to_owned(),
    }
}

fn landlock() -> Capability {
    let version = sys::landlock_abi();
    let detail = version.map_or_else(
        || "no second wall around files; seccomp alone keeps them closed".to_owned(),
        |version| format!("version {version}: {}", coverage(version)),
    );
    Capability {
        name: "landlock",
        available: version.is_some(),
        detail,
    }
}

fn no_new_privileges() -> Capability {
    let available = rustix::thread::no_new_privs().is_ok();
    let detail = if available {
        "set-user-ID programs gain nothing"
    } else {
        "set-user-ID programs keep their power"
    };
    Capability {
        name: "no_new_privs",
        available,
        detail: detail.to_owned(),
    }
}

fn subreaper() -> Capability {
    let available = rustix::process::child_subreaper().is_ok();
    let detail = if available {
        "daemons of stdio servers end with them"
    } else {
        "daemons of stdio servers may survive"
    };
    Capability {
        name: "subreaper",
        available,
        detail: detail.to_owned(),
    }
}

fn pidfd() -> Capability {
    let own = rustix::process::pidfd_open(
        rustix::process::getpid(),
        rustix::process::PidfdFlags::empty(),
    );
    let detail = if own.is_ok() {
        "the end of a process is an event"
    } else {
        "the end of a process is polled for"
    };
    Capability {
        name: "pidfd",
        available: own.is_ok(),
        detail: detail.to_owned(),
    }
}

fn children_file() -> Capability {
    let thread = rustix::thread::gettid();
    let file = format!("/proc/self/task/{}/children", thread.as_raw_nonzero());
    let available = std::path::Path::new(&file).exists();
    let readable = inspect::children_of(std::process::id()).is_ok();
    let detail = match (available, readable) {
        (true, _) => "children are listed by the kernel",
        (false, true) => "children are found by scanning /proc, which is slower",
        (false, false) => "/proc cannot be read: daemons of stdio servers may survive",
    };
    Capability {
        name: "proc children",
        available: readable,
        detail: detail.to_owned(),
    }
}

/// Passes a descriptor to ourselves, which is what handing pipes to the worker takes.
fn descriptor_passing() -> Capability {
    let passed = handover::pair().and_then(|(sender, receiver)| {
        sender.send(0, &[], &[sender.as_fd()])?;
        receiver.receive()
    });
    let (available, detail) = match passed {
        Ok(Some(packet)) if packet.fds.len() == 1 => {
            (true, "pipes of stdio servers go to the worker".to_owned())
        }
        Ok(_) => (
            false,
            "a descriptor sent did not arrive: stdio servers cannot be used".to_owned(),
        ),
        Err(error) => (false, format!("stdio servers cannot be used: {error}")),
    };
    Capability {
        name: "descriptor passing",
        available,
        detail,
    }
}
