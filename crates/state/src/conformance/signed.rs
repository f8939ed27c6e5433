//! Rules about sessions of signed calls, workloads, and what executions used up.

use super::{Subject, Wrong, same};
use crate::{SavedSigned, SignedStatus, UsedCalls, Workload};

fn session(id: &str, execution: &str, created_ms: u64) -> SavedSigned {
    SavedSigned {
        id: id.to_owned(),
        execution: execution.to_owned(),
        agent: "agent-1".to_owned(),
        context: "code-assistant".to_owned(),
        workload: "w-1".to_owned(),
        tenant: "acme".to_owned(),
        owner: "caller-1".to_owned(),
        attested_by: "caller-1".to_owned(),
        vouched: String::new(),
        public_key: [7; 32],
        patterns: vec!["fs.*".to_owned(), "web.fetch".to_owned()],
        created_ms,
        expires_ms: created_ms + 1000,
        status: SignedStatus::Active,
        ended_ms: 0,
        reason: String::new(),
    }
}

fn used(tool: &str, calls: u64) -> UsedCalls {
    UsedCalls {
        execution: "e1".to_owned(),
        tool: tool.to_owned(),
        calls,
    }
}

pub(super) async fn an_execution_has_one_session_in_force(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let (first, second) = (session("j1", "e1", 10), session("j2", "e1", 20));
    store.begin_signed(&first, 0).await?;
    store.begin_signed(&second, 0).await?;
    store.begin_signed(&session("j3", "e2", 30), 0).await?;
    drop(store);
    let replaced = SavedSigned {
        status: SignedStatus::Revoked,
        ended_ms: 20,
        reason: "replaced".to_owned(),
        ..first
    };
    let kept = subject.open().await.signed_sessions().await?;
    same(
        "what is kept",
        kept,
        vec![replaced, second, session("j3", "e2", 30)],
    )
}

pub(super) async fn what_has_ended_stays_ended(subject: &dyn Subject) -> Result<(), Wrong> {
    let store = subject.open().await;
    store.begin_signed(&session("j1", "e1", 10), 0).await?;
    let end = |status, now_ms| store.end_signed("j1", status, "told so", now_ms);
    same("the end", end(SignedStatus::Revoked, 20).await?, true)?;
    same("another end", end(SignedStatus::Expired, 30).await?, false)?;
    same(
        "the end of nothing",
        store
            .end_signed("j2", SignedStatus::Expired, "", 30)
            .await?,
        false,
    )?;
    drop(store);
    let kept = subject.open().await.signed_sessions().await?;
    let ends: Vec<_> = kept
        .iter()
        .map(|kept| (kept.status, kept.ended_ms, kept.reason.as_str()))
        .collect();
    same(
        "how it ended",
        ends,
        vec![(SignedStatus::Revoked, 20, "told so")],
    )
}

pub(super) async fn a_workload_is_used_as_often_as_it_may_be(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let workload = Workload {
        id: "w1".to_owned(),
        digest: [3; 32],
        context: "code-assistant".to_owned(),
        agent: "agent-1".to_owned(),
        tenant: String::new(),
        made_by: "operator".to_owned(),
        created_ms: 10,
        expires_ms: 1000,
        uses_left: 3,
    };
    store.add_workload(&workload).await?;
    same(
        "the workload",
        store.workload("w1", 20).await?,
        Some(workload.clone()),
    )?;
    same(
        "a use after its time",
        store.use_workload("w1", 1000).await?,
        false,
    )?;
    let other = subject.open().await;
    let mut users = tokio::task::JoinSet::new();
    for (_, store) in (0..16).zip([store, other].iter().cycle()) {
        let store = store.clone();
        users.spawn(async move { store.use_workload("w1", 20).await });
    }
    let mut uses = 0;
    while let Some(is_used) = users.join_next().await {
        uses += usize::from(is_used??);
    }
    same("uses", uses, 3)?;
    let store = subject.open().await;
    same("what is left", store.workloads(20).await?, vec![])?;
    same("what is left of it", store.workload("w1", 20).await?, None)
}

pub(super) async fn what_was_used_up_stays_used_up(subject: &dyn Subject) -> Result<(), Wrong> {
    let store = subject.open().await;
    store.begin_signed(&session("j1", "e1", 10), 0).await?;
    store.use_calls(&[used("", 4), used("fs.read", 2)]).await?;
    store.use_calls(&[used("", 3), used("fs.read", 3)]).await?;
    drop(store);
    let store = subject.open().await;
    let mut found = store.used_calls_of("e1").await?;
    found.sort_by(|a, b| a.tool.cmp(&b.tool));
    let wanted = vec![used("", 4), used("fs.read", 3)];
    same("what it used up", found, wanted)?;
    same("all", store.used_calls().await?.len(), 2)?;
    same("of another", store.used_calls_of("e2").await?.len(), 0)
}

pub(super) async fn what_is_forgotten_goes_with_the_last_session(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    store.begin_signed(&session("j1", "e1", 10), 0).await?;
    store.use_calls(&[used("", 4)]).await?;
    store.begin_signed(&session("j2", "e1", 20), 21).await?;
    same("sessions", store.signed_sessions().await?.len(), 1)?;
    same("what is used up", store.used_calls_of("e1").await?.len(), 1)?;
    store
        .end_signed("j2", SignedStatus::Expired, "", 30)
        .await?;
    store.begin_signed(&session("j3", "e2", 40), 31).await?;
    same("sessions", store.signed_sessions().await?.len(), 1)?;
    same("what is used up", store.used_calls_of("e1").await?.len(), 0)
}
