//! Where an effect happens.

use std::sync::Arc;

use crate::settings::ServerSpec;

/// The way from a permitted call to its effect.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// A server behind the worker.
    Server(Arc<ServerSpec>),
}
