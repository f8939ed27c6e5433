use bytes::Bytes;
use proptest::prelude::*;

use super::{EventId, MAX_BYTES, MAX_EVENTS, Replay};

fn id(stream: u64, place: u64) -> EventId {
    EventId { stream, place }
}

#[test]
fn ids_read_back_what_they_write_and_nothing_else() {
    assert_eq!(EventId::parse("3-14"), Some(id(3, 14)));
    assert_eq!(EventId::parse(&id(u64::MAX, 0).to_string()), Some(id(u64::MAX, 0)));
    for wrong in ["", "3", "3-", "-1", "3-x", "+3-1", "3--1", " 3-1", "3-1-1", "99999999999999999999-1"] {
        assert_eq!(EventId::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_stream_gets_back_only_its_own_later_events() {
    let mut replay = Replay::default();
    for place in 1..=3 {
        assert!(replay.keep(id(1, place), Bytes::from(format!("a{place}"))));
        assert!(replay.keep(id(2, place), Bytes::from(format!("b{place}"))));
    }
    assert_eq!(replay.after(id(1, 1)), ["a2", "a3"]);
    assert_eq!(replay.after(id(2, 3)), [""; 0]);
    assert!(replay.continues(id(1, 2)) && !replay.continues(id(1, 3)));
    assert!(replay.holds(2) && !replay.holds(3));
}

#[test]
fn an_event_larger_than_everything_is_not_kept() {
    let mut replay = Replay::default();
    assert!(!replay.keep(id(1, 1), Bytes::from(vec![0; MAX_BYTES + 1])));
    assert!(!replay.holds(1));
}

proptest! {
    /// Whatever is kept, both bounds hold, and what comes back is in order and without holes.
    #[test]
    fn bounds_and_order_hold(sizes in prop::collection::vec(0usize..MAX_BYTES / 4, 1..40), small in 0usize..2 * MAX_EVENTS) {
        let mut replay = Replay::default();
        let mut place = 0;
        for size in sizes.into_iter().chain(std::iter::repeat_n(1, small)) {
            place += 1;
            replay.keep(id(1, place), Bytes::from(vec![0; size]));
            prop_assert!(replay.kept.len() <= MAX_EVENTS && replay.bytes <= MAX_BYTES);
            prop_assert_eq!(replay.bytes, replay.kept.iter().map(|(_, frame)| frame.len()).sum::<usize>());
        }
        let places: Vec<u64> = replay.kept.iter().map(|(id, _)| id.place).collect();
        prop_assert!(places.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        prop_assert_eq!(places.last(), Some(&place));
    }
}
