//! The parts that decide whether a run passed.

use super::report::{Summary, Verdict};
use super::requirements::{Leg, Requirements};

const FILE: &str = "\
# a comment: with a colon
server:
  - ping
  - tools-list

client:
  - initialize
  - auth/basic

not_scored:
  - scenario: auth/dpop
    leg: client
    reason: extension
  - scenario: server-sse-polling
    leg: server
    reason: pending
    note: >-
      on hold: for now
";

#[test]
fn each_leg_has_its_own_scenarios() {
    let server = Requirements::read(FILE, Leg::Server).unwrap();
    assert_eq!(server.required, ["ping", "tools-list"]);
    assert_eq!(server.unscored, ["server-sse-polling"]);
    let client = Requirements::read(FILE, Leg::Client).unwrap();
    assert_eq!(client.required, ["initialize", "auth/basic"]);
    assert_eq!(client.unscored, ["auth/dpop"]);
    let without = client.without("auth/");
    assert_eq!((without.required.len(), without.unscored.len()), (1, 0));
}

#[test]
fn a_shorter_list_than_pinned_is_refused() {
    let server = Requirements::read(FILE, Leg::Server).unwrap();
    server.expect("2025-11-25", 2, 1).unwrap();
    let refusal = server.expect("2025-11-25", 3, 1).unwrap_err().to_string();
    assert!(refusal.contains("expected 3 required"), "{refusal}");
}

#[test]
fn a_scenario_without_saved_checks_fails() {
    let results = Results::new("absent");
    let verdict = Verdict::read(&results.0, "server-ping", "ping").unwrap();
    assert!(!verdict.passed());
}

#[test]
fn warnings_fail_and_skips_do_not() {
    let results = Results::new("statuses");
    results.save(
        "server-ping-2026-11-15T10-00-00-000Z",
        r#"[{"id":"a","status":"SUCCESS"},{"id":"b","status":"SKIPPED"}]"#,
    );
    results.save(
        "server-ping-more-2026-11-15T10-00-00-000Z",
        r#"[{"id":"c","status":"WARNING","errorMessage":"should"}]"#,
    );
    let ping = Verdict::read(&results.0, "server-ping", "ping").unwrap();
    let more = Verdict::read(&results.0, "server-ping-more", "ping-more").unwrap();
    assert!(ping.passed() && !more.passed());

    let mut summary = Summary::new("here");
    summary.add("2025-11-25", true, ping);
    summary.add("2025-11-25", false, more);
    assert_eq!((summary.passed(), summary.failed()), (1, 1));
    let shown = summary.to_string();
    assert!(
        shown.contains("1/1") && shown.contains("0/1") && shown.contains("WARNING c: should"),
        "{shown}"
    );
}

/// A directory of saved results for one test.
struct Results(std::path::PathBuf);

impl Results {
    fn new(name: &str) -> Self {
        let directory =
            std::env::temp_dir().join(format!("xtask-conformance-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&directory).unwrap();
        Self(directory)
    }

    fn save(&self, scenario: &str, checks: &str) {
        std::fs::create_dir_all(self.0.join(scenario)).unwrap();
        std::fs::write(self.0.join(scenario).join("checks.json"), checks).unwrap();
    }
}

impl Drop for Results {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).unwrap();
    }
}

#[test]
fn what_a_client_said_is_its_verdict() {
    let output = "ok first\nfailed second: 401 Bearer\nok second-and-a-half\n";
    assert!(Verdict::said("first", output).passed());
    for scenario in ["second", "third", "second-and", ""] {
        assert!(!Verdict::said(scenario, output).passed(), "{scenario}");
    }
}
