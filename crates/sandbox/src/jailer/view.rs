//! Building what a jail sees: a root in memory, and mounts on it, none of which follows a symbolic link.
//!
//! Sources are opened as detached mounts before the old root is let go. Their paths must hold no symbolic link, so that nobody can turn
//! one to another place between the decision and the mount.
//!
//! **Invariant: what is not in the view does not exist in the jail.** Tests `every_escape_is_refused_in_every_profile`,
//! `the_same_attempts_come_out_differently_without_a_jail`.
//!
//! **Invariant: building a jail writes nothing to the host.** Directories, links and files are made in memory of the jail's own alone. Test
//! `the_host_is_as_it_was_whatever_is_granted`.

use std::collections::BTreeSet;
use std::ffi::{CStr, CString};
use std::fmt::Display;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, FileType, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

use super::calls::{self, Use};
use super::spec::{Access, Jail, Mount, What};

/// Room for directories, links and small files of the root itself.
const ROOT_BYTES: u64 = 4 << 20;
/// Room in what covers a protected place.
const COVER_BYTES: u64 = 64 << 10;
/// Where the new root is put together; it only has to exist.
const STAGES: [&str; 4] = ["/tmp", "/run", "/mnt", "/proc"];

/// Replaces everything this process sees by the view. It must be alone in its mount namespace.
pub(super) fn enter(jail: &Jail, owners: Option<BorrowedFd<'_>>) -> Result<String, String> {
    calls::make_mounts_private().map_err(|error| format!("mounts: {error}"))?;
    let mut mounts: Vec<&Mount> = jail.view.iter().collect();
    // Parents before what lies in them; of two at one place the later wins.
    mounts.sort_by_key(|mount| mount.target.components().count());
    let mut opened = Vec::new();
    for mount in mounts {
        match open(&mount.what, owners) {
            Ok(source) => opened.push((mount, source)),
            Err(Missing::Allowed) => {}
            Err(Missing::Needed(why)) => {
                return Err(format!("`{}`: {why}", mount.target.display()));
            }
        }
    }
    let root = memory(ROOT_BYTES, 0o755)?;
    let stage = STAGES
        .iter()
        .find_map(|stage| open_path(CWD, Path::new(stage)).ok())
        .ok_or("no directory to put a new root on")?;
    calls::attach(root.as_fd(), stage.as_fd()).map_err(|error| format!("new root: {error}"))?;
    rustix::process::fchdir(&root).map_err(|error| format!("new root: {error}"))?;
    let mut builder = Builder {
        root: root.as_fd(),
        owners,
        memory: BTreeSet::from([device(root.as_fd())?]),
        covers: Vec::new(),
    };
    let count = opened.len();
    for (mount, source) in opened {
        let has_more = jail
            .view
            .iter()
            .filter(|other| other.what != What::Mask && other.target != mount.target)
            .any(|other| other.target.starts_with(&mount.target));
        builder
            .place(mount, source, has_more)
            .map_err(|why| format!("`{}`: {why}", mount.target.display()))?;
    }
    builder.seal()?;
    calls::make_directory_the_root().map_err(|error| format!("root: {error}"))?;
    let root = open_path(CWD, Path::new("/")).map_err(said)?;
    calls::restrict_mount(root.as_fd(), Use::default(), true)
        .map_err(|error| format!("read-only root: {error}"))?;
    Ok(format!("{count} places"))
}

enum Missing {
    Allowed,
    Needed(String),
}

impl From<String> for Missing {
    fn from(why: String) -> Self {
        Self::Needed(why)
    }
}

fn said(error: impl Display) -> String {
    error.to_string()
}

/// A detached mount, for what is one.
fn open(what: &What, owners: Option<BorrowedFd<'_>>) -> Result<Option<OwnedFd>, Missing> {
    match what {
        What::Bind {
            source,
            access,
            optional,
            owned,
        } => {
            let source = match open_path(CWD, source) {
                Ok(source) => source,
                Err(Errno::NOENT | Errno::NOTDIR) if *optional => return Err(Missing::Allowed),
                Err(error) => return Err(Missing::Needed(said(error))),
            };
            Ok(Some(bind(
                source.as_fd(),
                *access,
                owners.filter(|_| *owned),
            )?))
        }
        What::Memory { bytes, mode } => Ok(Some(memory(*bytes, *mode)?)),
        What::Processes => {
            let everything = Use {
                writable: true,
                ..Use::default()
            };
            let processes = calls::new_filesystem(c"proc", &[], everything);
            Ok(Some(processes.map_err(said)?))
        }
        What::Overlay { lower, .. } => {
            let lower = open_path(CWD, lower).map_err(said)?;
            Ok(Some(bind(lower.as_fd(), Access::ReadOnly, owners)?))
        }
        What::Link { .. } | What::File { .. } | What::Mask => Ok(None),
    }
}

fn bind(
    source: BorrowedFd<'_>,
    access: Access,
    owners: Option<BorrowedFd<'_>>,
) -> Result<OwnedFd, String> {
    let tree = calls::clone_tree(source).map_err(said)?;
    let allowed = Use {
        writable: access != Access::ReadOnly,
        devices: access == Access::Device,
        owners: None,
    };
    calls::restrict_mount(tree.as_fd(), allowed, false).map_err(said)?;
    if owners.is_some() {
        // A file system that cannot translate owners is shown as it is.
        let _ = calls::restrict_mount(tree.as_fd(), Use { owners, ..allowed }, true);
    }
    Ok(tree)
}

fn memory(bytes: u64, mode: u32) -> Result<OwnedFd, String> {
    let text = |text: String| CString::new(text).map_err(said);
    let options: [(&CStr, CString); 2] = [
        (c"size", text(bytes.to_string())?),
        (c"mode", text(format!("{mode:o}"))?),
    ];
    let allowed = Use {
        writable: true,
        ..Use::default()
    };
    calls::new_filesystem(c"tmpfs", &options, allowed).map_err(said)
}

/// A path of the host, no part of which is a symbolic link.
fn open_path(from: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::openat2(
        from,
        path,
        OFlags::PATH | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS,
    )
}

/// Which file system this lies on.
fn device(file: BorrowedFd<'_>) -> Result<u64, String> {
    Ok(rustix::fs::fstat(file).map_err(said)?.st_dev)
}

struct Builder<'a> {
    root: BorrowedFd<'a>,
    owners: Option<BorrowedFd<'a>>,
    /// The file systems in memory that are the jail's own: things are made on these and on no other.
    memory: BTreeSet<u64>,
    /// Covers that are still written to.
    covers: Vec<OwnedFd>,
}

impl Builder<'_> {
    /// `has_more`: something else is placed inside of it.
    fn place(
        &mut self,
        mount: &Mount,
        source: Option<OwnedFd>,
        has_more: bool,
    ) -> Result<(), String> {
        let target = inside(&mount.target)?;
        match &mount.what {
            What::Link { to } => {
                self.directories(target.parent())?;
                self.needs_memory(target.parent())?;
                rustix::fs::symlinkat(to, self.root, &target).map_err(said)
            }
            What::File { text } => self.file(&target, text),
            What::Mask => self.mask(&target, has_more),
            What::Overlay { bytes, .. } => {
                let lower = source.ok_or("nothing to lay over")?;
                self.overlay(&target, lower.as_fd(), *bytes)
            }
            What::Bind { source: leads, .. }
                if *leads != mount.target && self.is_behind_link(&target) =>
            {
                // What is shown already has the link, and where it leads is shown by itself.
                Ok(())
            }
            What::Bind { .. } | What::Processes => {
                let source = source.ok_or("nothing to mount")?;
                self.attach(&target, source.as_fd())
            }
            What::Memory { .. } => {
                let source = source.ok_or("nothing to mount")?;
                self.memory.insert(device(source.as_fd())?);
                self.attach(&target, source.as_fd())
            }
        }
    }

    /// Nothing can be made in a cover any more.
    fn seal(&self) -> Result<(), String> {
        for cover in &self.covers {
            calls::restrict_mount(cover.as_fd(), Use::default(), true).map_err(said)?;
        }
        Ok(())
    }

    fn attach(&self, target: &Path, source: BorrowedFd<'_>) -> Result<(), String> {
        let kind = rustix::fs::fstat(source).map_err(said)?.st_mode;
        if FileType::from_raw_mode(kind) == FileType::Directory {
            self.directories(Some(target))?;
        } else {
            self.directories(target.parent())?;
            if self.open(target).is_err() {
                self.create(target)?;
            }
        }
        let target = self.open(target).map_err(said)?;
        calls::attach(source, target.as_fd()).map_err(said)
    }

    /// A small file. Where the host's directory is shown it lies over the host's file, or is left out if there is none.
    fn file(&self, target: &Path, text: &str) -> Result<(), String> {
        self.directories(target.parent())?;
        let found = match self.open(target) {
            Err(Errno::NOENT) if self.needs_memory(target.parent()).is_ok() => {
                let file = self.create(target)?;
                return rustix::io::write(&file, text.as_bytes())
                    .map(drop)
                    .map_err(said);
            }
            Err(Errno::NOENT | Errno::LOOP) => return Ok(()),
            found => found.map_err(said)?,
        };
        self.cover_file(&found, text, 0o644)
    }

    /// Covers what is there, directory or file; what is not there needs no cover.
    fn mask(&mut self, target: &Path, has_more: bool) -> Result<(), String> {
        let found = match self.open(target) {
            Ok(found) => found,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(()),
            // A symbolic link leads out of the place, to something the view shows or does not.
            Err(Errno::LOOP) => return Ok(()),
            Err(error) => return Err(said(error)),
        };
        let kind = rustix::fs::fstat(&found).map_err(said)?.st_mode;
        if FileType::from_raw_mode(kind) != FileType::Directory {
            return self.cover_file(&found, "", 0o000);
        }
        // What lies inside, such as a server's own home in the gate's, is reached through it, and nothing is listed.
        let empty = memory(COVER_BYTES, if has_more { 0o111 } else { 0o000 })?;
        calls::attach(empty.as_fd(), found.as_fd()).map_err(said)?;
        self.memory.insert(device(empty.as_fd())?);
        self.covers.push(empty);
        Ok(())
    }

    /// Puts a file of our own over a file. It lies in a directory in memory that nothing names any more afterwards.
    fn cover_file(&self, found: &OwnedFd, text: &str, mode: u32) -> Result<(), String> {
        let empty = memory(COVER_BYTES, 0o000)?;
        let hidden = Path::new(".mask");
        self.directories(Some(hidden))?;
        let directory = self.open(hidden).map_err(said)?;
        calls::attach(empty.as_fd(), directory.as_fd()).map_err(said)?;
        let inner = rustix::fs::openat(
            &empty,
            "file",
            OFlags::CREATE | OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::from_raw_mode(mode),
        )
        .map_err(said)?;
        rustix::io::write(&inner, text.as_bytes()).map_err(said)?;
        let cover = calls::clone_tree(inner.as_fd()).map_err(said)?;
        calls::restrict_mount(cover.as_fd(), Use::default(), true).map_err(said)?;
        calls::attach(cover.as_fd(), found.as_fd()).map_err(said)?;
        calls::detach(hidden).map_err(said)
    }

    /// The lower directory below memory that takes every change.
    fn overlay(&self, target: &Path, lower: BorrowedFd<'_>, bytes: u64) -> Result<(), String> {
        let (below, above) = (Path::new(".lower"), Path::new(".upper"));
        self.attach(below, lower)?;
        let upper = memory(bytes, 0o755)?;
        self.attach(above, upper.as_fd())?;
        let kind = rustix::fs::fstat(lower).map_err(said)?;
        for name in ["changes", "work"] {
            rustix::fs::mkdirat(&upper, name, Mode::from_raw_mode(0o700)).map_err(said)?;
            if self.owners.is_some() {
                let (user, group) = (
                    rustix::fs::Uid::from_raw(kind.st_uid),
                    rustix::fs::Gid::from_raw(kind.st_gid),
                );
                rustix::fs::chownat(
                    &upper,
                    name,
                    Some(user),
                    Some(group),
                    rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
                )
                .map_err(said)?;
            }
        }
        let text = |text: &str| CString::new(text).map_err(said);
        let mut options: Vec<(&CStr, CString)> = vec![
            (c"lowerdir", text(".lower")?),
            (c"upperdir", text(".upper/changes")?),
            (c"workdir", text(".upper/work")?),
        ];
        if self.owners.is_none() {
            // In a user namespace the marks of an overlay have to be ordinary attributes.
            options.push((c"userxattr", CString::default()));
        }
        let allowed = Use {
            writable: true,
            ..Use::default()
        };
        let overlay = calls::new_filesystem(c"overlay", &options, allowed).map_err(said)?;
        self.attach(target, overlay.as_fd())?;
        for stage in [below, above] {
            calls::detach(stage).map_err(said)?;
            rustix::fs::unlinkat(self.root, stage, rustix::fs::AtFlags::REMOVEDIR).map_err(said)?;
        }
        Ok(())
    }

    /// Makes the directory, and those above it, where they are missing.
    fn directories(&self, path: Option<&Path>) -> Result<(), String> {
        let mut made = PathBuf::new();
        for part in path.into_iter().flat_map(Path::components) {
            made.push(part);
            match self.open(&made) {
                Ok(_) => {}
                Err(Errno::NOENT) => {
                    self.needs_memory(made.parent())?;
                    rustix::fs::mkdirat(self.root, &made, Mode::from_raw_mode(0o755))
                        .map_err(said)?;
                }
                Err(error) => return Err(format!("{}: {error}", made.display())),
            }
        }
        Ok(())
    }

    /// Whether a path goes through a symbolic link of what is shown already.
    fn is_behind_link(&self, path: &Path) -> bool {
        matches!(self.open(path), Err(Errno::LOOP))
    }

    /// That this directory is in memory of the jail's own.
    fn needs_memory(&self, directory: Option<&Path>) -> Result<(), String> {
        let lies_on = match directory.filter(|path| !path.as_os_str().is_empty()) {
            Some(path) => device(self.open(path).map_err(said)?.as_fd())?,
            None => device(self.root)?,
        };
        if self.memory.contains(&lies_on) {
            return Ok(());
        }
        Err("it does not exist, and is not made on the host".to_owned())
    }

    fn create(&self, path: &Path) -> Result<OwnedFd, String> {
        self.needs_memory(path.parent())?;
        rustix::fs::openat2(
            self.root,
            path,
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC,
            Mode::from_raw_mode(0o644),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
        )
        .map_err(said)
    }

    fn open(&self, path: &Path) -> rustix::io::Result<OwnedFd> {
        rustix::fs::openat2(
            self.root,
            path,
            OFlags::PATH | OFlags::CLOEXEC,
            Mode::empty(),
            ResolveFlags::NO_SYMLINKS | ResolveFlags::BENEATH,
        )
    }
}

/// The path below the new root, without the slash; nothing but plain names is taken.
fn inside(target: &Path) -> Result<PathBuf, String> {
    let mut inside = PathBuf::new();
    for part in target.components() {
        match part {
            Component::RootDir => {}
            Component::Normal(name) => inside.push(name),
            Component::CurDir | Component::ParentDir | Component::Prefix(_) => {
                return Err("not a plain path".to_owned());
            }
        }
    }
    if inside.as_os_str().is_empty() {
        return Err("the root itself".to_owned());
    }
    Ok(inside)
}
