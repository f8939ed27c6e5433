//! Rules about labels.

use vocab::{Integrity, Label, Level, Mark, ServerId};

use super::{Subject, Wrong, same};
use crate::{ArchivedSession, SavedSession, Written};

pub(super) fn label(level: Level, integrity: Integrity, origins: &[&str]) -> Label {
    let mark = Mark {
        secrecy: level,
        integrity,
    };
    let origins = origins.iter().filter_map(|id| ServerId::parse(id).ok());
    Label {
        mark,
        origins: origins.collect(),
    }
}

fn session(epoch: u64, label: Label) -> SavedSession {
    SavedSession {
        caller: "caller-1".to_owned(),
        epoch,
        label,
        head: format!("call-{epoch}"),
    }
}

pub(super) async fn a_rise_is_still_there_when_the_store_is_opened_again(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let mut raised = session(0, label(Level::Confidential, Integrity::Untrusted, &["a"]));
    // The gate's own tools are an origin like any other.
    raised.label.origins.insert(ServerId::built_in());
    let store = subject.open().await;
    same("a rise", store.raise(&raised).await?, Written::Yes)?;
    drop(store);
    let store = subject.open().await;
    let found = store.session("caller-1").await?;
    same("the session", found, Some(raised.clone()))?;
    same("all sessions", store.sessions().await?, vec![raised])?;
    same(
        "the session of nobody",
        store.session("caller-2").await?,
        None,
    )
}

pub(super) async fn a_label_never_falls_within_an_epoch(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let parts = [
        label(Level::Internal, Integrity::Untrusted, &["a"]),
        label(Level::Restricted, Integrity::Trusted, &["b"]),
        label(Level::Public, Integrity::Trusted, &[]),
        label(Level::Confidential, Integrity::Trusted, &["c"]),
    ];
    let mut join = Label::default();
    for part in parts {
        join.join_in(&part);
        store.raise(&session(3, part)).await?;
        let found = store.session("caller-1").await?;
        same(
            "the label",
            found.map(|found| found.label),
            Some(join.clone()),
        )?;
    }
    Ok(())
}

pub(super) async fn rises_at_the_same_time_lose_nothing(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let handles = [subject.open().await, subject.open().await];
    let mut join = Label::default();
    let mut rises = tokio::task::JoinSet::new();
    for (number, store) in (0..32).zip(handles.iter().cycle()) {
        let part = label(
            Level::Internal,
            Integrity::Trusted,
            &[&format!("s{number}")],
        );
        join.join_in(&part);
        let (store, session) = (store.clone(), session(0, part));
        rises.spawn(async move { store.raise(&session).await });
    }
    while let Some(raised) = rises.join_next().await {
        same("a rise", raised??, Written::Yes)?;
    }
    let found = subject.open().await.session("caller-1").await?;
    same(
        "what all raised",
        found.map(|found| found.label),
        Some(join),
    )
}

pub(super) async fn an_earlier_epoch_changes_nothing_and_a_later_one_replaces(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let low = session(5, label(Level::Internal, Integrity::Trusted, &["a"]));
    store.raise(&low).await?;
    let earlier = session(4, label(Level::Restricted, Integrity::Untrusted, &["b"]));
    same(
        "a rise in epoch 4 after 5",
        store.raise(&earlier).await?,
        Written::NewerIs(5),
    )?;
    same(
        "the session",
        store.session("caller-1").await?,
        Some(low.clone()),
    )?;
    let later = session(6, label(Level::Public, Integrity::Trusted, &["c"]));
    same("a later epoch", store.raise(&later).await?, Written::Yes)?;
    same("the session", store.session("caller-1").await?, Some(later))
}

pub(super) async fn a_reset_archives_and_begins_or_does_neither(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let before = session(1, label(Level::Restricted, Integrity::Untrusted, &["a"]));
    store.raise(&before).await?;
    let ended = ArchivedSession {
        session: before.clone(),
        who: "ann".to_owned(),
        reason: "a new task".to_owned(),
        at_ms: 10,
    };
    for (epoch, label) in [(0, Label::default()), (1, Label::default())] {
        let begun = session(epoch, label);
        same(
            "a reset to no later epoch",
            store.reset(&ended, &begun).await?,
            Written::NewerIs(1),
        )?;
    }
    same("the archive", store.archived_sessions(None).await?, vec![])?;
    same(
        "the session",
        store.session("caller-1").await?,
        Some(before),
    )?;
    let begun = session(2, label(Level::Internal, Integrity::Trusted, &["b"]));
    same("a reset", store.reset(&ended, &begun).await?, Written::Yes)?;
    drop(store);
    let store = subject.open().await;
    same("the session", store.session("caller-1").await?, Some(begun))?;
    same(
        "the archive",
        store.archived_sessions(Some("caller-1")).await?,
        vec![ended],
    )?;
    same(
        "another's archive",
        store.archived_sessions(Some("caller-2")).await?,
        vec![],
    )
}

/// What was acknowledged to one gate is in what any gate reads after.
pub(super) async fn what_one_handle_saved_the_other_reads(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let (one, other) = (subject.open().await, subject.open().await);
    for (epoch, level) in [
        (0, Level::Internal),
        (0, Level::Restricted),
        (1, Level::Public),
    ] {
        let saved = session(epoch, label(level, Integrity::Trusted, &["a"]));
        one.raise(&saved).await?;
        same(
            "what the other reads",
            other.session("caller-1").await?,
            Some(saved),
        )?;
    }
    Ok(())
}
