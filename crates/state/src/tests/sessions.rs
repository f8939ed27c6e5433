use std::sync::Arc;

use flow::Session;
use proptest::prelude::*;
use vocab::{Integrity, Label, Level, Mark, ServerId};

use super::partly;
use super::with_driver;
use crate::{SavedSession, Sqlite, State, StateError};

fn id(name: &str) -> ServerId {
    ServerId::parse(name).unwrap()
}

fn saved(caller: &str, epoch: u64, level: Level, origins: &[&str]) -> SavedSession {
    let label = Label {
        mark: Mark::trusted(level),
        origins: origins.iter().map(|name| id(name)).collect(),
    };
    SavedSession {
        caller: caller.into(),
        epoch,
        label,
        head: "h".into(),
    }
}

#[tokio::test]
async fn a_session_comes_back_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let mut one = saved("c1", 3, Level::Confidential, &["github", "notes"]);
    one.label.mark.integrity = Integrity::Untrusted;
    let two = saved("c2", 0, Level::Public, &[]);
    {
        let state = State::open(&file).await.unwrap();
        state.save_session(&one).await.unwrap();
        state.save_session(&two).await.unwrap();
    }
    assert_eq!(
        State::open(&file).await.unwrap().sessions().await.unwrap(),
        [one, two]
    );
}

#[tokio::test]
async fn an_older_epoch_is_refused_and_a_newer_one_replaces() {
    let state = State::in_memory().await.unwrap();
    state
        .save_session(&saved("c1", 1, Level::Restricted, &["a"]))
        .await
        .unwrap();
    let Err(StateError::Superseded {
        saved: 1, given: 0, ..
    }) = state
        .save_session(&saved("c1", 0, Level::Public, &[]))
        .await
    else {
        panic!()
    };
    let newer = saved("c1", 2, Level::Internal, &["b"]);
    state.save_session(&newer).await.unwrap();
    assert_eq!(state.sessions().await.unwrap(), [newer]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever is saved in whatever order, the row holds the join of what was saved in the newest epoch.
    #[test]
    fn a_saved_label_never_falls(saves in prop::collection::vec((0u64..3, 0u8..4, any::<bool>(), 0usize..4), 1..24)) {
        let names = ["a", "b", "c", "d"];
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let state = State::in_memory().await.unwrap();
            let mut expected: Option<(u64, Label)> = None;
            for (epoch, rank, untrusted, name) in saves {
                let mut session = saved("c1", epoch, Level::from_rank(rank).unwrap(), &[names[name]]);
                session.label.mark.integrity = if untrusted { Integrity::Untrusted } else { Integrity::Trusted };
                let result = state.save_session(&session).await;
                match &mut expected {
                    Some((newest, _)) if epoch < *newest => assert!(result.is_err()),
                    Some((newest, label)) if epoch == *newest => *label = label.clone().join(&session.label),
                    _ => expected = Some((epoch, session.label)),
                }
                let found = state.sessions().await.unwrap().pop().unwrap();
                assert_eq!(Some((found.epoch, found.label)), expected);
            }
        });
    }
}

/// The schema holds it too: the statements above are not the only guard.
#[tokio::test]
async fn the_schema_itself_refuses_to_lower_or_forget() {
    let (state, sqlite) = with_driver(Sqlite::in_memory().await.unwrap());
    state
        .save_session(&saved("c1", 1, Level::Confidential, &["a"]))
        .await
        .unwrap();
    let mut turn = sqlite.turn().await.unwrap();
    let connection = turn.connection();
    for sql in [
        "UPDATE session SET secrecy = 1",
        "UPDATE session SET epoch = 0, secrecy = 3",
        "DELETE FROM session",
    ] {
        let error = sqlx::query(sql)
            .execute(&mut *connection)
            .await
            .unwrap_err()
            .to_string();
        assert!(error.contains("never"), "{sql}: {error}");
    }
    sqlx::query("UPDATE session SET secrecy = 3")
        .execute(&mut *connection)
        .await
        .unwrap();
}

#[tokio::test]
async fn a_rise_is_in_the_file_before_it_may_be_shown() {
    let state = State::in_memory().await.unwrap();
    let session = Arc::new(Session::new());
    let showable = state
        .keep(
            "c1",
            session.absorb(&Label::of(Mark::trusted(Level::Internal), id("notes"))),
        )
        .await
        .unwrap();
    assert_eq!(showable.after(), Mark::trusted(Level::Internal));
    assert_eq!(
        state.sessions().await.unwrap(),
        [SavedSession {
            head: String::new(),
            ..saved("c1", 0, Level::Internal, &["notes"])
        }]
    );
    // The same again is known to be durable.
    assert!(
        session
            .absorb(&Label::of(Mark::trusted(Level::Internal), id("notes")))
            .durable()
            .is_ok()
    );
    // A new origin is not, though the level is no higher.
    assert!(
        session
            .absorb(&Label::of(Mark::trusted(Level::Public), id("other")))
            .durable()
            .is_err()
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_rises_at_once_are_all_in_the_file() {
    let state = State::in_memory().await.unwrap();
    let session = Arc::new(Session::new());
    let tasks: Vec<_> = (0..64)
        .map(|n: u8| {
            let (state, session) = (state.clone(), Arc::clone(&session));
            tokio::spawn(async move {
                let (level, origin) =
                    (Level::from_rank(n % 4).unwrap(), id(&format!("s{}", n % 8)));
                let showable = state
                    .keep(
                        "c1",
                        session.absorb(&Label::of(Mark::trusted(level), origin.clone())),
                    )
                    .await
                    .unwrap();
                let saved = state.sessions().await.unwrap().pop().unwrap();
                assert!(saved.label.mark.secrecy >= level && saved.label.origins.contains(&origin));
                drop(showable);
            })
        })
        .collect();
    for task in tasks {
        task.await.unwrap();
    }
    assert_eq!(
        state.sessions().await.unwrap().pop().unwrap().label,
        session.label()
    );
}

#[tokio::test]
async fn a_label_that_cannot_be_saved_shows_nothing_and_stays_raised() {
    let (state, sqlite) = with_driver(Sqlite::in_memory().await.unwrap());
    sqlx::query("PRAGMA query_only = ON")
        .execute(sqlite.turn().await.unwrap().connection())
        .await
        .unwrap();
    let session = Arc::new(Session::new());
    let refused = state
        .keep(
            "c1",
            session.absorb(&Label::of(Mark::trusted(Level::Restricted), id("a"))),
        )
        .await
        .unwrap_err();
    assert!(matches!(refused, StateError::ReadOnly { .. }), "{refused}");
    assert_eq!(session.mark().secrecy, Level::Restricted);
    // The next call that comes to the same label must not take it for saved.
    assert!(
        session
            .absorb(&Label::of(Mark::trusted(Level::Restricted), id("a")))
            .durable()
            .is_err()
    );
}

#[tokio::test]
async fn a_reset_archives_what_was_and_begins_clean() {
    let state = State::in_memory().await.unwrap();
    let session = Arc::new(Session::restore(Label::default(), 4, ""));
    let step = flow::Step::new("call-1", &session);
    drop(
        state
            .keep(
                "c1",
                session.absorb_step(&Label::of(Mark::trusted(Level::Restricted), id("a")), &step),
            )
            .await
            .unwrap(),
    );
    let reset = state
        .reset("c1", &session, "ann", "a new task", 77)
        .await
        .unwrap();
    assert_eq!(
        (reset.ended.epoch, reset.begun.epoch, session.epoch()),
        (4, 5, 5)
    );
    assert_eq!(session.label(), Label::default());
    assert_eq!(
        state.sessions().await.unwrap(),
        [SavedSession {
            head: String::new(),
            ..saved("c1", 5, Level::Public, &[])
        }]
    );
    let archived = state
        .archived_sessions(Some("c1"))
        .await
        .unwrap()
        .pop()
        .unwrap();
    assert_eq!(
        archived.session,
        SavedSession {
            head: "call-1".into(),
            ..saved("c1", 4, Level::Restricted, &["a"])
        }
    );
    assert_eq!(
        (
            archived.who.as_str(),
            archived.reason.as_str(),
            archived.at_ms
        ),
        ("ann", "a new task", 77)
    );
    assert_eq!(state.archived_sessions(Some("c2")).await.unwrap(), []);
}

#[tokio::test]
async fn what_is_about_to_be_shown_begins_the_new_epoch_in_the_file_too() {
    let state = State::in_memory().await.unwrap();
    let session = Arc::new(Session::new());
    let low = state
        .keep(
            "c1",
            session.absorb(&Label::of(Mark::trusted(Level::Internal), id("low"))),
        )
        .await
        .unwrap();
    drop(
        state
            .keep(
                "c1",
                session.absorb(&Label::of(Mark::trusted(Level::Restricted), id("gone"))),
            )
            .await
            .unwrap(),
    );
    state.reset("c1", &session, "ann", "", 1).await.unwrap();
    assert_eq!(
        state.sessions().await.unwrap().pop().unwrap().label,
        Label::of(Mark::trusted(Level::Internal), id("low"))
    );
    drop(low);
}

#[tokio::test]
async fn a_reset_that_cannot_be_saved_changes_no_label() {
    let (state, sqlite) = with_driver(Sqlite::in_memory().await.unwrap());
    let session = Arc::new(Session::new());
    drop(
        state
            .keep(
                "c1",
                session.absorb(&Label::of(Mark::trusted(Level::Restricted), id("a"))),
            )
            .await
            .unwrap(),
    );
    let before = session.label();
    sqlx::query("PRAGMA query_only = ON")
        .execute(sqlite.turn().await.unwrap().connection())
        .await
        .unwrap();
    state.reset("c1", &session, "ann", "", 1).await.unwrap_err();
    assert_eq!(session.label(), before);
    sqlx::query("PRAGMA query_only = OFF")
        .execute(sqlite.turn().await.unwrap().connection())
        .await
        .unwrap();
    assert_eq!(state.sessions().await.unwrap().pop().unwrap().label, before);
    drop(
        state
            .keep(
                "c1",
                session.absorb(&Label::of(Mark::trusted(Level::Public), id("b"))),
            )
            .await
            .unwrap(),
    );
    assert_eq!(
        state.sessions().await.unwrap().pop().unwrap().label,
        session.label()
    );
}

#[tokio::test]
async fn a_reset_whose_asker_went_away_is_whole_or_changes_no_label() {
    let dir = tempfile::tempdir().unwrap();
    let state = State::open(&dir.path().join("state.db")).await.unwrap();
    let (mut begun, mut taken_back) = (0, 0);
    for n in 0..40 {
        let (caller, session) = (format!("c{n}"), Arc::new(Session::new()));
        drop(
            state
                .keep(
                    &caller,
                    session.absorb(&Label::of(Mark::trusted(Level::Restricted), id("a"))),
                )
                .await
                .unwrap(),
        );
        let is_done = partly(1 + n % 10, state.reset(&caller, &session, "ann", "", 1)).await;
        let archived = state.archived_sessions(Some(&caller)).await.unwrap().len();
        if is_done {
            begun += 1;
            assert_eq!((archived, session.mark()), (1, Mark::default()));
        } else {
            taken_back += 1;
            assert_eq!(session.mark(), Mark::trusted(Level::Restricted));
            // If its last word reached the disk all the same, the label is not taken for saved.
            assert!(session.unsaved().is_some());
        }
        drop(
            state
                .keep(
                    &caller,
                    session.absorb(&Label::of(Mark::default(), id("b"))),
                )
                .await
                .unwrap(),
        );
        let saved = state
            .sessions()
            .await
            .unwrap()
            .into_iter()
            .find(|saved| saved.caller == caller)
            .unwrap();
        assert_eq!(
            (saved.epoch, saved.label),
            (session.epoch(), session.label())
        );
    }
    assert!(
        begun > 0 && taken_back > 0,
        "both kinds were tried: {begun}, {taken_back}"
    );
}

#[tokio::test]
async fn a_session_nobody_holds_is_reset_in_the_file() {
    let state = State::in_memory().await.unwrap();
    assert_eq!(
        state.reset_session("c1", 1, "ann", "", 5).await.unwrap(),
        None
    );
    let old = saved("c1", 0, Level::Confidential, &["a"]);
    state.save_session(&old).await.unwrap();
    assert!(
        state.reset_session("c1", 0, "ann", "", 5).await.is_err(),
        "an epoch is not begun twice"
    );
    assert_eq!(
        state
            .reset_session("c1", 1, "ann", "", 5)
            .await
            .unwrap()
            .unwrap()
            .session,
        old
    );
    assert_eq!(
        state.sessions().await.unwrap(),
        [SavedSession {
            head: String::new(),
            ..saved("c1", 1, Level::Public, &[])
        }]
    );
}
