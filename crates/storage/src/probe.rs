//! What the disk beneath a volume can do, found out by trying.

use std::{ffi::OsStr, os::fd::AsFd};

use rustix::{
    fs::{AtFlags, Mode, OFlags, RenameFlags, renameat_with, unlinkat},
    io::Errno,
};

use crate::{FileError, Stat, Volume};

/// Shown to operators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// Whether a file can be exchanged for another in one step. Without, a foreign hand's change in the wrong moment may go unseen.
    pub sees_conflicts: bool,
    /// Whether a file can be told from a later one with its number.
    pub knows_birth: bool,
    /// Whether other spellings of a name are the same name.
    pub folds_case: bool,
}

impl Default for Abilities {
    fn default() -> Self {
        Self {
            sees_conflicts: true,
            knows_birth: true,
            folds_case: false,
        }
    }
}

pub(crate) fn probe(volume: &Volume) -> Result<Abilities, FileError> {
    let knows_birth = volume.root.stat.id.birth != 0;
    if !volume.spec.is_writable {
        return Ok(Abilities {
            knows_birth,
            ..Abilities::default()
        });
    }
    let found = volume.find_root()?;
    let directory = &found.parent().handle;
    let (one, two) = (volume.own_name() + "probe", volume.own_name() + "probe");
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL;
    let make = |name: &str| -> Result<Stat, FileError> {
        let made = volume
            .root
            .open_name(
                directory.as_fd(),
                OsStr::new(name),
                flags,
                Mode::RUSR | Mode::WUSR,
            )
            .map_err(|error| FileError::broken("the volume cannot be written to", error))?;
        Stat::of(&made)
    };
    let made = make(&one)?;
    make(&two)?;
    let exchanged = renameat_with(directory, &one, directory, &two, RenameFlags::EXCHANGE);
    let folded = volume
        .root
        .look(directory.as_fd(), OsStr::new(&one.to_ascii_uppercase()))?;
    for name in [&one, &two] {
        let _swept_at_the_next_attach = unlinkat(directory, name, AtFlags::empty());
    }
    Ok(Abilities {
        sees_conflicts: !matches!(exchanged, Err(Errno::INVAL | Errno::NOSYS)),
        knows_birth: made.id.birth != 0,
        folds_case: folded.is_some(),
    })
}
