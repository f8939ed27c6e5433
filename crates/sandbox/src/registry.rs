//! Every child that is alive, by mark, so that shutdown finds them all.
//!
//! A mark is entered *before* its child is forked and leaves *after* the child is reaped. In between, whatever carries
//! the mark belongs to a living child; outside of that, it is a stray.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;

use crate::child::Process;
use crate::lock;
use crate::mark::Mark;

/// How long [`kill_all`] waits for the kernel to be done with what it killed.
const KILL_ALL_PATIENCE: Duration = Duration::from_secs(2);

static LIVE: Mutex<BTreeMap<Mark, Option<Arc<Process>>>> = Mutex::new(BTreeMap::new());

/// A mark that counts as alive from now on, for a child about to be forked.
pub(crate) fn reserve() -> Mark {
    let mark = Mark::fresh();
    lock(&LIVE).insert(mark, None);
    mark
}

pub(crate) fn enter(process: &Arc<Process>) {
    lock(&LIVE).insert(process.mark(), Some(Arc::clone(process)));
}

pub(crate) fn leave(mark: Mark) {
    lock(&LIVE).remove(&mark);
}

pub(crate) fn is_live(mark: Mark) -> bool {
    lock(&LIVE).contains_key(&mark)
}

pub(crate) fn is_empty() -> bool {
    lock(&LIVE).is_empty()
}

/// Whether `pid` is itself a child in the registry, as opposed to something that descends from one.
pub(crate) fn is_leader(pid: u32) -> bool {
    lock(&LIVE)
        .values()
        .flatten()
        .any(|process| process.pid() == pid)
}

pub(crate) fn living() -> Vec<Arc<Process>> {
    lock(&LIVE).values().flatten().map(Arc::clone).collect()
}

/// Kills and reaps every child and everything that descends from one. For the end of the program.
///
/// Returns how many children the kernel had not let go of after two seconds: normally none.
pub fn kill_all() -> usize {
    let condemned = living();
    for process in &condemned {
        // A child that cannot be signalled shows up in the count below.
        let _ = process.signal_group(Signal::KILL);
    }
    let deadline = Instant::now() + KILL_ALL_PATIENCE;
    let left = condemned
        .iter()
        .filter(|process| !matches!(process.finish_by(deadline), Ok(Some(_))))
        .count();
    crate::orphans::reap_orphans();
    left
}
