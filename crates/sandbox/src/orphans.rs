//! Strays: what a child leaves behind when it dies.
//!
//! A daemon that forked twice and left its session is out of reach of a signal to the group. As *subreaper* this
//! process becomes the parent of such orphans, finds them among its own children, and knows them by their mark.
//!
//! Invariant: a process is killed here only if it carries a mark and no living child owns that mark. Children that
//! other code of this process started carry our own mark and are left alone.

use std::io;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, WaitOptions};

use crate::mark::Mark;
use crate::{inspect, lock, registry};

/// How long one sweep goes on killing what keeps forking; the keeper sweeps again later.
const SWEEP_PATIENCE: Duration = Duration::from_millis(500);
const LOOK_AGAIN: Duration = Duration::from_millis(1);

/// Makes this process the parent of every orphan below it. Happens by itself with the first spawn.
///
/// # Errors
/// If the kernel refuses (none since Linux 3.4 does).
pub fn become_subreaper() -> io::Result<()> {
    Ok(rustix::process::set_child_subreaper(Some(
        rustix::process::getpid(),
    ))?)
}

/// Kills and reaps the strays among our children, and reaps dead orphans of living children.
///
/// Called after every child's end and by the keeper once a second; there is no harm in calling it more often.
/// Returns how many processes were reaped.
pub fn reap_orphans() -> usize {
    // One sweep at a time: a number reaped by one sweep may be a new child's by the time another would kill it.
    static SWEEPING: Mutex<()> = Mutex::new(());
    let _sweeping = lock(&SWEEPING);
    let deadline = Instant::now() + SWEEP_PATIENCE;
    let mut reaped = 0;
    loop {
        let strays = sort_children(&mut reaped);
        if strays.is_empty() || Instant::now() >= deadline {
            return reaped;
        }
        for &pid in &strays {
            // It may have died by itself meanwhile; it is reaped all the same.
            let _ = rustix::process::kill_process(pid, Signal::KILL);
        }
        for &pid in &strays {
            reaped += usize::from(reap_by(pid, deadline));
        }
        // Killing a stray makes *its* children ours: look again.
    }
}

/// Reaps orphans of living children that are already dead, and returns the strays.
fn sort_children(reaped: &mut usize) -> Vec<Pid> {
    let children = inspect::children_of(std::process::id()).unwrap_or_default();
    let mut strays = Vec::new();
    for number in children {
        let Some(mark) = Mark::of(number).filter(|&mark| mark != Mark::own()) else {
            continue;
        };
        if registry::is_leader(number) {
            continue;
        }
        let Some(pid) = i32::try_from(number).ok().and_then(Pid::from_raw) else {
            continue;
        };
        if !registry::is_live(mark) {
            strays.push(pid);
        } else if inspect::is_zombie(number) && !is_being_born(mark) {
            *reaped += usize::from(reap_by(pid, Instant::now()));
        }
    }
    strays
}

/// Whether the mark is reserved for a child whose number is not known yet: it must not be reaped under the spawner.
fn is_being_born(mark: Mark) -> bool {
    !registry::living()
        .iter()
        .any(|process| process.mark() == mark)
}

fn reap_by(pid: Pid, deadline: Instant) -> bool {
    loop {
        match rustix::process::waitpid(Some(pid), WaitOptions::NOHANG) {
            Ok(Some(_)) => return true,
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_AGAIN),
            Ok(None) | Err(_) => return false,
        }
    }
}
