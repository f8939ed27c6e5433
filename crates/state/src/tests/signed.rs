use super::with_driver;
use crate::{SavedSigned, SignedStatus, Sqlite, State, UsedCalls, Workload};

fn session(id: &str, execution: &str, created_ms: u64) -> SavedSigned {
    SavedSigned {
        id: id.into(),
        execution: execution.into(),
        agent: "agent-1".into(),
        context: "code-assistant".into(),
        workload: "w-1".into(),
        tenant: String::new(),
        owner: "c1".into(),
        attested_by: "c1".into(),
        vouched: String::new(),
        public_key: [7; 32],
        patterns: vec!["fs.*".into()],
        created_ms,
        expires_ms: created_ms + 1000,
        status: SignedStatus::Active,
        ended_ms: 0,
        reason: String::new(),
    }
}

#[tokio::test]
async fn a_session_outlives_the_process_and_ends_once() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let state = State::open(&file).await.unwrap();
    state.begin_signed(&session("j1", "e1", 10)).await.unwrap();
    drop(state);
    let (state, sqlite) = with_driver(Sqlite::open(&file).await.unwrap());
    assert_eq!(
        state.signed_sessions().await.unwrap(),
        [session("j1", "e1", 10)]
    );
    assert!(
        state
            .end_signed("j1", SignedStatus::Revoked, "told so", 20)
            .await
            .unwrap()
    );
    assert!(
        !state
            .end_signed("j1", SignedStatus::Expired, "", 30)
            .await
            .unwrap(),
        "it is over"
    );
    let kept = state.signed_sessions().await.unwrap();
    assert_eq!(
        (kept[0].status, kept[0].ended_ms, kept[0].reason.as_str()),
        (SignedStatus::Revoked, 20, "told so")
    );
    let back = "UPDATE signed_session SET status = 'Active' WHERE id = 'j1'";
    let mut turn = sqlite.turn().await.unwrap();
    assert!(
        sqlx::query(back).execute(turn.connection()).await.is_err(),
        "not even the program can bring it back"
    );
}

#[tokio::test]
async fn a_new_session_of_an_execution_ends_the_one_before() {
    let state = State::in_memory().await.unwrap();
    state.begin_signed(&session("j1", "e1", 10)).await.unwrap();
    state.begin_signed(&session("j2", "e1", 20)).await.unwrap();
    let all = state.signed_sessions().await.unwrap();
    assert_eq!(
        all.iter().map(|one| one.status).collect::<Vec<_>>(),
        [SignedStatus::Revoked, SignedStatus::Active]
    );
}

#[tokio::test]
async fn a_workload_is_used_as_often_as_it_may_be() {
    let state = State::in_memory().await.unwrap();
    let workload = Workload {
        id: "w1".into(),
        digest: [1; 32],
        context: "ctx".into(),
        agent: String::new(),
        tenant: String::new(),
        made_by: "op".into(),
        created_ms: 0,
        expires_ms: 100,
        uses_left: 2,
    };
    state.add_workload(&workload).await.unwrap();
    assert!(
        state
            .use_workload("w1", 1, |_| false)
            .await
            .unwrap()
            .is_none(),
        "a wrong secret uses nothing up"
    );
    assert!(
        state
            .use_workload("w1", 100, |_| true)
            .await
            .unwrap()
            .is_none(),
        "too late"
    );
    assert_eq!(
        state
            .use_workload("w1", 1, |known| known.digest == [1; 32])
            .await
            .unwrap(),
        Some(workload)
    );
    assert!(
        state
            .use_workload("w1", 1, |_| true)
            .await
            .unwrap()
            .is_some()
    );
    assert!(
        state
            .use_workload("w1", 1, |_| true)
            .await
            .unwrap()
            .is_none(),
        "used up"
    );
}

fn used(execution: &str, tool: &str, calls: u64) -> UsedCalls {
    UsedCalls {
        execution: execution.into(),
        tool: tool.into(),
        calls,
    }
}

#[tokio::test]
async fn what_an_execution_used_up_outlives_the_process_and_never_falls() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("state.db");
    let state = State::open(&file).await.unwrap();
    state.begin_signed(&session("j1", "e1", 10)).await.unwrap();
    state
        .use_calls(&[used("e1", "", 4), used("e1", "fs__read", 2)])
        .await
        .unwrap();
    state
        .use_calls(&[used("e1", "", 3), used("e1", "fs__read", 3)])
        .await
        .unwrap();
    drop(state);
    let (state, sqlite) = with_driver(Sqlite::open(&file).await.unwrap());
    assert_eq!(
        state.used_calls_of("e1").await.unwrap(),
        [used("e1", "", 4), used("e1", "fs__read", 3)]
    );
    let mut turn = sqlite.turn().await.unwrap();
    let lower = "UPDATE used_calls SET calls = 1 WHERE tool = ''";
    assert!(
        sqlx::query(lower).execute(turn.connection()).await.is_err(),
        "not even the program can give it back"
    );
}

#[tokio::test]
async fn counts_are_forgotten_with_the_last_session_of_their_execution() {
    let day = 24 * 60 * 60 * 1000;
    let state = State::in_memory().await.unwrap();
    state.begin_signed(&session("j1", "e1", 10)).await.unwrap();
    state.begin_signed(&session("j2", "e2", 10)).await.unwrap();
    state
        .use_calls(&[used("e1", "", 1), used("e2", "", 2)])
        .await
        .unwrap();
    state
        .end_signed("j1", SignedStatus::Expired, "", 20)
        .await
        .unwrap();
    state.begin_signed(&session("j3", "e3", day)).await.unwrap();
    assert_eq!(
        state.used_calls().await.unwrap().len(),
        2,
        "a day has not gone by"
    );
    state
        .begin_signed(&session("j4", "e4", 21 + day))
        .await
        .unwrap();
    assert_eq!(state.used_calls().await.unwrap(), [used("e2", "", 2)]);
}
