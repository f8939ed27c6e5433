//! Deliveries that nobody acknowledges: they count once their connection has lived on for a while.
//!
//! A syslog daemon says nothing. What was written shortly before a connection broke may never have been read, so it is sent again.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

use audit::Place;

/// More batches than this in a second's time are not written ahead.
const MOST: usize = 256;

#[derive(Debug, Default)]
pub(crate) struct Settling(VecDeque<(Instant, Place)>);

impl Settling {
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.0.len() >= MOST
    }

    /// Everything before `next` is written as of `now`.
    pub(crate) fn add(&mut self, now: Instant, next: Place) {
        self.0.push_back((now, next));
    }

    /// What was left out after the last delivery needs no time of its own.
    pub(crate) fn extend(&mut self, next: Place) {
        if let Some((_, last)) = self.0.back_mut() {
            *last = next;
        }
    }

    /// The place up to which deliveries are old enough.
    pub(crate) fn settled(&mut self, now: Instant, after: Duration) -> Option<Place> {
        let mut settled = None;
        while let Some((at, place)) = self.0.front()
            && now.duration_since(*at) >= after
        {
            settled = Some(*place);
            self.0.pop_front();
        }
        settled
    }

    pub(crate) fn forget(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_counts_when_it_is_old_enough() {
        let (start, second) = (Instant::now(), Duration::from_secs(1));
        let mut settling = Settling::default();
        settling.add(start, Place::start_of(1));
        settling.add(start + second, Place::start_of(2));
        assert_eq!(settling.settled(start, second), None);
        assert_eq!(
            settling.settled(start + second, second),
            Some(Place::start_of(1))
        );
        settling.extend(Place::start_of(9));
        assert_eq!(
            settling.settled(start + 5 * second, second),
            Some(Place::start_of(9))
        );
        assert!(settling.is_empty());
    }
}
