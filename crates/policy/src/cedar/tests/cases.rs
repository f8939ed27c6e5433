use super::bundle;
use crate::cedar::{Bundle, Ending, Recorded, cases, diff};

#[test]
fn a_file_of_cases_runs_and_says_what_differs() {
    let file = r#"{"cases": [
        {"name": "reading is free", "server": "files", "target": "read_file", "effect": "read", "arguments": {"path": "/x"}, "expect": "allow"},
        {"name": "changes are asked about", "user": "alice", "server": "files", "target": "write_file", "expect": "ask", "policy": "confirm-change"},
        {"name": "after untrusted reading", "server": "files", "target": "write_file", "label": "INTERNAL+untrusted", "expect": "allow"},
        {"name": "another policy", "server": "files", "target": "write_file", "expect": "ask", "policy": "look"},
        {"name": "a prompt", "act": "get", "server": "files", "target": "greet", "level": "RESTRICTED", "expect": "allow"}
    ]}"#;
    let outcomes = cases::run(
        &Bundle::starter("strict").unwrap(),
        &cases::parse("cases.json", file).unwrap(),
    );
    let failures: Vec<_> = outcomes
        .iter()
        .map(|outcome| outcome.failure.as_deref())
        .collect();
    assert_eq!(
        failures,
        [
            None,
            None,
            Some("expected allow, got ask, by confirm-change, confirm-change-after-untrusted"),
            Some("expected policy look to decide; it was ask, by confirm-change"),
            None
        ]
    );
}

#[test]
fn a_malformed_file_of_cases_is_refused_with_its_place() {
    let refused = |text: &str| cases::parse("cases.json", text).unwrap_err();
    let typo = refused(
        "{\"cases\": [\n  {\"name\": \"a\", \"server\": \"s\", \"target\": \"t\", \"expects\": \"allow\"}\n]}",
    );
    assert_eq!((typo.file.as_str(), typo.line), ("cases.json", 2));
    assert!(typo.message.contains("`expects`") && typo.fix.contains("docs/operate/policy.md"));
    let case = |more: &str| {
        refused(&format!(
            "{{\"cases\": [{{\"name\": \"a\", \"server\": \"s\", \"target\": \"t\", {more}}}]}}"
        ))
        .message
    };
    assert!(case(r#""expect": "deny""#).contains("`deny`"));
    assert!(case(r#""expect": "ask", "level": "secret""#).contains("PUBLIC"));
    assert!(case(r#""expect": "ask", "act": "write""#).contains("`write`"));
    assert!(case(r#""expect": "ask", "arguments": [1]"#).contains("not an object"));
    assert!(case(r#""expect": "ask", "arguments": {"a":1,"a":2}"#).contains("duplicate key"));
}

#[test]
fn a_diff_lists_changed_verdicts_only() {
    let call = |id: &str, target: &str, arguments: &str| Recorded {
        id: id.to_owned(),
        server: "files".to_owned(),
        target: target.to_owned(),
        arguments: arguments.as_bytes().to_vec(),
        ending: Ending::Allowed,
        ..Recorded::default()
    };
    let calls = [
        call("1", "read", "{}"),
        call("2", "write", r#"{"body":"key"}"#),
        call("3", "send", r#"{"body":"key"}"#),
        call("4", "send", "{}"),
    ];
    let rewrite = |with: &str| {
        format!(
            "@effect(\"rewrite\") @rewrite(\"body\") @matching(\"key\") @with(\"{with}\") permit (principal, action, resource == Tool::\"files/send\");"
        )
    };
    let old = bundle(&format!(
        "permit (principal, action, resource);{}",
        rewrite("x")
    ));
    let new = bundle(&format!(
        "permit (principal, action, resource);{} @id(\"w\") forbid (principal, action, resource == Tool::\"files/write\");",
        rewrite("y")
    ));
    let changed: Vec<_> = diff(&calls, &old, &new)
        .iter()
        .map(|it| (it.id.clone(), it.before.as_str(), it.after.as_str()))
        .collect();
    assert_eq!(
        changed,
        [
            ("2".to_owned(), "allow", "block"),
            ("3".to_owned(), "rewrite", "rewrite")
        ]
    );
    assert!(diff(&calls, &old, &old).is_empty());
}
