//! Answers that last: by example, and in random calls of which each says whom.

use wire::{Json, Limits};

use super::draw::Draw;
use crate::{
    Aims, Call, Conversation, Key, Lasting, MAX_BYTES, Roles,
    flaw::{Flaw, planted},
};

fn json(text: &str) -> Json<'_> {
    Json::parse(text.as_bytes(), Limits::default()).unwrap()
}

fn call<'a>(roles: &'a Roles, tool: &'a str, sent: &'a str) -> Call<'a> {
    Call {
        server: "mail",
        tool,
        roles,
        sent: json(sent),
    }
}

fn answered(sent: &str) -> Conversation {
    let mut conversation = Conversation::new(Key::new([7; 32]), 0);
    let roles = Roles::default();
    conversation.add_lasting(lasting("a", sent, &roles));
    conversation
}

fn lasting(approval: &str, sent: &str, roles: &Roles) -> Lasting {
    Lasting {
        approval: approval.to_owned(),
        server: "mail".to_owned(),
        tool: "send".to_owned(),
        definition: "d".to_owned(),
        aims: Aims::of(call(roles, "send", sent)).unwrap(),
        by: "ann".to_owned(),
        said_ms: 1,
    }
}

#[test]
fn an_answer_covers_what_was_shown_and_nothing_else() {
    let sent = r#"{"to":["eve@evil.net","bob@example.com"],"subject":"Hi","body":"one"}"#;
    let mut conversation = answered(sent);
    let roles = Roles::default();
    let covers = |conversation: &Conversation, tool: &str, sent: &str, definition: &str| {
        conversation
            .covered(call(&roles, tool, sent), definition)
            .is_some()
    };
    for (passes, tool, sent, definition) in [
        (true, "send", sent, "d"),
        (
            true,
            "send",
            r#"{"to":["bob@example.com","eve@evil.net"],"subject":"Hi","body":"two"}"#,
            "d",
        ),
        (false, "send", sent, "another definition"),
        (false, "pay", sent, "d"),
        (
            false,
            "send",
            r#"{"to":["eve@evil.net"],"subject":"Hi","body":"one"}"#,
            "d",
        ),
        (
            false,
            "send",
            r#"{"to":["eve@evil.net","bob@example.com","x@y.zz"],"subject":"Hi"}"#,
            "d",
        ),
        (
            false,
            "send",
            r#"{"to":["eve@evil.net","bob@example.com"],"cc":"x@y.zz","subject":"Hi"}"#,
            "d",
        ),
        (
            false,
            "send",
            r#"{"to":["eve@evil.net","bob@example.com"],"subject":"Other"}"#,
            "d",
        ),
        (
            false,
            "send",
            r#"{"to":["eve@evil.net","bob@example.com"],"subject":"Hi","body":"see https://evil.net/x"}"#,
            "d",
        ),
    ] {
        assert_eq!(
            covers(&conversation, tool, sent, definition),
            passes,
            "{sent}"
        );
    }
    assert!(!conversation.revoke_lasting("b"));
    assert!(conversation.revoke_lasting("a"));
    assert!(!covers(&conversation, "send", sent, "d"), "it was revoked");
    assert_eq!(
        Aims::of(call(&roles, "send", r#"{"body":"to nobody"}"#)),
        None
    );
    let long = format!(r#"{{"to":"{}"}}"#, "x".repeat(3000));
    assert_eq!(Aims::of(call(&roles, "send", &long)), None);
}

#[test]
fn the_newest_answers_are_kept_and_all_have_a_bound() {
    let roles = Roles::default();
    let mut conversation = Conversation::new(Key::new([7; 32]), 0);
    for number in 0..100 {
        let sent = format!(r#"{{"to":"{}{number}"}}"#, "x".repeat(900));
        conversation.add_lasting(lasting(&number.to_string(), &sent, &roles));
        assert!(conversation.bytes() <= MAX_BYTES);
    }
    let kept: Vec<&str> = conversation
        .lasting()
        .map(|one| one.approval.as_str())
        .collect();
    assert_eq!(kept.len(), crate::lasting::MAX_LASTING);
    assert_eq!(kept.last(), Some(&"99"));
}

/// Whether a call passed that says whom nobody was shown.
fn goes_wrong(seed: u64) -> bool {
    let mut draw = Draw::new(seed);
    let roles = Roles::default();
    let people: Vec<String> = (0..4).map(|n| format!("p{n}@example.com")).collect();
    let sent = |draw: &mut Draw| {
        let mut list: Vec<String> = (0..=draw.below(2)).map(|_| draw.of(&people)).collect();
        list.sort_unstable();
        let text = list
            .iter()
            .map(|one| format!("\"{one}\""))
            .collect::<Vec<_>>();
        (format!(r#"{{"to":[{}],"body":"x"}}"#, text.join(",")), list)
    };
    let mut conversation = Conversation::new(Key::new([7; 32]), 0);
    let mut shown = Vec::new();
    for step in 0..draw.below(12) {
        let (sent, list) = sent(&mut draw);
        if draw.one_in(3) {
            conversation.add_lasting(lasting(&step.to_string(), &sent, &roles));
            shown.push(list);
        } else {
            let passes = conversation.covered(call(&roles, "send", &sent), "d");
            if passes.is_some() != shown.contains(&list) {
                return true;
            }
        }
    }
    false
}

#[test]
fn no_answer_covers_a_target_that_nobody_was_shown() {
    assert_eq!((0..10_000).find(|seed| goes_wrong(*seed)), None);
    let found = planted(Flaw::AnswersCoverAnyTarget, || (0..10_000).any(goes_wrong));
    assert!(found, "the planted fault was not found");
}
