use std::sync::Arc;

use vocab::{Label, Level, Mark};

use super::{CONFIDENTIAL, id};
use crate::{Session, Step};

fn tainted() -> Arc<Session> {
    let session = Arc::new(Session::new());
    drop(session.absorb(&Label::of(CONFIDENTIAL, id("notes"))));
    session
}

#[test]
fn a_reset_begins_clean_and_tells_what_it_ended() {
    let session = tainted();
    let step = Step::new("call-1", &session);
    drop(session.absorb_step(&Label::of(CONFIDENTIAL, id("notes")), &step));
    let reset = session.reset();
    assert_eq!(
        (reset.ended.epoch, reset.ended.head.as_str()),
        (0, "call-1")
    );
    assert_eq!(reset.ended.label, Label::of(CONFIDENTIAL, id("notes")));
    assert_eq!(
        (
            session.epoch(),
            session.label(),
            &*session.head(),
            session.calls()
        ),
        (1, Label::default(), "", 0)
    );
    assert_eq!(
        session.unsaved().unwrap(),
        reset.begun,
        "the new epoch is not durable by itself"
    );
    assert!(
        session
            .weigh_step(Level::Public, &Step::new("call-2", &session))
            .is_ok()
    );
}

#[test]
fn a_result_that_comes_after_the_reset_raises_the_new_epoch() {
    let session = Arc::new(Session::new());
    let step = Step::new("call-1", &session);
    session.weigh_step(Level::Confidential, &step).unwrap();
    let _reset = session.reset();
    let absorbed = session.absorb_step(&Label::of(CONFIDENTIAL, id("notes")), &step);
    assert_eq!((session.mark(), step.epoch()), (CONFIDENTIAL, 1));
    assert!(absorbed.durable().is_err());
}

#[test]
fn a_result_that_is_on_its_way_begins_the_new_epoch() {
    let session = tainted();
    let step = Step::new("call-1", &session);
    let internal = session.absorb_step(
        &Label::of(Mark::trusted(Level::Internal), id("wiki")),
        &step,
    );
    let reset = session.reset();
    assert_eq!(
        reset.begun.label,
        Label::of(Mark::trusted(Level::Internal), id("wiki")),
        "of what has left, nothing"
    );
    assert_eq!(
        reset.begun.head, "call-1",
        "what is shown next may derive from it"
    );
    assert_eq!(session.on_its_way(), Mark::trusted(Level::Internal));
    session.saved(&reset.begun);
    let showable = internal.durable().unwrap();
    assert_eq!(
        session.reset().begun.label.mark.secrecy,
        Level::Internal,
        "it is still held"
    );
    drop(showable);
    assert_eq!(session.reset().begun.label, Label::default());
}

#[test]
fn a_call_that_arrived_before_the_reset_is_weighed_against_both() {
    let session = tainted();
    let early = Step::new("early", &session);
    let _reset = session.reset();
    let refused = session.weigh_step(Level::Internal, &early).unwrap_err();
    assert_eq!(refused.session, CONFIDENTIAL);
    assert!(session.weigh_step(Level::Confidential, &early).is_ok());
    assert!(
        session
            .weigh_step(Level::Internal, &Step::new("late", &session))
            .is_ok()
    );
}

#[test]
fn what_influenced_an_early_call_is_not_forgotten_either() {
    let session = Arc::new(Session::new());
    drop(session.absorb_step(
        &Label::of(CONFIDENTIAL, id("notes")),
        &Step::new("old", &session),
    ));
    let early = Step::new("early", &session);
    let _reset = session.reset();
    session.weigh_step(Level::Confidential, &early).unwrap();
    assert_eq!(&*early.after(), "old");
}

#[test]
fn a_reset_taken_back_leaves_the_label_and_its_rises() {
    let session = tainted();
    let before = session.label();
    let reset = session.reset();
    drop(session.absorb(&Label::of(Mark::trusted(Level::Internal), id("wiki"))));
    session.take_back(&reset);
    assert_eq!(
        session.label(),
        before.join(&Label::of(Mark::trusted(Level::Internal), id("wiki")))
    );
    assert_eq!(
        session.unsaved().unwrap().label,
        session.label(),
        "all of it is to be saved again"
    );
}
