//! A volume: a directory that agents use through the gate, with what it may hold and what it has been given.

use std::{
    fmt,
    hash::{BuildHasher, Hash, RandomState},
    path::PathBuf,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use vocab::{Label, Level};

use crate::{
    ErrorKind, FileError, FileId, LabelRows, RowId, VolumePath,
    beneath::{Found, Opened, Root},
    labels::Labels,
    probe::{self, Abilities},
    usage::{Usage, Used},
};

/// Changes of one file wait for each other; two files rarely share a lock.
const LOCKS: u64 = 64;

/// How soon what was written must survive a power cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Durability {
    /// Before the operation is done.
    #[default]
    Full,
    /// When the system gets to it.
    Relaxed,
}

/// What an operator said of a volume.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeSpec {
    pub name: String,
    /// The directory on this machine.
    pub root: PathBuf,
    /// The most secret data that may be written to it.
    pub ceiling: Level,
    /// What everything in it carries at least.
    pub floor: Label,
    pub is_writable: bool,
    pub max_bytes: Option<u64>,
    pub max_files: Option<u64>,
    pub durability: Durability,
    /// Whether it reaches onto other disks that are mounted in it.
    pub allows_mounts: bool,
    /// Whether files with a second name, which may be outside, are opened.
    pub allows_hardlinks: bool,
    /// Whether commands run in it. Then it has one label for everything in it.
    pub runs_commands: bool,
}

/// Who uses a volume: what their session has seen, and where they may go.
#[derive(Clone, Copy)]
pub struct Access<'a> {
    pub label: &'a Label,
    /// Whether a place is one they may use. Asked where a link led elsewhere than the path said, for everything that a search or a listing
    /// shows, and for everything in a directory that is moved or deleted.
    pub may: &'a dyn Fn(&VolumePath) -> bool,
}

impl fmt::Debug for Access<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Access")
            .field("label", self.label)
            .finish_non_exhaustive()
    }
}

/// What came of an operation, and what whoever is told has seen: of results and of reasons alike.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use]
pub struct Labelled<T> {
    pub result: Result<T, FileError>,
    pub label: Label,
}

/// A volume in use.
#[derive(Debug)]
pub struct Volume {
    pub(crate) spec: VolumeSpec,
    pub(crate) root: Root,
    pub(crate) labels: Labels,
    pub(crate) usage: Usage,
    abilities: Abilities,
    locks: (Mutex<()>, Vec<Mutex<()>>),
    hasher: RandomState,
    pub(crate) next_own: AtomicU64,
}

impl Volume {
    /// Opens the directory, removes what a killed gate left half done, and counts what is in it, as far as the gate can look.
    pub fn attach(spec: VolumeSpec, kept: Arc<dyn LabelRows>) -> Result<Self, FileError> {
        let root = Root::open(&spec.root, spec.allows_mounts, spec.allows_hardlinks)?;
        let floor = spec.floor.clone();
        let labels = Labels::load(&spec.name, floor, spec.runs_commands, root.stat.id, kept)?;
        let usage = Usage::new(spec.max_bytes, spec.max_files);
        let mut volume = Self {
            root,
            labels,
            usage,
            abilities: Abilities::default(),
            locks: (
                Mutex::default(),
                (1..LOCKS).map(|_| Mutex::default()).collect(),
            ),
            hasher: RandomState::new(),
            next_own: AtomicU64::new(0),
            spec,
        };
        volume.count_first(volume.spec.is_writable)?;
        volume.abilities = probe::probe(&volume)?;
        Ok(volume)
    }

    #[must_use]
    pub const fn spec(&self) -> &VolumeSpec {
        &self.spec
    }

    /// What the disk beneath can do.
    #[must_use]
    pub const fn abilities(&self) -> Abilities {
        self.abilities
    }

    #[must_use]
    pub fn used(&self) -> Used {
        self.usage.used()
    }

    /// What everything in it carries at least. Above what the operator said where the directory is not the one labels were kept for.
    #[must_use]
    pub fn floor(&self) -> Label {
        self.labels.floor()
    }

    /// A command of somebody with this label is about to run in it: from now on everything carries that too. Gives back what the command can
    /// read.
    pub fn begin_command(&self, label: &Label) -> Result<Label, FileError> {
        self.check_writable()?;
        self.check_ceiling(label)?;
        self.labels.raise_all(label)?;
        Ok(self.floor())
    }

    /// Counts what is in it while and after a command writes there. Whether that is far more than there may be;
    /// an error where not everything can be looked at.
    pub fn is_overfull(&self) -> Result<bool, FileError> {
        self.recount()?;
        let (used, tenth) = (self.used(), |limit: u64| limit.saturating_add(limit / 10));
        let exceeds =
            |used: u64, limit: Option<u64>| limit.is_some_and(|limit| used > tenth(limit));
        Ok(exceeds(used.bytes, self.spec.max_bytes) || exceeds(used.files, self.spec.max_files))
    }

    /// Runs an operation and gives its result the label of everything it looked at.
    pub(crate) fn labelled<T>(
        &self,
        run: impl FnOnce(&mut Label) -> Result<T, FileError>,
    ) -> Labelled<T> {
        let mut label = Label::default();
        let result = run(&mut label);
        if self.spec.runs_commands {
            // A command may have written what was read after its label was taken. The label of everything rose before the command began.
            label.join_in(&self.floor());
        }
        Labelled { result, label }
    }

    /// Follows a path, and notes the directories whose names that tells of.
    pub(crate) fn find(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        follows_last: bool,
        seen: &mut Label,
    ) -> Result<Found, FileError> {
        let note = &mut |id| self.labels.join_of(id, seen);
        let found = self.root.find(path, follows_last, note)?;
        check_place(access, path, &found)?;
        Ok(found)
    }

    /// Opens a file for reading, and notes that it was.
    pub(crate) fn open(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        seen: &mut Label,
    ) -> Result<Opened, FileError> {
        let (opened, _) = self.open_with_label(access, path, seen)?;
        Ok(opened)
    }

    /// The same, with the label that the file itself has. It is taken before and after the file is opened: whoever replaces the file
    /// meanwhile may end its label.
    pub(crate) fn open_with_label(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        seen: &mut Label,
    ) -> Result<(Opened, Label), FileError> {
        let mut last: Option<(RowId, Label)> = None;
        let note = &mut |id: RowId| {
            let mut label = Label::default();
            self.labels.join_of(id, &mut label);
            seen.join_in(&label);
            // The file is noted last, once when it was looked at and once when it was opened.
            if let Some((_, before)) = last.take().filter(|(before, _)| *before == id) {
                label.join_in(&before);
            }
            last = Some((id, label));
        };
        let (found, opened) = self.root.open_file(path, note)?;
        check_place(access, path, &found)?;
        Ok((opened, last.map(|(_, label)| label).unwrap_or_default()))
    }

    /// Ends the labels of files that are certainly gone. What was not synced may be there again after a power cut, so where nothing is
    /// synced labels stay: a row too many makes nothing less careful.
    pub(crate) fn forget(&self, ids: &[FileId]) {
        if self.spec.durability == Durability::Full {
            self.labels.forget(ids);
        }
    }

    pub(crate) fn check_writable(&self) -> Result<(), FileError> {
        if self.spec.is_writable {
            return Ok(());
        }
        let says = format!(
            "volume `{}` is read-only; an operator can say `writable: true`",
            self.spec.name
        );
        Err(FileError::new(ErrorKind::ReadOnly, says))
    }

    /// Whether content of this label may rest here.
    pub(crate) fn check_ceiling(&self, label: &Label) -> Result<(), FileError> {
        if label.mark.secrecy <= self.spec.ceiling {
            return Ok(());
        }
        let says = format!(
            "what would be written is {}, and volume `{}` may hold no more than {}",
            label.mark.secrecy, self.spec.name, self.spec.ceiling
        );
        Err(FileError::new(ErrorKind::WriteDown, says))
    }

    /// Changes of what is at this place wait for each other.
    pub(crate) fn lock(&self, key: &impl Hash) -> MutexGuard<'_, ()> {
        let (first, others) = &self.locks;
        let index = usize::try_from(self.hasher.hash_one(key) % LOCKS).unwrap_or(0);
        let lock = others.get(index).unwrap_or(first);
        lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A name for something that is not there yet, or no longer.
    pub(crate) fn own_name(&self) -> String {
        let number = self.next_own.fetch_add(1, Ordering::Relaxed);
        format!("{}{number:016x}", crate::path::OWN)
    }
}

/// Refuses a way that a link led to where the caller may not go.
fn check_place(access: Access<'_>, asked: &VolumePath, found: &Found) -> Result<(), FileError> {
    let real = found.path();
    if real == *asked || (access.may)(&real) {
        return Ok(());
    }
    let says = format!("`{asked}` is a link to a place that is not allowed");
    Err(FileError::new(ErrorKind::NotAllowed, says))
}
