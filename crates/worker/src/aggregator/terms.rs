//! What a connection rests on: who the server is, what it may ask, whose credential it hears.

use std::{collections::HashMap, rc::Rc};

use bytes::Bytes;
use wire::mcp::Revision;

use super::{plan::Plan, users::Users};

/// Who the server turned out to be.
#[derive(Debug, Clone)]
pub(crate) struct Peer {
    pub(crate) revision: Revision,
    pub(crate) capabilities: Bytes,
    pub(crate) info: Bytes,
    pub(crate) instructions: Option<Bytes>,
}

/// Which questions the server may ask at all.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Allow {
    pub(crate) sampling: bool,
    pub(crate) roots: bool,
    pub(crate) elicitation: bool,
}

impl Allow {
    pub(crate) fn permits(self, method: &str) -> bool {
        match method {
            "sampling/createMessage" => self.sampling,
            "roots/list" => self.roots,
            "elicitation/create" => self.elicitation,
            _ => false,
        }
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Options {
    pub(crate) allow: Allow,
    /// `{"name":…,"version":…}` as JSON text.
    pub(crate) client: Bytes,
    pub(crate) max_result: usize,
}

/// Whose credential a connection carries.
#[derive(Debug)]
pub(crate) enum Owner {
    /// The one from the configuration. Users' connections hang on the system's and end with it.
    System(Users),
    User,
}

/// How the headers of tools are computed, by name of the tool.
pub(crate) type Plans = HashMap<String, Rc<Plan>>;
