//! What people said, over restarts of the gate: one file for each caller, with digests for words.
//!
//! A file says whose conversation it is and of which epoch, so words of one that has ended say nothing. Whoever has the file and not the
//! gate's key learns how much was said, and can add nothing. What was read, planned, sealed or answered is not kept: after a restart it is
//! unknown, and asked about. A file that cannot be read is as if nothing had been said.

use std::{
    collections::HashMap,
    fs,
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
};

use provenance::Saved;

/// What each caller's words were saved as, and for which epoch.
pub(crate) type Words = HashMap<String, (u64, Saved)>;

const MAGIC: &[u8] = b"portcullis said 1\n";
/// No file of ours is longer: what a conversation remembers of a person's words is bounded.
const MAX_FILE: u64 = 1 << 20;
/// Files that are read at a start: more than there are callers.
const MAX_FILES: usize = 65_536;

/// Where they rest.
#[derive(Debug, Clone)]
pub(crate) struct SaidFiles(PathBuf);

impl SaidFiles {
    pub(crate) const fn new(dir: PathBuf) -> Self {
        Self(dir)
    }

    /// Everything that an earlier run left.
    pub(crate) fn load(&self) -> Words {
        let Ok(entries) = fs::read_dir(&self.0) else {
            return Words::new();
        };
        let files = entries.filter_map(Result::ok).take(MAX_FILES);
        files.filter_map(|file| read(&file.path())).collect()
    }

    /// Keeps what was said to this caller; it is on the disk when this returns.
    pub(crate) fn keep(&self, caller: &str, epoch: u64, saved: &Saved) -> io::Result<()> {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(&self.0)?;
        let name = blake3::hash(caller.as_bytes()).to_hex();
        let (path, beside) = (
            self.0.join(name.as_str()),
            self.0.join(format!("{name}.{}.new", std::process::id())),
        );
        let length = u32::try_from(caller.len()).map_err(io::Error::other)?;
        // Left behind only by a crash of a process with our id, which is gone.
        let _ = fs::remove_file(&beside);
        let written = (|| {
            let mut file = fs::OpenOptions::new()
                .create_new(true)
                .write(true)
                .mode(0o600)
                .open(&beside)?;
            file.write_all(MAGIC)?;
            file.write_all(&epoch.to_le_bytes())?;
            file.write_all(&length.to_le_bytes())?;
            file.write_all(caller.as_bytes())?;
            file.write_all(&saved.0)?;
            file.sync_all()?;
            fs::rename(&beside, &path)?;
            fs::File::open(&self.0)?.sync_all()
        })();
        written.inspect_err(|_| drop(fs::remove_file(&beside)))
    }
}

fn read(path: &Path) -> Option<(String, (u64, Saved))> {
    if fs::metadata(path).ok()?.len() > MAX_FILE {
        return None;
    }
    let bytes = fs::read(path).ok()?;
    let rest = bytes.strip_prefix(MAGIC)?;
    let (epoch, rest) = rest.split_first_chunk::<8>()?;
    let (length, rest) = rest.split_first_chunk::<4>()?;
    let length = usize::try_from(u32::from_le_bytes(*length)).ok()?;
    let (caller, saved) = rest.split_at_checked(length)?;
    let caller = String::from_utf8(caller.to_vec()).ok()?;
    // A file under another's name is nobody's.
    let name = blake3::hash(caller.as_bytes()).to_hex();
    if path.file_name()?.to_str()? != name.as_str() {
        return None;
    }
    Some((caller, (u64::from_le_bytes(*epoch), Saved(saved.to_vec()))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_kept_for_its_caller_and_its_epoch() {
        let dir = tempfile::tempdir().unwrap();
        let files = SaidFiles::new(dir.path().join("said"));
        assert!(files.load().is_empty());
        files.keep("alice", 3, &Saved(vec![1, 2])).unwrap();
        files.keep("alice", 4, &Saved(vec![3])).unwrap();
        files.keep("bob", 1, &Saved(Vec::new())).unwrap();
        let words = files.load();
        assert_eq!(words.len(), 2);
        assert_eq!(words["alice"], (4, Saved(vec![3])));
        let file = |name: &str| {
            let name = blake3::hash(name.as_bytes()).to_hex();
            dir.path().join("said").join(name.as_str())
        };
        // Words of one caller are no other's, and half a file is none.
        fs::copy(file("alice"), file("carol")).unwrap();
        fs::write(file("bob"), &fs::read(file("bob")).unwrap()[..20]).unwrap();
        let words = files.load();
        assert_eq!(words.keys().collect::<Vec<_>>(), ["alice"]);
    }
}
