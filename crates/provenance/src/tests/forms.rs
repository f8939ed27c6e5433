use proptest::prelude::*;
use wire::{Json, Limits};

use crate::{
    Call, Conversation, Key, Plan, Read, Roles, Trust,
    form::{self, Class, Reading},
    weigh,
};

fn class_and_text(text: &str) -> Option<(Class, String)> {
    match form::read(text) {
        Reading::Values(forms) => forms.into_iter().next().map(|form| (form.class, form.text)),
        Reading::Empty | Reading::Odd => None,
    }
}

fn same(one: &str, two: &str) {
    assert_eq!(class_and_text(one), class_and_text(two), "{one} and {two}");
    assert!(class_and_text(one).is_some(), "{one}");
}

fn different(one: &str, two: &str) {
    assert_ne!(class_and_text(one), class_and_text(two), "{one} and {two}");
}

#[test]
fn two_spellings_of_one_thing_have_one_form() {
    for (one, two) in [
        ("Bob@Example.COM", "bob@example.com"),
        ("mailto:bob@example.com", "bob@example.com."),
        ("Bob <bob@example.com>", "bob@example.com"),
        ("bob@münchen.de", "bob@xn--mnchen-3ya.de"),
        ("https://Example.com", "example.com"),
        ("http://example.com:80/", "https://example.com/"),
        (
            "https://example.com/%7Ebob/a%2Db",
            "https://example.com/~bob/a-b",
        ),
        ("https://example.com./x", "https://example.com/x"),
        ("DE89 3704 0044 0532 0130 00", "de89370400440532013000"),
        ("+1 (555) 123-4567", "+15551234567"),
        ("0049 30 1234567", "+49301234567"),
        ("$1,000.50", "1000.5"),
        ("1.000,50 €", "1000.50"),
        ("/srv/me//notes/./a.txt", "/srv/me/notes/a.txt"),
        ("Lunch with Bob", " lunch  with\tbob"),
        ("#general", "general"),
        ("2024-05-15T10:00", "2024-05-15 10:00"),
        ("10.0.0.1:8080", "http://10.0.0.1:8080/"),
    ] {
        same(one, two);
    }
}

#[test]
fn two_things_never_have_one_form() {
    for (one, two) in [
        ("bob@example.com", "bоb@example.com"),
        ("bob@example.com", "bob+x@example.com"),
        ("bob@example.com", "bob@example.com.evil.net"),
        ("mailto:bob@example.com?bcc=eve@evil.net", "bob@example.com"),
        ("eve@evil.net <bob@example.com>", "bob@example.com"),
        ("https://example.com", "https://example.com/?q=secret"),
        ("https://example.com", "https://example.com@evil.net"),
        ("https://example.com", "https://example.com:8443"),
        ("/srv/me/notes", "/srv/me/notes/../../etc"),
        ("Lunch with Bob", "Lunch, with Bob"),
        ("Lunch with Bob", "Lunch with “Bob”"),
        ("ann_smith", "Ann Smith"),
        ("rm -rf build ~", "rm -rf build"),
        ("id > 7", "id = 7"),
        ("notes.txt", "notes.txt:443"),
        ("notes.txt", "notes.txt:"),
        ("https://etc/passwd", "//etc/passwd"),
        ("notes.txt/etc/x", "notes.txt/../../etc/x"),
        ("42", "420"),
        ("1.5", "15"),
    ] {
        different(one, two);
    }
}

#[test]
fn what_nobody_sees_makes_a_text_odd() {
    for text in [
        "bob\u{200b}@example.com",
        "a/../b",
        "/x/../y",
        "a/%2e%2E/b",
        "notes.txt/../../etc/passwd",
        "notes.txt/%2e%2e/x",
        "notes.txt/./x",
        "example.com/a\\..\\b",
        "//etc/passwd",
        "file:////etc/passwd",
        "gen\u{2060}eral",
    ] {
        assert_eq!(form::read(text), Reading::Odd, "{text:?}");
    }
    assert_eq!(form::read("  "), Reading::Empty);
}

#[test]
fn every_address_of_a_list_is_read() {
    let Reading::Values(forms) = form::read("bob@example.com; Eve <eve@evil.net>,carol@x.org")
    else {
        panic!("a list");
    };
    let texts: Vec<&str> = forms.iter().map(|form| form.text.as_str()).collect();
    assert_eq!(texts, ["bob@example.com", "eve@evil.net", "carol@x.org"]);
}

#[test]
fn links_are_found_however_they_hide() {
    for text in [
        "see https://evil.net/x now",
        "see [here](https://evil.net/x)",
        "see evil.net/x",
        "see EVIL.NET/x",
        "see hxxps://evil[.]net/x",
        "see evil (dot) net/x".replace(" (dot) ", "(dot)").as_str(),
        "see evil\u{200b}.net/x",
        "see evil。net/x",
        "see ｅｖｉｌ.net/x",
        "see evil&#46;net/x",
        "link:https://evil.net/x",
        "<a href=\"https://evil.net/x\">",
        "evil dot net/x",
        "see //evil.net/x",
        "see evil.net/y/../x",
    ] {
        let links = crate::links::links(text).into_forms();
        assert!(
            links.iter().any(|link| link.text == "//evil.net/x"),
            "{text}: {links:?}"
        );
    }
    for text in [
        "e.g. this",
        "Hello. World",
        "report.pdf",
        "version 1.2.3",
        "bob@example.com",
        "10:30",
    ] {
        assert_eq!(crate::links::links(text).into_forms(), [], "{text}");
    }
}

#[test]
fn words_have_pauses_and_numbers_have_counters() {
    let words = |text: &str| form::words(text).collect::<Vec<_>>().join(" ");
    assert_eq!(words("Pay Bob, Alice's friend"), "pay bob | alices friend");
    assert_eq!(words("close issue #42."), "close issue id 42");
    assert_eq!(words("#7 and #8"), "id 7 and id 8");
    assert_eq!(words(""), "");
}

#[test]
fn what_people_write_around_a_name_is_a_piece_of_its_own() {
    let pieces = |text: &str| crate::pieces::pieces(text).concat().replace('\t', "+");
    assert_eq!(pieces("(\"#General\"),"), "(+\"+#+general+\"+)+,");
    assert_eq!(pieces("Bob’s .env ... -rf"), "bob+’s.env.+.+.-rf");
}

#[test]
fn a_text_of_many_links_is_cut_and_read_in_little_time() {
    let many: Vec<String> = (0..50_000).map(|n| format!("site{n}.org")).collect();
    let links = crate::links::links(&many.join(" "));
    assert!(links.is_cut);
    assert_eq!(links.into_forms().len(), crate::links::MAX_LINKS);
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    /// Signs that mean something here, and any others.
    #[test]
    fn whatever_text_comes_nothing_breaks(
        chars in prop::collection::vec(prop_oneof![any::<char>(), prop::sample::select("@.:/,;#+-()<>[]{}\"\\%0178aE€ \n".chars().collect::<Vec<_>>())], 0..120)
    ) {
        let text: String = chars.into_iter().collect();
        prop_assert_eq!(form::read(&text), form::read(&text));
        _ = crate::links::links(&text);
        _ = Plan::parse(text.as_bytes(), |_| None);
        let quoted = wire::write::quoted(&text);
        let call = [br#"{"to":"#.as_slice(), &quoted, br#","body":"#, &quoted, b"}"].concat();
        let call = Json::parse(&call, Limits::default()).unwrap();
        let mut conversation = Conversation::new(Key::new([7; 32]), 0);
        conversation.say(&text);
        conversation.read(Read::new("s", "t", "1", Trust::Untrusted), call);
        let roles = Roles::default();
        _ = weigh(conversation.index(), Call { server: "s", tool: "t", roles: &roles, sent: call });
        let saved = conversation.index().save();
        prop_assert_eq!(Conversation::restore(Key::new([7; 32]), 0, &saved).index().save(), saved);
    }
}
