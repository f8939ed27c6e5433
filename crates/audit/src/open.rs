//! Opening a ledger, and opening it again after its disk failed.
//!
//! Both read the tail, cut what never reached the disk as a whole, and record what they found before anything else is
//! recorded. They must never cut, hide or go on behind a record that was synced.

use crate::checkpoint::{Heads, Signer};
use crate::clock::Clock;
use crate::commit::Commits;
use crate::disk::{Disk, LOCK};
use crate::error::OpenError;
use crate::ledger::{Ledger, Options, Shared};
use crate::orphans::{self, Orphan};
use crate::record::Draft;
use crate::recover::{self, Known, Tail, segment_path, segment_seq};
use crate::write::{Segment, State, Writer, new_segment};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

impl Ledger {
    /// Opens or creates the ledger in `dir`, takes it for this process, cuts a torn tail and records what it found:
    /// the cut, and every intent whose outcome will never be known.
    pub fn with(
        dir: impl Into<PathBuf>,
        disk: Box<dyn Disk>,
        clock: Clock,
        options: Options,
    ) -> Result<Ledger, OpenError> {
        let dir = dir.into();
        disk.create_dir(&dir)
            .map_err(OpenError::disk("creating the ledger directory", &dir))?;
        let lock = disk.lock(&dir).map_err(|error| match error.kind() {
            io::ErrorKind::WouldBlock => OpenError::InUse {
                pid: holder(&*disk, &dir),
                dir: dir.clone(),
            },
            _ => OpenError::disk("locking the ledger directory", &dir)(error),
        })?;
        let (signer, covered) = Signer::known(&*disk, &dir)
            .map_err(OpenError::disk("reading the signed head in", &dir))?;
        let durable = covered.unwrap_or(0);
        let tail = recover::find_tail(
            &*disk,
            &dir,
            Known {
                expected: None,
                durable,
            },
        )?;
        if tail.next_seq < durable {
            return Err(OpenError::RolledBack {
                dir,
                checkpoint: durable,
                found: tail.next_seq,
            });
        }
        let segment = segment_at(&*disk, &dir, &tail)?;
        if tail.next_seq > durable {
            write_again(&*disk, &dir, in_doubt(&*disk, &dir, durable)?, &tail)?;
        }
        let state = State::new(segment, tail.next_seq, tail.head, tail.tree.clone());
        let writer = Writer::new(disk, dir, clock, options.segment_bytes, state);
        let unsigned =
            (covered.is_none() && tail.next_seq > 0).then(|| describe_unsigned(tail.next_seq));
        let missing = unsigned.as_ref().map(|detail| Draft {
            action: "ledger.head_missing",
            detail,
            ..Draft::default()
        });
        write_findings(&writer, &mut writer.lock(), &tail, missing.as_slice())?;
        let synced = AtomicU64::new(writer.written());
        let heads = Heads::new(signer, durable);
        let ledger = Ledger {
            shared: Arc::new(Shared {
                writer,
                synced,
                commits: Commits::default(),
                heads,
                scrub: OnceLock::new(),
                unsigned,
                _lock: lock,
            }),
        };
        if covered.is_none() {
            // From its first moment on a ledger has a head, so that one without is one whose head was taken. A disk that does not let us
            // sign now is asked again when the ledger is tended.
            let _ = ledger.checkpoint();
        }
        Ok(ledger)
    }

    /// After a failure: reads the tail again, cuts what was never acknowledged, and goes on. Does nothing if not broken.
    pub fn reopen(&self) -> Result<(), OpenError> {
        let writer = &self.shared.writer;
        let mut state = writer.lock_settled();
        let Some(reason) = state.broken.clone() else {
            return Ok(());
        };
        let expected = state.acknowledged;
        // No power was cut, so nothing may be missing before something that is there.
        let tail = recover::find_tail(
            &*writer.disk,
            &writer.dir,
            Known {
                expected,
                durable: u64::MAX,
            },
        )?;
        if let (false, Some((acknowledged, _))) = (tail.holds_expected, expected) {
            return Err(OpenError::Lost { acknowledged });
        }
        let segment = segment_at(&*writer.disk, &writer.dir, &tail)?;
        if let Some(suspect) = state.suspect {
            write_again(&*writer.disk, &writer.dir, suspect, &tail)?;
        }
        // Bodies that still cannot be written would break it again at once, with a record each time.
        let flushed = writer
            .bodies
            .flush(&*writer.disk, &writer.dir, tail.next_seq);
        flushed.map_err(OpenError::disk(
            "writing the kept arguments below",
            &writer.dir,
        ))?;
        state.resume_at(segment, tail.next_seq, tail.head, tail.tree.clone());
        writer.set_written(tail.next_seq);
        let unrecorded = std::mem::take(&mut state.unrecorded);
        let detail = describe_outage(&reason, unrecorded);
        let count = (unrecorded > 0).then_some(unrecorded);
        let recovered = Draft {
            action: "ledger.recovered",
            detail: &detail,
            count,
            ..Draft::default()
        };
        let result = write_findings(writer, &mut state, &tail, &[recovered]);
        match result {
            Ok(()) => self
                .shared
                .synced
                .store(writer.written(), Ordering::Release),
            Err(_) => {
                state.unrecorded += unrecorded;
                state.break_again(reason);
            }
        }
        result
    }
}

/// The process that says it has the ledger.
fn holder(disk: &dyn Disk, dir: &Path) -> Option<u32> {
    String::from_utf8(disk.read(&dir.join(LOCK)).ok()?)
        .ok()?
        .trim()
        .parse()
        .ok()
}

/// Why it failed, and what nobody will find in it.
fn describe_outage(reason: &str, unrecorded: u64) -> String {
    match unrecorded {
        0 => reason.to_owned(),
        1 => format!(
            "{reason}; 1 call was answered with LedgerUnavailable meanwhile and is not recorded"
        ),
        count => format!(
            "{reason}; {count} calls were answered with LedgerUnavailable meanwhile and are not recorded"
        ),
    }
}

/// For a person, when a ledger that has records has no head signed with its own key.
fn describe_unsigned(records: u64) -> String {
    format!(
        "{records} records were found and no checkpoint signed with this ledger's key: it was removed or replaced. Whether there were more \
         records before cannot be told; hold the ledger against a checkpoint kept elsewhere"
    )
}

/// Opens the segment that `tail` ends in, without what was torn. The cut is synced with the record that tells of it.
fn segment_at(disk: &dyn Disk, dir: &Path, tail: &Tail) -> Result<Segment, OpenError> {
    let path = segment_path(dir, tail.segment);
    let mut segment = new_segment(disk, dir, tail.segment)
        .map_err(OpenError::disk("opening the ledger segment", &path))?;
    if let Some(torn) = &tail.torn {
        if torn.records > 0 {
            let aside = dir.join(tail.name_of_cut());
            disk.replace(&aside, &torn.bytes)
                .map_err(OpenError::disk("keeping the torn tail in", aside))?;
        }
        segment
            .file
            .truncate(tail.size)
            .map_err(OpenError::disk("cutting the torn tail of", &path))?;
    }
    segment.size = tail.size;
    Ok(segment)
}

/// The first segment that an earlier process may have left unsynced: the one where its signed head ends, but no earlier than the
/// last but one, because a segment is synced before the next one is begun.
fn in_doubt(disk: &dyn Disk, dir: &Path, durable: u64) -> Result<u64, OpenError> {
    let segments = segments(disk, dir)?;
    let last_signed = segments
        .iter()
        .rev()
        .find(|first_seq| **first_seq <= durable);
    let last_but_one = segments.iter().rev().nth(1);
    Ok(last_signed.max(last_but_one).copied().unwrap_or(0))
}

fn segments(disk: &dyn Disk, dir: &Path) -> Result<Vec<u64>, OpenError> {
    let names = disk
        .list(dir)
        .map_err(OpenError::disk("listing the ledger directory", dir))?;
    let mut segments: Vec<u64> = names.iter().filter_map(|name| segment_seq(name)).collect();
    segments.sort_unstable();
    Ok(segments)
}

/// After a failed sync the kernel may hold pages that it no longer means to write, and another process cannot know. So everything from the
/// segment `suspect` on is written again, in place, and synced.
fn write_again(disk: &dyn Disk, dir: &Path, suspect: u64, tail: &Tail) -> Result<(), OpenError> {
    for first_seq in segments(disk, dir)?
        .into_iter()
        .filter(|first_seq| *first_seq >= suspect)
    {
        let path = segment_path(dir, first_seq);
        let mut bytes = disk
            .read(&path)
            .map_err(OpenError::disk("reading the ledger segment", &path))?;
        if first_seq == tail.segment {
            bytes.truncate(usize::try_from(tail.size).unwrap_or(usize::MAX));
        }
        disk.overwrite(&path, 0, &bytes)
            .map_err(OpenError::disk("writing the ledger segment again", &path))?;
    }
    Ok(())
}

/// Records what recovery found: first `extra`, then the cut, then one outcome per intent that nobody can conclude.
fn write_findings(
    writer: &Writer,
    state: &mut State,
    tail: &Tail,
    extra: &[Draft<'_>],
) -> Result<(), OpenError> {
    let mut drafts = extra.to_vec();
    let cut = tail.describe_cut();
    drafts.extend(cut.as_ref().map(|detail| Draft {
        action: "ledger.torn_tail_cut",
        detail,
        ..Draft::default()
    }));
    let lost = tail
        .outstanding
        .iter()
        .filter(|(seq, _)| !state.live.contains_key(*seq));
    let lost = lost.map(|(seq, call)| (*seq, call.clone())).collect();
    let orphans = orphans::find(&*writer.disk, &writer.dir, &lost);
    drafts.extend(orphans.iter().map(Orphan::outcome));
    if drafts.is_empty() {
        return Ok(());
    }
    let path = segment_path(&writer.dir, state.segment.first_seq);
    writer
        .write_alone(state, &drafts)
        .map_err(OpenError::disk("recording the recovery in", path))
}
