//! Places for what is under way at once.
//!
//! A limit is said when a place is asked for, not when the places are made: it can be changed while some are taken, and nobody who
//! has one loses it.
//!
//! **Invariant: whoever comes finds a place.** One party, a caller or a server, may hold at most twice as many places as are free. So the
//! more are taken, the fewer anybody may add, and however many parties take all they can, some places are left: with one of them a third,
//! with two a fifth, with `n` one in `2n + 1`. Tests `however_many_take_all_they_can_whoever_comes_finds_a_place`,
//! `a_slow_server_and_greedy_callers_leave_places_for_others`.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Fewer places than this are not worth sharing: first come, first served.
const SHARED_FROM: usize = 16;

#[derive(Debug, Default)]
pub struct Places(AtomicUsize);

/// Given back when it is dropped.
#[derive(Debug)]
pub struct Taken(Arc<Places>);

impl Places {
    /// A place, unless as many as `most` are taken.
    pub fn take(self: &Arc<Self>, most: usize) -> Option<Taken> {
        let more = |taken: usize| (taken < most).then_some(taken + 1);
        self.0
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .ok()
            .map(|_| Taken(Arc::clone(self)))
    }

    /// A place for somebody who had one, stepped aside and comes back: never refused. Whoever is new waits until there are fewer again.
    pub fn take_again(self: &Arc<Self>) -> Taken {
        self.0.fetch_add(1, Ordering::AcqRel);
        Taken(Arc::clone(self))
    }

    /// A place among those of one party, which share `all`.
    pub fn take_share(self: &Arc<Self>, most: usize, all: &Self, of_all: usize) -> Option<Taken> {
        let free = of_all.saturating_sub(all.taken());
        let share = if of_all < SHARED_FROM {
            most
        } else {
            most.min(free.saturating_mul(2))
        };
        self.take(share)
    }

    pub fn taken(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Places;

    /// Parties that take whatever they can get.
    fn greedy(parties: usize, of_all: usize) -> (Arc<Places>, Vec<super::Taken>) {
        let all = Arc::new(Places::default());
        let shares: Vec<Arc<Places>> = (0..parties).map(|_| Arc::default()).collect();
        let mut held = Vec::new();
        loop {
            let before = held.len();
            for share in &shares {
                if let (Some(own), Some(one)) =
                    (share.take_share(usize::MAX, &all, of_all), all.take(of_all))
                {
                    held.extend([own, one]);
                }
            }
            if held.len() == before {
                return (all, held);
            }
        }
    }

    #[test]
    fn however_many_take_all_they_can_whoever_comes_finds_a_place() {
        for parties in 1..40 {
            let (all, _held) = greedy(parties, 256);
            let free = 256 - all.taken();
            assert!(free >= 256 / (2 * parties + 1), "{parties} leave {free}");
            assert!(
                Arc::<Places>::default().take_share(64, &all, 256).is_some(),
                "{parties}"
            );
        }
        assert_eq!(greedy(1, 4).0.taken(), 4, "a few places are not shared");
    }

    #[test]
    fn a_limit_can_change_while_places_are_taken() {
        let places = Arc::new(Places::default());
        let held: Vec<_> = (0..3).map(|_| places.take(3).unwrap()).collect();
        assert!(places.take(3).is_none());
        let fourth = places.take(4).unwrap();
        assert!(
            places.take(1).is_none(),
            "a lower limit holds for who comes next"
        );
        drop(held);
        assert_eq!(places.taken(), 1);
        assert!(places.take(1).is_none());
        drop(fourth);
        assert!(places.take(1).is_some());
    }
}
