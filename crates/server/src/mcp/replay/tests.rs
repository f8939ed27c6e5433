use gateway::{Pass, Source};
use proptest::prelude::*;

use super::{Bytes, EventId, FRAME, MAX_BYTES, MAX_EVENTS, Parcel, Replay};

/// There is always room.
fn anywhere(text: Vec<u8>) -> Option<Bytes> {
    Some(text.into())
}

/// What came after an event; nothing here holds words of a server.
fn after(replay: &Replay, id: EventId) -> Vec<String> {
    let again = |_: &Source| -> Option<Pass> { None };
    let later = replay.after(id, again).unwrap();
    later
        .iter()
        .map(|frame| String::from_utf8(frame.to_vec()).unwrap())
        .collect()
}

fn id(stream: u64, place: u64) -> EventId {
    EventId { stream, place }
}

#[test]
fn ids_read_back_what_they_write_and_nothing_else() {
    assert_eq!(EventId::parse("3-14"), Some(id(3, 14)));
    assert_eq!(
        EventId::parse(&id(u64::MAX, 0).to_string()),
        Some(id(u64::MAX, 0))
    );
    for wrong in [
        "",
        "3",
        "3-",
        "-1",
        "3-x",
        "+3-1",
        "3--1",
        " 3-1",
        "3-1-1",
        "99999999999999999999-1",
    ] {
        assert_eq!(EventId::parse(wrong), None, "{wrong}");
    }
}

#[test]
fn a_stream_gets_back_only_its_own_later_events() {
    let mut replay = Replay::default();
    for place in 1..=3 {
        replay.keep(id(1, place), &Parcel::from(format!("a{place}")), anywhere);
        replay.keep(id(2, place), &Parcel::from(format!("b{place}")), anywhere);
    }
    assert_eq!(after(&replay, id(1, 1)), ["a2", "a3"]);
    assert_eq!(after(&replay, id(2, 3)), [""; 0]);
    assert!(replay.continues(id(1, 2)) && !replay.continues(id(1, 3)));
    assert!(replay.holds(2) && !replay.holds(3));
}

#[test]
fn an_event_larger_than_everything_is_known_to_be() {
    assert!(Replay::is_too_large(&Parcel::from(vec![0; MAX_BYTES])));
    assert!(!Replay::is_too_large(&Parcel::from(vec![
        0;
        MAX_BYTES - FRAME
    ])));
}

#[test]
fn what_finds_no_room_beside_older_events_takes_their_place() {
    let mut replay = Replay::default();
    replay.keep(id(1, 1), &Parcel::from("first"), anywhere);
    let tries = std::cell::Cell::new(0);
    let after_one = |text: Vec<u8>| (tries.replace(tries.get() + 1) > 0).then(|| text.into());
    replay.keep(id(1, 2), &Parcel::from("second"), after_one);
    assert_eq!(after(&replay, id(1, 0)), ["second"]);
    replay.keep(id(1, 3), &Parcel::from("third"), |_| None);
    assert!(!replay.holds(1), "nothing before it is kept either");
    assert_eq!(replay.bytes, 0);
}

proptest! {
    /// Whatever is kept, both bounds hold, and what comes back is in order and without holes.
    #[test]
    fn bounds_and_order_hold(sizes in prop::collection::vec(0usize..MAX_BYTES / 4, 1..40), small in 0usize..2 * MAX_EVENTS) {
        let mut replay = Replay::default();
        let mut place = 0;
        for size in sizes.into_iter().chain(std::iter::repeat_n(1, small)) {
            place += 1;
            replay.keep(id(1, place), &Parcel::from(vec![b'x'; size]), anywhere);
            prop_assert!(replay.kept.len() <= MAX_EVENTS && replay.bytes <= MAX_BYTES);
            prop_assert_eq!(replay.bytes, replay.kept.iter().map(|kept| kept.frame.len()).sum::<usize>());
        }
        let places: Vec<u64> = replay.kept.iter().map(|kept| kept.id.place).collect();
        prop_assert!(places.windows(2).all(|pair| pair[0] + 1 == pair[1]));
        prop_assert_eq!(places.last(), Some(&place));
    }
}
