//! Dispatch: the only effect. Makes an order of the permit and the intent, and lets its route carry it out.

use std::sync::Arc;

use audit::Intent;
use policy::{Budget, Permit};
use upstreams::{Route, catalog::Target};
use vocab::{Mark, Stop, Violation};
use wire::write::Pieces;

use super::{consent::unserved, shape::Load};
use crate::route::{self, CallerSide, Carried};

/// What a route carries out: permitted and on record. Only Dispatch makes one, from a permit and an intent by value.
#[derive(Debug)]
pub(crate) struct Order {
    route: Route,
    load: Load,
    budget: Budget,
    label: Mark,
    _intent: Intent,
}

impl Order {
    fn new(permit: Permit<Load>, intent: Intent) -> Result<Self, Violation> {
        let label = permit.label();
        let (load, budget) = permit.spend();
        let route = load.target.route.clone();
        Ok(Self {
            route: route.ok_or_else(|| unserved(&load.target))?,
            load,
            budget,
            label,
            _intent: intent,
        })
    }

    pub(crate) const fn target(&self) -> &Arc<Target> {
        &self.load.target
    }

    /// Exactly what was judged.
    pub(crate) const fn bytes(&self) -> &Pieces {
        &self.load.args.text
    }

    /// The same as the judges read it: the arguments, and what goes beside them.
    pub(crate) fn judged(&self) -> &[u8] {
        &self.load.args.judged
    }

    /// The session's label when the call was weighed.
    pub(crate) const fn label(&self) -> Mark {
        self.label
    }

    pub(crate) const fn budget(&self) -> Budget {
        self.budget
    }
}

/// `Err`: nothing was sent, and nobody outside had a say in it.
pub(super) async fn dispatch(
    permit: Permit<Load>,
    intent: Intent,
    side: CallerSide<'_>,
) -> Result<Carried, Stop> {
    let order = Order::new(permit, intent)?;
    let way = order.route.clone();
    route::carry(&way, order, side).await
}
