//! What an operator can see and do while the gate runs. Answers are JSON text; doors only carry it.

mod acts;

use std::{sync::Arc, time::Duration};

use vocab::{ServerId, View};
use wire::{Json, worker::method, write::Object};

use crate::{
    Gate, RefusedName,
    catalog::{Face, definition::Kind},
    link::Word,
    pins::{self, Standing},
    settings::{HttpKind, Transport},
    upstream::{Status, Upstream},
};

const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Admin {
    gate: Gate,
}

fn array(items: impl Iterator<Item = Vec<u8>>) -> Vec<u8> {
    [
        b"[",
        items.collect::<Vec<_>>().join(&b","[..]).as_slice(),
        b"]",
    ]
    .concat()
}

impl Admin {
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// Everything at a glance.
    pub async fn status_json(&self) -> Vec<u8> {
        let door = self.gate.settings();
        let ledger = self.gate.ledger();
        let state = ledger.status();
        let confinement = self.confinement().await;
        let mut out = Object::with_capacity(4096);
        out.str("version", door.version)
            .u64("pid", u64::from(std::process::id()))
            .str("url", self.gate.url());
        out.u64("uptime_ms", self.gate.uptime_ms());
        out.str(
            "authentication",
            if door.requires_credential {
                "bearer"
            } else {
                "none"
            },
        );
        if let Some(oauth) = self.gate.oauth_json() {
            out.raw("oauth", &oauth);
        }
        out.raw(
            "awaiting_restart",
            &array(
                self.gate
                    .awaiting_restart()
                    .iter()
                    .map(|key| wire::write::quoted(key)),
            ),
        );
        out.raw("servers", &self.servers_json());
        out.raw(
            "callers",
            &array(self.gate.callers().into_iter().map(|caller| {
                let mut out = Object::new();
                out.str("id", caller.id())
                    .str("name", caller.name())
                    .str("label", &caller.session().mark().to_string());
                out.finish()
            })),
        );
        out.raw("calls", &self.gate.counts_json());
        let inner = self.gate.inner();
        let waiting = inner
            .state
            .approvals(false, inner.now_ms())
            .await
            .unwrap_or_default();
        let pending = waiting
            .iter()
            .filter(|approval| approval.state == state::ApprovalState::Pending)
            .count();
        out.str("bundle", inner.rules().bundle.version())
            .u64("pending_approvals", pending as u64);
        out.object("ledger", |out| {
            out.str("path", &ledger.dir().to_string_lossy())
                .u64("records", state.records);
            if let Some(broken) = &state.broken {
                out.str("broken", broken);
            }
        });
        out.raw("sinks", &self.gate.sinks_json());
        out.object("worker", |out| {
            if let Some(link) = self.gate.hub().workers().link() {
                out.u64("pid", u64::from(link.pid));
            }
            out.u64("restarts", self.gate.hub().workers().respawns())
                .raw("confinement", &confinement);
        });
        out.finish()
    }

    /// What the worker says it is confined by.
    async fn confinement(&self) -> Vec<u8> {
        let Some(link) = self.gate.hub().workers().link() else {
            return b"[]".to_vec();
        };
        match link.ask_within(method::CONFINEMENT, b"{}", PATIENCE).await {
            Word::Result(report) => {
                let report = Json::checked_before(&report);
                let list = |key: &str, applied: bool| {
                    report
                        .get(key)
                        .into_iter()
                        .flat_map(Json::items)
                        .map(move |item| measure(item, applied))
                        .collect::<Vec<_>>()
                };
                array(
                    list("applied", true)
                        .into_iter()
                        .chain(list("refused", false)),
                )
            }
            _ => b"[]".to_vec(),
        }
    }

    /// How each sink is doing.
    #[must_use]
    pub fn sinks_json(&self) -> Vec<u8> {
        self.gate.sinks_json()
    }

    #[must_use]
    pub fn servers_json(&self) -> Vec<u8> {
        let catalog = self.gate.catalog();
        array(self.gate.hub().upstreams().iter().map(|upstream| {
            let (spec, face) = (upstream.spec(), upstream.face());
            let waiting = face
                .filter(|_| spec.approved().is_some())
                .map_or(0, |face| self.gate.pins().quarantined(&spec, &face));
            let is_open_world = catalog.is_open_world(&spec.id);
            let shown = server(upstream, catalog.refused_names(), waiting, is_open_world);
            // A program may have told its own secret in its last words.
            self.gate.inner().without_secrets(&shown).unwrap_or(shown)
        }))
    }

    /// Every tool of every server, those that callers are not shown included.
    #[must_use]
    pub fn tools_json(&self) -> Vec<u8> {
        let upstreams = self.gate.hub().upstreams();
        let catalog = self.gate.catalog();
        array(upstreams.iter().flat_map(|upstream| {
            let spec = upstream.spec();
            let tools = upstream
                .face()
                .map(|face| face.tools.clone())
                .unwrap_or_default();
            let (pins, catalog) = (Arc::clone(self.gate.pins()), Arc::clone(&catalog));
            tools.into_iter().map(move |tool| {
                let mut out = Object::new();
                out.str("name", &View::Double.expose(&spec.id, &tool.name))
                    .str("server", spec.id.as_str())
                    .str("original", &tool.name);
                if let Some(text) = Json::checked_before(&tool.raw)
                    .get("description")
                    .and_then(Json::as_str)
                {
                    out.str("description", &text);
                }
                let permission = spec.rule(&tool.name).permission;
                let is_approved = pins.standing(&spec, Kind::Tool, &tool.name, &tool.definition)
                    == Standing::Approved;
                let (effect, source) = pins.effect_of(&spec, &tool.name);
                out.str("permission", permission.as_str());
                out.str("effect", effect.as_str())
                    .str("effect_from", source.as_str());
                out.bool("open_world", catalog.is_open_world(&spec.id));
                out.str("admission", spec.admission().as_str());
                out.bool("quarantined", spec.approved().is_some() && !is_approved);
                let left_out = catalog.left_out(&spec.id, &tool);
                if let Some(reason) = left_out {
                    out.str("left_out", reason);
                }
                let may_be_shown =
                    is_approved && left_out.is_none() && permission != policy::Permission::Blocked;
                out.bool("shown", spec.approved().is_some() && may_be_shown);
                out.finish()
            })
        }))
    }

    /// Tries a server again now, however often it has failed.
    pub fn retry(&self, id: &ServerId) -> Result<(), String> {
        let upstream = self
            .gate
            .hub()
            .upstream(id)
            .ok_or_else(|| format!("no server `{id}`"))?;
        let status = upstream.status.borrow().as_str();
        if matches!(status, "disabled" | "blocked" | "skipped") {
            return Err(format!("server `{id}` is {status}"));
        }
        self.gate.record_change("server.retry", id.as_str())?;
        upstream.retry.notify_one();
        Ok(())
    }

    /// Reads the configuration again; a bad one changes nothing. Returns what was applied.
    pub fn reload(&self) -> Result<String, String> {
        self.gate.reload()
    }
}

/// The worker says `name: applied (detail)` or `name: refused (reason)`.
fn measure(item: Json<'_>, applied: bool) -> Vec<u8> {
    let text = item.as_str().unwrap_or_default();
    let (name, rest) = text.split_once(": ").unwrap_or((&text, ""));
    let detail = rest.split_once(" (").map_or(rest, |(_, detail)| {
        detail.strip_suffix(')').unwrap_or(detail)
    });
    let mut out = Object::new();
    out.str("name", name)
        .bool("applied", applied)
        .str("detail", detail);
    out.finish()
}

fn server(
    upstream: &Arc<Upstream>,
    refused: &[RefusedName],
    quarantined: usize,
    is_open_world: bool,
) -> Vec<u8> {
    let spec = upstream.spec();
    let status = upstream.status.borrow().clone();
    let face = upstream.face();
    let mut out = Object::new();
    out.str("id", spec.id.as_str())
        .str("state", status.as_str());
    out.str(
        "transport",
        match &spec.transport {
            Transport::Stdio { .. } => "stdio",
            Transport::Http {
                kind: HttpKind::Sse,
                ..
            } => "sse",
            Transport::Http { .. } => "http",
            Transport::Nothing => "none",
        },
    );
    if let Some(level) = spec.classification {
        out.str("classification", level.as_str());
    }
    out.str("trust", spec.state().as_str());
    if let Some(reason) = &spec.blocked {
        out.str("blocked", reason);
    }
    if quarantined > 0 {
        out.u64("quarantined", quarantined as u64);
    }
    pins::open_world(&mut out, &spec, face.as_deref(), is_open_world);
    if let (Some(face), Status::Connected) = (&face, &status) {
        out.str("protocol", &face.protocol);
    }
    let count = |pick: fn(&Face) -> usize| face.as_deref().map_or(0, pick) as u64;
    out.u64("tools", count(|face| face.tools.len()));
    out.u64(
        "resources",
        count(|face| face.resources.len() + face.templates.len()),
    );
    out.u64("prompts", count(|face| face.prompts.len()));
    match &status {
        Status::Connecting { attempt } => {
            out.u64("attempt", u64::from(*attempt));
        }
        Status::Disconnected {
            error,
            attempt,
            retry_at,
        } => {
            let wait = retry_at.saturating_duration_since(std::time::Instant::now());
            out.u64("attempt", u64::from(*attempt)).u64(
                "next_retry_ms",
                u64::try_from(wait.as_millis()).unwrap_or(0),
            );
            out.str("last_error", error);
        }
        Status::Failed { error } => {
            out.str("last_error", error);
        }
        Status::Skipped { reason } => {
            out.str("last_error", reason);
        }
        Status::Connected | Status::Disabled | Status::Blocked => {}
    }
    let stderr = upstream.stderr_tail();
    if !stderr.is_empty() && !matches!(status, Status::Connected) {
        out.str("stderr", &stderr);
    }
    if matches!(spec.transport, Transport::Stdio { .. }) {
        out.str("confined", "own process group, cleared environment");
    }
    let mut remarks = face.map(|face| face.remarks.clone()).unwrap_or_default();
    let refused = refused.iter().filter(|name| name.server == spec.id);
    remarks.extend(refused.map(|name| {
        format!(
            "`{}` is left out: {}",
            audit::printable(&name.name),
            name.reason
        )
    }));
    if !remarks.is_empty() {
        out.raw(
            "remarks",
            &array(remarks.iter().map(|remark| wire::write::quoted(remark))),
        );
    }
    out.finish()
}
