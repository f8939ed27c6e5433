//! Labels of what executors print, and how calls, executions, executors and the gate end.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Target;

use super::{Begun, agent, calls, client, open, shell, shown, verdicts};
use crate::operator::{SOON, done, label};
use crate::support::{eventually, fixture, http, new_token};

#[tokio::test]
async fn what_an_executor_prints_carries_what_was_sent_to_it() {
    let secret = fixture().await;
    let entry = http(
        &secret.url(),
        "classification: CONFIDENTIAL, open_world: false",
    );
    let gate = open(&[("secret", entry)]).await;
    let token = new_token(&gate, "one", &["--context", "hands"]).await;
    let begun = Begun::new(&gate, "one", &["--accepts", "CONFIDENTIAL", "--closed"]).await;
    let client = client(&gate, &token).await;
    let run = async |script: &str| {
        let call = client.call("cmd.run", shell(script));
        let answer = async {
            let dispatch = begun.dispatch().await;
            begun.answers(&dispatch, "printed")
        };
        let (called, posting) = tokio::join!(call, answer);
        drop(posting);
        called.unwrap()
    };
    run("true").await;
    assert_eq!(
        label(&gate, "one").await,
        "PUBLIC",
        "nothing from outside reaches it"
    );
    client
        .call("secret__echo", json!({"text": "x"}))
        .await
        .unwrap();
    run("echo x > note").await;
    let reset = ["session", "reset", "one", "--reason", "x", "--yes"];
    done(&gate, &reset).await;
    assert_eq!(label(&gate, "one").await, "PUBLIC");
    run("cat note").await;
    assert_eq!(
        label(&gate, "one").await,
        "CONFIDENTIAL",
        "the sandbox washed the label off"
    );
    // Without anybody's word the sandbox is a stranger's, and takes nothing that is not public.
    done(&gate, &["executions", "end", &begun.id, "--reason", "x"]).await;
    done(&gate, &reset).await;
    let begun = Begun::new(&gate, "one", &[]).await;
    client
        .call("secret__echo", json!({"text": "x"}))
        .await
        .unwrap();
    let refused = client.call("cmd.run", shell("curl")).await.unwrap();
    assert!(
        refused.is_error && refused.answer.to_string().contains("WouldViolateWriteDown"),
        "{}",
        refused.answer
    );
    assert_eq!(shown(&gate, &begun.id).await["waiting"], 0);
    done(&gate, &reset).await;
    let call = client.call("cmd.run", shell("true"));
    let answer = async {
        let dispatch = begun.dispatch().await;
        begun.answers(&dispatch, "anything")
    };
    let (called, posting) = tokio::join!(call, answer);
    drop(posting);
    assert!(!called.unwrap().is_error);
    assert_eq!(
        label(&gate, "one").await,
        "CONFIDENTIAL+untrusted",
        "the container may be the one of before"
    );
}

/// Whoever is killed, a call ends once, and what nobody can know is called so.
#[tokio::test]
async fn a_gate_or_an_executor_that_is_killed_loses_no_call() {
    let mut gate = open(&[]).await;
    let token = new_token(&gate, "one", &["--context", "hands"]).await;
    let begun = Begun::new(&gate, "one", &[]).await;
    // An executor takes a command and dies; the next one is not given it again.
    let call = calls(client(&gate, &token).await, shell("once"));
    let dispatch = begun.dispatch().await;
    let other = begun.attach(Some("two"));
    let (lost, _) = tokio::join!(call, tokio::time::timeout(Duration::from_secs(3), other));
    let lost = lost.unwrap();
    assert!(
        lost.is_error && lost.text.contains("outcome is unknown"),
        "{}",
        lost.answer
    );
    assert_eq!(verdicts(&gate).await, ["indeterminate"]);
    // The first one comes back late: its answer changes nothing, and what the second one has is not given to it too. Then the gate dies.
    let call = calls(client(&gate, &token).await, shell("twice"));
    let (status, given) = begun.attach(Some("two")).await;
    assert_eq!(
        (status, &given["type"]),
        (200, &json!("dispatch")),
        "{given}"
    );
    assert_eq!(given["args"][1], "twice");
    let (status, said) = begun.says(begun.result(&dispatch, "late")).await;
    assert_eq!((status, &said["type"]), (200, &json!("final")), "{said}");
    let (status, said) = begun.attach(Some("one")).await;
    assert_eq!((status, &said["type"]), (200, &json!("final")), "{said}");
    let dispatch = given;
    gate.kill().unwrap();
    assert!(call.await.is_err(), "nobody is left to answer");
    gate.start_again().await.unwrap();
    let door = Target::new(gate.url(), Some(&begun.token))
        .unwrap()
        .at("/v1/dispatch-gateway");
    let result = begun.result(&dispatch, "late").to_string().into_bytes();
    let (status, said) = begun.post(&door, result).await;
    assert_eq!((status, &said["error"]), (409, &json!("unknown_dispatch")));
    assert_eq!(
        shown(&gate, &begun.id).await["state"],
        "detached",
        "it outlives the gate"
    );
    assert_eq!(verdicts(&gate).await, ["indeterminate"; 2]);
}

#[tokio::test]
async fn an_execution_that_is_over_takes_and_gives_nothing() {
    let gate = open(&[]).await;
    let token = new_token(&gate, "one", &["--context", "hands"]).await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let again = gate.cli(&["executions", "begin", "one"]).await.unwrap();
    assert_eq!(again.code, Some(1), "one at a time: {again:?}");
    // One call an executor has, one waits; both end with the execution.
    let had = calls(client(&gate, &token).await, shell("had"));
    begun.dispatch().await;
    let waited = calls(client(&gate, &token).await, shell("waited"));
    eventually("the call to wait", SOON, || async {
        match shown(&gate, &begun.id).await["waiting"].as_u64() {
            Some(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    done(
        &gate,
        &["executions", "end", &begun.id, "--reason", "enough"],
    )
    .await;
    let (had, waited) = (had.await.unwrap(), waited.await.unwrap());
    assert!(had.text.contains("outcome is unknown"), "{}", had.answer);
    assert!(
        waited.is_error && !waited.text.contains("unknown"),
        "{}",
        waited.answer
    );
    assert_eq!(begun.attach(None).await.0, 401);
    // What was meant for it runs nowhere else.
    let after = client(&gate, &token)
        .await
        .call("cmd.run", shell("pwd"))
        .await
        .unwrap();
    assert!(after.is_error, "{}", after.answer);
    let ended = gate.cli(&["executions", "end", &begun.id]).await.unwrap();
    assert_eq!(ended.code, Some(1), "{ended:?}");
    let begun = Begun::new(&gate, "one", &[]).await;
    // A credential that is revoked takes its calls and its executor with it.
    let one = client(&gate, &token).await;
    let waited = tokio::spawn(async move { one.call("cmd.run", shell("waited")).await.ok() });
    eventually("the call to wait", SOON, || async {
        match shown(&gate, &begun.id).await["waiting"].as_u64() {
            Some(1) => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    done(&gate, &["token", "revoke", "one"]).await;
    // It may be told so, or find that nobody there knows it any more.
    assert!(waited.await.unwrap().is_none_or(|called| called.is_error));
    assert_eq!(begun.attach(None).await.0, 401);
    assert_eq!(shown(&gate, &begun.id).await["waiting"], 0);
}

#[tokio::test]
async fn an_executor_that_waits_does_not_keep_a_gate_from_stopping() {
    let mut gate = open(&[]).await;
    agent(&gate, "one").await;
    let begun = Begun::new(&gate, "one", &[]).await;
    let door = begun.door.clone();
    let message = json!({"type": "attach", "execution_id": begun.id}).to_string();
    let waiting = tokio::spawn(async move {
        let headers = [("content-type".to_owned(), "application/json".to_owned())];
        door.send("POST", &headers, message.into_bytes())
            .await
            .unwrap()
            .json()
            .await
            .unwrap()
    });
    eventually("the executor to be there", SOON, || async {
        match shown(&gate, &begun.id).await["state"].as_str() {
            Some("ready") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    })
    .await;
    let begun_to_stop = std::time::Instant::now();
    gate.stop().await.unwrap();
    assert!(
        begun_to_stop.elapsed() < Duration::from_secs(20),
        "{:?}",
        begun_to_stop.elapsed()
    );
    let told: Value = waiting.await.unwrap();
    assert_eq!(told["type"], "idle", "{told}");
}
