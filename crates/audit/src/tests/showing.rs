use super::fake::*;
use crate::record::Draft;
use crate::*;
use std::sync::Arc;
use std::sync::atomic::Ordering;

fn record(kind: &str, verdict: &str) -> Record {
    Record {
        time: "2026-11-15T10:47:05.123Z".into(),
        kind: kind.into(),
        verdict: verdict.into(),
        caller: "laptop".into(),
        server: "github".into(),
        tool: "search".into(),
        stage: "Weigh".into(),
        label: "PUBLIC".into(),
        ..Record::default()
    }
}

#[test]
fn lines_are_aligned_and_plain() {
    let permitted = Record {
        label_after: "CONFIDENTIAL".into(),
        us: Some(1_234),
        ..record("outcome", "permitted")
    };
    let refused = Record {
        violation: "WouldViolateWriteDown".into(),
        us: Some(87),
        ..record("refusal", "refused")
    };
    assert_eq!(
        render_line(&permitted, false),
        "2026-11-15 10:47:05  permitted      laptop            github/search                     Weigh      PUBLIC → CONFIDENTIAL  1.2 ms"
    );
    assert_eq!(
        render_line(&refused, false),
        "2026-11-15 10:47:05  refused        laptop            github/search                     Weigh      WouldViolateWriteDown  87 µs"
    );
    assert_eq!(
        render_line(&record("intent", "permitted"), false),
        "2026-11-15 10:47:05  intends        laptop            github/search"
    );
    assert!(render_line(&refused, true).contains("\u{1b}[31mrefused"));
    let digest = "ab".repeat(32);
    let pinned = Record {
        action: "definition.pinned".into(),
        detail: format!("{digest} (new)"),
        ..record("change", "")
    };
    let (head, line) = (render_head(false), render_line(&pinned, false));
    assert!(
        line.contains("abababababab… (new)") && !line.contains(&digest),
        "{line}"
    );
    for (title, text) in [("CALLER", "laptop"), ("WHAT", "definition.pinned")] {
        assert_eq!(head.find(title), line.find(text), "{head}\n{line}");
    }
}

#[test]
fn a_story_tells_the_detail() {
    let refused = Record {
        detail: "ceiling\u{1b}[2J".into(),
        hash: "ab".into(),
        ..record("refusal", "refused")
    };
    let records = render_records(std::slice::from_ref(&refused), false);
    assert!(
        records.contains("    detail     ceiling\\u001b[2J\n"),
        "{records}"
    );
    let story = render_story(&[refused], true);
    assert!(
        story.contains("Weigh")
            && story.contains("ceiling\\u001b[2J")
            && !story.contains("\u{1b}[2J"),
        "{story}"
    );
}

#[test]
fn a_story_goes_stage_by_stage() {
    let intent = Record {
        seq: 7,
        call: "c-1".into(),
        action: "tools/call".into(),
        door: "mcp-http".into(),
        ..record("intent", "permitted")
    };
    let asked = Record {
        action: "approval.asked".into(),
        approval: "a-1".into(),
        seq: 5,
        ..record("change", "")
    };
    let approved = Record {
        action: "approval.approved".into(),
        user: "ann".into(),
        reason: "fine".into(),
        ..record("change", "")
    };
    let outcome = Record {
        seq: 8,
        call: "c-1".into(),
        label_after: "CONFIDENTIAL".into(),
        us: Some(1_500),
        ..record("outcome", "permitted")
    };
    let story = render_story(&[asked, approved, intent.clone(), outcome], false);
    assert!(
        story.starts_with(
            "Call c-1  github/search  permitted after 1.5 ms\n2026-11-15 10:47:05.123 UTC\n\n"
        ),
        "{story}"
    );
    assert_eq!(story.matches("  ✓ ").count(), 14, "{story}");
    for part in [
        "✓ Receive     tools/call, over mcp-http\n",
        "approved, by ann, 2026-11-15",
        "“fine”",
        "session PUBLIC → CONFIDENTIAL\n",
        "record 7\n",
        "record 8\n",
    ] {
        assert!(story.contains(part), "{part}: {story}");
    }
    let refused = Record {
        violation: "WouldViolateWriteDown".into(),
        payload: "{\"ceiling\":\"PUBLIC\"}".into(),
        ..record("refusal", "refused")
    };
    let story = render_story(&[refused], false);
    assert!(
        story.contains("  ✗ Weigh       WouldViolateWriteDown, session at PUBLIC\n"),
        "{story}"
    );
    assert!(
        story.contains("it looked at {\"ceiling\":\"PUBLIC\"}\n") && story.contains("  · Shape\n"),
        "{story}"
    );
    assert_eq!(
        (story.matches("  ✓ ").count(), story.matches("  · ").count()),
        (6, 7),
        "{story}"
    );
    let story = render_story(&[intent], false);
    assert!(
        story.contains("under way") && story.contains("  ? Dispatch"),
        "{story}"
    );
    let lost = Record {
        stage: "Dispatch".into(),
        ..record("outcome", "indeterminate")
    };
    assert!(
        render_story(&[lost], false).contains("  ? Dispatch"),
        "its end is not known"
    );
}

#[test]
fn tail_and_filters_find_the_newest_across_segments() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 3_000);
    for i in 0..50 {
        let call = format!("c-{i}");
        let tool = if i % 10 == 0 { "rare" } else { "common" };
        ledger
            .record(&Draft {
                kind: Kind::Refusal,
                call: &call,
                tool,
                ..Draft::default()
            })
            .unwrap();
    }
    let calls = |records: Vec<Record>| records.into_iter().map(|r| r.call).collect::<Vec<_>>();
    let rare = Filter {
        tool: "rare".into(),
        ..Filter::default()
    };
    assert_eq!(
        calls(tail(dir.path(), &rare, 3).unwrap()),
        ["c-20", "c-30", "c-40"]
    );
    assert_eq!(calls(tail(dir.path(), &rare, 99).unwrap()).len(), 5);
    assert_eq!(tail(dir.path(), &Filter::default(), 0).unwrap().len(), 0);
    let last = all(dir.path()).last().unwrap().seq;
    for from in 0..=last {
        let seqs: Vec<u64> = read(
            dir.path(),
            Filter {
                from,
                ..Filter::default()
            },
        )
        .unwrap()
        .map(|r| r.unwrap().seq)
        .collect();
        assert_eq!(seqs, (from..=last).collect::<Vec<_>>());
    }
}

#[test]
fn strangers_are_counted_not_recorded() {
    let dir = tempfile::tempdir().unwrap();
    let (clock, passed) = clock();
    let ledger = Ledger::with(dir.path(), Box::new(RealDisk), clock, Options::default()).unwrap();
    let strangers = StrangerCounter::new();
    for _ in 0..10_000 {
        strangers
            .note(&ledger, "mcp-http", "unauthenticated")
            .unwrap();
    }
    strangers.note(&ledger, "mcp-http", "TokenExpired").unwrap();
    strangers.flush(&ledger).unwrap();
    assert_eq!(ledger.status().records, 0, "the minute is not over");
    passed.store(60_000, Ordering::SeqCst);
    strangers
        .note(&ledger, "mcp-http", "unauthenticated")
        .unwrap();
    strangers.close(&ledger).unwrap();
    let counts: Vec<_> = all(dir.path())
        .into_iter()
        .map(|r| (r.violation, r.count.unwrap()))
        .collect();
    assert_eq!(
        counts,
        [
            ("TokenExpired".into(), 1),
            ("unauthenticated".into(), 10_000),
            ("unauthenticated".into(), 1)
        ]
    );
}

#[test]
fn counts_survive_a_ledger_that_cannot_record() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    let strangers = StrangerCounter::new();
    strangers
        .note(&ledger, "mcp-http", "unauthenticated")
        .unwrap();
    faults.room.store(0, Ordering::SeqCst);
    assert!(strangers.close(&ledger).is_err());
    faults.room.store(i64::MAX, Ordering::SeqCst);
    ledger.tend().unwrap();
    strangers.close(&ledger).unwrap();
    assert_eq!(all(dir.path()).last().unwrap().count, Some(1));
}

#[test]
fn follow_sees_every_record_once_across_segments_and_recovery() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 2_000);
    let mut follow = Follow::new(dir.path(), Filter::default());
    let mut seen = Vec::new();
    assert_eq!(follow.poll().unwrap().len(), 0);
    for round in 0..60 {
        for _ in 0..round % 4 {
            ledger
                .change(&Change {
                    action: "config.reloaded",
                    ..Change::default()
                })
                .unwrap();
        }
        if round == 30 {
            faults.room.store(100, Ordering::SeqCst);
            assert!(ledger.change(&Change::default()).is_err());
            seen.extend(follow.poll().unwrap().into_iter().map(|r| r.seq));
            faults.room.store(i64::MAX, Ordering::SeqCst);
            ledger.tend().unwrap();
        }
        seen.extend(follow.poll().unwrap().into_iter().map(|r| r.seq));
    }
    assert_eq!(seen, (0..ledger.status().records).collect::<Vec<_>>());
    assert!(verify(dir.path()).unwrap().segments > 5);
    let mut late = Follow::new(
        dir.path(),
        Filter {
            from: 70,
            ..Filter::default()
        },
    );
    assert_eq!(late.poll().unwrap().first().unwrap().seq, 70);
}
