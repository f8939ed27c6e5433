//! Addresses, decompression and the common account, without a network.

use std::io::Write;

use proptest::prelude::*;

use super::{Account, Target, gzip::Gunzip};
use crate::failure::Kind;

fn target(url: &str) -> Target {
    Target::parse(url).unwrap()
}

#[test]
fn addresses_are_read_and_compared() {
    let parsed = target("HTTPS://Example.COM/mcp?x=1#frag");
    assert_eq!(
        (parsed.tls, &*parsed.host, parsed.port, parsed.path.as_str()),
        (true, "example.com", 443, "/mcp?x=1")
    );
    assert!(target("http://a:80/x").same_origin(&target("http://A/y")));
    for other in ["https://a/x", "http://a:81/x", "http://b/x"] {
        assert!(!target("http://a/x").same_origin(&target(other)), "{other}");
    }
    assert_eq!(target("http://[::1]:9/").bare_host(), "::1");
    assert_eq!(target("http://h:8080/").host_header().unwrap(), "h:8080");
    assert_eq!(target("https://h/").host_header().unwrap(), "h");
    for bad in [
        "",
        "/path",
        "ftp://x/",
        "http://",
        "http://u:p@h/",
        "http:// h/",
    ] {
        assert!(Target::parse(bad).is_err(), "{bad}");
    }
}

#[test]
fn references_are_resolved_like_a_browser_would() {
    let base = target("http://h:1/a/b?q");
    let cases = [
        ("/c?d#e", "http://h:1/c?d"),
        ("c", "http://h:1/a/c"),
        ("./c", "http://h:1/a/c"),
        ("?z", "http://h:1/a/b?z"),
        ("http://h:1/abs", "http://h:1/abs"),
        ("https://other/x", "https://other/x"),
        ("//other/x", "http://other/x"),
    ];
    for (reference, expected) in cases {
        assert_eq!(
            base.join(reference).unwrap(),
            target(expected),
            "{reference}"
        );
    }
    assert!(
        base.join("javascript:alert(1)")
            .map_or(true, |joined| joined.same_origin(&base))
    );
}

fn packed(text: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::best());
    encoder.write_all(text).unwrap();
    encoder.finish().unwrap()
}

#[test]
fn bombs_are_defused_by_size_and_by_ratio() {
    let bomb = packed(&vec![0; 8 << 20]);
    assert_eq!(
        Gunzip::new(1 << 20).feed(&bomb).unwrap_err().kind,
        Kind::TooLarge
    );
    let by_ratio = Gunzip::new(1 << 30).feed(&bomb).unwrap_err();
    assert!(by_ratio.text.contains("100 to 1"), "{by_ratio}");
    assert_eq!(
        Gunzip::new(1 << 20)
            .feed(b"not gzip at all")
            .unwrap_err()
            .kind,
        Kind::Invalid
    );
    let mut cut = Gunzip::new(1 << 20);
    let whole = packed(b"a text that is cut off in the middle");
    cut.feed(&whole[..whole.len() - 6]).unwrap();
    assert_eq!(cut.finish().unwrap_err().kind, Kind::Invalid);
}

#[test]
fn answers_share_one_account_and_give_their_share_back() {
    let account = Account::default();
    let (mut one, mut two) = (account.open(), account.open());
    one.set(150 << 20).unwrap();
    assert_eq!(two.set(50 << 20).unwrap_err().kind, Kind::NoRoom);
    two.set(10 << 20).unwrap();
    drop(one);
    two.set(150 << 20).unwrap();
    two.set(0).unwrap();
}

proptest! {
    #[test]
    fn what_was_packed_comes_out_however_it_is_cut(text in prop::collection::vec(any::<u8>(), 0..20_000), cut in 1_usize..5000) {
        let mut gunzip = Gunzip::new(1 << 20);
        let mut out = Vec::new();
        for chunk in packed(&text).chunks(cut) {
            out.extend_from_slice(&gunzip.feed(chunk).unwrap());
        }
        out.extend_from_slice(&gunzip.finish().unwrap());
        prop_assert_eq!(out, text);
    }

    #[test]
    fn no_reference_makes_resolving_panic(reference in ".{0,60}") {
        let _ = target("http://h/a").join(&reference);
        let _ = Target::parse(&reference);
    }
}
