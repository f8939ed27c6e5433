//! Volumes: directories that agents use through the gate. The only crate that opens agents' files.
//!
//! A volume is opened once, as a directory handle; everything in it is reached by handles and names beneath that one (`beneath.rs`).
//! Files are replaced and never changed in place (`replace.rs`). Every file and directory has a label (`labels.rs`), and every operation
//! gives back its result with the label of what it looked at.
//!
//! Everything here waits for the disk: call it where waiting keeps nobody else from going on. It must never lower a label, follow a link
//! out of a volume, or know who calls.

mod beneath;
mod dirs;
mod edit;
mod error;
mod labels;
mod list;
mod mounted;
mod path;
mod probe;
mod read;
mod replace;
mod search;
mod stat;
mod survey;
mod text;
mod usage;
mod volume;
mod walk;
mod write;

pub use edit::{Edit, EditOptions, Edited};
pub use error::{ErrorKind, FileError};
pub use labels::{InMemory, Kept, LabelRows, RowId};
pub use list::{ENTRIES, Entry, ListOptions, Listed};
pub use mounted::{Adjustment, LONGEST, LONGEST_LINK, Lies, Node, Spot};
pub use path::VolumePath;
pub use probe::Abilities;
pub use read::{As, Content, Part, ReadFile};
pub use search::{Case, GlobOptions, Globbed, GrepOptions, Grepped, Line, Output};
pub use stat::{FileId, Kind, Stat, Version};
pub use text::Encoding;
pub use usage::Used;
pub use volume::{Access, Durability, Labelled, Volume, VolumeSpec};
pub use walk::{Budget, Skipped, WalkOptions, Walked};
pub use write::{DeleteOptions, Deleted, MAX_HELD, MoveOptions, WriteOptions, Written};

#[cfg(test)]
mod tests;
