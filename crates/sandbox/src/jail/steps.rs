//! The way into the jail, one function per step, in the order of the table.
//!
//! A step returns what it achieved, or why the kernel would not have it. It never stops the steps after it.

use std::ffi::CString;

use rustix::process::{DumpableBehavior, Gid, Resource, Rlimit, Signal, Uid};
use rustix::thread::{CapabilitySet, CapabilitySets};

use super::{Measure, Spec, landlock, seccomp};
use crate::sys;

/// One measure: its name in reports and documents, and how it is taken.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    pub name: &'static str,
    apply: fn(&Spec) -> Result<String, String>,
}

impl Step {
    /// Takes this step alone. Only all of them together make a jail: see [`enter`](super::enter).
    #[must_use = "a measure that was refused is only visible in what is returned"]
    pub fn take(&self, spec: &Spec) -> Measure {
        Measure::new(self.name, (self.apply)(spec))
    }
}

/// Every step, in order. `docs/understand/privsep.md` lists the same names in the same order; a test compares them.
pub const STEPS: &[Step] = &[
    Step {
        name: "process name",
        apply: name_process,
    },
    Step {
        name: "single thread",
        apply: check_single_thread,
    },
    Step {
        name: "working directory",
        apply: leave_directory,
    },
    Step {
        name: "descriptors",
        apply: close_descriptors,
    },
    Step {
        name: "resource limits",
        apply: lower_limits,
    },
    Step {
        name: "no new privileges",
        apply: forbid_new_privileges,
    },
    Step {
        name: "root",
        apply: give_up_root,
    },
    Step {
        name: "capabilities",
        apply: drop_capabilities,
    },
    Step {
        name: "parent death",
        apply: die_with_parent,
    },
    Step {
        name: "not dumpable",
        apply: forbid_dumping,
    },
    Step {
        name: "landlock",
        apply: landlock::lock_files,
    },
    Step {
        name: "seccomp",
        apply: seccomp::lock_calls,
    },
];

/// The user and group that own nothing, on every Linux.
const NOBODY: u32 = 65_534;

fn name_process(spec: &Spec) -> Result<String, String> {
    let name =
        CString::new(spec.name.as_str()).map_err(|_| "the name contains a zero byte".to_owned())?;
    rustix::thread::set_name(&name).map_err(reason)?;
    Ok(spec.name.clone())
}

/// Most of what follows binds one thread and those it starts later; threads already running would stay outside.
fn check_single_thread(_: &Spec) -> Result<String, String> {
    match std::fs::read_dir("/proc/self/task").map(Iterator::count) {
        Ok(1) => Ok("every later thread inherits the jail".to_owned()),
        Ok(threads) => Err(format!(
            "{threads} threads were running already; only seccomp covers them all"
        )),
        Err(error) => Err(format!("/proc/self/task cannot be read: {error}")),
    }
}

fn leave_directory(_: &Spec) -> Result<String, String> {
    rustix::process::chdir("/").map_err(reason)?;
    Ok("/".to_owned())
}

fn close_descriptors(_: &Spec) -> Result<String, String> {
    let (first, kept) = if sys::handover_is_a_packet_socket() {
        (
            sys::HANDOVER_FD + 1,
            "kept 0, 1, 2 and the handover socket 3",
        )
    } else {
        (
            sys::HANDOVER_FD,
            "kept 0, 1 and 2; no handover socket was inherited",
        )
    };
    sys::close_from(first).map_err(|error| error.to_string())?;
    Ok(kept.to_owned())
}

fn lower_limits(spec: &Spec) -> Result<String, String> {
    lower_limit(Resource::Core, 0)?;
    let descriptors = lower_limit(Resource::Nofile, spec.max_descriptors)?;
    let memory = match spec.max_memory {
        Some(bytes) => format!("{} bytes of memory", lower_limit(Resource::Data, bytes)?),
        None => "memory not limited".to_owned(),
    };
    let time = match spec.max_seconds {
        Some(seconds) => format!(", {} seconds", lower_limit(Resource::Cpu, seconds)?),
        None => String::new(),
    };
    Ok(format!(
        "no core dumps, {descriptors} descriptors, {memory}{time}"
    ))
}

/// Lowers the hard and the soft limit to `value`, or leaves a hard limit that is lower already.
fn lower_limit(resource: Resource, value: u64) -> Result<u64, String> {
    let hard = rustix::process::getrlimit(resource).maximum;
    let value = hard.map_or(value, |hard| hard.min(value));
    let limit = Rlimit {
        current: Some(value),
        maximum: Some(value),
    };
    rustix::process::setrlimit(resource, limit).map_err(reason)?;
    Ok(value)
}

fn forbid_new_privileges(_: &Spec) -> Result<String, String> {
    rustix::thread::set_no_new_privs(true).map_err(reason)?;
    Ok("for this process and all it could start".to_owned())
}

fn give_up_root(_: &Spec) -> Result<String, String> {
    if !rustix::process::geteuid().is_root() && !rustix::process::getuid().is_root() {
        return Ok("was not root".to_owned());
    }
    let (user, group) = (Uid::from_raw(NOBODY), Gid::from_raw(NOBODY));
    rustix::thread::set_thread_groups(&[]).map_err(reason)?;
    rustix::thread::set_thread_res_gid(group, group, group).map_err(reason)?;
    rustix::thread::set_thread_res_uid(user, user, user).map_err(reason)?;
    Ok(format!("became user and group {NOBODY}"))
}

fn drop_capabilities(_: &Spec) -> Result<String, String> {
    // Gone with the permitted set below in any case; the call itself is absent before Linux 4.3.
    let _ = rustix::thread::clear_ambient_capability_set();
    let none = CapabilitySet::empty();
    let sets = CapabilitySets {
        effective: none,
        permitted: none,
        inheritable: none,
    };
    rustix::thread::set_capabilities(None, sets).map_err(reason)?;
    Ok("none left".to_owned())
}

/// Asked for again, because the kernel forgets it when a process changes its user.
fn die_with_parent(_: &Spec) -> Result<String, String> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).map_err(reason)?;
    Ok("killed when the gate ends".to_owned())
}

/// Keeps other processes of the same user from tracing this one and from reading its memory through `/proc`.
fn forbid_dumping(_: &Spec) -> Result<String, String> {
    hide_memory().map_err(reason)?;
    Ok("memory closed to processes of the same user".to_owned())
}

pub(super) fn hide_memory() -> rustix::io::Result<()> {
    rustix::process::setrlimit(
        Resource::Core,
        Rlimit {
            current: Some(0),
            maximum: Some(0),
        },
    )?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable)
}

fn reason(errno: rustix::io::Errno) -> String {
    std::io::Error::from(errno).to_string()
}
