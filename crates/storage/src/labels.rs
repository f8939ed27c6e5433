//! Labels of files: what whoever reads a file, or its name, has seen afterwards.
//!
//! A label is kept for a file and not for a path, so it follows a rename. Where no label is kept, the volume's floor counts; where one is
//! kept, the floor counts too. Names are data, so a directory has two labels: who made it has the one, and whoever passes it has seen
//! that. Who put names into it or took some out has the other, and whoever lists it, or finds something missing, has seen those.
//!
//! Commands read and write all of a volume, and nobody sees which file became which. So a volume that commands run in has one label, which
//! every write raises.
//!
//! **Invariant: a label is kept before what it is for can be seen.** Tests `a_label_is_durable_before_its_file_has_a_name`,
//! `a_kill_at_any_moment_leaves_no_file_below_its_label`.

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, Mutex, PoisonError, RwLock},
};

use vocab::Label;

use crate::{ErrorKind, FileError, FileId};

/// What a label is kept for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RowId {
    pub file: FileId,
    /// The names in a directory, instead of the file or directory itself.
    pub is_names: bool,
}

impl RowId {
    pub(crate) const fn own(file: FileId) -> Self {
        Self {
            file,
            is_names: false,
        }
    }

    pub(crate) const fn names(file: FileId) -> Self {
        Self {
            file,
            is_names: true,
        }
    }
}

/// Stands for everything in a volume. No file has this number.
const EVERYTHING: RowId = RowId::own(FileId { inode: 0, birth: 1 });

/// Where labels are kept, for longer than the process lives. What `keep` was given is durable when it returns.
pub trait LabelRows: fmt::Debug + Send + Sync {
    /// Every row of a volume, and the root they are for.
    fn load(&self, volume: &str) -> Result<Kept, String>;
    /// The root that rows from now on are for.
    fn settle(&self, volume: &str, root: FileId) -> Result<(), String>;
    /// Has this label from now on.
    fn keep(&self, volume: &str, id: RowId, label: &Label) -> Result<(), String>;
    /// The files are gone.
    fn forget(&self, volume: &str, ids: &[FileId]) -> Result<(), String>;
}

/// What was kept of a volume.
#[derive(Debug, Clone, Default)]
pub struct Kept {
    pub root: Option<FileId>,
    pub rows: Vec<(RowId, Label)>,
}

#[derive(Debug)]
pub(crate) struct Labels {
    volume: String,
    floor: RwLock<Floor>,
    /// Whether there is one label for everything.
    is_whole: bool,
    rows: RwLock<HashMap<RowId, Label>>,
    kept: Arc<dyn LabelRows>,
    /// Held while a row is written, so that none is lost between two who raise it.
    writing: Mutex<()>,
}

/// What everything in a volume carries at least.
#[derive(Debug, Default)]
struct Floor {
    label: Label,
    /// What of it is kept.
    kept: Label,
}

impl Labels {
    /// A directory that is not the one the labels were kept for may hold any of the files they were for: a copy, a backup. It all has
    /// the highest of them.
    pub(crate) fn load(
        volume: &str,
        floor: Label,
        is_whole: bool,
        root: FileId,
        kept: Arc<dyn LabelRows>,
    ) -> Result<Self, FileError> {
        let found = kept.load(volume).map_err(lost)?;
        let all = found.rows.iter().map(|(_, label)| label);
        let all = all.fold(Label::default(), Label::join);
        let mut rows: HashMap<RowId, Label> = found.rows.into_iter().collect();
        let raised = rows.remove(&EVERYTHING).unwrap_or_default();
        let is_another = found.root.is_some_and(|before| before != root);
        let mut label = floor.join(&raised);
        if is_another {
            label.join_in(&all);
        }
        if found.root.is_none() {
            kept.settle(volume, root).map_err(lost)?;
        }
        let labels = Self {
            volume: volume.to_owned(),
            floor: RwLock::new(Floor {
                label,
                kept: raised,
            }),
            is_whole,
            rows: RwLock::new(rows),
            kept,
            writing: Mutex::default(),
        };
        if is_whole {
            labels.raise_all(&all)?;
        }
        Ok(labels)
    }

    pub(crate) fn floor(&self) -> Label {
        self.look_at_floor(|floor| floor.label.clone())
    }

    fn look_at_floor<T>(&self, look: impl FnOnce(&Floor) -> T) -> T {
        look(&self.floor.read().unwrap_or_else(PoisonError::into_inner))
    }

    /// From now on everything carries at least this.
    pub(crate) fn raise_all(&self, label: &Label) -> Result<(), FileError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        self.raise_floor(label)
    }

    /// The same for who has the turn to write.
    fn raise_floor(&self, label: &Label) -> Result<(), FileError> {
        let before = self.look_at_floor(|floor| floor.kept.clone());
        if before.includes(label) {
            return Ok(());
        }
        let kept = before.join(label);
        let written = self.kept.keep(&self.volume, EVERYTHING, &kept);
        written.map_err(lost)?;
        let mut floor = self.floor.write().unwrap_or_else(PoisonError::into_inner);
        floor.label.join_in(&kept);
        floor.kept = kept;
        Ok(())
    }

    /// What reading this brings.
    pub(crate) fn join_of(&self, id: RowId, into: &mut Label) {
        self.look_at_floor(|floor| into.join_in(&floor.label));
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        if let Some(label) = rows.get(&id) {
            into.join_in(label);
        }
    }

    /// The label of a file or directory itself.
    pub(crate) fn of(&self, id: FileId) -> Label {
        let mut label = Label::default();
        self.join_of(RowId::own(id), &mut label);
        label
    }

    /// The label of a file that has no name yet.
    pub(crate) fn give(&self, id: RowId, label: &Label) -> Result<(), FileError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.row(id);
        if before.is_none() && *label == Label::default() {
            return Ok(());
        }
        // Where a disk tells no births, a row may be what another file left behind under this number.
        let is_its_own = id.file.birth != 0;
        let before = before.filter(|_| is_its_own).unwrap_or_default();
        self.write(id, before.join(label))
    }

    /// What it tells now includes this.
    pub(crate) fn raise(&self, id: RowId, label: &Label) -> Result<(), FileError> {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.row(id).unwrap_or_default();
        if before.includes(label) {
            return Ok(());
        }
        self.write(id, before.join(label))
    }

    pub(crate) fn forget(&self, ids: &[FileId]) {
        let _writing = self.writing.lock().unwrap_or_else(PoisonError::into_inner);
        let both = |id: &FileId| [RowId::own(*id), RowId::names(*id)];
        let known: Vec<FileId> = ids
            .iter()
            .copied()
            .filter(|id| both(id).iter().any(|row| self.row(*row).is_some()))
            .collect();
        if known.is_empty() {
            return;
        }
        // A row too many makes nothing less careful.
        if self.kept.forget(&self.volume, &known).is_ok() {
            let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
            for row in known.iter().flat_map(both) {
                rows.remove(&row);
            }
        }
    }

    fn row(&self, id: RowId) -> Option<Label> {
        let rows = self.rows.read().unwrap_or_else(PoisonError::into_inner);
        rows.get(&id).cloned()
    }

    fn write(&self, id: RowId, label: Label) -> Result<(), FileError> {
        if self.is_whole {
            return self.raise_floor(&label);
        }
        self.kept.keep(&self.volume, id, &label).map_err(lost)?;
        let mut rows = self.rows.write().unwrap_or_else(PoisonError::into_inner);
        rows.insert(id, label);
        Ok(())
    }
}

fn lost(error: String) -> FileError {
    FileError::new(ErrorKind::Broken, format!("labels cannot be kept: {error}"))
}

/// Rows that are gone with the process.
#[derive(Debug, Default)]
pub struct InMemory(Mutex<HashMap<String, Kept>>);

impl InMemory {
    fn change(&self, volume: &str, change: impl FnOnce(&mut Kept)) {
        let mut volumes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(volumes.entry(volume.to_owned()).or_default());
    }
}

impl LabelRows for InMemory {
    fn load(&self, volume: &str) -> Result<Kept, String> {
        let volumes = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(volumes.get(volume).cloned().unwrap_or_default())
    }

    fn settle(&self, volume: &str, root: FileId) -> Result<(), String> {
        self.change(volume, |kept| kept.root = Some(root));
        Ok(())
    }

    fn keep(&self, volume: &str, id: RowId, label: &Label) -> Result<(), String> {
        self.change(volume, |kept| {
            kept.rows.retain(|(known, _)| *known != id);
            kept.rows.push((id, label.clone()));
        });
        Ok(())
    }

    fn forget(&self, volume: &str, ids: &[FileId]) -> Result<(), String> {
        self.change(volume, |kept| {
            kept.rows.retain(|(known, _)| !ids.contains(&known.file))
        });
        Ok(())
    }
}
