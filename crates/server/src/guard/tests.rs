use std::net::SocketAddr;

use http::{HeaderMap, HeaderValue, Uri, header};

use super::{
    accepts, framing, is_known, is_ours, names_credential, sends_json, single, split_authority,
};

fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in pairs {
        map.append(*name, HeaderValue::from_str(value).unwrap());
    }
    map
}

#[test]
fn a_host_is_ours_by_loopback_address_or_list() {
    let address: Option<SocketAddr> = Some("127.0.0.1:7878".parse().unwrap());
    let allowed = vec!["gate.example".to_owned(), "other.example:81".to_owned()];
    let ours = [
        "127.0.0.1:7878",
        "127.0.0.1",
        "localhost:7878",
        "LocalHost",
        "[::1]:7878",
        "[::1]",
        "127.8.9.1",
        "gate.example",
        "gate.example:7878",
        "GATE.example:1",
        "other.example:81",
    ];
    for host in ours {
        assert!(is_ours(host, address, &allowed), "{host}");
    }
    let foreign = [
        "evil.example.com",
        "127.0.0.1:1",
        "localhost:80",
        "localhost.evil.example",
        "127.0.0.1.nip.io",
        "",
        ":7878",
        "[::1",
        "[::1]x",
        "localhost:+7878",
        "localhost:99999",
        "127.0.0.1:7878@evil.example",
        "10.0.0.1",
        "0.0.0.0",
        "other.example",
        "evil-localhost",
    ];
    for host in foreign {
        assert!(!is_ours(host, address, &allowed), "{host}");
    }
}

#[test]
fn an_address_that_is_not_loopback_is_ours_only_if_we_listen_on_it() {
    let address: Option<SocketAddr> = Some("192.168.1.7:80".parse().unwrap());
    assert!(is_ours("192.168.1.7", address, &[]));
    assert!(is_ours("192.168.1.7:80", address, &[]));
    assert!(!is_ours("192.168.1.8:80", address, &[]));
}

#[test]
fn an_origin_is_known_by_loopback_or_list() {
    let allowed = vec!["https://app.example/".to_owned()];
    for origin in [
        "http://127.0.0.1:7878",
        "http://localhost",
        "https://localhost:3",
        "http://[::1]:5",
        "https://app.example",
        "HTTPS://APP.example",
    ] {
        assert!(is_known(origin, &allowed), "{origin}");
    }
    let foreign = [
        "null",
        "",
        "http://evil.example.com",
        "http://localhost.evil.example",
        "file://localhost",
        "https://app.example:444",
        "http://app.example",
        "http://user@localhost",
        "http://localhost/evil",
        "http://127.0.0.1.evil",
        "localhost",
        "chrome-extension://localhost",
        "http://localhost:x",
    ];
    for origin in foreign {
        assert!(!is_known(origin, &allowed), "{origin}");
    }
}

#[test]
fn authorities_split_strictly() {
    assert_eq!(split_authority("a:1"), Some(("a", Some(1))));
    assert_eq!(split_authority("[::1]:1"), Some(("::1", Some(1))));
    assert_eq!(split_authority("a"), Some(("a", None)));
    for wrong in ["a:", "a:1:2", "a:-1", "[::1]1", "[::1"] {
        assert_eq!(split_authority(wrong), None, "{wrong}");
    }
}

#[test]
fn a_credential_in_a_url_is_noticed() {
    for uri in ["/mcp?access_token=x", "/mcp?a=1&TOKEN=x", "/mcp?bearer"] {
        assert!(names_credential(&uri.parse::<Uri>().unwrap()), "{uri}");
    }
    assert!(!names_credential(
        &"/mcp?progressToken=1".parse::<Uri>().unwrap()
    ));
}

#[test]
fn a_body_with_two_lengths_is_refused() {
    assert!(framing(&headers(&[("content-length", "1")])).is_ok());
    assert!(
        framing(&headers(&[
            ("content-length", "1"),
            ("transfer-encoding", "chunked")
        ]))
        .is_err()
    );
    assert!(
        framing(&headers(&[
            ("content-length", "1"),
            ("content-length", "1")
        ]))
        .is_err()
    );
}

#[test]
fn content_type_is_json_with_or_without_parameters() {
    for good in [
        "application/json",
        "application/json; charset=utf-8",
        "Application/JSON",
    ] {
        assert!(
            sends_json(&headers(&[("content-type", good)])).is_ok(),
            "{good}"
        );
    }
    for bad in [
        "text/plain",
        "application/jsonp",
        "",
        "application/json-patch+json",
    ] {
        let refused = sends_json(&headers(&[("content-type", bad)])).unwrap_err();
        assert_eq!(refused.status(), 415, "{bad}");
    }
    assert!(sends_json(&HeaderMap::new()).is_err());
}

#[test]
fn accept_allows_both_types_or_anything() {
    let both = ["application/json", "text/event-stream"];
    for good in [
        "application/json, text/event-stream",
        "text/event-stream,application/json",
        "*/*",
        "application/*, text/event-stream;q=0.5",
        "",
    ] {
        assert!(
            accepts(&headers(&[("accept", good)]), &both).is_ok(),
            "{good}"
        );
    }
    assert!(accepts(&HeaderMap::new(), &both).is_ok());
    assert!(
        accepts(
            &headers(&[
                ("accept", "application/json"),
                ("accept", "text/event-stream")
            ]),
            &both
        )
        .is_ok()
    );
    for bad in [
        "text/html",
        "application/json",
        "text/event-stream",
        "text/*",
    ] {
        assert_eq!(
            accepts(&headers(&[("accept", bad)]), &both)
                .unwrap_err()
                .status(),
            406,
            "{bad}"
        );
    }
}

#[test]
fn a_header_that_must_be_single_is_none_when_doubled() {
    assert_eq!(single(&headers(&[("host", "a")]), header::HOST), Some("a"));
    assert_eq!(
        single(&headers(&[("host", "a"), ("host", "a")]), header::HOST),
        None
    );
}
