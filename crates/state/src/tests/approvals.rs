use std::collections::BTreeSet;

use super::{partly, question};
use crate::{AnswerError, ApprovalState, PENDING_LIMIT_PER_CALLER, SpendError, State, StateError};

#[tokio::test]
async fn an_approval_keeps_every_field_and_goes_its_way() {
    let state = State::in_memory().await.unwrap();
    let new = question(1, 7);
    let asked = state.ask(new.clone()).await.unwrap();
    assert!(asked.is_new);
    let approval = asked.approval;
    assert_eq!(approval.id.len(), 10);
    assert_eq!(
        (approval.digest, approval.state),
        (new.digest, ApprovalState::Pending)
    );
    assert_eq!(
        (&approval.arguments, &approval.lineage, &approval.why),
        (&new.arguments, &new.lineage, &new.why)
    );
    assert_eq!(state.get(&approval.id).await.unwrap().unwrap(), approval);

    let answered = state
        .answer(&approval.id, true, "ann", "looks right", 20)
        .await
        .unwrap();
    assert_eq!(
        (
            answered.state,
            answered.answered_by.as_str(),
            answered.answered_ms
        ),
        (ApprovalState::Approved, "ann", 20)
    );
    let spent = state.spend(&new.digest, 30).await.unwrap();
    assert_eq!(
        (spent.id.as_str(), spent.state),
        (approval.id.as_str(), ApprovalState::Used)
    );
    assert!(matches!(
        state.spend(&new.digest, 31).await,
        Err(SpendError::AlreadyUsed(_))
    ));
    assert_eq!(state.approvals(false, 31).await.unwrap(), []);
    assert_eq!(state.approvals(true, 31).await.unwrap(), [spent]);
}

#[tokio::test]
async fn the_same_call_is_asked_about_once_while_it_is_open() {
    let state = State::in_memory().await.unwrap();
    let first = state.ask(question(1, 1)).await.unwrap().approval;
    let again = state.ask(question(1, 2)).await.unwrap();
    assert_eq!((again.is_new, &again.approval.id), (false, &first.id));
    state.answer(&first.id, true, "ann", "", 20).await.unwrap();
    let approved = state.ask(question(1, 3)).await.unwrap();
    assert_eq!(
        (approved.is_new, approved.approval.state),
        (false, ApprovalState::Approved)
    );
    state.spend(&[1; 32], 30).await.unwrap();
    let next = state.ask(question(1, 4)).await.unwrap();
    assert!(
        next.is_new && next.approval.id != first.id,
        "a used one does not stand for the next call"
    );
    assert!(matches!(
        state.spend(&[1; 32], 31).await,
        Err(SpendError::NotApproved(_))
    ));
}

#[tokio::test]
async fn only_the_first_answer_counts_and_none_after_the_expiry() {
    let state = State::in_memory().await.unwrap();
    let denied = state.ask(question(1, 1)).await.unwrap().approval;
    state
        .answer(&denied.id, false, "ann", "no", 20)
        .await
        .unwrap();
    let Err(AnswerError::AlreadyAnswered(found)) =
        state.answer(&denied.id, true, "bob", "yes", 21).await
    else {
        panic!()
    };
    assert_eq!(
        (found.state, found.answered_by.as_str()),
        (ApprovalState::Denied, "ann")
    );
    assert!(matches!(
        state.spend(&[1; 32], 22).await,
        Err(SpendError::Denied(_))
    ));

    let late = state.ask(question(2, 2)).await.unwrap().approval;
    assert!(matches!(
        state.answer(&late.id, true, "ann", "", 1000).await,
        Err(AnswerError::Expired(_))
    ));
    let unused = state.ask(question(3, 3)).await.unwrap().approval;
    state
        .answer(&unused.id, true, "ann", "", 999)
        .await
        .unwrap();
    assert!(matches!(
        state.spend(&[3; 32], 1000).await,
        Err(SpendError::Expired(_))
    ));
    assert!(matches!(
        state.answer("nobody", true, "ann", "", 1).await,
        Err(AnswerError::Unknown)
    ));
    assert!(matches!(
        state.spend(&[9; 32], 1).await,
        Err(SpendError::NotAsked)
    ));

    let expired = state.expire(1000).await.unwrap();
    assert_eq!(
        expired
            .iter()
            .map(|approval| &approval.id)
            .collect::<BTreeSet<_>>(),
        BTreeSet::from([&late.id, &unused.id])
    );
    assert_eq!(state.expire(1000).await.unwrap(), [], "each is told once");
    assert!(state.ask(question(2, 4)).await.unwrap().is_new);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_64_who_spend_exactly_one_wins() {
    let state = State::in_memory().await.unwrap();
    for round in 0..20 {
        let asked = state
            .ask(question(round, u64::from(round) + 1))
            .await
            .unwrap()
            .approval;
        state.answer(&asked.id, true, "ann", "", 20).await.unwrap();
        let tasks: Vec<_> = (0..64)
            .map(|_| {
                let state = state.clone();
                tokio::spawn(async move { state.spend(&[round; 32], 30).await.is_ok() })
            })
            .collect();
        let mut winners = 0;
        for task in tasks {
            winners += u32::from(task.await.unwrap());
        }
        assert_eq!(winners, 1);
    }
}

/// Two handles on one file are two programs as far as SQLite is concerned.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn of_many_in_two_programs_one_asks_one_answers_and_one_spends() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let states = [
        State::open(&file).await.unwrap(),
        State::open(&file).await.unwrap(),
    ];
    for round in 0..5_u8 {
        let (mut asks, mut answers, mut spends) = (Vec::new(), Vec::new(), Vec::new());
        for n in 0..16_u64 {
            let state = states[(n % 2) as usize].clone();
            asks.push(tokio::spawn(async move {
                state
                    .ask(question(round, 100 * u64::from(round) + n + 1))
                    .await
                    .unwrap()
            }));
        }
        let mut ids = BTreeSet::new();
        let mut new = 0;
        for ask in asks {
            let asked = ask.await.unwrap();
            new += u32::from(asked.is_new);
            ids.insert(asked.approval.id);
        }
        assert_eq!((new, ids.len()), (1, 1));
        let id = ids.pop_first().unwrap();
        for n in 0..16_usize {
            let (state, id) = (states[n % 2].clone(), id.clone());
            answers.push(tokio::spawn(async move {
                state
                    .answer(&id, true, &n.to_string(), "", 20)
                    .await
                    .is_ok()
            }));
        }
        let mut accepted = 0;
        for answer in answers {
            accepted += u32::from(answer.await.unwrap());
        }
        assert_eq!(accepted, 1);
        for n in 0..16_usize {
            let state = states[n % 2].clone();
            spends.push(tokio::spawn(async move {
                state.spend(&[round; 32], 30).await.is_ok()
            }));
        }
        let mut winners = 0;
        for spend in spends {
            winners += u32::from(spend.await.unwrap());
        }
        assert_eq!(winners, 1);
    }
}

#[tokio::test]
async fn who_waits_wakes_when_it_is_answered() {
    let state = State::in_memory().await.unwrap();
    let id = state.ask(question(1, 1)).await.unwrap().approval.id;
    let mut watch = state.watch(&id).await.unwrap().unwrap();
    let waiting = tokio::spawn(async move { watch.answered().await });
    state.answer(&id, true, "ann", "", 20).await.unwrap();
    assert_eq!(waiting.await.unwrap(), ApprovalState::Approved);
    assert_eq!(
        state.watch(&id).await.unwrap().unwrap().answered().await,
        ApprovalState::Approved,
        "whoever comes late knows too"
    );

    let id = state.ask(question(2, 2)).await.unwrap().approval.id;
    let mut watch = state.watch(&id).await.unwrap().unwrap();
    state.expire(1000).await.unwrap();
    assert_eq!(watch.answered().await, ApprovalState::Expired);
    assert!(state.watch("nobody").await.unwrap().is_none());
}

#[tokio::test]
async fn one_caller_cannot_flood_the_approvers() {
    let state = State::in_memory().await.unwrap();
    for n in 0..PENDING_LIMIT_PER_CALLER {
        state
            .ask(question(n as u8, u64::from(n) + 1))
            .await
            .unwrap();
    }
    let Err(StateError::TooMany { limit, .. }) = state.ask(question(200, 1000)).await else {
        panic!()
    };
    assert_eq!(limit, PENDING_LIMIT_PER_CALLER);
    assert!(
        !state.ask(question(1, 1001)).await.unwrap().is_new,
        "what is asked already is not one more"
    );
    let mut other = question(200, 1000);
    other.caller = "c2".into();
    assert!(state.ask(other).await.unwrap().is_new);
    let mut huge = question(201, 1002);
    huge.arguments = "x".repeat(crate::ARGUMENTS_LIMIT + 1);
    assert!(matches!(
        state.ask(huge).await,
        Err(StateError::TooLarge { .. })
    ));
}

#[tokio::test]
async fn a_repeated_id_is_not_used_twice() {
    let state = State::in_memory().await.unwrap();
    let mut entropy = [0; 32];
    entropy[23] = 1;
    let (mut first, mut second, mut third) = (question(1, 0), question(2, 0), question(3, 0));
    (first.entropy, second.entropy, third.entropy) = ([0; 32], entropy, [0; 32]);
    let first = state.ask(first).await.unwrap().approval;
    assert_ne!(first.id, state.ask(second).await.unwrap().approval.id);
    assert!(
        state.ask(third).await.is_err(),
        "a broken source of randomness is reported"
    );
}

#[tokio::test]
async fn what_was_closed_long_ago_is_forgotten_and_what_is_open_is_not() {
    let state = State::in_memory().await.unwrap();
    let old = state.ask(question(1, 1)).await.unwrap().approval;
    state.answer(&old.id, false, "ann", "", 20).await.unwrap();
    let mut open = question(2, 2);
    open.expires_ms = u64::MAX;
    let open = state.ask(open).await.unwrap().approval;
    state.expire(1000 + crate::KEPT_MS).await.unwrap();
    assert!(state.get(&old.id).await.unwrap().is_some());
    state.expire(1001 + crate::KEPT_MS).await.unwrap();
    assert!(state.get(&old.id).await.unwrap().is_none());
    assert_eq!(
        state.get(&open.id).await.unwrap().unwrap().state,
        ApprovalState::Pending
    );
}

#[tokio::test]
async fn who_goes_away_in_the_middle_leaves_nothing_half_done() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let state = State::open(&file).await.unwrap();
    let mut finished = 0;
    for n in 0..60_u8 {
        finished += u32::from(
            partly(
                1 + u32::from(n) % 12,
                state.ask(question(n, 2 * u64::from(n) + 1)),
            )
            .await,
        );
        let id = state
            .ask(question(n, 2 * u64::from(n) + 2))
            .await
            .unwrap()
            .approval
            .id;
        partly(1 + u32::from(n) % 4, state.answer(&id, true, "ann", "", 20)).await;
        let answered = state.answer(&id, true, "ann", "", 20).await;
        assert!(
            matches!(answered, Ok(_) | Err(AnswerError::AlreadyAnswered(_))),
            "{answered:?}"
        );
        let went_through = partly(1 + u32::from(n) % 4, state.spend(&[n; 32], 30)).await;
        let spent = state.spend(&[n; 32], 30).await;
        assert!(!(went_through && spent.is_ok()), "spent twice");
        // Another program sees what this one was told.
        let seen = State::open(&file)
            .await
            .unwrap()
            .get(&id)
            .await
            .unwrap()
            .unwrap();
        assert_eq!(seen.state, ApprovalState::Used);
    }
    assert!(
        (1..60).contains(&finished),
        "both kinds were tried: {finished}"
    );
}
