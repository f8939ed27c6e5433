//! What an operator can see and do while the gate runs, in the types of the operator interface. Doors only carry it.

mod acts;

use std::{sync::Arc, time::Duration};

use api::{Problem, ServerState};
use vocab::{ServerId, View};
use wire::{Json, worker::method};

use crate::{
    Gate, RefusedName,
    catalog::{Face, definition::Kind},
    link::Word,
    pins::{self, Standing},
    problem,
    settings::{HttpKind, Transport},
    upstream::{Status, Upstream},
};

const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Admin {
    gate: Gate,
}

impl Admin {
    pub(crate) fn new(gate: Gate) -> Self {
        Self { gate }
    }

    /// Everything at a glance.
    pub async fn status(&self) -> api::Status {
        let door = self.gate.settings();
        let inner = self.gate.inner();
        let approvals = inner.state.approvals(false, inner.now_ms()).await;
        let pending = approvals
            .unwrap_or_default()
            .iter()
            .filter(|approval| approval.state == state::ApprovalState::Pending)
            .count();
        let authentication = if door.requires_credential {
            "bearer"
        } else {
            "none"
        };
        let awaiting_restart = self.gate.awaiting_restart();
        api::Status {
            version: door.version.to_owned(),
            pid: std::process::id(),
            url: self.gate.url().to_owned(),
            uptime_ms: self.gate.uptime_ms(),
            authentication: authentication.to_owned(),
            oauth: self.gate.oauth_status(),
            awaiting_restart: awaiting_restart
                .iter()
                .map(|key| (*key).to_owned())
                .collect(),
            servers: self.servers(),
            callers: self.callers(),
            calls: self.gate.counts(),
            bundle: inner.rules().bundle.version().to_owned(),
            pending_approvals: pending as u64,
            ledger: self.ledger(),
            sinks: self.gate.sinks(),
            worker: self.worker().await,
        }
    }

    fn callers(&self) -> Vec<api::Caller> {
        let callers = self.gate.callers();
        callers
            .iter()
            .map(|caller| api::Caller {
                id: caller.id().to_owned(),
                name: caller.name().to_owned(),
                label: caller.session().mark().to_string(),
            })
            .collect()
    }

    fn ledger(&self) -> api::Ledger {
        let ledger = self.gate.ledger();
        let state = ledger.status();
        api::Ledger {
            path: ledger.dir().to_string_lossy().into_owned(),
            records: state.records,
            broken: state.broken.map(|reason| reason.to_string()),
        }
    }

    async fn worker(&self) -> api::Worker {
        let workers = self.gate.hub().workers();
        api::Worker {
            pid: workers.link().map(|link| link.pid),
            restarts: workers.respawns(),
            confinement: self.confinement().await,
        }
    }

    /// What the worker says it is confined by.
    async fn confinement(&self) -> Vec<api::Confinement> {
        let Some(link) = self.gate.hub().workers().link() else {
            return Vec::new();
        };
        let Word::Result(report) = link.ask_within(method::CONFINEMENT, b"{}", PATIENCE).await
        else {
            return Vec::new();
        };
        let report = Json::checked_before(&report);
        let list = |key: &str, applied: bool| {
            let items = report.get(key).into_iter().flat_map(Json::items);
            items.map(move |item| measure(item, applied))
        };
        list("applied", true)
            .chain(list("refused", false))
            .collect()
    }

    /// How each sink is doing.
    #[must_use]
    pub fn sinks(&self) -> Vec<api::Sink> {
        self.gate.sinks()
    }

    #[must_use]
    pub fn servers(&self) -> Vec<api::Server> {
        let catalog = self.gate.catalog();
        let upstreams = self.gate.hub().upstreams();
        let shown = upstreams.iter().map(|upstream| {
            let (spec, face) = (upstream.spec(), upstream.face());
            let waiting = face
                .filter(|_| spec.approved().is_some())
                .map_or(0, |face| self.gate.pins().quarantined(&spec, &face));
            let is_open_world = catalog.is_open_world(&spec.id);
            let shown = server(upstream, catalog.refused_names(), waiting, is_open_world);
            self.without_secrets(shown)
        });
        shown.collect()
    }

    /// A program may have told its own secret in its last words.
    fn without_secrets(&self, mut server: api::Server) -> api::Server {
        let texts = [
            &mut server.protocol,
            &mut server.blocked,
            &mut server.open_world_why,
            &mut server.last_error,
            &mut server.stderr,
        ];
        let remarks = server.remarks.iter_mut();
        for text in texts.into_iter().flatten().chain(remarks) {
            if let Some(clean) = self.gate.without_secrets(text) {
                *text = clean;
            }
        }
        server
    }

    /// Every tool of every server, those that callers are not shown included.
    #[must_use]
    pub fn tools(&self) -> Vec<api::Tool> {
        let catalog = self.gate.catalog();
        let pins = self.gate.pins();
        let mut all = Vec::new();
        for upstream in self.gate.hub().upstreams().iter() {
            let spec = upstream.spec();
            let is_callable = spec.approved().is_some();
            for tool in upstream.face().iter().flat_map(|face| &face.tools) {
                let description = Json::checked_before(&tool.raw)
                    .get("description")
                    .and_then(Json::as_str);
                let permission = spec.rule(&tool.name).permission;
                let is_approved = pins.standing(&spec, Kind::Tool, &tool.name, &tool.definition)
                    == Standing::Approved;
                let (effect, source) = pins.effect_of(&spec, &tool.name);
                let left_out = catalog.left_out(&spec.id, tool);
                let may_be_shown =
                    is_approved && left_out.is_none() && permission != policy::Permission::Blocked;
                all.push(api::Tool {
                    name: View::Double.expose(&spec.id, &tool.name),
                    server: spec.id.as_str().to_owned(),
                    original: tool.name.clone(),
                    description: description.map(|text| text.into_owned()),
                    permission: permission.as_str().to_owned(),
                    effect: effect.as_str().to_owned(),
                    effect_from: source.as_str().to_owned(),
                    open_world: Some(catalog.is_open_world(&spec.id)),
                    admission: spec.admission().as_str().to_owned(),
                    quarantined: is_callable && !is_approved,
                    left_out: left_out.map(str::to_owned),
                    shown: Some(is_callable && may_be_shown),
                });
            }
        }
        all
    }

    /// Tries a server again now, however often it has failed.
    pub fn retry(&self, id: &ServerId) -> Result<(), Problem> {
        let upstream = self.upstream(id)?;
        let status = upstream.status.borrow().as_str();
        if matches!(status, "disabled" | "blocked" | "skipped") {
            let text = format!("server `{id}` is {status}");
            return Err(problem::conflict("server_not_wanted", text));
        }
        self.gate.record_change("server.retry", id.as_str())?;
        upstream.retry.notify_one();
        Ok(())
    }

    /// What the files of the home say. They are read aside: others' calls go on meanwhile.
    pub async fn answer_from_files(
        &self,
        operation: api::Operation,
        name: String,
        input: bytes::Bytes,
    ) -> Result<Vec<u8>, Problem> {
        let answers = self.gate.file_answers()?;
        let readers = &self.gate.inner().readers;
        let answered = readers.run(move || answers(operation, &name, &input)).await;
        answered.map_err(Problem::broken)?
    }

    fn upstream(&self, id: &ServerId) -> Result<Arc<Upstream>, Problem> {
        let found = self.gate.hub().upstream(id);
        found.ok_or_else(|| Problem::no_server(id.as_str()))
    }

    /// Reads the configuration again; a bad one changes nothing. Returns what was applied.
    pub fn reload(&self) -> Result<String, Problem> {
        self.gate.reload()
    }
}

/// The worker says `name: applied (detail)` or `name: refused (reason)`.
fn measure(item: Json<'_>, applied: bool) -> api::Confinement {
    let text = item.as_str().unwrap_or_default();
    let (name, rest) = text.split_once(": ").unwrap_or((&text, ""));
    let detail = rest.split_once(" (").map_or(rest, |(_, detail)| {
        detail.strip_suffix(')').unwrap_or(detail)
    });
    api::Confinement {
        name: name.to_owned(),
        applied,
        detail: detail.to_owned(),
    }
}

fn server(
    upstream: &Arc<Upstream>,
    refused: &[RefusedName],
    quarantined: usize,
    is_open_world: bool,
) -> api::Server {
    let spec = upstream.spec();
    let status = upstream.status.borrow().clone();
    let face = upstream.face();
    let is_connected = matches!(status, Status::Connected);
    let transport = match &spec.transport {
        Transport::Stdio { .. } => "stdio",
        Transport::Http {
            kind: HttpKind::Sse,
            ..
        } => "sse",
        Transport::Http { .. } => "http",
        Transport::Nothing => "none",
    };
    let is_program = matches!(spec.transport, Transport::Stdio { .. });
    let stderr = upstream.stderr_tail();
    let count = |pick: fn(&Face) -> usize| face.as_deref().map_or(0, pick) as u64;
    let why = pins::why_open_world(&spec, face.as_deref(), is_open_world);
    let mut shown = api::Server {
        id: spec.id.as_str().to_owned(),
        state: ServerState::named(status.as_str()),
        transport: transport.to_owned(),
        classification: spec.classification.map(|level| level.as_str().to_owned()),
        trust: spec.state().as_str().to_owned(),
        blocked: spec.blocked.clone(),
        quarantined: quarantined as u64,
        open_world: Some(is_open_world),
        open_world_why: Some(why),
        protocol: face
            .as_ref()
            .filter(|_| is_connected)
            .map(|face| face.protocol.clone()),
        tools: count(|face| face.tools.len()),
        resources: count(|face| face.resources.len() + face.templates.len()),
        prompts: count(|face| face.prompts.len()),
        stderr: Some(stderr).filter(|text| !text.is_empty() && !is_connected),
        confined: is_program.then(|| "own process group, cleared environment".to_owned()),
        remarks: remarks(upstream, refused),
        ..api::Server::default()
    };
    match status {
        Status::Connecting { attempt } => shown.attempt = attempt,
        Status::Disconnected {
            error,
            attempt,
            retry_at,
        } => {
            let wait = retry_at.saturating_duration_since(std::time::Instant::now());
            shown.attempt = attempt;
            shown.next_retry_ms = Some(u64::try_from(wait.as_millis()).unwrap_or(0));
            shown.last_error = Some(error.to_string());
        }
        Status::Failed { error } => shown.last_error = Some(error.to_string()),
        Status::Skipped { reason } => shown.last_error = Some(reason.to_string()),
        Status::Connected | Status::Disabled | Status::Blocked => {}
    }
    shown
}

/// What was found wrong with what a server offers.
fn remarks(upstream: &Upstream, refused: &[RefusedName]) -> Vec<String> {
    let spec = upstream.spec();
    let mut remarks = upstream
        .face()
        .map(|face| face.remarks.clone())
        .unwrap_or_default();
    let refused = refused.iter().filter(|name| name.server == spec.id);
    remarks.extend(refused.map(|name| {
        format!(
            "`{}` is left out: {}",
            audit::printable(&name.name),
            name.reason
        )
    }));
    remarks
}
