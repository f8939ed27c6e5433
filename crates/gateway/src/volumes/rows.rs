//! Labels of files, kept in the state of the gate. Called from threads that may wait.

use state::{FileKey, State};
use storage::{FileId, Kept, LabelRows, RowId};
use tokio::runtime::Handle;
use vocab::Label;

pub(super) struct Rows {
    state: State,
    runtime: Handle,
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Rows").finish_non_exhaustive()
    }
}

impl Rows {
    /// Needs a tokio runtime.
    pub(super) fn new(state: State) -> Self {
        Self {
            state,
            runtime: Handle::current(),
        }
    }
}

fn key(id: RowId) -> FileKey {
    FileKey {
        inode: id.file.inode,
        birth: id.file.birth,
        is_names: id.is_names,
    }
}

fn row(key: FileKey) -> RowId {
    let FileKey {
        inode,
        birth,
        is_names,
    } = key;
    RowId {
        file: FileId { inode, birth },
        is_names,
    }
}

fn said(error: state::StateError) -> String {
    error.to_string()
}

impl LabelRows for Rows {
    fn load(&self, volume: &str) -> Result<Kept, String> {
        let found = self.runtime.block_on(self.state.volume_labels(volume));
        let found = found.map_err(said)?;
        let rows = found.labels.into_iter();
        Ok(Kept {
            root: found.root.map(|(inode, birth)| FileId { inode, birth }),
            rows: rows.map(|(found, label)| (row(found), label)).collect(),
        })
    }

    fn settle(&self, volume: &str, root: FileId) -> Result<(), String> {
        let root = (root.inode, root.birth);
        let settled = self
            .runtime
            .block_on(self.state.settle_volume(volume, root));
        settled.map_err(said)
    }

    fn keep(&self, volume: &str, id: RowId, label: &Label) -> Result<(), String> {
        let kept = self.state.keep_file_label(volume, key(id), label);
        self.runtime.block_on(kept).map_err(said)
    }

    fn forget(&self, volume: &str, ids: &[FileId]) -> Result<(), String> {
        let files: Vec<(u64, u64)> = ids.iter().map(|id| (id.inode, id.birth)).collect();
        let forgotten = self.state.forget_files(volume, &files);
        self.runtime.block_on(forgotten).map_err(said)
    }
}
