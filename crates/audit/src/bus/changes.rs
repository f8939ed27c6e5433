//! Events of changes: servers, definitions, approvals, sessions, credentials, the configuration, the ledger itself.
//!
//! Names that other systems know are in [`ROWS`]. Every other action names its event by itself: `definition.pinned` is
//! `DefinitionEvent::Pinned`, so an action that this version has never heard of is still an event.

use super::names::{COMMAND, POLICY, RATE, SEAL, STORAGE, Severity, TOOL, camel};
use super::{Keys, Payload, Told};
use crate::record::Record;

/// action | family | name | severity
const ROWS: &[(&str, &str, &str, Severity)] = &[
    (
        "server.registered",
        TOOL,
        "ServerRegistered",
        Severity::Info,
    ),
    ("server.added", TOOL, "ServerRegistered", Severity::Notice),
    ("server.started", TOOL, "ServerStarted", Severity::Info),
    ("server.stopped", TOOL, "ServerStopped", Severity::Info),
    ("server.failed", TOOL, "ServerFailed", Severity::Error),
    (
        "server.unhealthy",
        TOOL,
        "ServerUnhealthy",
        Severity::Warning,
    ),
    (
        "server.opt-out",
        "server",
        "ScanSwitchedOff",
        Severity::Warning,
    ),
    (
        "seal.attested",
        SEAL,
        "AttestationCompleted",
        Severity::Info,
    ),
    (
        "seal.attestation_failed",
        SEAL,
        "AttestationFailed",
        Severity::Warning,
    ),
    (
        "seal.session_created",
        SEAL,
        "SessionCreated",
        Severity::Info,
    ),
    (
        "seal.session_revoked",
        SEAL,
        "SessionRevoked",
        Severity::Notice,
    ),
    (
        "seal.session_expired",
        SEAL,
        "SessionExpired",
        Severity::Info,
    ),
    (
        "seal.token_refreshed",
        SEAL,
        "SecurityTokenRefreshed",
        Severity::Info,
    ),
    ("body.erased", "ledger", "ArgumentsErased", Severity::Notice),
    (
        "strangers.refused",
        "stranger",
        "Refused",
        Severity::Warning,
    ),
    (
        "credential.refused",
        "credential",
        "Refused",
        Severity::Warning,
    ),
    (
        "mount.refused",
        STORAGE,
        "UnauthorizedVolumeAccess",
        Severity::Warning,
    ),
    ("config.applied", "config", "Applied", Severity::Notice),
    ("config.failed", "config", "Failed", Severity::Error),
    (
        "definition.quarantined",
        "definition",
        "Quarantined",
        Severity::Warning,
    ),
    ("approval.denied", "approval", "Denied", Severity::Warning),
    ("approval.expired", "approval", "Expired", Severity::Warning),
    ("ledger.rotated", "ledger", "Rotated", Severity::Info),
    ("ledger.recovered", "ledger", "Recovered", Severity::Error),
    (
        "ledger.head_missing",
        "ledger",
        "HeadMissing",
        Severity::Error,
    ),
    (
        "ledger.torn_tail_cut",
        "ledger",
        "TornTailCut",
        Severity::Error,
    ),
    ("gate.opened", "gate", "Opened", Severity::Info),
    (
        "client.throttled",
        "stranger",
        "Throttled",
        Severity::Warning,
    ),
    (
        "limiter.degraded",
        "gate",
        "LimiterDegraded",
        Severity::Error,
    ),
    (
        "limiter.restored",
        "gate",
        "LimiterRestored",
        Severity::Notice,
    ),
    (
        "door.certificate_taken",
        "gate",
        "CertificateTaken",
        Severity::Notice,
    ),
    (
        "door.certificate_refused",
        "gate",
        "CertificateRefused",
        Severity::Error,
    ),
];

/// Families that an action may name by its first word. Any other is told as a `gate` event, so that the set stays closed.
const FAMILIES: &[&str] = &[
    "account",
    "approval",
    "config",
    "credential",
    "definition",
    "gate",
    "ledger",
    "policy",
    "retention",
    "secret",
    "seal",
    "server",
    "session",
    "sink",
    "stranger",
    "tenant",
    "volume",
    "workflow",
];

/// Every family that an event can be of.
pub fn event_families() -> Vec<&'static str> {
    let mut all: Vec<&str> = [TOOL, COMMAND, STORAGE, SEAL, RATE, POLICY]
        .into_iter()
        .chain(FAMILIES.iter().copied())
        .collect();
    all.sort_unstable();
    all.dedup();
    all
}

pub(super) fn told(record: &Record) -> Vec<Told> {
    let mut told = vec![first(record)];
    if record.action == "seal.attested" {
        told.push(Told::new(
            SEAL,
            "AttestationSucceeded",
            Severity::Info,
            payload(record),
        ));
    }
    if record.action == "config.applied" && !record.bundle.is_empty() {
        let bundle = Keys::default()
            .text("bundle", &record.bundle)
            .text("applied_at", &record.time);
        told.push(Told::new(
            POLICY,
            "BundleApplied",
            Severity::Notice,
            bundle.done(),
        ));
    }
    told
}

fn first(record: &Record) -> Told {
    let action = record.action.as_str();
    if let Some((_, family, name, severity)) = ROWS.iter().find(|(known, ..)| *known == action) {
        return Told::new(family, *name, *severity, payload(record));
    }
    if action == "server.state" {
        let (name, severity) = match record.detail.split_whitespace().next() {
            Some("CLASSIFIED") => ("Classified", Severity::Notice),
            Some("BLOCKED") => ("Blocked", Severity::Warning),
            Some("unblocked") => ("Unblocked", Severity::Notice),
            _ => ("StateChanged", Severity::Notice),
        };
        return Told::new("server", name, severity, payload(record));
    }
    let (word, rest) = action.split_once('.').unwrap_or(("gate", action));
    let name = |text: &str| {
        Some(camel(text))
            .filter(|name| !name.is_empty())
            .unwrap_or_else(|| "Changed".to_owned())
    };
    match FAMILIES.iter().find(|family| **family == word) {
        Some(family) => Told::new(family, name(rest), Severity::Notice, payload(record)),
        None => Told::new("gate", name(action), Severity::Notice, payload(record)),
    }
}

fn payload(record: &Record) -> Payload {
    let when = match record.action.as_str() {
        "server.registered" | "server.added" => "registered_at",
        _ => "at",
    };
    // `error` is where listeners look for why a server failed.
    let detail = if record.action == "server.failed" {
        "error"
    } else {
        "detail"
    };
    Keys::default()
        .text("action", &record.action)
        .text("server_id", &record.server)
        .text("tool_name", &record.tool)
        .text("caller", &record.caller)
        .text("user_id", &record.user)
        .text("agent_id", &record.agent)
        .text("session_id", &record.session)
        .text("execution_id", &record.execution)
        .text("security_context", &record.context)
        .text("target", &record.target)
        .text("invocation_id", &record.call)
        .text("approval_id", &record.approval)
        .text("definition", &record.definition)
        .text("reason", &record.reason)
        .text("violation_type", &record.violation)
        .text(detail, &record.detail)
        .text("label", &record.label)
        .text("label_after", &record.label_after)
        .text("bundle", &record.bundle)
        .number("count", record.count)
        .number("process_id", process(record))
        .text(when, &record.time)
        .done()
}

/// The process of a server that was started by the gate.
fn process(record: &Record) -> Option<u64> {
    record
        .detail
        .strip_prefix("process ")
        .filter(|_| record.action == "server.started")?
        .parse()
        .ok()
}
