//! The door as an OAuth protected resource: access tokens of an identity provider, good and bad, its keys coming and going, and tokens
//! that are bound to a key.

use serde_json::{Value, json};
use testkit::client::{Client, Era, Reply, Target};
use testkit::gate::Gate;
use testkit::provider::{Holder, Mood, Provider, now, public_jwk};
use testkit::shifty::{Shifty, Shown};

use crate::operator::{FLOOR_ONLY, SOON, label, reconfigure, shifty};
use crate::support::{admin, await_state, config, eventually, gate, http, records};

/// The address in tokens. What the gate listens on does not matter to it.
const RESOURCE: &str = "http://localhost/mcp";
const USE: &str = "mcp:use";

/// A gate behind a provider, with a server of secrets and one of none.
struct Yard {
    gate: Gate,
    provider: Provider,
    secret: Shifty,
    public: Shifty,
}

fn yaml(provider: &Provider, secret: &Shifty, public: &Shifty, dpop: &str) -> String {
    let servers = config(&[
        (
            "secret",
            http(
                &secret.url(),
                "classification: CONFIDENTIAL, open_world: false",
            ),
        ),
        (
            "public",
            http(
                &public.url(),
                "classification: PUBLIC, open_world: false, access: { users: [alice, bob], departments: [eng] }",
            ),
        ),
    ]);
    format!(
        "{FLOOR_ONLY}oauth:\n  resource: {RESOURCE}\n  scopes: [{USE}]\n  dpop: {dpop}\n  issuers:\n    - issuer: {}\n      jwks_url: {}\n      \
         departments_claim: groups\n      operator_scope: mcp:operate\n{servers}",
        provider.issuer(),
        provider.jwks_url()
    )
}

impl Yard {
    async fn open(dpop: &str) -> Self {
        let (secret, public) = (shifty(Shown::usual()).await, shifty(Shown::usual()).await);
        let provider = Provider::start().await.unwrap();
        let gate = gate(&yaml(&provider, &secret, &public, dpop)).await;
        for id in ["secret", "public"] {
            await_state(&gate, id, "connected", SOON).await;
        }
        Self {
            gate,
            provider,
            secret,
            public,
        }
    }

    fn token(&self, subject: &str, more: &Value) -> String {
        self.provider
            .token(&self.provider.claims(RESOURCE, subject, USE, more))
            .unwrap()
    }

    fn target(&self, token: Option<&str>) -> Target {
        Target::new(self.gate.url(), token).unwrap()
    }

    async fn client(&self, token: &str) -> Client {
        Client::plain(&self.target(Some(token)), Era::Modern)
            .await
            .unwrap()
    }

    /// What the door says to a request with this token.
    async fn knock(&self, token: &str) -> Reply {
        self.target(Some(token))
            .send("POST", &headers(&[]), opening())
            .await
            .unwrap()
    }

    async fn knock_bound(&self, token: &str, proof: &str) -> Reply {
        let authorization = format!("DPoP {token}");
        let more = headers(&[("authorization", authorization.as_str()), ("dpop", proof)]);
        self.target(None)
            .send("POST", &more, opening())
            .await
            .unwrap()
    }

    fn says(&self) -> usize {
        self.secret.calls_of("say").len() + self.public.calls_of("say").len()
    }
}

fn headers(more: &[(&str, &str)]) -> Vec<(String, String)> {
    let plain = [
        ("content-type", "application/json"),
        ("accept", "application/json, text/event-stream"),
    ];
    plain
        .iter()
        .chain(more)
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// The first message of a client.
fn opening() -> Vec<u8> {
    let params = json!({ "protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": { "name": "t", "version": "1" } });
    json!({ "jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params })
        .to_string()
        .into_bytes()
}

fn challenge(reply: &Reply) -> String {
    let values = reply.headers.get_all("www-authenticate").iter();
    values
        .map(|value| value.to_str().unwrap())
        .collect::<Vec<_>>()
        .join(" | ")
}

#[tokio::test]
async fn a_stranger_is_told_where_to_get_a_token() {
    let yard = Yard::open("allowed").await;
    let reply = yard
        .target(None)
        .send("POST", &headers(&[]), opening())
        .await
        .unwrap();
    assert_eq!(reply.status, 401);
    let said = challenge(&reply);
    let metadata =
        "resource_metadata=\"http://localhost/.well-known/oauth-protected-resource/mcp\"";
    assert!(
        said.starts_with("Bearer ")
            && said.contains(metadata)
            && said.contains("scope=\"mcp:use\""),
        "{said}"
    );
    assert!(
        said.contains("| DPoP ") && said.contains("algs=\"ES256 "),
        "{said}"
    );
    assert!(!said.contains("error="), "nothing was presented: {said}");
    for path in ["", "/mcp", "/u/secret/mcp"] {
        let path = format!("/.well-known/oauth-protected-resource{path}");
        let reply = yard
            .target(None)
            .at(&path)
            .send("GET", &[], Vec::new())
            .await
            .unwrap();
        assert_eq!(reply.status, 200, "{path}");
        let document = reply.json().await.unwrap();
        assert_eq!(document["resource"], RESOURCE);
        assert_eq!(
            document["authorization_servers"],
            json!([yard.provider.issuer()])
        );
        assert_eq!(document["scopes_supported"], json!([USE, "mcp:operate"]));
        assert_eq!(document["bearer_methods_supported"], json!(["header"]));
        assert_eq!(document["dpop_bound_access_tokens_required"], false);
    }
    for path in [
        "/.well-known/oauth-protected-resource/other",
        "/.well-known/oauth-authorization-server",
        "/.well-known/openid-configuration",
    ] {
        let reply = yard
            .target(None)
            .at(path)
            .send("GET", &[], Vec::new())
            .await
            .unwrap();
        assert_eq!(reply.status, 404, "{path}");
    }
    // A credential of the gate's own is as good as before.
    let own = Client::plain(&yard.gate.target().unwrap(), Era::Modern)
        .await
        .unwrap();
    assert!(!own.tool_names().await.unwrap().is_empty());
}

#[tokio::test]
async fn a_new_token_is_the_same_caller_with_the_same_label() {
    let mut yard = Yard::open("off").await;
    let first = yard.client(&yard.token("alice", &json!({}))).await;
    assert!(
        !first
            .call("public__say", json!({ "text": "hi" }))
            .await
            .unwrap()
            .is_error
    );
    assert!(
        !first
            .call("secret__say", json!({ "text": "hi" }))
            .await
            .unwrap()
            .is_error
    );
    let refused = first
        .call("public__say", json!({ "text": "leak" }))
        .await
        .unwrap();
    assert_eq!(refused.violation(), Some("WouldViolateWriteDown"));
    for again in 0..2 {
        let client = yard
            .client(&yard.token(
                "alice",
                &json!({ "jti": again.to_string(), "client_id": "another" }),
            ))
            .await;
        let refused = client
            .call("public__say", json!({ "text": "leak" }))
            .await
            .unwrap();
        assert_eq!(
            refused.violation(),
            Some("WouldViolateWriteDown"),
            "a new token washed the label off"
        );
        yard.gate.kill().unwrap();
        yard.gate.start_again().await.unwrap();
        await_state(&yard.gate, "public", "connected", SOON).await;
    }
    assert_eq!(label(&yard.gate, "alice").await, "CONFIDENTIAL");
    let bob = yard.client(&yard.token("bob", &json!({}))).await;
    assert!(
        !bob.call("public__say", json!({ "text": "hi" }))
            .await
            .unwrap()
            .is_error
    );
    // Who is not listed is let in by a department of the token, and only then.
    let carol = yard.client(&yard.token("carol", &json!({}))).await;
    assert_eq!(
        carol
            .call("public__say", json!({ "text": "hi" }))
            .await
            .unwrap()
            .violation(),
        Some("PermissionDenied")
    );
    let carol = yard
        .client(&yard.token("carol", &json!({ "groups": ["eng"] })))
        .await;
    assert!(
        !carol
            .call("public__say", json!({ "text": "hi" }))
            .await
            .unwrap()
            .is_error
    );
    let names: Vec<String> = records(&yard.gate)
        .await
        .iter()
        .filter_map(|record| record["caller"].as_str().map(str::to_owned))
        .collect();
    assert!(
        names
            .iter()
            .any(|name| name.starts_with("oauth:") && name.ends_with(":alice")),
        "{names:?}"
    );
    // The token itself went nowhere.
    assert!(!yard.secret.ever_heard("Bearer") && !yard.public.ever_heard("eyJ"));
}

#[tokio::test]
async fn tokens_that_are_not_for_this_gate_are_refused() {
    let yard = Yard::open("off").await;
    let good = yard.token("alice", &json!({}));
    eventually("the keys", SOON, || async {
        let status = yard.knock(&good).await.status;
        if status == 200 {
            Ok(())
        } else {
            Err(status.to_string())
        }
    })
    .await;
    let asked = yard.provider.times_asked();
    let (kid, claims) = (
        yard.provider.key_id(),
        yard.provider.claims(RESOURCE, "alice", USE, &json!({})),
    );
    let forged = |seed: u8, header: Value| yard.provider.signed(seed, &header, &claims).unwrap();
    let public = public_jwk(1).unwrap()["x"].as_str().unwrap().to_owned();
    let hmac =
        yard.provider
            .signed_with_secret(&public, &json!({ "alg": "HS256", "kid": kid }), &claims);
    let unsigned = format!(
        "{}.",
        forged(1, json!({ "alg": "none" }))
            .rsplit_once('.')
            .unwrap()
            .0
    );
    let table: Vec<(&str, String)> = vec![
        (
            "another resource",
            yard.token("alice", &json!({ "aud": "http://localhost/other" })),
        ),
        (
            "the resource as a part",
            yard.token("alice", &json!({ "aud": "http://localhost/mcp.evil" })),
        ),
        ("no audience", yard.token("alice", &json!({ "aud": null }))),
        (
            "another issuer",
            yard.token("alice", &json!({ "iss": "https://evil.example" })),
        ),
        (
            "the issuer with a slash",
            yard.token(
                "alice",
                &json!({ "iss": format!("{}/", yard.provider.issuer()) }),
            ),
        ),
        ("expired", yard.token("alice", &json!({ "exp": now() - 1 }))),
        (
            "not yet",
            yard.token("alice", &json!({ "nbf": now() + 120 })),
        ),
        ("nobody", yard.token("alice", &json!({ "sub": null }))),
        (
            "bound in a way that is not known",
            yard.token("alice", &json!({ "cnf": { "x5t#S256": "abc" } })),
        ),
        (
            "bound, and no proofs are taken",
            yard.token("alice", &json!({ "cnf": { "jkt": "A".repeat(43) } })),
        ),
        (
            "a name with a line break",
            yard.token("ali\nce", &json!({})),
        ),
        ("alg none", unsigned),
        (
            "alg none, signed",
            forged(1, json!({ "alg": "none", "kid": kid })),
        ),
        ("a public key as a secret", hmac),
        (
            "another algorithm",
            forged(1, json!({ "alg": "RS256", "kid": kid })),
        ),
        (
            "a stranger's key",
            forged(9, json!({ "alg": "EdDSA", "kid": kid })),
        ),
        (
            "a key of its own",
            forged(
                9,
                json!({ "alg": "EdDSA", "kid": kid, "jwk": public_jwk(9).unwrap() }),
            ),
        ),
        (
            "an address of keys",
            forged(
                9,
                json!({ "alg": "EdDSA", "kid": kid, "jku": format!("{}/evil", yard.provider.issuer()) }),
            ),
        ),
        (
            "a certificate",
            forged(9, json!({ "alg": "EdDSA", "kid": kid, "x5c": ["MIIB"] })),
        ),
        (
            "a path for an id",
            forged(9, json!({ "alg": "EdDSA", "kid": "../../../../dev/null" })),
        ),
        (
            "an address for an id",
            forged(
                9,
                json!({ "alg": "EdDSA", "kid": yard.provider.jwks_url() }),
            ),
        ),
        (
            "a proof for a token",
            forged(1, json!({ "alg": "EdDSA", "kid": kid, "typ": "dpop+jwt" })),
        ),
        ("an oversized one", format!("{}.{good}", "A".repeat(9000))),
        ("cut", good.split_at(good.len() - 4).0.to_owned()),
        ("not a token", "portcullis".to_owned()),
    ];
    for (what, token) in &table {
        let reply = yard.knock(token).await;
        assert_eq!(reply.status, 401, "{what}");
        let said = challenge(&reply);
        assert!(
            said.contains("error=\"invalid_token\"") && said.contains("resource_metadata="),
            "{what}: {said}"
        );
        let body = String::from_utf8_lossy(&reply.bytes().await.unwrap()).into_owned();
        assert!(!body.contains(token.as_str()), "{what} was repeated");
    }
    let in_url = yard
        .target(None)
        .at(&format!("/mcp?access_token={good}"))
        .send("POST", &headers(&[]), opening())
        .await
        .unwrap();
    assert_eq!(in_url.status, 401);
    assert_eq!(yard.says(), 0);
    assert!(
        yard.provider.times_asked() <= asked + 2,
        "unknown keys make the gate ask again and again"
    );
    assert_eq!(yard.knock(&good).await.status, 200);
}

#[tokio::test]
async fn a_missing_scope_is_asked_for() {
    let yard = Yard::open("off").await;
    let with = |scope: &str| {
        yard.provider
            .token(&yard.provider.claims(RESOURCE, "alice", scope, &json!({})))
            .unwrap()
    };
    let reply = yard.knock(&with("other")).await;
    assert_eq!(reply.status, 403);
    let said = challenge(&reply);
    assert!(
        said.contains("error=\"insufficient_scope\"") && said.contains("scope=\"mcp:use\""),
        "{said}"
    );
    assert_eq!(yard.knock(&with("other mcp:use")).await.status, 200);
    let (target, path) = (yard.target(None), "/v1/admin/status");
    let status = |token: String| {
        let target = target.at(path).with_token(Some(&token));
        async move { target.send("GET", &[], Vec::new()).await.unwrap() }
    };
    let refused = status(with(USE)).await;
    assert_eq!(refused.status, 403);
    let said = challenge(&refused);
    assert!(
        said.contains("error=\"insufficient_scope\"")
            && said.contains("scope=\"mcp:use mcp:operate\""),
        "{said}"
    );
    assert_eq!(status(with("mcp:use mcp:operate")).await.status, 200);
    assert_eq!(
        status(with(USE)).await.status,
        403,
        "a caller stayed an operator"
    );
}

#[tokio::test]
async fn the_door_of_signed_calls_asks_for_tokens_and_scopes_the_same_way() {
    let yard = Yard::open("off").await;
    let with = |scope: &str| {
        let claims = yard.provider.claims(RESOURCE, "alice", scope, &json!({}));
        yard.provider.token(&claims).unwrap()
    };
    let sessions = async |method: &str, path: &str, token: &str| {
        let target = yard.target(Some(token)).at(&format!("/v1/seal/{path}"));
        target
            .send(method, &headers(&[]), b"{}".to_vec())
            .await
            .unwrap()
    };
    for (method, path) in [
        ("GET", "sessions"),
        ("DELETE", "sessions/e-1"),
        ("POST", "workloads"),
    ] {
        let refused = sessions(method, path, &with(USE)).await;
        let said = challenge(&refused);
        assert_eq!(refused.status, 403, "{path}");
        assert!(
            said.contains("error=\"insufficient_scope\"")
                && said.contains("scope=\"mcp:use mcp:operate\""),
            "{said}"
        );
        let body = refused.json().await.unwrap();
        assert!(
            body["error"]["message"].is_string() && body["status"] == "error",
            "{body}"
        );
    }
    assert_eq!(
        sessions("GET", "sessions", &with("mcp:use mcp:operate"))
            .await
            .status,
        200
    );
    let bad = sessions("GET", "sessions", "portcullis").await;
    assert_eq!(bad.status, 401);
    assert!(
        challenge(&bad).contains("error=\"invalid_token\""),
        "{}",
        challenge(&bad)
    );
    let key = identity::AgentKey::from_seed(&[1; 32])
        .unwrap()
        .public()
        .to_base64();
    let body = json!({ "public_key": key, "security_context": "x" }).to_string();
    for (method, path) in [("POST", "attest"), ("GET", "tools"), ("GET", "sessions")] {
        let target = yard.target(None).at(&format!("/v1/seal/{path}"));
        let stranger = target
            .send(method, &headers(&[]), body.clone().into_bytes())
            .await
            .unwrap();
        let said = challenge(&stranger);
        assert_eq!(stranger.status, 401, "{path}");
        assert!(
            said.contains("resource_metadata=") && said.contains("scope=\"mcp:use\""),
            "{path}: {said}"
        );
        assert!(!said.contains("error="), "nothing was presented: {said}");
    }
}

#[tokio::test]
async fn keys_rotate_and_an_outage_is_survived() {
    let yard = Yard::open("off").await;
    let works = |token: String| {
        let yard = &yard;
        async move {
            eventually("the token to be taken", SOON, || async {
                let reply = yard.knock(&token).await;
                if reply.status == 200 {
                    Ok(())
                } else {
                    Err(format!("{} {}", reply.status, challenge(&reply)))
                }
            })
            .await;
        }
    };
    let old = yard.token("alice", &json!({}));
    works(old.clone()).await;
    yard.provider.rotate(true);
    works(yard.token("alice", &json!({}))).await;
    assert_eq!(yard.knock(&old).await.status, 200, "keys overlap");
    // Gone from the set is gone from the gate, once it looks again.
    yard.provider.rotate(false);
    works(yard.token("alice", &json!({}))).await;
    assert_eq!(yard.knock(&old).await.status, 401);
    let known = yard.token("alice", &json!({}));
    for mood in [
        Mood::Down,
        Mood::Nonsense,
        Mood::Endless,
        Mood::Elsewhere("http://127.0.0.2:9/keys".into()),
    ] {
        yard.provider.feel(mood.clone());
        let asked = yard.provider.times_asked();
        let unknown = yard
            .provider
            .signed(
                9,
                &json!({ "alg": "EdDSA", "kid": "new" }),
                &json!({ "iss": yard.provider.issuer() }),
            )
            .unwrap();
        eventually("the gate to ask again", SOON, || async {
            assert_eq!(yard.knock(&unknown).await.status, 401);
            if yard.provider.times_asked() > asked {
                Ok(())
            } else {
                Err("it has not asked".to_owned())
            }
        })
        .await;
        assert_eq!(
            yard.knock(&known).await.status,
            200,
            "{mood:?}: known keys outlive an outage"
        );
        let status = admin(&yard.gate, "GET", "status").await;
        let issuer = &status["oauth"]["issuers"][0];
        assert!(
            issuer["last_error"].is_string() && issuer["usable"] == true && issuer["keys"] == 1,
            "{mood:?}: {issuer}"
        );
    }
    yard.provider.feel(Mood::Well);
    yard.provider.rotate(true);
    works(yard.token("alice", &json!({}))).await;
    let status = admin(&yard.gate, "GET", "status").await;
    assert!(
        status["oauth"]["issuers"][0]["last_error"].is_null(),
        "{status}"
    );
}

#[tokio::test]
async fn without_keys_nobody_gets_in_and_is_told_to_wait() {
    let provider = Provider::start().await.unwrap();
    provider.feel(Mood::Down);
    let server = shifty(Shown::usual()).await;
    let gate = gate(&yaml(&provider, &server, &server, "off")).await;
    let token = provider
        .token(&provider.claims(RESOURCE, "alice", USE, &json!({})))
        .unwrap();
    let knock = || async {
        Target::new(gate.url(), Some(&token))
            .unwrap()
            .send("POST", &headers(&[]), opening())
            .await
            .unwrap()
    };
    let reply = knock().await;
    assert_eq!(
        (reply.status, reply.header("retry-after")),
        (503, Some("5"))
    );
    provider.feel(Mood::Well);
    eventually("the keys", SOON, || async {
        if knock().await.status == 200 {
            Ok(())
        } else {
            Err("no keys".to_owned())
        }
    })
    .await;
}

#[tokio::test]
async fn a_bound_token_needs_its_proof_and_no_proof_counts_twice() {
    let mut yard = Yard::open("allowed").await;
    let holder = Holder::new().unwrap();
    let bound = yard.token("alice", &json!({ "cnf": { "jkt": holder.thumbprint() } }));
    let proof = |id: &str, more: Value| holder.proof("POST", RESOURCE, &bound, id, &more).unwrap();
    assert_eq!(
        yard.knock_bound(&bound, &proof("1", json!({})))
            .await
            .status,
        200
    );
    let again = yard.knock_bound(&bound, &proof("1", json!({}))).await;
    assert_eq!(again.status, 401, "a proof counted twice");
    assert!(challenge(&again).contains("error=\"invalid_dpop_proof\""));
    assert_eq!(
        yard.knock(&bound).await.status,
        401,
        "a bound token was a bearer"
    );
    let stranger = Holder::new().unwrap();
    let refused = [
        (
            "another key",
            stranger
                .proof("POST", RESOURCE, &bound, "2", &json!({}))
                .unwrap(),
        ),
        ("another method", proof("3", json!({ "htm": "GET" }))),
        (
            "another address",
            proof("4", json!({ "htu": "http://localhost/other" })),
        ),
        (
            "another token",
            holder
                .proof("POST", RESOURCE, "token", "5", &json!({}))
                .unwrap(),
        ),
        ("long ago", proof("6", json!({ "iat": now() - 301 }))),
        ("far ahead", proof("7", json!({ "iat": now() + 302 }))),
        ("no proof at all", "x".to_owned()),
    ];
    for (what, proof) in &refused {
        assert_eq!(yard.knock_bound(&bound, proof).await.status, 401, "{what}");
    }
    let unbound = yard.token("alice", &json!({}));
    assert_eq!(yard.knock(&unbound).await.status, 200);
    assert_eq!(
        yard.knock_bound(
            &unbound,
            &holder
                .proof("POST", RESOURCE, &unbound, "8", &json!({}))
                .unwrap()
        )
        .await
        .status,
        401
    );
    // A clock that is a few minutes off is usual at clients.
    assert_eq!(
        yard.knock_bound(&bound, &proof("9", json!({ "iat": now() - 240 })))
            .await
            .status,
        200
    );
    let spent = proof("10", json!({}));
    assert_eq!(yard.knock_bound(&bound, &spent).await.status, 200);
    yard.gate.kill().unwrap();
    yard.gate.start_again().await.unwrap();
    let after = eventually("keys", SOON, || async {
        let status = yard.knock_bound(&bound, &spent).await.status;
        if status == 503 {
            Err("no keys yet".to_owned())
        } else {
            Ok(status)
        }
    })
    .await;
    assert_eq!(after, 401, "a proof counted again after a restart");
    assert_eq!(
        yard.knock_bound(&bound, &proof("11", json!({})))
            .await
            .status,
        200
    );
    reconfigure(
        &yard.gate,
        &yaml(&yard.provider, &yard.secret, &yard.public, "required"),
    )
    .await;
    let reply = yard.knock(&unbound).await;
    assert_eq!(reply.status, 401);
    assert!(
        challenge(&reply).starts_with("DPoP "),
        "{}",
        challenge(&reply)
    );
    assert_eq!(
        yard.knock_bound(&bound, &proof("12", json!({})))
            .await
            .status,
        200
    );
}

#[tokio::test]
async fn a_provider_that_is_taken_out_takes_its_callers_along() {
    let yard = Yard::open("off").await;
    let token = yard.token("alice", &json!({}));
    let client = yard.client(&token).await;
    assert!(
        !client
            .call("secret__say", json!({ "text": "hi" }))
            .await
            .unwrap()
            .is_error
    );
    let full = yaml(&yard.provider, &yard.secret, &yard.public, "off");
    let (before, after) = full.split_once("oauth:").unwrap();
    let servers = after.split_once("mcp_servers:").unwrap().1;
    reconfigure(&yard.gate, &format!("{before}mcp_servers:{servers}")).await;
    let reply = yard.knock(&token).await;
    assert_eq!((reply.status, challenge(&reply).as_str()), (401, "Bearer"));
    let gone = yard
        .target(None)
        .at("/.well-known/oauth-protected-resource")
        .send("GET", &[], Vec::new())
        .await
        .unwrap();
    assert_eq!(gone.status, 404);
    // Back again, it is the same caller: what they saw is not forgotten.
    std::fs::write(
        yard.gate.home().join("keys.json"),
        yard.provider.key_set().to_string(),
    )
    .unwrap();
    let from_file = full.replace(
        &format!("jwks_url: {}", yard.provider.jwks_url()),
        "jwks_file: keys.json",
    );
    reconfigure(&yard.gate, &from_file).await;
    let client = yard.client(&token).await;
    let refused = client
        .call("public__say", json!({ "text": "leak" }))
        .await
        .unwrap();
    assert_eq!(refused.violation(), Some("WouldViolateWriteDown"));
}
