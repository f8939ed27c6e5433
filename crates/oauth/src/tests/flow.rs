//! From the plan to the tokens: what is sent, what is checked, what is kept.

use ring::signature::{ECDSA_P256_SHA256_FIXED, UnparsedPublicKey};
use secrets::Secret;
use serde_json::json;

use super::play::{
    ISSUER, NOW, REDIRECT, SERVER, Stage, address, answer, challenge, claims, configured, moment,
    part, plan,
};
use crate::{
    Answer, Client, Drawn, Flow, Grant, Login, Next, Plain, Plan, Problem, Proof, ResourceChoice,
    Returned, Scheme, Scopes, SigningKey, Step, Subject,
};

#[test]
fn a_person_logs_in() {
    let mut stage = Stage::new();
    let login = stage.play(plan()).unwrap();
    assert_eq!(
        (login.access.expose(), login.scheme),
        ("at-1", Scheme::Bearer)
    );
    assert_eq!(
        (login.obtained_at, login.expires_at),
        (NOW, Some(NOW + 3600))
    );
    let visited = stage.visited.last().unwrap();
    assert_eq!(visited["response_type"], "code");
    assert_eq!(visited["x"], "1", "the endpoint's own query stays");
    assert_eq!(
        (&*visited["resource"], &*visited["redirect_uri"]),
        (SERVER, REDIRECT)
    );
    let token = stage.at("/token");
    assert_eq!(
        (&*token.pairs["code"], &*token.pairs["resource"]),
        ("the-code", SERVER)
    );
    assert_eq!(token.pairs["client_id"], "dyn-1");
}

/// The verifier of the token request is the one whose digest was sent ahead.
#[test]
fn the_token_request_goes_where_the_person_was_sent() {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    use sha2::{Digest, Sha256};
    let mut stage = Stage::new();
    let login = stage.play(plan()).unwrap();
    let (visited, token) = (stage.visited.last().unwrap(), stage.at("/token"));
    let digest = URL_SAFE_NO_PAD.encode(Sha256::digest(token.pairs["code_verifier"].as_bytes()));
    assert_eq!(visited["code_challenge"], digest);
    for same in ["client_id", "redirect_uri", "resource"] {
        assert_eq!(visited[same], token.pairs[same], "{same}");
    }
    assert_eq!(token.to, login.token_endpoint.url());
}

/// Required where it is advertised, compared where it is present, as bytes.
#[test]
fn an_answer_of_another_issuer_is_used_for_nothing() {
    for (advertised, iss, works) in [
        (true, Some(ISSUER), true),
        (false, None, true),
        (false, Some(ISSUER), true),
        (true, None, false),
        (true, Some("https://evil.example"), false),
        (false, Some("https://evil.example"), false),
        (true, Some("https://auth.example/tenant/"), false),
        (true, Some("https://AUTH.example/tenant"), false),
    ] {
        let mut stage = Stage::new();
        stage.server()["authorization_response_iss_parameter_supported"] = json!(advertised);
        stage.iss = iss.map(str::to_owned);
        let outcome = stage.play(plan());
        assert_eq!(outcome.is_ok(), works, "{advertised} {iss:?}");
        assert_eq!(stage.asked().contains(&"https://auth.example/token"), works);
        assert!(works || outcome.unwrap_err() == Problem::OtherIssuer);
    }
    // Not even the words of such an answer are shown.
    let mut flow = at_visit();
    let back = format!(
        "error=access_denied&error_description=call+me&state={}&iss=https://evil.example",
        state(&mut flow)
    );
    let failed = flow.returned(Returned::parse(&back).unwrap()).unwrap_err();
    assert!(!failed.to_string().contains("call me"));
}

/// A wrong or spent state changes nothing; the right one counts once.
#[test]
fn a_state_counts_once_and_only_its_own() {
    let mut flow = at_visit();
    let state = state(&mut flow);
    for wrong in [
        "code=a",
        "code=a&state=",
        "code=a&state=AgIC",
        "error=access_denied&state=x",
    ] {
        assert_eq!(
            flow.returned(Returned::parse(wrong).unwrap()),
            Err(Problem::OtherState),
            "{wrong}"
        );
    }
    let right = format!("code=a&state={state}");
    assert_eq!(flow.returned(Returned::parse(&right).unwrap()), Ok(()));
    assert_eq!(
        flow.returned(Returned::parse(&right).unwrap()),
        Err(Problem::OtherState)
    );
    let mut flow = at_visit();
    let denied = format!("error=access_denied&error_description=no&state={state}");
    let failed = flow
        .returned(Returned::parse(&denied).unwrap())
        .unwrap_err();
    assert!(matches!(
        failed,
        Problem::Refused {
            step: Step::Authorization,
            ..
        }
    ));
}

fn at_visit() -> Flow {
    let mut stage = Stage::new();
    let mut flow = Flow::begin(
        Plan {
            client: Some(configured(None)),
            ..plan()
        },
        &Drawn {
            verifier: [1; 32],
            state: [2; 32],
        },
        NOW,
    )
    .unwrap();
    while let Next::Send(request) = flow.next(moment()).unwrap() {
        let document = stage.documents.get_mut(request.to.url()).unwrap();
        let given = answer(200, document);
        flow.answer(Ok(given), NOW).unwrap();
    }
    flow
}

fn state(flow: &mut Flow) -> String {
    let Next::Visit(visit) = flow.next(moment()).unwrap() else {
        panic!()
    };
    let url = url::Url::parse(visit.to.url()).unwrap();
    url.query_pairs()
        .find(|(name, _)| name == "state")
        .unwrap()
        .1
        .into_owned()
}

/// The challenge's scope, else all that the server lists, else none; `offline_access` only if the authorization server lists it.
#[test]
fn scopes_are_chosen_in_order() {
    let header = r#"Bearer scope="mcp:basic""#;
    let mut stage = Stage::new();
    let asked = |stage: &mut Stage, plan: Plan| {
        stage.play(plan).unwrap();
        stage.visited.last().unwrap().get("scope").cloned()
    };
    assert_eq!(asked(&mut stage, plan()), None);
    stage.resource()["scopes_supported"] = json!(["a", "b", "offline_access"]);
    stage.server()["scopes_supported"] = json!(["a"]);
    assert_eq!(asked(&mut stage, plan()).unwrap(), "a b");
    stage.server()["scopes_supported"] = json!(["a", "offline_access"]);
    assert_eq!(asked(&mut stage, plan()).unwrap(), "a b offline_access");
    stage.server()["scopes_supported"] = json!(null);
    let challenged = || Plan {
        challenge: challenge(header),
        ..plan()
    };
    assert_eq!(asked(&mut stage, challenged()).unwrap(), "mcp:basic");
    let scopes = |text| Scopes::parse(text).unwrap();
    assert_eq!(
        asked(
            &mut stage,
            Plan {
                scopes: Some(scopes("x")),
                ..challenged()
            }
        )
        .unwrap(),
        "x"
    );
    // More rights: both, within the most.
    let more = Plan {
        had: scopes("old"),
        ..challenged()
    };
    assert_eq!(asked(&mut stage, more).unwrap(), "old mcp:basic");
    assert_eq!(
        asked(
            &mut stage,
            Plan {
                scopes_max: Some(scopes("a")),
                ..plan()
            }
        )
        .unwrap(),
        "a"
    );
    let beyond = Plan {
        scopes_max: Some(scopes("a")),
        ..challenged()
    };
    assert!(matches!(stage.play(beyond), Err(Problem::Scopes(_))));
}

/// Byte for byte as the metadata gives it; left out or named where the operator says so.
#[test]
fn the_resource_is_sent_as_it_was_written() {
    let mut stage = Stage::new();
    stage.resource()["resource"] = json!("https://mcp.example/v1/");
    stage.play(plan()).unwrap();
    assert_eq!(
        stage.visited.last().unwrap()["resource"],
        "https://mcp.example/v1/"
    );
    assert_eq!(
        stage.at("/token").pairs["resource"],
        "https://mcp.example/v1/"
    );
    stage
        .play(Plan {
            resource: ResourceChoice::None,
            ..plan()
        })
        .unwrap();
    assert!(
        !stage.visited.last().unwrap().contains_key("resource")
            && !stage.at("/token").pairs.contains_key("resource")
    );
    stage
        .play(Plan {
            resource: ResourceChoice::Named("api://x".into()),
            ..plan()
        })
        .unwrap();
    assert_eq!(stage.at("/token").pairs["resource"], "api://x");
}

/// What OAuth owns, an operator cannot add.
#[test]
fn extra_parameters_cannot_replace_ours() {
    let params = [
        ("access_type", "offline"),
        ("redirect_uri", "https://evil.example"),
        ("state", "x"),
    ];
    let params = params
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let mut stage = Stage::new();
    stage
        .play(Plan {
            authorize_params: params,
            ..plan()
        })
        .unwrap();
    let visited = stage.visited.last().unwrap();
    assert_eq!(
        (&*visited["access_type"], &*visited["redirect_uri"]),
        ("offline", REDIRECT)
    );
}

/// A token of another type, an error in a success, and nonsense are refused.
#[test]
fn only_a_token_that_can_be_used_is_taken() {
    for bad in [
        json!({"access_token": "a", "token_type": "mac"}),
        json!({"access_token": "a", "token_type": "DPoP"}),
        json!({"access_token": "a"}),
        json!({"access_token": "a b", "token_type": "Bearer"}),
        json!({"access_token": "x".repeat(17 << 10), "token_type": "Bearer"}),
        json!({"token_type": "Bearer"}),
        json!({"error": "bad_verification_code", "access_token": "a", "token_type": "Bearer"}),
        json!([]),
    ] {
        let mut stage = Stage::new();
        stage.token = bad.clone();
        assert!(stage.play(plan()).is_err(), "{bad}");
    }
    let mut stage = Stage::new();
    stage.token =
        json!({"access_token": "a", "token_type": "bearer", "expires_in": "60", "scope": "x y"});
    let login = stage.play(plan()).unwrap();
    assert_eq!(
        (login.expires_at, login.scopes.to_string()),
        (Some(NOW + 60), "x y".into())
    );
}

/// A key where proofs are taken; the nonce that is asked for is sent once.
#[test]
fn tokens_are_bound_to_a_key_where_proofs_are_taken() {
    let bound = || Plan {
        uses_proofs: true,
        ..plan()
    };
    let mut stage = Stage::new();
    assert!(stage.play(bound()).unwrap().key.is_none());
    stage.server()["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    // Many authorization servers bind tokens for whoever asks; this server would not take them.
    assert!(stage.play(bound()).unwrap().key.is_none());
    stage.resource()["dpop_bound_access_tokens_required"] = json!(true);
    stage.token["token_type"] = json!("DPoP");
    stage.nonce = Some("n-1".into());
    let login = stage.play(bound()).unwrap();
    assert_eq!(login.scheme, Scheme::Dpop);
    assert_eq!(
        stage
            .asked()
            .iter()
            .filter(|to| to.ends_with("/token"))
            .count(),
        4
    );
    let proof = &stage.at("/token").headers["dpop"];
    let (header, said) = (part(proof, 0), claims(proof));
    assert_eq!(
        (&header["typ"], &header["alg"]),
        (&json!("dpop+jwt"), &json!("ES256"))
    );
    assert_eq!(
        (&said["htm"], &said["htu"], &said["nonce"]),
        (
            &json!("POST"),
            &json!("https://auth.example/token"),
            &json!("n-1")
        )
    );
    // At the server the proof names the token, and not the query of the address.
    let to = address("https://mcp.example/v1/mcp?x=1");
    let shown = login.proof("POST", &to, None, moment()).unwrap().unwrap();
    let said = claims(shown.expose());
    assert_eq!(said["htu"], SERVER);
    assert!(said["ath"].is_string() && said.get("nonce").is_none());
    // An endless wish for nonces is not followed.
    let mut flow = at_token_with_proofs();
    let wants = |nonce: &str| Answer {
        dpop_nonce: Some(nonce.into()),
        ..answer(400, &json!({"error": "use_dpop_nonce"}))
    };
    flow.answer(Ok(wants("a")), NOW).unwrap();
    assert!(flow.answer(Ok(wants("b")), NOW).is_err());
}

fn at_token_with_proofs() -> Flow {
    let mut stage = Stage::new();
    stage.server()["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    stage.resource()["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    let plan = Plan {
        grant: Grant::ClientCredentials,
        client: Some(configured(Some("s"))),
        uses_proofs: true,
        ..plan()
    };
    let mut flow = Flow::begin(
        plan,
        &Drawn {
            verifier: [1; 32],
            state: [2; 32],
        },
        NOW,
    )
    .unwrap();
    for place in [
        "https://mcp.example/.well-known/oauth-protected-resource/v1/mcp",
        "https://auth.example/.well-known/oauth-authorization-server/tenant",
    ] {
        let given = answer(200, stage.document(place));
        flow.answer(Ok(given), NOW).unwrap();
    }
    flow
}

/// No person: a signed assertion whose audience is the issuer, or a secret.
#[test]
fn a_client_speaks_for_itself() {
    let key = SigningKey::generate().unwrap();
    let kept = Secret::new(key.kept().expose().to_owned());
    let mut client = configured(None);
    client.key = Some(key);
    let by_itself = |client| Plan {
        grant: Grant::ClientCredentials,
        client: Some(client),
        scopes: Some(Scopes::parse("s").unwrap()),
        ..plan()
    };
    let mut stage = Stage::new();
    stage.play(by_itself(client)).unwrap();
    assert!(stage.visited.is_empty());
    let pairs = &stage.at("/token").pairs;
    assert_eq!(
        (&*pairs["grant_type"], &*pairs["scope"]),
        ("client_credentials", "s")
    );
    let said = claims(&pairs["client_assertion"]);
    assert_eq!(
        (&said["aud"], &said["iss"], &said["sub"]),
        (&json!(ISSUER), &json!("our client"), &json!("our client"))
    );
    assert!(said["exp"].as_u64().unwrap() > NOW);
    verify(&pairs["client_assertion"], kept.expose());
    stage.play(by_itself(configured(Some("s")))).unwrap();
    assert_eq!(
        stage.at("/token").headers["authorization"],
        "Basic b3VyK2NsaWVudDpz"
    );
    // Nobody registers a client for a machine.
    let failed = stage.play(Plan {
        grant: Grant::ClientCredentials,
        ..plan()
    });
    assert!(matches!(failed, Err(Problem::ClientNeeded { .. })));
}

/// The signature holds with the public half of the key.
fn verify(jwt: &str, pkcs8: &str) {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    let proof = SigningKey::parse(pkcs8)
        .unwrap()
        .proof("GET", &address("https://a"), None, None, "j", 0)
        .unwrap();
    let key = &part(proof.expose(), 0)["jwk"];
    let half = |name: &str| URL_SAFE_NO_PAD.decode(key[name].as_str().unwrap()).unwrap();
    let point = [vec![4], half("x"), half("y")].concat();
    let (signed, signature) = jwt.rsplit_once('.').unwrap();
    let signature = URL_SAFE_NO_PAD.decode(signature).unwrap();
    UnparsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, point)
        .verify(signed.as_bytes(), &signature)
        .unwrap();
}

/// The place we run in vouches: one request with the given assertion.
#[test]
fn a_workload_shows_its_assertion_once() {
    let mut stage = Stage::new();
    let grant = Grant::Workload {
        assertion: Secret::new("the.assertion".into()),
        file: "/run/token".into(),
    };
    let login = stage.play(Plan { grant, ..plan() }).unwrap();
    assert_eq!(login.assertion_file.as_deref(), Some("/run/token"));
    let pairs = &stage.at("/token").pairs;
    assert_eq!(
        (&*pairs["grant_type"], &*pairs["assertion"]),
        (
            "urn:ietf:params:oauth:grant-type:jwt-bearer",
            "the.assertion"
        )
    );
    assert!(!pairs.contains_key("client_id"));
    // A refusal is final.
    stage.token = json!({"error": "invalid_grant"});
    let grant = Grant::Workload {
        assertion: Secret::new("the.assertion".into()),
        file: "/run/token".into(),
    };
    assert!(matches!(
        stage.play(Plan { grant, ..plan() }),
        Err(Problem::Refused { .. })
    ));
    assert_eq!(
        stage
            .asked()
            .iter()
            .filter(|to| to.ends_with("/token"))
            .count(),
        2
    );
}

fn subject(kind: &str) -> Subject {
    Subject {
        token: Secret::new("subject".into()),
        kind: format!("urn:ietf:params:oauth:token-type:{kind}"),
    }
}

#[test]
fn a_callers_token_is_exchanged() {
    let by = |grant| Plan {
        grant,
        client: Some(configured(Some("s"))),
        ..plan()
    };
    let mut stage = Stage::new();
    stage
        .play(by(Grant::TokenExchange(subject("access_token"))))
        .unwrap();
    let pairs = &stage.at("/token").pairs;
    assert_eq!(
        (
            &*pairs["grant_type"],
            &*pairs["subject_token"],
            &*pairs["resource"]
        ),
        (
            "urn:ietf:params:oauth:grant-type:token-exchange",
            "subject",
            SERVER
        )
    );
    stage
        .play(by(Grant::OnBehalfOf(subject("access_token"))))
        .unwrap();
    let pairs = &stage.at("/token").pairs;
    assert_eq!(
        (&*pairs["requested_token_use"], &*pairs["assertion"]),
        ("on_behalf_of", "subject")
    );
}

/// The identity provider's answer is no token; it is shown to the server's authorization server.
#[test]
fn a_companys_identity_provider_vouches_for_the_user() {
    let provider = address("https://idp.example/oauth");
    let client = Box::new(Client {
        id: "at-idp".into(),
        proof: Proof::Post(Secret::new("p".into())),
        issuer: "https://idp.example".into(),
        is_dynamic: false,
        expires_at: None,
        redirects: Vec::new(),
    });
    let plan = Plan {
        grant: Grant::IdJag {
            subject: subject("id_token"),
            provider,
            client,
        },
        client: Some(configured(Some("s"))),
        ..plan()
    };
    let mut stage = Stage::new();
    let mut flow = Flow::begin(
        plan,
        &Drawn {
            verifier: [1; 32],
            state: [2; 32],
        },
        NOW,
    )
    .unwrap();
    let mut seen = Vec::new();
    let login = loop {
        match flow.next(moment()).unwrap() {
            Next::Send(request) => {
                let to = request.to.url().to_owned();
                let given = match &*to {
                    "https://idp.example/oauth" => answer(
                        200,
                        &json!({"access_token": "jag", "token_type": "N_A", "issued_token_type": "urn:ietf:params:oauth:token-type:id-jag"}),
                    ),
                    "https://auth.example/token" => answer(200, &stage.token),
                    place => answer(200, stage.document(place)),
                };
                if let crate::Body::Form(form) = &request.body {
                    seen.push((to, form.expose().to_owned()));
                }
                flow.answer(Ok(given), NOW).unwrap();
            }
            Next::Done(login) => break login,
            Next::Visit(_) => panic!(),
        }
    };
    assert_eq!(login.access.expose(), "at-1");
    let [(_, first), (_, second)] = &seen[..] else {
        panic!()
    };
    assert!(
        first.contains("audience=https%3A%2F%2Fauth.example%2Ftenant")
            && first.contains("client_id=at-idp")
    );
    assert!(second.contains("assertion=jag") && !second.contains("at-idp"));
}

#[test]
fn a_login_comes_back_as_it_was_sealed() {
    let mut stage = Stage::new();
    stage.server()["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    stage.resource()["dpop_signing_alg_values_supported"] = json!(["ES256"]);
    stage.token["token_type"] = json!("DPoP");
    stage.registration =
        json!({"client_id": "d", "client_secret": "s", "client_secret_expires_at": 5});
    let login = stage
        .play(Plan {
            uses_proofs: true,
            scopes: Some(Scopes::parse("a b").unwrap()),
            ..plan()
        })
        .unwrap();
    let sealed = login.seal();
    let again = Login::open(&sealed, Plain::Never).unwrap();
    assert_eq!(again.seal().expose(), sealed.expose());
    assert!(again.key.is_some() && again.client.expires_at == Some(5) && again.refresh.is_some());
    for broken in [
        "",
        "{}",
        "[]",
        &sealed.expose().replace("\"version\":1", "\"version\":2"),
        &sealed
            .expose()
            .replace("https://auth.example/token", "http://auth.example/token"),
    ] {
        assert!(Login::open(&Secret::new(broken.to_owned()), Plain::Never).is_none());
    }
}

#[test]
fn a_login_is_for_one_address() {
    let login = Stage::new().play(plan()).unwrap();
    assert!(
        login.is_for(SERVER)
            && !login.is_for("https://mcp.example/v1/mcp/")
            && !login.is_for("https://evil.example/v1/mcp")
    );
}

/// Refresh token first, then the access token; nothing where nobody takes it.
#[test]
fn logging_out_takes_both_tokens_back() {
    let mut login = Stage::new().play(plan()).unwrap();
    let requests = login.revocations(moment());
    let bodies: Vec<&str> = requests
        .iter()
        .map(|request| match &request.body {
            crate::Body::Form(form) => form.expose(),
            _ => "",
        })
        .collect();
    assert_eq!(
        bodies,
        [
            "token=rt-1&token_type_hint=refresh_token&client_id=dyn-1",
            "token=at-1&token_type_hint=access_token&client_id=dyn-1"
        ]
    );
    login.revocation_endpoint = None;
    assert!(login.revocations(moment()).is_empty());
}

#[test]
fn no_type_prints_what_is_secret() {
    let mut stage = Stage::new();
    stage.registration = json!({"client_id": "d", "client_secret": "hush-secret"});
    stage.token = json!({"access_token": "hush-access", "token_type": "Bearer", "refresh_token": "hush-refresh"});
    let login = stage.play(plan()).unwrap();
    let mut flow = at_visit();
    let state = state(&mut flow);
    let returned = Returned::parse(&format!("code=hush-code&state={state}")).unwrap();
    let Next::Visit(visit) = flow.next(moment()).unwrap() else {
        panic!()
    };
    let mut printed = format!("{login:?} {returned:?} {visit:?} {flow:?}");
    flow.returned(returned).unwrap();
    let next = flow.next(moment()).unwrap();
    let request = crate::renewal::request(&login, None, None, moment());
    printed.push_str(&format!(
        "{next:?} {flow:?} {request:?} {:?} {:?}",
        answer(200, &json!({"a": "hush-answer"})),
        SigningKey::generate().unwrap()
    ));
    assert!(
        !printed.contains("hush") && !printed.contains(&state),
        "{printed}"
    );
}
