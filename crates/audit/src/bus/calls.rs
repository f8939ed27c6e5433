//! Events of calls: an invocation is requested, started, completed, failed or refused.
//!
//! The names and keys are those of the event table that agent runtimes know. Where that table has the arguments or the result
//! themselves, there is an object with their digest and size here, and the id under which the redacted arguments are kept.

use super::names::{COMMAND, RATE, SEAL, STORAGE, Severity, TOOL};
use super::{Keys, Payload, Told, looked_at};
use crate::record::{Record, TOOL_ERROR};
use serde_json::{Value, json};
use vocab::{Rule, ServerId};

const COMMAND_TOOL: &str = "cmd.run";

pub(super) fn told(record: &Record) -> Vec<Told> {
    match (record.kind.as_str(), record.verdict.as_str()) {
        ("intent", _) => intended(record),
        ("refusal", _) => refused(record),
        (_, "permitted") => completed(record),
        _ => failed(record),
    }
}

fn intended(record: &Record) -> Vec<Told> {
    let requested = invocation(record)
        .value("arguments", arguments(record))
        .text("requested_at", &record.time);
    let started = invocation(record)
        .text("server_id", &record.server)
        .text("started_at", &record.time);
    let mut told = vec![
        Told::new(
            TOOL,
            "InvocationRequested",
            Severity::Info,
            requested.done(),
        ),
        Told::new(TOOL, "InvocationStarted", Severity::Info, started.done()),
    ];
    if is_signed(record) {
        let authorized = signed(record)
            .text("tool_name", &record.tool)
            .text("authorized_at", &record.time);
        told.push(Told::new(
            SEAL,
            "ToolCallAuthorized",
            Severity::Info,
            authorized.done(),
        ));
    }
    if is_command(record) {
        let started = command(record).text("started_at", &record.time);
        told.push(Told::new(
            COMMAND,
            "CommandExecutionStarted",
            Severity::Info,
            started.done(),
        ));
    }
    told
}

fn completed(record: &Record) -> Vec<Told> {
    let completed = invocation(record)
        .text("server_id", &record.server)
        .value("result", result(record))
        .number("duration_ms", record.us.map(|us| us / 1000))
        .text("label_after", &record.label_after)
        .text("completed_at", &record.time);
    let mut told = vec![Told::new(
        TOOL,
        "InvocationCompleted",
        Severity::Info,
        completed.done(),
    )];
    if is_command(record) {
        told.push(command_completed(record, Severity::Info));
    }
    if let Some((name, size)) = file_event(record) {
        let bytes = if size == "bytes_written" {
            record.args_bytes
        } else {
            record.result_bytes
        };
        let payload = file(record)
            .number(size, bytes)
            .number("duration_ms", record.us.map(|us| us / 1000));
        told.push(Told::new(
            STORAGE,
            name,
            Severity::Info,
            payload.text("time", &record.time).done(),
        ));
    }
    told
}

/// Failed, cancelled, refused after its effect, or without an end that anybody saw.
fn failed(record: &Record) -> Vec<Told> {
    let code = if record.violation.is_empty() {
        &record.verdict
    } else {
        &record.violation
    };
    let error = Keys::default()
        .text("code", code)
        .text("message", &record.detail)
        .value("data", looked_at(record))
        .done();
    let failed = invocation(record)
        .text("server_id", &record.server)
        .value("error", error.into())
        .number("duration_ms", record.us.map(|us| us / 1000))
        .text("failed_at", &record.time);
    let severity = if record.verdict == "cancelled" {
        Severity::Notice
    } else {
        Severity::Error
    };
    let mut told = vec![Told::new(TOOL, "InvocationFailed", severity, failed.done())];
    // A link that leads out, or a full volume, is found only when the call is carried out.
    told.extend(path_told(record).filter(|_| is_own(record)));
    if is_command(record) && record.violation == TOOL_ERROR {
        // It ran to its end, and its exit code says that it failed.
        told.push(command_completed(record, severity));
    } else if is_command(record) {
        let failed = command(record)
            .text("reason", code)
            .text("failed_at", &record.time);
        told.push(Told::new(
            COMMAND,
            "CommandExecutionFailed",
            severity,
            failed.done(),
        ));
    }
    told
}

fn refused(record: &Record) -> Vec<Told> {
    if let Some(name) = envelope_event(record) {
        let payload = signed(record)
            .text("reason", &record.detail)
            .text("blocked_at", &record.time);
        return vec![Told::new(
            SEAL,
            name,
            Severity::Warning,
            payload.text("violation_type", &record.violation).done(),
        )];
    }
    let mut told = vec![Told::new(
        TOOL,
        "ToolPolicyViolation",
        Severity::Warning,
        violation(record, invocation(record)),
    )];
    if is_signed(record) {
        told.push(Told::new(
            SEAL,
            "PolicyViolationBlocked",
            Severity::Warning,
            violation(record, signed(record)),
        ));
    }
    if is_command(record) && is_command_rule(record) {
        told.push(Told::new(
            COMMAND,
            "CommandPolicyViolation",
            Severity::Warning,
            violation(record, command(record)),
        ));
    }
    told.extend(path_told(record));
    if record.violation == "RateLimitExceeded" {
        told.push(Told::new(
            RATE,
            "Exceeded",
            Severity::Warning,
            violation(record, invocation(record)),
        ));
    }
    told
}

/// What a refusal was to a volume.
fn path_told(record: &Record) -> Option<Told> {
    let name = path_event(record)?;
    let attempted = looked_at(record);
    let path = ["attempted_path", "path"]
        .into_iter()
        .find_map(|key| attempted.get(key))
        .cloned()
        .unwrap_or_default();
    let key = if name == "PathTraversalBlocked" {
        "attempted_path"
    } else {
        "path"
    };
    let payload = file(record)
        .value(key, path)
        .text("operation", &record.tool)
        .text("policy_rule", &record.violation);
    Some(Told::new(
        STORAGE,
        name,
        Severity::Warning,
        payload.text("time", &record.time).done(),
    ))
}

fn violation(record: &Record, keys: Keys) -> Payload {
    keys.text("violation_type", &record.violation)
        .value("details", looked_at(record))
        .text("detail", &record.detail)
        .text("stage", &record.stage)
        .text("policy", &record.policy)
        .text("blocked_at", &record.time)
        .done()
}

/// What every event of an invocation has.
fn invocation(record: &Record) -> Keys {
    Keys::default()
        .text("invocation_id", &record.call)
        .text("execution_id", &record.execution)
        .text("agent_id", &record.agent)
        .text("user_id", &record.user)
        .text("tool_name", &record.tool)
        .text("method", &record.action)
        .text("door", &record.door)
}

fn arguments(record: &Record) -> Value {
    if record.args.is_empty() && record.args_bytes.is_none() {
        return Value::Null;
    }
    // The redacted text is kept beside the ledger: `portcullis audit show CALL`.
    let kept = if record.body.is_empty() {
        Value::Null
    } else {
        record.call.as_str().into()
    };
    json!({ "digest": record.args, "bytes": record.args_bytes, "redacted": kept })
}

fn result(record: &Record) -> Value {
    if record.result.is_empty() {
        return Value::Null;
    }
    json!({ "digest": record.result, "bytes": record.result_bytes })
}

fn signed(record: &Record) -> Keys {
    Keys::default()
        .text("execution_id", &record.execution)
        .text("agent_id", &record.agent)
        .text("session_id", &record.session)
        .text("security_context", &record.context)
        .text("signature", &record.signature)
}

fn command(record: &Record) -> Keys {
    let looked_at = looked_at(record);
    let said = |key: &str| looked_at.get(key).cloned().unwrap_or_default();
    Keys::default()
        .text("execution_id", &record.execution)
        .text("dispatch_id", &record.call)
        .text("tool_call_id", &record.call)
        .value("command", said("command"))
        .value("args", arguments(record))
}

fn file(record: &Record) -> Keys {
    Keys::default()
        .text("execution_id", &record.execution)
        .text("invocation_id", &record.call)
        .value("arguments", arguments(record))
}

fn command_completed(record: &Record, severity: Severity) -> Told {
    let completed = command(record)
        .number("duration_ms", record.us.map(|us| us / 1000))
        .text("completed_at", &record.time);
    Told::new(
        COMMAND,
        "CommandExecutionCompleted",
        severity,
        completed.done(),
    )
}

/// Tools of the gate itself stand under a name that no server can have. A name that led nowhere is no tool of anybody's.
fn is_own(record: &Record) -> bool {
    record.server == ServerId::BUILT_IN
}

fn is_command(record: &Record) -> bool {
    is_own(record) && record.tool == COMMAND_TOOL
}

/// Whether it was the command that was refused, and not the caller, its pace or the tool as such.
fn is_command_rule(record: &Record) -> bool {
    let rules = [
        Rule::CommandNotAllowed,
        Rule::SubcommandNotAllowed,
        Rule::ExecTimeoutCeilingExceeded,
    ];
    rules
        .into_iter()
        .any(|rule| rule.code() == record.violation)
}

fn is_signed(record: &Record) -> bool {
    record.door == "seal" || !record.signature.is_empty()
}

/// What a finished call of a file tool was, and the key for its size.
fn file_event(record: &Record) -> Option<(&'static str, &'static str)> {
    if !is_own(record) {
        return None;
    }
    Some(match record.tool.as_str() {
        "fs.read" | "fs.grep" => ("FileRead", "bytes_read"),
        "fs.write" | "fs.edit" | "fs.multi_edit" | "fs.move" => ("FileWritten", "bytes_written"),
        "fs.list" | "fs.glob" | "fs.stat" => ("DirectoryListed", "bytes_read"),
        "fs.create" | "fs.create_dir" | "fs.create.dir" | "fs.copy" => {
            ("FileCreated", "bytes_written")
        }
        "fs.delete" => ("FileDeleted", "bytes_written"),
        _ => return None,
    })
}

/// What a refusal was to a volume. A path that leaves its boundary is one whoever asked for it.
fn path_event(record: &Record) -> Option<&'static str> {
    Some(match record.violation.as_str() {
        "PathTraversalAttempt" => "PathTraversalBlocked",
        "PathOutsideBoundary" => "FilesystemPolicyViolation",
        "QuotaExceeded" => "QuotaExceeded",
        "UnauthorizedVolumeAccess" => "UnauthorizedVolumeAccess",
        _ => return None,
    })
}

/// What is wrong with the envelope itself: there is no call yet that a policy could have refused.
fn envelope_event(record: &Record) -> Option<&'static str> {
    if record.door != "seal" {
        return None;
    }
    Some(match record.violation.as_str() {
        "SignatureVerificationFailed" => "SignatureVerificationFailed",
        "TokenExpired" => "SecurityTokenExpired",
        "EnvelopeReplayed" => "EnvelopeReplayBlocked",
        "SessionInactive" => "InactiveSessionBlocked",
        _ => return None,
    })
}
