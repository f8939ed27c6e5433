//! The process itself: its command line, its jail.

use std::{
    fs::Permissions,
    os::unix::{fs::PermissionsExt, net::UnixListener},
    path::Path,
    process::Command,
};

use serde_json::json;

use crate::support::Worker;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_portcullis-worker"))
        .args(args)
        .env_clear()
        .output()
        .expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (
        output.status.code(),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (args, said) in [
        (&["--role", "painter"][..], "there is no role `painter`"),
        (&[][..], "usage:"),
        (&["--role"][..], "needs a value"),
        (
            &["--role", "aggregator", "--total-bytes", "many"][..],
            "number of bytes",
        ),
        (
            &["--role", "aggregator", "--ca-file", "/nowhere.pem"][..],
            "/nowhere.pem",
        ),
        (&["--no-jail"][..], "unknown argument"),
    ] {
        let (code, _, stderr) = run(args);
        assert_eq!(code, Some(2), "{args:?}");
        assert!(stderr.contains(said), "{args:?}: {stderr}");
    }
}

#[test]
fn the_jail_is_entered_and_reported() {
    let mut worker = Worker::empty();
    let report = worker.call("confinement", json!({}));
    let applied = report["result"]["applied"].as_array().unwrap();
    for measure in ["seccomp", "no new privileges", "descriptors"] {
        assert!(
            applied
                .iter()
                .any(|line| line.as_str().unwrap().starts_with(measure)),
            "{measure} is missing in {report}"
        );
    }
    assert!(report["result"]["refused"].is_array());
}

/// Everything the worker must not reach is open to everybody, so that only the jail can refuse it.
#[test]
fn nothing_gets_out_of_the_jail() {
    let directory = tempfile::tempdir().unwrap();
    let (ledger, socket) = (
        directory.path().join("ledger"),
        directory.path().join("socket"),
    );
    std::fs::write(&ledger, "the ledger").unwrap();
    let _listener = UnixListener::bind(&socket).unwrap();
    for path in [directory.path(), &ledger, &socket] {
        std::fs::set_permissions(path, Permissions::from_mode(0o777)).unwrap();
    }
    let text = |path: &Path| path.display().to_string();
    let (code, stdout, stderr) = run(&[
        "--probe",
        "--ledger",
        &text(&ledger),
        "--directory",
        &text(directory.path()),
        "--socket",
        &text(&socket),
    ]);
    assert!(
        !stdout.contains("ESCAPED") && !stdout.contains("NOT REFUSED"),
        "{stdout}"
    );
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert_eq!(
        std::fs::read_dir(directory.path()).unwrap().count(),
        2,
        "nothing was created"
    );
}
