use proptest::prelude::*;

use super::bundle;
use crate::cedar::{Act, Decision, Ending, Recorded, suggest};

fn call(target: &str, arguments: &str) -> Recorded {
    Recorded {
        id: format!("call-{target}"),
        caller: "cred-1".to_owned(),
        user: Some("alice".to_owned()),
        server: "files".to_owned(),
        target: target.to_owned(),
        arguments: arguments.as_bytes().to_vec(),
        ..Recorded::default()
    }
}

fn admits(text: &str, call: &Recorded) -> bool {
    bundle(text).decide(&call.question()) == Decision::Allow
}

#[test]
fn a_session_reads_like_this() {
    let calls = [
        call("read_file", r#"{"path":"/srv/a.txt"}"#),
        call("read_file", r#"{"path":"/srv/b.txt"}"#),
        call(
            "send",
            r#"{"to":["bob@x.org"],"body":"say \"hi\"","copies":2,"attachments":[]}"#,
        ),
        call("ping", "{}"),
        Recorded {
            ending: Ending::Approved,
            ..call("delete_file", r#"{"path":"/srv/a.txt"}"#)
        },
        Recorded {
            ending: Ending::Refused,
            ..call("delete_file", r#"{"path":"/"}"#)
        },
    ];
    let expected = r#"// Suggested from 5 recorded calls that went ahead; everything else is blocked.
// Loosen what should vary: take a condition away to allow any value, or write `like "/srv/reports/*"` for `==`. The outline fixes
// which arguments there are and of what kind: take it away too where arguments may be added or left out.
// 1 recorded call refused; nothing here admits them.

// cred-1 (alice): call of files/delete_file, recorded once.
@id("files-delete-file-1")
@effect("ask")
@agent("A person has to approve this first. Wait for the answer.")
permit (
    principal == Caller::"cred-1",
    action == Action::"call",
    resource == Tool::"files/delete_file"
)
when {
    context.outline == "path:string" &&
    context.arguments.hasTag("path") && context.arguments.getTag("path") == "/srv/a.txt"
};

// cred-1 (alice): call of files/ping, recorded once.
@id("files-ping-2")
permit (
    principal == Caller::"cred-1",
    action == Action::"call",
    resource == Tool::"files/ping"
)
when {
    context.argument_count == 0
};

// cred-1 (alice): call of files/read_file, recorded 2 times.
@id("files-read-file-3")
permit (
    principal == Caller::"cred-1",
    action == Action::"call",
    resource == Tool::"files/read_file"
)
when {
    context.outline == "path:string" &&
    context.arguments.hasTag("path") && ["/srv/a.txt", "/srv/b.txt"].contains(context.arguments.getTag("path"))
};

// cred-1 (alice): call of files/send, recorded once.
@id("files-send-4")
permit (
    principal == Caller::"cred-1",
    action == Action::"call",
    resource == Tool::"files/send"
)
when {
    context.outline == "attachments:array body:string copies:number to[0]:string" &&
    context.arguments.hasTag("body") && context.arguments.getTag("body") == "say \"hi\"" &&
    context.arguments.hasTag("copies") && context.arguments.getTag("copies") == "2" &&
    context.arguments.hasTag("to[0]") && context.arguments.getTag("to[0]") == "bob@x.org"
};
"#;
    assert_eq!(suggest(&calls), expected);
}

#[test]
fn a_suggestion_admits_its_session_and_no_mutation_of_it() {
    let calls = [
        call("send", r#"{"to":["bob@x.org"],"copies":2,"opts":{}}"#),
        call("send", r#"{"to":["eve@x.org"],"copies":2,"opts":{}}"#),
    ];
    let text = suggest(&calls);
    assert!(calls.iter().all(|call| admits(&text, call)));
    let mutations = [
        r#"{"to":["bob@x.org"],"copies":3,"opts":{}}"#,
        r#"{"to":["bob@x.org"],"copies":"2","opts":{}}"#,
        r#"{"to":["bob@x.org"],"copies":2.0,"opts":{}}"#,
        r#"{"to":["bob@x.org "],"copies":2,"opts":{}}"#,
        r#"{"to":["bob@x.org","eve@x.org"],"copies":2,"opts":{}}"#,
        r#"{"to":"bob@x.org","copies":2,"opts":{}}"#,
        r#"{"to":["bob@x.org"],"copies":2,"opts":{"x":1}}"#,
        r#"{"to":["bob@x.org"],"copies":2,"opts":[]}"#,
        r#"{"to":["bob@x.org"],"copies":2}"#,
        r#"{"to":["bob@x.org"],"copies":2,"opts":{},"bcc":null}"#,
        r#"{"to[0]":"bob@x.org","copies":2,"opts":{}}"#,
        "{}",
        "",
    ];
    for mutated in mutations {
        assert!(!admits(&text, &call("send", mutated)), "{mutated}");
    }
    let good = &calls[0];
    assert!(!admits(
        &text,
        &Recorded {
            caller: "cred-2".to_owned(),
            ..good.clone()
        }
    ));
    assert!(!admits(
        &text,
        &Recorded {
            target: "sends".to_owned(),
            ..good.clone()
        }
    ));
    assert!(!admits(
        &text,
        &Recorded {
            server: "mail".to_owned(),
            ..good.clone()
        }
    ));
    assert!(!admits(
        &text,
        &Recorded {
            act: Act::Read,
            ..good.clone()
        }
    ));
}

#[test]
fn what_was_redacted_may_vary_and_what_is_too_long_is_left_out() {
    let text = suggest(&[call(
        "get",
        r#"{"url":"https://x/*?key=[redacted: api-key]&a=1"}"#,
    )]);
    assert!(text.contains(r#"like "https://x/\*?key=*&a=1""#), "{text}");
    assert!(admits(
        &text,
        &call("get", r#"{"url":"https://x/*?key=abc&a=1"}"#)
    ));
    assert!(!admits(
        &text,
        &call("get", r#"{"url":"https://x/y?key=abc&a=1"}"#)
    ));
    let long = format!("{{\"x\":\"{}\"}}", "a".repeat(300 << 10));
    let text = suggest(&[call("put", &long), call("get", "{}")]);
    assert!(
        text.contains("// Left out: call call-put, whose argument `x` is longer"),
        "{text}"
    );
    assert!(admits(&text, &call("get", "{}")));
}

#[test]
fn a_call_with_very_many_arguments_can_be_suggested() {
    for count in [1, 64, 512] {
        let many: Vec<String> = (0..count).map(|at| format!("\"key{at}\":[{at}]")).collect();
        let many = call("put", &format!("{{{}}}", many.join(",")));
        let text = suggest(std::slice::from_ref(&many));
        assert!(admits(&text, &many), "{count}");
    }
}

#[test]
fn names_cannot_break_out_of_comments_or_texts() {
    let evil = Recorded {
        caller: "c\";permit (principal, action, resource);//\\".to_owned(),
        user: Some("u\npermit (principal, action, resource);".to_owned()),
        act: Act::Read,
        ..call("file:///ü\u{202e}\n\"x\"", "{}")
    };
    let text = suggest(std::slice::from_ref(&evil));
    assert!(admits(&text, &evil), "{text}");
    assert!(!admits(
        &text,
        &Recorded {
            caller: "other".to_owned(),
            ..evil.clone()
        }
    ));
    let hidden = suggest(&[
        Recorded {
            caller: "c\npermit".to_owned(),
            ..evil
        },
        call("get", "{}"),
    ]);
    assert!(
        hidden.contains("whose caller's name may not stand in a policy"),
        "{hidden}"
    );
    assert!(admits(&hidden, &call("get", "{}")));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// Whatever was recorded is admitted, and of everything else that could have been called, nothing.
    #[test]
    fn a_suggestion_admits_exactly_what_was_recorded(
        recorded in prop::collection::btree_set((0u8..3, 0u8..3, 0u8..3), 1..12),
        strings in prop::array::uniform3(any::<String>()),
    ) {
        let make = |(a, b, c): (u8, u8, u8)| {
            let mut fields = serde_json::Map::new();
            fields.insert("a".to_owned(), strings[usize::from(a)].clone().into());
            fields.insert("b".to_owned(), b.into());
            if c > 0 {
                fields.insert(format!("c{}", strings[usize::from(c)]), serde_json::json!([c == 1]));
            }
            call("send", &serde_json::Value::Object(fields).to_string())
        };
        let calls: Vec<Recorded> = recorded.iter().copied().map(make).collect();
        let bundle = bundle(&suggest(&calls));
        for (a, b, c) in (0..27).map(|at| (at / 9, at / 3 % 3, at % 3)) {
            let candidate = make((a, b, c));
            let was_recorded = calls.iter().any(|call| call.arguments == candidate.arguments);
            prop_assert_eq!(bundle.decide(&candidate.question()) == Decision::Allow, was_recorded);
        }
    }
}
