//! What becomes of a server's connection, on record.
//!
//! One record when it is there, one when it is gone, one when it is given up: never one per attempt, so a server that cannot be
//! reached does not fill the ledger. A record that cannot be written changes nothing here; the ledger says so on its own.

use audit::Change;
use vocab::ServerId;
use wire::Json;

use super::{Hub, connect::Connection};
use crate::settings::ServerSpec;

impl Hub {
    /// Records what happened to a server. The words may be the server's own, so secrets are taken out.
    pub(super) fn note(&self, action: &str, server: &ServerId, detail: &str) {
        let redacted = shape::secrets::redact(&wire::write::quoted(detail), &self.held());
        let redacted = redacted
            .as_ref()
            .and_then(|redacted| Json::checked_before(&redacted.text).as_str());
        let change = Change {
            action,
            server: server.as_str(),
            detail: redacted.as_deref().unwrap_or(detail),
            ..Change::default()
        };
        if let Err(error) = self.ledger().change(&change) {
            tracing::error!(%error, %server, action, "a server's change could not be recorded");
        }
    }
}

/// How a server stands when the gate first hears of it.
pub(super) fn state_words(spec: &ServerSpec) -> String {
    match spec.state() {
        policy::ServerState::Classified(level) => format!("CLASSIFIED {level}"),
        state => state.as_str().to_owned(),
    }
}

/// A server that is connected and on record as such. Dropping it records that it was stopped.
pub(super) struct Presence<'a> {
    hub: &'a Hub,
    server: ServerId,
    is_over: bool,
}

impl<'a> Presence<'a> {
    /// `confined` says what holds its program back, and what it was granted.
    pub(super) fn begin(
        hub: &'a Hub,
        server: &ServerId,
        connection: &Connection,
        confined: &str,
    ) -> Self {
        let detail = connection
            .pid()
            .map(|pid| format!("process {pid}; {confined}"))
            .unwrap_or_default();
        hub.note("server.started", server, &detail);
        Self {
            hub,
            server: server.clone(),
            is_over: false,
        }
    }

    /// It did not answer when asked whether it is there.
    pub(super) fn unhealthy(&self, error: &str) {
        self.hub.note("server.unhealthy", &self.server, error);
    }

    /// It went away by itself.
    pub(super) fn failed(mut self, error: &str) {
        self.is_over = true;
        self.hub.note("server.failed", &self.server, error);
    }
}

impl Drop for Presence<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.hub.note("server.stopped", &self.server, "");
        }
    }
}
