//! How far a sink has come, on the disk: one file per sink, replaced whole.
//!
//! It holds the place of the next event, `SEQ.INDEX`; everything before it is done with. It must never be ahead of what the other side
//! has, so it is written after the delivery and before anything else is delivered. A file that cannot be read is never guessed at.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
};

use audit::Place;

const SUFFIX: &str = "cursor";

/// A file that is no cursor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadCursor {
    pub file: PathBuf,
    pub why: String,
}

impl std::fmt::Display for BadCursor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let file = self.file.display();
        write!(
            f,
            "{file} does not say how far this sink has come ({}); write a position into it, or delete it to begin anew",
            self.why
        )
    }
}

impl std::error::Error for BadCursor {}

#[derive(Debug, Clone)]
pub(crate) struct Cursor {
    file: PathBuf,
}

impl Cursor {
    /// The cursor of a sink. Names are checked where they are configured; here they must not leave the directory.
    pub(crate) fn of(dir: &Path, sink: &str) -> Self {
        Self {
            file: dir.join(format!("{}.{SUFFIX}", sink.replace(['/', '\0'], "_"))),
        }
    }

    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// `None` if the sink has never come anywhere.
    pub(crate) fn load(&self) -> Result<Option<Place>, BadCursor> {
        let bad = |why: String| BadCursor {
            file: self.file.clone(),
            why,
        };
        match fs::read_to_string(&self.file) {
            Ok(text) => text
                .trim_end()
                .parse()
                .map(Some)
                .map_err(|error: audit::NoPlace| bad(error.to_string())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(bad(error.to_string())),
        }
    }

    /// Returns when the place survives a power cut.
    pub(crate) fn save(&self, place: Place) -> io::Result<()> {
        let dir = self.file.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(dir)?;
        let fresh = self.file.with_extension("cursor.new");
        let mut file = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?;
        writeln!(file, "{place}")?;
        file.sync_data()?;
        fs::rename(&fresh, &self.file)?;
        File::open(dir)?.sync_all()
    }
}

/// The next event of a sink; `None` if it has never come anywhere.
pub fn position(dir: &Path, sink: &str) -> Result<Option<Place>, BadCursor> {
    Cursor::of(dir, sink).load()
}

/// The lowest record that one of these sinks still needs; `None` if there are no sinks. One without a cursor needs everything.
pub fn lowest_cursor<'a>(
    dir: &Path,
    sinks: impl Iterator<Item = &'a str>,
) -> Result<Option<u64>, BadCursor> {
    let mut lowest = None;
    for sink in sinks {
        let needed = position(dir, sink)?.map_or(0, |place| place.seq);
        lowest = Some(lowest.map_or(needed, |lowest: u64| lowest.min(needed)));
    }
    Ok(lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_reads_back_and_is_never_guessed() {
        let dir = tempfile::tempdir().unwrap();
        let (one, two) = (
            Cursor::of(dir.path(), "one"),
            Cursor::of(dir.path(), "../two"),
        );
        assert_eq!(one.load(), Ok(None));
        assert_eq!(lowest_cursor(dir.path(), std::iter::empty()), Ok(None));
        assert_eq!(
            lowest_cursor(dir.path(), ["one"].into_iter()),
            Ok(Some(0)),
            "it has everything before it"
        );
        let place = Place { seq: 12, index: 3 };
        one.save(Place::start_of(3)).unwrap();
        one.save(place).unwrap();
        two.save(Place::start_of(7)).unwrap();
        assert_eq!(one.load(), Ok(Some(place)));
        assert_eq!(
            lowest_cursor(dir.path(), ["one", "../two"].into_iter()),
            Ok(Some(7))
        );
        assert_eq!(
            lowest_cursor(dir.path(), ["one"].into_iter()),
            Ok(Some(12)),
            "others do not count"
        );
        assert!(two.file().starts_with(dir.path()) && two.file().parent() == Some(dir.path()));
        fs::write(one.file(), "twelve").unwrap();
        assert!(one.load().unwrap_err().to_string().contains("delete it"));
        assert!(lowest_cursor(dir.path(), ["one"].into_iter()).is_err());
    }
}
