//! A file of JSON lines.
//!
//! A batch is on the disk before its cursor moves. A line that was torn by a crash or a full disk is cut before the next one is
//! written: its event comes again. A file that somebody moved away is begun anew under its name; one that has reached its size is moved
//! aside by ourselves and never deleted.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Seek, SeekFrom, Write},
    os::unix::fs::{MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use audit::{Event, Place};

use crate::driver::Broken;

#[derive(Debug)]
pub(crate) struct FileSink(Arc<Mutex<Writer>>);

#[derive(Debug)]
struct Writer {
    path: PathBuf,
    rotate_bytes: u64,
    open: Option<(File, u64)>,
}

impl FileSink {
    pub(crate) fn new(path: PathBuf, rotate_bytes: u64) -> Self {
        Self(Arc::new(Mutex::new(Writer {
            path,
            rotate_bytes,
            open: None,
        })))
    }

    pub(crate) async fn deliver(&mut self, events: &[Event]) -> Result<(), Broken> {
        let Some(first) = events.first().map(|event| event.position) else {
            return Ok(());
        };
        let lines: Vec<String> = events.iter().map(|event| event.line() + "\n").collect();
        let writer = Arc::clone(&self.0);
        let written = tokio::task::spawn_blocking(move || {
            let mut writer = writer.lock().unwrap_or_else(PoisonError::into_inner);
            let written = writer.write(first, lines.concat().as_bytes());
            if written.is_err() {
                // What it holds now is looked at before anything is added.
                writer.open = None;
            }
            written.map_err(|error| format!("cannot write {}: {error}", writer.path.display()))
        });
        written
            .await
            .map_err(|error| Broken::before_all(error.to_string()))?
            .map_err(Broken::before_all)
    }
}

impl Writer {
    /// All of `lines`, on the disk.
    fn write(&mut self, first: Place, lines: &[u8]) -> io::Result<()> {
        if self
            .open
            .as_ref()
            .is_some_and(|(_, size)| *size >= self.rotate_bytes)
        {
            self.open = None;
            self.move_aside(first)?;
        }
        let (mut file, size) = match self.open.take() {
            Some((file, size)) if is_still(&file, &self.path) => (file, size),
            _ => open(&self.path)?,
        };
        if let Err(error) = file.write_all(lines).and_then(|()| file.sync_data()) {
            // If it cannot be cut now, opening it again cuts it.
            let _ = file.set_len(size);
            return Err(error);
        }
        self.open = Some((file, size + lines.len() as u64));
        Ok(())
    }

    /// Gives the full file the number of the record that the next one begins with.
    fn move_aside(&self, first: Place) -> io::Result<()> {
        let name = |more: &str| {
            let mut name = self.path.clone().into_os_string();
            name.push(format!(".{:020}{more}", first.seq));
            PathBuf::from(name)
        };
        let mut aside = name("");
        let mut tries = 0;
        // A file of that name holds the same events, delivered before a crash. It is left alone.
        while aside.exists() {
            tries += 1;
            aside = name(&format!(".{tries}"));
        }
        fs::rename(&self.path, aside)
    }
}

/// Opens the file for adding to it, without a torn line at its end; returns its size too.
fn open(path: &Path) -> io::Result<(File, u64)> {
    let mut file = OpenOptions::new()
        .read(true)
        .append(true)
        .create(true)
        .mode(0o600)
        .open(path)?;
    let size = file.metadata()?.len();
    let whole = end_of_lines(&mut file, size)?;
    if whole < size {
        file.set_len(whole)?;
    }
    Ok((file, whole))
}

/// Where the last whole line ends.
fn end_of_lines(file: &mut File, size: u64) -> io::Result<u64> {
    let mut end = size;
    let mut piece = [0; 4096];
    while end > 0 {
        let begin = end.saturating_sub(piece.len() as u64);
        let length = usize::try_from(end - begin).unwrap_or(piece.len());
        let Some(wanted) = piece.get_mut(..length) else {
            break;
        };
        file.seek(SeekFrom::Start(begin))?;
        file.read_exact(wanted)?;
        if let Some(last) = wanted.iter().rposition(|byte| *byte == b'\n') {
            return Ok(begin + last as u64 + 1);
        }
        end = begin;
    }
    Ok(0)
}

/// Nobody moved or removed it.
fn is_still(file: &File, path: &Path) -> bool {
    match (file.metadata(), fs::metadata(path)) {
        (Ok(open), Ok(named)) => open.ino() == named.ino() && open.dev() == named.dev(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn writer(path: &Path) -> Writer {
        Writer {
            path: path.to_owned(),
            rotate_bytes: 30,
            open: None,
        }
    }

    #[test]
    fn a_torn_line_is_cut_and_a_moved_file_is_begun_anew() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        fs::write(&path, "{\"a\":1}\n{\"torn").unwrap();
        let mut writer = writer(&path);
        writer.write(Place::start_of(1), b"{\"b\":2}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"a\":1}\n{\"b\":2}\n");
        fs::rename(&path, dir.path().join("moved")).unwrap();
        writer.write(Place::start_of(2), b"{\"c\":3}\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{\"c\":3}\n");
        fs::write(&path, "x".repeat(10_000)).unwrap();
        assert_eq!(
            open(&path).unwrap().1,
            0,
            "a file without a line end has no whole line"
        );
    }

    #[test]
    fn a_full_file_is_moved_aside_and_none_is_overwritten() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("events.jsonl");
        for _ in 0..2 {
            let mut writer = writer(&path);
            for seq in 0..6u64 {
                writer
                    .write(
                        Place::start_of(seq),
                        format!("{{\"seq\":{seq},\"fill\":1}}\n").as_bytes(),
                    )
                    .unwrap();
            }
        }
        let mut all = String::new();
        let mut files: Vec<_> = fs::read_dir(dir.path())
            .unwrap()
            .map(|entry| entry.unwrap().path())
            .collect();
        files.sort();
        for file in &files {
            all += &fs::read_to_string(file).unwrap();
        }
        assert!(files.len() > 4, "{files:?}");
        for seq in 0..6 {
            assert_eq!(all.matches(&format!("\"seq\":{seq},")).count(), 2, "{all}");
        }
    }

    #[test]
    fn a_missing_directory_is_an_error_and_not_made() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("none/events.jsonl");
        assert!(writer(&path).write(Place::default(), b"x\n").is_err());
        assert!(!path.parent().unwrap().exists());
    }
}
