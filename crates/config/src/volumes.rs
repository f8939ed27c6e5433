//! The keys of a volume, and what they mean to the gate. There is no volume unless one is written here, and none is written to unless
//! its entry says so.

use std::path::{Path, PathBuf};

use gateway::settings::{Durability, VolumeEntry, VolumeSpec};
use policy::context::path_names;
use vocab::{Integrity, Label, Level, Mark};

use super::{
    fields::Fields,
    finding::Finding,
    keys::{ACCESS_LISTS, Key, Kind, LEVELS, MIB, key},
    resolve::path_at,
    rules,
    signed::{named, tenant},
    tree::{self, Node},
};

const DURABILITIES: &[&str] = &["full", "relaxed"];

const PATH: Key = key(
    "path",
    Kind::Text,
    "",
    "The directory on this machine. Relative paths start at the directory of this file. Without it the gate keeps the files in its own \
     directory.",
);
const MOUNT: Key = key(
    "mount",
    Kind::Text,
    "",
    "The path beneath which callers see it. Without it, its name: `/notes` for a volume `notes`. Relative paths of callers begin at \
     `/workspace`.",
);
const CLASSIFICATION: Key = key(
    "classification",
    Kind::Choice(LEVELS),
    "",
    "The most secret data that may be written to it.",
);
const FLOOR: Key = key(
    "floor",
    Kind::Choice(LEVELS),
    "",
    "How secret everything in it is at least, whoever wrote it. Without it, as `classification` for a directory of this machine, and PUBLIC for \
     one that the gate keeps.",
);
const OPEN_WORLD: Key = key(
    "open_world",
    Kind::Flag,
    "false",
    "Whether anyone may have shaped what is in it: then reading it makes a session untrusted.",
);
const WRITABLE: Key = key(
    "writable",
    Kind::Flag,
    "false",
    "Whether callers may change it.",
);
const MAX_BYTES: Key = key(
    "max_bytes",
    Kind::Size(MIB / 16..=1024 * 1024 * 1024 * MIB),
    "",
    "The most that everything in it may take on the disk. Without it there is no limit.",
);
const MAX_FILES: Key = key(
    "max_files",
    Kind::Count(1..=1_000_000_000),
    "",
    "How many files and directories it may hold. Without it there is no limit.",
);
const DURABILITY: Key = key(
    "durability",
    Kind::Choice(DURABILITIES),
    "full",
    "Whether what was written survives a power cut before the call is answered (`full`), or as soon as the system gets to it (`relaxed`).",
);
const MOUNTS: Key = key(
    "mounts",
    Kind::Flag,
    "false",
    "Whether it reaches onto other disks that are mounted in it.",
);
const HARDLINKS: Key = key(
    "hardlinks",
    Kind::Flag,
    "false",
    "Whether files are read that have a second name, which may be outside the volume. In a directory that the gate keeps they always are.",
);
const COMMANDS: Key = key(
    "commands",
    Kind::Flag,
    "false",
    "Whether `cmd.run` of those who may use it runs in it, as `/workspace`. Lists of paths do not bind commands: they read and write all of \
     it. So the volume has one label for everything in it.",
);
const ACCESS: Key = key(
    "access",
    Kind::Table(ACCESS_LISTS),
    "",
    "Who may use this volume: a caller that is in any of the lists. Without it, every caller may.",
);
const TENANT: Key = key(
    "tenant",
    Kind::Text,
    "",
    "The tenant it belongs to. For callers of others it does not exist.",
);

/// One volume in the map form.
pub static VOLUME: &[Key] = &[
    PATH,
    MOUNT,
    CLASSIFICATION,
    FLOOR,
    OPEN_WORLD,
    WRITABLE,
    MAX_BYTES,
    MAX_FILES,
    DURABILITY,
    MOUNTS,
    HARDLINKS,
    COMMANDS,
    ACCESS,
    TENANT,
];

/// One volume in the list form.
pub static LISTED_VOLUME: &[Key] = &[
    key("name", Kind::Text, "", "The volume's name."),
    PATH,
    MOUNT,
    CLASSIFICATION,
    FLOOR,
    OPEN_WORLD,
    WRITABLE,
    MAX_BYTES,
    MAX_FILES,
    DURABILITY,
    MOUNTS,
    HARDLINKS,
    COMMANDS,
    ACCESS,
    TENANT,
];

pub(super) fn volumes(
    node: Option<&Node>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<VolumeEntry> {
    let entries = named(node, VOLUME, LISTED_VOLUME, "a volume", findings);
    let mut volumes: Vec<VolumeEntry> = Vec::new();
    for (key, fields) in entries {
        let Some(volume) = volume(&key, fields, base, findings) else {
            continue;
        };
        let shared = volumes.iter().find_map(|other| meet(other, &volume));
        if let Some(what) = shared {
            let fix = "keep one of the two; the same directory under two names would lose labels";
            findings.push(Finding::error(key.place, what, fix));
        }
        volumes.push(volume);
    }
    volumes
}

/// How two volumes get in each other's way.
fn meet(one: &VolumeEntry, two: &VolumeEntry) -> Option<String> {
    let (first, second) = (&one.spec, &two.spec);
    let is_on_disk = !first.root.as_os_str().is_empty() && !second.root.as_os_str().is_empty();
    if is_on_disk && (first.root.starts_with(&second.root) || second.root.starts_with(&first.root))
    {
        return Some(format!(
            "`{}` and `{}` share files",
            first.name, second.name
        ));
    }
    let meets = one.tenant.is_none() || two.tenant.is_none() || one.tenant == two.tenant;
    (meets && one.mount == two.mount).then(|| {
        format!(
            "`{}` and `{}` are seen under the same path",
            first.name, second.name
        )
    })
}

fn volume(
    key: &tree::Key,
    fields: Fields<'_>,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Option<VolumeEntry> {
    let is_word = |word: &str| {
        let mut letters = word.chars();
        !word.is_empty() && letters.all(|c| c.is_ascii_lowercase() || c.is_ascii_digit())
    };
    if key.name.len() > 64 || !key.name.split(['-', '_']).all(is_word) {
        let what = format!("`{}` cannot be a volume's name", key.name);
        let fix = "use lower-case words joined by single `-` or `_`";
        findings.push(Finding::error(key.place, what, fix));
        return None;
    }
    let level = |name: &str| {
        fields
            .written(name)
            .and_then(|text| text.parse::<Level>().ok())
    };
    let Some(ceiling) = level("classification") else {
        let what = format!("volume `{}` has no classification", key.name);
        let fix = "add `classification:` with the most secret data that may be written to it: PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED";
        findings.push(Finding::error(key.place, what, fix));
        return None;
    };
    let path = fields.node("path");
    let root = path.and_then(|node| path_at(node, base, findings));
    let usual = if path.is_some() {
        ceiling
    } else {
        Level::Public
    };
    let limit = |name| fields.node(name).is_some();
    let mount = mount(key, fields, findings);
    let runs_commands = fields.flag("commands");
    if runs_commands && (mount != ["workspace"] || !fields.flag("writable")) {
        let what = format!("commands cannot run in volume `{}`", key.name);
        let fix = "say `writable: true`, and call it `workspace` or say `mount: /workspace`";
        findings.push(Finding::error(key.place, what, fix));
    }
    let spec = VolumeSpec {
        name: key.name.clone(),
        root: root.map_or_else(PathBuf::new, |root| root.components().collect()),
        ceiling,
        floor: Label {
            mark: Mark {
                secrecy: level("floor").unwrap_or(usual),
                integrity: match fields.flag("open_world") {
                    true => Integrity::Untrusted,
                    false => Integrity::Trusted,
                },
            },
            ..Label::default()
        },
        is_writable: fields.flag("writable"),
        max_bytes: limit("max_bytes").then(|| fields.size("max_bytes")),
        max_files: limit("max_files").then(|| fields.count("max_files")),
        durability: match fields.text("durability") {
            "relaxed" => Durability::Relaxed,
            _ => Durability::Full,
        },
        allows_mounts: fields.flag("mounts"),
        // In a directory of the gate's own every name of a file is inside.
        allows_hardlinks: fields.flag("hardlinks") || path.is_none(),
        runs_commands,
    };
    Some(VolumeEntry {
        mount,
        access: rules::server_access(fields, &format!("volumes.{}", key.name), findings),
        tenant: tenant(fields, findings),
        spec,
    })
}

fn mount(key: &tree::Key, fields: Fields<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let usual = || vec![key.name.clone()];
    let Some((node, text)) = fields
        .node("mount")
        .and_then(|node| Some((node, node.text()?)))
    else {
        return usual();
    };
    match path_names(text) {
        Ok(names) if text.starts_with('/') => names,
        _ => {
            let what = format!("`{text}` is no place for a volume");
            let fix = format!("write a whole path without `..`, such as `/{}`", key.name);
            findings.push(Finding::error(node.place, what, fix));
            usual()
        }
    }
}
