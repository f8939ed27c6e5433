//! Where each record lies on disk, for an index that wants to find it again without keeping a copy.
//!
//! Like [`crate::read`], this does not check the chain and must never write. A segment that retention has removed meanwhile is
//! passed over: what is gone is gone.

use crate::read::segments;
use crate::recover::segment_path;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

/// The longest line that is read back: no record is as long.
const LONGEST: u32 = 1 << 20;

/// A line of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Spot {
    /// The first `seq` of the segment, which names its file.
    pub segment: u64,
    /// Where the line begins.
    pub at: u64,
    /// With its end.
    pub length: u32,
}

/// The lines of a ledger in order, each with its place. Ends at an incomplete last line.
#[derive(Debug)]
pub struct Places {
    files: VecDeque<(u64, PathBuf)>,
    open: Option<(u64, BufReader<File>)>,
    at: u64,
    line: Vec<u8>,
}

impl Places {
    /// From the oldest record there is, or from the line behind `after`.
    pub fn new(dir: &Path, after: Option<Spot>) -> io::Result<Places> {
        let mut files: VecDeque<(u64, PathBuf)> = segments(dir)?.into();
        let mut places = Places {
            files: VecDeque::new(),
            open: None,
            at: 0,
            line: Vec::new(),
        };
        if let Some(after) = after {
            files.retain(|(segment, _)| *segment >= after.segment);
            if files
                .front()
                .is_some_and(|(segment, _)| *segment == after.segment)
                && let Some((segment, path)) = files.pop_front()
            {
                let mut file = File::open(path)?;
                places.at = after.at + u64::from(after.length);
                file.seek(SeekFrom::Start(places.at))?;
                places.open = Some((segment, BufReader::with_capacity(1 << 18, file)));
            }
        }
        places.files = files;
        Ok(places)
    }

    /// The next line without its end, and where it is.
    pub fn next_line(&mut self) -> io::Result<Option<(Spot, &[u8])>> {
        loop {
            if self.open.is_none() && !self.open_next()? {
                return Ok(None);
            }
            let Some((segment, reader)) = &mut self.open else {
                return Ok(None);
            };
            self.line.clear();
            reader.read_until(b'\n', &mut self.line)?;
            if let Some((b'\n', _)) = self.line.split_last() {
                let length = u32::try_from(self.line.len()).unwrap_or(u32::MAX);
                let place = Spot {
                    segment: *segment,
                    at: self.at,
                    length,
                };
                self.at += self.line.len() as u64;
                return Ok(self.line.split_last().map(|(_, text)| (place, text)));
            }
            self.open = None;
        }
    }

    /// Opens the next segment that is still there.
    fn open_next(&mut self) -> io::Result<bool> {
        while let Some((segment, path)) = self.files.pop_front() {
            match File::open(path) {
                Ok(file) => {
                    self.open = Some((segment, BufReader::with_capacity(1 << 18, file)));
                    self.at = 0;
                    return Ok(true);
                }
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(false)
    }
}

/// The first `seq` that the ledger in `dir` still has a segment for; `None` if it has none.
pub fn oldest(dir: &Path) -> io::Result<Option<u64>> {
    Ok(segments(dir)?.first().map(|(seq, _)| *seq))
}

/// Reads lines by their places, keeping the file it read from last open.
#[derive(Debug)]
pub struct LineReader {
    dir: PathBuf,
    open: Option<(u64, File)>,
}

impl LineReader {
    pub fn new(dir: &Path) -> LineReader {
        LineReader {
            dir: dir.to_owned(),
            open: None,
        }
    }

    /// The line at `place` without its end; `None` if its segment is gone, is shorter, or has no line there.
    pub fn line(&mut self, place: Spot) -> io::Result<Option<Vec<u8>>> {
        if place.length > LONGEST {
            return Ok(None);
        }
        if self
            .open
            .as_ref()
            .is_none_or(|(segment, _)| *segment != place.segment)
        {
            match File::open(segment_path(&self.dir, place.segment)) {
                Ok(file) => self.open = Some((place.segment, file)),
                Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            }
        }
        let Some((_, file)) = &self.open else {
            return Ok(None);
        };
        let mut line = vec![0; place.length as usize];
        match file.read_exact_at(&mut line, place.at) {
            Ok(()) => Ok((line.pop() == Some(b'\n')).then_some(line)),
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(None),
            Err(error) => Err(error),
        }
    }
}
