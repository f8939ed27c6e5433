//! Rules about approvals. A question here expires at 1000.

use super::{Subject, Wrong, same};
use crate::{Approval, ApprovalState, PersonsAnswer, Placed, Question, Store};

fn question(digest: u8, ids: &[&str]) -> Question {
    Question {
        approval: Approval {
            id: String::new(),
            digest: [digest; 32],
            state: ApprovalState::Pending,
            caller: "caller-1".to_owned(),
            caller_name: "claude".to_owned(),
            action: "tools/call".to_owned(),
            server: "github".to_owned(),
            target: "create_issue".to_owned(),
            definition: "d".repeat(64),
            arguments: "{\"title\":\"\\u001b[31m\"}".to_owned(),
            label: "CONFIDENTIAL+untrusted".to_owned(),
            lineage: vec!["call-1".to_owned(), "call-2".to_owned()],
            why: vec!["it was read from outside".to_owned()],
            bundle: "balanced@1".to_owned(),
            asked_ms: 10,
            expires_ms: 1000,
            answered_by: String::new(),
            answered_ms: 0,
            reason: String::new(),
        },
        ids: ids.iter().map(|id| (*id).to_owned()).collect(),
        limit_per_caller: 8,
        limit: 8,
    }
}

const fn yes(id: &str, now_ms: u64) -> PersonsAnswer<'_> {
    PersonsAnswer {
        id,
        approve: true,
        who: "ann",
        reason: "it is mine",
        now_ms,
    }
}

async fn added(store: &dyn Store, question: &Question) -> Result<Approval, Wrong> {
    match store.ask(question).await?.asked {
        Placed::Added(approval) => Ok(approval),
        other => Err(Wrong(format!("a question was not added: {other:?}"))),
    }
}

pub(super) async fn one_digest_has_one_open_approval(subject: &dyn Subject) -> Result<(), Wrong> {
    let handles = [subject.open().await, subject.open().await];
    let mut askers = tokio::task::JoinSet::new();
    for (number, store) in (0..16).zip(handles.iter().cycle()) {
        let (store, question) = (store.clone(), question(1, &[&format!("id{number}")]));
        askers.spawn(async move { store.ask(&question).await });
    }
    let (mut new, mut ids) = (0, Vec::new());
    while let Some(asked) = askers.join_next().await {
        match asked??.asked {
            Placed::Added(approval) => {
                new += 1;
                ids.push(approval.id);
            }
            Placed::AlreadyOpen(approval) => ids.push(approval.id),
            other => return Err(Wrong(format!("not asked: {other:?}"))),
        }
    }
    ids.dedup();
    same("approvals that were added", new, 1)?;
    same("different approvals", ids.len(), 1)?;
    let wanted = Approval {
        id: ids.concat(),
        ..question(1, &[]).approval
    };
    let found = subject.open().await.approvals().await?;
    same("what is kept", found, vec![wanted])
}

pub(super) async fn the_first_answer_counts_and_no_other(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let asked = added(&*store, &question(1, &["a"])).await?;
    let no = PersonsAnswer {
        approve: false,
        who: "bob",
        reason: "",
        ..yes("a", 20)
    };
    let denied = Approval {
        state: ApprovalState::Denied,
        answered_by: "bob".to_owned(),
        answered_ms: 20,
        ..asked
    };
    same(
        "the first answer",
        store.answer(no).await?,
        Some(denied.clone()),
    )?;
    same("the second answer", store.answer(yes("a", 30)).await?, None)?;
    same(
        "an answer to nothing",
        store.answer(yes("b", 30)).await?,
        None,
    )?;
    same(
        "a use of a denied one",
        store.spend(&[1; 32], 30).await?,
        None,
    )?;
    drop(store);
    let store = subject.open().await;
    same(
        "what is kept",
        store.approval("a").await?,
        Some(denied.clone()),
    )?;
    same(
        "the last for its digest",
        store.last_approval(&[1; 32]).await?,
        Some(denied),
    )?;
    // A denied one is closed, so the same call can be asked about again.
    added(&*store, &question(1, &["b"])).await.map(drop)
}

pub(super) async fn an_approval_is_spent_once_by_one(subject: &dyn Subject) -> Result<(), Wrong> {
    let handles = [subject.open().await, subject.open().await];
    let store = subject.open().await;
    added(&*store, &question(1, &["a"])).await?;
    same(
        "a use before the answer",
        store.spend(&[1; 32], 15).await?,
        None,
    )?;
    store.answer(yes("a", 20)).await?;
    let mut spenders = tokio::task::JoinSet::new();
    for (_, store) in (0..32).zip(handles.iter().cycle()) {
        let store = store.clone();
        spenders.spawn(async move { store.spend(&[1; 32], 30).await });
    }
    let mut uses = 0;
    while let Some(spent) = spenders.join_next().await {
        uses += usize::from(spent??.is_some());
    }
    same("uses of one approval", uses, 1)?;
    drop((handles, store));
    let store = subject.open().await;
    let kept = store.approval("a").await?;
    same(
        "what is kept",
        kept.map(|kept| kept.state),
        Some(ApprovalState::Used),
    )?;
    same(
        "a use after the next start",
        store.spend(&[1; 32], 30).await?,
        None,
    )
}

pub(super) async fn what_is_over_time_is_neither_answered_nor_spent(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    added(&*store, &question(1, &["a"])).await?;
    added(&*store, &question(2, &["b"])).await?;
    same(
        "an answer at its last moment",
        store.answer(yes("a", 1000)).await?,
        None,
    )?;
    store.answer(yes("b", 999)).await?;
    same(
        "a use at its last moment",
        store.spend(&[2; 32], 1000).await?,
        None,
    )?;
    same("what expired before", store.expire(999).await?.len(), 0)?;
    let expired = store.expire(1000).await?;
    same("what expired then", expired.len(), 2)?;
    same("what expired again", store.expire(2000).await?.len(), 0)?;
    // One that is over time does not stand in for a new one, and is told of.
    added(&*store, &question(3, &["c"])).await?;
    let mut again = question(3, &["d"]);
    (again.approval.asked_ms, again.approval.expires_ms) = (1000, 2000);
    let outcome = store.ask(&again).await?;
    let closed: Vec<&str> = outcome
        .expired
        .iter()
        .map(|gone| gone.id.as_str())
        .collect();
    same("what expired on the way", closed, vec!["c"])?;
    same(
        "the new one",
        matches!(&outcome.asked, Placed::Added(new) if new.id == "d"),
        true,
    )
}

pub(super) async fn limits_and_ids_are_kept(subject: &dyn Subject) -> Result<(), Wrong> {
    let store = subject.open().await;
    let asked = |digest, ids: &[&str], per_caller, all| {
        let question = question(digest, ids);
        Question {
            limit_per_caller: per_caller,
            limit: all,
            ..question
        }
    };
    let first = added(&*store, &asked(1, &["a"], 1, 2)).await?;
    same("its id", first.id.as_str(), "a")?;
    let outcome = store.ask(&asked(2, &["b"], 1, 2)).await?;
    same(
        "one too many of a caller",
        outcome.asked,
        Placed::TooManyOfCaller,
    )?;
    let outcome = store.ask(&asked(2, &["b"], 2, 1)).await?;
    same("one too many of all", outcome.asked, Placed::TooMany)?;
    let outcome = store.ask(&asked(2, &["a"], 9, 9)).await?;
    same("no id that is free", outcome.asked, Placed::NoFreeId)?;
    let second = added(&*store, &asked(2, &["a", "b"], 9, 9)).await?;
    same("its id", second.id.as_str(), "b")?;
    // Only what waits counts.
    store.answer(yes("a", 20)).await?;
    store.answer(yes("b", 20)).await?;
    added(&*store, &asked(3, &["c"], 1, 1)).await.map(drop)
}

pub(super) async fn what_is_closed_is_forgotten_when_told_and_nothing_else_is(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    for (digest, id) in [(1, "used"), (2, "approved"), (3, "pending")] {
        added(&*store, &question(digest, &[id])).await?;
    }
    store.answer(yes("used", 20)).await?;
    store.spend(&[1; 32], 20).await?;
    store.answer(yes("approved", 20)).await?;
    for (before_ms, kept) in [(1000, 3), (1001, 2), (9000, 2)] {
        store.forget_closed(before_ms).await?;
        same("kept", store.approvals().await?.len(), kept)?;
    }
    Ok(())
}
