//! A disk in memory that forgets: what the kernel holds and what the platter holds are two things, and every operation is counted, so
//! that a test can fail it, stop the world at it, or cut the power and see what is left.

use crate::verify::{Asked, Files, Report, verify_files};
use crate::*;
use std::collections::BTreeMap;
use std::io::{self, Cursor, Read};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

/// A small generator, the same on every machine (splitmix64).
#[derive(Clone, Debug)]
pub(super) struct Dice(pub(super) u64);

impl Dice {
    pub(super) fn roll(&mut self, sides: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % sides
    }

    pub(super) fn chance(&mut self, of_a_hundred: u64) -> bool {
        self.roll(100) < of_a_hundred
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    Eio,
    Enospc,
    Eintr,
    /// A write takes half; anything else fails with EIO.
    Short,
    /// The process stops before the operation, or after it.
    KillBefore,
    KillAfter,
}

impl Fault {
    pub(super) const ALL: [Fault; 6] = [
        Fault::Eio,
        Fault::Enospc,
        Fault::Eintr,
        Fault::Short,
        Fault::KillBefore,
        Fault::KillAfter,
    ];

    fn error(self) -> io::Error {
        match self {
            Fault::Enospc => io::ErrorKind::StorageFull.into(),
            Fault::Eintr => io::ErrorKind::Interrupted.into(),
            Fault::Eio | Fault::Short | Fault::KillBefore | Fault::KillAfter => {
                io::Error::other("injected EIO")
            }
        }
    }
}

#[derive(Clone, Debug, Default)]
struct Inode {
    kernel: Vec<u8>,
    platter: Vec<u8>,
    /// What the platter does not have yet, in order.
    unsynced: Vec<Op>,
}

#[derive(Clone, Debug)]
enum Op {
    Write { at: usize, bytes: Vec<u8> },
    Truncate(usize),
}

#[derive(Clone, Debug)]
enum NameOp {
    Link(PathBuf, usize),
    Unlink(PathBuf),
}

#[derive(Clone, Debug, Default)]
struct World {
    inodes: Vec<Inode>,
    names: BTreeMap<PathBuf, usize>,
    platter_names: BTreeMap<PathBuf, usize>,
    unsynced_names: Vec<NameOp>,
    ops: u64,
    /// At this operation, counted from 0, this happens.
    plan: Option<(u64, Fault)>,
    dead: bool,
    trace: Vec<&'static str>,
}

#[derive(Clone, Debug, Default)]
pub(super) struct Sim(Arc<Mutex<World>>);

#[derive(Debug)]
struct SimFile(Sim, usize);

fn killed() -> io::Error {
    io::Error::other("the process is gone")
}

impl World {
    /// Counts an operation; what it must do.
    fn step(&mut self, name: &'static str) -> io::Result<Option<Fault>> {
        if self.dead {
            return Err(killed());
        }
        let op = self.ops;
        self.ops += 1;
        self.trace.push(name);
        match self.plan {
            Some((at, fault)) if at == op => match fault {
                Fault::KillBefore => {
                    self.dead = true;
                    Err(killed())
                }
                fault => Ok(Some(fault)),
            },
            _ => Ok(None),
        }
    }

    /// Does `act` as the plan says: not at all, with an error, or and then the process is gone.
    fn act<T>(
        &mut self,
        name: &'static str,
        act: impl FnOnce(&mut World) -> io::Result<T>,
    ) -> io::Result<T> {
        match self.step(name)? {
            None => act(self),
            Some(Fault::KillAfter) => {
                let _ = act(self);
                self.dead = true;
                Err(killed())
            }
            Some(fault) => Err(fault.error()),
        }
    }

    fn inode(&self, path: &Path) -> io::Result<usize> {
        self.names
            .get(path)
            .copied()
            .ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    fn create(&mut self, path: &Path) -> usize {
        self.inodes.push(Inode::default());
        let inode = self.inodes.len() - 1;
        self.link(path, inode);
        inode
    }

    fn link(&mut self, path: &Path, inode: usize) {
        self.names.insert(path.to_owned(), inode);
        self.unsynced_names
            .push(NameOp::Link(path.to_owned(), inode));
    }

    fn write(&mut self, inode: usize, at: usize, bytes: &[u8]) {
        let inode = &mut self.inodes[inode];
        apply(
            &mut inode.kernel,
            &Op::Write {
                at,
                bytes: bytes.to_vec(),
            },
        );
        inode.unsynced.push(Op::Write {
            at,
            bytes: bytes.to_vec(),
        });
    }

    /// A write that may be short or fail.
    fn try_write(&mut self, inode: usize, at: usize, bytes: &[u8]) -> io::Result<usize> {
        let taken = match self.step("write")? {
            Some(Fault::Short) => bytes.len().div_ceil(2),
            Some(Fault::KillAfter) => {
                self.write(inode, at, bytes);
                self.dead = true;
                return Err(killed());
            }
            Some(fault) => return Err(fault.error()),
            None => bytes.len(),
        };
        self.write(inode, at, &bytes[..taken]);
        Ok(taken)
    }

    fn write_all(&mut self, inode: usize, at: usize, mut bytes: &[u8]) -> io::Result<()> {
        let mut at = at;
        while !bytes.is_empty() {
            match self.try_write(inode, at, bytes) {
                Ok(taken) => {
                    at += taken;
                    bytes = &bytes[taken..];
                }
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn sync(&mut self, inode: usize) -> io::Result<()> {
        let result = self.act("fdatasync", |world| {
            let inode = &mut world.inodes[inode];
            for op in &inode.unsynced {
                apply(&mut inode.platter, op);
            }
            Ok(())
        });
        // After an error the kernel calls the pages clean: a later sync will not write them either.
        if !self.dead || result.is_ok() {
            self.inodes[inode].unsynced.clear();
        }
        result
    }

    fn sync_dir(&mut self) -> io::Result<()> {
        self.act("fsync directory", |world| {
            world.platter_names.clone_from(&world.names);
            world.unsynced_names.clear();
            Ok(())
        })
    }
}

fn apply(bytes: &mut Vec<u8>, op: &Op) {
    match op {
        Op::Truncate(len) => bytes.resize(*len, 0),
        Op::Write { at, bytes: new } => {
            if bytes.len() < at + new.len() {
                bytes.resize(at + new.len(), 0);
            }
            bytes[*at..at + new.len()].copy_from_slice(new);
        }
    }
}

impl Sim {
    fn lock(&self) -> MutexGuard<'_, World> {
        self.0.lock().unwrap()
    }

    pub(super) fn plan(&self, at: u64, fault: Fault) {
        self.lock().plan = Some((at, fault));
    }

    pub(super) fn ops(&self) -> u64 {
        self.lock().ops
    }

    pub(super) fn trace(&self) -> Vec<&'static str> {
        self.lock().trace.clone()
    }

    /// Nothing the process does from here on reaches the disk.
    pub(super) fn stop(&self) {
        self.lock().dead = true;
    }

    pub(super) fn is_stopped(&self) -> bool {
        self.lock().dead
    }

    /// The disk that a new process finds after the old one was killed: all that the kernel had.
    pub(super) fn after_kill(&self) -> Sim {
        let mut world = self.lock().clone();
        (world.dead, world.plan, world.ops) = (false, None, 0);
        world.trace.clear();
        Sim(Arc::new(Mutex::new(world)))
    }

    /// The disk after the power was cut: what was synced, and whatever else the dice leave.
    pub(super) fn after_power_cut(&self, dice: &mut Dice) -> Sim {
        let old = self.lock();
        let mood = dice.roll(4);
        let mut names = old.platter_names.clone();
        for op in &old.unsynced_names {
            if keeps(mood, dice) {
                match op {
                    NameOp::Link(path, inode) => drop(names.insert(path.clone(), *inode)),
                    NameOp::Unlink(path) => drop(names.remove(path)),
                }
            }
        }
        let inodes = old.inodes.iter().map(|inode| {
            let mut platter = inode.platter.clone();
            for op in &inode.unsynced {
                keep_some(&mut platter, op, mood, dice);
            }
            Inode {
                kernel: platter.clone(),
                platter,
                unsynced: Vec::new(),
            }
        });
        let inodes = inodes.collect();
        let world = World {
            inodes,
            platter_names: names.clone(),
            names,
            ..World::default()
        };
        Sim(Arc::new(Mutex::new(world)))
    }

    pub(super) fn verify(&self) -> Report {
        verify_files(self, Asked::default()).unwrap()
    }

    pub(super) fn records(&self) -> Vec<Record> {
        let world = self.lock();
        let logs = world
            .names
            .iter()
            .filter(|(path, _)| path.extension().is_some_and(|e| e == "log"));
        let lines = logs
            .flat_map(|(_, inode)| world.inodes[*inode].kernel.split_inclusive(|b| *b == b'\n'));
        lines
            .map(|line| serde_json::from_slice(line).unwrap())
            .collect()
    }

    /// Flips bits in the file of a name.
    pub(super) fn flip(&self, path: &Path, at: usize, bits: u8) {
        let mut world = self.lock();
        let inode = world.inode(path).unwrap();
        world.inodes[inode].kernel[at] ^= bits;
    }

    pub(super) fn bytes(&self, path: &Path) -> Vec<u8> {
        let world = self.lock();
        world.inodes[world.inode(path).unwrap()].kernel.clone()
    }
}

fn keeps(mood: u64, dice: &mut Dice) -> bool {
    match mood {
        0 => false,
        1 => true,
        _ => dice.chance(50),
    }
}

/// Applies a write sector by sector, each kept or not; a lost one may still have made the file longer.
fn keep_some(platter: &mut Vec<u8>, op: &Op, mood: u64, dice: &mut Dice) {
    let Op::Write { at, bytes } = op else {
        if keeps(mood, dice) {
            apply(platter, op);
        }
        return;
    };
    if mood == 3 && dice.chance(50) && platter.len() < at + bytes.len() {
        platter.resize(at + bytes.len(), 0);
    }
    let mut start = *at;
    while start < at + bytes.len() {
        let end = (start / 512 * 512 + 512).min(at + bytes.len());
        if keeps(mood, dice) {
            apply(
                platter,
                &Op::Write {
                    at: start,
                    bytes: bytes[start - at..end - at].to_vec(),
                },
            );
        }
        start = end;
    }
}

impl Files for Sim {
    fn names(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.lock().names.keys().cloned().collect())
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn Read>> {
        let world = self.lock();
        Ok(Box::new(Cursor::new(
            world.inodes[world.inode(path)?].kernel.clone(),
        )))
    }

    fn place(&self, name: &str) -> PathBuf {
        Path::new("/ledger").join(name)
    }
}

impl Disk for Sim {
    fn create_dir(&self, _: &Path) -> io::Result<()> {
        self.lock().act("mkdir", |_| Ok(()))
    }

    fn lock(&self, _: &Path) -> io::Result<Lock> {
        self.lock().act("flock", |_| Ok(()))?;
        Ok(Box::new(()))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        self.lock().act("getdents", |world| {
            let inside = world.names.keys().filter(|path| path.parent() == Some(dir));
            Ok(inside
                .map(|path| path.file_name().unwrap().to_str().unwrap().to_owned())
                .collect())
        })
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        self.lock().act("read", |world| {
            Ok(world.inodes[world.inode(path)?].kernel.clone())
        })
    }

    fn open(&self, path: &Path) -> io::Result<Arc<dyn SegmentFile>> {
        let inode = self.lock().act("openat", |world| {
            Ok(world.inode(path).unwrap_or_else(|_| world.create(path)))
        })?;
        Ok(Arc::new(SimFile(self.clone(), inode)))
    }

    fn overwrite(&self, path: &Path, at: u64, bytes: &[u8]) -> io::Result<()> {
        let mut world = self.lock();
        let inode = world.act("openat", |world| world.inode(path))?;
        world.write_all(inode, at as usize, bytes)?;
        world.sync(inode)
    }

    fn replace(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let new = path.with_added_extension("new");
        let mut world = self.lock();
        let inode = world.act("openat", |world| Ok(world.create(&new)))?;
        world.write_all(inode, 0, bytes)?;
        world.sync(inode)?;
        world.act("rename", |world| {
            world.names.remove(&new);
            world.unsynced_names.push(NameOp::Unlink(new.clone()));
            world.link(path, inode);
            Ok(())
        })?;
        world.sync_dir()
    }

    fn size(&self, path: &Path) -> io::Result<u64> {
        self.lock().act("stat", |world| {
            Ok(world.inodes[world.inode(path)?].kernel.len() as u64)
        })
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.lock().act("unlink", |world| {
            world.names.remove(path).ok_or(io::ErrorKind::NotFound)?;
            world.unsynced_names.push(NameOp::Unlink(path.to_owned()));
            Ok(())
        })
    }

    fn sync_dir(&self, _: &Path) -> io::Result<()> {
        self.lock().sync_dir()
    }
}

impl SegmentFile for SimFile {
    fn append(&self, bytes: &[u8]) -> io::Result<usize> {
        let mut world = self.0.lock();
        let at = world.inodes[self.1].kernel.len();
        world.try_write(self.1, at, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        self.0.lock().sync(self.1)
    }

    fn truncate(&self, len: u64) -> io::Result<()> {
        let inode = self.1;
        self.0.lock().act("ftruncate", |world| {
            let inode = &mut world.inodes[inode];
            inode.kernel.truncate(len as usize);
            inode.unsynced.push(Op::Truncate(len as usize));
            Ok(())
        })
    }
}
