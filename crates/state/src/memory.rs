//! A driver that keeps everything in memory, for tests: of what stands above a driver, and of two gates that share one.
//!
//! It outlives no process, so nothing that claims to be durable may be tested with it. Whoever has a clone has the same store, as gates
//! that share a database have.

use std::{
    collections::BTreeMap,
    future::ready,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use vocab::Label;

use crate::{
    Answer, Approval, ApprovalState, Approvals, ArchivedSession, AskOutcome, Executions, FileKey,
    FileLabels, Labels, PersonsAnswer, Placed, Question, SavedExecution, SavedSession, SavedSigned,
    SignedSessions, SignedStatus, StateError, Usage, UsedCalls, VolumeLabels, Workload, Workloads,
    Written,
};

/// The store. A clone is the same one.
#[derive(Debug, Clone, Default)]
pub struct Memory(Arc<Mutex<Kept>>);

#[derive(Debug, Default)]
struct Kept {
    sessions: BTreeMap<String, SavedSession>,
    archive: Vec<ArchivedSession>,
    /// In the order they were asked.
    approvals: Vec<Approval>,
    signed: Vec<SavedSigned>,
    workloads: Vec<Workload>,
    executions: Vec<SavedExecution>,
    /// By execution and tool.
    used: BTreeMap<(String, String), u64>,
    volumes: BTreeMap<String, KeptVolume>,
}

#[derive(Debug, Clone, Default)]
struct KeptVolume {
    root: Option<(u64, u64)>,
    labels: BTreeMap<FileKey, Label>,
}

impl Memory {
    fn kept(&self) -> MutexGuard<'_, Kept> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn answer<'a, T: Send + 'a>(value: T) -> Answer<'a, T> {
    Box::pin(ready(Ok::<T, StateError>(value)))
}

impl Labels for Memory {
    fn is_shared(&self) -> bool {
        true
    }

    fn sessions(&self) -> Answer<'_, Vec<SavedSession>> {
        answer(self.kept().sessions.values().cloned().collect())
    }

    fn session<'a>(&'a self, caller: &'a str) -> Answer<'a, Option<SavedSession>> {
        answer(self.kept().sessions.get(caller).cloned())
    }

    fn raise<'a>(&'a self, session: &'a SavedSession) -> Answer<'a, Written> {
        answer(self.kept().raise(session))
    }

    fn reset<'a>(
        &'a self,
        ended: &'a ArchivedSession,
        begun: &'a SavedSession,
    ) -> Answer<'a, Written> {
        let mut kept = self.kept();
        let saved = kept.sessions.get(&begun.caller).map(|saved| saved.epoch);
        if let Some(saved) = saved.filter(|saved| *saved >= begun.epoch) {
            return answer(Written::NewerIs(saved));
        }
        kept.archive.push(ended.clone());
        answer(kept.raise(begun))
    }

    fn archived_sessions<'a>(
        &'a self,
        caller: Option<&'a str>,
    ) -> Answer<'a, Vec<ArchivedSession>> {
        let mut found = self.kept().archive.clone();
        found.retain(|ended| caller.is_none_or(|caller| ended.session.caller == caller));
        found.sort_by_key(|ended| ended.at_ms);
        answer(found)
    }
}

impl Kept {
    fn raise(&mut self, session: &SavedSession) -> Written {
        match self.sessions.get_mut(&session.caller) {
            Some(saved) if saved.epoch > session.epoch => Written::NewerIs(saved.epoch),
            Some(saved) if saved.epoch == session.epoch => {
                saved.label.join_in(&session.label);
                saved.head.clone_from(&session.head);
                Written::Yes
            }
            _ => {
                self.sessions
                    .insert(session.caller.clone(), session.clone());
                Written::Yes
            }
        }
    }

    fn expire(&mut self, now_ms: u64) -> Vec<Approval> {
        let over = self
            .approvals
            .iter_mut()
            .filter(|approval| approval.state.is_open() && approval.expires_ms <= now_ms);
        over.map(|approval| {
            approval.state = ApprovalState::Expired;
            approval.clone()
        })
        .collect()
    }

    fn place(&mut self, question: &Question) -> Placed {
        let new = &question.approval;
        let is_open = |approval: &&Approval| approval.state.is_open();
        let open = self.approvals.iter().filter(is_open);
        if let Some(approval) = open.clone().find(|open| open.digest == new.digest) {
            return Placed::AlreadyOpen(approval.clone());
        }
        let pending = || {
            let all = self.approvals.iter();
            all.filter(|approval| approval.state == ApprovalState::Pending)
        };
        let own = pending().filter(|approval| approval.caller == new.caller);
        if own.count() >= question.limit_per_caller as usize {
            return Placed::TooManyOfCaller;
        }
        if pending().count() >= question.limit as usize {
            return Placed::TooMany;
        }
        let is_free = |id: &&String| self.approvals.iter().all(|approval| approval.id != **id);
        let Some(id) = question.ids.iter().find(is_free).cloned() else {
            return Placed::NoFreeId;
        };
        let approval = Approval { id, ..new.clone() };
        self.approvals.push(approval.clone());
        Placed::Added(approval)
    }
}

impl Approvals for Memory {
    fn ask<'a>(&'a self, question: &'a Question) -> Answer<'a, AskOutcome> {
        let mut kept = self.kept();
        let expired = kept.expire(question.approval.asked_ms);
        let asked = kept.place(question);
        answer(AskOutcome { expired, asked })
    }

    fn answer<'a>(&'a self, given: PersonsAnswer<'a>) -> Answer<'a, Option<Approval>> {
        let mut kept = self.kept();
        let found = kept.approvals.iter_mut().find(|approval| {
            approval.id == given.id
                && approval.state == ApprovalState::Pending
                && approval.expires_ms > given.now_ms
        });
        answer(found.map(|approval| {
            approval.state = if given.approve {
                ApprovalState::Approved
            } else {
                ApprovalState::Denied
            };
            approval.answered_by = given.who.to_owned();
            approval.answered_ms = given.now_ms;
            approval.reason = given.reason.to_owned();
            approval.clone()
        }))
    }

    fn spend<'a>(&'a self, digest: &'a [u8; 32], now_ms: u64) -> Answer<'a, Option<Approval>> {
        let mut kept = self.kept();
        let found = kept.approvals.iter_mut().find(|approval| {
            approval.digest == *digest
                && approval.state == ApprovalState::Approved
                && approval.expires_ms > now_ms
        });
        answer(found.map(|approval| {
            approval.state = ApprovalState::Used;
            approval.clone()
        }))
    }

    fn expire(&self, now_ms: u64) -> Answer<'_, Vec<Approval>> {
        answer(self.kept().expire(now_ms))
    }

    fn forget_closed(&self, before_ms: u64) -> Answer<'_, ()> {
        self.kept().approvals.retain(|approval| {
            approval.state.is_open() || approval.expires_ms.max(approval.answered_ms) >= before_ms
        });
        answer(())
    }

    fn approval<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Approval>> {
        let kept = self.kept();
        answer(
            kept.approvals
                .iter()
                .find(|approval| approval.id == id)
                .cloned(),
        )
    }

    fn last_approval<'a>(&'a self, digest: &'a [u8; 32]) -> Answer<'a, Option<Approval>> {
        let kept = self.kept();
        let mut newest_first = kept.approvals.iter().rev();
        answer(
            newest_first
                .find(|approval| approval.digest == *digest)
                .cloned(),
        )
    }

    fn approvals(&self) -> Answer<'_, Vec<Approval>> {
        let mut approvals = self.kept().approvals.clone();
        approvals.sort_by_key(|approval| approval.asked_ms);
        answer(approvals)
    }
}

impl SignedSessions for Memory {
    fn begin_signed<'a>(&'a self, new: &'a SavedSigned, forget_before_ms: u64) -> Answer<'a, ()> {
        let mut kept = self.kept();
        let active = kept.signed.iter_mut().filter(|session| {
            session.execution == new.execution && session.status == SignedStatus::Active
        });
        for session in active {
            session.status = SignedStatus::Revoked;
            session.ended_ms = new.created_ms;
            session.reason = "replaced".to_owned();
        }
        kept.signed.push(new.clone());
        let Kept { signed, used, .. } = &mut *kept;
        let is_over = |session: &mut SavedSigned| {
            session.status != SignedStatus::Active && session.ended_ms < forget_before_ms
        };
        let forgotten: Vec<SavedSigned> = signed.extract_if(.., is_over).collect();
        for gone in forgotten {
            if signed.iter().all(|kept| kept.execution != gone.execution) {
                used.retain(|(execution, _), _| *execution != gone.execution);
            }
        }
        answer(())
    }

    fn end_signed<'a>(
        &'a self,
        id: &'a str,
        status: SignedStatus,
        reason: &'a str,
        now_ms: u64,
    ) -> Answer<'a, bool> {
        let mut kept = self.kept();
        let mut active = kept.signed.iter_mut();
        let found =
            active.find(|session| session.id == id && session.status == SignedStatus::Active);
        let is_ended = found.map(|session| {
            session.status = status;
            session.ended_ms = now_ms;
            session.reason = reason.to_owned();
        });
        answer(is_ended.is_some())
    }

    fn signed_sessions(&self) -> Answer<'_, Vec<SavedSigned>> {
        let mut sessions = self.kept().signed.clone();
        sessions.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        answer(sessions)
    }
}

fn is_usable(workload: &Workload, now_ms: u64) -> bool {
    workload.uses_left > 0 && workload.expires_ms > now_ms
}

impl Workloads for Memory {
    fn add_workload<'a>(&'a self, new: &'a Workload) -> Answer<'a, ()> {
        let mut kept = self.kept();
        kept.workloads
            .retain(|workload| workload.uses_left > 0 && workload.expires_ms >= new.created_ms);
        kept.workloads.push(new.clone());
        answer(())
    }

    fn workloads(&self, now_ms: u64) -> Answer<'_, Vec<Workload>> {
        let mut workloads = self.kept().workloads.clone();
        workloads.retain(|workload| is_usable(workload, now_ms));
        answer(workloads)
    }

    fn workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, Option<Workload>> {
        let kept = self.kept();
        let mut usable = kept.workloads.iter();
        answer(
            usable
                .find(|workload| workload.id == id && is_usable(workload, now_ms))
                .cloned(),
        )
    }

    fn use_workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool> {
        let mut kept = self.kept();
        let mut usable = kept.workloads.iter_mut();
        let found = usable.find(|workload| workload.id == id && is_usable(workload, now_ms));
        answer(found.map(|workload| workload.uses_left -= 1).is_some())
    }
}

impl Usage for Memory {
    fn use_calls<'a>(&'a self, used: &'a [UsedCalls]) -> Answer<'a, ()> {
        let mut kept = self.kept();
        for new in used {
            let key = (new.execution.clone(), new.tool.clone());
            let calls = kept.used.entry(key).or_default();
            *calls = (*calls).max(new.calls);
        }
        answer(())
    }

    fn used_calls(&self) -> Answer<'_, Vec<UsedCalls>> {
        let kept = self.kept();
        answer(kept.used.iter().map(used_calls).collect())
    }

    fn used_calls_of<'a>(&'a self, execution: &'a str) -> Answer<'a, Vec<UsedCalls>> {
        let kept = self.kept();
        let of_it = kept.used.iter().filter(|((of, _), _)| of == execution);
        answer(of_it.map(used_calls).collect())
    }
}

impl Executions for Memory {
    fn begin_execution<'a>(
        &'a self,
        new: &'a SavedExecution,
        forget_before_ms: u64,
    ) -> Answer<'a, bool> {
        let mut kept = self.kept();
        kept.executions.retain(|old| {
            (old.ended_ms == 0 || old.ended_ms >= forget_before_ms)
                && old.expires_ms >= forget_before_ms
        });
        let is_free = kept.executions.iter().all(|old| old.id != new.id);
        if is_free {
            kept.executions.push(new.clone());
        }
        answer(is_free)
    }

    fn end_execution<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool> {
        let mut kept = self.kept();
        let mut open = kept.executions.iter_mut().filter(|old| old.ended_ms == 0);
        let found = open.find(|old| old.id == id);
        answer(found.map(|old| old.ended_ms = now_ms.max(1)).is_some())
    }

    fn executions(&self) -> Answer<'_, Vec<SavedExecution>> {
        let mut executions = self.kept().executions.clone();
        executions.sort_by(|a, b| (a.created_ms, &a.id).cmp(&(b.created_ms, &b.id)));
        answer(executions)
    }
}

fn used_calls(((execution, tool), calls): (&(String, String), &u64)) -> UsedCalls {
    UsedCalls {
        execution: execution.clone(),
        tool: tool.clone(),
        calls: *calls,
    }
}

impl FileLabels for Memory {
    fn volume_labels<'a>(&'a self, volume: &'a str) -> Answer<'a, VolumeLabels> {
        let found = self.kept().volumes.get(volume).cloned();
        let KeptVolume { root, labels } = found.unwrap_or_default();
        let labels = labels.into_iter().collect();
        answer(VolumeLabels { root, labels })
    }

    fn settle_volume<'a>(&'a self, volume: &'a str, root: (u64, u64)) -> Answer<'a, ()> {
        let mut kept = self.kept();
        kept.volumes.entry(volume.to_owned()).or_default().root = Some(root);
        answer(())
    }

    fn raise_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()> {
        let mut kept = self.kept();
        let known = kept.volumes.entry(volume.to_owned()).or_default();
        known.labels.entry(key).or_default().join_in(label);
        answer(())
    }

    fn replace_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()> {
        let mut kept = self.kept();
        let known = kept.volumes.entry(volume.to_owned()).or_default();
        known.labels.insert(key, label.clone());
        answer(())
    }

    fn forget_files<'a>(&'a self, volume: &'a str, files: &'a [(u64, u64)]) -> Answer<'a, ()> {
        if let Some(known) = self.kept().volumes.get_mut(volume) {
            known
                .labels
                .retain(|key, _| !files.contains(&(key.inode, key.birth)));
        }
        answer(())
    }
}

/// Changes that no driver may make, for drivers that are wrong on purpose.
#[cfg(test)]
impl Memory {
    pub(crate) fn replace(&self, session: &SavedSession) {
        let mut kept = self.kept();
        kept.sessions
            .insert(session.caller.clone(), session.clone());
    }

    pub(crate) fn archive(&self, ended: &ArchivedSession) {
        self.kept().archive.push(ended.clone());
    }

    pub(crate) fn revive(&self, id: &str) {
        let mut kept = self.kept();
        for session in kept.signed.iter_mut().filter(|session| session.id == id) {
            session.status = SignedStatus::Active;
        }
    }

    pub(crate) fn revive_execution(&self, id: &str) {
        let mut kept = self.kept();
        for old in kept.executions.iter_mut().filter(|old| old.id == id) {
            old.ended_ms = 0;
        }
    }

    pub(crate) fn count(&self, used: &UsedCalls) {
        let key = (used.execution.clone(), used.tool.clone());
        self.kept().used.insert(key, used.calls);
    }
}
