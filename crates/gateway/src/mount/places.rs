//! Where files lie that were named to who mounted a volume: each by the directory that it is in and its name there.
//!
//! Nothing rests on it but time: whatever is found here is looked at again, and where it is wrong the volume is walked.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use storage::{FileId, Lies, VolumePath};

/// Places that are remembered. Beyond, all are forgotten and found again.
const MOST: usize = 1_000_000;
/// A volume is not walked again sooner: handles of files that are gone would have it walked all the time.
const BETWEEN: Duration = Duration::from_secs(1);
/// Deeper than this no path leads.
const DEEPEST: usize = 100;

#[derive(Debug, Default)]
pub(super) struct Places {
    of: HashMap<FileId, (FileId, String)>,
    walked: Option<Instant>,
}

impl Places {
    /// The path to a file, as far as is known.
    pub(super) fn path(&self, id: FileId, root: FileId) -> Option<VolumePath> {
        let mut names = Vec::new();
        let mut at = id;
        while at != root {
            if names.len() >= DEEPEST {
                return None;
            }
            let (above, name) = self.of.get(&at)?;
            names.push(name.clone());
            at = *above;
        }
        names.reverse();
        VolumePath::from_names(names).ok()
    }

    pub(super) fn note(&mut self, (id, above, name): Lies) {
        if self.of.len() >= MOST {
            self.of.clear();
        }
        self.of.insert(id, (above, name));
    }

    pub(super) fn note_all(&mut self, all: Vec<Lies>) {
        self.of.clear();
        for lies in all {
            self.note(lies);
        }
    }

    /// Whether the volume may be walked now.
    pub(super) fn may_walk(&mut self, now: Instant) -> bool {
        let may = self
            .walked
            .is_none_or(|before| now.duration_since(before) >= BETWEEN);
        if may {
            self.walked = Some(now);
        }
        may
    }
}
