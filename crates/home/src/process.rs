//! Which process started this one, known again by its number and the time it began.
//!
//! A number alone is given out again after a process has ended. Whoever cannot be seen counts as running.

use std::fs;

use serde::{Deserialize, Serialize};

/// Programs that only stand between a client and the command that it starts.
const SHELLS: [&str; 9] = [
    "ash", "bash", "busybox", "dash", "env", "fish", "ksh", "sh", "zsh",
];
/// A client starts a shell, which starts the command; a few more cost nothing.
const MOST_SHELLS: usize = 8;

/// A process of this machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Process {
    pid: u32,
    /// Clock ticks after the machine started.
    began: u64,
    /// The start of the machine, and the namespace in which the number means something.
    boot: String,
    namespace: String,
}

/// What the kernel says of a process.
struct Stat {
    name: String,
    state: char,
    parent: u32,
    began: u64,
}

impl Process {
    /// The client that started this command, behind the shells in between.
    #[must_use]
    pub fn client() -> Option<Self> {
        let mut pid = u32::try_from(rustix::process::getppid()?.as_raw_nonzero().get()).ok()?;
        for _ in 0..MOST_SHELLS {
            let stat = stat(pid)?;
            if !SHELLS.contains(&stat.name.as_str()) {
                // The first process adopts those whose parent has ended: it is nobody's client.
                return (pid > 1).then_some(Self {
                    pid,
                    began: stat.began,
                    boot: boot()?,
                    namespace: namespace()?,
                });
            }
            pid = stat.parent;
        }
        None
    }

    /// Whether it still runs, as far as can be seen from here.
    #[must_use]
    pub fn is_running(&self) -> bool {
        if boot().is_some_and(|boot| boot != self.boot) {
            return false;
        }
        if namespace().is_none_or(|namespace| namespace != self.namespace) {
            return true;
        }
        stat(self.pid)
            .is_some_and(|stat| stat.began == self.began && !matches!(stat.state, 'Z' | 'X'))
    }
}

fn boot() -> Option<String> {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").ok()?;
    Some(id.trim().to_owned())
}

fn namespace() -> Option<String> {
    let link = fs::read_link("/proc/self/ns/pid").ok()?;
    Some(link.to_string_lossy().into_owned())
}

/// Reads `/proc/PID/stat`. The name stands in brackets and may hold anything, brackets too.
fn stat(pid: u32) -> Option<Stat> {
    let text = fs::read(format!("/proc/{pid}/stat")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let (before, after) = text.rsplit_once(')')?;
    let (_, name) = before.split_once('(')?;
    let mut fields = after.split_ascii_whitespace();
    let state = fields.next()?.chars().next()?;
    let parent = fields.next()?.parse().ok()?;
    // The 22nd field of the line is the 20th after the name.
    let began = fields.nth(17)?.parse().ok()?;
    Some(Stat {
        name: name.to_owned(),
        state,
        parent,
        began,
    })
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::*;

    fn of(pid: u32) -> Process {
        Process {
            pid,
            began: stat(pid).unwrap().began,
            boot: boot().unwrap(),
            namespace: namespace().unwrap(),
        }
    }

    #[test]
    fn a_process_is_known_again_and_its_end_is_seen() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let process = of(child.id());
        assert!(process.is_running());
        let again = Process {
            began: process.began + 1,
            ..process.clone()
        };
        assert!(!again.is_running(), "another with the same number");
        let elsewhere = Process {
            namespace: "pid:[1]".to_owned(),
            ..again.clone()
        };
        assert!(
            elsewhere.is_running(),
            "who cannot be seen counts as running"
        );
        let before = Process {
            boot: "another start".to_owned(),
            ..elsewhere
        };
        assert!(!before.is_running(), "nothing outlives the machine");
        drop(child.stdin.take());
        child.wait().unwrap();
        assert!(!process.is_running());
    }

    #[test]
    fn the_client_is_not_a_shell() {
        let client = Process::client();
        assert!(client.is_none_or(|client| client.is_running()));
    }
}
