//! The operator interface from outside: its OpenAPI document, a client that was generated from it, and what each role may do.

use std::fs;

use serde_json::{Value, json};
use testkit::client::{Client, Era};

use crate::approvals::{Yard, id, is_refused, pay};
use crate::foreign::{Openapi, script, talk, text};
use crate::operator::{done, listed};
use crate::support::{admin_target, new_token};

/// The document as the running gate serves it.
async fn document(yard: &Yard) -> String {
    let target = admin_target(&yard.gate, "").at("/v1/openapi.json");
    let reply = target.send("GET", &[], Vec::new()).await.unwrap();
    assert_eq!(reply.status, 200);
    reply.json().await.unwrap().to_string()
}

/// Asks for an operation with this credential; the status and what came back.
async fn asked(yard: &Yard, token: &str, method: &str, path: &str, input: Value) -> (u16, Value) {
    let target = yard.target(token).at(&format!("/v1/admin/{path}"));
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let body = match method {
        "GET" => Vec::new(),
        _ => input.to_string().into_bytes(),
    };
    let reply = target.send(method, &headers, body).await.unwrap();
    (reply.status, reply.json().await.unwrap())
}

#[tokio::test]
async fn other_peoples_tools_take_the_document_and_its_client_operates_the_gate() {
    let yard = Yard::open("").await;
    let tools = Openapi::get();
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("openapi.json");
    fs::write(&file, document(&yard).await).unwrap();
    tools.validate(&file);
    let client = place.path().join("client");
    tools.generate(&file, &client);

    let token = yard.influenced("ann").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "mallory");
    yard.pending(1).await;
    let person = new_token(&yard.gate, "person", &["--role", "approver"]).await;
    let url = yard.gate.url().trim_end_matches("/mcp").to_owned();
    let python = text(&tools.python());
    let said = talk(
        &python,
        &[&script("operator_client.py"), &text(&client), &url, &person],
    )
    .await;
    assert!(is_refused(&asking.answer().await.unwrap()));
    assert_eq!(yard.paid(), 0);
    assert_eq!(said["waiting"], json!(["pay"]));
    assert_eq!(said["answered"], "denied");
    assert_eq!(said["unknown"], json!([404, "no_such_approval"]));
    assert_eq!(said["forbidden"][0], 403);
    assert_eq!(said["forbidden"][1], "needs_role");
    assert!(
        said["forbidden"][2]
            .as_str()
            .unwrap()
            .contains("--role operator")
    );
    assert_eq!(said["calls"], json!([["news", "say", "permitted"]]));
    assert_eq!(said["verifies"], true);
    assert!(said["counted"].as_u64().unwrap() >= 2, "{said}");
    assert_eq!(said["denied"], 1);
}

/// A viewer looks, an approver looks and answers, an operator does everything; every refusal is on record.
#[tokio::test]
async fn each_role_does_what_it_may_and_no_more() {
    let yard = Yard::open("").await;
    let viewer = new_token(&yard.gate, "eyes", &["--role", "viewer"]).await;
    let approver = new_token(&yard.gate, "hand", &["--role", "approver"]).await;
    let client = new_token(&yard.gate, "plain", &["--role", "client"]).await;
    let token = yard.influenced("ann").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "mallory");
    let approval = id(&yard.pending(1).await[0]);
    let looks = [
        "status",
        "servers",
        "tools",
        "sessions",
        "approvals?all",
        "sinks",
        "servers/bank/definitions",
        "audit/records?all&limit=3",
        "audit/report?since=1h",
        "config/check",
        "config/explain",
        "policy/suggest",
    ];
    for path in looks {
        for who in [&viewer, &approver] {
            let (status, said) = asked(&yard, who, "GET", path, Value::Null).await;
            assert_eq!(status, 200, "{path}: {said}");
        }
        let (status, said) = asked(&yard, &client, "GET", path, Value::Null).await;
        assert_eq!(
            (status, &said["code"]),
            (403, &json!("needs_role")),
            "{path}"
        );
    }
    let deny = format!("approvals/{approval}/deny");
    let reason = json!({"reason": "no"});
    for (who, path) in [
        (&viewer, deny.as_str()),
        (&viewer, "reload"),
        (&approver, "reload"),
        (&approver, "servers/bank/block"),
        (&approver, "sessions/ann/reset"),
    ] {
        let (status, said) = asked(&yard, who, "POST", path, reason.clone()).await;
        assert_eq!(
            (status, &said["kind"]),
            (403, &json!("not_allowed")),
            "{path}"
        );
    }
    let (status, said) = asked(&yard, &approver, "POST", &deny, reason.clone()).await;
    assert_eq!((status, &said["state"]), (200, &json!("denied")), "{said}");
    assert!(is_refused(&asking.answer().await.unwrap()));
    let (status, said) = asked(&yard, &approver, "POST", &deny, reason).await;
    assert_eq!((status, &said["code"]), (409, &json!("already_answered")));
    let refused = listed(
        &yard.gate,
        "audit/records?action=credential.refused",
        "records",
    )
    .await;
    let recorded = |path: &str| {
        refused
            .iter()
            .any(|record| record["door"] == "admin" && record.to_string().contains(path))
    };
    assert!(recorded(&deny) && recorded("reload"), "{refused:?}");
    done(&yard.gate, &["audit", "verify"]).await;
}

/// What the command line prints as JSON is what the interface answers.
#[tokio::test]
async fn the_interface_answers_what_the_command_line_asks() {
    let yard = Yard::open("").await;
    let token = yard.influenced("ann").await;
    let viewer = new_token(&yard.gate, "eyes", &["--role", "viewer"]).await;
    let (_, found) = asked(
        &yard,
        &viewer,
        "GET",
        "audit/records?server=news",
        Value::Null,
    )
    .await;
    let call = found["records"][0]["call"].as_str().unwrap().to_owned();
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    agent
        .call("news__say", json!({"text": "again"}))
        .await
        .unwrap();
    for (verb, path) in [
        (vec!["lineage", &call], format!("audit/lineage/{call}")),
        (
            vec!["lineage", &call, "--forward"],
            format!("audit/lineage/{call}?forward=true"),
        ),
        (vec!["config", "check"], "config/check".to_owned()),
        (vec!["config", "explain"], "config/explain".to_owned()),
        (vec!["policy", "suggest"], "policy/suggest".to_owned()),
    ] {
        let printed = crate::operator::told(&yard.gate, &verb).await;
        let (status, answered) = asked(&yard, &viewer, "GET", &path, Value::Null).await;
        assert_eq!((status, answered), (200, printed), "{path}");
    }
    let bundle = "@id(\"all\") permit (principal, action, resource);";
    let input = json!({"policies": bundle});
    for path in ["policy/check", "policy/diff"] {
        let (status, said) = asked(&yard, &viewer, "POST", path, input.clone()).await;
        assert_eq!(status, 200, "{path}: {said}");
    }
    for (path, code) in [
        ("audit/records?colour=red", 422),
        ("audit/records?verdict=maybe", 422),
        ("audit/records?since=%zz", 400),
        ("audit/report?since=soon", 422),
        ("audit/lineage/nothing", 404),
        ("audit/nothing", 404),
    ] {
        let (status, said) = asked(&yard, &viewer, "GET", path, Value::Null).await;
        assert_eq!(
            (status, &said["status"]),
            (code, &json!(code)),
            "{path}: {said}"
        );
    }
}
