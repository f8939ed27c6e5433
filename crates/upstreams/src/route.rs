//! Where the effect of a target happens. The catalog says it; `gateway` carries out what was permitted.

use std::sync::Arc;

use wire::builtin::Executor;

use crate::{executions::Execution, settings::ServerSpec};

/// The way from a permitted call to its effect.
#[derive(Debug, Clone)]
pub enum Route {
    /// A server behind the worker.
    Server(Arc<ServerSpec>),
    /// The gate itself.
    Own,
    /// A jail in the workspace of the caller.
    Command,
    /// A volume, which the path in the arguments names.
    Volume,
    /// The world, by the worker that fetches.
    Web,
    /// The executor of an execution.
    Execution(Arc<Execution>),
}

impl Route {
    /// The route to who executes a built-in tool; `None`: nobody does, unless something is declared for it.
    pub const fn to(executor: Executor) -> Option<Self> {
        match executor {
            Executor::Gate => Some(Self::Own),
            Executor::Command => Some(Self::Command),
            Executor::Volume | Executor::Web | Executor::Workflow | Executor::Server => None,
        }
    }
}
