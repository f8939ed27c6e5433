//! What a caller brings back: request states, answers, cursors.

use super::*;

/// A modern server's state is sealed on its way through the client.
#[tokio::test]
async fn a_tampered_request_state_of_a_modern_server_is_refused() {
    let modern = HttpFixture::start(testkit::everything::Era::Modern)
        .await
        .unwrap();
    let gate = connected(&[
        ("up", http(&modern.url(), PUBLIC)),
        ("other", http(&modern.url(), PUBLIC)),
    ])
    .await;
    let sealed = "test_input_required_result_request_state";
    tamper(&gate, sealed, "test_input_required_result_tampered_state").await;
}

/// A legacy server's question parks the call; the state that names it belongs to one caller and one call.
#[tokio::test]
async fn a_tampered_request_state_of_a_parked_call_is_refused() {
    let legacy = HttpFixture::start(testkit::everything::Era::Legacy)
        .await
        .unwrap();
    let gate = connected(&[
        ("up", http(&legacy.url(), PUBLIC)),
        ("other", http(&legacy.url(), PUBLIC)),
    ])
    .await;
    tamper(&gate, "elicit_form", "test_elicitation").await;
}

/// Asks `tool` of an older server and leaves its question open; returns the parameters that answer it.
async fn park(client: &Client, tool: &str) -> Value {
    let params = json!({"name": tool, "arguments": {"message": "name?"}});
    let asked = raw_answer(client, &client.message(1, "tools/call", params.clone())).await;
    let question = asked
        .pointer("/result/inputRequests")
        .and_then(Value::as_object)
        .and_then(|asked| asked.keys().next());
    let key = question
        .unwrap_or_else(|| panic!("no question in {asked}"))
        .clone();
    let mut answer = params;
    answer["inputResponses"] =
        json!({key: {"action": "accept", "content": {"name": "Eve", "ok": true, "confirm": true}}});
    answer["requestState"] = asked["result"]["requestState"].clone();
    answer
}

/// A public and a confidential server of the older kind, and a client that can be asked.
async fn asking_yard() -> (Gate, HttpFixture, HttpFixture, Client) {
    let legacy = testkit::everything::Era::Legacy;
    let (public, secret) = (
        HttpFixture::start(legacy).await.unwrap(),
        HttpFixture::start(legacy).await.unwrap(),
    );
    let secret_entry = http(&secret.url(), "classification: CONFIDENTIAL");
    let gate = connected(&[
        ("public", http(&public.url(), PUBLIC)),
        ("secret", secret_entry),
    ])
    .await;
    let client = Client::connect(
        &gate.target().unwrap(),
        Era::Modern,
        json!({"elicitation": {}}),
        &[],
    )
    .await
    .unwrap();
    (gate, public, secret, client)
}

/// A question is part of a result: whoever was asked by a confidential server has seen confidential words.
#[tokio::test]
async fn a_question_raises_the_label_before_its_call_ends() {
    let (_gate, public, _secret, client) = asking_yard().await;
    assert!(
        !client
            .call("public__effect", json!({}))
            .await
            .unwrap()
            .is_error,
        "nothing was seen yet"
    );
    park(&client, "secret__elicit_form").await;
    assert_refused(
        &client.call("public__effect", json!({})).await.unwrap(),
        "WouldViolateWriteDown",
    );
    assert_eq!(public.effects().effects, 1);
}

/// An answer is data sent to a server: one given after the session has seen more than the server takes does not reach it.
#[tokio::test]
async fn an_answer_is_weighed_like_a_call() {
    let (_gate, _public, _secret, client) = asking_yard().await;
    let early = park(&client, "public__elicit_form").await;
    let answer = raw_answer(&client, &client.message(2, "tools/call", early)).await;
    assert!(
        answer.to_string().contains("Eve"),
        "an answer that may be given arrives: {answer}"
    );
    let late = park(&client, "public__elicit_form").await;
    client
        .call("secret__echo", json!({"text": "launch"}))
        .await
        .unwrap();
    let answer = raw_answer(&client, &client.message(3, "tools/call", late)).await;
    assert!(
        !answer.to_string().contains("Eve"),
        "the server got the answer: {answer}"
    );
}

/// Every byte of a `requestState` counts, and so do the caller, the tool and the arguments it was made for.
async fn tamper(gate: &Gate, tool: &str, other_tool: &str) {
    let target = gate.target().unwrap();
    let (tool, elsewhere, other_tool) = (
        format!("up__{tool}"),
        format!("other__{tool}"),
        format!("up__{other_tool}"),
    );
    let asked = Client::connect(&target, Era::Modern, json!({"elicitation": {}}), &[])
        .await
        .unwrap();
    let arguments = json!({"message": "name?"});
    let first = raw_answer(
        &asked,
        &asked.message(
            1,
            "tools/call",
            json!({"name": tool, "arguments": arguments}),
        ),
    )
    .await;
    let state = first
        .pointer("/result/requestState")
        .and_then(Value::as_str)
        .map(str::to_owned);
    let state = state.unwrap_or_else(|| panic!("no requestState in {first}"));
    let key = first
        .pointer("/result/inputRequests")
        .and_then(Value::as_object)
        .unwrap()
        .keys()
        .next()
        .unwrap()
        .clone();
    let responses =
        json!({key: {"action": "accept", "content": {"name": "Eve", "ok": true, "confirm": true}}});
    let retry = |state: &str, arguments: &Value, name: &str| json!({"name": name, "arguments": arguments, "inputResponses": responses, "requestState": state});
    for at in 0..state.len() {
        let mut bytes = state.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        let tampered = String::from_utf8(bytes).unwrap();
        let answer = raw_answer(
            &asked,
            &asked.message(2, "tools/call", retry(&tampered, &arguments, &tool)),
        )
        .await;
        assert_refused_state(&answer, &format!("byte {at} of {} changed", state.len()));
    }
    let half = state.get(..state.len() / 2).expect("it is ASCII");
    let others = [
        ("cut short", retry(half, &arguments, &tool)),
        (
            "other arguments",
            retry(&state, &json!({"message": "password?"}), &tool),
        ),
        ("another tool", retry(&state, &arguments, &other_tool)),
        ("another server", retry(&state, &arguments, &elsewhere)),
    ];
    for (what, params) in others {
        let answer = raw_answer(&asked, &asked.message(3, "tools/call", params)).await;
        assert_refused_state(&answer, what);
    }
    let stranger = new_token(gate, "stranger", &[]).await;
    let stranger = target.with_token(Some(&stranger));
    let stranger = Client::connect(&stranger, Era::Modern, json!({"elicitation": {}}), &[])
        .await
        .unwrap();
    let right = retry(&state, &arguments, &tool);
    let answer = raw_answer(&stranger, &stranger.message(4, "tools/call", right.clone())).await;
    assert_refused_state(&answer, "another caller");
    let answer = raw_answer(&asked, &asked.message(5, "tools/call", right)).await;
    assert_eq!(
        answer.pointer("/result/resultType"),
        Some(&json!("complete")),
        "the right one still works: {answer}"
    );
    assert_ne!(
        answer.pointer("/result/isError"),
        Some(&json!(true)),
        "{answer}\n{}",
        gate.output()
    );
}

#[tokio::test]
async fn a_made_up_cursor_is_refused() {
    let yard = Yard::open().await;
    for era in [Era::Legacy, Era::Modern] {
        let client = client(&yard.gate, era).await;
        for method in [
            "tools/list",
            "resources/list",
            "prompts/list",
            "resources/templates/list",
        ] {
            for cursor in ["1", "MTAw", "../../etc", "x"] {
                let answer = client
                    .request(method, json!({"cursor": cursor}))
                    .await
                    .unwrap();
                assert_eq!(
                    answer.pointer("/error/code"),
                    Some(&json!(-32602)),
                    "{method} {cursor}: {answer}"
                );
            }
        }
    }
}
