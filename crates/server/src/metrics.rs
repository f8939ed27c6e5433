//! What whoever watches the gate reads: `/metrics` in the text format of Prometheus, on a door of its own.
//!
//! No label is free text: servers and sinks are those of the configuration, everything else is a word of ours. So the number of series is bounded
//! by the configuration, whatever callers send.

use std::{fmt::Write as _, sync::Arc, time::SystemTime};

use doors::Limiter;
use gateway::Tallied;

/// The media type of the format.
pub(crate) const TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Doors with TLS: where they are, and when the first of their certificates ends.
pub type Certificates = Arc<dyn Fn() -> Vec<(String, SystemTime)> + Send + Sync>;

pub(crate) fn text(
    status: &api::Status,
    tallied: &Tallied,
    limiter: &Limiter,
    certificates: &[(String, SystemTime)],
) -> String {
    let mut out = Text::default();
    out.one(
        "build_info",
        "gauge",
        "The version that runs.",
        &[("version", &status.version)],
        1,
    );
    out.head("uptime_seconds", "gauge", "Time since the gate opened.");
    out.row("uptime_seconds", &[], status.uptime_ms as f64 / 1000.0);
    calls(&mut out, status, tallied);
    servers(&mut out, status);
    machine(&mut out, status);
    out.one(
        "rate_limited_total",
        "counter",
        "Requests beyond the limit of their address.",
        &[],
        limiter.throttled(),
    );
    let degraded = u64::from(limiter.degraded().borrow().is_some());
    out.one(
        "limiter_degraded",
        "gauge",
        "Whether the store of the rate limit cannot be asked.",
        &[],
        degraded,
    );
    out.head(
        "tls_certificate_expiry_timestamp_seconds",
        "gauge",
        "When the first certificate of a door ends.",
    );
    for (door, until) in certificates {
        let seconds = until
            .duration_since(SystemTime::UNIX_EPOCH)
            .map_or(0, |span| span.as_secs());
        out.row(
            "tls_certificate_expiry_timestamp_seconds",
            &[("door", door)],
            seconds as f64,
        );
    }
    out.0
}

fn calls(out: &mut Text, status: &api::Status, tallied: &Tallied) {
    out.head("calls_total", "counter", "Calls that ended, by how.");
    for (server, verdict, rule, count) in &tallied.calls {
        out.row(
            "calls_total",
            &[("server", server), ("verdict", verdict), ("rule", rule)],
            *count as f64,
        );
    }
    let name = "call_duration_seconds";
    out.head(
        name,
        "histogram",
        "How long calls took, from when their target was found.",
    );
    for (end, count) in &tallied.durations {
        let end = (*end as f64 / 1000.0).to_string();
        out.row(
            "call_duration_seconds_bucket",
            &[("le", &end)],
            *count as f64,
        );
    }
    out.row(
        "call_duration_seconds_bucket",
        &[("le", "+Inf")],
        tallied.count as f64,
    );
    out.row(
        "call_duration_seconds_sum",
        &[],
        tallied.micros as f64 / 1e6,
    );
    out.row("call_duration_seconds_count", &[], tallied.count as f64);
    out.one(
        "calls_in_flight",
        "gauge",
        "Calls under way.",
        &[],
        status.calls.in_flight,
    );
    out.head(
        "calls_waiting",
        "gauge",
        "Calls that wait for somebody outside.",
    );
    out.row(
        "calls_waiting",
        &[("reason", "answer")],
        status.calls.waiting as f64,
    );
    out.row(
        "calls_waiting",
        &[("reason", "parked")],
        status.calls.parked as f64,
    );
    out.one(
        "approvals_pending",
        "gauge",
        "Calls that wait for a person.",
        &[],
        status.pending_approvals,
    );
}

fn servers(out: &mut Text, status: &api::Status) {
    out.head("server_up", "gauge", "Whether a server is connected.");
    for server in &status.servers {
        let is_up = server.state == api::ServerState::Connected;
        out.row(
            "server_up",
            &[("server", &server.id)],
            f64::from(u8::from(is_up)),
        );
    }
    out.head(
        "definitions_quarantined",
        "gauge",
        "Definitions that wait for a person to look at them.",
    );
    for server in &status.servers {
        out.row(
            "definitions_quarantined",
            &[("server", &server.id)],
            server.quarantined as f64,
        );
    }
    out.head(
        "sink_lag_records",
        "gauge",
        "Records that a sink has not delivered yet.",
    );
    for sink in &status.sinks {
        out.row("sink_lag_records", &[("sink", &sink.name)], sink.lag as f64);
    }
    out.head(
        "sink_failing",
        "gauge",
        "Whether a sink is failing or stopped.",
    );
    for sink in &status.sinks {
        let fails = matches!(sink.state.as_str(), "failing" | "stopped");
        out.row(
            "sink_failing",
            &[("sink", &sink.name)],
            f64::from(u8::from(fails)),
        );
    }
}

fn machine(out: &mut Text, status: &api::Status) {
    out.one(
        "worker_restarts_total",
        "counter",
        "Times that the worker was started again.",
        &[],
        status.worker.restarts,
    );
    out.head(
        "worker_confined",
        "gauge",
        "Whether a measure that holds the worker back is applied.",
    );
    for measure in &status.worker.confinement {
        out.row(
            "worker_confined",
            &[("measure", &measure.name)],
            f64::from(u8::from(measure.applied)),
        );
    }
    out.one(
        "ledger_records_total",
        "counter",
        "Records of the ledger.",
        &[],
        status.ledger.records,
    );
    let stopped = u64::from(status.ledger.broken.is_some());
    out.one(
        "ledger_stopped",
        "gauge",
        "Whether nothing can be recorded, and therefore nothing done.",
        &[],
        stopped,
    );
    let awaiting = status.awaiting_restart.len() as u64;
    out.one(
        "config_pending_restart",
        "gauge",
        "Keys whose values are in force only after a restart.",
        &[],
        awaiting,
    );
}

#[derive(Default)]
struct Text(String);

impl Text {
    fn head(&mut self, name: &str, kind: &str, help: &str) {
        let _ = writeln!(
            self.0,
            "# HELP portcullis_{name} {help}\n# TYPE portcullis_{name} {kind}"
        );
    }

    fn row(&mut self, name: &str, labels: &[(&str, &str)], value: f64) {
        let _ = write!(self.0, "portcullis_{name}");
        for (at, (label, text)) in labels.iter().enumerate() {
            let before = if at == 0 { '{' } else { ',' };
            let _ = write!(self.0, "{before}{label}=\"{}\"", escaped(text));
        }
        let after = if labels.is_empty() { "" } else { "}" };
        let _ = writeln!(self.0, "{after} {value}");
    }

    fn one(&mut self, name: &str, kind: &str, help: &str, labels: &[(&str, &str)], value: u64) {
        self.head(name, kind, help);
        self.row(name, labels, value as f64);
    }
}

fn escaped(text: &str) -> String {
    let mut out = String::new();
    for c in text.chars() {
        match c {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            c => out.push(c),
        }
    }
    out
}
