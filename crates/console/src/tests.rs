use proptest::prelude::*;

use super::*;
use crate::page::Viewer;

fn viewer() -> Viewer {
    Viewer {
        name: "ann".into(),
        role: api::Role::Operator,
        signs: false,
        form: "0".repeat(64),
        now_ms: 1_800_000_000_000,
        theme: "",
        waiting: Some(1),
        broken: None,
    }
}

/// Texts that would be something else if a page took them for its own.
const HOSTILE: &[&str] = &[
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='x",
    "</pre></code></bdi><h1>x</h1>",
    "javascript:alert(1)",
    "{{7*7}} ${7*7} <%= 7 %>",
    "\u{202e}txt.exe",
    "a\u{200b}b\u{feff}c\u{ad}d",
    "e\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}\u{301}",
    "\u{e0041}\u{e0042}tags",
    "\u{1b}[2Jclear",
    "=cmd|' /C calc'!A0",
    "line\r\nSet-Cookie: x=1",
    "\0",
];

/// Every page with one foreign text in every place that a server, a caller or a person can fill.
fn pages(text: &str) -> Vec<Vec<u8>> {
    let owned = || text.to_owned();
    let record = api::LogRecord {
        seq: 1,
        ms: 1_799_999_999_000,
        time: owned(),
        kind: "outcome".into(),
        call: owned(),
        caller: owned(),
        server: owned(),
        tool: owned(),
        target: owned(),
        stage: "Weigh".into(),
        verdict: "refused".into(),
        violation: owned(),
        detail: owned(),
        label: owned(),
        label_after: owned(),
        approval: owned(),
        action: owned(),
        reason: owned(),
        ..api::LogRecord::default()
    };
    let records = api::Records {
        records: vec![record.clone()],
        more: true,
    };
    let server = api::Server {
        id: owned(),
        transport: owned(),
        classification: Some(owned()),
        blocked: Some(owned()),
        open_world_why: Some(owned()),
        quarantined: 1,
        last_error: Some(owned()),
        confined: Some(owned()),
        stderr: Some(owned()),
        remarks: vec![owned()],
        ..api::Server::default()
    };
    let tool = api::Tool {
        original: owned(),
        description: Some(owned()),
        effect: owned(),
        permission: owned(),
        ..api::Tool::default()
    };
    let status = api::Status {
        version: owned(),
        bundle: owned(),
        servers: vec![server.clone()],
        callers: vec![api::Caller {
            id: "other".into(),
            name: owned(),
            label: owned(),
        }],
        sinks: vec![api::Sink {
            name: owned(),
            state: "failing".into(),
            error: owned(),
            ..api::Sink::default()
        }],
        ..api::Status::default()
    };
    let waiting = api::Approval {
        id: owned(),
        state: "pending".into(),
        name: owned(),
        server: owned(),
        tool: owned(),
        arguments: owned(),
        label: owned(),
        lineage: vec![owned()],
        why: vec![owned()],
        expires_ms: u64::MAX,
        reason: Some(owned()),
        ..api::Approval::default()
    };
    let reviewed = api::Review {
        server: owned(),
        definitions: vec![api::Definition {
            kind: "tool".into(),
            name: owned(),
            state: "changed".into(),
            digest: Some(owned()),
            description: Some(owned()),
            diff: vec![format!("+ {text}")],
            suspicions: vec![owned()],
            ..api::Definition::default()
        }],
        ..api::Review::default()
    };
    let explanation = api::Explanation {
        verdict: owned(),
        arguments: Some(owned()),
        remark: Some(owned()),
        stages: vec![api::CheckedStage {
            stage: "Weigh".into(),
            checks: vec![api::Check {
                name: owned(),
                verdict: "refused".into(),
                detail: Some(owned()),
                fix: Some(owned()),
            }],
        }],
        ..api::Explanation::default()
    };
    let lineage = api::Lineage {
        calls: vec![api::ShownCall {
            call: owned(),
            server: owned(),
            tool: owned(),
            ..api::ShownCall::default()
        }],
        ..api::Lineage::default()
    };
    let shown = api::Session {
        caller: owned(),
        name: owned(),
        label: owned(),
        origins: vec![owned()],
        head: Some(owned()),
        ..api::Session::default()
    };
    let checked = api::BundleCheck {
        problems: vec![api::BundleMistake {
            file: owned(),
            message: owned(),
            fix: owned(),
            ..api::BundleMistake::default()
        }],
        ..api::BundleCheck::default()
    };
    let value = api::ConfigValue {
        key: owned(),
        value: owned(),
        origin: owned(),
        ..api::ConfigValue::default()
    };
    let query = api::RecordsQuery {
        caller: Some(owned()),
        ..api::RecordsQuery::default()
    };
    let mut viewer = viewer();
    viewer.name = owned();
    viewer.broken = Some(owned());
    let view = Overview {
        status: &status,
        approvals: std::slice::from_ref(&waiting),
        hour: Some(&records),
        refused: Some(&records),
        changes: Some(&records),
        now_ms: viewer.now_ms,
    };
    let listed = Calls {
        status: &status,
        query: &query,
        found: Ok(&records),
        address: "/calls",
        words: text,
    };
    let story = Story {
        id: text,
        status: &status,
        records: &records.records,
        now: Ok(&explanation),
        lineage: Ok(&lineage),
    };
    let policies = Policy {
        current: Ok(&checked),
        draft: text,
        checked: Some(Err(text)),
        diff: Some(Err(text)),
    };
    let notice = Some(Notice::Failed(owned()));
    let all = [
        overview(&view),
        calls(&listed),
        call(&story),
        approvals(
            std::slice::from_ref(&waiting),
            std::slice::from_ref(&waiting),
            0,
        ),
        approval(&waiting, &viewer),
        servers(&status, &viewer),
        self::server(&server, &[&tool], &status, Some(&records.records), &viewer),
        review(&reviewed, &viewer),
        sessions(std::slice::from_ref(&shown)),
        session(&shown, &status, Some(&records.records), &viewer),
        policy(&policies, &viewer),
        ledger(&status, Some(&records), Some(Err(text)), &viewer),
        settings(Ok(std::slice::from_ref(&value)), Err(text)),
    ];
    let mut all: Vec<Vec<u8>> = all
        .into_iter()
        .map(|page| page.with_notice(notice.clone()).render(&viewer))
        .collect();
    all.push(login(Some(text), text));
    all.push(failed("Failed", text, text));
    all
}

/// The names of elements and attributes of a page, in their order: what a browser would make of it, without any text.
fn skeleton(page: &[u8]) -> Vec<String> {
    let page = std::str::from_utf8(page).unwrap();
    let mut found = Vec::new();
    let (mut tag, mut quoted): (Option<String>, bool) = (None, false);
    for sign in page.chars() {
        match (&mut tag, sign) {
            (None, '<') => tag = Some(String::new()),
            (None, _) => {}
            (Some(_), '"') => quoted = !quoted,
            (Some(_), '>') if !quoted => found.extend(tag.take()),
            (Some(names), _) if !quoted => names.push(sign),
            (Some(_), _) => {}
        }
    }
    found
}

/// What a person sees: the text between tags, without fields, whose text is the person's own.
fn seen(page: &str) -> String {
    let mut text = String::new();
    let (mut in_tag, mut quoted, mut name) = (false, false, String::new());
    for sign in page.chars() {
        match (in_tag, sign) {
            (false, '<') => (in_tag, name) = (true, String::new()),
            (true, '"') => quoted = !quoted,
            (true, '>') if !quoted => in_tag = false,
            (true, _) => name.push(sign),
            (false, _) if !name.starts_with("textarea") => text.push(sign),
            (false, _) => {}
        }
    }
    text
}

fn without_text_elements(skeleton: Vec<String>) -> Vec<String> {
    // How many lines, marks and folds a text has is its own business; that they are ours is not.
    let own = [
        "bdi",
        "/bdi",
        "span class=",
        "/span",
        "details class=",
        "/details",
        "summary",
        "/summary",
    ];
    skeleton
        .into_iter()
        .filter(|names| !own.contains(&names.as_str()))
        .collect()
}

#[test]
fn no_text_of_others_is_ever_markup() {
    let plain: Vec<_> = pages("plain")
        .iter()
        .map(|page| without_text_elements(skeleton(page)))
        .collect();
    for text in HOSTILE {
        for (page, plain) in pages(text).iter().zip(&plain) {
            assert_eq!(&without_text_elements(skeleton(page)), plain, "{text:?}");
            let page = std::str::from_utf8(page).unwrap();
            for sign in seen(page).chars() {
                assert!(
                    sign == '\n'
                        || !matches!(marked(&sign.to_string()).runs(), [Run::Mark(_)])
                        || is_combining(sign),
                    "{text:?} left {sign:?} in a page"
                );
            }
            assert!(!page.contains("href=\"javascript:"), "{text:?}");
        }
    }
}

fn is_combining(sign: char) -> bool {
    unicode_normalization::char::is_combining_mark(sign)
}

#[test]
fn what_cannot_be_seen_is_marked_and_what_can_is_kept() {
    assert_eq!(
        marked("a\u{202e}b").runs(),
        [
            Run::Plain("a".into()),
            Run::Mark('\u{202e}'),
            Run::Plain("b".into())
        ]
    );
    assert_eq!(marked("Grüße, 世界! 👍").runs().len(), 1);
    assert_eq!(
        serde_json::to_string(&marked("a\u{200b}b")).unwrap(),
        r#"["a",8203,"b"]"#
    );
}

proptest! {
    #[test]
    fn a_text_can_be_made_again_from_its_marks(text in any::<String>()) {
        let again: String = marked(&text)
            .runs()
            .iter()
            .map(|run| match run {
                Run::Plain(text) => text.clone(),
                Run::Mark(sign) => sign.to_string(),
            })
            .collect();
        prop_assert_eq!(again, text);
    }

    #[test]
    fn any_text_leaves_the_shape_of_a_page(text in any::<String>()) {
        // A page has no row for what is empty.
        let text = format!("x{text}");
        let plain: Vec<_> = pages("plain").iter().map(|page| without_text_elements(skeleton(page))).collect();
        for (page, plain) in pages(&text).iter().zip(&plain) {
            // A long or many-lined text folds; what is left is the same.
            prop_assert_eq!(&without_text_elements(skeleton(page)), plain);
        }
    }
}

#[test]
fn many_calls_are_counted_and_refusals_come_first() {
    let rows: Vec<Row> = (0..200)
        .map(|at| {
            let event = if at % 50 == 0 { "ToolPolicyViolation" } else { "InvocationCompleted" };
            let line = format!(
                r#"{{"event":"MCPToolEvent::{event}","call":"run-{at}","time":"t","caller":"c","server":"s","tool":"x","payload":{{"stage":"Weigh","violation_type":"V","detail":"d"}}}}"#
            );
            row_of_event(&line, str::to_owned).unwrap()
        })
        .collect();
    let frame: serde_json::Value = serde_json::from_str(&frame(&rows, Some(2))).unwrap();
    assert_eq!(frame["count"], 200);
    assert_eq!(frame["refused"], 4);
    assert_eq!(frame["waiting"], 2);
    let shown = frame["rows"].as_array().unwrap();
    assert_eq!(shown.len(), 50);
    let refused = shown.iter().filter(|row| row["verdict"][0] == "refused");
    assert_eq!(refused.count(), 4);
    assert!(row_of_event("no json", str::to_owned).is_none());
}

#[test]
fn pages_name_only_files_that_exist_and_nothing_inline() {
    for page in pages("x") {
        let page = String::from_utf8(page).unwrap();
        for quoted in page
            .split('"')
            .filter(|quoted| quoted.starts_with("/assets/"))
        {
            assert!(assets::at(quoted).is_some(), "{quoted}");
        }
        for inline in [" style=", "<style", " onclick=", " onload=", "<script>"] {
            assert!(!page.contains(inline), "{inline}");
        }
    }
}
