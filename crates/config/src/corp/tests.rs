//! What a company's keys mean by themselves.

use std::path::Path;

use super::{is_command, is_host, moment_ms};
use crate::{Raw, layers::merge};

#[test]
fn commands_and_hosts_are_met_wherever_they_are() {
    assert!(is_command("npx", "npx") && is_command("npx", "/usr/bin/npx"));
    assert!(is_command("python3*", "/opt/python3.12") && is_command("/opt/*", "/opt/x"));
    assert!(
        !is_command("npx", "npx-safe") && !is_command("/opt/x", "/usr/x") && !is_command("", "")
    );
    assert!(
        is_host("*.a.example", "https://b.A.example/x")
            && is_host("*.a.example", "https://a.example./")
    );
    assert!(
        !is_host("*.a.example", "https://ba.example/")
            && !is_host("a.example", "https://b.a.example/")
    );
}

#[test]
fn days_end_when_they_end() {
    assert_eq!(moment_ms("1970-01-01"), Some(86_399_999));
    assert_eq!(moment_ms("2024-02-29T00:00:00Z"), Some(1_709_164_800_000));
    assert_eq!(moment_ms("2027-06-30T12:00:00Z"), Some(1_814_356_800_000));
    for wrong in [
        "",
        "2027",
        "2027-13-01",
        "2027-02-29",
        "2027-02-28T24:00Z",
        "2027-02-28T10:00",
        "x-1-1",
        "2027-1-1-1",
    ] {
        assert_eq!(moment_ms(wrong), None, "{wrong}");
    }
}

#[test]
fn mistakes_in_a_companys_file_are_errors_with_their_place() {
    let mistakes = [
        ("lock: [policy]\n", "lock"),
        ("locks: [\"*.x\"]\n", "a path that begins with a key"),
        ("locks: [\"a..b\"]\n", "a path that begins with a key"),
        ("forbid: [{ reason: x }]\n", "forbids nothing"),
        ("forbid: [{ command: a, host: b }]\n", "forbids nothing"),
        ("registry: [{ id: a }]\n", "which server it approves"),
        ("not_after: soon\n", "no day"),
        ("serial: -1\n", "serial"),
        ("policy: { bundle: mine.cedar }\n", "whole path"),
    ];
    for (text, words) in mistakes {
        let corp = Raw::parse(Path::new("corp.yaml"), text).unwrap();
        let user = Raw::parse(Path::new("portcullis.yaml"), "").unwrap();
        let report = match merge(user, Some(corp), None) {
            Err(report) => report,
            Ok(raw) => raw.resolve().unwrap_err(),
        };
        let said = report.to_string();
        assert!(
            said.contains(words) && said.contains("corp.yaml:1:"),
            "{text}: {said}"
        );
    }
}
