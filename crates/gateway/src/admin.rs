//! What an operator can see and do while the gate runs, in the types of the operator interface. Doors only carry it.

mod acts;
mod console;
mod executions;
mod lasting;
mod mounts;
mod volumes;

use std::sync::Arc;

use api::Problem;
use callers::ForGate;
use upstreams::upstream::Upstream;
use vocab::ServerId;

use crate::{Gate, problem};

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
            sinks: self.sinks(),
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
            confinement: workers.confinement().await,
        }
    }

    /// How each sink is doing.
    #[must_use]
    pub fn sinks(&self) -> Vec<api::Sink> {
        self.gate.program().sinks()
    }

    #[must_use]
    pub fn servers(&self) -> Vec<api::Server> {
        let shown = self.gate.hub().servers().into_iter();
        shown.map(|server| self.without_secrets(server)).collect()
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
        let login = server
            .login
            .iter_mut()
            .filter_map(|login| login.problem.as_mut());
        for text in texts.into_iter().flatten().chain(remarks).chain(login) {
            if let Some(clean) = self.gate.without_secrets(text) {
                *text = clean;
            }
        }
        server
    }

    /// The programs that run in jails now.
    #[must_use]
    pub fn jails(&self) -> Vec<api::Jail> {
        let servers = self.servers().into_iter();
        let servers = servers
            .filter(|server| server.transport == "stdio" && server.state.as_str() == "connected");
        let mut jails: Vec<api::Jail> = servers
            .map(|server| api::Jail {
                id: format!("server-{}", server.id),
                kind: "server".to_owned(),
                program: "stdio server".to_owned(),
                confined: server.confined.unwrap_or_default(),
                of: server.id,
                pid: None,
                running_ms: None,
            })
            .collect();
        let commands = self.gate.inner().commands.running().into_iter();
        jails.extend(commands.map(|command| {
            api::Jail {
                id: format!("command-{}", command.id),
                kind: "command".to_owned(),
                of: command.caller,
                program: self
                    .gate
                    .without_secrets(&command.command)
                    .unwrap_or(command.command),
                confined: "no network; writes its caller's workspace".to_owned(),
                pid: Some(command.pid),
                running_ms: Some(
                    u64::try_from(command.since.elapsed().as_millis()).unwrap_or(u64::MAX),
                ),
            }
        }));
        jails
    }

    /// Every tool of every server, those that callers are not shown included.
    #[must_use]
    pub fn tools(&self) -> Vec<api::Tool> {
        self.gate.hub().tools()
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
        let program = Arc::clone(self.gate.program());
        let readers = &self.gate.inner().readers;
        let answered = readers
            .run(move || program.answer(operation, &name, &input))
            .await;
        answered.map_err(Problem::broken)?
    }

    fn upstream(&self, id: &ServerId) -> Result<Arc<Upstream>, Problem> {
        let found = self.gate.hub().upstream(id);
        found.ok_or_else(|| Problem::no_server(id.as_str()))
    }

    /// The same in the words of host programs.
    pub async fn reload_config(&self) -> Result<api::Reloaded, Problem> {
        let applied = self.reload().await.map_err(|problem| Problem {
            kind: api::Kind::Broken,
            ..problem
        })?;
        Ok(api::Reloaded {
            success: true,
            reloaded: true,
            message: applied,
            ..api::Reloaded::default()
        })
    }

    /// Reads the configuration again; a bad one changes nothing. Returns what was applied. Files are read aside: others' calls go on
    /// meanwhile.
    pub async fn reload(&self) -> Result<String, Problem> {
        let gate = self.gate.clone();
        let applied = tokio::task::spawn_blocking(move || gate.reload());
        applied.await.map_err(Problem::broken)?
    }
}
