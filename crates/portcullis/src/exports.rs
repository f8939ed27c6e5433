//! The sinks of a gate, wired: what they read, who sends for them, and where they note how far they are.

use std::{sync::Arc, time::Duration};

use config::Resolved;
use gateway::{Courier, Gate};
use home::Home;
use sinks::{Outside, Parcel, Receipt, Sending, Sinks, Source, Spec};

use crate::wiring;

/// How long sinks may take to deliver the rest when the gate stops.
const LAST_DELIVERIES: Duration = Duration::from_secs(3);

/// The sinks of a running gate.
#[derive(Debug, Clone)]
pub(crate) struct Exports(Arc<Sinks>);

impl Exports {
    /// Starts them.
    pub(crate) fn start(
        home: &Home,
        resolved: &Resolved,
        gate: &Gate,
        secrets: Arc<dyn secrets::Store>,
    ) -> Result<Self, String> {
        let (ledger, durable) = gate.durable_records();
        let source = Source {
            ledger,
            durable,
            cursors: home.sinks(),
        };
        let outside = Outside {
            secrets,
            courier: Some(courier(Courier::new(wiring::courier(resolved)?))),
            clock: audit::system_clock(),
            dice: Arc::new(dice),
            version: env!("CARGO_PKG_VERSION"),
        };
        let sinks = Sinks::start(source, outside, resolved.sinks.clone());
        Ok(Self(Arc::new(sinks)))
    }

    /// How they are doing.
    pub(crate) fn status(&self) -> Vec<api::Sink> {
        self.0.status().into_iter().map(shown_sink).collect()
    }

    pub(crate) fn apply(&self, specs: &[Spec]) {
        self.0.apply(specs.to_vec());
    }

    /// What is not delivered by then is delivered after the next start.
    pub(crate) async fn close(&self) {
        self.0.close(LAST_DELIVERIES).await;
    }
}

fn shown_sink(sink: sinks::Status) -> api::Sink {
    let sinks::Status {
        name,
        kind,
        state,
        position,
        lag,
        delivered,
        lost,
        failures,
        error,
    } = sink;
    api::Sink {
        name,
        kind: kind.to_owned(),
        state: state.to_owned(),
        position,
        lag,
        delivered,
        lost,
        failures,
        error,
    }
}

/// The worker that posts, as sinks ask for it.
fn courier(courier: Courier) -> Arc<dyn Fn(Parcel) -> Sending + Send + Sync> {
    let courier = Arc::new(courier);
    Arc::new(move |parcel: Parcel| -> Sending {
        let courier = Arc::clone(&courier);
        Box::pin(async move {
            let delivered = courier
                .post(&parcel.url, &parcel.headers, &parcel.body, parcel.timeout)
                .await?;
            Ok(Receipt {
                status: delivered.status,
                body: delivered.body,
            })
        })
    })
}

/// Without randomness pauses are all the same, which does no harm.
fn dice() -> u32 {
    let mut bytes = [0; 4];
    let _ = getrandom::fill(&mut bytes);
    u32::from_le_bytes(bytes)
}
