use std::sync::Arc;

use proptest::prelude::*;
use vocab::{Integrity, Label, Level, Mark};

use super::{CONFIDENTIAL, any_mark, id};
use crate::{Session, Step};

proptest! {
    /// No value of a level can be sent below it: what one session may do after what it was shown.
    #[test]
    fn nothing_absorbed_can_be_sent_below_its_level(steps in prop::collection::vec((any_mark(), 0u8..4), 0..40)) {
        let session = Arc::new(Session::new());
        let mut highest = Level::Public;
        for (mark, rank) in steps {
            let ceiling = Level::from_rank(rank).unwrap();
            prop_assert_eq!(session.weigh(ceiling).is_ok(), highest <= ceiling);
            let step = Step::new("call", &session);
            prop_assert_eq!(session.weigh_step(ceiling, &step).is_ok(), highest <= ceiling);
            let after = session.absorb_step(&Label::of(mark, id("a")), &step).after();
            highest = highest.max(mark.secrecy);
            prop_assert_eq!(after.secrecy, highest);
            prop_assert_eq!(session.mark(), session.label().mark);
        }
    }

    #[test]
    fn the_label_only_rises(marks in prop::collection::vec(any_mark(), 0..40)) {
        let session = Arc::new(Session::new());
        for mark in marks {
            let before = session.mark();
            prop_assert_eq!(session.absorb(&Label::of(mark, id("a"))).after(), before.join(mark));
        }
    }

    /// Whatever was saved when: what may be shown is included in something that was saved, and what is included may be shown.
    #[test]
    fn what_may_be_shown_was_saved(steps in prop::collection::vec((any_mark(), 0usize..3, any::<bool>()), 0..40)) {
        let names = [id("a"), id("b"), id("c")];
        let session = Arc::new(Session::new());
        let (mut disk, mut waiting) = (Label::default(), Vec::new());
        for (mark, name, saves) in steps {
            let label = Label::of(mark, names[name].clone());
            waiting.push((session.absorb(&Label::of(mark, names[name].clone())), label));
            if saves && let Some(snapshot) = session.unsaved() {
                disk = snapshot.label.clone();
                session.saved(&snapshot);
            }
            let mut left = Vec::new();
            for (absorbed, label) in waiting {
                match absorbed.durable() {
                    Ok(_) => prop_assert_eq!(disk.clone().join(&label), disk.clone()),
                    Err(absorbed) => left.push((absorbed, label)),
                }
            }
            prop_assert!(left.is_empty() || session.unsaved().is_some());
            waiting = left;
        }
    }
}

#[test]
fn concurrent_absorbs_lose_nothing() {
    for _ in 0..200 {
        let session = Arc::new(Session::new());
        std::thread::scope(|scope| {
            for (name, level) in [
                ("a", Level::Internal),
                ("b", Level::Restricted),
                ("c", Level::Confidential),
            ] {
                let session = Arc::clone(&session);
                scope.spawn(move || {
                    drop(session.absorb(&Label::of(Mark::trusted(level), id(name))))
                });
            }
        });
        assert_eq!(session.mark().secrecy, Level::Restricted);
        assert_eq!(session.label().origins.len(), 3);
    }
}

#[test]
fn a_refused_weighing_names_both_sides() {
    let session = Arc::new(Session::new());
    drop(session.absorb(&Label::of(CONFIDENTIAL, id("notes"))));
    let refused = session.weigh(Level::Public).unwrap_err();
    assert_eq!(
        (refused.session.secrecy, refused.ceiling),
        (Level::Confidential, Level::Public)
    );
    assert!(session.weigh(Level::Confidential).is_ok());
}

#[test]
fn the_evidence_tells_what_the_session_had_read() {
    let session = Arc::new(Session::new());
    assert_eq!(
        session.weigh(Level::Public).unwrap().before().integrity,
        Integrity::Trusted
    );
    let anyones = Mark {
        secrecy: Level::Public,
        integrity: Integrity::Untrusted,
    };
    drop(session.absorb(&Label::of(anyones, id("page"))));
    assert_eq!(
        session.weigh(Level::Public).unwrap().before().integrity,
        Integrity::Untrusted
    );
}

#[test]
fn who_finds_nothing_new_still_waits_for_the_save_under_way() {
    let session = Arc::new(Session::new());
    let first = session.absorb(&Label::of(CONFIDENTIAL, id("notes")));
    let under_way = session.unsaved().unwrap();
    let second = session
        .absorb(&Label::of(CONFIDENTIAL, id("notes")))
        .durable()
        .unwrap_err();
    session.saved(&under_way);
    assert!(first.durable().is_ok() && second.durable().is_ok());
    // A rise after the snapshot was taken is not in it.
    let third = session.absorb(&Label::of(Mark::trusted(Level::Restricted), id("notes")));
    session.saved(&under_way);
    assert!(third.durable().is_err());
}

#[test]
fn a_restored_session_is_as_it_was_and_needs_no_saving() {
    let label = Label::of(CONFIDENTIAL, id("notes"));
    let session = Arc::new(Session::restore(label.clone(), 7, "call-9"));
    assert_eq!(
        (
            session.label(),
            session.epoch(),
            &*session.head(),
            session.unsaved()
        ),
        (label, 7, "call-9", None)
    );
    assert!(session.weigh(Level::Internal).is_err());
    assert!(
        session
            .absorb(&Label::of(CONFIDENTIAL, id("notes")))
            .durable()
            .is_ok()
    );
}

#[test]
fn calls_are_counted_once_and_only_if_they_may_go_on() {
    let session = Arc::new(Session::new());
    let step = Step::new("a", &session);
    session.weigh_step(Level::Public, &step).unwrap();
    session.weigh_step(Level::Public, &step).unwrap();
    assert_eq!(
        session.calls(),
        1,
        "an answer in the middle of a call is not another call"
    );
    drop(session.absorb(&Label::of(CONFIDENTIAL, id("notes"))));
    session
        .weigh_step(Level::Public, &Step::new("b", &session))
        .unwrap_err();
    assert_eq!(session.calls(), 1);
}
