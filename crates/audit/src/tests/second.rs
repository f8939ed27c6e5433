//! A second implementation, in another language and written from `docs/integrate/ledger-format.md` alone, must come to the same conclusions.

use super::fake::*;
use crate::*;
use serde_json::Value;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use vocab::{Effect, Stage};

fn second_opinion(dir: &Path) -> Value {
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/verify.py");
    let output = Command::new("python3")
        .arg(script)
        .arg(dir)
        .output()
        .expect("python3 is needed for this test");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    serde_json::from_str(&said)
        .unwrap_or_else(|_| panic!("{said}{}", String::from_utf8_lossy(&output.stderr)))
}

#[test]
fn python_agrees_on_a_ledger_with_everything_in_it() {
    let dir = tempfile::tempdir().unwrap();
    let ledger = open_with(dir.path(), Arc::default(), 5_000);
    for i in 0..60 {
        let mut opened = ledger.open(Facts {
            user: "zoë \u{202e}\u{1b}[2J".into(),
            effect: Some(Effect::Consequential),
            policy: "p1 p2".into(),
            after: format!("c-{}", i - 1).into(),
            ..facts(&format!("c-{i}"))
        });
        opened.keep_body(b"{}").unwrap();
        let _ = ledger.intend(&mut opened).unwrap();
        let _ = ledger
            .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
            .unwrap();
    }
    let note = ledger.checkpoint().unwrap();
    let mut last = ledger.open(facts("open"));
    let _ = ledger.intend(&mut last).unwrap();
    let report = verify(dir.path()).unwrap();
    assert!(
        report.is_clean() && report.segments > 5,
        "{:?}",
        report.finding
    );
    let said = second_opinion(dir.path());
    assert_eq!(said["records"], report.records, "{said}");
    assert_eq!(said["head"], report.head.to_string());
    assert_eq!(said["root"], report.root.to_string());
    assert_eq!(
        said["checkpoint"],
        note.lines().nth(1).unwrap().parse::<u64>().unwrap()
    );
    assert_eq!(said["open_intents"], 1);
}

#[test]
fn python_finds_what_verify_finds() {
    let dir = tempfile::tempdir().unwrap();
    sample(dir.path(), 12);
    drop(open(dir.path()));
    let bytes = std::fs::read(first_segment(dir.path())).unwrap();
    assert_eq!(second_opinion(dir.path())["records"], 13);
    for at in (5..bytes.len()).step_by(bytes.len() / 15) {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        std::fs::write(first_segment(dir.path()), changed).unwrap();
        assert!(!verify(dir.path()).unwrap().is_clean());
        assert!(second_opinion(dir.path())["error"].is_string(), "byte {at}");
    }
    std::fs::write(first_segment(dir.path()), &bytes).unwrap();
    let note = read_checkpoint(dir.path()).unwrap().unwrap();
    std::fs::write(
        dir.path().join("checkpoint"),
        note.replace("\n13\n", "\n12\n"),
    )
    .unwrap();
    assert!(second_opinion(dir.path())["error"].is_string());
}
