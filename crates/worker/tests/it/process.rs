//! The process itself: its command line, its jail.

use std::process::Command;

use serde_json::json;

use crate::support::Worker;

fn run(args: &[&str]) -> (Option<i32>, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_portcullis-worker")).args(args).env_clear().output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (output.status.code(), text(&output.stdout), text(&output.stderr))
}

#[test]
fn mistakes_on_the_command_line_are_explained() {
    for (args, said) in [
        (&["--role", "painter"][..], "there is no role `painter`"),
        (&[][..], "usage:"),
        (&["--role"][..], "needs a value"),
        (&["--role", "aggregator", "--total-bytes", "many"][..], "number of bytes"),
        (&["--role", "aggregator", "--ca-file", "/nowhere.pem"][..], "/nowhere.pem"),
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
        assert!(applied.iter().any(|line| line.as_str().unwrap().starts_with(measure)), "{measure} is missing in {report}");
    }
    assert!(report["result"]["refused"].is_array());
}

#[test]
fn nothing_gets_out_of_the_jail() {
    let (code, stdout, stderr) = run(&["--probe"]);
    assert_eq!(code, Some(0), "{stdout}{stderr}");
    assert!(!stdout.contains("ESCAPED") && !stdout.contains("NOT REFUSED"), "{stdout}");
}
