//! Waiting, bounds and who is whose executor.

use std::{sync::atomic::AtomicU8, time::Duration};

use super::*;
use crate::commands::CommandAsk;

fn counting() -> Entropy {
    let next = AtomicU8::new(1);
    Arc::new(move |bytes| {
        bytes.fill(next.fetch_add(1, Ordering::Relaxed));
        Ok(())
    })
}

async fn executions() -> (Executions, State) {
    let state = State::in_memory().await.unwrap();
    let settings = ExecutionSettings {
        saved: Vec::new(),
        random: secrets::os_entropy(),
    };
    (Executions::new(settings, state.clone()), state)
}

fn new(caller: &str, execution: Option<&str>) -> NewExecution {
    NewExecution {
        caller: caller.into(),
        execution: execution.map(Into::into),
        accepts: Level::Internal,
        is_closed: false,
        ttl: Duration::from_secs(100),
        made_by: "operator".into(),
    }
}

fn work(command: &str) -> Work {
    Work::new(CommandAsk {
        caller: "a".into(),
        command: command.into(),
        args: vec!["x".into()],
        directory: None,
        input: Vec::new(),
        time: Duration::from_secs(20),
        output_bytes: 1000,
        workspace_bytes: 1 << 20,
    })
    .unwrap()
}

fn posted(id: &str) -> Posted {
    Posted {
        dispatch_id: id.into(),
        ..Posted::default()
    }
}

async fn next(execution: &Execution) -> ToExecutor {
    execution.next(Duration::from_millis(20)).await.unwrap()
}

async fn dispatched(execution: &Execution) -> String {
    match next(execution).await {
        ToExecutor::Dispatch(dispatch) => dispatch.id,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_bearer_names_one_execution_for_its_time() {
    let (executions, state) = executions().await;
    let (one, token) = executions
        .begin(new("a", None), 1000, |_| Ok(()))
        .await
        .unwrap();
    let (_, other) = executions
        .begin(new("b", Some("e2")), 1000, |_| Ok(()))
        .await
        .unwrap();
    assert_ne!(token.expose(), other.expose());
    assert_eq!(token.expose().len(), 4 + 64);
    let found = executions.identify(token.expose(), 1000).unwrap();
    assert_eq!(found.saved().id, one.saved().id);
    assert!(
        executions.identify(token.expose(), 101_000).is_none(),
        "over"
    );
    assert!(executions.identify("pcx_", 1000).is_none());
    let again = Executions::new(
        ExecutionSettings {
            saved: state.executions().await.unwrap(),
            random: counting(),
        },
        state,
    );
    assert!(again.identify(token.expose(), 1000).is_some());
    again.end(&again.find("e2").unwrap(), 2000).await.unwrap();
    assert!(again.identify(other.expose(), 2000).is_none());
}

#[tokio::test]
async fn commands_of_a_caller_go_to_its_own_execution_and_to_no_other() {
    let (executions, _) = executions().await;
    let (own, _) = executions
        .begin(new("a", None), 1, |_| Ok(()))
        .await
        .unwrap();
    executions
        .begin(new("a", Some("e2")), 1, |_| Ok(()))
        .await
        .unwrap();
    executions
        .begin(new("b", Some("e3")), 1, |_| Ok(()))
        .await
        .unwrap();
    let of = |caller: &str, signed: Option<&str>| {
        executions
            .of(caller, signed)
            .map(|found| found.saved().id.clone())
    };
    assert_eq!(of("a", None), Some(own.saved().id.clone()));
    assert_eq!(of("a", Some("e2")), Some("e2".into()));
    assert_eq!(of("a", Some("e3")), Some(own.saved().id.clone()));
    assert_eq!(of("b", Some("e3")), Some("e3".into()));
    assert_eq!(of("b", None), None);
    assert_eq!(of("b", Some("e2")), None);
    let taken = executions.begin(new("b", Some("e2")), 1, |_| Ok(())).await;
    assert_eq!(taken.unwrap_err(), NotBegun::Taken("e2".into()));
    let has = executions.begin(new("a", None), 1, |_| Ok(())).await;
    assert_eq!(has.unwrap_err(), NotBegun::HasOne(own.saved().id.clone()));
    executions.end(&own, 5).await.unwrap();
    assert_eq!(
        of("a", None),
        Some(own.saved().id.clone()),
        "what was meant for it runs nowhere else"
    );
    let (newer, _) = executions
        .begin(new("a", None), 6, |_| Ok(()))
        .await
        .unwrap();
    assert_eq!(of("a", None), Some(newer.saved().id.clone()));
}

#[tokio::test]
async fn a_call_waits_for_its_executor_and_gets_its_own_answer() {
    let (executions, _) = executions().await;
    let (execution, _) = executions
        .begin(new("a", None), 1, |_| Ok(()))
        .await
        .unwrap();
    assert!(matches!(next(&execution).await, ToExecutor::Idle { .. }));
    let mut first = execution.queue(work("one")).unwrap();
    let mut second = execution.queue(work("two")).unwrap();
    let id = dispatched(&execution).await;
    assert_eq!(
        dispatched(&execution).await,
        id,
        "the same until it is answered"
    );
    assert!(first.is_delivered() && !second.is_delivered());
    assert_eq!(execution.post(posted("nonsense"), 2), Heard::Unknown);
    assert!(matches!(
        execution.post(posted(&id), 2),
        Heard::Concludes(_)
    ));
    assert!(matches!(first.answered().await, Answered::Posted(_)));
    assert_eq!(
        execution.post(posted(&id), 2),
        Heard::Again { differs: false }
    );
    let upper = dispatched(&execution).await.to_uppercase();
    if upper.bytes().any(|byte| byte.is_ascii_uppercase()) {
        assert_eq!(execution.post(posted(&upper), 2), Heard::Unknown);
    }
    executions.end(&execution, 3).await.unwrap();
    assert!(matches!(
        second.answered().await,
        Answered::Ended {
            was_delivered: true
        }
    ));
    assert_eq!(next(&execution).await, ToExecutor::Final { executed: 1 });
    assert_eq!(execution.queue(work("x")).unwrap_err(), NotQueued::Ended);
    let standing = execution.standing();
    assert_eq!((standing.repeated, standing.unknown >= 1), (1, true));
}

#[tokio::test]
async fn of_two_who_ask_the_later_one_waits() {
    let (executions, _) = executions().await;
    let (execution, _) = executions
        .begin(new("a", None), 1, |_| Ok(()))
        .await
        .unwrap();
    let patient = Arc::clone(&execution);
    let first = tokio::spawn(async move { patient.next(Duration::from_secs(600)).await.unwrap() });
    tokio::task::yield_now().await;
    while execution.live().asking == 0 {
        tokio::task::yield_now().await;
    }
    let later = Arc::clone(&execution);
    let second = tokio::spawn(async move { later.next(Duration::from_secs(600)).await.unwrap() });
    assert_eq!(
        first.await.unwrap(),
        ToExecutor::Idle {
            retry_after_ms: DISPLACED_MS
        }
    );
    let _waiting = execution.queue(work("one")).unwrap();
    assert!(matches!(second.await.unwrap(), ToExecutor::Dispatch(_)));
    let places: Vec<_> = std::iter::from_fn(|| execution.place()).collect();
    assert_eq!(places.len(), MAX_REQUESTS);
}

#[tokio::test]
async fn a_call_that_is_dropped_leaves_nothing_behind() {
    let (executions, _) = executions().await;
    let (execution, _) = executions
        .begin(new("a", None), 1, |_| Ok(()))
        .await
        .unwrap();
    drop(execution.queue(work("one")).unwrap());
    assert!(matches!(next(&execution).await, ToExecutor::Idle { .. }));
    let waiting = execution.queue(work("two")).unwrap();
    assert_eq!(waiting.give_up().unwrap_err(), GivenUp::Waiting);
    let waiting = execution.queue(work("three")).unwrap();
    let id = dispatched(&execution).await;
    assert_eq!(waiting.give_up().unwrap_err(), GivenUp::Delivered);
    assert_eq!(
        execution.post(posted(&id), 2),
        Heard::Again { differs: true }
    );
    assert!(execution.live().waiting.is_empty());
}

#[test]
fn only_names_and_places_of_the_workspace_are_sent() {
    let ask = |command: &str, directory: Option<&str>| {
        Work::new(CommandAsk {
            caller: String::new(),
            command: command.into(),
            args: Vec::new(),
            directory: directory.map(Into::into),
            input: Vec::new(),
            time: Duration::from_secs(1),
            output_bytes: 1,
            workspace_bytes: 1 << 20,
        })
    };
    let sent = |command: &str, directory: Option<&str>| {
        ask(command, directory)
            .map(|work| work.dispatch("id".into()).cwd)
            .ok()
    };
    assert_eq!(sent("git", None).as_deref(), Some("/workspace"));
    assert_eq!(sent("./x", Some("sub")).as_deref(), Some("/workspace/sub"));
    for (command, directory) in [
        ("", None),
        ("/bin/sh", None),
        ("../x", None),
        ("a\0b", None),
        ("git", Some("/etc")),
        ("git", Some("../..")),
    ] {
        assert_eq!(sent(command, directory), None, "{command:?} {directory:?}");
    }
}

#[test]
fn an_id_is_read_in_one_spelling() {
    let text = uuid(0x00ab_cdef_0000_4000_8000_0000_0000_0001);
    assert_eq!(text, "00abcdef-0000-4000-8000-000000000001");
    assert!(dispatch_id(&text).is_some());
    for other in [
        text.to_uppercase(),
        text.replace('-', ""),
        format!("{text} "),
        format!("+{}", text.get(1..).unwrap()),
        String::new(),
    ] {
        assert!(dispatch_id(&other).is_none(), "{other}");
    }
}
