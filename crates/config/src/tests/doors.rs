//! Doors, the rate limit, and what the environment says of them.

use std::{path::Path, time::Duration};

use doors::{ClientCertificates, Posture, Preamble};

use super::{
    super::{Environment, Raw},
    good,
};

fn findings(yaml: &str) -> String {
    match crate::parse(Path::new("portcullis.yaml"), yaml) {
        Ok(_) => panic!("{yaml} is taken"),
        Err(report) => report.to_string(),
    }
}

#[test]
fn a_door_that_others_can_reach_is_guarded() {
    for (yaml, what) in [
        ("doors: [0.0.0.0:8443]", "add `tls:"),
        ("doors: [{ listen: \"[::]:8443\" }]", "add `tls:"),
        (
            "doors: [{ listen: 10.0.0.1:1, mtls: { mode: require, ca_files: [a] } }]",
            "has no TLS",
        ),
        (
            "authentication: none\ndoors: [{ listen: 0.0.0.0:1, tls: { cert: a, key: b } }]",
            "nobody there is asked",
        ),
        (
            "authentication: none\ndoors: [{ listen: 0.0.0.0:1, plain_from: [10.0.0.0/8] }]",
            "nobody there is asked",
        ),
    ] {
        let said = findings(yaml);
        assert!(said.contains(what), "{yaml}: {said}");
    }
    for yaml in [
        "doors: [127.0.0.1:8443]",
        "doors: [{ listen: 0.0.0.0:1, tls: { cert: a, key: b } }]",
        "doors: [{ listen: 0.0.0.0:1, plain_from: [10.0.0.0/8] }]",
        "authentication: none\ndoors: [{ listen: 0.0.0.0:1, tls: { cert: a, key: b }, mtls: { mode: require, ca_files: [c] } }]",
    ] {
        assert_eq!(good(yaml).doors.len(), 1, "{yaml}");
    }
}

#[test]
fn what_of_a_door_contradicts_itself_is_said() {
    for (yaml, what) in [
        ("doors: [{ tls: { cert: a, key: b } }]", "has no `listen`"),
        (
            "doors: [127.0.0.1:7878]",
            "a door at 127.0.0.1:7878 already",
        ),
        (
            "doors: [127.0.0.1:1, 127.0.0.1:1]",
            "a door at 127.0.0.1:1 already",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, tls: { cert: a } }]",
            "needs `cert` and `key`",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, tls: { cert: a, key: b }, mtls: { mode: require } }]",
            "whose certificates",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, tls: { cert: a, key: b }, mtls: { mode: require, ca_files: [c], role: identity } }]",
            "names none",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, tls: { cert: a, key: b }, mtls: { mode: require, ca_files: [c], callers: [{ uri: a:b, dns: c }] } }]",
            "more than one way",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, tls: { cert: a, key: b }, mtls: { mode: require, ca_files: [c], callers: [{ fingerprint: abc }] } }]",
            "what no certificate has",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, proxies: { header: forwarded } }]",
            "needs `trusted`",
        ),
        (
            "doors: [{ listen: 127.0.0.1:1, proxies: { trusted: [10.0.0.1/8], protocol: v1 } }]",
            "10.0.0.1/8",
        ),
        ("allowed_hosts: [\"a b\"]", "is not the name of a host"),
        (
            "rate_limit: { store: \"redis://user:secret@host\" }",
            "is not the address",
        ),
        ("rate_limit: { store_password: plain }", "store_password"),
    ] {
        let said = findings(yaml);
        assert!(said.contains(what), "{yaml}: {said}");
        assert!(!said.contains("secret@"), "{said}");
    }
}

#[test]
fn a_door_is_read_as_it_is_written() {
    let read = good(
        "doors:\n  - listen: 127.0.0.1:8443\n    tls: { cert: a.pem, key: a.key, more: [{ cert: b.pem, key: b.key }] }\n    mtls: { mode: request, ca_files: [ca.pem], callers: [\"spiffe://a/*\"] }\n    proxies: { trusted: [10.0.0.0/8], protocol: v2 }\n",
    );
    let [door] = read.doors.as_slice() else {
        panic!("{:?}", read.doors);
    };
    assert_eq!(door.tls.as_ref().unwrap().pairs.len(), 2);
    assert_eq!(door.clients.certificates, ClientCertificates::Request);
    assert_eq!(door.clients.callers.len(), 1);
    assert_eq!(door.proxies.preamble, Preamble::V2);
    assert!(read.rate_limit.is_none(), "nobody is counted by default");
    let limited =
        good("rate_limit: { enabled: true, store: \"redis://r:1/2\", on_unavailable: closed }")
            .rate_limit
            .unwrap();
    assert_eq!(
        (limited.requests, limited.window),
        (600, Duration::from_secs(60))
    );
    assert_eq!(limited.posture, Posture::Closed);
    let store = limited.store.unwrap();
    assert_eq!((store.address.as_str(), store.database), ("r:1", 2));
}

fn said(variables: &[(&str, &str)]) -> Environment {
    Environment::read(|name| {
        let found = variables.iter().find(|(known, _)| *known == name);
        found.map(|(_, value)| (*value).to_owned())
    })
}

#[test]
fn the_environment_counts_more_than_the_file() {
    let yaml = "tool_timeout: 5s\nrate_limit: { enabled: true, requests: 7 }\nmcp_servers:\n  a: { url: \"http://127.0.0.1:1/mcp\" }\n  b: { url: \"http://127.0.0.1:2/mcp\", timeout: 9s }\n";
    let raw = Raw::parse(Path::new("portcullis.yaml"), yaml).unwrap();
    let times = |read: &crate::Resolved| {
        let time = |id: &str| read.server(id).unwrap().budget.time.as_secs();
        (time("a"), time("b"))
    };
    assert_eq!(times(&raw.resolve().unwrap()), (5, 9));
    let environment = said(&[
        ("MCP_TOOL_TIMEOUT_SECONDS", "11"),
        ("MCP_RATE_LIMIT_REQUESTS", "3"),
        ("MCP_RATE_LIMIT_WINDOW_SECONDS", "120"),
    ]);
    let read = raw.resolve_in(&environment).unwrap();
    assert_eq!(times(&read), (11, 9));
    let limit = read.rate_limit.unwrap();
    assert_eq!(
        (limit.requests, limit.window),
        (3, Duration::from_secs(120))
    );
    let off = raw
        .resolve_in(&said(&[("MCP_RATE_LIMIT_ENABLED", "False")]))
        .unwrap();
    assert!(off.rate_limit.is_none());
    for (name, bad) in [
        ("MCP_TOOL_TIMEOUT_SECONDS", "soon"),
        ("MCP_TOOL_TIMEOUT_SECONDS", "-1"),
        ("MCP_TOOL_TIMEOUT_SECONDS", "nan"),
        ("MCP_RATE_LIMIT_ENABLED", "maybe"),
        ("MCP_RATE_LIMIT_REQUESTS", "0"),
        ("MCP_RATE_LIMIT_WINDOW_SECONDS", "0.5"),
    ] {
        let refused = raw
            .resolve_in(&said(&[(name, bad)]))
            .unwrap_err()
            .to_string();
        assert!(refused.contains(name), "{refused}");
    }
}

#[test]
fn a_tool_has_its_own_time_or_none_for_a_person() {
    let read = good(
        "mcp_servers:\n  a:\n    url: \"http://127.0.0.1:1/mcp\"\n    timeout: 9s\n    tools:\n      block_ip: { is_hitl: true }\n      quick: { timeout: 2s, is_hitl: true }\n",
    );
    let server = read.server("a").unwrap();
    let (person, is_bounded) = server.tool_budget("block_ip");
    assert!(person.time > Duration::from_secs(24 * 3600) && !is_bounded);
    assert_eq!(server.tool_budget("quick").0.time, Duration::from_secs(2));
    assert_eq!(server.tool_budget("other").0.time, Duration::from_secs(9));
}
