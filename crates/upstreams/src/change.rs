//! What changes behind the gate while clients are connected.

use std::sync::Arc;

use bytes::Bytes;
use vocab::ServerId;

use crate::ListKind;

#[derive(Debug, Clone)]
pub enum Change {
    /// A list of a server changed. Templates are told of with resources.
    List {
        list: ListKind,
        server: ServerId,
        /// What was approved of it changed too, so that everybody sees the difference.
        is_approved: bool,
    },
    /// A caller sees another list than before.
    Sight { caller: Arc<str>, list: ListKind },
    /// A resource somebody subscribed to: by its own URI, and as the aggregate door shows it.
    Updated {
        server: ServerId,
        uri: Arc<str>,
        exposed: Arc<str>,
    },
    /// A log message that belongs to no single call.
    Log { server: ServerId, params: Bytes },
    /// A visit to an address that a server asked somebody for is done; by the server's id for it.
    ElicitationComplete { server: ServerId, visit: Arc<str> },
}
