use std::sync::Arc;

use proptest::prelude::*;
use vocab::{Integrity, Level, Mark, ServerId};

use crate::Session;

fn any_mark() -> impl Strategy<Value = Mark> {
    (0u8..4, any::<bool>()).prop_map(|(rank, untrusted)| Mark {
        secrecy: Level::from_rank(rank).unwrap(),
        integrity: if untrusted { Integrity::Untrusted } else { Integrity::Trusted },
    })
}

proptest! {
    /// No value of a level can reach a server below it: the noninterference property of one session.
    #[test]
    fn nothing_absorbed_can_be_sent_below_its_level(steps in prop::collection::vec((any_mark(), 0u8..4), 0..40)) {
        let session = Session::new();
        let origin = ServerId::parse("a").unwrap();
        let mut highest = Level::Public;
        for (mark, rank) in steps {
            let ceiling = Level::from_rank(rank).unwrap();
            prop_assert_eq!(session.weigh(ceiling).is_ok(), highest <= ceiling);
            let after = session.absorb(mark, &origin);
            highest = highest.max(mark.secrecy);
            prop_assert_eq!(after.secrecy, highest);
            prop_assert_eq!(session.mark(), session.label().mark);
        }
    }

    #[test]
    fn the_label_only_rises(marks in prop::collection::vec(any_mark(), 0..40)) {
        let session = Session::new();
        let origin = ServerId::parse("a").unwrap();
        for mark in marks {
            let before = session.mark();
            let after = session.absorb(mark, &origin);
            prop_assert_eq!(after, before.join(mark));
        }
    }
}

#[test]
fn concurrent_absorbs_lose_nothing() {
    for _ in 0..200 {
        let session = Arc::new(Session::new());
        std::thread::scope(|scope| {
            for (name, level) in [("a", Level::Internal), ("b", Level::Restricted), ("c", Level::Confidential)] {
                let session = Arc::clone(&session);
                scope.spawn(move || session.absorb(Mark::trusted(level), &ServerId::parse(name).unwrap()));
            }
        });
        assert_eq!(session.mark().secrecy, Level::Restricted);
        assert_eq!(session.label().origins.len(), 3);
    }
}

#[test]
fn a_refused_weighing_names_both_sides() {
    let session = Session::new();
    session.absorb(Mark::trusted(Level::Confidential), &ServerId::parse("notes").unwrap());
    let refused = session.weigh(Level::Public).unwrap_err();
    assert_eq!((refused.session.secrecy, refused.ceiling), (Level::Confidential, Level::Public));
    assert!(session.weigh(Level::Confidential).is_ok());
}
