//! CPU time and memory of processes, as the kernel counts them.

use std::fs;

use testkit::procfs;

/// Clock ticks per second in `/proc`; fixed by the kernel's interface on Linux.
const TICKS: f64 = 100.0;

/// What some processes have used so far.
#[derive(Debug, Clone, Copy, Default)]
pub struct Usage {
    pub cpu_seconds: f64,
    pub resident_bytes: u64,
}

/// The sum over `pids`; a process that is gone counts as nothing.
#[must_use]
pub fn usage(pids: &[u32]) -> Usage {
    let cpu_seconds = pids.iter().filter_map(|pid| cpu_seconds(*pid)).sum();
    Usage {
        cpu_seconds,
        resident_bytes: pids.iter().map(|pid| procfs::resident_bytes(*pid)).sum(),
    }
}

/// User and system time of all threads of a process, also those that ended.
fn cpu_seconds(pid: u32) -> Option<f64> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The program's name may hold spaces and brackets; the numbers start after its closing bracket.
    let mut fields = stat.rsplit_once(") ")?.1.split(' ');
    let user: f64 = fields.nth(11)?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some((user + system) / TICKS)
}
