//! Hosts: label boundaries, one spelling, and addresses with two readings.

use proptest::prelude::*;

use super::*;
use crate::context::{domain::Host, mail::Mailbox};

fn matches(pattern: &str, url: &str) -> bool {
    let pattern = DomainPattern::parse(pattern).unwrap();
    Host::of_url(url).is_ok_and(|host| pattern.matches(&host))
}

#[test]
fn domains_match_on_label_boundaries() {
    let cases = [
        ("example.com", "https://example.com/", true),
        ("example.com", "https://EXAMPLE.com.", true),
        ("example.com", "https://a.b.example.com/x", true),
        ("example.com", "https://evilexample.com/", false),
        ("example.com", "https://example.com.evil.org/", false),
        ("example.com", "https://example.co/", false),
        ("example.com", "https://com/", false),
        ("*.example.com", "https://a.example.com/", true),
        ("*.example.com", "https://example.com/", false),
        ("*.example.com", "https://evilexample.com/", false),
        (".example.com", "https://example.com/", true),
        (".example.com", "https://a.example.com/", true),
        (".example.com", "https://evilexample.com/", false),
        ("*", "https://anything.example/", true),
        ("example.com:8443", "https://example.com:8443/", true),
        ("example.com:8443", "https://example.com/", false),
        ("example.com:443", "https://example.com/", true),
        ("example.com", "http://example.com:1/", true),
        ("bücher.example", "https://xn--bcher-kva.example/", true),
        ("xn--bcher-kva.example", "https://BÜCHER.example/", true),
        ("apple.com", "https://аpple.com/", false),
        ("example.com", "https://ｅxample．com/", true),
        ("example.com", "https://example。com/", true),
        ("127.0.0.1", "http://127.1/", true),
        ("127.0.0.1", "http://2130706433/", true),
        ("127.0.0.1", "http://0x7f.0.0.1/", true),
        ("127.0.0.1", "http://0177.0.0.01/", true),
        ("127.0.0.1", "http://[::ffff:127.0.0.1]/", true),
        ("::1", "http://[0:0::1]/", true),
        ("[::1]:80", "http://[::1]/", true),
        ("0.0.1", "http://127.0.0.1/", false),
        ("*.0.0.1", "http://127.0.0.1/", false),
    ];
    for (pattern, url, expected) in cases {
        if pattern == "*.0.0.1" {
            assert!(
                DomainPattern::parse(pattern).is_err(),
                "an address has no labels"
            );
            continue;
        }
        assert_eq!(matches(pattern, url), expected, "{pattern} {url}");
    }
}

#[test]
fn an_address_with_two_readings_has_no_host() {
    let odd = [
        "http://example.com@evil.com/",
        "http://user:pw@example.com/",
        "http://@example.com/",
        "http://example.com%40evil.com/",
        "http://ex%61mple.com/",
        "http://example.com\\@evil.com/",
        "http:\\\\example.com",
        "http:/example.com",
        "http:example.com",
        "http:///example.com",
        "https://",
        "https:///x",
        " https://example.com",
        "https://example.com /",
        "https://exa\tmple.com",
        "https://example.com\n.evil.com",
        "ftp://example.com",
        "file:///etc/passwd",
        "javascript:alert(1)",
        "//example.com",
        "example.com",
        "https://example..com/",
        "https://.example.com/",
        "https://example.com..",
        "https://exa_mple.com:99999/",
        "https://faß.de/",
        "https://a\u{200d}b.com/",
        "https://[::1/",
        "https://1.2.3.4.5/",
        "https://0x1ffffffff/",
        "https://exam\u{0}ple.com",
        "",
    ];
    for url in odd {
        assert!(
            Host::of_url(url).is_err(),
            "{url:?} is {:?}",
            Host::of_url(url)
        );
    }
}

#[test]
fn patterns_that_are_no_domains_are_refused() {
    for text in [
        "",
        "https://example.com",
        "example.com/x",
        "a b",
        "*.*.com",
        "ex*mple.com",
        "a@b.com",
        "example.com:http",
        "*example.com",
        ".",
    ] {
        assert!(DomainPattern::parse(text).is_err(), "{text:?}");
    }
}

#[test]
fn mail_addresses_are_read_the_narrow_way() {
    let host = |text: &str| Mailbox::parse(text).map(|mailbox| mailbox.host.to_string());
    assert_eq!(host("a@example.com").as_deref(), Some("example.com"));
    assert_eq!(
        host("Ann B <a@Example.com>").as_deref(),
        Some("example.com")
    );
    assert_eq!(
        host("\"good@good.com\" <a@evil.com>").as_deref(),
        Some("evil.com")
    );
    assert_eq!(
        host("good@good.com <a@evil.com>").as_deref(),
        Some("evil.com")
    );
    let none = [
        "",
        "a",
        "@x.com",
        "a@",
        "a@b@c.com",
        "\"a@b\"@c.com",
        "a%evil.com@good.com",
        "evil!a@good.com",
        "a@good.com (b@evil.com)",
        "a@good.com\r\nBcc: b@evil.com",
        "group: a@x.com;",
        "<a@x.com> <b@evil.com>",
        "<a@x.com",
        "a@x.com>",
        "a b@x.com",
        "a@x .com",
    ];
    for text in none {
        assert_eq!(host(text), None, "{text:?}");
    }
    let list = |text: &str| Mailbox::parse_list(text).map(|list| list.len());
    assert_eq!(list("a@x.com, \"B, C\" <b@x.com>; d@x.com"), Some(3));
    assert_eq!(list("a@x.com, nonsense"), None);
}

#[test]
fn accounts_are_exact() {
    let matches =
        |pattern: &str, account: &str| AccountPattern::parse(pattern).unwrap().matches(account);
    assert!(
        matches("ann@example.com", "Ann@EXAMPLE.com")
            && matches("ann@example.com", "Ann <ann@example.com>")
    );
    assert!(
        !matches("ann@example.com", "joann@example.com")
            && !matches("ann@example.com", "ann@sub.example.com")
    );
    assert!(
        matches("*@example.com", "bob@example.com")
            && !matches("*@example.com", "bob@evilexample.com")
    );
    assert!(matches("work", "Work") && !matches("work", "work@example.com"));
    for text in ["", "a*", "*", "ann@", " work"] {
        assert!(AccountPattern::parse(text).is_err(), "{text:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    /// The plain rule in other words: equal, or what is left before it ends in a dot.
    #[test]
    fn a_match_is_equality_or_a_label_boundary(own in "[a-c]{1,2}\\.[a-c]{1,2}", host in "[a-c.]{1,9}") {
        let url = format!("https://{host}/");
        if Host::of_url(&url).is_ok() {
            let host = host.trim_end_matches('.');
            let expected = host == own || host.ends_with(&format!(".{own}"));
            prop_assert_eq!(matches(&own, &url), expected, "{} {}", own, host);
        }
    }

    /// Whatever the text, the host we compare is the host a browser would go to.
    #[test]
    fn the_host_is_the_one_a_browser_sees(text in "https?://[a-z@:%\\\\/?#.\\[\\] 0-9x]{0,24}") {
        if let Ok(host) = Host::of_url(&text) {
            let url = url::Url::parse(&text).unwrap();
            prop_assert!(url.username().is_empty() && url.password().is_none());
            let seen = url.host_str().unwrap().trim_end_matches('.').trim_matches(['[', ']']).to_owned();
            let same = host.to_string() == seen || seen.starts_with("::ffff:");
            prop_assert!(same, "{} {}", host, seen);
        }
    }
}

#[test]
fn a_resource_is_bound_by_domains_only_where_its_uri_is_on_the_network() {
    let bounded = Capability {
        domain_allowlist: domains(&["example.com"]),
        ..capability("*")
    };
    let bounded = World::of(context(vec![bounded], &[]));
    let rule = |uri: &str| {
        bounded
            .foreign("resources.read", &[], &format!(r#"{{"uri":"{uri}"}}"#))
            .map(|refused| refused.rule)
    };
    for own in [
        "note://1",
        "portcullis://notes/note://1",
        "demo://resource/dynamic/text/1",
        "file:///srv/a",
        "capsem://n/note://1",
    ] {
        assert_eq!(rule(own), None, "{own}");
    }
    assert_eq!(rule("https://docs.example.com/a"), None);
    assert_eq!(rule("portcullis://web/https://docs.example.com/a"), None);
    let elsewhere = [
        "https://evil.org/a",
        "portcullis://web/https://evil.org/a",
        "HTTPS://evil.org",
        "git+ssh://evil.org/a",
        "evil.org",
        "",
    ];
    for elsewhere in elsewhere {
        assert_eq!(rule(elsewhere), Some(Rule::DomainNotAllowed), "{elsewhere}");
    }
    let tool = bounded
        .foreign("crawl", &[], r#"{"uri":"note://1"}"#)
        .map(|refused| refused.rule);
    assert_eq!(
        tool,
        Some(Rule::DomainNotAllowed),
        "what a tool makes of a URI is not known"
    );
}
