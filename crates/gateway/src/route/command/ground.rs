//! Where a command runs: the caller's own workspace, or a volume that it shares with the tools for files.
//!
//! **Invariant: what a command writes on a volume carries what it could have read there.** The volume has one label, raised to the caller's
//! before the command starts. Test `a_command_on_a_volume_carries_and_leaves_the_label_of_the_volume`.

use std::{io, sync::Arc, time::Duration};

use storage::{FileError, Volume};
use upstreams::commands::{Directory, Workspace};
use vocab::{Fault, FaultKind, Integrity, Label, Mark, Rule, Stop, Violation};

use crate::{
    call::Case,
    gate::Inner,
    volumes::{Held, VolumeSet},
};

/// How often a volume is counted while a command runs in it.
const COUNTED: Duration = Duration::from_secs(2);

pub(super) enum Ground {
    Own(Workspace),
    Volume {
        gate: Arc<Inner>,
        set: Arc<VolumeSet>,
        held: Arc<Held>,
    },
}

impl Ground {
    pub(super) fn of(case: Case<'_>) -> Result<Self, Stop> {
        let caller = &case.request.caller;
        if let Some(held) = case.now.volumes.for_commands(caller) {
            return Ok(Self::Volume {
                gate: Arc::clone(case.gate),
                set: Arc::clone(&case.now.volumes),
                held: Arc::clone(held),
            });
        }
        let own = case.gate.commands.workspace(caller.id());
        Ok(Self::Own(own.map_err(broken)?))
    }

    pub(super) fn directory(&self) -> Directory<'_> {
        match self {
            Self::Own(workspace) => workspace.directory(),
            Self::Volume { held, .. } => Directory::counted_elsewhere(&held.entry.spec.root),
        }
    }

    /// Raises what the files carry to at least this, durably, and this to what they carry.
    pub(super) async fn raise(&self, label: &mut Label) -> Result<(), Stop> {
        match self {
            Self::Own(workspace) => {
                label.mark = workspace.raise(label.mark).await.map_err(broken)?;
            }
            Self::Volume { .. } => {
                let given = label.clone();
                let begun = self.on_volume(move |volume| volume.begin_command(&given));
                let seen = begun.await.map_err(broken)?.map_err(|error| {
                    let violation = Violation::new(Rule::WouldViolateWriteDown, error.says);
                    Stop::from(violation)
                })?;
                label.join_in(&seen);
            }
        }
        Ok(())
    }

    /// The same once the command has ended. A volume that a reload has replaced meanwhile cannot be asked; then it held the most it may.
    pub(super) async fn raise_after(&self, label: &mut Label) -> io::Result<()> {
        let held = match self {
            Self::Own(workspace) => {
                label.mark = workspace.raise(label.mark).await?;
                return Ok(());
            }
            Self::Volume { held, .. } => held,
        };
        let seen = self.on_volume(|volume| {
            if let Err(error) = volume.is_overfull() {
                tracing::warn!(%error, "a volume cannot be counted");
            }
            Ok(volume.floor())
        });
        let seen = seen.await.and_then(|seen| seen.map_err(|error| error.says));
        label.join_in(&seen.unwrap_or_else(|_| Label {
            mark: Mark {
                secrecy: held.entry.spec.ceiling,
                integrity: Integrity::Untrusted,
            },
            ..Label::default()
        }));
        Ok(())
    }

    /// Returns when far more is in the volume than may be, or nobody can say how much there is.
    pub(super) async fn overflows(&self) {
        loop {
            tokio::time::sleep(COUNTED).await;
            let is_bounded = match self {
                Self::Own(_) => false,
                Self::Volume { held, .. } => {
                    held.entry.spec.max_bytes.is_some() || held.entry.spec.max_files.is_some()
                }
            };
            if is_bounded && !matches!(self.on_volume(Volume::is_overfull).await, Ok(Ok(false))) {
                return;
            }
        }
    }

    async fn on_volume<T: Send + 'static>(
        &self,
        run: impl FnOnce(&Volume) -> Result<T, FileError> + Send + 'static,
    ) -> Result<Result<T, FileError>, String> {
        let Self::Volume { gate, set, held } = self else {
            return Err("this is no volume".to_owned());
        };
        let (gate, set, held) = (Arc::clone(gate), Arc::clone(set), Arc::clone(held));
        let done = tokio::task::spawn_blocking(move || gate.volumes.with(&set, &held, run));
        done.await.map_err(|error| error.to_string())?
    }
}

fn broken(error: impl std::fmt::Display) -> Stop {
    let detail = format!("the workspace cannot be used: {error}");
    Fault::new(FaultKind::Gate, detail).into()
}
