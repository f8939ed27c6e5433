//! Servers and their tools as an operator is shown them, in the types of the operator interface. Secrets are taken out by whoever passes
//! them on.

use std::sync::Arc;

use api::ServerState;
use vocab::View;
use wire::Json;

use super::{Hub, Status, Upstream, hints};
use crate::{
    catalog::{Face, RefusedName, definition::Kind},
    logins::LoginState,
    pins::Standing,
    settings::{HttpKind, Transport},
};

impl Hub {
    /// Every server, in the order of the configuration.
    #[must_use]
    pub fn servers(&self) -> Vec<api::Server> {
        let catalog = self.catalog();
        let upstreams = self.upstreams();
        let shown = upstreams.iter().map(|upstream| {
            let (spec, face) = (upstream.spec(), upstream.face());
            let waiting = face
                .filter(|_| spec.approved().is_some())
                .map_or(0, |face| self.pins().quarantined(&spec, &face));
            let is_open_world = catalog.is_open_world(&spec.id);
            let face = upstream.face();
            let why = self
                .pins()
                .why_open_world(&spec, face.as_deref(), is_open_world);
            api::Server {
                open_world: Some(is_open_world),
                open_world_why: Some(why),
                ..server(upstream, catalog.refused_names(), waiting)
            }
        });
        shown.collect()
    }

    /// Every tool of every server, those that callers are not shown included.
    #[must_use]
    pub fn tools(&self) -> Vec<api::Tool> {
        let catalog = self.catalog();
        let pins = self.pins();
        let mut all = Vec::new();
        for upstream in &self.upstreams() {
            let spec = upstream.spec();
            let is_callable = spec.approved().is_some();
            for tool in upstream.face().iter().flat_map(|face| &face.tools) {
                let description = Json::checked_before(&tool.raw)
                    .get("description")
                    .and_then(Json::as_str);
                let permission = spec.rule(&tool.name).permission;
                let is_approved = pins.standing(&spec, Kind::Tool, &tool.name, &tool.definition)
                    == Standing::Approved;
                let (effect, source) = pins.effect_of(&spec, &tool.name, Some(&tool.definition));
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
                    open_world: Some(
                        spec.rule(&tool.name)
                            .open_world
                            .unwrap_or_else(|| catalog.is_open_world(&spec.id)),
                    ),
                    admission: spec.admission().as_str().to_owned(),
                    quarantined: is_callable && !is_approved,
                    left_out: left_out.map(str::to_owned),
                    shown: Some(is_callable && may_be_shown),
                });
            }
        }
        all
    }
}

fn login(state: LoginState) -> api::Login {
    let mut shown = api::Login {
        state: state.as_str().to_owned(),
        ..api::Login::default()
    };
    match state {
        LoginState::Required => {}
        LoginState::LoggedIn { issuer, until } => {
            shown.issuer = Some(issuer);
            shown.until = until;
        }
        LoginState::RenewalFailing { issuer, problem } => {
            shown.issuer = Some(issuer);
            shown.problem = Some(problem);
        }
        LoginState::ScopeRequired { issuer, scopes } => {
            shown.issuer = Some(issuer);
            shown.scopes = Some(scopes);
        }
        LoginState::Expired { problem } => shown.problem = Some(problem),
    }
    shown
}

fn server(upstream: &Arc<Upstream>, refused: &[RefusedName], quarantined: usize) -> api::Server {
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
    let mut shown = api::Server {
        id: spec.id.as_str().to_owned(),
        state: ServerState::named(status.as_str()),
        transport: transport.to_owned(),
        classification: spec.classification.map(|level| level.as_str().to_owned()),
        trust: spec.state().as_str().to_owned(),
        blocked: spec.blocked.clone(),
        quarantined: quarantined as u64,
        protocol: face
            .as_ref()
            .filter(|_| is_connected)
            .map(|face| face.protocol.clone()),
        tools: count(|face| face.tools.len()),
        resources: count(|face| face.resources.len() + face.templates.len()),
        prompts: count(|face| face.prompts.len()),
        stderr: Some(stderr).filter(|text| !text.is_empty() && !is_connected),
        confined: is_program.then(|| upstream.walls().confined),
        remarks: remarks(upstream, refused),
        login: upstream.login().map(login),
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
    let walls = upstream.walls();
    remarks.extend(walls.remarks);
    if walls.is_jail {
        remarks.extend(hints::hints(&upstream.stderr_tail()));
    }
    remarks
}
