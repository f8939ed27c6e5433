//! Volumes as an operator sees them.

use serde::{Deserialize, Serialize};

use crate::{Input, Problem};

/// A volume, what it may hold and what it holds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Volume {
    pub name: String,
    /// Where callers see it.
    pub mount: String,
    /// The directory on the gate's machine.
    pub root: String,
    /// The most secret data that may be written to it.
    pub classification: String,
    /// What everything in it carries at least.
    pub floor: String,
    pub writable: bool,
    /// Why it cannot be used, where it cannot.
    pub error: Option<String>,
    pub used_bytes: u64,
    pub used_files: u64,
    pub max_bytes: Option<u64>,
    pub max_files: Option<u64>,
    /// Whether a change of another program at the same moment is always noticed.
    pub sees_conflicts: bool,
}

/// A place in a volume.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumePlace {
    /// From the root of the volume; without it, the root.
    pub path: String,
}

impl Input for VolumePlace {}

/// One entry of a directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeEntry {
    pub name: String,
    /// `file`, `directory`, `link`, or what else it is.
    pub kind: String,
    pub size_bytes: u64,
    pub modified_ms: u64,
    pub label: String,
}

/// A file as it is.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeContent {
    /// Its bytes, in Base64.
    pub content: String,
    pub label: String,
}

/// A file to be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeFile {
    /// From the root of the volume.
    pub path: String,
    /// Its bytes, in Base64.
    pub content: String,
}

impl Input for VolumeFile {
    fn check(&self) -> Result<(), Problem> {
        named(&self.path)
    }
}

/// Something to be deleted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeRemoval {
    /// From the root of the volume.
    pub path: String,
    /// A directory with everything in it.
    pub recursive: bool,
}

impl Input for VolumeRemoval {
    fn check(&self) -> Result<(), Problem> {
        named(&self.path)
    }
}

/// A higher label for a file or directory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeLabel {
    /// From the root of the volume.
    pub path: String,
    /// PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED.
    pub level: String,
    /// Whether anyone may have shaped it.
    pub untrusted: bool,
}

impl Input for VolumeLabel {
    fn check(&self) -> Result<(), Problem> {
        named(&self.path)
    }
}

fn named(path: &str) -> Result<(), Problem> {
    if path.is_empty() {
        return Err(Problem::invalid("`path` is missing"));
    }
    Ok(())
}
