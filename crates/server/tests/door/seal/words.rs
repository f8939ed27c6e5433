//! How refusals of the SEAL door are worded.

use super::*;

#[tokio::test]
async fn what_is_wrong_is_said_once() {
    let yard = Yard::open().await;
    let message = |said: &Response| said.json()["error"]["message"].as_str().unwrap().to_owned();
    let said = invoke(&yard, r#"{"protocol":"seal/v1"}"#).await;
    assert_eq!(
        message(&said),
        "Malformed request: the envelope has no `security_token`"
    );
    let agent = agent(&yard, ALICE, 1, json!({ "security_context": "bounded" })).await;
    let said = agent.call(&yard, "fs.read", json!({ "path": "" })).await;
    assert!(
        message(&said).ends_with("nothing is where a path should be"),
        "{}",
        said.body
    );
}

#[tokio::test]
async fn what_is_refused_before_it_is_an_envelope_is_said_in_the_same_form() {
    let yard = Yard::open().await;
    let post = |verb: &str| {
        yard.request("POST", &format!("/v1/seal/{verb}"))
            .with_body("{}")
    };
    let large = "x".repeat(80 << 10);
    for (what, request, status) in [
        ("too large", post("attest").with_body(&large), 413),
        (
            "too large an envelope",
            post("invoke").with_body(&large),
            413,
        ),
        (
            "another type",
            post("invoke").with("Content-Type", "text/plain"),
            415,
        ),
        (
            "another method",
            yard.request("GET", "/v1/seal/invoke"),
            405,
        ),
        (
            "a foreign page",
            post("invoke").with("Origin", "https://evil.example"),
            403,
        ),
        (
            "a foreign name",
            post("invoke").with("Host", "evil.example"),
            403,
        ),
        ("an unknown bearer", post("attest").by("pct_wrong"), 401),
        ("nobody", post("attest").with("Authorization", ""), 400),
        ("no operator", yard.request("GET", "/v1/seal/sessions"), 403),
        (
            "no session",
            yard.request("GET", "/v1/seal/sessions/e-1").by(OPERATOR),
            404,
        ),
        ("nowhere", yard.request("GET", "/v1/seal/nowhere"), 404),
    ] {
        let said = request.send().await;
        let json = said.json();
        assert_eq!(said.status, status, "{what}: {}", said.body);
        assert_eq!(
            (&json["protocol"], &json["status"]),
            (&json!("seal/v1"), &json!("error")),
            "{what}: {}",
            said.body
        );
        assert!(
            json["message"]
                .as_str()
                .is_some_and(|text| !text.is_empty()),
            "{what}: {}",
            said.body
        );
        assert_eq!(json["error"]["message"], json["message"], "{what}");
        assert!(json["error"]["code"].is_i64(), "{what}: {}", said.body);
        assert_eq!(
            said.header("Content-Type"),
            Some("application/json"),
            "{what}"
        );
    }
    let elsewhere = yard
        .post("{}")
        .with("Content-Type", "text/plain")
        .send()
        .await
        .json();
    assert!(
        elsewhere["error"].is_string(),
        "other doors keep their form: {elsewhere}"
    );
}
