//! A disk that is full stops effects, not reading, and space brings them back within a second.
//!
//! The disk is a small `tmpfs` in a mount namespace of its own, which root may make and, on most systems, every user. The test runs itself
//! again in there. Where no namespace can be made, a limit on the size of files stands in: a write then takes what fits and fails
//! afterwards, as on a full disk.

use std::fs::{self, File};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use testkit::client::{Client, Era};
use testkit::gate::{Gate, Setup};

use crate::operator::post;
use crate::support::{
    admin, alone, await_state, client, config, fixture, http, portcullis, records,
};

/// Names the directory to mount the small disk at; set for the test that runs in the namespace.
const INSIDE: &str = "PORTCULLIS_FULL_DISK";
const SIZE: &str = "size=24m";
const BACK_WITHIN: Duration = Duration::from_secs(1);

/// How the disk is filled and freed.
enum Disk {
    /// A file that takes all the room there is.
    Filler(PathBuf),
    /// No file of the gate may grow beyond what its largest file has.
    Limit,
}

impl Disk {
    fn fill(&self, gate: &Gate) {
        match self {
            Self::Filler(file) => {
                let mut filler = File::create(file).unwrap();
                let some = vec![b'x'; 64 << 10];
                while filler.write_all(&some).is_ok() {}
                // What was left of the last piece.
                while filler.write_all(b"x").is_ok() {}
            }
            Self::Limit => limit(gate, &largest(&gate.home().join("ledger")).to_string()),
        }
    }

    fn free(&self, gate: &Gate) {
        match self {
            Self::Filler(file) => fs::remove_file(file).unwrap(),
            Self::Limit => limit(gate, "unlimited"),
        }
    }
}

/// Sets the soft limit; the hard one stays, so that it can be raised again.
fn limit(gate: &Gate, bytes: &str) {
    let pid = gate.pid().to_string();
    let done = Command::new("prlimit")
        .args(["--pid", &pid, &format!("--fsize={bytes}:")])
        .status()
        .unwrap();
    assert!(
        done.success(),
        "prlimit is of util-linux, and of the same user"
    );
}

fn largest(dir: &Path) -> u64 {
    let logs = fs::read_dir(dir)
        .unwrap()
        .flatten()
        .filter(|entry| entry.path().extension().is_some_and(|e| e == "log"));
    logs.map(|entry| entry.metadata().unwrap().len())
        .max()
        .unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_stops_effects_and_nothing_else() {
    let _alone = alone().await;
    let dir = tempfile::tempdir().unwrap();
    if !can_mount(dir.path()) {
        return on_a_limit().await;
    }
    let test = [
        "--exact",
        "full_disk::the_same_on_a_small_tmpfs",
        "--nocapture",
    ];
    let mut inside = namespace();
    inside
        .arg(std::env::current_exe().unwrap())
        .args(test)
        .env(INSIDE, dir.path());
    let said = tokio::task::spawn_blocking(move || inside.output().unwrap())
        .await
        .unwrap();
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&said.stdout),
        String::from_utf8_lossy(&said.stderr)
    );
    println!("{text}");
    assert!(
        said.status.success() && text.contains("effects, all of them recorded"),
        "{text}"
    );
}

/// `unshare` for root, and for somebody who is root only in there.
fn namespace() -> Command {
    let mut command = Command::new("unshare");
    let is_root =
        fs::metadata("/proc/self").is_ok_and(|me| std::os::unix::fs::MetadataExt::uid(&me) == 0);
    command.args(if is_root {
        &["--mount"][..]
    } else {
        &["--mount", "--user", "--map-root-user"]
    });
    command.arg("--");
    command
}

fn can_mount(dir: &Path) -> bool {
    let mount = namespace()
        .args(["mount", "-t", "tmpfs", "-o", SIZE, "tmpfs"])
        .arg(dir)
        .output();
    mount.is_ok_and(|said| said.status.success())
}

/// Does nothing unless the test above has made a namespace for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_on_a_small_tmpfs() {
    let Some(dir) = std::env::var_os(INSIDE).map(PathBuf::from) else {
        return;
    };
    let mounted = Command::new("mount")
        .args(["-t", "tmpfs", "-o", SIZE, "tmpfs"])
        .arg(&dir)
        .status()
        .unwrap();
    assert!(mounted.success());
    let setup = Setup::new(portcullis(), "").home_in(&dir);
    stops_and_comes_back(setup, Disk::Filler(dir.join("filler"))).await;
}

/// The same with a limit on file sizes, which every user can set on every machine.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_limit_on_files_stops_effects_too() {
    let _alone = alone().await;
    on_a_limit().await;
}

async fn on_a_limit() {
    // Whoever grows a file beyond the limit gets a signal, unless it is ignored, and that is inherited.
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("portcullis");
    let text = format!(
        "#!/bin/sh\ntrap '' XFSZ\nexec '{}' \"$@\"\n",
        portcullis().display()
    );
    fs::write(&script, text).unwrap();
    fs::set_permissions(&script, fs::Permissions::from_mode(0o700)).unwrap();
    std::os::unix::fs::symlink(
        portcullis().with_file_name("portcullis-worker"),
        dir.path().join("portcullis-worker"),
    )
    .unwrap();
    stops_and_comes_back(Setup::new(script, ""), Disk::Limit).await;
}

async fn stops_and_comes_back(setup: Setup, disk: Disk) {
    let fixture = fixture().await;
    let entries = config(&[(
        "up",
        http(
            &fixture.url(),
            "classification: PUBLIC, tools: { echo: blocked }",
        ),
    )]);
    let gate = setup.with_config(&entries).start().await.unwrap();
    await_state(&gate, "up", "connected", Duration::from_secs(15)).await;
    let agent = client(&gate, Era::Modern).await;
    for _ in 0..5 {
        assert!(!agent.call("up__effect", json!({})).await.unwrap().is_error);
    }
    disk.fill(&gate);
    refuses(&gate, &agent).await;
    let before = fixture.effects().effects;
    for _ in 0..50 {
        let called = agent.call("up__effect", json!({})).await.unwrap();
        assert_eq!(
            called.violation(),
            Some("LedgerUnavailable"),
            "{}",
            called.answer
        );
    }
    for _ in 0..10 {
        let called = agent.call("up__echo", json!({"text": "x"})).await.unwrap();
        assert_eq!(
            called.violation(),
            Some("LedgerUnavailable"),
            "no reason before its record: {}",
            called.answer
        );
    }
    assert_eq!(
        fixture.effects().effects,
        before,
        "an effect without a record"
    );
    // Reading goes on.
    assert!(!agent.tool_names().await.unwrap().is_empty());
    let status = admin(&gate, "GET", "status").await;
    assert!(
        status
            .pointer("/worker/pid")
            .and_then(Value::as_u64)
            .is_some(),
        "{status}"
    );
    assert!(records(&gate).await.len() > 10, "the ledger can be read");

    // An operator is told that too, and not that they asked wrongly.
    let (status, said) = post(&gate, "servers/up/retry", &json!({})).await;
    let expected = match disk {
        Disk::Filler(_) => (507, "storage_full"),
        Disk::Limit => (503, "ledger_unavailable"),
    };
    let code = said["code"].as_str().unwrap_or_default();
    assert_eq!((status, code), expected, "{said}");

    disk.free(&gate);
    let start = Instant::now();
    while agent.call("up__effect", json!({})).await.unwrap().is_error {
        assert!(
            start.elapsed() < BACK_WITHIN,
            "effects were not back after {BACK_WITHIN:?}"
        );
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    println!(
        "effects were back {:?} after the space was",
        start.elapsed()
    );
    agrees(&gate, fixture.effects().effects).await;
}

/// Calls until the ledger cannot record: what fits into the last page still goes through.
async fn refuses(gate: &Gate, agent: &Client) {
    let mut last = Value::Null;
    for _ in 0..500 {
        let called = agent.call("up__effect", json!({})).await.unwrap();
        if called.violation() == Some("LedgerUnavailable") {
            return;
        }
        last = called.answer;
    }
    panic!("the disk was never full: {last}\n{}", gate.output());
}

/// Every effect has an intent and an end, and the ledger verifies; what could not be recorded was counted.
async fn agrees(gate: &Gate, effects: u64) {
    let records = records(gate).await;
    let unrecorded: u64 = records
        .iter()
        .filter(|record| record["action"] == "ledger.recovered")
        .filter_map(|record| record["count"].as_u64())
        .sum();
    assert!(
        unrecorded >= 60,
        "{unrecorded} answers are known not to be recorded"
    );
    let intents: Vec<&Value> = records
        .iter()
        .filter(|record| record["kind"] == "intent" && record["tool"] == "effect")
        .collect();
    let ends = |verdict: &str| {
        let of = |record: &&Value| {
            intents
                .iter()
                .any(|intent| intent["seq"] == record["intent"])
        };
        records
            .iter()
            .filter(of)
            .filter(|record| record["verdict"] == verdict)
            .count() as u64
    };
    assert!(
        effects <= intents.len() as u64,
        "{effects} effects, {} intents",
        intents.len()
    );
    let (permitted, indeterminate) = (ends("permitted"), ends("indeterminate"));
    assert!(
        permitted <= effects && effects <= permitted + indeterminate + ends("failed"),
        "{effects}: {permitted} and {indeterminate}"
    );
    let verified = gate.cli(&["audit", "verify"]).await.unwrap();
    assert_eq!(verified.code, Some(0), "{verified:?}");
    println!(
        "{effects} effects, all of them recorded; {permitted} permitted, {indeterminate} not known"
    );
}
