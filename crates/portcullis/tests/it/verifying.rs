//! `portcullis audit verify` as an auditor runs it: with a key and a head kept elsewhere, and with files that somebody took away.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::{Gate, Said};

use crate::operator::told;
use crate::support::{client, connected, fixture, http, records};

/// A gate that made a few calls and was stopped.
async fn stopped_gate() -> Gate {
    let fixture = fixture().await;
    let mut gate = connected(&[("up", http(&fixture.url(), "classification: PUBLIC"))]).await;
    let agent = client(&gate, Era::Modern).await;
    for n in 0..4 {
        assert!(
            !agent
                .call("up__echo", json!({ "text": format!("number {n}") }))
                .await
                .unwrap()
                .is_error
        );
    }
    gate.stop().await.unwrap();
    gate
}

async fn verify(gate: &Gate, args: &[&str]) -> Said {
    gate.cli(&[&["audit", "verify"], args].concat())
        .await
        .unwrap()
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap().flatten() {
        match entry.file_type().unwrap().is_dir() {
            true => copy(&entry.path(), &to.join(entry.file_name())),
            false => drop(fs::copy(entry.path(), to.join(entry.file_name())).unwrap()),
        }
    }
}

#[tokio::test]
async fn a_kept_key_decides_whose_ledger_it_is() {
    let (gate, other) = (stopped_gate().await, stopped_gate().await);
    let key = told(&gate, &["audit", "checkpoint"]).await["public_key"]
        .as_str()
        .unwrap()
        .to_owned();
    let file = gate.home().join("kept.pub");
    fs::write(&file, format!("{key}\n")).unwrap();
    let foreign = other.home().join("ledger/checkpoint.pub");
    let (file, foreign) = (file.to_str().unwrap(), foreign.to_str().unwrap());
    for key in [key.as_str(), file] {
        let said = verify(&gate, &["--key", key]).await;
        assert!(
            said.code == Some(0) && said.stdout.contains("The ledger verifies"),
            "{said:?}"
        );
    }
    let said = verify(&gate, &["--key", foreign]).await;
    assert!(
        said.code == Some(6) && said.stdout.contains("not signed with the given key"),
        "{said:?}"
    );
    for wrong in [
        "garbage",
        "/no/such/file.pub",
        gate.home().join("portcullis.yaml").to_str().unwrap(),
    ] {
        let said = verify(&gate, &["--key", wrong]).await;
        assert!(
            said.code == Some(2)
                && said.stderr.contains("no public key") | said.stderr.contains("nor a public key"),
            "{said:?}"
        );
    }
    let head = gate.home().join("kept.checkpoint");
    fs::copy(gate.home().join("ledger/checkpoint"), &head).unwrap();
    let head = head.to_str().unwrap();
    assert_eq!(verify(&gate, &["--against", head]).await.code, Some(0));
    assert_eq!(
        verify(&gate, &["--against", head, "--key", foreign])
            .await
            .code,
        Some(2),
        "these two do not belong together"
    );
    // Somebody puts another ledger in its place, whole and well signed.
    let place = gate.home().join("ledger");
    fs::remove_dir_all(&place).unwrap();
    copy(&other.home().join("ledger"), &place);
    assert_eq!(verify(&gate, &[]).await.code, Some(0), "it is a ledger");
    let said = verify(&gate, &["--key", file]).await;
    assert!(
        said.code == Some(6) && said.stdout.contains("DOES NOT VERIFY"),
        "{said:?}"
    );
    let said = verify(&gate, &["--against", head]).await;
    assert!(
        said.code == Some(6) && said.stderr.contains("DOES NOT VERIFY"),
        "{said:?}"
    );
    // Or takes its head away.
    fs::remove_file(place.join("checkpoint")).unwrap();
    let said = verify(&gate, &["--key", file]).await;
    assert!(
        said.code == Some(1)
            && said
                .stdout
                .contains("nothing here is signed with the given key"),
        "{said:?}"
    );
}

#[tokio::test]
async fn a_ledger_without_its_head_is_not_said_to_verify_and_the_next_gate_says_so() {
    let mut gate = stopped_gate().await;
    fs::remove_file(gate.home().join("ledger/checkpoint")).unwrap();
    let segment = gate.home().join("ledger/00000000000000000000.log");
    let text = fs::read_to_string(&segment).unwrap();
    let shorter: String = text
        .split_inclusive('\n')
        .take(text.lines().count() - 2)
        .collect();
    fs::write(&segment, shorter).unwrap();
    let said = verify(&gate, &[]).await;
    assert!(
        said.code == Some(1)
            && said.stdout.contains("NOT SHOWN")
            && said.stdout.contains("no checkpoint"),
        "{said:?}"
    );
    assert!(!said.stdout.contains("The ledger verifies"), "{said:?}");
    gate.start_again().await.unwrap();
    assert!(
        gate.output()
            .contains("no checkpoint signed with this ledger's key"),
        "{}",
        gate.output()
    );
    let found = records(&gate).await;
    assert!(
        found
            .iter()
            .any(|record| record["action"] == "ledger.head_missing"),
        "{found:#?}"
    );
    gate.stop().await.unwrap();
    assert_eq!(
        verify(&gate, &[]).await.code,
        Some(0),
        "from there on it is signed again"
    );
}

fn body_files(gate: &Gate, kind: &str) -> Vec<PathBuf> {
    let files = fs::read_dir(gate.home().join("ledger/bodies"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path());
    files
        .filter(|path| path.extension().is_some_and(|extension| extension == kind))
        .collect()
}

#[tokio::test]
async fn kept_arguments_are_checked_too() {
    let gate = stopped_gate().await;
    let report = told(&gate, &["audit", "verify"]).await;
    assert_eq!(
        report["bodies"],
        json!({"checked": 4, "kept": 4, "erased": 0, "missing": 0, "altered": []})
    );
    let call = records(&gate)
        .await
        .iter()
        .find(|record| record["kind"] == "intent")
        .unwrap()["call"]
        .as_str()
        .unwrap()
        .to_owned();
    told(&gate, &["audit", "erase", &call, "--reason", "asked to"]).await;
    let said = verify(&gate, &[]).await;
    assert!(
        said.code == Some(0) && said.stdout.contains("4 records checked: 3 there, 1 erased"),
        "{said:?}"
    );

    let sealed = body_files(&gate, "bodies").remove(0);
    let bytes = fs::read(&sealed).unwrap();
    let mut changed = bytes.clone();
    *changed.last_mut().unwrap() ^= 1;
    fs::write(&sealed, changed).unwrap();
    let said = verify(&gate, &[]).await;
    assert!(
        said.code == Some(6) && said.stdout.contains("1 altered"),
        "{said:?}"
    );
    fs::write(&sealed, &bytes).unwrap();
    // A key that is gone, and nobody said so.
    let keys = body_files(&gate, "keys").remove(0);
    let slots = fs::read(&keys).unwrap();
    let mut blank = slots.clone();
    let end = blank.len();
    blank[end - 32..].fill(0);
    fs::write(&keys, blank).unwrap();
    let said = verify(&gate, &[]).await;
    assert!(
        said.code == Some(6) && said.stdout.contains("lost their key"),
        "{said:?}"
    );
    fs::write(&keys, slots).unwrap();
    fs::remove_dir_all(gate.home().join("ledger/bodies")).unwrap();
    let said = gate.cli(&["--json", "audit", "verify"]).await.unwrap();
    let report: Value = said.json().unwrap();
    assert_eq!(
        (
            said.code,
            &report["bodies"]["missing"],
            &report["bodies"]["erased"]
        ),
        (Some(1), &json!(3), &json!(1)),
        "{report}"
    );
}

/// Questions that cannot have an answer say so, and what was done is not done twice.
#[tokio::test]
async fn audit_verbs_say_what_is_wrong() {
    let gate = stopped_gate().await;
    for args in [
        &["--verdict", "bogus"][..],
        &["--family", "bogus"],
        &["--event", "bogus event"],
    ] {
        let said = gate
            .cli(&[&["audit", "tail"], args].concat())
            .await
            .unwrap();
        assert!(said.code == Some(2) && said.stdout.is_empty(), "{said:?}");
    }
    let said = gate
        .cli(&["audit", "tail", "--event", "InvocationCompleted"])
        .await
        .unwrap();
    assert!(
        said.code == Some(0) && said.stdout.contains("InvocationCompleted"),
        "{said:?}"
    );
    let said = gate.cli(&["audit", "proof", "99999"]).await.unwrap();
    assert!(
        said.code == Some(1) && said.stderr.contains("there is no record 99999"),
        "{said:?}"
    );
    let call = records(&gate)
        .await
        .iter()
        .find(|record| record["kind"] == "intent")
        .unwrap()["call"]
        .as_str()
        .unwrap()
        .to_owned();
    for _ in 0..2 {
        told(&gate, &["audit", "erase", &call, "--reason", "asked to"]).await;
    }
    let erased = records(&gate)
        .await
        .iter()
        .filter(|record| record["action"] == "body.erased")
        .count();
    assert_eq!(erased, 1);
    let elsewhere = tempfile::tempdir().unwrap();
    let said = testkit::gate::run(
        &crate::support::portcullis(),
        &elsewhere.path().join("none"),
        &["audit", "query"],
        "",
    )
    .await
    .unwrap();
    assert!(
        said.code == Some(1) && said.stderr.contains("no ledger"),
        "{said:?}"
    );
}
