//! Labels of files on volumes, and the root they are for. `storage` says what they mean.
//!
//! **Invariant: the label of a file only rises.** A file is known by its inode and the moment of its birth. Only where a disk tells no
//! births may another file have the number, and then its label takes the place of the one before. The schema holds it too. Test
//! `the_label_of_a_file_only_rises`.

use vocab::Label;

use crate::{State, StateError};

/// A file, or the names in a directory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileKey {
    pub inode: u64,
    /// When it was made; 0 where the disk does not tell.
    pub birth: u64,
    /// The names in a directory, instead of the file or directory itself.
    pub is_names: bool,
}

/// What is known of the files of one volume.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct VolumeLabels {
    /// Inode and birth of the root.
    pub root: Option<(u64, u64)>,
    /// In the order of their keys.
    pub labels: Vec<(FileKey, Label)>,
}

impl State {
    pub async fn volume_labels(&self, volume: &str) -> Result<VolumeLabels, StateError> {
        self.0.store.volume_labels(volume).await
    }

    /// The labels of a volume are for this root from now on.
    pub async fn settle_volume(&self, volume: &str, root: (u64, u64)) -> Result<(), StateError> {
        self.0.store.settle_volume(volume, root).await
    }

    /// Durable when it returns.
    pub async fn keep_file_label(
        &self,
        volume: &str,
        key: FileKey,
        label: &Label,
    ) -> Result<(), StateError> {
        let store = &self.0.store;
        if key.birth == 0 {
            store.replace_file_label(volume, key, label).await
        } else {
            store.raise_file_label(volume, key, label).await
        }
    }

    /// These files, by inode and birth, are gone.
    pub async fn forget_files(&self, volume: &str, files: &[(u64, u64)]) -> Result<(), StateError> {
        self.0.store.forget_files(volume, files).await
    }
}
