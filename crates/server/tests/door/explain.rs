//! Signed calls, explained afterwards: under the name they asked for, in their own session, from the record where nothing else is left.

use serde_json::{Value, json};

use crate::{
    seal::{agent, invoke, now_ms},
    yard::{ALICE, OPERATOR, Yard},
};

async fn explain(yard: &Yard, question: Value) -> Value {
    let said = yard
        .request("POST", "/v1/admin/policy/explain")
        .by(OPERATOR)
        .with_body(&question.to_string())
        .send()
        .await;
    assert_eq!(said.status, 200, "{question}: {}", said.body);
    let page: Value = said.json();
    let read: api::Explanation = serde_json::from_value(page.clone()).unwrap();
    assert_eq!(serde_json::to_value(read).unwrap(), page);
    page
}

/// What was refused, by the checks' names.
fn refused(page: &Value) -> Vec<String> {
    let checks = page["stages"]
        .as_array()
        .unwrap()
        .iter()
        .flat_map(|stage| stage["checks"].as_array().unwrap());
    checks
        .filter(|check| check["verdict"] == "refused")
        .map(|check| check["name"].as_str().unwrap().to_owned())
        .collect()
}

fn last_call(yard: &Yard, violation: &str) -> String {
    let found = yard
        .records()
        .into_iter()
        .rev()
        .find(|record| record.violation == violation);
    found
        .unwrap_or_else(|| panic!("no {violation} on record"))
        .call
}

#[tokio::test]
async fn a_signed_call_is_judged_again_as_it_was_asked() {
    let yard = Yard::open().await;
    let agent = agent(
        &yard,
        ALICE,
        1,
        json!({ "security_context": "bounded", "agent_id": "coder" }),
    )
    .await;
    for (tool, arguments, violation, check) in [
        (
            "fs.read",
            json!({ "path": "/etc/a" }),
            "PathOutsideBoundary",
            "path_inside",
        ),
        (
            "web.fetch",
            json!({ "url": "https://evil.org/" }),
            "DomainNotAllowed",
            "domain_allowed",
        ),
        (
            "fs.delete",
            json!({ "path": "/workspace/a" }),
            "ToolExplicitlyDenied",
            "not_denied",
        ),
        (
            "cmd.run",
            json!({ "command": "bash" }),
            "CommandNotAllowed",
            "command_allowed",
        ),
        (
            "aegis.agent.list",
            json!({}),
            "ToolNotAllowed",
            "tool_listed",
        ),
    ] {
        assert_eq!(
            agent.call(&yard, tool, arguments).await.violation(),
            violation
        );
        let page = explain(&yard, json!({ "call": last_call(&yard, violation) })).await;
        assert_eq!(refused(&page), [check], "{page:#}");
        assert_eq!(
            (&page["context"], &page["recorded"]["violation"]),
            (&json!("bounded"), &json!(violation))
        );
        assert_eq!(page["asked"], tool, "{page:#}");
    }
}

#[tokio::test]
async fn a_call_that_found_no_server_is_told_from_its_record() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({ "security_context": "bounded" })).await;
    let envelope = agent.envelope_at("fs.read", &json!({ "path": "/workspace/a" }), now_ms());
    invoke(&yard, &envelope).await;
    assert_eq!(
        invoke(&yard, &envelope).await.violation(),
        "EnvelopeReplayed"
    );
    let page = explain(
        &yard,
        json!({ "call": last_call(&yard, "EnvelopeReplayed") }),
    )
    .await;
    assert_eq!(page["stages"].as_array().unwrap().len(), 1, "{page:#}");
    assert_eq!(
        (&page["stages"][0]["stage"], refused(&page)),
        (&json!("Verify"), vec!["EnvelopeReplayed".to_owned()])
    );
    assert!(
        page["stages"][0]["checks"][0]["detail"].is_string(),
        "{page:#}"
    );
    assert_eq!(
        agent
            .call(&yard, "no.such.tool", json!({}))
            .await
            .violation(),
        "ToolNotFound"
    );
    let page = explain(&yard, json!({ "call": last_call(&yard, "ToolNotFound") })).await;
    assert_eq!(
        (refused(&page), &page["tool"]),
        (vec!["name_known".to_owned()], &json!("no.such.tool")),
        "{page:#}"
    );
}

#[tokio::test]
async fn a_session_that_is_over_says_so_and_its_bounds_still_count() {
    let yard = Yard::open().await;
    let agent = agent(
        &yard,
        ALICE,
        1,
        json!({ "security_context": "bounded", "execution_id": "e-1" }),
    )
    .await;
    agent
        .call(&yard, "fs.read", json!({ "path": "/etc/a" }))
        .await;
    yard.request("DELETE", "/v1/seal/sessions/e-1")
        .by(OPERATOR)
        .send()
        .await;
    let page = explain(
        &yard,
        json!({ "call": last_call(&yard, "PathOutsideBoundary") }),
    )
    .await;
    assert_eq!(
        refused(&page),
        ["credential_in_force", "path_inside"],
        "{page:#}"
    );
}

#[tokio::test]
async fn a_call_can_be_imagined_in_a_context_and_as_an_agent() {
    let yard = Yard::open().await;
    let ask = |path: &str| json!({ "tool": "fs.read", "arguments": { "path": path }, "context": "bounded" });
    assert_eq!(refused(&explain(&yard, ask("/workspace/a")).await), [""; 0]);
    let outside = explain(&yard, ask("/etc/a")).await;
    assert_eq!(
        (refused(&outside), &outside["caller"]),
        (vec!["path_inside".to_owned()], &json!("nobody")),
        "{outside:#}"
    );
    let whole = json!({ "tool": "fs.write", "arguments": { "path": "/a", "content": "x" }, "context": "everything" });
    assert_eq!(refused(&explain(&yard, whole.clone()).await), [""; 0]);
    let as_agent = |name: &str| {
        let mut question = whole.clone();
        question.as_object_mut().unwrap().extend([
            ("agent".to_owned(), json!(name)),
            ("caller".to_owned(), json!(ALICE)),
        ]);
        question
    };
    let reader = explain(&yard, as_agent("reader")).await;
    assert_eq!(
        (refused(&reader), &reader["caller"]),
        (vec!["tool_listed".to_owned()], &json!(ALICE)),
        "{reader:#}"
    );
    let elsewhere = explain(&yard, as_agent("coder")).await.to_string();
    assert!(
        elsewhere.contains("the agent is for context `bounded`"),
        "{elsewhere}"
    );
    let nowhere = json!({ "tool": "fs.read", "context": "no-such" }).to_string();
    let said = yard
        .request("POST", "/v1/admin/policy/explain")
        .by(OPERATOR)
        .with_body(&nowhere)
        .send()
        .await;
    assert!(
        said.status == 422 && said.body.contains("no security context `no-such`"),
        "{}",
        said.body
    );
}
