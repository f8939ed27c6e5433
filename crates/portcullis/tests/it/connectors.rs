//! `/mcp/connectors` and `/reload-config`, as host programs use them.

use serde_json::{Value, json};
use testkit::client::Target;
use testkit::gate::Gate;

use crate::support::{gate, records};

/// What came back: the status and the document.
async fn ask(gate: &Gate, method: &str, path: &str, body: Option<Value>) -> (u16, Value) {
    let token = std::fs::read_to_string(gate.home().join("state/operator.token")).unwrap();
    with_token(gate, method, path, body, token.trim()).await
}

async fn with_token(
    gate: &Gate,
    method: &str,
    path: &str,
    body: Option<Value>,
    token: &str,
) -> (u16, Value) {
    let target = Target::new(gate.url(), Some(token)).unwrap().at(path);
    let headers: Vec<(String, String)> = body
        .iter()
        .map(|_| ("content-type".to_owned(), "application/json".to_owned()))
        .collect();
    let body = body.map_or_else(Vec::new, |body| body.to_string().into_bytes());
    let reply = target.send(method, &headers, body).await.unwrap();
    (reply.status, reply.json().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn host_programs_list_add_and_remove_servers() {
    let gate = gate("# mine\nmcp_servers:\n  zeta: { url: \"https://z.example/mcp\", enabled: false, bearer: env:Z }\n").await;
    let (status, listed) = ask(&gate, "GET", "/mcp/connectors", None).await;
    assert_eq!(status, 200, "{listed}");
    assert_eq!(
        listed,
        json!({ "mode": "settings_profiles_v2", "profile_id": "default", "servers": [{
            "id": "zeta", "source_profile": "default", "source": "user", "direct": true, "editable": true,
            "server": { "url": "https://z.example/mcp", "enabled": false, "bearer": "env:Z" }
        }] })
    );
    let new = json!({ "id": "alpha", "url": "https://a.example/mcp", "headers": { "x-team": "core" }, "enabled": false });
    let (status, added) = ask(&gate, "POST", "/mcp/connectors", Some(new.clone())).await;
    assert_eq!(
        (status, &added["id"], &added["direct"]),
        (201, &"alpha".into(), &true.into()),
        "{added}"
    );
    let file = std::fs::read_to_string(gate.home().join("portcullis.yaml")).unwrap();
    assert!(
        file.starts_with("# mine\n") && file.contains("alpha:"),
        "{file}"
    );
    let (_, listed) = ask(&gate, "GET", "/mcp/connectors", None).await;
    let ids: Vec<&str> = listed["servers"]
        .as_array()
        .unwrap()
        .iter()
        .map(|server| server["id"].as_str().unwrap())
        .collect();
    assert_eq!(ids, ["alpha", "zeta"]);

    let mut other = new.clone();
    for (change, status, code) in [
        (json!({}), 409, "server_exists"),
        (json!({ "id": "A b" }), 400, "bad_id"),
        (
            json!({ "id": "b", "headers": { "authorization": "Bearer ghp_0123456789abcdef0123456789" } }),
            400,
            "connector_refused",
        ),
        (
            json!({ "id": "b", "url": null, "command": "sh", "headers": {} }),
            403,
            "commands_not_allowed",
        ),
    ] {
        other
            .as_object_mut()
            .unwrap()
            .extend(change.as_object().unwrap().clone());
        let (said, problem) = ask(&gate, "POST", "/mcp/connectors", Some(other.clone())).await;
        assert_eq!(
            (said, problem["code"].as_str()),
            (status, Some(code)),
            "{problem}"
        );
        assert!(!problem.to_string().contains("ghp_"), "{problem}");
    }
    assert_eq!(
        std::fs::read_to_string(gate.home().join("portcullis.yaml")).unwrap(),
        file,
        "a refusal writes nothing"
    );

    let (status, removed) = ask(&gate, "DELETE", "/mcp/connectors/alpha", None).await;
    assert_eq!(status, 200, "{removed}");
    assert_eq!(
        removed,
        json!({ "mode": "settings_profiles_v2", "profile_id": "default", "server_id": "alpha", "removed": true })
    );
    assert_eq!(
        ask(&gate, "DELETE", "/mcp/connectors/alpha", None).await.0,
        404
    );
    assert_eq!(ask(&gate, "PUT", "/mcp/connectors", None).await.0, 405);
    // An agent's credential opens none of it, and what was done is on record with who did it.
    let agent = gate.token().unwrap();
    assert_eq!(
        with_token(&gate, "GET", "/mcp/connectors", None, &agent)
            .await
            .0,
        403
    );
    let actions: Vec<String> = records(&gate)
        .await
        .iter()
        .filter_map(|record| record["action"].as_str().map(str::to_owned))
        .collect();
    assert!(
        actions.contains(&"connectors.add".to_owned())
            && actions.contains(&"connectors.remove".to_owned()),
        "{actions:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_configuration_is_read_again_whole_or_not_at_all() {
    let gate = gate("mcp_servers: {}\n").await;
    let (status, said) = ask(&gate, "POST", "/reload-config", None).await;
    assert_eq!(status, 200, "{said}");
    assert_eq!(
        (
            &said["success"],
            &said["failed_session_count"],
            &said["failures"]
        ),
        (&true.into(), &0.into(), &json!([]))
    );
    gate.write_config("mcp_servers: { a: { url: 1 } }\nlisen: x\n")
        .unwrap();
    let (status, problem) = ask(&gate, "POST", "/reload-config", None).await;
    assert_eq!(status, 500, "{problem}");
    assert!(
        problem
            .to_string()
            .contains("the configuration before stays in force"),
        "{problem}"
    );
}
