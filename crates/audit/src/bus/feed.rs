//! Events in order, read from the ledger's files a batch at a time.
//!
//! Memory is bounded by the batch, whatever the listener has to catch up with. A feed must never read a record at or above the
//! number it is told to stop at: what is not acknowledged yet may be cut and written anew. What it cannot show (records that
//! were removed, a damaged line) it counts, so that nothing is passed over in silence.
//!
//! **Invariant: a listener costs calls nothing, and is told what it missed.** Tests
//! `a_live_listener_that_falls_behind_is_told_what_it_missed`, `what_is_not_durable_is_not_shown`,
//! `a_stream_is_for_operators_bounded_and_particular`.

use super::{Event, Place};
use crate::filter::Filter;
use crate::read::segments;
use crate::record::Record;
use crate::recover::segment_path;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// A batch ends after this many records even if none of their events is wanted.
const LOOKED_AT: usize = 4096;
const BUFFER: usize = 1 << 16;

/// Some events, and where to go on.
#[derive(Debug, Default)]
pub struct Batch {
    pub events: Vec<Event>,
    /// Where the next batch begins; what stands before it was shown, not wanted, or missed.
    pub next: Place,
    /// How many records before these events cannot be shown any more.
    pub missed: u64,
    /// There may be more to read at once.
    pub more: bool,
}

/// Reads on from a place, again and again.
#[derive(Debug)]
pub struct Feed {
    dir: PathBuf,
    next: Place,
    open: Option<Segment>,
}

#[derive(Debug)]
struct Segment {
    first_seq: u64,
    reader: BufReader<File>,
    /// Where the next line begins.
    offset: u64,
    line: Vec<u8>,
}

impl Feed {
    #[must_use]
    pub fn new(dir: &Path, from: Place) -> Feed {
        Feed {
            dir: dir.to_owned(),
            next: from,
            open: None,
        }
    }

    #[must_use]
    pub fn next(&self) -> Place {
        self.next
    }

    /// Goes on from another place.
    pub fn jump(&mut self, to: Place) {
        self.next = to;
        self.open = None;
    }

    /// About `most` events (never half a record) of records below `until`, without waiting.
    pub fn read(&mut self, until: u64, most: usize, filter: &Filter) -> io::Result<Batch> {
        let mut batch = Batch::default();
        for _ in 0..LOOKED_AT {
            if self.next.seq >= until || batch.events.len() >= most {
                batch.more = self.next.seq < until;
                break;
            }
            let Some(record) = self.record()? else { break };
            if record.seq > self.next.seq {
                if !batch.events.is_empty() {
                    // What was missed is told before what follows it, so this record is read again for the next batch.
                    self.open = None;
                    batch.more = true;
                    break;
                }
                batch.missed += record.seq - self.next.seq;
                self.next = Place::start_of(record.seq);
            }
            let from = self.next;
            let wanted = filter.events(&record).into_iter();
            batch
                .events
                .extend(wanted.filter(|event| event.position >= from));
            self.next = Place::start_of(record.seq.saturating_add(1));
            batch.more = true;
        }
        // What was read ahead may be cut and replaced before it is asked for.
        if let Some(open) = &mut self.open {
            open.rewind()?;
        }
        batch.next = self.next;
        Ok(batch)
    }

    /// The first record at or after the place; `None` at the end of what is written.
    fn record(&mut self) -> io::Result<Option<Record>> {
        loop {
            if self.open.is_none() {
                self.open = self.segment()?;
            }
            let Some(open) = &mut self.open else {
                return Ok(None);
            };
            match open.next_line()? {
                Some(line) if seq_of(line).is_some_and(|seq| seq < self.next.seq) => {}
                // A line that cannot be read is missed: the next one's number shows it.
                Some(line) => {
                    if let Ok(record) = serde_json::from_slice::<Record>(line)
                        && record.seq >= self.next.seq
                    {
                        return Ok(Some(record));
                    }
                }
                None => match self.following()? {
                    Some(next) => self.open = Some(next),
                    None => return Ok(None),
                },
            }
        }
    }

    /// The segment with the wanted record, or the oldest one if that is gone.
    fn segment(&self) -> io::Result<Option<Segment>> {
        let segments = match segments(&self.dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            segments => segments?,
        };
        let later = segments.partition_point(|(first, _)| *first <= self.next.seq);
        match segments.get(later.saturating_sub(1)) {
            Some((first_seq, path)) => Segment::open(*first_seq, path),
            None => Ok(None),
        }
    }

    /// The segment after a finished one.
    fn following(&self) -> io::Result<Option<Segment>> {
        let Some(open) = &self.open else {
            return Ok(None);
        };
        if self.next.seq > open.first_seq
            && let Some(next) =
                Segment::open(self.next.seq, &segment_path(&self.dir, self.next.seq))?
        {
            return Ok(Some(next));
        }
        // Not named after the next record if the last line of this one could not be read.
        let later = segments(&self.dir)?
            .into_iter()
            .find(|(first, _)| *first > open.first_seq);
        match later {
            Some((first_seq, path)) => Segment::open(first_seq, &path),
            None => Ok(None),
        }
    }
}

impl Segment {
    /// `None` if there is no such file any more.
    fn open(first_seq: u64, path: &Path) -> io::Result<Option<Segment>> {
        match File::open(path) {
            Ok(file) => {
                let reader = BufReader::with_capacity(BUFFER, file);
                Ok(Some(Segment {
                    first_seq,
                    reader,
                    offset: 0,
                    line: Vec::new(),
                }))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A whole line; an unfinished one is read again the next time.
    fn next_line(&mut self) -> io::Result<Option<&[u8]>> {
        self.line.clear();
        let read = self.reader.read_until(b'\n', &mut self.line)?;
        if !self.line.ends_with(b"\n") {
            self.rewind()?;
            return Ok(None);
        }
        self.offset += read as u64;
        Ok(Some(&self.line))
    }

    fn rewind(&mut self) -> io::Result<()> {
        self.reader.seek(SeekFrom::Start(self.offset)).map(drop)
    }
}

/// The number of a record, from how every line begins.
fn seq_of(line: &[u8]) -> Option<u64> {
    let rest = line.strip_prefix(b"{\"v\":1,\"seq\":")?;
    let digits = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
    std::str::from_utf8(rest.get(..digits)?).ok()?.parse().ok()
}
