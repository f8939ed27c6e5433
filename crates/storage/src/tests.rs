//! What holds for volumes.

mod conformance;
mod escapes;
mod foreign;
mod labels;
mod mounted;
mod search;
mod tree;

use std::{
    collections::BTreeSet,
    path::Path,
    sync::Arc,
    time::{Duration, Instant},
};

use vocab::{Integrity, Label, Level, Mark};

use crate::*;

pub(crate) fn path(text: &str) -> VolumePath {
    VolumePath::parse(text).expect("a path")
}

pub(crate) fn spec(root: &Path) -> VolumeSpec {
    VolumeSpec {
        name: "work".to_owned(),
        root: root.to_owned(),
        ceiling: Level::Confidential,
        floor: Label::default(),
        is_writable: true,
        max_bytes: None,
        max_files: None,
        durability: Durability::Relaxed,
        allows_mounts: false,
        allows_hardlinks: false,
        runs_commands: false,
    }
}

pub(crate) fn volume(root: &Path) -> Volume {
    Volume::attach(spec(root), Arc::new(InMemory::default())).expect("attached")
}

pub(crate) fn secret(level: Level) -> Label {
    Label {
        mark: Mark::trusted(level),
        origins: BTreeSet::new(),
    }
}

pub(crate) fn untrusted() -> Label {
    Label {
        mark: Mark {
            secrecy: Level::Public,
            integrity: Integrity::Untrusted,
        },
        origins: BTreeSet::new(),
    }
}

pub(crate) const ANYWHERE: &dyn Fn(&VolumePath) -> bool = &|_| true;

pub(crate) fn by(label: &Label) -> Access<'_> {
    Access {
        label,
        may: ANYWHERE,
    }
}

pub(crate) fn clean() -> Access<'static> {
    static CLEAN: Label = Label {
        mark: Mark {
            secrecy: Level::Public,
            integrity: Integrity::Trusted,
        },
        origins: BTreeSet::new(),
    };
    by(&CLEAN)
}

pub(crate) fn walk() -> WalkOptions {
    WalkOptions {
        no_ignore: false,
        no_rise: false,
        budget: Budget::until(Instant::now() + Duration::from_secs(60)),
    }
}

pub(crate) fn grep() -> GrepOptions {
    GrepOptions {
        glob: None,
        exclude: None,
        case: Case::Sensitive,
        fixed: false,
        multiline: false,
        before: 0,
        after: 0,
        output: Output::Content,
        max_results: 250,
        offset: 0,
        walk: walk(),
    }
}

pub(crate) fn glob() -> GlobOptions {
    GlobOptions {
        by_time: false,
        max_results: 1_000,
        dirs: false,
        walk: walk(),
    }
}

pub(crate) fn text_of(read: ReadFile) -> String {
    match read.content {
        Content::Text(text) => text,
        other => panic!("not text: {other:?}"),
    }
}

pub(crate) fn put(volume: &Volume, at: &str, content: &str) -> Written {
    let written = volume.write(
        clean(),
        &path(at),
        content.as_bytes(),
        WriteOptions::default(),
    );
    written.result.expect("written")
}

pub(crate) fn text(volume: &Volume, at: &str) -> String {
    let read = volume.read(clean(), &path(at), Part::Whole, As::Text);
    text_of(read.result.expect("read"))
}

pub(crate) fn edit(from: &str, to: &str) -> Edit {
    Edit {
        target: from.to_owned(),
        replacement: to.to_owned(),
        ..Edit::default()
    }
}
