use super::{bad, findings, good};
use gateway::settings::ProofDemand;

use crate::IssuerKeys;

const FULL: &str = r#"
oauth:
  resource: https://gate.example.com/mcp
  scopes: [mcp:use, "tools"]
  dpop: required
  issuers:
    - issuer: https://id.example.com/realms/corp
      jwks_url: https://id.example.com/realms/corp/certs
      audience: gate
      user_claim: email
      tenant_claim: org
      departments_claim: groups
      operator_scope: mcp:operate
    - { issuer: "http://127.0.0.1:9000", jwks_file: keys/other.json }
"#;

#[test]
fn providers_are_read_as_written() {
    let oauth = good(FULL).oauth.unwrap();
    assert_eq!(
        (oauth.resource.as_str(), oauth.proofs),
        ("https://gate.example.com/mcp", ProofDemand::Required)
    );
    assert_eq!(oauth.scopes, ["mcp:use", "tools"]);
    let [corp, other] = oauth.issuers.as_slice() else {
        panic!("{:?}", oauth.issuers)
    };
    assert_eq!(corp.issuer, "https://id.example.com/realms/corp");
    assert_eq!(
        corp.keys,
        IssuerKeys::Url("https://id.example.com/realms/corp/certs".into())
    );
    assert_eq!(corp.user_claim.as_deref(), Some("email"));
    assert_eq!(corp.operator_scope.as_deref(), Some("mcp:operate"));
    assert_eq!(
        other.keys,
        IssuerKeys::File("/etc/p/keys/other.json".into())
    );
    assert_eq!(
        (other.audience.as_deref(), other.tenant_claim.as_deref()),
        (None, None)
    );
    assert_eq!(good("").oauth, None);
}

#[test]
fn a_provider_that_could_be_spoken_for_is_refused() {
    let with = |from: &str, to: &str| findings(&FULL.replace(from, to)).join("\n");
    for (from, to) in [
        (
            "resource: https://gate.example.com/mcp",
            "resource: http://gate.example.com/mcp",
        ),
        (
            "resource: https://gate.example.com/mcp",
            "resource: gate.example.com",
        ),
        (
            "resource: https://gate.example.com/mcp",
            "resource: https://user@gate.example.com/",
        ),
        (
            "resource: https://gate.example.com/mcp",
            "resource: https://gate.example.com/mcp?a=b",
        ),
        (
            "https://id.example.com/realms/corp/certs",
            "http://id.example.com/certs",
        ),
        (
            "https://id.example.com/realms/corp/certs",
            "file:///etc/keys",
        ),
        ("http://127.0.0.1:9000", "http://127.0.0.1.evil.example"),
    ] {
        let said = with(from, to);
        assert!(
            said.contains("is not an address that can be trusted"),
            "{to}: {said}"
        );
    }
    assert!(
        with("  resource: https://gate.example.com/mcp\n", "")
            .contains("`oauth` has no `resource`")
    );
    assert!(
        with(
            "      jwks_url: https://id.example.com/realms/corp/certs\n",
            ""
        )
        .contains("an issuer without keys")
    );
    assert!(with("jwks_file", "audience").contains("an issuer without keys"));
    assert!(
        with("      audience: gate", "      jwks_file: also.json")
            .contains("`jwks_url` and `jwks_file`")
    );
    assert!(
        with(
            "http://127.0.0.1:9000",
            "https://id.example.com/realms/corp"
        )
        .contains("is there twice")
    );
    assert!(with("\"tools\"", "\"two words\"").contains("cannot be a scope"));
    assert!(with("mcp:operate", "'\"'").contains("cannot be a scope"));
    assert!(
        bad("authentication: none\noauth: { resource: 'https://g.example', issuers: [] }")
            .contains("`authentication: none` does not")
    );
    assert!(bad("oauth: { resource: 'https://g.example' }").contains("names no issuer"));
    assert!(bad("oauth: { resource: 'https://g.example', issuer: x }").contains("issuer"));
}

#[test]
fn namesakes_of_two_providers_cannot_share_an_account() {
    let servers = "mcp_servers:\n  up: { url: 'https://up.example/mcp', tools: { mine: { requires_user_auth: true } } }\n";
    let refused = bad(&format!("{FULL}{servers}"));
    assert!(refused.contains("more than one issuer"), "{refused}");
    let shared = servers.replace("true", "false");
    good(&format!("{FULL}{shared}"));
    let (one, _) = FULL.rsplit_once("    - {").unwrap();
    good(&format!("{one}{servers}"));
}
