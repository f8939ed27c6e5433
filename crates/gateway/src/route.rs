//! Routes: where an effect happens.
//!
//! Dispatch makes an [`Order`] of a permit and an intent, and the order's route carries it out. Each route gives back what came of it with
//! the label that it carries; the rest of the path is the same for all. A new kind of effect is one arm here, its file, and its rows in
//! the table of built-in tools.

mod own;
mod server;

use std::sync::Arc;

use bytes::Bytes;
use vocab::{Label, Stop};
use wire::{Text, builtin::Executor};

use crate::{
    call::{Case, Decide, Order, Slots},
    link::Waits,
    room::Room,
    running::Wires,
    settings::ServerSpec,
};
pub(crate) use server::unlisted;

/// The way from a permitted call to its effect.
#[derive(Debug, Clone)]
pub(crate) enum Route {
    /// A server behind the worker.
    Server(Arc<ServerSpec>),
    /// The gate itself.
    Own,
}

impl Route {
    /// The route to who executes a built-in tool; `None`: nobody does yet.
    pub(crate) const fn to(executor: Executor) -> Option<Self> {
        match executor {
            Executor::Gate => Some(Self::Own),
            Executor::Volume
            | Executor::Web
            | Executor::Command
            | Executor::Workflow
            | Executor::Server => None,
        }
    }

    /// Carries out an order. `Err`: nothing happened, and nobody outside had a say in it.
    pub(crate) async fn carry(self, order: Order, side: CallerSide<'_>) -> Result<Carried, Stop> {
        match self {
            Self::Server(_) => server::carry(order, side).await,
            Self::Own => own::carry(&order, side.case),
        }
    }
}

/// What came back, and what it carries.
#[derive(Debug)]
pub(crate) struct Carried {
    pub(crate) raw: Raw,
    pub(crate) label: Label,
}

/// What a route has of the call besides its order: who calls, and how they are told and heard meanwhile.
pub(crate) struct CallerSide<'a> {
    pub(crate) case: Case<'a>,
    pub(crate) wires: &'a mut Wires,
    /// Given back while somebody outside is waited for.
    pub(crate) slots: &'a mut Slots,
    /// Admit to Judge, for what the client answers in the middle.
    pub(crate) decide: Decide,
}

/// What came back, before anyone looked at it.
#[derive(Debug)]
pub(crate) enum Raw {
    Result(Text),
    /// A result that nobody has looked at, and the room for it.
    Unread(Waits, Room),
    Rpc(Bytes),
    /// The call was sent and brought no answer. When and how, the server can choose.
    Stopped(Stop),
}

impl Raw {
    pub(crate) fn len(&self) -> usize {
        match self {
            Self::Result(text) => text.len(),
            Self::Unread(result, _) => result.len(),
            Self::Rpc(error) => error.len(),
            Self::Stopped(_) => 0,
        }
    }
}
