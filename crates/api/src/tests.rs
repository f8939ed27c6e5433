use std::collections::HashSet;

use super::{
    AllOrOpen, ApproveDefinitions, Classify, Found, Kind, Method, MustReason, Operation, Problem,
    Reasoned, RecordsQuery, Role, find, find_unescaped, is_full, read,
};

fn named(operation: Operation) -> &'static str {
    let path = operation.row().path;
    if path.contains("{server}") {
        "demo"
    } else if path.contains('{') {
        "a1-b2"
    } else {
        ""
    }
}

#[test]
fn every_operation_is_found_by_its_own_path_and_no_other() {
    let mut names = HashSet::new();
    let mut paths = HashSet::new();
    for operation in Operation::ALL {
        let row = operation.row();
        assert!(names.insert(row.name), "{} is there twice", row.name);
        assert!(paths.insert(row.path), "{} is there twice", row.path);
        let name = named(*operation);
        let found = Some(Found {
            operation: *operation,
            name: name.to_owned(),
        });
        assert_eq!(find(&operation.path_for(name)), found);
        assert_eq!(find_unescaped(&operation.path_for(name)), found);
        assert_eq!(find(&format!("{}/", operation.path_for(name))), None);
    }
    for nothing in ["", "status/", "servers/demo", "servers//retry", "nothing"] {
        assert_eq!(find(nothing), None, "{nothing}");
    }
}

#[test]
fn looking_is_for_viewers_and_only_answers_are_for_approvers() {
    for operation in Operation::ALL {
        let row = operation.row();
        assert_ne!(row.role, Role::Client, "{}", row.name);
        if row.method == Method::Get {
            assert_eq!(row.role, Role::Viewer, "{}", row.name);
        }
        let answers = matches!(
            operation,
            Operation::Approve | Operation::Deny | Operation::Revoke
        );
        assert_eq!(row.role == Role::Approver, answers, "{}", row.name);
        let brings = matches!(operation, Operation::BeginTask);
        assert_eq!(row.role == Role::Runtime, brings, "{}", row.name);
    }
}

#[test]
fn a_runtime_brings_words_and_sees_nothing() {
    assert!(Role::Runtime.may(Role::Runtime) && Role::Operator.may(Role::Runtime));
    for role in [Role::Client, Role::Viewer, Role::Approver] {
        assert!(!role.may(Role::Runtime), "{role}");
    }
    for needed in [Role::Viewer, Role::Approver, Role::Operator] {
        assert!(!Role::Runtime.may(needed), "{needed}");
        assert!(Role::Operator.may(needed));
    }
}

#[test]
fn a_caller_may_be_named_with_anything() {
    let reset = |name: &str| {
        Some(Found {
            operation: Operation::ResetSession,
            name: name.to_owned(),
        })
    };
    assert_eq!(
        find("sessions/my%20%C3%A4gent%2F1/reset"),
        reset("my ägent/1")
    );
    assert_eq!(
        find_unescaped("sessions/Ann's laptop/reset"),
        reset("Ann's laptop")
    );
    assert_eq!(find_unescaped("sessions/a/b/reset"), reset("a/b"));
    for nothing in [
        "sessions/reset",
        "sessions//reset",
        "sessions/a%FF/reset",
        "sessions/a%2/reset",
    ] {
        assert_eq!(find(nothing), None, "{nothing}");
    }
}

#[test]
fn an_approval_is_named_by_its_id() {
    for nothing in [
        "approvals//approve",
        "approvals/a/b/approve",
        "approvals/a/maybe",
        "approvals/a%20/approve",
        "approvals/approve",
    ] {
        assert_eq!(find(nothing), None, "{nothing}");
    }
}

#[test]
fn parameters_are_read_or_refused_in_words() {
    let wrong = |text: &str| read::<MustReason>(text.as_bytes()).unwrap_err().to_string();
    assert_eq!(read::<Reasoned>(b"{}").unwrap().reason(), "");
    assert_eq!(read::<Reasoned>(b"{\"reason\":null}").unwrap().reason(), "");
    let reason: Reasoned = read(br#"{"reason":" it leaks "}"#).unwrap();
    assert_eq!(reason.reason(), "it leaks");
    assert!(wrong("{}").contains("say why"));
    assert!(wrong(r#"{"reason":"  "}"#).contains("say why"));
    assert!(wrong(r#"{"reason":7}"#).contains("string"));
    assert!(wrong(r#"{"reason":"a\u001b[2J"}"#).contains("one line"));
    assert!(wrong(&format!(r#"{{"reason":"{}"}}"#, "x".repeat(501))).contains("500"));
    assert!(wrong("[]").contains("JSON object"));
    let level = |text: &str| read::<Classify>(text.as_bytes());
    let level_of = level(r#"{"level":"PUBLIC"}"#).unwrap().level();
    assert_eq!(level_of, Ok(vocab::Level::Public));
    for bad in [r#"{"level":"public"}"#, r#"{"level":"SECRET"}"#] {
        assert!(
            level(bad).unwrap_err().to_string().contains("PUBLIC"),
            "{bad}"
        );
    }
    assert!(level("{}").unwrap_err().to_string().contains("level"));
    let names = |text: &str| read::<ApproveDefinitions>(text.as_bytes()).map(|input| input.names);
    assert_eq!(names(r#"{"names":null}"#), Ok(None));
    assert_eq!(
        names(r#"{"names":["tool:a","b"]}"#),
        Ok(Some(vec!["tool:a".to_owned(), "b".to_owned()]))
    );
    for bad in [
        r#"{"names":"a"}"#,
        r#"{"names":[1]}"#,
        r#"{"names":[""]}"#,
        &format!(r#"{{"names":[{}"a"]}}"#, "\"a\",".repeat(1000)),
    ] {
        assert_eq!(names(bad).unwrap_err().kind, Kind::InvalidInput, "{bad}");
    }
}

#[test]
fn flags_and_numbers_are_read_from_queries_too() {
    let all = |text: &str| read::<AllOrOpen>(text.as_bytes()).map(|input| input.all);
    for yes in [
        r#"{"all":true}"#,
        r#"{"all":""}"#,
        r#"{"all":"1"}"#,
        r#"{"all":"true"}"#,
    ] {
        assert_eq!(all(yes), Ok(true), "{yes}");
    }
    for no in [
        "{}",
        r#"{"all":null}"#,
        r#"{"all":false}"#,
        r#"{"all":"false"}"#,
    ] {
        assert_eq!(all(no), Ok(false), "{no}");
    }
    assert!(all(r#"{"all":1}"#).is_err() && all(r#"{"all":"perhaps"}"#).is_err());
    let limit = |text: &str| read::<RecordsQuery>(text.as_bytes()).map(|input| input.limit);
    assert_eq!(limit(r#"{"limit":"7"}"#), Ok(Some(7)));
    assert_eq!(limit(r#"{"limit":7}"#), Ok(Some(7)));
    assert!(limit(r#"{"limit":"-7"}"#).is_err());
}

#[test]
fn a_problem_says_what_to_do_and_a_full_disk_is_recognised() {
    let problem = Problem::new(
        Kind::Conflict,
        "server_changed",
        "it is another; look again",
    );
    assert_eq!(
        (problem.sentence.as_str(), problem.fix.as_str()),
        ("it is another", "look again")
    );
    assert_eq!(problem.to_string(), "it is another; look again");
    let document = serde_json::to_value(problem.document()).unwrap();
    assert_eq!(document["status"], 409);
    assert_eq!(document["code"], "server_changed");
    assert_eq!(document["kind"], "conflict");
    let full = std::io::Error::from_raw_os_error(28).to_string();
    assert!(is_full(&full) && !is_full("os error 2"));
    let problem = Problem::storage("ledger_unavailable", full);
    assert_eq!(problem.kind.status(), 507);
    for kind in Kind::ALL {
        assert_eq!(Kind::of_status(kind.status()), kind);
        let text = serde_json::to_value(kind).unwrap();
        assert_eq!(text, kind.code());
    }
}
