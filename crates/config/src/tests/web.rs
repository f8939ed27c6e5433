//! The tools for the web: what is in force, and what is a mistake.

use gateway::settings::EngineKind;

use super::{findings, secret};

fn resolved(text: &str) -> crate::Resolved {
    crate::parse("portcullis.yaml".as_ref(), text).unwrap()
}

#[test]
fn there_are_no_tools_for_the_web_unless_they_are_written() {
    assert!(resolved("").web.is_none());
    let web = resolved("web: {}").web.unwrap();
    assert!(web.access.is_open() && web.hosts.is_empty() && web.networks.is_empty());
    assert_eq!((web.max_bytes, web.per_minute), (5 << 20, 30));
    let [engine] = web.engines.as_slice() else {
        panic!("{:?}", web.engines)
    };
    assert_eq!(engine.kind, EngineKind::DuckDuckGo);
    assert_eq!(engine.address.as_str(), "https://html.duckduckgo.com/");
    assert!(
        !engine.is_own,
        "nothing inside is asked because of a default"
    );
}

#[test]
fn engines_are_asked_in_their_order_and_the_first_is_the_one_that_is_bounded() {
    let text = "web:\n  allow_hosts: [Wiki.Example.com, \"10.1.2.3:8443\"]\n  allow_networks: [10.0.0.0/8, \"fd00::/8\"]\n  search:\n    - { engine: searxng, url: \"https://find.example.com/x\" }\n    - { engine: brave, key: env:BRAVE }\n    - duckduckgo\n";
    let resolved_it = resolved(text);
    let web = resolved_it.web.unwrap();
    assert_eq!(web.hosts, ["wiki.example.com", "10.1.2.3:8443"]);
    let kinds: Vec<_> = web.engines.iter().map(|engine| engine.kind).collect();
    assert_eq!(
        kinds,
        [
            EngineKind::SearXng,
            EngineKind::Brave,
            EngineKind::DuckDuckGo
        ]
    );
    let [first, second, third] = web.engines.as_slice() else {
        panic!("{:?}", web.engines)
    };
    assert_eq!(
        (first.address.as_str(), first.is_own),
        ("https://find.example.com/x/", true)
    );
    assert_eq!(
        (second.key.clone(), second.is_own),
        (Some(secret("env:BRAVE")), false)
    );
    assert!(!third.is_own);
    assert_eq!(resolved_it.ceilings.search_host, "find.example.com");
    let said =
        format!("{text}builtin_dispatchers: {{ web: {{ search_host: own.example.com }} }}\n");
    assert_eq!(resolved(&said).ceilings.search_host, "own.example.com");
    assert!(
        resolved("web: { search: [] }")
            .web
            .unwrap()
            .engines
            .is_empty()
    );
}

#[test]
fn mistakes_of_the_web_say_what_to_write() {
    for (text, what) in [
        (
            "web: { allow_hosts: [\"*.example.com\"] }",
            "`*.example.com` is not a host",
        ),
        (
            "web: { allow_hosts: [\"https://example.com\"] }",
            "is not a host",
        ),
        (
            "web: { allow_networks: [10.0.0.1] }",
            "`10.0.0.1` is not a range of addresses",
        ),
        (
            "web: { allow_networks: [10.0.0.0/33] }",
            "is not a range of addresses",
        ),
        (
            "web: { search: [altavista] }",
            "there is no search engine `altavista`",
        ),
        ("web: { search: [searxng] }", "`searxng` needs a `url`"),
        ("web: { search: [brave] }", "`brave` needs a `key`"),
        (
            "web: { search: [{ engine: searxng, url: \"ftp://x/\" }] }",
            "is not a web address",
        ),
        ("web: { max_bytes: 1 GiB }", "max_bytes"),
        ("web: { per_minute: 0 }", "per_minute"),
        ("web: { proxy: x }", "unknown key `proxy`"),
    ] {
        let found = findings(text);
        assert!(
            found.len() == 1 && found[0].contains(what),
            "{text}: {found:?}"
        );
    }
}
