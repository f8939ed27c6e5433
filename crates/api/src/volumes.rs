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
    /// To whom it is attached over the NFS door, and where.
    pub attached: Vec<String>,
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

/// A volume for a caller to mount.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeAttachment {
    /// The agent's credential, by id or name.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub caller: String,
    /// The execution that it ends with.
    pub execution: Option<String>,
    /// Where to listen on loopback; any port if not said.
    #[serde(deserialize_with = "crate::input::number")]
    pub port: Option<u32>,
}

impl VolumeAttachment {
    /// # Errors
    /// If there is no such port.
    pub fn port(&self) -> Result<u16, Problem> {
        u16::try_from(self.port.unwrap_or(0))
            .map_err(|_| Problem::invalid("`port` is between 0 and 65535"))
    }
}

impl Input for VolumeAttachment {
    fn check(&self) -> Result<(), Problem> {
        self.port()?;
        of_somebody(&self.caller)
    }
}

/// Where a volume can be mounted.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeAttached {
    /// The address of the NFS door, which is this caller's alone.
    pub address: String,
    /// The path that is mounted.
    pub path: String,
    /// What mounts it on this machine.
    pub command: String,
}

/// A volume that a caller is to mount no more.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, Default)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct VolumeDetachment {
    /// The agent's credential, by id or name.
    #[cfg_attr(feature = "schema", schemars(required))]
    pub caller: String,
    /// The execution that it was attached for.
    pub execution: Option<String>,
}

impl Input for VolumeDetachment {
    fn check(&self) -> Result<(), Problem> {
        of_somebody(&self.caller)
    }
}

fn of_somebody(caller: &str) -> Result<(), Problem> {
    if caller.is_empty() {
        let text = "`caller` is missing; name the agent's credential";
        return Err(Problem::invalid(text));
    }
    Ok(())
}

fn named(path: &str) -> Result<(), Problem> {
    if path.is_empty() {
        return Err(Problem::invalid("`path` is missing"));
    }
    Ok(())
}
