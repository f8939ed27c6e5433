use api::{LedgerState, Report};
use audit::Record;
use reports::{
    CallerNames, Collector,
    page::{csv, html, total},
};

use super::render;

const DAY: u64 = 86_400_000;

fn record(kind: &str, n: u64) -> Record {
    Record {
        seq: n,
        ms: DAY * 100 + n * 3_600_000,
        time: audit::rfc3339(DAY * 100 + n * 3_600_000),
        kind: kind.to_owned(),
        caller: format!("cred-{}", n % 3),
        user: "ann".to_owned(),
        server: "github".to_owned(),
        tool: "search".to_owned(),
        label: "PUBLIC".to_owned(),
        ..Record::default()
    }
}

fn summary() -> Report {
    let ledger = LedgerState {
        verifies: true,
        records: 60,
        ..LedgerState::default()
    };
    let mut collector = Collector::new(DAY * 100, DAY * 104, ledger, CallerNames::default());
    for n in 0..20 {
        collector.take(&Record {
            verdict: "permitted".into(),
            ..record("intent", n * 3)
        });
        let mut outcome = Record {
            verdict: "permitted".into(),
            intent: Some(n * 3),
            us: Some(2_000),
            ..record("outcome", n * 3 + 1)
        };
        match n % 4 {
            0 => outcome.label_after = "CONFIDENTIAL+untrusted".into(),
            1 => (outcome.verdict, outcome.violation) = ("failed".into(), "timeout".into()),
            2 => {
                outcome = Record {
                    verdict: "indeterminate".into(),
                    intent: Some(n * 3),
                    kind: "outcome".into(),
                    ..Record::default()
                }
            }
            _ => {}
        }
        if n < 19 {
            collector.take(&outcome);
        }
        let refusal = Record {
            verdict: "refused".into(),
            violation: "WouldViolateWriteDown".into(),
            ..record("refusal", n * 3 + 2)
        };
        collector.take(&refusal);
    }
    for (action, count) in [
        ("approval.asked", None),
        ("approval.approved", None),
        ("approval.expired", None),
        ("strangers.refused", Some(17)),
        ("definition.quarantined", None),
        ("config.applied", None),
        ("ledger.rotated", None),
    ] {
        collector.take(&Record {
            action: action.to_owned(),
            count,
            ..record("change", 61)
        });
    }
    collector.finish(DAY * 105)
}

#[test]
fn every_figure_is_counted() {
    let summary = summary();
    assert_eq!(summary.calls.total, 39);
    let verdicts: Vec<_> = summary
        .calls
        .by_verdict
        .iter()
        .map(|(name, count)| (name.as_str(), *count))
        .collect();
    assert_eq!(
        verdicts,
        [
            ("failed", 5),
            ("indeterminate", 5),
            ("permitted", 9),
            ("refused", 20)
        ]
    );
    assert_eq!(summary.calls.under_way, 1);
    assert_eq!(
        summary
            .steps
            .iter()
            .map(|step| step.permitted + step.refused + step.other)
            .sum::<u64>(),
        39
    );
    assert_eq!(summary.refusals_by_rule[0].count, 20);
    assert_eq!(
        summary.refusals_by_tool[0].name,
        "github/search: WouldViolateWriteDown"
    );
    assert_eq!(total(&summary.label_rises), 5);
    assert_eq!(
        summary.write_down_refusals[0].name,
        "PUBLIC → github/search"
    );
    assert_eq!(
        (
            summary.approvals.asked,
            summary.approvals.approved,
            summary.approvals.expired
        ),
        (1, 1, 1)
    );
    assert_eq!(summary.approvals.by_person[0].name, "ann: approved");
    assert_eq!(summary.authentication_failures[0].count, 17);
    assert_eq!(
        (
            summary.definition_changes.count,
            summary.configuration_changes.count
        ),
        (1, 1)
    );
    assert_eq!(summary.indeterminate.count, 5);
    assert!(
        summary.indeterminate.newest[0]
            .about
            .contains("github search"),
        "its intent says what it was"
    );
    assert_eq!((summary.callers.len(), summary.servers.len()), (2, 1));
    assert_eq!(summary.servers[0].highest_level, "CONFIDENTIAL");
}

#[test]
fn nothing_a_caller_says_becomes_markup() {
    let mut collector = Collector::new(
        0,
        DAY,
        LedgerState {
            finding: Some("<b>".into()),
            ..LedgerState::default()
        },
        CallerNames::default(),
    );
    let evil = "</td><script>alert(1)</script>\"onload=\"x' &amp; \u{202e}\u{1b}[31m";
    for kind in ["intent", "outcome", "refusal", "change"] {
        for action in [
            "tools/call",
            "config.applied",
            "definition.pinned",
            "strangers.refused",
            "approval.denied",
            evil,
        ] {
            for verdict in ["refused", "failed", "indeterminate", evil] {
                let text = evil.to_owned();
                collector.take(&Record {
                    kind: kind.into(),
                    action: action.into(),
                    verdict: verdict.into(),
                    caller: text.clone(),
                    user: text.clone(),
                    agent: text.clone(),
                    server: text.clone(),
                    tool: text.clone(),
                    violation: text.clone(),
                    label: text.clone(),
                    label_after: format!("{text}!"),
                    detail: text.clone(),
                    reason: text.clone(),
                    door: text,
                    ms: 5,
                    ..Record::default()
                });
            }
        }
    }
    let summary = collector.finish(DAY);
    let page = html::render(&summary);
    assert!(page.contains("&lt;script&gt;"));
    for bad in [
        "<script", "\"onload", "\u{202e}", "\u{1b}", "<b>.", "http://", "https://", "url(",
        "@import",
    ] {
        assert!(!page.contains(bad), "{bad}");
    }
    assert!(page.contains("default-src 'none'"));
    let table = csv::render(&summary);
    assert!(!table.contains('\u{1b}') && table.lines().all(|line| line.starts_with('"')));
}

#[test]
fn what_callers_make_up_is_bounded() {
    let mut collector = Collector::new(0, DAY, LedgerState::default(), CallerNames::default());
    for n in 0..20_000 {
        collector.take(&Record {
            verdict: "refused".into(),
            violation: "ToolNotFound".into(),
            tool: format!("made-up-{n}"),
            ..record("refusal", n)
        });
    }
    let summary = collector.finish(DAY);
    assert_eq!(total(&summary.refusals_by_tool), 20_000, "nothing is lost");
    assert!(summary.refusals_by_tool.len() < 300 && summary.refusals_by_tool[0].name == "(others)");
}

#[test]
fn people_read_names_reasons_and_the_tools_own_time() {
    let names = CallerNames::new([("cred-0", "laptop"), ("cred-1", "build")].into_iter());
    let mut collector = Collector::new(0, DAY, LedgerState::default(), names);
    let mut at = 0;
    let mut next = |kind: &str| {
        at += 1;
        Record {
            seq: at,
            ms: at * 1000,
            kind: kind.into(),
            server: "up".into(),
            ..Record::default()
        }
    };
    // A person took a minute; the tool took two seconds.
    let intent = Record {
        caller: "cred-0".into(),
        ..next("intent")
    };
    let (_, outcome) = (next("change"), next("outcome"));
    let approved = Record {
        caller: "cred-0".into(),
        verdict: "permitted".into(),
        intent: Some(intent.seq),
        approval: "a-1".into(),
        us: Some(62_000_000),
        ..outcome
    };
    let cancelled = Record {
        caller: "cred-1".into(),
        verdict: "cancelled".into(),
        ..next("outcome")
    };
    collector.take(&intent);
    collector.take(&approved);
    collector.take(&cancelled);
    for tool in 0..200 {
        let pinned = Record {
            action: "definition.pinned".into(),
            tool: format!("tool-{tool}"),
            ..next("change")
        };
        collector.take(&pinned);
    }
    let summary = collector.finish(DAY);
    let callers: Vec<&str> = summary
        .callers
        .iter()
        .map(|caller| caller.name.as_str())
        .collect();
    assert_eq!(callers, ["laptop", "build"]);
    assert_eq!(summary.callers[0].mean_ms, 2000.0);
    assert_eq!(summary.failures_by_code[0].name, "cancelled");
    let definitions = &summary.definition_changes;
    assert_eq!(
        (definitions.count, definitions.newest.len()),
        (200, 1),
        "one server, one row"
    );
    assert!(
        definitions.newest[0].about.len() < 600
            && definitions.newest[0].detail == "200 definitions",
        "{definitions:?}"
    );
    let text = render(&summary, terminal::Style::PLAIN);
    for part in [
        "2 calls: 1 permitted, 0 refused, 1 failed",
        "laptop",
        "cancelled",
        "HIGHEST SESSION LEVEL",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert!(!text.contains("cred-0"), "{text}");
}
