//! The verbs for volumes.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use vocab::Level;

use super::level;

#[derive(Debug, Subcommand)]
pub enum Volume {
    /// List the volumes, and how full they are
    List,
    /// Show one volume
    Show(VolumeName),
    /// List a directory of a volume, with the label of each entry
    Ls(VolumePlace),
    /// Print a file of a volume
    Cat(VolumeFile),
    /// Write a file to a volume, from a file or standard input
    Put(VolumePut),
    /// Delete a file or directory from a volume
    Rm(VolumeRm),
    /// Raise the label of a file or directory
    Label(VolumeLabel),
    /// Let an agent mount a volume over NFS
    Attach(VolumeAttach),
    /// Take a volume away that an agent has mounted
    Detach(VolumeDetach),
}

#[derive(Debug, Args)]
pub struct VolumeName {
    /// The volume's name
    pub name: String,
}

#[derive(Debug, Args)]
pub struct VolumePlace {
    /// The volume's name
    pub name: String,
    /// The directory; without it, the root of the volume
    pub path: Option<String>,
}

#[derive(Debug, Args)]
pub struct VolumeFile {
    /// The volume's name
    pub name: String,
    /// The file
    pub path: String,
}

#[derive(Debug, Args)]
pub struct VolumePut {
    /// The volume's name
    pub name: String,
    /// The file on the volume
    pub path: String,
    /// Where its content is; standard input if not said
    pub from: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct VolumeRm {
    /// The volume's name
    pub name: String,
    /// The file or directory
    pub path: String,
    /// A directory with everything in it
    #[arg(long)]
    pub recursive: bool,
}

#[derive(Debug, Args)]
pub struct VolumeLabel {
    /// The volume's name
    pub name: String,
    /// The file or directory
    pub path: String,
    /// PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED
    #[arg(value_name = "LEVEL", value_parser = level)]
    pub level: Level,
    /// Anyone may have shaped it
    #[arg(long)]
    pub untrusted: bool,
}

#[derive(Debug, Args)]
pub struct VolumeAttach {
    /// The volume's name
    pub name: String,
    /// The agent's credential, by id or name
    #[arg(long)]
    pub caller: String,
    /// The execution that it ends with
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
    /// Where to listen on loopback; any port if not said
    #[arg(long)]
    pub port: Option<u16>,
}

#[derive(Debug, Args)]
pub struct VolumeDetach {
    /// The volume's name
    pub name: String,
    /// The agent's credential, by id or name
    #[arg(long)]
    pub caller: String,
    /// The execution that it was attached for
    #[arg(long, value_name = "ID")]
    pub execution: Option<String>,
}
