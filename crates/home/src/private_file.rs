//! Files that only their owner may read, replaced whole or not at all.

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    io::{self, BufWriter, Write},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _},
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

const OWNER_ONLY: u32 = 0o600;
const BETWEEN_TRIES: Duration = Duration::from_millis(5);

/// Puts `bytes` at `path` so that a crash leaves either the old content or the new, never a mixture. The new content is on disk when
/// this returns. A symbolic link keeps pointing where it did; an existing file keeps its mode, a new one is owner-only.
pub fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    replace_with(path, |out| out.write_all(bytes), |error| error)
}

/// Makes a directory that is the owner's alone, and those above it that are missing.
pub fn make_dirs(dir: &Path) -> io::Result<()> {
    fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
}

/// The same for content that is made while it is written; what cannot be written is put in the caller's words.
pub fn replace_with<T, E>(
    path: &Path,
    fill: impl FnOnce(&mut dyn Write) -> Result<T, E>,
    unwritable: impl Fn(io::Error) -> E,
) -> Result<T, E> {
    let target = followed(path);
    let mode =
        fs::metadata(&target).map_or(OWNER_ONLY, |metadata| metadata.permissions().mode() & 0o777);
    let temporary = beside(&target).map_err(&unwritable)?;
    // Left behind only by a crash of a process with our id, which is gone.
    let _ = fs::remove_file(&temporary);
    let written = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(&temporary)
        .map_err(&unwritable);
    let written = written.and_then(|file| {
        let mut out = BufWriter::new(file);
        let made = fill(&mut out)?;
        let finished = out
            .flush()
            .and_then(|()| out.get_ref().sync_all())
            .and_then(|()| fs::rename(&temporary, &target));
        finished
            .and_then(|()| sync_directory(&target))
            .map(|()| made)
            .map_err(&unwritable)
    });
    written.inspect_err(|_| drop(fs::remove_file(&temporary)))
}

/// Where a link leads, also if nothing is there yet.
fn followed(path: &Path) -> PathBuf {
    const MOST_LINKS: usize = 40;
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else {
            break;
        };
        path = path
            .parent()
            .map_or_else(|| next.clone(), |dir| dir.join(&next));
    }
    path
}

/// Creates an owner-only file; fails if anything is there already.
pub fn create(path: &Path, bytes: &[u8]) -> io::Result<()> {
    write_new(path, bytes, OWNER_ONLY)?;
    sync_directory(path)
}

/// A lock that other processes of ours respect, held until the file is dropped.
pub fn lock(path: &Path) -> io::Result<File> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)?;
    file.lock()?;
    Ok(file)
}

/// The same for whoever must not wait long; nothing if another has it all that time.
pub fn lock_within(path: &Path, patience: Duration) -> io::Result<Option<File>> {
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .mode(OWNER_ONLY)
        .open(path)?;
    let until = Instant::now() + patience;
    loop {
        match file.try_lock() {
            Ok(()) => return Ok(Some(file)),
            Err(TryLockError::Error(error)) => return Err(error),
            Err(TryLockError::WouldBlock) if Instant::now() >= until => return Ok(None),
            Err(TryLockError::WouldBlock) => std::thread::sleep(BETWEEN_TRIES),
        }
    }
}

fn write_new(path: &Path, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = OpenOptions::new()
        .create_new(true)
        .write(true)
        .mode(mode)
        .open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn beside(path: &Path) -> io::Result<PathBuf> {
    let name = path
        .file_name()
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, "the path names no file"))?;
    Ok(path.with_file_name(format!(
        ".{}.{}.new",
        name.to_string_lossy(),
        std::process::id()
    )))
}

/// A rename is durable once the directory is.
fn sync_directory(path: &Path) -> io::Result<()> {
    match path
        .parent()
        .filter(|parent| !parent.as_os_str().is_empty())
    {
        Some(parent) => File::open(parent)?.sync_all(),
        None => File::open(".")?.sync_all(),
    }
}
