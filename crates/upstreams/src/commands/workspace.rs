//! The directory that belongs to one caller, and what its files carry.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
};

use super::room::Room;

/// What belongs to one caller, and what the files in it carry.
///
/// **Invariant: what a workspace carries never falls.** A rise reads, joins and writes under one lock, so that of two commands which begin
/// at once neither takes back what the other wrote down. Tests `of_many_rises_at_once_none_is_lost`,
/// `what_a_workspace_carries_only_rises_and_outlives_the_process`.
#[derive(Debug, Clone)]
pub struct Workspace {
    pub(super) files: PathBuf,
    pub(super) mark: PathBuf,
    /// One for all workspaces: they rise seldom.
    pub(super) raising: Arc<Mutex<()>>,
    pub(super) room: Arc<Room>,
}

/// Where a command runs, and who counts what it writes.
#[derive(Debug, Clone, Copy)]
pub struct Directory<'a> {
    pub(super) files: &'a Path,
    /// `None`: somebody else counts.
    room: Option<&'a Room>,
}

impl<'a> Directory<'a> {
    /// A directory that has an owner who bounds it.
    #[must_use]
    pub const fn counted_elsewhere(files: &'a Path) -> Self {
        Self { files, room: None }
    }

    /// How much it holds.
    pub(super) async fn held(self) -> u64 {
        match self.room {
            Some(room) => room.held(self.files).await,
            None => 0,
        }
    }

    /// Returns what it holds when that is more than `most`.
    pub(super) async fn overflows(self, most: u64) -> u64 {
        match self.room {
            Some(room) => room.overflows(self.files, most).await,
            None => std::future::pending().await,
        }
    }

    pub(super) fn measure_soon(self) {
        if let Some(room) = self.room {
            room.measure_soon(self.files);
        }
    }
}

impl Workspace {
    /// Its files, counted.
    #[must_use]
    pub fn directory(&self) -> Directory<'_> {
        Directory {
            files: &self.files,
            room: Some(&self.room),
        }
    }

    /// Raises what the files carry to at least this, on the disk, before a command that carries it can write one. Returns what they carry.
    ///
    /// # Errors
    /// If it cannot be written down.
    pub async fn raise(&self, mark: vocab::Mark) -> std::io::Result<vocab::Mark> {
        // It waits for the disk, and no other call waits with it.
        let own = self.clone();
        tokio::task::spawn_blocking(move || own.raise_now(mark))
            .await
            .map_err(std::io::Error::other)?
    }

    fn raise_now(&self, mark: vocab::Mark) -> std::io::Result<vocab::Mark> {
        let _one_at_a_time = self.raising.lock().unwrap_or_else(PoisonError::into_inner);
        let before = self.carried()?;
        let raised = before.join(mark);
        if raised != before || !self.mark.exists() {
            let new = self.mark.with_extension("new");
            std::fs::write(&new, [b'0' + raised.pack()])?;
            std::fs::File::open(&new)?.sync_all()?;
            std::fs::rename(&new, &self.mark)?;
            if let Some(directory) = self.mark.parent() {
                std::fs::File::open(directory)?.sync_all()?;
            }
        }
        Ok(raised)
    }

    /// What its files carry. A record that cannot be read carries the most there is.
    fn carried(&self) -> std::io::Result<vocab::Mark> {
        match std::fs::read(&self.mark) {
            Ok(text) => Ok(text
                .first()
                .and_then(|byte| byte.checked_sub(b'0'))
                .filter(|byte| *byte < 8)
                .map_or_else(|| vocab::Mark::unpack(0b111), vocab::Mark::unpack)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Ok(vocab::Mark::default())
            }
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::commands::{CommandSettings, Commands};
    use vocab::{Integrity, Level, Mark};

    #[test]
    fn what_a_workspace_carries_only_rises_and_outlives_the_process() {
        let place = tempfile::tempdir().unwrap();
        let commands = || {
            Commands::new(CommandSettings {
                workspaces: place.path().to_owned(),
                tools: Vec::new(),
            })
        };
        let high = Mark {
            secrecy: Level::Confidential,
            integrity: Integrity::Untrusted,
        };
        let low = Mark::trusted(Level::Public);
        let own = commands().workspace("alice").unwrap();
        assert_eq!(own.raise_now(low).unwrap(), low);
        assert_eq!(own.raise_now(high).unwrap(), high);
        assert_eq!(
            commands()
                .workspace("alice")
                .unwrap()
                .raise_now(low)
                .unwrap(),
            high
        );
        assert_eq!(
            commands().workspace("bob").unwrap().raise_now(low).unwrap(),
            low
        );
        std::fs::write(&own.mark, "?").unwrap();
        assert_eq!(
            own.raise_now(low).unwrap(),
            Mark::unpack(0b111),
            "what is damaged carries the most"
        );
    }

    #[test]
    fn of_many_rises_at_once_none_is_lost() {
        let place = tempfile::tempdir().unwrap();
        let commands = Commands::new(CommandSettings {
            workspaces: place.path().to_owned(),
            tools: Vec::new(),
        });
        let secret = Mark::trusted(Level::Restricted);
        let untrusted = Mark {
            secrecy: Level::Public,
            integrity: Integrity::Untrusted,
        };
        for round in 0..200 {
            let own = commands.workspace(&format!("caller {round}")).unwrap();
            std::thread::scope(|scope| {
                for mark in [secret, untrusted] {
                    let own = &own;
                    scope.spawn(move || own.raise_now(mark).unwrap());
                }
            });
            assert_eq!(own.carried().unwrap(), secret.join(untrusted), "{round}");
        }
    }
}
