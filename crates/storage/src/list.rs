//! Listing directories, and looking at one thing.

use std::os::fd::AsFd;

use vocab::Label;

use crate::{
    Access, FileError, FileId, Labelled, RowId, Stat, Volume, VolumePath, beneath::Last, dirs,
    path::is_own, survey::beneath,
};

/// How deep one listing goes.
const MAX_DEPTH: u32 = 5;
/// How many entries one listing gives where nobody said.
pub const ENTRIES: usize = 1_000;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOptions {
    pub depth: u32,
    /// With size, time, version and label of each.
    pub details: bool,
    pub limit: usize,
    /// Only what comes after this path.
    pub after: Option<String>,
}

impl Default for ListOptions {
    fn default() -> Self {
        Self {
            depth: 1,
            details: false,
            limit: ENTRIES,
            after: None,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// From the listed directory on.
    pub path: String,
    pub stat: Stat,
    /// Whether a tool can name it: it is valid text without control characters.
    pub is_addressable: bool,
    pub label: Label,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed {
    /// By name, a directory before what is in it.
    pub entries: Vec<Entry>,
    /// Where to go on.
    pub next: Option<String>,
}

impl Volume {
    pub fn list(
        &self,
        access: Access<'_>,
        path: &VolumePath,
        options: &ListOptions,
    ) -> Labelled<Listed> {
        self.labelled(|seen| {
            let found = self.find(access, path, true, seen)?;
            let directory = found.directory(path)?;
            let mut listing = Listing {
                volume: self,
                access,
                base: found.path(),
                options,
                entries: Vec::new(),
                is_full: false,
            };
            let depth = options.depth.clamp(1, MAX_DEPTH);
            listing.fill(
                (directory.handle.as_fd(), directory.stat.id),
                "",
                depth,
                seen,
            )?;
            let next = listing
                .entries
                .last()
                .filter(|_| listing.is_full)
                .map(|last| last.path.clone());
            Ok(Listed {
                entries: listing.entries,
                next,
            })
        })
    }

    /// What is at a place. A link is followed.
    pub fn stat(&self, access: Access<'_>, path: &VolumePath) -> Labelled<Entry> {
        self.labelled(|seen| {
            let found = self.find(access, path, true, seen)?;
            let stat = match &found.last {
                Last::Missing(_) => return Err(FileError::not_found(path)),
                Last::Entry { stat, .. } => *stat,
                Last::Directory => found.parent().stat,
            };
            Ok(Entry {
                path: path.to_string(),
                stat,
                is_addressable: true,
                label: self.labels.of(stat.id),
            })
        })
    }
}

struct Listing<'a> {
    volume: &'a Volume,
    access: Access<'a>,
    /// Where it began, in the volume.
    base: VolumePath,
    options: &'a ListOptions,
    entries: Vec<Entry>,
    is_full: bool,
}

impl Listing<'_> {
    fn fill(
        &mut self,
        (directory, id): (std::os::fd::BorrowedFd<'_>, FileId),
        above: &str,
        depth: u32,
        seen: &mut Label,
    ) -> Result<(), FileError> {
        let volume = self.volume;
        volume.labels.join_of(RowId::names(id), seen);
        let mut names = dirs::names(&volume.root, directory)?;
        names.sort_unstable();
        for name in names {
            if is_own(name.as_encoded_bytes()) {
                continue;
            }
            let Ok(Some((handle, stat))) = volume.root.look(directory, &name) else {
                continue;
            };
            let text = name.to_string_lossy();
            let path = format!("{above}{text}");
            let is_before = self
                .options
                .after
                .as_deref()
                .is_some_and(|after| path.split('/').le(after.split('/')));
            let names: Vec<String> = path.split('/').map(str::to_owned).collect();
            if !is_before && (self.access.may)(&beneath(&self.base, &names)) {
                if self.entries.len() >= self.options.limit {
                    self.is_full = true;
                    return Ok(());
                }
                if self.options.details {
                    // Sizes and times are whoever wrote it last.
                    volume.labels.join_of(RowId::own(stat.id), seen);
                }
                let is_text = name
                    .to_str()
                    .is_some_and(|name| !name.chars().any(char::is_control));
                self.entries.push(Entry {
                    path: path.clone(),
                    stat,
                    is_addressable: is_text,
                    label: volume.labels.of(stat.id),
                });
            }
            if stat.is_directory() && depth > 1 {
                volume.labels.join_of(RowId::own(stat.id), seen);
                self.fill(
                    (handle.as_fd(), stat.id),
                    &format!("{path}/"),
                    depth - 1,
                    seen,
                )?;
            }
        }
        Ok(())
    }
}
