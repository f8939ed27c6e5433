//! Where accepted envelopes are written down, so that a gate that is killed still knows them.
//!
//! An entry is with the kernel before its envelope counts as accepted, which is enough for a process that dies. A machine that loses
//! power may lose the last ones: then everything stamped before the new start is refused, because one of them may have been a win.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read as _, Write as _},
    os::unix::fs::OpenOptionsExt as _,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError, RwLock},
};

use identity::{Bounds, Entry, Freshness, Journal, Replay};

use crate::private_file;

/// A longer file is written anew, with what still counts.
const LONG: u64 = 16 << 20;
const OWNER_ONLY: u32 = 0o600;

#[derive(Debug)]
pub struct ReplayFile {
    path: PathBuf,
    /// Appending shares it; writing it anew does not.
    file: RwLock<File>,
}

/// The window's end of the file.
struct Appends(Arc<ReplayFile>);

impl Journal for Appends {
    fn append(&self, entry: &[u8; Entry::LEN]) -> io::Result<()> {
        let file = self.0.file.read().unwrap_or_else(PoisonError::into_inner);
        // One write of one entry: entries of other threads never come between.
        (&*file).write_all(entry)
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new()
        .create(true)
        .append(true)
        .mode(OWNER_ONLY)
        .open(path)
}

impl ReplayFile {
    /// The window as an earlier run left it. `boot` names this run of the machine.
    pub fn restore(
        path: PathBuf,
        bounds: Bounds,
        boot: &str,
        now_ms: u64,
    ) -> io::Result<(Arc<Self>, Replay)> {
        let mut bytes = Vec::new();
        match File::open(&path) {
            Ok(mut file) => drop(file.read_to_end(&mut bytes)?),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = Arc::new(Self {
            file: RwLock::new(open(&path)?),
            path,
        });
        let replay = Replay::new(Box::new(Appends(Arc::clone(&file))), bounds);
        let (entries, torn) = bytes.as_chunks::<{ Entry::LEN }>();
        let restored = replay.restore(entries.iter().copied(), now_ms);
        let mark = file.path.with_extension("boot");
        let (known, floor) = read_mark(&mark);
        let is_new = known.is_none() && entries.is_empty();
        // An unnamed run could be any.
        let same_boot = known.as_deref() == Some(boot) && !boot.is_empty();
        let floor = match (same_boot || is_new) && restored.damaged == 0 {
            true => floor,
            // Envelopes may be stamped a little ahead of the clock that accepted them.
            false => floor.max(now_ms / 1000 + Freshness::STANDARD.seconds() + 1),
        };
        replay.raise_floor(floor);
        if !torn.is_empty() || restored.damaged > 0 || restored.entries * 2 < entries.len() {
            file.write_anew(&replay)?;
        }
        // Last: until then, the next start would come to the same conclusion.
        private_file::replace(&mark, format!("{boot}\n{floor}\n").as_bytes())?;
        Ok((file, replay))
    }

    /// Writes the file anew if it has grown long.
    pub fn tidy(&self, replay: &Replay) -> io::Result<()> {
        let length = self
            .file
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .metadata()?
            .len();
        if length < LONG {
            Ok(())
        } else {
            self.write_anew(replay)
        }
    }

    /// Appends wait meanwhile. What they wait with is in the window already, so it is written here and once more after.
    fn write_anew(&self, replay: &Replay) -> io::Result<()> {
        let mut file = self.file.write().unwrap_or_else(PoisonError::into_inner);
        let beside = self.path.with_extension("log.new");
        let _ = fs::remove_file(&beside);
        private_file::create(&beside, replay.live_entries().as_flattened())?;
        // Open before it is in place: appends must never go to a file that is no longer there.
        let fresh = open(&beside)?;
        fs::rename(&beside, &self.path)?;
        *file = fresh;
        Ok(())
    }
}

/// The run of the machine that wrote last, and the second before which nothing is accepted.
fn read_mark(mark: &Path) -> (Option<String>, u64) {
    let Ok(text) = fs::read_to_string(mark) else {
        return (None, 0);
    };
    let mut lines = text.lines();
    let boot = lines.next().unwrap_or_default().to_owned();
    (
        Some(boot),
        lines
            .next()
            .and_then(|floor| floor.parse().ok())
            .unwrap_or(0),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: u64 = 1_800_000_000_000;

    fn at(dir: &tempfile::TempDir, boot: &str, now_ms: u64) -> (Arc<ReplayFile>, Replay) {
        ReplayFile::restore(
            dir.path().join("replay.log"),
            Bounds::default(),
            boot,
            now_ms,
        )
        .unwrap()
    }

    #[test]
    fn what_was_accepted_is_known_to_the_next_process() {
        let dir = tempfile::tempdir().unwrap();
        let (_, replay) = at(&dir, "a", NOW);
        replay.spend("s", &[1; 64], NOW / 1000, NOW).unwrap();
        drop(replay);
        let (_, replay) = at(&dir, "a", NOW + 1000);
        replay
            .spend("s", &[1; 64], NOW / 1000, NOW + 1000)
            .unwrap_err();
        replay.spend("s", &[2; 64], NOW / 1000, NOW + 1000).unwrap();
    }

    #[test]
    fn after_a_power_cut_nothing_from_before_is_accepted() {
        let dir = tempfile::tempdir().unwrap();
        let (_, replay) = at(&dir, "a", NOW);
        replay.spend("s", &[1; 64], NOW / 1000, NOW).unwrap();
        let stamped = NOW / 1000 + 30;
        // The one that may have been accepted a little ahead of its time, and never reached the disk.
        for start in [NOW + 5000, NOW + 6000] {
            let (_, replay) = at(&dir, "b", start);
            replay.spend("s", &[9; 64], stamped, start).unwrap_err();
        }
        let (_, replay) = at(&dir, "b", NOW + 40_000);
        replay
            .spend("s", &[9; 64], NOW / 1000 + 40, NOW + 40_000)
            .unwrap();
        let (_, replay) = at(&dir, "", NOW + 40_000);
        replay
            .spend("s", &[8; 64], NOW / 1000 + 40, NOW + 40_000)
            .unwrap_err();
    }

    #[test]
    fn a_torn_end_and_a_long_file_are_written_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("replay.log");
        let (_, replay) = at(&dir, "a", NOW);
        replay.spend("s", &[1; 64], NOW / 1000, NOW).unwrap();
        open(&path).unwrap().write_all(b"torn").unwrap();
        let (file, replay) = at(&dir, "a", NOW);
        assert_eq!(fs::metadata(&path).unwrap().len() % 64, 0);
        replay.spend("s", &[1; 64], NOW / 1000, NOW).unwrap_err();
        file.write_anew(&replay).unwrap();
        replay.spend("s", &[3; 64], NOW / 1000, NOW).unwrap();
        let (_, replay) = at(&dir, "a", NOW);
        replay.spend("s", &[3; 64], NOW / 1000, NOW).unwrap_err();
    }
}
