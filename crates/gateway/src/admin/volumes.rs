//! Volumes for operators. What changes a file is on record first, and what an operator writes has no label but the volume's floor.

use std::sync::Arc;

use api::{Kind, Problem};
use base64::{Engine as _, engine::general_purpose::STANDARD};
use storage::{
    Access, DeleteOptions, ErrorKind, FileError, Labelled, ListOptions, Volume, VolumePath,
    WriteOptions,
};
use vocab::{Integrity, Label, Level, Mark};

use super::Admin;
use crate::{Caller, problem, volumes::Held};

/// Entries that one list has.
const MOST: usize = 10_000;

impl Admin {
    /// The volumes, and what is in them.
    pub async fn volumes(&self) -> Result<Vec<api::Volume>, Problem> {
        let gate = Arc::clone(self.gate.inner());
        let look = move || {
            let set = Arc::clone(&gate.now().volumes);
            let each = set.all().iter().map(|held| {
                let looked = gate.volumes.with(&set, held, |volume| {
                    (volume.used(), volume.floor().mark, volume.abilities())
                });
                shown(held, looked)
            });
            each.collect()
        };
        let looked = self.gate.inner().readers.run(look).await;
        let mut volumes: Vec<api::Volume> = looked.map_err(Problem::broken)?;
        for volume in &mut volumes {
            volume.attached = self.attachments(&volume.name);
        }
        Ok(volumes)
    }

    /// What is in a directory of a volume.
    pub async fn volume_entries(
        &self,
        name: &str,
        place: &api::VolumePlace,
    ) -> Result<Vec<api::VolumeEntry>, Problem> {
        let path = parsed(&place.path)?;
        let listed = self.on_volume(name, move |volume, access| {
            let options = ListOptions {
                details: true,
                limit: MOST,
                ..ListOptions::default()
            };
            volume.list(access, &path, &options)
        });
        let entries = listed.await?.0.entries.into_iter();
        Ok(entries
            .map(|entry| api::VolumeEntry {
                name: entry.path,
                kind: entry.stat.kind.as_str().to_owned(),
                size_bytes: entry.stat.size,
                modified_ms: entry.stat.modified_ns / 1_000_000,
                label: entry.label.mark.to_string(),
            })
            .collect())
    }

    /// A file of a volume.
    pub async fn volume_content(
        &self,
        caller: &Caller,
        name: &str,
        place: &api::VolumePlace,
    ) -> Result<api::VolumeContent, Problem> {
        let path = parsed(&place.path)?;
        self.record_on("volume.read", caller, name, &place.path)?;
        let read = self.on_volume(name, move |volume, access| volume.content(access, &path));
        let (content, label) = read.await?;
        Ok(api::VolumeContent {
            content: STANDARD.encode(content),
            label: label.mark.to_string(),
        })
    }

    /// Writes a file to a volume.
    pub async fn put_on_volume(
        &self,
        caller: &Caller,
        name: &str,
        file: &api::VolumeFile,
    ) -> Result<String, Problem> {
        let path = parsed(&file.path)?;
        let content = STANDARD
            .decode(&file.content)
            .map_err(|_| Problem::invalid("`content` is not Base64"))?;
        self.record_on("volume.put", caller, name, &file.path)?;
        let written = self.on_volume(name, move |volume, access| {
            volume.write(access, &path, &content, WriteOptions::default())
        });
        Ok(format!("wrote {} bytes", written.await?.0.bytes_written))
    }

    /// Deletes something from a volume.
    pub async fn remove_from_volume(
        &self,
        caller: &Caller,
        name: &str,
        removal: &api::VolumeRemoval,
    ) -> Result<String, Problem> {
        let path = parsed(&removal.path)?;
        let options = DeleteOptions {
            recursive: removal.recursive,
            if_version: None,
        };
        self.record_on("volume.removed", caller, name, &removal.path)?;
        let deleted = self.on_volume(name, move |volume, access| {
            volume.delete(access, &path, options)
        });
        Ok(format!("deleted {} entries", deleted.await?.0.entries))
    }

    /// Raises the label of something on a volume.
    pub async fn label_on_volume(
        &self,
        caller: &Caller,
        name: &str,
        label: &api::VolumeLabel,
    ) -> Result<String, Problem> {
        let path = parsed(&label.path)?;
        let level: Level = label.level.parse().map_err(|_| {
            Problem::invalid("`level` is PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED")
        })?;
        let integrity = if label.untrusted {
            Integrity::Untrusted
        } else {
            Integrity::Trusted
        };
        let raised = Label {
            mark: Mark {
                secrecy: level,
                integrity,
            },
            ..Label::default()
        };
        let about = format!("{} {}", label.path, raised.mark);
        self.record_on("volume.labelled", caller, name, &about)?;
        let done = self.on_volume(name, move |volume, access| {
            volume.raise(access, &path, &raised)
        });
        Ok(format!("{} is {} now", label.path, done.await?.0.mark))
    }

    fn record_on(
        &self,
        action: &str,
        caller: &Caller,
        volume: &str,
        what: &str,
    ) -> Result<(), Problem> {
        let detail = format!("{volume}: {}", audit::printable(what));
        let change = audit::Change {
            action,
            caller: caller.id(),
            detail: &detail,
            ..audit::Change::default()
        };
        let written = self.gate.ledger().change(&change);
        written.map(drop).map_err(|error| problem::ledger(&error))
    }

    async fn on_volume<T: Send + 'static>(
        &self,
        name: &str,
        run: impl FnOnce(&Volume, Access<'_>) -> Labelled<T> + Send + 'static,
    ) -> Result<(T, Label), Problem> {
        let gate = Arc::clone(self.gate.inner());
        let set = Arc::clone(&gate.now().volumes);
        let held = set.named(name).cloned();
        let held = held.ok_or_else(|| {
            let text = format!("there is no volume `{name}`");
            Problem::new(Kind::NotFound, "no_such_volume", text)
        })?;
        let work = move || {
            let label = Label::default();
            let access = Access {
                label: &label,
                may: &|_| true,
            };
            gate.volumes.with(&set, &held, |volume| run(volume, access))
        };
        let done = self.gate.inner().readers.run(work).await;
        let Labelled { result, label } = done
            .map_err(Problem::broken)?
            .map_err(|why| Problem::new(Kind::Conflict, "volume_unusable", why))?;
        result
            .map(|value| (value, label))
            .map_err(|error| told(&error))
    }
}

fn parsed(path: &str) -> Result<VolumePath, Problem> {
    let names = path
        .split('/')
        .filter(|name| !name.is_empty() && *name != ".");
    VolumePath::from_names(names.map(str::to_owned).collect()).map_err(|error| told(&error))
}

fn told(error: &FileError) -> Problem {
    let (kind, code) = match error.kind {
        ErrorKind::NotFound => (Kind::NotFound, "no_such_file"),
        ErrorKind::Invalid | ErrorKind::Traversal => return Problem::invalid(error.says.clone()),
        ErrorKind::Broken => return Problem::storage("volume_broken", error.says.clone()),
        ErrorKind::QuotaExceeded { .. } => return Problem::full(&error.says),
        _ => (Kind::Conflict, "not_possible"),
    };
    Problem::new(kind, code, error.says.clone())
}

fn shown(
    held: &Held,
    looked: Result<(storage::Used, Mark, storage::Abilities), String>,
) -> api::Volume {
    let spec = &held.entry.spec;
    let mut volume = api::Volume {
        name: spec.name.clone(),
        mount: held.mount(),
        root: spec.root.to_string_lossy().into_owned(),
        classification: spec.ceiling.to_string(),
        floor: spec.floor.mark.to_string(),
        writable: spec.is_writable,
        max_bytes: spec.max_bytes,
        max_files: spec.max_files,
        ..api::Volume::default()
    };
    match looked {
        Ok((used, floor, abilities)) => {
            volume.used_bytes = used.bytes;
            volume.used_files = used.files;
            volume.floor = floor.to_string();
            volume.sees_conflicts = abilities.sees_conflicts;
        }
        Err(why) => volume.error = Some(why),
    }
    volume
}
