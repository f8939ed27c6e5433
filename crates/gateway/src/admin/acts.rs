//! What an operator changes: server states, definitions, sessions, approvals. Each is on record, with who and why, before it holds.

use std::{collections::BTreeMap, sync::Arc};

use api::{Kind, Problem, Role};
use callers::ForGate;
use state::Approval;
use upstreams::{
    catalog::Face,
    pins::{Chosen, Who},
};
use vocab::{Integrity, Label, Level, Mark, ServerId};
use wire::Json;

use super::Admin;
use crate::{Caller, Edit, offers::Offer, problem, settings::ServerSpec};

/// What a lasting yes would cover, in words that fool no terminal.
fn covers(offer: &Offer) -> String {
    let aims = audit::printable(&offer.aims.in_words().join(", "));
    format!("`{}` of server `{}` with {aims}", offer.tool, offer.server)
}

fn no_caller(name: &str) -> Problem {
    let text = format!("there is no caller `{name}`");
    Problem::new(Kind::NotFound, "no_such_caller", text)
}

impl Admin {
    /// UNTRUSTED to CLASSIFIED, or another level. The first time, the definitions that the operator was `shown` are approved with it, or
    /// those that the server shows now where they do not say what they were shown. A server that shows none yet has none approved: what
    /// it shows later waits for a person.
    pub async fn classify(
        &self,
        who: &Caller,
        id: &ServerId,
        level: Level,
        shown: Option<BTreeMap<String, String>>,
        reason: &str,
    ) -> Result<api::ServerChange, Problem> {
        let is_first = !self.gate.pins().knows(id);
        let upstream = self.upstream(id)?;
        // Approved before it is classified, so that nothing is quarantined in between.
        let approved = match upstream.face().filter(|_| is_first || shown.is_some()) {
            Some(face) => {
                self.checked(reason)?;
                let now = self
                    .shown_now(&upstream.spec(), &face)
                    .await
                    .unwrap_or(face);
                self.approve(
                    who,
                    &upstream.spec(),
                    now,
                    Chosen {
                        names: Vec::new(),
                        seen: shown,
                    },
                    reason,
                )
                .await?
            }
            None => 0,
        };
        let (gate, server) = (self.gate.clone(), id.clone());
        let withheld = tokio::task::spawn_blocking(move || gate.pins().withhold(&server));
        withheld.await.map_err(Problem::broken)??;
        let edit = Edit::Classify {
            id: id.clone(),
            level,
        };
        let state = format!("CLASSIFIED {level}");
        let changed = self.edit(who, &state, reason, edit).await?;
        Ok(api::ServerChange {
            approved: Some(approved as u64),
            ..changed
        })
    }

    /// What a server shows when it is asked again; nothing where it cannot be asked.
    async fn shown_now(&self, spec: &ServerSpec, before: &Arc<Face>) -> Option<Arc<Face>> {
        self.gate
            .hub()
            .look_again(spec, std::time::Duration::ZERO)
            .await
            .ok()?;
        Some(
            self.gate
                .hub()
                .upstream(&spec.id)?
                .face()
                .unwrap_or_else(|| Arc::clone(before)),
        )
    }

    /// BLOCKED, which beats everything.
    pub async fn block(
        &self,
        who: &Caller,
        id: &ServerId,
        reason: &str,
    ) -> Result<api::ServerChange, Problem> {
        if reason.trim().is_empty() {
            return Err(Problem::new(
                Kind::InvalidInput,
                "reason_missing",
                "blocking a server needs a reason",
            ));
        }
        self.edit(
            who,
            "BLOCKED",
            reason,
            Edit::Block {
                id: id.clone(),
                reason: reason.to_owned(),
            },
        )
        .await
    }

    /// Back to what its classification says.
    pub async fn unblock(
        &self,
        who: &Caller,
        id: &ServerId,
        reason: &str,
    ) -> Result<api::ServerChange, Problem> {
        self.edit(who, "unblocked", reason, Edit::Unblock { id: id.clone() })
            .await
    }

    /// Adds or removes a server in the person's own file, and takes the file on.
    pub async fn change_connector(
        &self,
        who: &Caller,
        operation: api::Operation,
        name: String,
        given: bytes::Bytes,
    ) -> Result<Vec<u8>, Problem> {
        let row = operation.row();
        self.record(row.name, who, "", |change| change.server = &name)?;
        let answered = self
            .answer_from_files(operation, name.clone(), given)
            .await?;
        match self.reload().await {
            Ok(_) => Ok(answered),
            Err(problem) => {
                // It was on record before it was tried.
                let detail = format!("{} is not in force: {}", row.name, problem.sentence);
                self.record("config.failed", who, "", |change| {
                    change.server = &name;
                    change.detail = &detail;
                })?;
                Err(problem)
            }
        }
    }

    async fn edit(
        &self,
        who: &Caller,
        state: &str,
        reason: &str,
        edit: Edit,
    ) -> Result<api::ServerChange, Problem> {
        let (Edit::Classify { id, .. } | Edit::Block { id, .. } | Edit::Unblock { id }) = &edit;
        if !self.gate.catalog().has_server(id) {
            return Err(Problem::no_server(id.as_str()));
        }
        self.record("server.state", who, reason, |change| {
            change.server = id.as_str();
            change.detail = state;
        })?;
        let gate = self.gate.clone();
        let (edit, id) = (edit.clone(), id.clone());
        // Files are written and read; others' calls go on meanwhile.
        let applied = tokio::task::spawn_blocking(move || {
            gate.edit(&edit)?;
            gate.reload()
        });
        let applied = applied.await.map_err(Problem::broken)?;
        if let Err(problem) = &applied {
            // It was on record before it was tried.
            let detail = format!("{state} is not in force: {}", problem.sentence);
            self.record("config.failed", who, reason, |change| {
                change.server = id.as_str();
                change.detail = &detail;
            })?;
        }
        applied?;
        Ok(api::ServerChange {
            server: id.as_str().to_owned(),
            state: state.to_owned(),
            approved: None,
        })
    }

    /// Approves definitions as the server shows them now: those that were chosen.
    pub async fn approve_definitions(
        &self,
        who: &Caller,
        id: &ServerId,
        chosen: Chosen,
        reason: &str,
    ) -> Result<api::Approved, Problem> {
        let upstream = self.upstream(id)?;
        let spec = upstream.spec();
        if spec.approved().is_none() {
            let state = spec.state().as_str();
            let text = format!(
                "server `{id}` is {state}; classify it first: portcullis servers classify {id} LEVEL"
            );
            return Err(problem::conflict("server_not_classified", text));
        }
        let face = upstream.face().ok_or_else(|| {
            let text = format!("server `{id}` has not shown what it offers yet");
            problem::conflict("server_not_seen", text)
        })?;
        // A person approves what they were shown, not what the server has slipped in since.
        let again = self.gate.hub().look_again(&spec, std::time::Duration::ZERO);
        again.await.map_err(|stop| {
            Problem::new(Kind::Unavailable, "server_unavailable", stop.to_string())
        })?;
        let now = upstream.face().unwrap_or_else(|| Arc::clone(&face));
        if !face.defines_the_same(&now) {
            let text = format!(
                "server `{id}` shows something else now; look again: portcullis servers review {id}"
            );
            return Err(problem::conflict("server_changed", text));
        }
        let count = self.approve(who, &spec, face, chosen, reason).await?;
        Ok(api::Approved {
            server: id.as_str().to_owned(),
            approved: count as u64,
        })
    }

    async fn approve(
        &self,
        who: &Caller,
        spec: &Arc<ServerSpec>,
        face: Arc<Face>,
        chosen: Chosen,
        reason: &str,
    ) -> Result<usize, Problem> {
        let (gate, spec) = (self.gate.clone(), Arc::clone(spec));
        let (caller, reason) = (who.id().to_owned(), self.checked(reason)?.to_owned());
        let approved = tokio::task::spawn_blocking(move || {
            let who = Who {
                caller: &caller,
                reason: &reason,
            };
            let count = gate
                .pins()
                .approve(&spec, &face, &chosen, &who, gate.ledger())?;
            gate.hub().announce(&spec.id);
            Ok::<_, Problem>(count)
        });
        approved.await.map_err(Problem::broken)?
    }

    /// Starts a caller's session clean. Its lineage stays in the ledger; what the label was is archived.
    pub async fn reset_session(
        &self,
        who: &Caller,
        caller: &str,
        reason: &str,
    ) -> Result<api::SessionReset, Problem> {
        let found = self.gate.find_caller(caller);
        let found = found.ok_or_else(|| no_caller(caller))?;
        self.reset(who, &found, reason, "").await
    }

    async fn reset(
        &self,
        who: &Caller,
        found: &Caller,
        reason: &str,
        detail: &str,
    ) -> Result<api::SessionReset, Problem> {
        let session = found.session();
        let (label, head) = (session.mark().to_string(), session.head());
        // What is still on its way is what the new epoch begins with.
        let begins = session.on_its_way().to_string();
        self.record("session.reset", who, reason, |change| {
            change.target = found.id();
            change.label = &label;
            change.label_after = &begins;
            change.call = &head;
            change.detail = detail;
        })?;
        let inner = self.gate.inner();
        let reset = inner
            .state
            .reset(found.id(), session, who.id(), reason, inner.now_ms())
            .await;
        let reset = reset.map_err(|error| problem::state(&error))?;
        found.counts().clear();
        Ok(api::SessionReset {
            caller: found.id().to_owned(),
            was: reset.ended.label.mark.to_string(),
            label: reset.begun.label.mark.to_string(),
            epoch: reset.begun.epoch,
        })
    }

    /// Begins a conversation of a caller with what a person said, or goes on with the one under way. The words come over a road that the
    /// agent does not have: nobody brings words for themselves.
    pub async fn begin_task(
        &self,
        who: &Caller,
        task: &api::Task,
    ) -> Result<api::TaskBegun, Problem> {
        // For a runtime there are the agents that it may run, and nobody else; for whoever belongs to a tenant, that tenant's.
        let is_operator = who.is_operator();
        let may_know = |caller: &Caller| {
            let is_own = caller.tenant() == who.tenant();
            if is_operator {
                is_own || who.tenant().is_none()
            } else {
                is_own && (caller.role() == Role::Client || caller.id() == who.id())
            }
        };
        let found = self.gate.find_caller_for(&task.caller, may_know);
        let found = found.ok_or_else(|| no_caller(&task.caller))?;
        if found.id() == who.id() {
            let text =
                "nobody begins a task of their own; use the credential of whoever runs the agent";
            return Err(Problem::new(Kind::NotAllowed, "own_task", text));
        }
        let session = found.session();
        let before = session.mark().to_string();
        let had_words = self.gate.plans(&found);
        // Held over a reset, so that the new epoch begins with it.
        let raised = task
            .at_least
            .as_deref()
            .map(|label| session.absorb(&self.label_at_least(&found, label)));
        let after = session.mark().to_string();
        // What was said stays on record without its words: who has the text can show that it was this one.
        let words = found.words_in_short(&task.text);
        let epoch = if task.continues {
            let epoch = session.epoch();
            self.record("task.said", who, "", |change| {
                change.target = found.id();
                change.label = &before;
                change.label_after = &after;
                change.detail = &words;
            })?;
            epoch
        } else {
            let begun = self.reset(who, &found, "a task begins", &words).await?;
            begun.epoch
        };
        if let Some(raised) = raised {
            let kept = self.gate.inner().state.keep(found.id(), raised).await;
            drop(kept.map_err(|error| problem::state(&error))?);
        }
        // Another task may have begun meanwhile: these words are not said in it.
        let has_words = found.conversation(|conversation| {
            (conversation.epoch() == epoch).then(|| {
                conversation.say(&task.text);
                let index = conversation.index();
                (index.has_words(), index.save())
            })
        });
        let (has_words, saved) = has_words.ok_or_else(|| {
            let text = "another conversation of this caller began meanwhile; begin the task again";
            problem::conflict("another_task_began", text.to_owned())
        })?;
        // Without them more is asked after a restart, and nothing else happens.
        let (said, id) = (self.gate.inner().said.clone(), found.id().to_owned());
        let kept = tokio::task::spawn_blocking(move || said.keep(&id, epoch, &saved)).await;
        if let Err(error) = kept.map_err(Problem::broken)? {
            tracing::warn!(%error, "what a person said could not be kept for the next start");
        }
        // Its list of tools has the plan, or has it no more.
        if has_words != had_words {
            self.gate
                .hub()
                .tell_sight(found.id(), upstreams::ListKind::Tools);
        }
        // A runtime sees nothing of what its agents have seen.
        let mut begun = api::TaskBegun {
            caller: found.id().to_owned(),
            has_words,
            ..api::TaskBegun::default()
        };
        if is_operator {
            begun.was = Some(before);
            begun.label = Some(found.session().mark().to_string());
            begun.epoch = Some(epoch);
        }
        Ok(begun)
    }

    /// The label that a conversation has at least. One that nobody knows is the highest that the caller can have been shown.
    fn label_at_least(&self, caller: &Caller, label: &str) -> Label {
        let mark = label.parse().unwrap_or_else(|_| {
            let catalog = self.gate.catalog();
            let seen = catalog
                .servers()
                .filter(|spec| caller.sees(spec.tenant.as_deref()));
            let now = self.gate.inner().now();
            let held = now.volumes.all().iter();
            let on_volumes = held.filter(|held| held.is_for(caller)).map(|held| {
                let spec = &held.entry.spec;
                spec.ceiling.max(spec.floor.mark.secrecy)
            });
            let highest = seen
                .filter_map(|spec| spec.classification)
                .chain(on_volumes)
                .max();
            // What the session has seen by now may be what that conversation saw.
            caller.session().mark().join(Mark {
                secrecy: highest.unwrap_or_default(),
                integrity: Integrity::Untrusted,
            })
        });
        Label {
            mark,
            ..Label::default()
        }
    }

    /// Ends a command that runs, with everything in its jail. Its call fails.
    pub fn end_jail(&self, who: &Caller, id: &str, reason: &str) -> Result<String, Problem> {
        if let Some(server) = id.strip_prefix("server-") {
            let text =
                format!("`{server}` is a server; `portcullis servers disable {server}` ends it");
            return Err(problem::conflict("jail_of_a_server", text));
        }
        let commands = &self.gate.inner().commands;
        let found = commands
            .running()
            .into_iter()
            .find(|command| id == format!("command-{}", command.id))
            .ok_or_else(|| {
                let text = format!("nothing runs in a jail `{id}`; it may have ended");
                Problem::new(Kind::NotFound, "no_such_jail", text)
            })?;
        let detail = format!("{id} of {}", found.caller);
        self.record("command.ended", who, reason, |change| {
            change.detail = &detail;
        })?;
        commands.stop(found.id);
        Ok(format!("{id} is being ended"))
    }

    /// Empties the home of a stdio server's own, and starts the server anew.
    pub fn reinstall(&self, who: &Caller, id: &ServerId, reason: &str) -> Result<String, Problem> {
        let upstream = self.upstream(id)?;
        let status = upstream.status.borrow().as_str();
        if matches!(status, "disabled" | "blocked" | "skipped") {
            let text = format!("server `{id}` is {status}");
            return Err(problem::conflict("server_not_wanted", text));
        }
        if !upstream.has_home() {
            let text = format!("server `{id}` has no home of its own: it runs in no jail");
            return Err(problem::conflict("server_without_home", text));
        }
        self.record("server.reinstall", who, reason, |change| {
            change.server = id.as_str();
        })?;
        upstream.reinstall();
        Ok(format!(
            "the home of {id} is emptied, and it is started anew"
        ))
    }

    /// A person's word on an open approval. Nobody approves their own call.
    pub async fn answer_approval(
        &self,
        who: &Caller,
        id: &str,
        approve: bool,
        (reason, lasts): (&str, bool),
    ) -> Result<api::Answered, Problem> {
        let inner = self.gate.inner();
        let open = inner.state.get(id).await;
        let open = open
            .map_err(|error| problem::state(&error))?
            .ok_or_else(|| problem::no_approval(id))?;
        if approve && open.caller == who.id() && !inner.rules().approvals.in_client {
            let text = "a credential cannot approve its own call; use another operator's, or set `approvals.in_client`";
            return Err(Problem::new(Kind::NotAllowed, "own_approval", text));
        }
        let offer = match approve && lasts {
            true => Some(self.offer(id)?),
            false => None,
        };
        let detail = offer
            .as_ref()
            .map(|offer| format!("lasts for the conversation: {}", covers(offer)))
            .unwrap_or_default();
        let reason = self.checked(reason)?;
        let answered = inner
            .answer_approval(id, approve, (who.id(), reason), &detail)
            .await?;
        if let Some(offer) = offer {
            let (caller, epoch) = (offer.caller.clone(), offer.epoch);
            let lasting = offer.taken(id, who.id(), inner.now_ms());
            caller.conversation(|conversation| {
                // A conversation that began meanwhile is another one.
                if conversation.epoch() == epoch {
                    conversation.add_lasting(lasting);
                }
            });
        }
        Ok(self.approval(&answered))
    }

    /// What of an answer to this question could last.
    fn offer(&self, id: &str) -> Result<Offer, Problem> {
        let offer = self.gate.inner().offers.get(id);
        let offer = offer.filter(|offer| {
            let epoch = offer.epoch;
            offer
                .caller
                .conversation(|conversation| conversation.epoch() == epoch)
        });
        offer.ok_or_else(|| {
            let text = "no answer to this question lasts: nobody waits for it, a policy asks each time, or nothing in the call says whom or what; answer this call alone";
            problem::conflict("nothing_lasts", text.to_owned())
        })
    }

    /// A reason is kept and shown for good, so it holds no secret.
    fn checked<'a>(&self, reason: &'a str) -> Result<&'a str, Problem> {
        if reason.chars().count() > api::MAX_REASON {
            let text = format!("a reason has at most {} characters", api::MAX_REASON);
            return Err(Problem::invalid(text));
        }
        match self.gate.without_secrets(reason) {
            Some(_) => Err(Problem::new(
                Kind::InvalidInput,
                "reason_has_secret",
                "the reason holds a secret, or what looks like one; write it without",
            )),
            None => Ok(reason),
        }
    }

    /// Writes down who does what to which, and why; refuses what cannot be written down.
    pub(super) fn record<'a>(
        &self,
        action: &'a str,
        who: &'a Caller,
        reason: &'a str,
        fill: impl FnOnce(&mut audit::Change<'a>),
    ) -> Result<(), Problem> {
        let mut change = audit::Change {
            action,
            caller: who.id(),
            user: who.user().unwrap_or_default(),
            reason: self.checked(reason)?,
            ..audit::Change::default()
        };
        fill(&mut change);
        self.gate
            .ledger()
            .change(&change)
            .map(drop)
            .map_err(|error| problem::ledger(&error))
    }

    /// What each caller's session has seen.
    #[must_use]
    pub fn sessions(&self) -> Vec<api::Session> {
        let callers = self.gate.callers();
        let shown = callers.iter().map(|caller| {
            let session = caller.session();
            let label = session.label();
            let origins = label.origins.iter().map(|id| id.as_str().to_owned());
            api::Session {
                caller: caller.id().to_owned(),
                name: caller.name().to_owned(),
                user: caller.user().map(str::to_owned),
                label: label.mark.to_string(),
                origins: origins.collect(),
                epoch: session.epoch(),
                head: Some(session.head().to_string()),
                calls: session.calls(),
            }
        });
        shown.collect()
    }

    /// The open approvals, or all that are kept.
    pub async fn approvals(&self, all: bool) -> Result<Vec<api::Approval>, Problem> {
        let inner = self.gate.inner();
        let approvals = inner.state.approvals(all, inner.now_ms()).await;
        let approvals = approvals.map_err(|error| problem::state(&error))?;
        let shown = approvals.iter().map(|approval| self.approval(approval));
        Ok(shown.collect())
    }

    /// Every definition of a server, and how it compares with what was approved.
    pub fn definitions(&self, id: &ServerId) -> Result<api::Review, Problem> {
        let upstream = self.upstream(id)?;
        let is_open_world = self.gate.catalog().is_open_world(id);
        let face = upstream.face();
        let pins = self.gate.pins();
        Ok(pins.review(&upstream.spec(), face.as_deref(), is_open_world))
    }

    /// Every stage's verdict on a call, recorded or imagined. Reaches no server and changes nothing.
    pub async fn explain(&self, question: Json<'_>) -> Result<api::Explanation, Problem> {
        crate::explain::explain(&self.gate, question).map_err(Problem::invalid)
    }

    /// An approval with everything its answer is bound to. The arguments are escaped, so that no terminal or page is fooled by them.
    fn approval(&self, approval: &Approval) -> api::Approval {
        let is_answered = !approval.answered_by.is_empty();
        let mut shown = api::Approval {
            id: approval.id.clone(),
            state: approval.state.as_str().to_owned(),
            caller: approval.caller.clone(),
            name: approval.caller_name.clone(),
            action: approval.action.clone(),
            server: approval.server.clone(),
            tool: approval.target.clone(),
            definition: approval.definition.clone(),
            arguments: audit::printable(&approval.arguments),
            label: approval.label.clone(),
            lineage: approval.lineage.clone(),
            why: approval.why.clone(),
            bundle: approval.bundle.clone(),
            awaited: self.gate.inner().awaited.has(&approval.id),
            may_last: self
                .gate
                .inner()
                .offers
                .get(&approval.id)
                .map(|offer| covers(&offer)),
            asked_ms: approval.asked_ms,
            expires_ms: approval.expires_ms,
            answered_by: is_answered.then(|| approval.answered_by.clone()),
            reason: is_answered.then(|| approval.reason.clone()),
            answered_ms: is_answered.then_some(approval.answered_ms),
            ..api::Approval::default()
        };
        if let Some(upstream) = ServerId::parse(&approval.server)
            .ok()
            .and_then(|id| self.gate.hub().upstream(&id))
        {
            let spec = upstream.spec();
            let face = upstream.face();
            let tools = face.iter().flat_map(|face| &face.tools);
            let now = tools
                .filter(|tool| tool.name == approval.target)
                .map(|tool| &*tool.definition)
                .next();
            let (effect, source) = self.gate.pins().effect_of(&spec, &approval.target, now);
            shown.effect = effect.as_str().to_owned();
            shown.effect_from = source.as_str().to_owned();
            let said = spec.rule(&approval.target).open_world;
            shown.open_world =
                Some(said.unwrap_or_else(|| self.gate.catalog().is_open_world(&spec.id)));
        }
        shown
    }
}
