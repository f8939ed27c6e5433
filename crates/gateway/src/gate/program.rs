//! What the gate asks of the program that opened it. The program reads files and prepares; the gate puts in force.

use std::net::SocketAddr;

use api::{Kind, Problem};
use vocab::{Level, ServerId};

use crate::{Mount, settings::Configuration};

/// A change of the configuration file that an operator asked the gate for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Edit {
    Classify { id: ServerId, level: Level },
    Block { id: ServerId, reason: String },
    Unblock { id: ServerId },
}

/// A configuration that was read, and what the program does outside once it is in force. That cannot fail any more.
pub struct Reading {
    pub configuration: Configuration,
    pub then: Box<dyn FnOnce() + Send>,
}

impl std::fmt::Debug for Reading {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reading")
            .field("configuration", &self.configuration)
            .finish_non_exhaustive()
    }
}

/// The program that the gate is part of.
pub trait Program: Send + Sync {
    /// Reads the configuration and every file it leads to, and changes nothing. A problem names the step that failed.
    fn read(&self) -> Result<Reading, Problem>;

    /// Writes a change into the configuration file; says why if it cannot.
    fn edit(&self, edit: &Edit) -> Result<(), Problem>;

    /// Answers an operation from the files of the home: the operation, what its path names, and the text of its input.
    fn answer(
        &self,
        operation: api::Operation,
        name: &str,
        input: &[u8],
    ) -> Result<Vec<u8>, Problem>;

    /// Opens a door for a mount on loopback, at this port or at any for 0, until nothing is attached to it any more.
    fn open_mount(&self, _mount: Mount, _port: u16) -> Result<SocketAddr, Problem> {
        let text = "this program has no door for mounts";
        Err(Problem::new(Kind::Conflict, "no_door_for_mounts", text))
    }

    /// How the sinks are doing.
    fn sinks(&self) -> Vec<api::Sink>;
}
