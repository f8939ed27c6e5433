//! Who has a home: one gate for as long as it runs, and verbs for the moment in which they record something.
//!
//! A verb holds the ledger for milliseconds, so whoever finds it taken waits for that long and no longer. A gate holds it until it
//! stops, so nobody waits for a gate. INVARIANT: a verb takes a change for recorded only if it recorded it itself or a gate has the
//! ledger.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io,
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::PathBuf,
    time::{Duration, Instant},
};

use audit::{Ledger, OpenError};

use crate::Home;

/// Far longer than a verb holds the ledger, on a machine that hardly lets it run.
const PATIENCE: Duration = Duration::from_secs(10);
/// Whoever looks whether a gate runs holds its lock for a moment.
const A_LOOK: Duration = Duration::from_millis(500);
const BETWEEN_TRIES: Duration = Duration::from_millis(10);

/// Why a home or its ledger cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum Taken {
    #[error(
        "a gate is running in this home already (process {0}); stop it, or choose another --home"
    )]
    ByGate(u32),
    #[error("another gate is starting in this home")]
    ByStartingGate,
    /// Something else has it, and does not let go.
    #[error(transparent)]
    ByOther(OpenError),
    #[error(transparent)]
    Broken(OpenError),
    #[error(transparent)]
    File(#[from] io::Error),
}

/// Opens the ledger of a home. Waits for verbs, and for no gate.
pub fn open_ledger(home: &Home) -> Result<Ledger, Taken> {
    let until = Instant::now() + PATIENCE;
    loop {
        let (error, pid) = match Ledger::at(&home.ledger) {
            Ok(ledger) => return Ok(ledger),
            Err(error @ OpenError::InUse { pid, .. }) => (error, pid),
            Err(error) => return Err(Taken::Broken(error)),
        };
        let gate = GateLock::holder(home);
        match gate {
            Some(gate) if pid == Some(gate) && gate != std::process::id() => {
                return Err(Taken::ByGate(gate));
            }
            _ if Instant::now() >= until => return Err(Taken::ByOther(error)),
            _ => std::thread::sleep(BETWEEN_TRIES),
        }
    }
}

/// Held by a gate from before it opens the ledger until it has stopped.
#[derive(Debug)]
pub struct GateLock(File);

impl GateLock {
    /// Takes the home for a gate.
    pub fn take(home: &Home) -> Result<Self, Taken> {
        let file = open(&path(home))?;
        let until = Instant::now() + A_LOOK;
        loop {
            match file.try_lock() {
                Ok(()) => break,
                Err(TryLockError::Error(error)) => return Err(error.into()),
                Err(TryLockError::WouldBlock) if Instant::now() < until => {
                    std::thread::sleep(BETWEEN_TRIES)
                }
                Err(TryLockError::WouldBlock) => {
                    return Err(said(home).map_or(Taken::ByStartingGate, Taken::ByGate));
                }
            }
        }
        file.set_len(0)?;
        file.write_all_at(std::process::id().to_string().as_bytes(), 0)?;
        Ok(Self(file))
    }

    /// The process of the gate that has this home, if there is one.
    fn holder(home: &Home) -> Option<u32> {
        let pid = said(home)?;
        let file = File::open(path(home)).ok()?;
        // A gate that was killed leaves its number behind, and no lock.
        matches!(file.try_lock_shared(), Err(TryLockError::WouldBlock)).then_some(pid)
    }
}

impl Drop for GateLock {
    fn drop(&mut self) {
        // Closing follows, so there is nothing to do about an error.
        let _ = self.0.set_len(0);
        let _ = self.0.unlock();
    }
}

fn path(home: &Home) -> PathBuf {
    home.state.join("gate.lock")
}

fn open(path: &std::path::Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(0o600)
        .open(path)
}

/// What the file says, whether or not it is true any more.
fn said(home: &Home) -> Option<u32> {
    fs::read_to_string(path(home)).ok()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verb_waits_for_a_verb_and_not_for_a_gate() {
        let dir = tempfile::tempdir().unwrap();
        let home = Home::at(dir.path());
        home.prepare().unwrap();
        let held = Ledger::at(&home.ledger).unwrap();
        let waiting = std::thread::spawn({
            let home = home.clone();
            move || open_ledger(&home).map(drop)
        });
        std::thread::sleep(Duration::from_millis(50));
        assert!(!waiting.is_finished(), "nobody says that a gate has it");
        drop(held);
        assert!(waiting.join().unwrap().is_ok());
        fs::write(path(&home), "4242").unwrap();
        assert_eq!(GateLock::holder(&home), None, "a killed gate has nothing");
        let ours = GateLock::take(&home).unwrap();
        assert_eq!(GateLock::holder(&home), Some(std::process::id()));
        let second = GateLock::take(&home).unwrap_err();
        assert!(
            second
                .to_string()
                .contains(&format!("process {}", std::process::id())),
            "{second}"
        );
        drop(ours);
        assert_eq!(GateLock::holder(&home), None);
    }
}
