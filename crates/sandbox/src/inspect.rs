//! Reading `/proc`: who descends from whom, in which state, with which descriptors open.
//!
//! Read-only. What it returns was true a moment ago; only for our own unreaped children does it stay true.

use std::io;
use std::path::PathBuf;

/// The processes whose parent is `pid`, dead-but-unreaped ones included.
///
/// # Errors
/// If `/proc` cannot be read, or `pid` does not exist.
pub fn children_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut children = Vec::new();
    for thread in std::fs::read_dir(format!("/proc/{pid}/task"))? {
        // A thread may end between being listed and being read; its children then show under another thread.
        match std::fs::read_to_string(thread?.path().join("children")) {
            Ok(list) => children.extend(
                list.split_whitespace()
                    .filter_map(|pid| pid.parse::<u32>().ok()),
            ),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return children_by_scan(pid),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(children)
}

/// The same answer on kernels without the `children` file, from every process's own account of its parent.
fn children_by_scan(parent: u32) -> io::Result<Vec<u32>> {
    Ok(all_processes()?
        .into_iter()
        .filter(|&pid| stat(pid).is_some_and(|stat| stat.parent == parent))
        .collect())
}

/// Every process below `pid`, nearest first; `pid` itself is not among them.
///
/// # Errors
/// As [`children_of`], for `pid` itself; processes that vanish during the walk are left out.
pub fn descendants_of(pid: u32) -> io::Result<Vec<u32>> {
    let mut found = children_of(pid)?;
    let mut next = 0;
    while let Some(&parent) = found.get(next) {
        found.extend(children_of(parent).unwrap_or_default());
        next += 1;
    }
    Ok(found)
}

/// Whether a process of this number exists, a zombie included.
#[must_use]
pub fn exists(pid: u32) -> bool {
    stat(pid).is_some()
}

/// Whether the process is dead but not yet reaped.
#[must_use]
pub fn is_zombie(pid: u32) -> bool {
    stat(pid).is_some_and(|stat| stat.state == 'Z')
}

/// What the process's open descriptors point at, by number.
///
/// # Errors
/// If the process does not exist or is not ours to look at.
pub fn descriptors_of(pid: u32) -> io::Result<Vec<(u32, PathBuf)>> {
    let mut descriptors = Vec::new();
    for entry in std::fs::read_dir(format!("/proc/{pid}/fd"))? {
        let entry = entry?;
        let Some(number) = entry
            .file_name()
            .to_str()
            .and_then(|name| name.parse().ok())
        else {
            continue;
        };
        descriptors.push((number, std::fs::read_link(entry.path()).unwrap_or_default()));
    }
    descriptors.sort_unstable();
    Ok(descriptors)
}

/// One line of `/proc/PID/status`, for example `Seccomp` or `NoNewPrivs`.
#[must_use]
pub fn status_of(pid: u32, field: &str) -> Option<String> {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).ok()?;
    status.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        (name == field).then(|| value.trim().to_owned())
    })
}

/// The facts of `/proc/PID/stat` we use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stat {
    state: char,
    parent: u32,
}

fn stat(pid: u32) -> Option<Stat> {
    parse_stat(&std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// The command name is in parentheses and may itself contain spaces and parentheses: the *last* `)` ends it.
fn parse_stat(text: &str) -> Option<Stat> {
    let (_, rest) = text.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    Some(Stat { state, parent })
}

fn all_processes() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        pids.extend(
            entry?
                .file_name()
                .to_str()
                .and_then(|name| name.parse::<u32>().ok()),
        );
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_name_with_parentheses_does_not_confuse_the_parser() {
        let stat = parse_stat("42 (a) R 1 (b)) Z 7 42 42 0 -1").unwrap();
        assert_eq!(
            stat,
            Stat {
                state: 'Z',
                parent: 7
            }
        );
    }

    #[test]
    fn both_ways_to_list_children_agree() {
        let mut sleeper = std::process::Command::new("sleep")
            .arg("60")
            .spawn()
            .unwrap();
        let me = std::process::id();
        assert!(children_of(me).unwrap().contains(&sleeper.id()));
        assert!(children_by_scan(me).unwrap().contains(&sleeper.id()));
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert!(!exists(sleeper.id()));
    }

    #[test]
    fn our_own_standard_streams_are_among_our_descriptors() {
        let numbers: Vec<u32> = descriptors_of(std::process::id())
            .unwrap()
            .into_iter()
            .map(|(number, _)| number)
            .collect();
        assert!(numbers.contains(&1) && numbers.contains(&2));
    }
}

/// Whether a process is running, and how much it has run and waited for the processor: two that are equal mean that in between it did
/// neither.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pulse {
    pub state: char,
    /// Time on the processor, in nanoseconds where the kernel counts so finely.
    pub ran: u64,
    /// Time spent waiting for the processor, up to the last time it got it.
    pub waited: u64,
}

impl Pulse {
    /// Stopped by a signal or a tracer.
    #[must_use]
    pub const fn is_stopped(self) -> bool {
        matches!(self.state, 'T' | 't')
    }

    /// Waiting for something, not for the processor.
    #[must_use]
    pub const fn is_asleep(self) -> bool {
        self.state == 'S'
    }

    /// Waiting for a disk, and for nothing that a signal could end.
    #[must_use]
    pub const fn is_on_a_disk(self) -> bool {
        self.state == 'D'
    }
}

/// Nanoseconds in one of the kernel's clock ticks, which are hundredths of a second on Linux whatever the kernel runs at.
const TICK_NS: u64 = 10_000_000;

/// The pulse of a process, of its first thread; `None` when it is gone.
#[must_use]
pub fn pulse(pid: u32) -> Option<Pulse> {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    // The name, in parentheses, may hold anything; what counts comes after the last one.
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let mut times = fields.skip(10).map_while(|field| field.parse::<u64>().ok());
    let ticks = times.next()? + times.next()?;
    let fine = std::fs::read_to_string(format!("/proc/{pid}/schedstat")).ok();
    let mut fine = fine
        .iter()
        .flat_map(|text| text.split_ascii_whitespace())
        .map_while(|field| field.parse::<u64>().ok());
    let (ran, waited) = (
        fine.next().unwrap_or(ticks.saturating_mul(TICK_NS)),
        fine.next().unwrap_or(0),
    );
    Some(Pulse { state, ran, waited })
}
