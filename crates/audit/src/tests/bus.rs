use super::fake::*;
use crate::record::Draft;
use crate::*;
use proptest::prelude::*;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn names(record: &Record) -> Vec<String> {
    project(record)
        .into_iter()
        .map(|event| event.event)
        .collect()
}

fn call(kind: &str, verdict: &str, server: &str, tool: &str) -> Record {
    Record {
        seq: 7,
        time: "2026-11-15T10:47:05.123Z".into(),
        kind: kind.into(),
        verdict: verdict.into(),
        call: "c-1".into(),
        caller: "cred-7".into(),
        agent: "coder".into(),
        server: server.into(),
        tool: tool.into(),
        action: "tools/call".into(),
        args: "ab".into(),
        args_bytes: Some(57),
        body: "cd".into(),
        ..Record::default()
    }
}

fn change(action: &str, detail: &str) -> Record {
    Record {
        kind: "change".into(),
        action: action.into(),
        detail: detail.into(),
        ..Record::default()
    }
}

#[test]
fn a_call_is_told_in_the_names_of_the_table() {
    let asked = "MCPToolEvent::InvocationRequested";
    let started = "MCPToolEvent::InvocationStarted";
    assert_eq!(
        names(&call("intent", "permitted", "github", "search")),
        [asked, started]
    );
    assert_eq!(
        names(&call("outcome", "permitted", "github", "search")),
        ["MCPToolEvent::InvocationCompleted"]
    );
    for verdict in [
        "failed",
        "cancelled",
        "indeterminate",
        "abandoned",
        "refused",
    ] {
        assert_eq!(
            names(&call("outcome", verdict, "github", "search")),
            ["MCPToolEvent::InvocationFailed"]
        );
    }
    assert_eq!(
        names(&call("refusal", "refused", "github", "search")),
        ["MCPToolEvent::ToolPolicyViolation"]
    );
    let command = |kind, verdict| names(&call(kind, verdict, "built-in", "cmd.run"));
    assert_eq!(
        command("intent", "permitted"),
        [
            asked,
            started,
            "CommandExecutionEvent::CommandExecutionStarted"
        ]
    );
    assert_eq!(
        command("outcome", "permitted")[1],
        "CommandExecutionEvent::CommandExecutionCompleted"
    );
    assert_eq!(
        command("outcome", "failed")[1],
        "CommandExecutionEvent::CommandExecutionFailed"
    );
    let refused = |violation: &str, server: &str| {
        names(&Record {
            violation: violation.into(),
            ..call("refusal", "refused", server, "cmd.run")
        })
    };
    for rule in [
        "CommandNotAllowed",
        "SubcommandNotAllowed",
        "ExecTimeoutCeilingExceeded",
    ] {
        assert_eq!(
            refused(rule, "built-in")[1],
            "CommandExecutionEvent::CommandPolicyViolation"
        );
    }
    assert_eq!(
        refused("ToolNotAllowed", "built-in").len(),
        1,
        "the command was not the reason"
    );
    assert_eq!(
        refused("ToolNotFound", "").len(),
        1,
        "a name that leads nowhere is no command"
    );
    let ended = Record {
        violation: TOOL_ERROR.into(),
        ..call("outcome", "failed", "built-in", "cmd.run")
    };
    assert_eq!(
        names(&ended),
        [
            "MCPToolEvent::InvocationFailed",
            "CommandExecutionEvent::CommandExecutionCompleted"
        ]
    );
    let unread = Record {
        violation: TOOL_ERROR.into(),
        ..call("outcome", "failed", "built-in", "fs.read")
    };
    assert_eq!(
        names(&unread),
        ["MCPToolEvent::InvocationFailed"],
        "nothing was read"
    );
    assert_eq!(
        names(&call("outcome", "permitted", "built-in", "fs.write"))[1],
        "StorageEvent::FileWritten"
    );
    assert_eq!(
        names(&call("outcome", "permitted", "built-in", "fs.read"))[1],
        "StorageEvent::FileRead"
    );
    // A server that gives its tool such a name does not get to write such events.
    assert_eq!(
        names(&call("intent", "permitted", "evil", "cmd.run")),
        [asked, started]
    );
    assert_eq!(
        names(&call("outcome", "permitted", "evil", "fs.write")),
        ["MCPToolEvent::InvocationCompleted"]
    );
}

#[test]
fn refusals_name_what_they_blocked() {
    let refused = |violation: &str, door: &str| {
        names(&Record {
            violation: violation.into(),
            door: door.into(),
            ..call("refusal", "refused", "built-in", "fs.read")
        })
    };
    let violation = "MCPToolEvent::ToolPolicyViolation";
    assert_eq!(
        refused("PathTraversalAttempt", "mcp-http"),
        [violation, "StorageEvent::PathTraversalBlocked"]
    );
    assert_eq!(
        refused("UnauthorizedVolumeAccess", "mcp-http"),
        [violation, "StorageEvent::UnauthorizedVolumeAccess"]
    );
    assert_eq!(
        refused("RateLimitExceeded", "mcp-http"),
        [violation, "RateLimitEvent::Exceeded"]
    );
    assert_eq!(
        refused("SignatureVerificationFailed", "seal"),
        ["SealEvent::SignatureVerificationFailed"]
    );
    assert_eq!(
        refused("TokenExpired", "seal"),
        ["SealEvent::SecurityTokenExpired"]
    );
    assert_eq!(
        refused("ToolNotAllowed", "seal"),
        [violation, "SealEvent::PolicyViolationBlocked"]
    );
    let traversal = Record {
        violation: "PathTraversalAttempt".into(),
        payload: r#"{"path":"/workspace/../etc/passwd"}"#.into(),
        ..call("refusal", "refused", "built-in", "fs.read")
    };
    let events = project(&traversal);
    assert_eq!(
        events[0].payload["details"]["path"],
        "/workspace/../etc/passwd"
    );
    assert_eq!(
        events[1].payload["attempted_path"],
        "/workspace/../etc/passwd"
    );
}

#[test]
fn changes_are_told_whether_or_not_they_are_known() {
    let cases = [
        ("server.registered", "", "MCPToolEvent::ServerRegistered"),
        (
            "server.started",
            "process 12",
            "MCPToolEvent::ServerStarted",
        ),
        ("server.stopped", "", "MCPToolEvent::ServerStopped"),
        ("server.failed", "gone", "MCPToolEvent::ServerFailed"),
        ("server.unhealthy", "", "MCPToolEvent::ServerUnhealthy"),
        (
            "server.state",
            "CLASSIFIED INTERNAL",
            "ServerEvent::Classified",
        ),
        ("server.state", "BLOCKED", "ServerEvent::Blocked"),
        ("server.retry", "", "ServerEvent::Retry"),
        ("seal.session_created", "", "SealEvent::SessionCreated"),
        ("seal.session_revoked", "", "SealEvent::SessionRevoked"),
        ("seal.session_expired", "", "SealEvent::SessionExpired"),
        (
            "seal.attestation_failed",
            "",
            "SealEvent::AttestationFailed",
        ),
        ("definition.pinned", "", "DefinitionEvent::Pinned"),
        ("definition.approved", "", "DefinitionEvent::Approved"),
        ("approval.asked", "", "ApprovalEvent::Asked"),
        ("approval.approved", "", "ApprovalEvent::Approved"),
        ("session.reset", "", "SessionEvent::Reset"),
        ("credential.created", "", "CredentialEvent::Created"),
        ("config.applied", "", "ConfigEvent::Applied"),
        ("config.failed", "", "ConfigEvent::Failed"),
        ("ledger.torn_tail_cut", "", "LedgerEvent::TornTailCut"),
        ("strangers.refused", "", "StrangerEvent::Refused"),
        ("moon.full", "", "GateEvent::MoonFull"),
        ("", "", "GateEvent::Changed"),
    ];
    for (action, detail, expected) in cases {
        assert_eq!(names(&change(action, detail))[0], expected, "{action}");
    }
    assert_eq!(
        names(&change("seal.attested", "")),
        [
            "SealEvent::AttestationCompleted",
            "SealEvent::AttestationSucceeded"
        ]
    );
    let applied = Record {
        bundle: "b-1".into(),
        ..change("config.applied", "")
    };
    assert_eq!(names(&applied)[1], "PolicyEvent::BundleApplied");
    assert_eq!(
        project(&change("server.started", "process 12"))[0].payload["process_id"],
        12
    );
    assert_eq!(
        project(&change("server.failed", "gone"))[0].payload["error"],
        "gone"
    );
}

#[test]
fn arguments_and_results_are_digests() {
    let requested = &project(&call("intent", "permitted", "github", "search"))[0];
    assert_eq!(requested.family, "mcp_tool");
    assert_eq!(
        requested.payload["arguments"],
        serde_json::json!({ "digest": "ab", "bytes": 57, "redacted": "c-1" })
    );
    assert_eq!(requested.payload["invocation_id"], "c-1");
    assert_eq!(requested.payload["agent_id"], "coder");
    let line: serde_json::Value = serde_json::from_str(&requested.line()).unwrap();
    assert_eq!(line["position"], "7.0");
    assert_eq!(line["caller"], "cred-7");
}

#[test]
fn places_read_as_they_are_written() {
    for (text, seq, index) in [("0", 0, 0), ("12", 12, 0), ("12.3", 12, 3)] {
        assert_eq!(text.parse(), Ok(Place { seq, index }));
    }
    assert_eq!(Place { seq: 12, index: 3 }.to_string(), "12.3");
    for text in [
        "",
        ".",
        "1.",
        ".1",
        "-1",
        "1.2.3",
        "+1",
        "99999999999999999999",
        "1.70000",
    ] {
        assert!(text.parse::<Place>().is_err(), "{text}");
    }
}

#[test]
fn filters_want_every_condition() {
    let record = call("intent", "permitted", "github", "search");
    let is_wanted = |filter: &Filter| filter.events(&record).contains(&project(&record)[0]);
    for (key, right) in [
        ("event", "InvocationRequested"),
        ("event", "MCPToolEvent::InvocationRequested"),
        ("family", "mcp_tool"),
        ("caller", "cred-7"),
        ("tool", "search"),
        ("server", "github"),
        ("verdict", "permitted"),
        ("tenant", ""),
        ("session", ""),
        ("kind", "intent"),
    ] {
        let mut filter = Filter::default();
        assert!(
            filter.set(key, right) && is_wanted(&filter),
            "{key}={right}"
        );
        assert!(
            filter.set(key, "other") && !is_wanted(&filter),
            "{key}=other"
        );
    }
    assert!(!Filter::default().set("colour", "red"));
}

/// Everything up to `until`, in batches of `most`.
fn drain(feed: &mut Feed, until: u64, most: usize) -> (Vec<Place>, u64) {
    let (mut places, mut missed) = (Vec::new(), 0);
    loop {
        let batch = feed.read(until, most, &Filter::default()).unwrap();
        missed += batch.missed;
        places.extend(batch.events.into_iter().map(|event| event.position));
        if !batch.more {
            return (places, missed);
        }
    }
}

fn expected(dir: &Path, from: Place) -> Vec<Place> {
    let all = all(dir).into_iter().flat_map(|record| project(&record));
    all.map(|event| event.position)
        .filter(|place| *place >= from)
        .collect()
}

#[test]
fn a_feed_reads_every_event_once_in_order_from_any_place() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 2_000);
    let mut feed = Feed::new(dir.path(), Place::default());
    let mut seen = Vec::new();
    for round in 0..40 {
        for _ in 0..round % 3 {
            let mut opened = ledger.open(facts(&format!("c-{round}")));
            let _ = ledger.intend(&mut opened).unwrap();
            let _ = ledger
                .conclude(
                    opened,
                    &Outcome::new(Verdict::Permitted, vocab::Stage::Absorb),
                )
                .unwrap();
        }
        if round == 20 {
            faults.room.store(700, Ordering::SeqCst);
            let unheard = Draft {
                detail: "never acknowledged",
                ..Draft::default()
            };
            while ledger.record(&unheard).is_ok() {}
            seen.extend(drain(&mut feed, ledger.status().records, 5).0);
            faults.room.store(i64::MAX, Ordering::SeqCst);
            ledger.tend().unwrap();
        }
        let (places, missed) = drain(&mut feed, ledger.status().records, 1 + round % 7);
        assert_eq!(missed, 0);
        seen.extend(places);
    }
    assert_eq!(seen, expected(dir.path(), Place::default()));
    assert!(verify(dir.path()).unwrap().segments > 5);
    for from in [
        Place { seq: 3, index: 1 },
        Place { seq: 17, index: 0 },
        Place { seq: 30, index: 9 },
    ] {
        assert_eq!(
            drain(&mut Feed::new(dir.path(), from), u64::MAX, 3).0,
            expected(dir.path(), from)
        );
    }
    let beyond = Place::start_of(10_000);
    assert_eq!(
        drain(&mut Feed::new(dir.path(), beyond), u64::MAX, 3),
        (vec![], 0)
    );
}

#[test]
fn what_cannot_be_shown_is_counted() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 2_000);
    for _ in 0..60 {
        ledger
            .change(&Change {
                action: "config.applied",
                ..Change::default()
            })
            .unwrap();
    }
    let records = ledger.status().records;
    drop(ledger);
    let mut segments: Vec<_> = crate::read::segments(dir.path()).unwrap();
    let kept = segments[2].0;
    std::fs::remove_file(&segments.remove(0).1).unwrap();
    std::fs::remove_file(&segments.remove(0).1).unwrap();
    let (places, missed) = drain(&mut Feed::new(dir.path(), Place::default()), records, 4);
    assert_eq!(missed, kept);
    assert_eq!(places.first().unwrap().seq, kept);
    // A line nobody can read is one record missed, and the others follow.
    let path = &segments[0].1;
    let text = std::fs::read_to_string(path).unwrap();
    let damaged: Vec<String> = text
        .lines()
        .enumerate()
        .map(|(n, line)| if n == 1 { "?".into() } else { line.to_owned() })
        .collect();
    std::fs::write(path, damaged.join("\n") + "\n").unwrap();
    let (places, missed) = drain(
        &mut Feed::new(dir.path(), Place::start_of(kept)),
        records,
        4,
    );
    assert_eq!(missed, 1);
    assert_eq!(places.len() as u64, records - kept - 1);
}

#[test]
fn a_filter_that_wants_nothing_still_moves_on() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path(), 100);
    let filter = Filter {
        caller: "nobody".into(),
        ..Filter::default()
    };
    let batch = Feed::new(dir.path(), Place::default())
        .read(100, 10, &filter)
        .unwrap();
    assert!(batch.events.is_empty() && !batch.more);
    assert_eq!(batch.next, Place::start_of(100));
}

#[test]
fn without_a_ledger_there_is_nothing_to_read() {
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(
        drain(
            &mut Feed::new(&dir.path().join("none"), Place::default()),
            u64::MAX,
            3
        ),
        (vec![], 0)
    );
}

proptest! {
    #[test]
    fn every_record_is_told_and_an_event_is_one_line(
        kind in prop::sample::select(vec!["intent", "outcome", "refusal", "change", "other"]),
        verdict in prop::sample::select(vec!["permitted", "refused", "failed", ""]),
        server in prop::sample::select(vec!["built-in", "", "github"]),
        text in "\\PC*|[\\x00-\\x1f\\x7f-\\u{9f}\\u{202e}\\u{2028}\\n\"\\\\]{0,8}",
        action in "[a-z]{0,6}\\.?[a-z_]{0,8}",
    ) {
        let record = Record {
            kind: kind.into(), verdict: verdict.into(), server: server.into(), action, tool: text.clone(), caller: text.clone(),
            detail: text.clone(), payload: text.clone(), violation: text.clone(), call: text.clone(), door: "seal".into(),
            ..Record::default()
        };
        let events = project(&record);
        prop_assert!(!events.is_empty());
        for (index, event) in events.iter().enumerate() {
            prop_assert_eq!(usize::from(event.position.index), index);
            let line = event.line();
            prop_assert!(!line.chars().any(|c| c.is_control() || matches!(c, '\u{202e}' | '\u{2028}')), "{:?}", line);
            let read: serde_json::Value = serde_json::from_str(&line).unwrap();
            prop_assert_eq!(read.get("tool").and_then(|tool| tool.as_str()).unwrap_or_default(), &text);
        }
    }
}
