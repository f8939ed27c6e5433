//! How much a directory takes on the disk, while others change it.

use std::io;
use std::path::Path;

use rustix::fs::{Dir, FileType, Mode, OFlags};
use rustix::io::Errno;

/// Directories below one another that [`disk_use`] goes down to.
const MOST_DEPTH: usize = 256;
/// A file without content takes room too: its name, its place in the table of files.
const SMALLEST: u64 = 4096;

/// How much a directory takes on the disk with all that is in it. Follows no symbolic link, whoever changes it meanwhile.
///
/// # Errors
/// If a directory in it cannot be read, or lies too deep to be reached.
pub fn disk_use(directory: &Path) -> io::Result<u64> {
    let open = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = rustix::fs::openat(rustix::fs::CWD, directory, open, Mode::empty())?;
    let mut above = vec![(Dir::read_from(&top)?, top)];
    let mut sum = 0_u64;
    while let Some((entries, held)) = above.last_mut() {
        let Some(entry) = entries.next().transpose()? else {
            above.pop();
            continue;
        };
        if matches!(entry.file_name().to_bytes(), b"." | b"..") {
            continue;
        }
        let flags = rustix::fs::AtFlags::SYMLINK_NOFOLLOW;
        let found = match rustix::fs::statat(&held, entry.file_name(), flags) {
            Ok(found) => found,
            Err(Errno::NOENT) => continue,
            Err(error) => return Err(error.into()),
        };
        let blocks = u64::try_from(found.st_blocks).unwrap_or_default();
        sum = sum.saturating_add(blocks.saturating_mul(512).max(SMALLEST));
        if FileType::from_raw_mode(found.st_mode) != FileType::Directory {
            continue;
        }
        match rustix::fs::openat(&held, entry.file_name(), open, Mode::empty()) {
            Ok(_) if above.len() >= MOST_DEPTH => {
                return Err(io::Error::other("directories lie too deep in one another"));
            }
            Ok(below) => above.push((Dir::read_from(&below)?, below)),
            // It was taken away, or is something else by now.
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(sum)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_directory_takes_is_counted_and_links_are_not_followed() {
        let place = tempfile::tempdir().unwrap();
        let (own, other) = (place.path().join("own"), place.path().join("other"));
        std::fs::create_dir_all(own.join("a/b")).unwrap();
        std::fs::create_dir_all(&other).unwrap();
        std::fs::write(other.join("large"), vec![1; 1 << 20]).unwrap();
        std::os::unix::fs::symlink(&other, own.join("a/link")).unwrap();
        std::fs::write(own.join("a/b/file"), vec![1; 100_000]).unwrap();
        // A hole takes nothing.
        let hole = std::fs::File::create(own.join("hole")).unwrap();
        hole.set_len(1 << 40).unwrap();
        let used = disk_use(&own).unwrap();
        assert!((100_000..400_000).contains(&used), "{used}");
        assert!(disk_use(&own.join("a/link")).is_err());
        let mut deep = own.clone();
        for _ in 0..MOST_DEPTH {
            deep.push("d");
        }
        std::fs::create_dir_all(&deep).unwrap();
        assert!(disk_use(&own).is_err());
    }
}
