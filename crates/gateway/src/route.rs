//! Routes: how an effect happens. Which route a target has, the catalog says (`upstreams::Route`).
//!
//! Dispatch makes an [`Order`] of a permit and an intent, and the order's route carries it out. Each route gives back what came of it with
//! the label that it carries; the rest of the path is the same for all. A new kind of effect is one arm there and here, its file, and
//! its rows in the table of built-in tools.

mod command;
mod execution;
pub(crate) mod own;
mod server;
pub(crate) mod volume;
mod web;

use bytes::Bytes;
use callers::room::Room;
use calls::running::Wires;
use upstreams::{Route, link::Waits};
use vocab::{Label, Stop};
use wire::Text;

use crate::call::{Case, Decide, Order, Slots};

pub(crate) use server::unlisted;

/// Carries out an order. `Err`: nothing happened, and nobody outside had a say in it.
pub(crate) async fn carry(
    route: &Route,
    order: Order,
    side: CallerSide<'_>,
) -> Result<Carried, Stop> {
    match route {
        Route::Server(_) => server::carry(order, side).await,
        Route::Own => own::carry(&order, side.case),
        Route::Command => command::carry(&order, side).await,
        Route::Volume => volume::carry(order, side.case).await,
        // Boxed, because it is rare and large, and the future around it is made for every call.
        Route::Web => Box::pin(web::carry(order, side)).await,
        Route::Execution(execution) => execution::carry(execution, &order, side).await,
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
            Self::Unread(result, _) => result.bytes(),
            Self::Rpc(error) => error.len(),
            Self::Stopped(_) => 0,
        }
    }
}
