//! Challenges, addresses, scopes and what people paste.

use proptest::prelude::*;

use crate::{
    Address, AddressError, Challenge, Near, Plain, Problem, Returned, ScopeError, Scopes, StepUp,
    from_pasted, theirs,
};

#[test]
fn a_challenge_is_read_from_whatever_servers_write() {
    let all = r#"Bearer realm="x", resource_metadata="https://a/b", scope="r w", error="insufficient_scope""#;
    let read = Challenge::parse(all).unwrap();
    assert_eq!(read.resource_metadata.as_deref(), Some("https://a/b"));
    assert_eq!(read.scope.as_ref().unwrap().to_string(), "r w");
    assert!(read.wants_scope() && !read.is_dpop);
    // Others' schemes before and after it, words instead of parameters, no quotes, escapes, odd spacing and case.
    for (header, metadata) in [
        (
            r#"Basic realm="a, Bearer", bearer Resource_Metadata = "https://a""#,
            Some("https://a"),
        ),
        (
            r#"Negotiate YWJj==, Bearer resource_metadata=https://a/x=1"#,
            Some("https://a/x=1"),
        ),
        (
            r#"Negotiate, Bearer resource_metadata="https:\/\/a", Basic realm="b""#,
            Some("https://a"),
        ),
        ("Bearer", None),
        ("DPoP algs=\"ES256\"", None),
    ] {
        let read = Challenge::parse(header).unwrap_or_else(|| panic!("{header}"));
        assert_eq!(read.resource_metadata.as_deref(), metadata, "{header}");
    }
    assert!(Challenge::parse("DPoP algs=\"ES256\"").unwrap().is_dpop);
    // What has two readings, is cut short or is too long is none.
    let long = format!("Bearer realm=\"{}\"", "x".repeat(5000));
    let many = "A,".repeat(9) + "Bearer";
    for header in [
        "",
        "Basic realm=\"x\"",
        "Bearer scope=\"a\", scope=\"b\"",
        "Bearer scope=\"a",
        "Bearer scope=\"a\"b",
        "=x",
        &long,
        &many,
    ] {
        assert_eq!(Challenge::parse(header), None, "{header}");
    }
    // Scopes that are no scopes count as not said.
    assert_eq!(
        Challenge::parse("Bearer scope=\"\u{e9}\"").unwrap().scope,
        None
    );
}

#[test]
fn only_addresses_with_one_reading_are_used() {
    let parse = |text: &str| Address::parse(text, Plain::OnLoopback).err();
    for fine in [
        "https://a/b?c=d",
        "http://127.0.0.1:1/x",
        "http://[::1]/",
        "http://localhost",
        "http://x.localhost/",
    ] {
        assert_eq!(parse(fine), None, "{fine}");
    }
    for (text, why) in [
        ("http://a/", AddressError::NotHttps),
        ("javascript:alert(1)", AddressError::NotHttps),
        ("file:///etc/passwd", AddressError::NotHttps),
        ("https://a@b/", AddressError::UserInfo),
        ("https://@b/", AddressError::UserInfo),
        ("https://a/#x", AddressError::Fragment),
        ("/relative", AddressError::Unreadable),
        ("https://a\\@b/", AddressError::Characters),
        ("https://a/\n", AddressError::Characters),
        (" https://a/", AddressError::Characters),
        ("https://a/$(id)`id`", AddressError::Characters),
    ] {
        assert_eq!(parse(text), Some(why), "{text}");
    }
    assert_eq!(
        parse(&format!("https://a/{}", "x".repeat(9000))),
        Some(AddressError::TooLong)
    );
    assert!(Address::parse("http://127.0.0.1/", Plain::Never).is_err());
    // Never the beginning of an option, whatever it was.
    assert!(
        Address::parse("https://-a/", Plain::Never)
            .is_ok_and(|address| address.url().starts_with("https://"))
    );
}

/// What a server names is as far inside as the server itself, or further out.
#[test]
fn a_server_outside_names_nothing_inside() {
    let at = |text: &str| Address::parse(text, Plain::OnLoopback).unwrap();
    let near = Near::to(&at("https://mcp.example/mcp")).and(&at("https://login.corp/"));
    assert_eq!(near.reach(&at("https://other.example/")), "public");
    for written in ["https://mcp.example/token", "https://login.corp/token"] {
        assert_eq!(near.reach(&at(written)), "anywhere");
    }
    let reach = |server: &str| Near::to(&at(server)).reach(&at("https://x.example/"));
    assert_eq!(reach("https://10.0.0.1/mcp"), "private");
    assert_eq!(reach("https://[fd00::1]/mcp"), "private");
    assert_eq!(reach("http://localhost:1/mcp"), "anywhere");
}

#[test]
fn scopes_are_counted_and_capped() {
    assert_eq!(Scopes::parse(" a  b a ").unwrap().to_string(), "a b");
    assert_eq!(Scopes::parse("a\"b"), Err(ScopeError::Characters));
    assert_eq!(Scopes::parse(&"x".repeat(257)), Err(ScopeError::TooMany));
    let many: Vec<String> = (0..257).map(|n| n.to_string()).collect();
    assert_eq!(Scopes::parse(&many.join(" ")), Err(ScopeError::TooMany));
}

/// More rights: what there was and what is wanted, within the operator's most, at most three times for one tool and set.
#[test]
fn more_is_asked_for_three_times_and_within_the_most() {
    let scopes = |text| Scopes::parse(text).unwrap();
    let mut step_up = StepUp::default();
    for _ in 0..3 {
        let asked = step_up.ask("write", &scopes("mcp:basic"), &scopes("mcp:write"), None);
        assert_eq!(asked.unwrap().unwrap().to_string(), "mcp:basic mcp:write");
    }
    assert_eq!(
        step_up.ask("write", &scopes("mcp:write"), &scopes("mcp:basic"), None),
        Ok(None)
    );
    assert!(
        step_up
            .ask("other", &scopes("a"), &scopes("b"), None)
            .unwrap()
            .is_some()
    );
    let beyond = step_up.ask("write", &scopes("a"), &scopes("b c"), Some(&scopes("a b")));
    assert_eq!(beyond, Err(ScopeError::BeyondMax("c".into())));
    step_up.forget();
    assert!(
        step_up
            .ask("write", &scopes("mcp:basic"), &scopes("mcp:write"), None)
            .unwrap()
            .is_some()
    );
}

/// A bare code has no state and no issuer, so it cannot be checked.
#[test]
fn people_paste_the_whole_address_or_its_query() {
    let ours = vec!["http://127.0.0.1:17878/oauth/callback".to_owned()];
    for fine in [
        "http://127.0.0.1:17878/oauth/callback?code=a&state=b",
        " ?code=a&state=b\n",
        "code=a&state=b#top",
    ] {
        assert!(from_pasted(fine, &ours).is_ok(), "{fine}");
    }
    assert_eq!(from_pasted("abc", &ours).unwrap_err(), Problem::CodeAlone);
    assert_eq!(
        from_pasted("https://evil.example/?code=a&state=b", &ours).unwrap_err(),
        Problem::OtherState
    );
    assert!(Returned::parse("state=a&state=b").is_none());
    assert!(Returned::parse(&"a=b&".repeat(40)).is_none());
}

#[test]
fn others_words_are_made_printable_and_short() {
    assert_eq!(theirs("a\u{1b}[2J\u{202e}b"), "a\u{fffd}[2J\u{fffd}b");
    assert_eq!(theirs(&"x".repeat(600)).chars().count(), 501);
}

proptest! {
    #[test]
    fn any_challenge_is_read_the_same_way_twice(header in "([A-Za-z]{1,6}[ ,=\"\\\\]{0,3}){0,12}") {
        prop_assert_eq!(Challenge::parse(&header), Challenge::parse(&header));
    }

    #[test]
    fn what_is_quoted_comes_back(value in "[ -~]{0,40}") {
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let read = Challenge::parse(&format!("Bearer realm=\"r\", resource_metadata=\"{quoted}\", x=y")).unwrap();
        prop_assert_eq!(read.resource_metadata.unwrap(), value);
    }

    #[test]
    fn an_address_is_requested_where_it_says(host in "[a-z]{1,8}\\.example", path in "(/[a-z0-9]{0,5}){0,4}") {
        let text = format!("https://{host}{path}");
        let address = Address::parse(&text, Plain::Never).unwrap();
        prop_assert_eq!(address.text(), &text);
        prop_assert_eq!(address.host(), &host);
        prop_assert_eq!(address.origin(), format!("https://{host}"));
    }
}
