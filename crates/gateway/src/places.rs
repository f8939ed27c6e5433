//! Places for what is under way at once.
//!
//! A limit is said when a place is asked for, not when the places are made: it can be changed while some are taken, and nobody who
//! has one loses it.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

#[derive(Debug, Default)]
pub(crate) struct Places(AtomicUsize);

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Taken(Arc<Places>);

impl Places {
    /// A place, unless as many as `most` are taken.
    pub(crate) fn take(self: &Arc<Self>, most: usize) -> Option<Taken> {
        let more = |taken: usize| (taken < most).then_some(taken + 1);
        self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).ok().map(|_| Taken(Arc::clone(self)))
    }

    /// A place for somebody who had one, stepped aside and comes back: never refused. Whoever is new waits until there are fewer again.
    pub(crate) fn take_again(self: &Arc<Self>) -> Taken {
        self.0.fetch_add(1, Ordering::AcqRel);
        Taken(Arc::clone(self))
    }

    pub(crate) fn taken(&self) -> usize {
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

    #[test]
    fn a_limit_can_change_while_places_are_taken() {
        let places = Arc::new(Places::default());
        let held: Vec<_> = (0..3).map(|_| places.take(3).unwrap()).collect();
        assert!(places.take(3).is_none());
        let fourth = places.take(4).unwrap();
        assert!(places.take(1).is_none(), "a lower limit holds for who comes next");
        drop(held);
        assert_eq!(places.taken(), 1);
        assert!(places.take(1).is_none());
        drop(fourth);
        assert!(places.take(1).is_some());
    }
}
