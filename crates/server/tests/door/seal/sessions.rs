//! Sessions of signed calls: whose they are, how they end, what they used up.

use super::*;

#[tokio::test]
async fn only_the_diagonal_of_principals_sessions_and_tenants_passes() {
    let yard = Yard::open().await;
    let mut agents = Vec::new();
    for (at, (token, tenant)) in TENANTS.into_iter().enumerate() {
        for (_, other) in TENANTS.into_iter().filter(|(_, other)| *other != tenant) {
            let refused = attest_as(&yard, token, 9, json!({ "tenant_id": other }))
                .await
                .1;
            assert_eq!(refused.status, 403, "{token} for {other}: {}", refused.body);
        }
        agents.push(agent(&yard, token, at as u8 + 1, json!({ "tenant_id": tenant })).await);
    }
    for (key, one) in agents.iter().enumerate() {
        for (token, other) in agents.iter().enumerate() {
            let mixed = Agent {
                key: AgentKey::from_seed(&[key as u8 + 1; 32]).unwrap(),
                token: other.token.clone(),
                execution: one.execution.clone(),
                calls: AtomicU64::new(100),
            };
            let said = mixed.call(&yard, "aegis.agent.list", json!({})).await;
            let wanted = if key == token { PASSED } else { 401 };
            assert_eq!(
                said.status, wanted,
                "key {key}, token {token}: {}",
                said.body
            );
        }
    }
    let theirs = attest_as(
        &yard,
        "pct_t0",
        8,
        json!({ "security_context": "tenant-t1-own" }),
    )
    .await
    .1;
    assert_eq!(
        (theirs.status, &theirs.json()["error_code"]),
        (401, &json!(3001)),
        "another tenant's context is not there"
    );
    assert_eq!(
        attest_as(
            &yard,
            "pct_t1",
            8,
            json!({ "security_context": "tenant-t1-own" })
        )
        .await
        .1
        .status,
        200
    );
    let mine = agents[0].execution.as_str();
    let taken = attest_as(&yard, "pct_t1", 7, json!({ "execution_id": mine }))
        .await
        .1;
    assert_eq!(
        taken.status, 403,
        "an execution is not somebody else's to take: {}",
        taken.body
    );
}

#[tokio::test]
async fn revocation_bites_on_the_next_call_and_lasts() {
    let home = tempfile::tempdir().unwrap();
    let yard = Yard::open_in(home, audit::system_clock()).await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    assert_eq!(
        agent
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .status,
        PASSED
    );
    let path = format!("/v1/seal/sessions/{}", agent.execution);
    assert_eq!(
        yard.request("DELETE", &path).by(ALICE).send().await.status,
        403,
        "not for an agent"
    );
    let ended = yard.request("DELETE", &path).by(OPERATOR).send().await;
    assert_eq!(
        (ended.status, &ended.json()["session_status"]),
        (200, &json!("Revoked")),
        "{}",
        ended.body
    );
    for _ in 0..2 {
        let said = agent.call(&yard, "aegis.agent.list", json!({})).await;
        assert_eq!(
            (said.status, said.violation().as_str()),
            (403, "SessionInactive"),
            "{}",
            said.body
        );
    }
    let yard = Yard::open_in(yard.abandon().await, audit::system_clock()).await;
    assert_eq!(
        agent
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .violation(),
        "SessionInactive",
        "over a restart"
    );
    let listed = yard
        .request("GET", "/v1/seal/sessions?all")
        .by(OPERATOR)
        .send()
        .await
        .json();
    assert_eq!(listed["sessions"][0]["session_status"], "Revoked");
}

#[tokio::test]
async fn what_expired_was_not_revoked_and_ends_once() {
    let ahead = Arc::new(AtomicU64::new(0));
    let clock: Clock = {
        let (ahead, system) = (Arc::clone(&ahead), audit::system_clock());
        Arc::new(move || Moment {
            unix_ms: system().unix_ms + ahead.load(Ordering::Relaxed),
            ..system()
        })
    };
    let yard = Yard::open_in(tempfile::tempdir().unwrap(), clock).await;
    for (seed, execution) in [(1, "expires"), (2, "revoked")] {
        agent(&yard, ALICE, seed, json!({ "execution_id": execution })).await;
    }
    let end = async |execution: &str| {
        yard.request("DELETE", &format!("/v1/seal/sessions/{execution}"))
            .by(OPERATOR)
            .send()
            .await
            .json()
    };
    let revoked = end("revoked").await;
    assert_eq!(revoked["session_status"], "Revoked");
    ahead.store(2 * 3600 * 1000, Ordering::Relaxed);
    assert_eq!(end("revoked").await, revoked, "and it was then, not now");
    let listed = yard
        .request("GET", "/v1/seal/sessions")
        .by(OPERATOR)
        .send()
        .await;
    assert_eq!(listed.json()["sessions"], json!([]), "none is in force");
    let expired = end("expires").await;
    let shown = yard
        .request("GET", "/v1/seal/sessions/expires")
        .by(OPERATOR)
        .send()
        .await
        .json();
    assert_eq!(
        (&expired["session_status"], &shown["session_status"]),
        (&json!("Expired"), &json!("Expired"))
    );
    assert_eq!(
        (&expired["expired_at"], &expired["revoked_at"]),
        (&shown["expires_at"], &Value::Null)
    );
}

#[tokio::test]
async fn a_workload_proves_itself_as_often_as_it_may() {
    let yard = Yard::open().await;
    let made = yard
        .request("POST", "/v1/seal/workloads")
        .by(OPERATOR)
        .with_body(&json!({ "security_context": "bounded", "uses": 1 }).to_string())
        .send()
        .await;
    let workload = made.json()["workload_id"].as_str().unwrap().to_owned();
    let attest = async |workload: &str, seed: u8| {
        let key = AgentKey::from_seed(&[seed; 32]).unwrap();
        let body = json!({ "public_key": key.public().to_base64(), "workload_id": workload, "security_context": "bounded" });
        yard.request("POST", "/v1/seal/attest")
            .with("Authorization", "")
            .with_body(&body.to_string())
            .send()
            .await
    };
    assert_eq!(attest("some-container", 1).await.status, 401);
    assert_eq!(attest(&format!("{workload}x"), 1).await.status, 401);
    let first = attest(&workload, 1).await;
    assert_eq!(first.status, 200, "{}", first.body);
    assert!(
        !first.body.contains(workload.split('.').nth(1).unwrap()),
        "the secret is not given back"
    );
    assert_eq!(attest(&workload, 2).await.status, 401, "used up");
}

#[tokio::test]
async fn a_session_is_bounded_in_number_and_replaced_by_its_own() {
    let yard = Yard::open().await;
    let first = agent(&yard, ALICE, 1, json!({ "execution_id": "e-1" })).await;
    let second = agent(&yard, ALICE, 2, json!({ "execution_id": "e-1" })).await;
    assert_eq!(
        first
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .violation(),
        "SessionInactive"
    );
    assert_eq!(
        second
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .status,
        PASSED
    );
    for at in 2..5 {
        agent(
            &yard,
            ALICE,
            at,
            json!({ "execution_id": format!("e-{at}") }),
        )
        .await;
    }
    let more = attest_as(&yard, ALICE, 9, json!({})).await.1;
    assert_eq!(more.status, 429, "{}", more.body);
    assert!(more.header("Retry-After").is_some());
    assert_eq!(
        attest_as(&yard, BOB, 9, json!({})).await.1.status,
        200,
        "others have their own"
    );
    for workload in ["w-1", "w-2"] {
        let made_up = attest_as(&yard, ALICE, 9, json!({ "workload_id": workload }))
            .await
            .1;
        assert_eq!(
            made_up.status, 429,
            "a name that it gives itself is nobody else's: {}",
            made_up.body
        );
    }
    assert_eq!(
        attest_as(&yard, ALICE, 9, json!({ "execution_id": "e-1" }))
            .await
            .1
            .status,
        200,
        "its own place is its own"
    );
}

#[tokio::test]
async fn what_an_execution_used_up_stays_used_up() {
    let yard = Yard::open().await;
    let first = agent(
        &yard,
        ALICE,
        1,
        json!({ "agent_id": "reader", "execution_id": "e-1" }),
    )
    .await;
    for _ in 0..3 {
        assert_eq!(
            first
                .call(&yard, "fs.read", json!({ "path": "/a" }))
                .await
                .status,
            PASSED
        );
    }
    let again = agent(
        &yard,
        ALICE,
        2,
        json!({ "agent_id": "reader", "execution_id": "e-1" }),
    )
    .await;
    assert_eq!(
        again
            .call(&yard, "fs.read", json!({ "path": "/a" }))
            .await
            .violation(),
        "RateLimitExceeded"
    );
}

#[tokio::test]
async fn what_an_execution_used_up_survives_a_killed_gate() {
    let read = async |agent: &Agent, yard: &Yard| {
        let said = agent.call(yard, "fs.read", json!({ "path": "/a" })).await;
        if said.status == PASSED {
            String::new()
        } else {
            said.violation()
        }
    };
    let write = async |agent: &Agent, yard: &Yard| {
        let said = agent
            .call(yard, "fs.write", json!({ "path": "/a", "content": "" }))
            .await;
        if said.status == PASSED {
            String::new()
        } else {
            said.violation()
        }
    };
    let yard = Yard::open().await;
    let reader = agent(
        &yard,
        ALICE,
        1,
        json!({ "agent_id": "reader", "execution_id": "e-1" }),
    )
    .await;
    let writer = agent(&yard, ALICE, 2, json!({ "agent_id": "writer" })).await;
    let replaced = json!({ "agent_id": "writer", "execution_id": writer.execution });
    for _ in 0..2 {
        assert_eq!(read(&reader, &yard).await, "");
        assert_eq!(read(&writer, &yard).await, "");
    }
    assert_eq!(
        write(&writer, &yard).await,
        "",
        "each tool has a count of its own"
    );
    let yard = Yard::open_in(yard.abandon().await, audit::system_clock()).await;
    assert_eq!(read(&reader, &yard).await, "", "it has one left, of three");
    assert_eq!(read(&reader, &yard).await, "RateLimitExceeded");
    assert_eq!(
        read(&writer, &yard).await,
        "RateLimitExceeded",
        "it had two of this tool"
    );
    assert_eq!(write(&writer, &yard).await, "", "and has one left of that");
    assert_eq!(write(&writer, &yard).await, "RateLimitExceeded");
    let writer = agent(&yard, ALICE, 3, replaced).await;
    let yard = Yard::open_in(yard.abandon().await, audit::system_clock()).await;
    for said in [
        read(&reader, &yard).await,
        read(&writer, &yard).await,
        write(&writer, &yard).await,
    ] {
        assert_eq!(
            said, "RateLimitExceeded",
            "however often it is killed, and whoever attests again"
        );
    }
}

#[tokio::test]
async fn a_revoked_execution_does_not_begin_again() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({ "execution_id": "e-1" })).await;
    yard.request("DELETE", "/v1/seal/sessions/e-1")
        .by(OPERATOR)
        .send()
        .await;
    assert_eq!(
        attest_as(&yard, ALICE, 2, json!({ "execution_id": "e-1" }))
            .await
            .1
            .status,
        403
    );
    assert_eq!(
        attest_as(&yard, BOB, 2, json!({ "execution_id": "e-1" }))
            .await
            .1
            .status,
        403,
        "and is nobody else's"
    );
    assert_eq!(
        attest_as(&yard, ALICE, 2, json!({ "execution_id": "e-2" }))
            .await
            .1
            .status,
        200
    );
    assert_eq!(
        agent
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .violation(),
        "SessionInactive"
    );
}

#[tokio::test]
async fn an_operator_of_one_tenant_sees_and_opens_its_own_only() {
    let yard = Yard::open().await;
    let theirs = agent(&yard, "pct_t2", 1, json!({})).await;
    let open = async |tenant: &str, execution: &str| {
        let key = AgentKey::from_seed(&[5; 32]).unwrap();
        let body = json!({
            "execution_id": execution, "sub": "release-bot", "security_context_name": "everything",
            "public_key_b64": key.public().to_base64(), "tenant_id": tenant,
        });
        yard.request("POST", "/v1/seal/sessions")
            .by(TENANT_OPERATOR)
            .with_body(&body.to_string())
            .send()
            .await
            .status
    };
    assert_eq!(
        [open("t1", "own").await, open("t2", "other").await],
        [200, 403]
    );
    let named = json!({ "security_context": "everything", "agent_id": "release-bot" }).to_string();
    let workload = yard
        .request("POST", "/v1/seal/workloads")
        .by(TENANT_OPERATOR)
        .with_body(&named)
        .send()
        .await;
    assert_eq!(
        workload.status, 403,
        "it vouches for no agent: {}",
        workload.body
    );
    let listed = yard
        .request("GET", "/v1/seal/sessions")
        .by(TENANT_OPERATOR)
        .send()
        .await;
    assert!(
        listed.body.contains("\"own\"") && !listed.body.contains(&theirs.execution),
        "{}",
        listed.body
    );
    let path = format!("/v1/seal/sessions/{}", theirs.execution);
    for method in ["GET", "DELETE"] {
        assert_eq!(
            yard.request(method, &path)
                .by(TENANT_OPERATOR)
                .send()
                .await
                .status,
            404,
            "{method}"
        );
    }
    for verb in ["status", "servers", "sessions", "sinks"] {
        let said = yard
            .request("GET", &format!("/v1/admin/{verb}"))
            .by(TENANT_OPERATOR)
            .send()
            .await;
        assert_eq!(said.status, 403, "{verb}: {}", said.body);
    }
    let events = yard
        .request("GET", "/v1/admin/events?from=0.0&tenant=t2")
        .by(TENANT_OPERATOR)
        .send()
        .await;
    assert!(
        events.body.contains("\"tenant\":\"t1\"") && !events.body.contains("t2"),
        "{}",
        events.body
    );
}

#[tokio::test]
async fn an_agent_is_for_its_own_context() {
    let yard = Yard::open().await;
    let elsewhere = attest_as(&yard, ALICE, 1, json!({ "agent_id": "coder" }))
        .await
        .1;
    assert_eq!(
        (elsewhere.status, &elsewhere.json()["error_code"]),
        (401, &json!(3001)),
        "{}",
        elsewhere.body
    );
    for named in [json!("bounded"), Value::Null] {
        let there = attest_as(
            &yard,
            ALICE,
            1,
            json!({ "agent_id": "coder", "security_context": named }),
        )
        .await
        .1;
        assert_eq!(
            (there.status, &there.json()["security_context"]),
            (200, &json!("bounded")),
            "{}",
            there.body
        );
    }
    let nowhere = attest_as(
        &yard,
        ALICE,
        1,
        json!({ "agent_id": "reader", "security_context": null }),
    )
    .await
    .1;
    assert_eq!(
        nowhere.status, 400,
        "it is for no context of its own: {}",
        nowhere.body
    );
    for named in [json!("everything"), Value::Null] {
        let others = attest_as(
            &yard,
            ALICE,
            1,
            json!({ "agent_id": "t1-bot", "security_context": named }),
        )
        .await
        .1;
        assert!(
            others.status >= 400 && !others.body.contains("tenant-t1-own"),
            "not even by name: {}",
            others.body
        );
    }
    let opened = json!({ "execution_id": "e", "sub": "coder", "public_key_b64": AgentKey::from_seed(&[5; 32]).unwrap().public().to_base64() });
    let opened = yard
        .request("POST", "/v1/seal/sessions")
        .by(OPERATOR)
        .with_body(&opened.to_string())
        .send()
        .await;
    assert_eq!(
        (opened.status, &opened.json()["security_context"]),
        (200, &json!("bounded")),
        "{}",
        opened.body
    );
    let launched = json!({ "agent_id": "coder" }).to_string();
    let launched = yard
        .request("POST", "/v1/seal/workloads")
        .by(OPERATOR)
        .with_body(&launched)
        .send()
        .await;
    assert_eq!(
        (launched.status, &launched.json()["security_context"]),
        (200, &json!("bounded")),
        "{}",
        launched.body
    );
}

#[tokio::test]
async fn an_agents_own_word_is_no_proof_of_who_it_is() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({ "agent_id": "release-bot" })).await;
    let listed = yard
        .request("GET", "/v1/admin/sessions")
        .by(OPERATOR)
        .send()
        .await;
    assert!(
        !listed.body.contains("release-bot"),
        "nobody stands for it: {}",
        listed.body
    );
    assert_eq!(
        agent
            .call(&yard, "aegis.agent.list", json!({}))
            .await
            .status,
        PASSED
    );
}

#[tokio::test]
async fn tokens_that_are_not_ours_open_nothing() {
    use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD as URL};
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    let [head, claims, signature] = agent.token.split('.').collect::<Vec<_>>()[..] else {
        panic!("a compact token")
    };
    let header = |value: Value| URL.encode(value.to_string());
    let kid = serde_json::from_slice::<Value>(&URL.decode(head).unwrap()).unwrap()["kid"].clone();
    let forged = [
        format!("{}.{claims}.", header(json!({ "alg": "none" }))),
        format!(
            "{}.{claims}.{signature}",
            header(json!({ "alg": "none", "kid": kid }))
        ),
        format!(
            "{}.{claims}.{signature}",
            header(json!({ "alg": "HS256", "kid": kid }))
        ),
        format!(
            "{}.{claims}.{signature}",
            header(json!({ "alg": "EdDSA", "kid": "../../etc/passwd" }))
        ),
        format!(
            "{}.{claims}.{signature}",
            header(json!({ "alg": "EdDSA", "kid": kid, "jku": "http://127.0.0.1:1/keys" }))
        ),
        format!(
            "{}.{claims}.{signature}",
            header(json!({ "alg": "EdDSA", "jwk": { "kty": "OKP", "crv": "Ed25519", "x": "AA" } }))
        ),
        format!("{head}.{}.{signature}", URL.encode(r#"{"sub":"root"}"#)),
        format!("{head}.{claims}"),
        "x".repeat(20_000),
        String::new(),
    ];
    for token in forged {
        let mut envelope: Value =
            serde_json::from_str(&agent.envelope_at("aegis.agent.list", &json!({}), now_ms()))
                .unwrap();
        envelope["security_token"] = json!(token);
        let said = invoke(&yard, &envelope.to_string()).await;
        assert!(
            matches!(said.status, 400 | 401),
            "{}: {}",
            said.status,
            said.body
        );
        if said.status == 401 {
            assert_eq!(said.header("WWW-Authenticate"), Some("Bearer"));
        }
    }
}

#[tokio::test]
async fn a_session_without_its_signature_is_nobody() {
    let yard = Yard::open().await;
    let agent = agent(&yard, ALICE, 1, json!({})).await;
    let list = r#"{"jsonrpc":"2.0","id":1,"method":"tools/list"}"#;
    assert_eq!(
        yard.post(list).by(&agent.token).send().await.status,
        401,
        "its token is no credential of the other door"
    );
    let admin = yard
        .request("GET", "/v1/seal/sessions")
        .by(&agent.token)
        .send()
        .await;
    assert_eq!(admin.status, 401);
    let tools = yard
        .request("GET", "/v1/seal/tools")
        .by(&agent.token)
        .send()
        .await;
    assert_eq!(
        (tools.status, &tools.json()["security_context"]),
        (200, &json!("everything")),
        "{}",
        tools.body
    );
}
