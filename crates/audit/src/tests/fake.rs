//! A disk that fills up, writes short and fails to sync on command; a clock that moves only when told.

use crate::*;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use vocab::Stage;

#[derive(Debug)]
pub(super) struct Faults {
    /// Bytes the disk still takes; a write beyond is short, and the next one fails.
    pub(super) room: AtomicI64,
    pub(super) sync_fails: AtomicBool,
    pub(super) sync_takes_us: AtomicU64,
    pub(super) syncs: AtomicU64,
    /// Every write, by its length.
    pub(super) writes: Mutex<Vec<usize>>,
}

impl Default for Faults {
    fn default() -> Faults {
        Faults {
            room: AtomicI64::new(i64::MAX),
            sync_fails: AtomicBool::new(false),
            sync_takes_us: AtomicU64::new(0),
            syncs: AtomicU64::new(0),
            writes: Mutex::default(),
        }
    }
}

#[derive(Debug)]
pub(super) struct FaultyDisk(pub(super) Arc<Faults>);

#[derive(Debug)]
struct FaultyFile(Arc<dyn SegmentFile>, Arc<Faults>);

impl Disk for FaultyDisk {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        RealDisk.create_dir(dir)
    }
    fn lock(&self, dir: &Path) -> io::Result<Lock> {
        RealDisk.lock(dir)
    }
    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        RealDisk.list(dir)
    }
    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        RealDisk.read(path)
    }
    fn open(&self, path: &Path) -> io::Result<Arc<dyn SegmentFile>> {
        Ok(Arc::new(FaultyFile(RealDisk.open(path)?, self.0.clone())))
    }
    fn overwrite(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        let file = std::fs::OpenOptions::new().write(true).open(path)?;
        std::os::unix::fs::FileExt::write_all_at(&file, bytes, at)
    }
    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        if self.0.room.load(Ordering::SeqCst) <= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        // Nothing here cuts the power, so nothing waits for the disk.
        let new = path.with_added_extension("new");
        std::fs::write(&new, bytes)?;
        std::fs::rename(&new, path)
    }
    fn size(&self, path: &Path) -> io::Result<u64> {
        RealDisk.size(path)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        RealDisk.remove(path)
    }
    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }
}

impl SegmentFile for FaultyFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        self.1.writes.lock().unwrap().push(bytes.len());
        let room = self.1.room.load(Ordering::SeqCst);
        if room <= 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        let taken = bytes.len().min(room as usize);
        let taken = self.0.append(&bytes[..taken])?;
        self.1.room.fetch_sub(taken as i64, Ordering::SeqCst);
        Ok(taken)
    }
    fn sync(&self) -> io::Result<()> {
        self.1.syncs.fetch_add(1, Ordering::SeqCst);
        std::thread::sleep(std::time::Duration::from_micros(
            self.1.sync_takes_us.load(Ordering::SeqCst),
        ));
        if self.1.sync_fails.load(Ordering::SeqCst) {
            return Err(io::Error::other("injected"));
        }
        Ok(())
    }
    fn truncate(&self, len: u64) -> io::Result<()> {
        self.0.truncate(len)
    }
}

/// 2026-11-15T10:47:05.123Z
pub(super) const START_MS: u64 = 1_794_739_625_123;

/// A clock that stands at [`START_MS`] plus the milliseconds in the counter.
pub(super) fn clock() -> (Clock, Arc<AtomicU64>) {
    let passed = Arc::new(AtomicU64::new(0));
    let hand = passed.clone();
    let clock: Clock = Arc::new(move || {
        let ms = hand.load(Ordering::SeqCst);
        Moment {
            unix_ms: START_MS + ms,
            mono_us: ms * 1000,
        }
    });
    (clock, passed)
}

pub(super) fn open(dir: &Path) -> Ledger {
    open_with(dir, Arc::default(), 1 << 20)
}

pub(super) fn open_with(dir: &Path, faults: Arc<Faults>, segment_bytes: u64) -> Ledger {
    let disk = Box::new(FaultyDisk(faults));
    Ledger::with(dir, disk, clock().0, Options { segment_bytes }).unwrap()
}

pub(super) fn facts(call: &str) -> Facts {
    Facts {
        call: call.to_owned().into(),
        door: "mcp-http".into(),
        action: "tools/call".into(),
        caller: "cred-7".into(),
        session: "s-1".into(),
        server: "github".into(),
        tool: "search".into(),
        label: "PUBLIC".into(),
        args: "ab".repeat(32).into(),
        args_bytes: Some(57),
        ..Facts::default()
    }
}

pub(super) fn all(dir: &Path) -> Vec<Record> {
    read(dir, Filter::default())
        .unwrap()
        .map(Result::unwrap)
        .collect()
}

/// The bytes of a ledger with `records` records in one segment: calls, refusals and changes in turn.
pub(super) fn sample(dir: &Path, records: u64) -> Vec<u8> {
    let ledger = open(dir);
    let mut next = 0;
    while next < records {
        let mut opened = ledger.open(facts(&format!("call-{next}")));
        if next % 5 == 4 || records - next == 1 {
            let mut outcome = Outcome::new(Verdict::Refused, Stage::Admit);
            outcome.violation = "ToolNotAllowed";
            let _ = ledger.conclude(opened, &outcome).unwrap();
            next += 1;
        } else {
            let _ = ledger.intend(&mut opened).unwrap();
            let outcome = Outcome::new(Verdict::Permitted, Stage::Absorb);
            let _ = ledger.conclude(opened, &outcome).unwrap();
            next += 2;
        }
    }
    assert_eq!(ledger.status().records, records);
    drop(ledger);
    forget_checkpoint(dir);
    std::fs::read(first_segment(dir)).unwrap()
}

/// As if the ledger had been killed and not closed: no signed head says how far it is durable.
pub(super) fn forget_checkpoint(dir: &Path) {
    let _ = std::fs::remove_file(dir.join("checkpoint"));
}

pub(super) fn first_segment(dir: &Path) -> std::path::PathBuf {
    dir.join("00000000000000000000.log")
}
