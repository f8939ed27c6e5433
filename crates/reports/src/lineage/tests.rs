use super::*;

fn record(seq: u64, call: &str, kind: &str, after: &str) -> Record {
    Record {
        seq,
        call: call.into(),
        kind: kind.into(),
        after: after.into(),
        time: format!("2026-11-15T11:02:{seq:02}.000Z"),
        caller: "1f2e3d4c".into(),
        server: "notes".into(),
        tool: "read".into(),
        verdict: if kind == "intent" {
            String::new()
        } else {
            "permitted".into()
        },
        label: "PUBLIC".into(),
        label_after: if kind == "intent" {
            String::new()
        } else {
            "CONFIDENTIAL".into()
        },
        ..Record::default()
    }
}

/// a; then b and c side by side, both weighed after a, b shown before c; then d.
fn story() -> Calls {
    let mut calls = Calls::default();
    let records = [
        record(1, "a", "intent", ""),
        record(2, "a", "outcome", ""),
        record(3, "b", "intent", "a"),
        record(4, "c", "intent", "a"),
        record(5, "b", "outcome", "a"),
        record(6, "c", "outcome", "a b"),
        record(7, "d", "refusal", "c"),
        record(8, "", "change", ""),
    ];
    records.into_iter().for_each(|record| calls.take(record));
    calls
}

fn names(walk: &Walk) -> Vec<&str> {
    assert!(walk.whole);
    walk.calls.iter().map(|call| call.call.as_str()).collect()
}

#[test]
fn going_back_finds_everything_that_was_shown_before() {
    let calls = story();
    assert_eq!(
        names(&calls.back("d")),
        ["c", "b", "a"],
        "both of those that overlapped"
    );
    assert_eq!(names(&calls.back("c")), ["a"], "b came after c was weighed");
    assert_eq!(names(&calls.back("b")), ["a"]);
    assert!(names(&calls.back("a")).is_empty());
    assert!(!calls.back("unknown").whole);
}

#[test]
fn going_forward_is_going_back_from_the_other_end() {
    let calls = story();
    assert_eq!(names(&calls.forward("a")), ["d", "c", "b"]);
    assert_eq!(names(&calls.forward("b")), ["d"]);
    for from in calls.calls.keys() {
        for to in calls.calls.keys() {
            let forward = calls
                .forward(from)
                .calls
                .iter()
                .any(|call| call.call == *to);
            let back = calls.back(to).calls.iter().any(|call| call.call == *from);
            assert_eq!(forward, back, "{from} {to}");
        }
    }
}

#[test]
fn an_outcome_without_a_head_at_weighing_still_has_one_at_showing() {
    let mut calls = Calls::default();
    for record in [
        record(1, "a", "intent", ""),
        record(2, "b", "intent", ""),
        record(3, "a", "outcome", ""),
        record(4, "b", "outcome", "a"),
    ] {
        calls.take(record);
    }
    calls.take(record(5, "c", "refusal", "b"));
    assert!(
        names(&calls.back("b")).is_empty(),
        "weighed before a was shown"
    );
    assert_eq!(names(&calls.back("c")), ["b", "a"]);
}

fn saved(caller: &str, head: &str) -> state::SavedSession {
    state::SavedSession {
        caller: caller.into(),
        epoch: 3,
        label: vocab::Label::default(),
        head: head.into(),
    }
}

#[test]
fn heads_are_where_the_ledger_left_them() {
    let shown = |seq, caller: &str, call: &str, after: &str| Record {
        caller: caller.into(),
        result: "77aa".into(),
        ..record(seq, call, "outcome", after)
    };
    let mut heads = Heads::default();
    let reset = Record {
        kind: "change".into(),
        action: "session.reset".into(),
        target: "x".into(),
        ..Record::default()
    };
    for record in [
        shown(1, "x", "a", ""),
        reset,
        shown(2, "x", "b", ""),
        // Shown after c, but recorded before it.
        shown(3, "y", "d", "a c"),
        shown(4, "y", "c", "a"),
        shown(5, "z", "e", ""),
        Record {
            result: String::new(),
            ..shown(6, "z", "refused", "e")
        },
    ] {
        heads.take(record);
    }
    let mut sessions = vec![saved("x", "a"), saved("y", "a"), saved("idle", "q")];
    heads.give(&mut sessions);
    let found: Vec<_> = sessions
        .iter()
        .map(|session| {
            (
                session.caller.as_str(),
                session.epoch,
                session.head.as_str(),
            )
        })
        .collect();
    assert_eq!(
        found,
        [
            ("x", 3, "b"),
            ("y", 3, "d"),
            ("idle", 3, "q"),
            ("z", 0, "e")
        ]
    );
}
