//! The operator's verbs: for operators only, with the right method, and with words for what is wrong.

use crate::yard::{ALICE, OPERATOR, Yard};

const LOOKS: [&str; 6] = [
    "status",
    "servers",
    "tools",
    "servers/demo/definitions",
    "sessions",
    "approvals",
];
const CHANGES: [&str; 10] = [
    "reload",
    "servers/demo/retry",
    "servers/demo/classify",
    "servers/demo/block",
    "servers/demo/unblock",
    "servers/demo/approve",
    "sessions/pct_alice/reset",
    "approvals/k7m2/approve",
    "approvals/k7m2/deny",
    "policy/explain",
];

fn at(verb: &str) -> String {
    format!("/v1/admin/{verb}")
}

#[tokio::test]
async fn an_agents_credential_reaches_no_verb_whatever_the_method() {
    let yard = Yard::open().await;
    for verb in LOOKS.into_iter().chain(CHANGES) {
        for method in ["GET", "POST"] {
            let answer = yard
                .request(method, &at(verb))
                .by(ALICE)
                .with_body("{\"reason\":\"because\"}")
                .send()
                .await;
            assert_eq!(answer.status, 403, "{method} {verb}: {}", answer.body);
        }
    }
    let stranger = yard
        .request("POST", &at("approvals/k7m2/approve"))
        .by("pct_wrong")
        .send()
        .await;
    assert_eq!(stranger.status, 401);
}

#[tokio::test]
async fn looking_is_a_get_and_changing_is_a_post() {
    let yard = Yard::open().await;
    for verb in LOOKS {
        let answer = yard.request("GET", &at(verb)).by(OPERATOR).send().await;
        assert!(
            matches!(answer.status, 200 | 422),
            "{verb}: {} {}",
            answer.status,
            answer.body
        );
        assert_eq!(
            yard.request("POST", &at(verb))
                .by(OPERATOR)
                .send()
                .await
                .status,
            405,
            "{verb}"
        );
    }
    for verb in CHANGES {
        let answer = yard.request("GET", &at(verb)).by(OPERATOR).send().await;
        assert_eq!(
            (answer.status, answer.header("Allow")),
            (405, Some("POST")),
            "{verb}"
        );
    }
}

#[tokio::test]
async fn what_is_wrong_is_said_in_a_sentence() {
    let yard = Yard::open().await;
    for (verb, body, status, code, word) in [
        ("servers/demo/block", "{}", 422, "reason_missing", "reason"),
        (
            "servers/demo/block",
            "{\"reason\":\"  \"}",
            422,
            "reason_missing",
            "reason",
        ),
        ("servers/demo/classify", "{}", 422, "invalid_input", "level"),
        (
            "servers/demo/classify",
            "{\"level\":\"SECRET\"}",
            422,
            "invalid_input",
            "PUBLIC",
        ),
        (
            "servers/demo/approve",
            "{\"names\":\"all\"}",
            422,
            "invalid_input",
            "all",
        ),
        (
            "servers/nobody/block",
            "{\"reason\":\"x\"}",
            404,
            "no_such_server",
            "nobody",
        ),
        (
            "sessions/pct_alice/reset",
            "{}",
            422,
            "reason_missing",
            "reason",
        ),
        (
            "sessions/nobody/reset",
            "{\"reason\":\"x\"}",
            404,
            "no_such_caller",
            "nobody",
        ),
        (
            "approvals/k7m2/approve",
            "{}",
            404,
            "no_such_approval",
            "k7m2",
        ),
        (
            "approvals/k7m2/deny",
            "{\"reason\":\"a\\nb\"}",
            422,
            "invalid_input",
            "one line",
        ),
        ("policy/explain", "[]", 422, "invalid_input", "JSON object"),
        ("policy/explain", "{", 400, "not_json", "not JSON"),
        ("policy/explain", "{}", 422, "invalid_input", "call"),
    ] {
        let answer = yard
            .request("POST", &at(verb))
            .by(OPERATOR)
            .with_body(body)
            .send()
            .await;
        assert_eq!(answer.status, status, "{verb} {body}: {}", answer.body);
        assert_eq!(
            answer.header("Content-Type"),
            Some("application/problem+json")
        );
        let code = format!("\"code\":\"{code}\"");
        for said in [word, code.as_str()] {
            assert!(answer.body.contains(said), "{verb} {body}: {}", answer.body);
        }
    }
}

#[tokio::test]
async fn a_reset_is_for_the_session_that_was_named() {
    let yard = Yard::open().await;
    let sessions = || async {
        yard.request("GET", &at("sessions"))
            .by(OPERATOR)
            .send()
            .await
            .body
    };
    assert!(
        sessions().await.contains("\"caller\":\"pct_alice\""),
        "{}",
        sessions().await
    );
    let reset = yard
        .request("POST", &at("sessions/pct%5Falice/reset"))
        .by(OPERATOR)
        .with_body("{\"reason\":\"new task\"}")
        .send()
        .await;
    assert_eq!(reset.status, 200, "{}", reset.body);
    assert!(
        reset.body.contains("\"caller\":\"pct_alice\"") && reset.body.contains("\"epoch\":1"),
        "{}",
        reset.body
    );
    let bob = sessions().await;
    let bob = bob.split("\"caller\":\"pct_bob\"").nth(1).unwrap();
    assert!(bob.contains("\"epoch\":0"), "{bob}");
}
