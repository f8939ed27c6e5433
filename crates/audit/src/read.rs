//! Reading records back, for people and programs: once ([`read`], [`tail`]) or as they come ([`Follow`]).
//!
//! Reading does not check the chain; [`crate::verify`] does. It must never write, and never stop at a line it cannot
//! parse in the middle: such a line is an error in the sequence, and the next one follows.

use crate::filter::Filter;
use crate::record::Record;
use crate::recover::{segment_path, segment_seq};
use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Records in order, oldest first. Ends at an incomplete last line.
#[derive(Debug)]
pub struct Records {
    filter: Filter,
    files: VecDeque<PathBuf>,
    reader: Option<BufReader<File>>,
    line: Vec<u8>,
}

/// The records in `dir` that pass `filter`, read as the iterator is asked for them.
pub fn read(dir: &Path, filter: Filter) -> io::Result<Records> {
    let mut segments = segments(dir)?;
    // The last segment that begins at or before the wanted `seq` is the first one worth reading.
    let first = segments.partition_point(|(seq, _)| *seq <= filter.from);
    segments.drain(..first.saturating_sub(1));
    Ok(Records {
        filter,
        files: segments.into_iter().map(|(_, path)| path).collect(),
        reader: None,
        line: Vec::new(),
    })
}

/// The newest `limit` records that pass `filter`, oldest first; reads no more segments than it must.
pub fn tail(dir: &Path, filter: &Filter, limit: usize) -> io::Result<Vec<Record>> {
    let mut found: VecDeque<Record> = VecDeque::new();
    for (_, path) in segments(dir)?.into_iter().rev() {
        let records = Records {
            filter: filter.clone(),
            files: VecDeque::from([path]),
            reader: None,
            line: Vec::new(),
        };
        let wanted = limit - found.len().min(limit);
        let mut newest: VecDeque<Record> = VecDeque::new();
        for record in records {
            newest.push_back(record?);
            if newest.len() > wanted {
                newest.pop_front();
            }
        }
        newest.extend(found);
        found = newest;
        if found.len() >= limit {
            break;
        }
    }
    Ok(found.into())
}

/// Every segment by its first `seq`, in order.
pub(crate) fn segments(dir: &Path) -> io::Result<Vec<(u64, PathBuf)>> {
    let mut segments = Vec::new();
    for entry in std::fs::read_dir(dir)? {
        let entry = entry?;
        if let Some(seq) = entry.file_name().to_str().and_then(segment_seq) {
            segments.push((seq, entry.path()));
        }
    }
    segments.sort_unstable();
    Ok(segments)
}

impl Records {
    /// Everything in one segment.
    pub(crate) fn of_segment(path: PathBuf) -> Records {
        Records {
            filter: Filter::default(),
            files: VecDeque::from([path]),
            reader: None,
            line: Vec::new(),
        }
    }

    /// The next line with its end, or `None` at the end of the last file.
    fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        loop {
            if self.reader.is_none() {
                let Some(path) = self.files.pop_front() else {
                    return Ok(None);
                };
                match File::open(path) {
                    // Retention has removed it meanwhile.
                    Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                    file => self.reader = Some(BufReader::with_capacity(1 << 16, file?)),
                }
            }
            let Some(reader) = &mut self.reader else {
                return Ok(None);
            };
            self.line.clear();
            reader.read_until(b'\n', &mut self.line)?;
            if self.line.ends_with(b"\n") {
                return Ok(Some(&self.line));
            }
            self.reader = None;
        }
    }
}

impl Iterator for Records {
    type Item = io::Result<Record>;

    fn next(&mut self) -> Option<io::Result<Record>> {
        loop {
            let record: Record = match self.next_line() {
                Ok(None) => return None,
                Ok(Some(line)) => match serde_json::from_slice(line) {
                    Ok(record) => record,
                    Err(error) => return Some(Err(error.into())),
                },
                Err(error) => {
                    self.reader = None;
                    return Some(Err(error));
                }
            };
            if self.filter.matches(&record) {
                return Some(Ok(record));
            }
        }
    }
}

/// Records as they are written: each [`Follow::poll`] returns what came since the last one.
#[derive(Debug)]
pub struct Follow {
    dir: PathBuf,
    filter: Filter,
    next_seq: u64,
    file: Option<File>,
}

impl Follow {
    /// Starts at record `filter.from`.
    pub fn new(dir: &Path, filter: Filter) -> Follow {
        Follow {
            dir: dir.to_owned(),
            next_seq: filter.from,
            filter,
            file: None,
        }
    }

    /// Everything new that passes the filter, without waiting.
    pub fn poll(&mut self) -> io::Result<Vec<Record>> {
        let mut found = Vec::new();
        if self.file.is_none() {
            let segments = segments(&self.dir)?;
            let begun = segments.partition_point(|(seq, _)| *seq <= self.next_seq);
            // What retention has removed is passed over.
            let Some((_, path)) = segments.get(begun.saturating_sub(1)) else {
                return Ok(found);
            };
            self.file = Some(File::open(path)?);
        }
        loop {
            let before = self.next_seq;
            self.take_new(&mut found)?;
            // A finished segment is followed by the one named after the next record.
            match File::open(segment_path(&self.dir, self.next_seq)) {
                Ok(next) if self.next_seq > before || self.starts_elsewhere(&next)? => {
                    self.file = Some(next);
                }
                Ok(_) => return Ok(found),
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    if segments(&self.dir)?
                        .first()
                        .is_none_or(|(oldest, _)| *oldest <= self.next_seq)
                    {
                        return Ok(found);
                    }
                    // It has been removed already, and others with it: goes on where the ledger now begins.
                    self.file = None;
                    return self
                        .poll()
                        .map(|rest| found.into_iter().chain(rest).collect());
                }
                Err(error) => return Err(error),
            }
        }
    }

    fn starts_elsewhere(&self, next: &File) -> io::Result<bool> {
        let Some(current) = &self.file else {
            return Ok(true);
        };
        Ok(current.metadata()?.ino() != next.metadata()?.ino())
    }

    fn take_new(&mut self, found: &mut Vec<Record>) -> io::Result<()> {
        let Some(file) = &mut self.file else {
            return Ok(());
        };
        let mut lines = Vec::new();
        file.read_to_end(&mut lines)?;
        let end = lines.iter().rposition(|byte| *byte == b'\n');
        let unfinished = lines.split_off(end.map_or(0, |end| end + 1));
        // Read again next time: it may be finished by then, or cut and replaced after a failed write.
        file.seek_relative(0_i64.saturating_sub_unsigned(unfinished.len() as u64))?;
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let record: Record = serde_json::from_slice(line)?;
            if record.seq < self.next_seq {
                continue;
            }
            self.next_seq = record.seq + 1;
            if self.filter.matches(&record) {
                found.push(record);
            }
        }
        Ok(())
    }
}
