//! Taking turns: everything runs on one thread, so whoever reads a fast stream must step back now and then.

use tokio::task::yield_now;

/// Work done in one go before others get their turn, in bytes.
const TURN: usize = 128 << 10;
/// What a piece of work costs however small it is.
const LEAST: usize = 4 << 10;

/// How much of its turn a reader has used.
#[derive(Debug, Default)]
pub(crate) struct Turn(usize);

impl Turn {
    /// Notes work that was done.
    pub(crate) fn spend(&mut self, bytes: usize) {
        self.0 = self.0.saturating_add(bytes.max(LEAST));
    }

    /// Steps back if the turn is used up. Call it before reading, so that nothing is in hand if the future is dropped.
    pub(crate) async fn pass(&mut self) {
        if self.0 >= TURN {
            self.0 = 0;
            yield_now().await;
        }
    }
}
