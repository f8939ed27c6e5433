//! What a file system does, one after the other.

use std::{
    collections::hash_map::DefaultHasher,
    hash::{Hash, Hasher},
    time::Instant,
};

use storage::{Adjustment, FileId, Kind, LONGEST, Labelled, Spot, Stat, VolumePath};
use wire::write::Object;

use super::{At, Handle, Mount, MountError, locked, told};

/// Files whose making is remembered, so that a client that did not hear of it may ask again.
const MOST_MADE: usize = 4096;
/// The longest name.
const LONGEST_NAME: usize = 255;
/// Cookies below are those of `.` and `..`.
const FIRST_COOKIE: u64 = 3;

/// What a file is, to who mounted it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attributes {
    pub kind: Kind,
    pub executable: bool,
    pub names: u32,
    pub size: u64,
    pub used: u64,
    /// Tells volumes from one another.
    pub volume: u64,
    pub file: u64,
    pub modified_ns: u64,
    pub changed_ns: u64,
}

/// How a file is to be made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Creation {
    /// One that is there is as good; cut to this size if it says one.
    Any { size: Option<u64> },
    /// Only if there is none.
    New,
    /// Only if there is none, or it was made by the same request.
    Exclusive([u8; 8]),
}

/// A name in a directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    pub name: String,
    pub file: u64,
    /// Names that come after this one have a greater cookie, whatever goes or comes meanwhile.
    pub cookie: u64,
    /// Where telling it tells nothing new.
    pub known: Option<(Handle, Attributes)>,
}

/// How full a volume is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    pub bytes: u64,
    pub free_bytes: u64,
    pub files: u64,
    pub free_files: u64,
}

/// A name, and what is there, if anything.
struct Place {
    shown: String,
    name: String,
    there: Option<Stat>,
    directory: FileId,
}

fn named(name: &[u8]) -> Result<String, MountError> {
    if name.len() > LONGEST_NAME {
        return Err(MountError::NameTooLong);
    }
    let name = std::str::from_utf8(name).map_err(|_| MountError::Invalid)?;
    match name {
        "" | "." | ".." => Err(MountError::Invalid),
        name => Ok(name.to_owned()),
    }
}

/// The same for the same name in every run of one gate's build; two names of a directory hardly ever share one.
fn cookie(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    (hasher.finish() >> 1).max(FIRST_COOKIE)
}

impl Mount {
    fn attributes(&self, handle: &[u8], stat: &Stat) -> Attributes {
        let volume = handle.get(16..24).and_then(|part| part.try_into().ok());
        Attributes {
            kind: stat.kind,
            executable: stat.mode & 0o111 != 0,
            names: stat.names,
            size: stat.size,
            used: stat.allocated,
            volume: volume.map_or(0, u64::from_be_bytes),
            file: stat.id.inode,
            modified_ns: stat.modified_ns,
            changed_ns: stat.changed_ns,
        }
    }

    /// What a handle names.
    pub async fn look(&self, handle: &[u8]) -> Result<Attributes, MountError> {
        let stat = self.on(handle, "fs.read", |at| told(at.stat)).await?;
        Ok(self.attributes(handle, &stat))
    }

    /// A name in a directory.
    pub async fn lookup(
        &self,
        directory: &[u8],
        name: &[u8],
    ) -> Result<(Handle, Attributes), MountError> {
        let above = match name {
            b"." => Some(0),
            b".." => Some(1),
            _ => None,
        };
        let name = match above {
            Some(_) => String::new(),
            None => named(name)?,
        };
        let stat = self.on(directory, "fs.read", move |at| {
            if let Some(steps) = above {
                return upwards(at, steps);
            }
            let inner = match at.inner(&name) {
                Ok(inner) => inner,
                Err(error) => return failed(error),
            };
            at.tells_of(&inner);
            if !(at.access.may)(&inner) {
                let says = format!("there is no `{inner}`");
                return failed(storage::FileError::new(storage::ErrorKind::NotFound, says));
            }
            let found = at.volume.node(at.access, &inner);
            if let Ok(stat) = &found.result {
                at.note(stat.id, &name);
            }
            found
        });
        let stat = stat.await.map_err(|error| match error {
            // A name that no file can have is not there.
            MountError::Invalid => MountError::NotFound,
            error => error,
        })?;
        let (export, _) = self.named(directory)?;
        Ok((
            self.handle(&export, stat.id),
            self.attributes(directory, &stat),
        ))
    }

    /// Whether the file may be changed, as far as can be said without trying.
    pub async fn may_change(&self, handle: &[u8]) -> Result<(Attributes, bool), MountError> {
        let (stat, may) = self
            .on(handle, "fs.read", |at| {
                let spec = at.volume.spec();
                let fits = at.access.label.mark.secrecy <= spec.ceiling;
                told((at.stat, spec.is_writable && fits))
            })
            .await?;
        Ok((self.attributes(handle, &stat), may))
    }

    pub async fn read_link(&self, handle: &[u8]) -> Result<(Vec<u8>, Attributes), MountError> {
        let read = self.on(handle, "fs.read", |at| {
            at.volume.link_text(at.access, spot(at)).also(at.stat)
        });
        let (text, stat) = read.await?;
        Ok((text, self.attributes(handle, &stat)))
    }

    /// A part of a file, and whether it ends there.
    pub async fn read(
        &self,
        handle: &[u8],
        offset: u64,
        most: usize,
    ) -> Result<(Vec<u8>, bool, Attributes), MountError> {
        self.open(handle, "fs.read").await?;
        let read = self.on(handle, "fs.read", move |at| {
            if at.stat.kind == Kind::Directory {
                return failed(wrong_type(at));
            }
            at.volume.read_part(at.access, spot(at), offset, most)
        });
        let (content, stat) = read.await?;
        let end = offset.saturating_add(content.len() as u64);
        Ok((content, end >= stat.size, self.attributes(handle, &stat)))
    }

    pub async fn write(
        &self,
        handle: &[u8],
        offset: u64,
        content: Vec<u8>,
        syncs: bool,
    ) -> Result<Attributes, MountError> {
        self.open(handle, "fs.write").await?;
        let written = self.on(handle, "fs.write", move |at| {
            at.volume
                .write_part(at.access, spot(at), offset, &content, syncs)
        });
        let stat = written.await?;
        Ok(self.attributes(handle, &stat))
    }

    /// What was written survives a power cut.
    pub async fn commit(&self, handle: &[u8]) -> Result<Attributes, MountError> {
        let synced = self.on(handle, "fs.write", |at| {
            at.volume.sync_part(at.access, spot(at))
        });
        let stat = synced.await?;
        Ok(self.attributes(handle, &stat))
    }

    /// Changes what a file is. `guard`: only if it was changed last at this moment. What has no meaning here is taken and does nothing.
    pub async fn adjust(
        &self,
        handle: &[u8],
        adjustment: Adjustment,
        guard: Option<u64>,
    ) -> Result<Attributes, MountError> {
        let before = self.look(handle).await?;
        if guard.is_some_and(|guard| guard != before.changed_ns) {
            return Err(MountError::NotInSync);
        }
        let is_nothing = adjustment.size.is_none()
            && adjustment.executable.is_none()
            && adjustment.modified_ns.is_none();
        if before.kind != Kind::File || is_nothing {
            return match adjustment.size {
                Some(_) => Err(MountError::IsDirectory),
                None => Ok(before),
            };
        }
        if adjustment.size.is_some_and(|size| size > LONGEST) {
            return Err(MountError::TooLarge);
        }
        self.open(handle, "fs.write").await?;
        let adjusted = self.on(handle, "fs.write", move |at| {
            at.volume.adjust(at.access, spot(at), adjustment)
        });
        let stat = adjusted.await?;
        Ok(self.attributes(handle, &stat))
    }

    /// What a name in a directory stands for, before something is done to it.
    async fn place(
        &self,
        directory: &[u8],
        name: &[u8],
        tool: &'static str,
    ) -> Result<Place, MountError> {
        let name = named(name)?;
        self.on(directory, tool, move |at| {
            let inner = match at.inner(&name) {
                Ok(inner) => inner,
                Err(error) => return failed(error),
            };
            at.tells_of(&inner);
            let Labelled { result, label } = at.volume.node(at.access, &inner);
            let there = match result {
                Ok(stat) => Some(stat),
                Err(error) if error.kind == storage::ErrorKind::NotFound => None,
                Err(error) => {
                    let result = Err(error);
                    return Labelled { result, label };
                }
            };
            let place = Place {
                shown: at.shown(&inner),
                name: name.clone(),
                there,
                directory: at.stat.id,
            };
            Labelled {
                result: Ok(place),
                label,
            }
        })
        .await
    }

    pub async fn create(
        &self,
        directory: &[u8],
        name: &[u8],
        how: Creation,
        executable: bool,
    ) -> Result<(Handle, Attributes), MountError> {
        let place = self.place(directory, name, "fs.create").await?;
        if let Some(stat) = place.there {
            let is_same = match how {
                Creation::Any { .. } => stat.kind == Kind::File,
                Creation::New => false,
                Creation::Exclusive(verifier) => {
                    locked(&self.0.made).get(&stat.id) == Some(&verifier)
                }
            };
            if !is_same {
                return Err(MountError::Exists);
            }
            let (handle, attributes) = self.lookup(directory, name).await?;
            let Creation::Any { size: Some(size) } = how else {
                return Ok((handle, attributes));
            };
            let cut = Adjustment {
                size: Some(size),
                ..Adjustment::default()
            };
            return Ok((handle, self.adjust(&handle, cut, None).await?));
        }
        let mut arguments = Object::new();
        arguments
            .str("path", &place.shown)
            .str("content", "")
            .bool("executable", executable);
        self.ask("fs.create", arguments).await?;
        let (handle, attributes) = self.lookup(directory, name).await?;
        let (_, id) = self.named(&handle)?;
        if let Creation::Exclusive(verifier) = how {
            let mut made = locked(&self.0.made);
            if made.len() >= MOST_MADE {
                made.clear();
            }
            made.insert(id, verifier);
        }
        // Whoever makes a file writes to it: that was judged with its making.
        let until = Instant::now() + super::OPEN_FOR;
        let mut open = locked(&self.0.open);
        if open.len() < super::MOST_OPEN {
            open.insert((id, "fs.write"), until);
        }
        drop(open);
        Ok((handle, attributes))
    }

    pub async fn create_directory(
        &self,
        directory: &[u8],
        name: &[u8],
    ) -> Result<(Handle, Attributes), MountError> {
        let place = self.place(directory, name, "fs.create_dir").await?;
        if place.there.is_some() {
            return Err(MountError::Exists);
        }
        self.ask("fs.create_dir", path(&place.shown)).await?;
        self.lookup(directory, name).await
    }

    /// A link, whose text is data. It is judged as a file with that text would be.
    pub async fn create_link(
        &self,
        directory: &[u8],
        name: &[u8],
        text: &[u8],
    ) -> Result<(Handle, Attributes), MountError> {
        let place = self.place(directory, name, "fs.write").await?;
        if place.there.is_some() {
            return Err(MountError::Exists);
        }
        let shown = std::str::from_utf8(text).map_err(|_| MountError::Invalid)?;
        let mut arguments = path(&place.shown);
        arguments.str("content", shown);
        self.ask("fs.write", arguments).await?;
        let text = text.to_vec();
        let made = self.on(directory, "fs.write", move |at| {
            let inner = match at.inner(&place.name) {
                Ok(inner) => inner,
                Err(error) => return failed(error),
            };
            if !(at.access.may)(&inner) {
                let says = format!("`{inner}` is not for this caller");
                return failed(storage::FileError::new(
                    storage::ErrorKind::NotAllowed,
                    says,
                ));
            }
            at.volume.make_link(at.access, &inner, &text)
        });
        made.await?;
        self.lookup(directory, name).await
    }

    pub async fn remove(&self, directory: &[u8], name: &[u8]) -> Result<(), MountError> {
        let place = self.place(directory, name, "fs.delete").await?;
        match place.there.ok_or(MountError::NotFound)?.kind {
            Kind::Directory => return Err(MountError::IsDirectory),
            Kind::File | Kind::Link | Kind::Special(_) => {}
        }
        self.ask("fs.delete", path(&place.shown)).await
    }

    pub async fn remove_directory(&self, directory: &[u8], name: &[u8]) -> Result<(), MountError> {
        let place = self.place(directory, name, "fs.delete").await?;
        if place.there.ok_or(MountError::NotFound)?.kind != Kind::Directory {
            return Err(MountError::NotDirectory);
        }
        self.ask("fs.delete", path(&place.shown)).await
    }

    pub async fn rename(&self, from: (&[u8], &[u8]), to: (&[u8], &[u8])) -> Result<(), MountError> {
        let (source, goal) = (self.named(from.0)?.0, self.named(to.0)?.0);
        if source.volume != goal.volume {
            return Err(MountError::OtherVolume);
        }
        let here = self.place(from.0, from.1, "fs.move").await?;
        let there = self.place(to.0, to.1, "fs.move").await?;
        let stat = here.there.ok_or(MountError::NotFound)?;
        if let Some(old) = there.there {
            if old.id == stat.id {
                return Ok(());
            }
            match (stat.kind, old.kind) {
                (Kind::Directory, Kind::Directory) => {
                    // Only one that is empty makes way.
                    self.ask("fs.delete", path(&there.shown)).await?;
                }
                (Kind::Directory, _) => return Err(MountError::NotDirectory),
                (_, Kind::Directory) => return Err(MountError::IsDirectory),
                _ => {}
            }
        }
        let mut arguments = path(&here.shown);
        arguments
            .str("destination", &there.shown)
            .bool("overwrite", true);
        self.ask("fs.move", arguments).await?;
        locked(&goal.places).note((stat.id, there.directory, there.name));
        Ok(())
    }

    /// The names in a directory, by cookie.
    pub async fn list(&self, directory: &[u8]) -> Result<(Vec<Entry>, Attributes), MountError> {
        self.open(directory, "fs.list").await?;
        let listed = self.on(directory, "fs.list", |at| {
            let nodes = at.volume.nodes(at.access, &at.path);
            if let Ok(nodes) = &nodes.result {
                for node in nodes {
                    at.note(node.stat.id, &node.name);
                }
            }
            nodes.also(at.stat)
        });
        let (nodes, stat) = listed.await?;
        let (export, _) = self.named(directory)?;
        let mut entries: Vec<Entry> = nodes
            .into_iter()
            .map(|node| Entry {
                cookie: cookie(&node.name),
                file: node.stat.id.inode,
                known: node.is_within.then(|| {
                    let handle = self.handle(&export, node.stat.id);
                    (handle, self.attributes(directory, &node.stat))
                }),
                name: node.name,
            })
            .collect();
        entries.sort_unstable_by(|one, two| (one.cookie, &one.name).cmp(&(two.cookie, &two.name)));
        Ok((entries, self.attributes(directory, &stat)))
    }

    pub async fn space(&self, handle: &[u8]) -> Result<(Space, Attributes), MountError> {
        let found = self.on(handle, "fs.list", |at| {
            at.tells_of(&VolumePath::default());
            let (spec, used) = (at.volume.spec(), at.volume.used());
            let bytes = spec.max_bytes.unwrap_or(LONGEST);
            let files = spec.max_files.unwrap_or(u64::from(u32::MAX));
            let space = Space {
                bytes,
                free_bytes: bytes.saturating_sub(used.bytes),
                files,
                free_files: files.saturating_sub(used.files),
            };
            // How full it is tells of everything that was written to it: the floor, and what its names tell.
            let root = at.volume.nodes(at.access, &VolumePath::default());
            Labelled {
                result: root.result.map(|_| (space, at.stat)),
                label: root.label,
            }
        });
        let (space, stat) = found.await?;
        Ok((space, self.attributes(handle, &stat)))
    }
}

fn path(shown: &str) -> Object {
    let mut arguments = Object::new();
    arguments.str("path", shown);
    arguments
}

fn spot<'a>(at: &'a At<'_>) -> Spot<'a> {
    Spot {
        path: &at.path,
        id: at.stat.id,
    }
}

fn upwards(at: &At<'_>, steps: usize) -> Labelled<Stat> {
    let names = at.path.names();
    let kept = names.len().saturating_sub(steps);
    let above = names.get(..kept).unwrap_or_default().to_vec();
    match VolumePath::from_names(above) {
        Ok(above) => at.volume.node(at.access, &above),
        Err(error) => failed(error),
    }
}

fn wrong_type(at: &At<'_>) -> storage::FileError {
    let says = format!("`{}` is a directory", at.path);
    storage::FileError::new(storage::ErrorKind::WrongType, says)
}

fn failed<T>(error: storage::FileError) -> Labelled<T> {
    Labelled {
        result: Err(error),
        label: vocab::Label::default(),
    }
}

/// A result with something beside it that was known before.
trait Also<T> {
    fn also<B>(self, beside: B) -> Labelled<(T, B)>;
}

impl<T> Also<T> for Labelled<T> {
    fn also<B>(self, beside: B) -> Labelled<(T, B)> {
        Labelled {
            result: self.result.map(|value| (value, beside)),
            label: self.label,
        }
    }
}
