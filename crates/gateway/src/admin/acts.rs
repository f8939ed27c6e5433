//! What an operator changes: server states, definitions, sessions, approvals. Each is on record, with who and why, before it holds.

use std::{collections::BTreeMap, sync::Arc};

use state::Approval;
use vocab::{Level, ServerId};
use wire::{Json, write::Object};

use super::{Admin, array};
use crate::{
    Caller, Edit,
    catalog::Face,
    pins::{Chosen, Who},
    settings::ServerSpec,
};

/// The longest reason that is recorded.
const MAX_REASON: usize = 1000;

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
    ) -> Result<Vec<u8>, String> {
        let is_first = !self.gate.pins().knows(id);
        let upstream = self
            .gate
            .hub()
            .upstream(id)
            .ok_or_else(|| format!("there is no server `{id}`"))?;
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
        withheld.await.map_err(|error| error.to_string())??;
        self.edit(
            who,
            &format!("CLASSIFIED {level}"),
            reason,
            Edit::Classify {
                id: id.clone(),
                level,
            },
        )
        .await?;
        let mut out = Object::new();
        out.str("server", id.as_str())
            .str("state", &format!("CLASSIFIED {level}"))
            .u64("approved", approved as u64);
        Ok(out.finish())
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
    ) -> Result<Vec<u8>, String> {
        if reason.trim().is_empty() {
            return Err("blocking a server needs a reason".into());
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
    ) -> Result<Vec<u8>, String> {
        self.edit(who, "unblocked", reason, Edit::Unblock { id: id.clone() })
            .await
    }

    async fn edit(
        &self,
        who: &Caller,
        state: &str,
        reason: &str,
        edit: Edit,
    ) -> Result<Vec<u8>, String> {
        let (Edit::Classify { id, .. } | Edit::Block { id, .. } | Edit::Unblock { id }) = &edit;
        if !self.gate.catalog().has_server(id) {
            return Err(format!("there is no server `{id}`"));
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
        applied.await.map_err(|error| error.to_string())??;
        let mut out = Object::new();
        out.str("server", id.as_str()).str("state", state);
        Ok(out.finish())
    }

    /// Approves definitions as the server shows them now: those that were chosen.
    pub async fn approve_definitions(
        &self,
        who: &Caller,
        id: &ServerId,
        chosen: Chosen,
        reason: &str,
    ) -> Result<Vec<u8>, String> {
        let upstream = self
            .gate
            .hub()
            .upstream(id)
            .ok_or_else(|| format!("there is no server `{id}`"))?;
        let spec = upstream.spec();
        if spec.approved().is_none() {
            let state = spec.state().as_str();
            return Err(format!(
                "server `{id}` is {state}; classify it first: portcullis servers classify {id} LEVEL"
            ));
        }
        let face = upstream
            .face()
            .ok_or_else(|| format!("server `{id}` has not shown what it offers yet"))?;
        // A person approves what they were shown, not what the server has slipped in since.
        self.gate
            .hub()
            .look_again(&spec, std::time::Duration::ZERO)
            .await
            .map_err(|stop| stop.to_string())?;
        let now = upstream.face().unwrap_or_else(|| Arc::clone(&face));
        if !face.defines_the_same(&now) {
            return Err(format!(
                "server `{id}` shows something else now; look again: portcullis servers review {id}"
            ));
        }
        let count = self.approve(who, &spec, face, chosen, reason).await?;
        let mut out = Object::new();
        out.str("server", id.as_str()).u64("approved", count as u64);
        Ok(out.finish())
    }

    async fn approve(
        &self,
        who: &Caller,
        spec: &Arc<ServerSpec>,
        face: Arc<Face>,
        chosen: Chosen,
        reason: &str,
    ) -> Result<usize, String> {
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
            Ok::<_, String>(count)
        });
        approved.await.map_err(|error| error.to_string())?
    }

    /// Starts a caller's session clean. Its lineage stays in the ledger; what the label was is archived.
    pub async fn reset_session(
        &self,
        who: &Caller,
        caller: &str,
        reason: &str,
    ) -> Result<Vec<u8>, String> {
        let found = self
            .gate
            .find_caller(caller)
            .ok_or_else(|| format!("there is no caller `{caller}`"))?;
        let session = found.session();
        let (label, head) = (session.mark().to_string(), session.head());
        // What is still on its way is what the new epoch begins with.
        let begins = session.on_its_way().to_string();
        self.record("session.reset", who, reason, |change| {
            change.target = found.id();
            change.label = &label;
            change.label_after = &begins;
            change.call = &head;
        })?;
        let inner = self.gate.inner();
        let reset = inner
            .state
            .reset(found.id(), session, who.id(), reason, inner.now_ms())
            .await;
        let reset = reset.map_err(|error| error.to_string())?;
        found.counts().clear();
        let mut out = Object::new();
        out.str("caller", found.id())
            .str("was", &reset.ended.label.mark.to_string());
        out.str("label", &reset.begun.label.mark.to_string())
            .u64("epoch", reset.begun.epoch);
        Ok(out.finish())
    }

    /// A person's word on an open approval. Nobody approves their own call.
    pub async fn answer_approval(
        &self,
        who: &Caller,
        id: &str,
        approve: bool,
        reason: &str,
    ) -> Result<Vec<u8>, String> {
        let inner = self.gate.inner();
        let open = inner
            .state
            .get(id)
            .await
            .map_err(|error| error.to_string())?;
        let open = open.ok_or_else(|| format!("there is no approval `{id}`"))?;
        if approve && open.caller == who.id() && !inner.rules().approvals.in_client {
            return Err("a credential cannot approve its own call; use another operator's, or set `approvals.in_client`".into());
        }
        let answered = inner
            .answer_approval(id, approve, who.id(), self.checked(reason)?)
            .await?;
        Ok(self.approval_json(&answered))
    }

    /// A reason is kept and shown for good, so it holds no secret.
    fn checked<'a>(&self, reason: &'a str) -> Result<&'a str, String> {
        if reason.chars().count() > MAX_REASON {
            return Err(format!("a reason has at most {MAX_REASON} characters"));
        }
        match self.gate.without_secrets(reason) {
            Some(_) => {
                Err("the reason holds a secret, or what looks like one; write it without".into())
            }
            None => Ok(reason),
        }
    }

    /// Writes down who does what to which, and why; refuses what cannot be written down.
    fn record<'a>(
        &self,
        action: &'a str,
        who: &'a Caller,
        reason: &'a str,
        fill: impl FnOnce(&mut audit::Change<'a>),
    ) -> Result<(), String> {
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
            .map_err(|error| error.to_string())
    }

    /// What each caller's session has seen.
    #[must_use]
    pub fn sessions_json(&self) -> Vec<u8> {
        array(self.gate.callers().into_iter().map(|caller| {
            let session = caller.session();
            let label = session.label();
            let origins: Vec<Vec<u8>> = label
                .origins
                .iter()
                .map(|id| wire::write::quoted(id.as_str()))
                .collect();
            let mut out = Object::new();
            out.str("caller", caller.id()).str("name", caller.name());
            if let Some(user) = caller.user() {
                out.str("user", user);
            }
            out.str("label", &label.mark.to_string())
                .raw("origins", &array(origins.into_iter()));
            out.u64("epoch", session.epoch())
                .str("head", &session.head())
                .u64("calls", session.calls());
            out.finish()
        }))
    }

    /// The open approvals, or all that are kept.
    pub async fn approvals_json(&self, all: bool) -> Result<Vec<u8>, String> {
        let inner = self.gate.inner();
        let approvals = inner
            .state
            .approvals(all, inner.now_ms())
            .await
            .map_err(|error| error.to_string())?;
        Ok(array(
            approvals
                .iter()
                .map(|approval| self.approval_json(approval)),
        ))
    }

    /// Every definition of a server, and how it compares with what was approved.
    pub fn definitions_json(&self, id: &ServerId) -> Result<Vec<u8>, String> {
        let upstream = self
            .gate
            .hub()
            .upstream(id)
            .ok_or_else(|| format!("there is no server `{id}`"))?;
        let is_open_world = self.gate.catalog().is_open_world(id);
        Ok(self.gate.pins().review_json(
            &upstream.spec(),
            upstream.face().as_deref(),
            is_open_world,
        ))
    }

    /// Every stage's verdict on a call, recorded or imagined. Reaches no server and changes nothing.
    pub async fn explain(&self, question: Json<'_>) -> Result<Vec<u8>, String> {
        crate::explain::explain(&self.gate, question)
    }

    /// An approval with everything its answer is bound to. The arguments are escaped, so that no terminal or page is fooled by them.
    fn approval_json(&self, approval: &Approval) -> Vec<u8> {
        let texts = |list: &[String]| array(list.iter().map(|text| wire::write::quoted(text)));
        let mut out = Object::new();
        out.str("id", &approval.id)
            .str("state", approval.state.as_str());
        out.str("caller", &approval.caller)
            .str("name", &approval.caller_name)
            .str("action", &approval.action);
        out.str("server", &approval.server)
            .str("tool", &approval.target)
            .str("definition", &approval.definition);
        out.str("arguments", &audit::printable(&approval.arguments))
            .str("label", &approval.label);
        out.raw("lineage", &texts(&approval.lineage))
            .raw("why", &texts(&approval.why))
            .str("bundle", &approval.bundle);
        if let Some(upstream) = ServerId::parse(&approval.server)
            .ok()
            .and_then(|id| self.gate.hub().upstream(&id))
        {
            let spec = upstream.spec();
            let (effect, source) = self.gate.pins().effect_of(&spec, &approval.target);
            out.str("effect", effect.as_str())
                .str("effect_from", source.as_str());
            out.bool("open_world", self.gate.catalog().is_open_world(&spec.id));
        }
        out.bool("awaited", self.gate.inner().awaited.has(&approval.id));
        out.u64("asked_ms", approval.asked_ms)
            .u64("expires_ms", approval.expires_ms);
        if !approval.answered_by.is_empty() {
            out.str("answered_by", &approval.answered_by)
                .str("reason", &approval.reason)
                .u64("answered_ms", approval.answered_ms);
        }
        out.finish()
    }
}
