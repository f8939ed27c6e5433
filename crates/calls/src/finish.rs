//! Stopping: calls that were begun are finished, or cancelled when that takes too long; either way they are recorded and answered.
//!
//! INVARIANT: counting costs a call two atomic steps and no lock.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep},
};

/// How often a gate that stops looks whether the last call has ended.
const LOOK: Duration = Duration::from_millis(10);

/// How far a gate has come with stopping.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    #[default]
    Open,
    /// Everything goes on, and whoever asks is told to send new work elsewhere.
    Draining,
    /// Nothing more comes in, so nobody will answer a question any more.
    Closing,
    /// Calls under way have had their time.
    Over,
}

/// The calls under way, and the word that their time is up.
#[derive(Debug, Default)]
pub struct Flights {
    under_way: AtomicUsize,
    phase: watch::Sender<Phase>,
}

/// One call under way, until it is dropped.
#[derive(Debug)]
pub struct Flight<'a>(&'a Flights);

impl Flights {
    pub fn begin(&self) -> Flight<'_> {
        self.under_way.fetch_add(1, Ordering::AcqRel);
        Flight(self)
    }

    pub fn phases(&self) -> watch::Receiver<Phase> {
        self.phase.subscribe()
    }

    /// Resolves when the gate has come so far with stopping.
    pub async fn reached(&self, phase: Phase) {
        reached(&mut self.phases(), phase).await;
    }

    /// Waits for the calls under way, `grace` for their own end and `then` for the end they are told to come to. How many are left.
    pub async fn finish(&self, grace: Duration, then: Duration) -> usize {
        self.phase
            .send_modify(|phase| *phase = Phase::Closing.max(*phase));
        if self.landed(Instant::now() + grace, Phase::Closing).await {
            return 0;
        }
        self.hurry();
        self.landed(Instant::now() + then, Phase::Over).await;
        self.under_way.load(Ordering::Acquire)
    }

    /// Says from now on that the gate is about to stop.
    pub fn drain(&self) {
        self.phase
            .send_modify(|phase| *phase = Phase::Draining.max(*phase));
    }

    pub fn is_open(&self) -> bool {
        *self.phase.borrow() == Phase::Open
    }

    /// The calls under way have no more time.
    pub fn hurry(&self) {
        self.phase.send_replace(Phase::Over);
    }

    /// Whether all calls ended while there was time.
    async fn landed(&self, until: Instant, last: Phase) -> bool {
        while self.under_way.load(Ordering::Acquire) > 0 {
            if Instant::now() >= until || *self.phase.borrow() > last {
                return false;
            }
            sleep(LOOK).await;
        }
        true
    }
}

/// Resolves when the phase is `wanted` or a later one.
pub async fn reached(phases: &mut watch::Receiver<Phase>, wanted: Phase) {
    // The sender lives as long as the gate, so this waits for the word.
    let _ = phases.wait_for(|phase| *phase >= wanted).await;
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        self.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use super::{Flights, Phase};

    #[tokio::test]
    async fn calls_get_their_time_and_are_then_told() {
        let flights = Arc::new(Flights::default());
        let (second, many) = (Duration::from_millis(40), Duration::from_millis(400));
        assert_eq!(
            flights.finish(many, second).await,
            0,
            "there is nothing to wait for"
        );
        let quick = Arc::clone(&flights);
        let begun = flights.begin();
        tokio::spawn(async move {
            let _flight = quick.begin();
            tokio::time::sleep(second).await;
        });
        let slow = Arc::clone(&flights);
        let told = tokio::spawn(async move {
            let _flight = slow.begin();
            let began = tokio::time::Instant::now();
            slow.reached(Phase::Over).await;
            began.elapsed()
        });
        tokio::task::yield_now().await;
        assert_eq!(flights.finish(many, second).await, 1, "one never ends");
        assert!(told.await.unwrap() >= many);
        drop(begun);
        assert_eq!(flights.finish(many, second).await, 0);
        let hurried = Flights::default();
        let _begun = hurried.begin();
        let began = tokio::time::Instant::now();
        let hurry = async {
            tokio::time::sleep(second).await;
            hurried.hurry();
        };
        tokio::join!(hurried.finish(100 * many, second), hurry);
        assert!(
            began.elapsed() < 50 * many,
            "who is in a hurry does not wait: {:?}",
            began.elapsed()
        );
    }
}
