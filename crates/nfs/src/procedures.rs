//! The procedures of NFS version 3 (RFC 1813) and of its MOUNT protocol: arguments taken apart, results put together.

use gateway::{
    Mount,
    mount::{Adjustment, Attributes, Creation, Entry, Handle, Kind, MountError},
};

use crate::{
    MOST,
    rpc::{self, Asked, Head, Taken},
    xdr::{Garbage, Reader, Writer},
};

const NFS: u32 = 100_003;
const MOUNT: u32 = 100_005;
const VERSION: u32 = 3;
const LONGEST_HANDLE: usize = 64;
/// What a name and a path may have at most before the gate looks at them. Longer is told as too long, so there is room for that.
const LONGEST_NAME: usize = 4096;
const LONGEST_PATH: usize = 4096;
/// Every file belongs to whom the agents' containers run as, whoever asks.
const OWNER: u32 = 1000;
/// Handles of `.` and of `..` have the first two cookies.
const COOKIE_SELF: u64 = 1;
const COOKIE_ABOVE: u64 = 2;
const SECOND: u64 = 1_000_000_000;

/// Carries requests to a mount.
#[derive(Debug)]
pub(crate) struct Door {
    mount: Mount,
    /// Another one after each start, so that clients send again what may not have been kept.
    verifier: [u8; 8],
}

/// A result, or what a failure says besides its status.
type Said = Result<Writer, (MountError, Shape)>;

/// What stands behind the status of a failure.
#[derive(Debug, Clone, Copy)]
enum Shape {
    Nothing,
    /// No attributes.
    Attributes,
    /// No attributes before and after.
    Change,
    TwoChanges,
    AttributesAndChange,
}

impl Door {
    pub(crate) fn new(mount: Mount) -> Self {
        Self {
            verifier: mount.now_ns().to_be_bytes(),
            mount,
        }
    }

    /// The answer to one record; `None`: it is no request.
    pub(crate) async fn answer(&self, record: &[u8]) -> Option<Vec<u8>> {
        let mut reader = Reader::new(record);
        let head = match Asked::read(&mut reader).ok()? {
            Asked::Call(head) => head,
            Asked::OtherVersion(id) => return Some(rpc::other_version(id)),
        };
        let done = match (head.program, head.version) {
            (NFS, VERSION) => self.nfs(head, reader).await,
            (MOUNT, VERSION) => self.mounting(head, reader),
            (NFS | MOUNT, _) => Err(Taken::OtherVersion(VERSION, VERSION)),
            _ => Err(Taken::NoProgram),
        };
        Some(match done {
            Ok(body) => {
                let mut reply = rpc::reply(head.id, Taken::Done);
                reply.fixed(&body.finish());
                reply.finish()
            }
            Err(taken) => rpc::reply(head.id, taken).finish(),
        })
    }

    fn mounting(&self, head: Head, mut reader: Reader<'_>) -> Result<Writer, Taken> {
        let mut out = Writer::default();
        match head.procedure {
            // Null; and what is kept of mounts, which is nothing: one says so, two forget it.
            0 | 4 => {}
            2 => {
                out.flag(false);
            }
            1 => {
                let path = reader.bytes(LONGEST_PATH).map_err(|_| Taken::Garbage)?;
                let path = String::from_utf8_lossy(path);
                match self.mount.root(&path) {
                    // One way of saying who one is: none that counts.
                    Ok(handle) => {
                        out.u32(0).bytes(&handle).u32(2).u32(1).u32(0);
                    }
                    Err(MountError::NotFound) => {
                        out.u32(2);
                    }
                    Err(_) => {
                        out.u32(13);
                    }
                }
            }
            3 => {
                reader.bytes(LONGEST_PATH).map_err(|_| Taken::Garbage)?;
            }
            5 => {
                for path in self.mount.exports() {
                    out.flag(true).bytes(path.as_bytes()).flag(false);
                }
                out.flag(false);
            }
            _ => return Err(Taken::NoProcedure),
        }
        Ok(out)
    }

    async fn nfs(&self, head: Head, reader: Reader<'_>) -> Result<Writer, Taken> {
        let said = match head.procedure {
            0 => return Ok(Writer::default()),
            1 => self.get_attributes(reader).await,
            2 => self.set_attributes(reader).await,
            3 => self.lookup(reader).await,
            4 => self.access(reader).await,
            5 => self.read_link(reader).await,
            6 => self.read(reader).await,
            7 => self.write(reader).await,
            8 => self.create(reader).await,
            9 => self.make_directory(reader).await,
            10 => self.make_link(reader).await,
            11 => Ok(Err((MountError::NotSupported, Shape::Change))),
            12 => self.remove(reader).await,
            13 => self.remove_directory(reader).await,
            14 => self.rename(reader).await,
            15 => Ok(Err((MountError::NotSupported, Shape::AttributesAndChange))),
            16 => self.list(reader, false).await,
            17 => self.list(reader, true).await,
            18 => self.space(reader).await,
            19 => self.abilities(reader).await,
            20 => self.limits(reader).await,
            21 => self.commit(reader).await,
            _ => return Err(Taken::NoProcedure),
        };
        let said = said.map_err(|Garbage| Taken::Garbage)?;
        let mut out = Writer::default();
        match said {
            Ok(body) => {
                out.u32(0).fixed(&body.finish());
            }
            Err((error, shape)) => {
                out.u32(status(error));
                let zeros = match shape {
                    Shape::Nothing => 0,
                    Shape::Attributes => 1,
                    Shape::Change => 2,
                    Shape::AttributesAndChange => 3,
                    Shape::TwoChanges => 4,
                };
                for _ in 0..zeros {
                    out.flag(false);
                }
            }
        }
        Ok(out)
    }

    async fn get_attributes(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        let found = self.mount.look(handle).await;
        Ok(found
            .map(|found| body(|out| attributes(out, &found)))
            .map_err(|error| (error, Shape::Nothing)))
    }

    async fn set_attributes(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        let wanted = adjustment(&mut reader, self.mount.now_ns())?;
        let guard = reader.optional(time)?;
        let done = self.mount.adjust(handle, wanted, guard).await;
        Ok(done
            .map(|now| body(|out| change(out, Some(&now))))
            .map_err(|error| (error, Shape::Change)))
    }

    async fn lookup(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let (directory, name) = place(&mut reader)?;
        let found = self.mount.lookup(directory, name).await;
        Ok(found
            .map(|(handle, found)| {
                body(|out| {
                    out.bytes(&handle);
                    some_attributes(out, Some(&found));
                    some_attributes(out, None);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn access(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        /// Modify, extend, delete.
        const CHANGES: u32 = 4 | 8 | 16;
        let handle = handle(&mut reader)?;
        let wanted = reader.u32()?;
        let found = self.mount.may_change(handle).await;
        Ok(found
            .map(|(found, may_change)| {
                let may = if may_change { !0 } else { !CHANGES };
                body(|out| {
                    some_attributes(out, Some(&found));
                    out.u32(wanted & may & 0x3f);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn read_link(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        let read = self.mount.read_link(handle).await;
        Ok(read
            .map(|(text, found)| {
                body(|out| {
                    some_attributes(out, Some(&found));
                    out.bytes(&text);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn read(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        let (offset, count) = (reader.u64()?, reader.u32()?);
        let most = usize::try_from(count).unwrap_or(MOST).min(MOST);
        let read = self.mount.read(handle, offset, most).await;
        Ok(read
            .map(|(content, is_end, found)| {
                body(|out| {
                    some_attributes(out, Some(&found));
                    out.u32(u32::try_from(content.len()).unwrap_or(0));
                    out.flag(is_end).bytes(&content);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn write(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        const FILE_SYNC: u32 = 2;
        let handle = handle(&mut reader)?;
        let (offset, count, stable) = (reader.u64()?, reader.u32()?, reader.u32()?);
        let content = reader.bytes(MOST)?;
        if usize::try_from(count) != Ok(content.len()) || stable > FILE_SYNC {
            return Err(Garbage);
        }
        let written = self
            .mount
            .write(handle, offset, content.to_vec(), stable > 0)
            .await;
        Ok(written
            .map(|now| {
                body(|out| {
                    change(out, Some(&now));
                    let committed = if stable > 0 { FILE_SYNC } else { 0 };
                    out.u32(count).u32(committed).fixed(&self.verifier);
                })
            })
            .map_err(|error| (error, Shape::Change)))
    }

    async fn create(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let (directory, name) = place(&mut reader)?;
        let (how, wanted) = match reader.u32()? {
            0 => {
                let wanted = adjustment(&mut reader, self.mount.now_ns())?;
                (Creation::Any { size: wanted.size }, wanted)
            }
            1 => (Creation::New, adjustment(&mut reader, self.mount.now_ns())?),
            2 => (Creation::Exclusive(reader.fixed()?), Adjustment::default()),
            _ => return Err(Garbage),
        };
        let executable = wanted.executable.unwrap_or(false);
        let made = self.mount.create(directory, name, how, executable).await;
        Ok(new(made))
    }

    async fn make_directory(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let (directory, name) = place(&mut reader)?;
        adjustment(&mut reader, self.mount.now_ns())?;
        Ok(new(self.mount.create_directory(directory, name).await))
    }

    async fn make_link(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let (directory, name) = place(&mut reader)?;
        adjustment(&mut reader, self.mount.now_ns())?;
        let text = reader.bytes(LONGEST_PATH)?;
        Ok(new(self.mount.create_link(directory, name, text).await))
    }

    async fn remove(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let (directory, name) = place(&mut reader)?;
        Ok(changed(self.mount.remove(directory, name).await))
    }

    async fn remove_directory(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let (directory, name) = place(&mut reader)?;
        Ok(changed(self.mount.remove_directory(directory, name).await))
    }

    async fn rename(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let from = place(&mut reader)?;
        let to = place(&mut reader)?;
        let moved = self.mount.rename(from, to).await;
        Ok(moved
            .map(|()| {
                body(|out| {
                    change(out, None);
                    change(out, None);
                })
            })
            .map_err(|error| (error, Shape::TwoChanges)))
    }

    /// Names from a cookie on, as many as fit. `with_more`: with attributes and handles, where telling those tells nothing new.
    async fn list(&self, mut reader: Reader<'_>, with_more: bool) -> Result<Said, Garbage> {
        /// What stands before and after the entries.
        const AROUND: usize = 128;
        let directory = handle(&mut reader)?;
        let cookie = reader.u64()?;
        let _verifier: [u8; 8] = reader.fixed()?;
        let mut most = reader.u32()?;
        if with_more {
            most = reader.u32()?;
        }
        let most = usize::try_from(most).unwrap_or(MOST).min(MOST);
        let listed = self.mount.list(directory).await;
        let (entries, found) = match listed {
            Ok(listed) => listed,
            Err(error) => return Ok(Err((error, Shape::Attributes))),
        };
        let mut out = Writer::default();
        some_attributes(&mut out, Some(&found));
        out.u64(0);
        let dots = [(".", COOKIE_SELF), ("..", COOKIE_ABOVE)].map(|(name, cookie)| Entry {
            name: name.to_owned(),
            file: found.file,
            cookie,
            known: None,
        });
        let all = dots.iter().chain(&entries);
        let mut rest = all.filter(|entry| entry.cookie > cookie).peekable();
        let mut has_any = false;
        while let Some(entry) = rest.peek() {
            let mut one = Writer::default();
            write_entry(&mut one, entry, with_more);
            if out.len() + one.len() + AROUND > most {
                break;
            }
            out.fixed(&one.finish());
            has_any = true;
            rest.next();
        }
        let is_end = rest.peek().is_none();
        if !has_any && !is_end {
            return Ok(Err((MountError::TooLarge, Shape::Attributes)));
        }
        out.flag(false).flag(is_end);
        Ok(Ok(out))
    }

    async fn space(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        let found = self.mount.space(handle).await;
        Ok(found
            .map(|(space, found)| {
                body(|out| {
                    some_attributes(out, Some(&found));
                    out.u64(space.bytes).u64(space.free_bytes);
                    out.u64(space.free_bytes).u64(space.files);
                    out.u64(space.free_files).u64(space.free_files).u32(0);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn abilities(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        const PART: u32 = 1 << 20;
        /// Links with a text, the same abilities everywhere, times can be set.
        const PROPERTIES: u32 = 2 | 8 | 16;
        let handle = handle(&mut reader)?;
        // What it is, and nothing of what is there.
        Ok(self
            .mount
            .holds(handle)
            .map(|()| {
                body(|out| {
                    some_attributes(out, None);
                    out.u32(PART).u32(PART).u32(4096);
                    out.u32(PART).u32(PART).u32(4096).u32(1 << 16);
                    out.u64(1 << 43).u32(0).u32(1).u32(PROPERTIES);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn limits(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        Ok(self
            .mount
            .holds(handle)
            .map(|()| {
                body(|out| {
                    some_attributes(out, None);
                    out.u32(1).u32(255);
                    out.flag(true).flag(true).flag(false).flag(true);
                })
            })
            .map_err(|error| (error, Shape::Attributes)))
    }

    async fn commit(&self, mut reader: Reader<'_>) -> Result<Said, Garbage> {
        let handle = handle(&mut reader)?;
        let done = self.mount.commit(handle).await;
        Ok(done
            .map(|now| {
                body(|out| {
                    change(out, Some(&now));
                    out.fixed(&self.verifier);
                })
            })
            .map_err(|error| (error, Shape::Change)))
    }
}

fn body(fill: impl FnOnce(&mut Writer)) -> Writer {
    let mut out = Writer::default();
    fill(&mut out);
    out
}

/// The answer to whatever made something.
fn new(made: Result<(Handle, Attributes), MountError>) -> Said {
    made.map(|(handle, found)| {
        body(|out| {
            out.flag(true).bytes(&handle);
            some_attributes(out, Some(&found));
            change(out, None);
        })
    })
    .map_err(|error| (error, Shape::Change))
}

fn changed(done: Result<(), MountError>) -> Said {
    done.map(|()| body(|out| change(out, None)))
        .map_err(|error| (error, Shape::Change))
}

fn handle<'a>(reader: &mut Reader<'a>) -> Result<&'a [u8], Garbage> {
    reader.bytes(LONGEST_HANDLE)
}

fn place<'a>(reader: &mut Reader<'a>) -> Result<(&'a [u8], &'a [u8]), Garbage> {
    Ok((handle(reader)?, reader.bytes(LONGEST_NAME)?))
}

fn time(reader: &mut Reader<'_>) -> Result<u64, Garbage> {
    let (seconds, nanos) = (reader.u32()?, reader.u32()?);
    Ok(u64::from(seconds) * SECOND + u64::from(nanos))
}

/// What a client wants a file to be. Of the mode only whether it can be executed counts; owners do not.
fn adjustment(reader: &mut Reader<'_>, now_ns: u64) -> Result<Adjustment, Garbage> {
    let mode = reader.optional(Reader::u32)?;
    let _owner = reader.optional(Reader::u32)?;
    let _group = reader.optional(Reader::u32)?;
    let size = reader.optional(Reader::u64)?;
    let _accessed = set_time(reader, now_ns)?;
    let modified_ns = set_time(reader, now_ns)?;
    Ok(Adjustment {
        size,
        executable: mode.map(|mode| mode & 0o111 != 0),
        modified_ns,
    })
}

fn set_time(reader: &mut Reader<'_>, now_ns: u64) -> Result<Option<u64>, Garbage> {
    match reader.u32()? {
        0 => Ok(None),
        1 => Ok(Some(now_ns)),
        2 => time(reader).map(Some),
        _ => Err(Garbage),
    }
}

fn write_time(out: &mut Writer, ns: u64) {
    let seconds = u32::try_from(ns / SECOND).unwrap_or(u32::MAX);
    let nanos = u32::try_from(ns % SECOND).unwrap_or(0);
    out.u32(seconds).u32(nanos);
}

fn attributes(out: &mut Writer, found: &Attributes) {
    let (kind, mode) = match found.kind {
        Kind::Directory => (2, 0o755),
        Kind::Link => (5, 0o777),
        Kind::Special("pipe") => (7, 0o644),
        Kind::Special("socket") => (6, 0o644),
        Kind::Special(_) => (4, 0o644),
        Kind::File if found.executable => (1, 0o755),
        Kind::File => (1, 0o644),
    };
    out.u32(kind).u32(mode).u32(found.names);
    out.u32(OWNER).u32(OWNER);
    out.u64(found.size).u64(found.used).u32(0).u32(0);
    out.u64(found.volume).u64(found.file);
    write_time(out, found.modified_ns);
    write_time(out, found.modified_ns);
    write_time(out, found.changed_ns);
}

fn some_attributes(out: &mut Writer, found: Option<&Attributes>) {
    out.flag(found.is_some());
    if let Some(found) = found {
        attributes(out, found);
    }
}

/// A change, of which only what came out is told.
fn change(out: &mut Writer, now: Option<&Attributes>) {
    out.flag(false);
    some_attributes(out, now);
}

fn write_entry(out: &mut Writer, entry: &Entry, with_more: bool) {
    out.flag(true).u64(entry.file).bytes(entry.name.as_bytes());
    out.u64(entry.cookie);
    if with_more {
        let known = entry.known.as_ref();
        some_attributes(out, known.map(|(_, found)| found));
        out.flag(known.is_some());
        if let Some((handle, _)) = known {
            out.bytes(handle);
        }
    }
}

fn status(error: MountError) -> u32 {
    match error {
        MountError::NotFound => 2,
        MountError::Broken => 5,
        MountError::Denied => 13,
        MountError::Exists => 17,
        MountError::OtherVolume => 18,
        MountError::NotDirectory => 20,
        MountError::IsDirectory => 21,
        MountError::Invalid => 22,
        MountError::TooLarge => 27,
        MountError::NoSpace => 28,
        MountError::ReadOnly => 30,
        MountError::NameTooLong => 63,
        MountError::NotEmpty => 66,
        MountError::Stale => 70,
        MountError::BadHandle => 10001,
        MountError::NotInSync => 10002,
        MountError::NotSupported => 10004,
        MountError::Later => 10008,
    }
}
