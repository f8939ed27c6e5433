//! `portcullis import`.

use std::path::PathBuf;

use clap::Args;

pub const IMPORT_EXAMPLES: &str = "\
Examples:
  portcullis import                           what could be taken over; changes nothing
  portcullis import claude-code --dry-run     the same for one
  portcullis import claude-code               its servers, switched off; its file stays
  portcullis import --all --take-over         and the gate takes their place there
  portcullis import --undo 3                  back to the byte";

#[derive(Debug, Args)]
pub struct Import {
    /// A client (`portcullis clients list` names them), or a file of one
    #[arg(value_name = "CLIENT|FILE", conflicts_with = "all")]
    pub from: Option<String>,
    /// Every client that has servers here
    #[arg(long)]
    pub all: bool,
    /// Also the servers of this project
    #[arg(long, value_name = "DIR")]
    pub project: Option<PathBuf>,
    /// Show what would be done, and do nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Put the gate in the place of the servers in the client's own file
    ///
    /// Without this the client's file stays as it is, secrets that are written in it included.
    #[arg(long)]
    pub take_over: bool,
    /// Take back what an import did: its servers, its secrets, and the clients' files
    #[arg(long, value_name = "ID", conflicts_with_all = ["from", "all", "project", "dry_run", "take_over"])]
    pub undo: Option<u64>,
}
