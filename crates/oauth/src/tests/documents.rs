//! Discovery: which documents are asked for, and which count.

use serde_json::json;

use super::play::{
    ISSUER, REDIRECT, SERVER, Stage, address, answer, challenge, configured, plan, server_document,
};
use crate::{Endpoints, Issuer, Plain, Plan, Problem, ProtectedResource, Step, metadata};

fn texts(places: &[crate::Address]) -> Vec<&str> {
    places.iter().map(crate::Address::url).collect()
}

/// The order of well-known places; never the root of an issuer that has a path.
#[test]
fn metadata_is_looked_for_in_the_order_of_the_specification() {
    let places = |text| metadata::resource_places(&address(text));
    assert_eq!(
        texts(&places("https://a/x/mcp?q=1")),
        [
            "https://a/.well-known/oauth-protected-resource/x/mcp",
            "https://a/.well-known/oauth-protected-resource"
        ]
    );
    assert_eq!(
        texts(&places("https://a")),
        ["https://a/.well-known/oauth-protected-resource"]
    );
    let places = |text| metadata::issuer_places(&address(text));
    assert_eq!(
        texts(&places("https://a/t1/")),
        [
            "https://a/.well-known/oauth-authorization-server/t1",
            "https://a/.well-known/openid-configuration/t1",
            "https://a/t1/.well-known/openid-configuration"
        ]
    );
    assert_eq!(
        texts(&places("https://a")),
        [
            "https://a/.well-known/oauth-authorization-server",
            "https://a/.well-known/openid-configuration"
        ]
    );
}

/// What the challenge names is asked, and then nothing else.
#[test]
fn the_challenges_metadata_is_the_only_one_asked_for() {
    let header = r#"Bearer resource_metadata="https://mcp.example/custom""#;
    let named = || Plan {
        challenge: challenge(header),
        ..plan()
    };
    let mut stage = Stage::new();
    assert_eq!(
        stage.play(named()).unwrap_err(),
        Problem::NoResourceMetadata
    );
    assert_eq!(stage.asked(), ["https://mcp.example/custom"]);
    let mut stage = Stage::new();
    let document = stage.resource().clone();
    stage
        .documents
        .insert("https://mcp.example/custom".into(), document);
    assert!(stage.play(named()).is_ok());
    assert_eq!(stage.asked().first(), Some(&"https://mcp.example/custom"));
    // An address inside, or without TLS, is not asked at all.
    let header = r#"Bearer resource_metadata="http://169.254.169.254/latest""#;
    let mut stage = Stage::new();
    let failed = stage.play(Plan {
        challenge: challenge(header),
        ..plan()
    });
    assert!(matches!(
        failed,
        Err(Problem::Address {
            field: "resource_metadata",
            ..
        })
    ));
    assert!(stage.seen.is_empty());
}

/// The root is asked only where the path has nothing.
#[test]
fn the_root_is_not_asked_where_the_path_answered() {
    let mut stage = Stage::new();
    stage.documents.insert(
        "https://mcp.example/.well-known/oauth-protected-resource".into(),
        json!({"resource": "https://evil.example"}),
    );
    stage.play(plan()).unwrap();
    assert!(
        !stage
            .asked()
            .contains(&"https://mcp.example/.well-known/oauth-protected-resource")
    );
    let mut stage = Stage::new();
    let document = stage
        .documents
        .remove("https://mcp.example/.well-known/oauth-protected-resource/v1/mcp")
        .unwrap();
    stage.documents.insert(
        "https://mcp.example/.well-known/oauth-protected-resource".into(),
        document,
    );
    stage.play(plan()).unwrap();
}

/// The resource has the server's scheme, host and port, and whole segments of its path.
#[test]
fn metadata_of_another_resource_stops_before_anything_is_sent() {
    let read = |resource: &str| {
        let document = answer(
            200,
            &json!({"resource": resource, "authorization_servers": [ISSUER]}),
        );
        ProtectedResource::read(&document, &address(SERVER))
    };
    for fine in [
        SERVER,
        "https://mcp.example",
        "https://mcp.example/",
        "https://mcp.example/v1",
        "https://mcp.example/v1/",
    ] {
        assert_eq!(read(fine).unwrap().unwrap().resource, fine);
    }
    for other in [
        "https://mcp.example/v",
        "https://mcp.example/v1/mcp/x",
        "http://mcp.example/v1/mcp",
        "https://mcp.example:444/v1/mcp",
        "https://mcp.example.evil.example/",
        "https://mcp.example/v1/mcp?x=1",
        "nonsense",
    ] {
        assert!(
            matches!(read(other), Err(Problem::OtherResource { .. })),
            "{other}"
        );
    }
    let mut stage = Stage::new();
    stage.resource()["resource"] = json!("https://other.example/mcp");
    assert!(matches!(
        stage.play(plan()),
        Err(Problem::OtherResource { .. })
    ));
    assert!(stage.visited.is_empty() && stage.seen.len() == 1);
}

/// The document's issuer is the one asked for, byte for byte, or there is no document.
#[test]
fn a_document_of_another_issuer_does_not_exist() {
    for other in [
        "https://auth.example/tenant/",
        "https://AUTH.example/tenant",
        "https://auth.example:443/tenant",
        "https://evil.example",
    ] {
        let mut stage = Stage::new();
        stage.server()["issuer"] = json!(other);
        assert!(
            matches!(stage.play(plan()), Err(Problem::NoServerMetadata { .. })),
            "{other}"
        );
        assert!(
            stage.visited.is_empty() && !stage.asked().iter().any(|to| to.ends_with("/register"))
        );
    }
    // The next place is asked then.
    let mut stage = Stage::new();
    stage.server()["issuer"] = json!("https://evil.example");
    stage.documents.insert(
        "https://auth.example/tenant/.well-known/openid-configuration".into(),
        server_document(),
    );
    stage.play(plan()).unwrap();
}

/// The configured issuer, else the one of the last login, else the first.
#[test]
fn the_issuer_of_the_last_login_is_kept_while_it_is_listed() {
    let found = ProtectedResource {
        resource: SERVER.into(),
        issuers: vec!["https://a".into(), "https://b".into()],
        scopes: None,
        takes_proofs: false,
    };
    assert_eq!(found.issuer(None, None), Ok("https://a"));
    assert_eq!(found.issuer(None, Some("https://b")), Ok("https://b"));
    assert_eq!(found.issuer(None, Some("https://c")), Ok("https://a"));
    assert_eq!(
        found.issuer(Some("https://b"), Some("https://a")),
        Ok("https://b")
    );
    assert!(matches!(
        found.issuer(Some("https://c"), None),
        Err(Problem::IssuerNotListed { .. })
    ));
    let many: Vec<String> = (0..20).map(|n| format!("https://{n}.example")).collect();
    let document = answer(
        200,
        &json!({"resource": SERVER, "authorization_servers": many}),
    );
    assert_eq!(
        ProtectedResource::read(&document, &address(SERVER))
            .unwrap()
            .unwrap()
            .issuers
            .len(),
        8
    );
}

/// Every address a document names is judged before it is used.
#[test]
fn endpoints_inside_or_without_tls_are_refused() {
    for field in [
        "authorization_endpoint",
        "token_endpoint",
        "registration_endpoint",
        "revocation_endpoint",
    ] {
        for bad in [
            "http://auth.example/x",
            "javascript:alert(1)",
            "https://a@b/",
            "file:///etc/passwd",
        ] {
            let mut stage = Stage::new();
            stage.server()[field] = json!(bad);
            let failed = stage.play(plan()).unwrap_err();
            assert!(
                matches!(&failed, Problem::Address { field: named, .. } if *named == field),
                "{field} {bad}: {failed}"
            );
        }
    }
}

/// A server that breaks is not taken for one without metadata.
#[test]
fn an_error_of_the_server_ends_discovery_and_names_step_and_place() {
    let mut flow = crate::Flow::begin(
        plan(),
        &crate::Drawn {
            verifier: [0; 32],
            state: [0; 32],
        },
        0,
    )
    .unwrap();
    let failed = flow.answer(Ok(answer(503, &json!({}))), 0).unwrap_err();
    assert!(matches!(
        failed,
        Problem::Status {
            step: Step::ResourceMetadata,
            status: 503,
            ..
        }
    ));
    assert!(
        failed
            .to_string()
            .contains("https://mcp.example/.well-known/oauth-protected-resource/v1/mcp")
    );
    assert_eq!(
        flow.next(super::play::moment()).unwrap_err(),
        Problem::OutOfTurn
    );
}

/// S256 must be offered, unless the operator says that it is there.
#[test]
fn pkce_is_demanded() {
    for methods in [json!(null), json!(["plain"])] {
        let mut stage = Stage::new();
        stage.server()["code_challenge_methods_supported"] = methods;
        assert_eq!(stage.play(plan()).unwrap_err(), Problem::NoPkce);
        assert!(
            stage
                .play(Plan {
                    assumes_pkce: true,
                    ..plan()
                })
                .is_ok()
        );
        assert_eq!(
            stage.visited.last().unwrap()["code_challenge_method"],
            "S256"
        );
    }
}

/// 2025-03-26: the server's own origin, if a person accepts it; advertised endpoints, else the three fixed ones.
#[test]
fn older_servers_are_their_own_authorization_server() {
    let mut stage = Stage::new();
    stage.documents.clear();
    assert_eq!(stage.play(plan()).unwrap_err(), Problem::NoResourceMetadata);
    let older = || Plan {
        older_discovery: true,
        ..plan()
    };
    let login = stage.play(older()).unwrap();
    assert_eq!(login.token_endpoint.url(), "https://mcp.example/token");
    assert_eq!(login.resource, None);
    let mut document = server_document();
    document["issuer"] = json!("https://mcp.example");
    stage.documents.insert(
        "https://mcp.example/.well-known/oauth-authorization-server".into(),
        document,
    );
    assert_eq!(
        stage.play(older()).unwrap().token_endpoint.url(),
        "https://auth.example/token"
    );
    // A document of somebody else is no leave to guess.
    stage.document("https://mcp.example/.well-known/oauth-authorization-server")["issuer"] =
        json!("https://evil.example");
    assert!(matches!(
        stage.play(older()),
        Err(Problem::NoServerMetadata { .. })
    ));
}

/// Endpoints of the configuration stand instead of discovery, never beside it.
#[test]
fn configured_endpoints_are_used_without_asking_anybody() {
    let mut stage = Stage::new();
    let endpoints = Endpoints {
        authorization: Some(address("https://corp.example/authorize")),
        token: address("https://corp.example/token"),
        registration: None,
        revocation: None,
    };
    let login = stage
        .play(Plan {
            endpoints: Some(endpoints),
            client: Some(configured(None)),
            ..plan()
        })
        .unwrap();
    assert_eq!(stage.asked(), ["https://corp.example/token"]);
    assert_eq!(login.issuer, "https://corp.example");
}

/// The order: the operator's client, the document, one from before, a new one.
#[test]
fn clients_are_chosen_in_order() {
    let document = "https://gate.example/oauth/client.json";
    let all = || Plan {
        client: Some(configured(None)),
        client_document: Some(document.into()),
        ..plan()
    };
    let mut stage = Stage::new();
    stage.server()["client_id_metadata_document_supported"] = json!(true);
    assert_eq!(stage.play(all()).unwrap().client.id, "our client");
    assert_eq!(
        stage
            .play(Plan {
                client: None,
                ..all()
            })
            .unwrap()
            .client
            .id,
        document
    );
    assert!(!stage.asked().iter().any(|to| to.ends_with("/register")));
    stage.server()["client_id_metadata_document_supported"] = json!(null);
    let first = stage
        .play(Plan {
            client: None,
            ..all()
        })
        .unwrap();
    assert_eq!(first.client.id, "dyn-1");
    // The same again is not registered again; for another issuer or with other redirects it is.
    stage.registration = json!({"client_id": "dyn-2"});
    let again = |client| Plan {
        registered: Some(client),
        ..plan()
    };
    assert_eq!(stage.play(again(first.client)).unwrap().client.id, "dyn-1");
    let mut other = stage.play(plan()).unwrap().client;
    other.issuer = "https://other.example".into();
    stage.registration = json!({"client_id": "dyn-3"});
    assert_eq!(stage.play(again(other)).unwrap().client.id, "dyn-3");
    stage.server()["registration_endpoint"] = json!(null);
    let needed = stage.play(plan()).unwrap_err();
    assert_eq!(
        needed,
        Problem::ClientNeeded {
            redirects: vec![REDIRECT.into()]
        }
    );
}

/// A client belongs to the issuer it was first used with.
#[test]
fn a_configured_client_is_bound_to_its_issuer() {
    let mut client = configured(Some("s"));
    client.bound_to = Some("https://old.example".into());
    let mut stage = Stage::new();
    let failed = stage.play(Plan {
        client: Some(client),
        ..plan()
    });
    assert!(matches!(failed, Err(Problem::ClientOfOtherIssuer { .. })));
    assert!(stage.visited.is_empty());
}

#[test]
fn a_registration_asks_for_renewal_and_takes_what_it_gets() {
    let mut stage = Stage::new();
    stage.server()["token_endpoint_auth_methods_supported"] =
        json!(["client_secret_post", "client_secret_basic"]);
    stage.registration = json!({"client_id": "d", "client_secret": "s e", "token_endpoint_auth_method": "client_secret_basic"});
    stage.play(plan()).unwrap();
    let asked = stage.at("/register").json.clone().unwrap();
    assert_eq!(
        asked["grant_types"],
        json!(["authorization_code", "refresh_token"])
    );
    assert_eq!(
        (
            &asked["application_type"],
            &asked["token_endpoint_auth_method"]
        ),
        (&json!("native"), &json!("client_secret_basic"))
    );
    assert_eq!(asked["redirect_uris"], json!([REDIRECT]));
    // Encoded like a form before they are joined.
    assert_eq!(
        stage.at("/token").headers["authorization"],
        "Basic ZDpzK2U="
    );
    assert!(!stage.at("/token").pairs.contains_key("client_secret"));
}

/// A secret although `none` was asked for counts; redirects that are not ours do not.
#[test]
fn what_a_registration_answers_counts() {
    let mut stage = Stage::new();
    for (given, method) in [
        (
            json!({"client_id": "d", "client_secret": "s"}),
            "client_secret_basic",
        ),
        (
            json!({"client_id": "d", "client_secret": "s", "token_endpoint_auth_method": "none"}),
            "client_secret_basic",
        ),
        (
            json!({"client_id": "d", "client_secret": "s", "token_endpoint_auth_method": "client_secret_post"}),
            "client_secret_post",
        ),
        (
            json!({"client_id": "d", "token_endpoint_auth_method": "none"}),
            "none",
        ),
    ] {
        stage.registration = given;
        assert_eq!(stage.play(plan()).unwrap().client.proof.name(), method);
    }
    assert!(!stage.at("/token").headers.contains_key("authorization"));
    for bad in [
        json!({"client_id": "d", "redirect_uris": ["https://evil.example/"]}),
        json!({"client_id": "d", "token_endpoint_auth_method": "client_secret_basic"}),
        json!({"client_id": "d", "client_secret": "s", "token_endpoint_auth_method": "tls_client_auth"}),
        json!({"client_secret": "s"}),
        json!({"error": "invalid_client_metadata", "error_description": "no\u{1b}[2J"}),
    ] {
        stage.registration = bad.clone();
        let failed = stage.play(plan()).unwrap_err().to_string();
        assert!(
            failed.starts_with("registering as a client: ") && !failed.contains('\u{1b}'),
            "{failed}"
        );
    }
    let issuer = Issuer::read(&answer(200, &server_document()), ISSUER, Plain::Never)
        .unwrap()
        .unwrap();
    let only_post = Issuer {
        auth_methods: Some(vec!["client_secret_post".into()]),
        ..issuer
    };
    assert_eq!(
        configured(Some("s"))
            .client(&only_post)
            .unwrap()
            .proof
            .name(),
        "client_secret_post"
    );
}
