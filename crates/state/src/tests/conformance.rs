//! The suite on the drivers there are, and on drivers that are wrong on purpose.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use vocab::Label;

use crate::{
    Answer, Approval, Approvals, ArchivedSession, AskOutcome, Executions, FileKey, FileLabels,
    Labels, Memory, PersonsAnswer, Question, SavedExecution, SavedSession, SavedSigned,
    SignedSessions, SignedStatus, Sqlite, Store, Usage, UsedCalls, VolumeLabels, Workload,
    Workloads, Written,
    conformance::{Opening, RULES, Subject, check},
};

struct InFile(tempfile::TempDir);

impl Subject for InFile {
    fn open(&self) -> Opening<'_> {
        Box::pin(async {
            let file = self.0.path().join("state.db");
            Arc::new(Sqlite::open(&file).await.unwrap()) as Arc<dyn Store>
        })
    }
}

struct InMemory(Memory);

impl Subject for InMemory {
    fn open(&self) -> Opening<'_> {
        Box::pin(async { Arc::new(self.0.clone()) as Arc<dyn Store> })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn sqlite_keeps_every_rule() {
    let broken = check(|| Box::new(InFile(tempfile::tempdir().unwrap()))).await;
    assert_eq!(broken, []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn memory_keeps_every_rule() {
    let broken = check(|| Box::new(InMemory(Memory::default()))).await;
    assert_eq!(broken, []);
}

/// Long enough that others come in between.
const BETWEEN_STEPS: Duration = Duration::from_millis(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Mistake {
    /// Every third rise is acknowledged and not written.
    LosesARise,
    /// Reads the label, joins and writes it back in three steps.
    RaisesInSteps,
    /// Writes the label it is given over the one that is there.
    Overwrites,
    /// Finds the approval in one step and uses it up in another.
    SpendsTwice,
    /// Looks at no clock when an approval is used.
    SpendsLate,
    /// The last answer counts.
    AnswersAgain,
    /// Opens an empty store each time.
    ForgetsOnReopen,
    /// Keeps a copy of what it has read.
    ReadsACopy,
    /// Writes the archive although the reset is refused.
    ArchivesWhatDoesNotEnd,
    CountsDown,
    /// Gives out as many uses as are asked for.
    UsesWithoutEnd,
    RevivesTheEnded,
    KeepsBothSessions,
    /// The label of a file is the one that was written last.
    OverwritesFiles,
    /// Reads the label of a file, joins and writes it back in three steps.
    RaisesFilesInSteps,
    /// With a file goes what has the same inode.
    ForgetsByInode,
    /// Ends an execution as often as it is told to.
    EndsAgain,
}

/// A driver that is right but for one mistake.
#[derive(Debug)]
struct Wrong {
    memory: Memory,
    mistake: Mistake,
    rises: AtomicUsize,
    read: Mutex<Option<Option<SavedSession>>>,
}

struct Mistaken(Memory, Mistake);

impl Subject for Mistaken {
    fn open(&self) -> Opening<'_> {
        let memory = match self.1 {
            Mistake::ForgetsOnReopen => Memory::default(),
            _ => self.0.clone(),
        };
        Box::pin(async move {
            Arc::new(Wrong {
                memory,
                mistake: self.1,
                rises: AtomicUsize::new(0),
                read: Mutex::new(None),
            }) as Arc<dyn Store>
        })
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn every_mistake_of_a_driver_is_found() {
    use Mistake::*;
    let found_by = [
        (LosesARise, "a_label_never_falls_within_an_epoch"),
        (RaisesInSteps, "rises_at_the_same_time_lose_nothing"),
        (Overwrites, "a_label_never_falls_within_an_epoch"),
        (SpendsTwice, "an_approval_is_spent_once_by_one"),
        (
            SpendsLate,
            "what_is_over_time_is_neither_answered_nor_spent",
        ),
        (AnswersAgain, "the_first_answer_counts_and_no_other"),
        (
            ForgetsOnReopen,
            "a_rise_is_still_there_when_the_store_is_opened_again",
        ),
        (ReadsACopy, "what_one_handle_saved_the_other_reads"),
        (
            ArchivesWhatDoesNotEnd,
            "a_reset_archives_and_begins_or_does_neither",
        ),
        (CountsDown, "what_was_used_up_stays_used_up"),
        (UsesWithoutEnd, "a_workload_is_used_as_often_as_it_may_be"),
        (RevivesTheEnded, "what_has_ended_stays_ended"),
        (KeepsBothSessions, "an_execution_has_one_session_in_force"),
        (OverwritesFiles, "the_label_of_a_file_only_rises"),
        (
            RaisesFilesInSteps,
            "rises_of_one_file_at_the_same_time_lose_nothing",
        ),
        (
            ForgetsByInode,
            "files_that_are_gone_are_forgotten_and_no_others",
        ),
        (
            EndsAgain,
            "an_execution_ends_once_and_its_id_is_not_given_again",
        ),
    ];
    for (mistake, rule) in found_by {
        let broken = check(|| Box::new(Mistaken(Memory::default(), mistake))).await;
        assert!(
            broken.iter().any(|broken| broken.rule == rule),
            "{mistake:?} was not found by {rule}: {broken:?}"
        );
        assert!(RULES.len() > broken.len(), "{mistake:?}: {broken:?}");
    }
}

impl Wrong {
    fn is(&self, mistake: Mistake) -> bool {
        self.mistake == mistake
    }
}

impl Labels for Wrong {
    fn is_shared(&self) -> bool {
        true
    }

    fn sessions(&self) -> Answer<'_, Vec<SavedSession>> {
        self.memory.sessions()
    }

    fn session<'a>(&'a self, caller: &'a str) -> Answer<'a, Option<SavedSession>> {
        if !self.is(Mistake::ReadsACopy) {
            return self.memory.session(caller);
        }
        Box::pin(async move {
            if let Some(read) = self.read.lock().unwrap().clone() {
                return Ok(read);
            }
            let found = self.memory.session(caller).await?;
            *self.read.lock().unwrap() = Some(found.clone());
            Ok(found)
        })
    }

    fn raise<'a>(&'a self, session: &'a SavedSession) -> Answer<'a, Written> {
        Box::pin(async move {
            let rise = self.rises.fetch_add(1, Ordering::Relaxed);
            match self.mistake {
                Mistake::LosesARise if rise % 3 == 1 => Ok(Written::Yes),
                Mistake::Overwrites => {
                    let written = self.memory.raise(session).await?;
                    if written == Written::Yes {
                        self.memory.replace(session);
                    }
                    Ok(written)
                }
                Mistake::RaisesInSteps => {
                    let mut joined = session.clone();
                    if let Some(found) = self.memory.session(&session.caller).await? {
                        if found.epoch > session.epoch {
                            return Ok(Written::NewerIs(found.epoch));
                        }
                        if found.epoch == session.epoch {
                            joined.label.join_in(&found.label);
                        }
                    }
                    tokio::time::sleep(BETWEEN_STEPS).await;
                    self.memory.replace(&joined);
                    Ok(Written::Yes)
                }
                _ => self.memory.raise(session).await,
            }
        })
    }

    fn reset<'a>(
        &'a self,
        ended: &'a ArchivedSession,
        begun: &'a SavedSession,
    ) -> Answer<'a, Written> {
        Box::pin(async move {
            let written = self.memory.reset(ended, begun).await?;
            if self.is(Mistake::ArchivesWhatDoesNotEnd) && written != Written::Yes {
                self.memory.archive(ended);
            }
            Ok(written)
        })
    }

    fn archived_sessions<'a>(
        &'a self,
        caller: Option<&'a str>,
    ) -> Answer<'a, Vec<ArchivedSession>> {
        self.memory.archived_sessions(caller)
    }
}

impl Approvals for Wrong {
    fn ask<'a>(&'a self, question: &'a Question) -> Answer<'a, AskOutcome> {
        self.memory.ask(question)
    }

    fn answer<'a>(&'a self, answer: PersonsAnswer<'a>) -> Answer<'a, Option<Approval>> {
        if !self.is(Mistake::AnswersAgain) {
            return self.memory.answer(answer);
        }
        Box::pin(async move {
            match self.memory.answer(answer).await? {
                None => self.memory.approval(answer.id).await,
                changed => Ok(changed),
            }
        })
    }

    fn spend<'a>(&'a self, digest: &'a [u8; 32], now_ms: u64) -> Answer<'a, Option<Approval>> {
        match self.mistake {
            Mistake::SpendsTwice => Box::pin(async move {
                let found = self.memory.last_approval(digest).await?;
                tokio::time::sleep(BETWEEN_STEPS).await;
                self.memory.spend(digest, now_ms).await?;
                Ok(found.filter(|found| found.state == crate::ApprovalState::Approved))
            }),
            Mistake::SpendsLate => self.memory.spend(digest, 0),
            _ => self.memory.spend(digest, now_ms),
        }
    }

    fn expire(&self, now_ms: u64) -> Answer<'_, Vec<Approval>> {
        self.memory.expire(now_ms)
    }

    fn forget_closed(&self, before_ms: u64) -> Answer<'_, ()> {
        self.memory.forget_closed(before_ms)
    }

    fn approval<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Approval>> {
        self.memory.approval(id)
    }

    fn last_approval<'a>(&'a self, digest: &'a [u8; 32]) -> Answer<'a, Option<Approval>> {
        self.memory.last_approval(digest)
    }

    fn approvals(&self) -> Answer<'_, Vec<Approval>> {
        self.memory.approvals()
    }
}

impl SignedSessions for Wrong {
    fn begin_signed<'a>(&'a self, new: &'a SavedSigned, forget_before_ms: u64) -> Answer<'a, ()> {
        Box::pin(async move {
            let kept = self.memory.signed_sessions().await?;
            self.memory.begin_signed(new, forget_before_ms).await?;
            if self.is(Mistake::KeepsBothSessions) {
                kept.iter().for_each(|kept| self.memory.revive(&kept.id));
            }
            Ok(())
        })
    }

    fn end_signed<'a>(
        &'a self,
        id: &'a str,
        status: SignedStatus,
        reason: &'a str,
        now_ms: u64,
    ) -> Answer<'a, bool> {
        if self.is(Mistake::RevivesTheEnded) {
            self.memory.revive(id);
        }
        self.memory.end_signed(id, status, reason, now_ms)
    }

    fn signed_sessions(&self) -> Answer<'_, Vec<SavedSigned>> {
        self.memory.signed_sessions()
    }
}

impl Workloads for Wrong {
    fn add_workload<'a>(&'a self, new: &'a Workload) -> Answer<'a, ()> {
        self.memory.add_workload(new)
    }

    fn workloads(&self, now_ms: u64) -> Answer<'_, Vec<Workload>> {
        self.memory.workloads(now_ms)
    }

    fn workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, Option<Workload>> {
        self.memory.workload(id, now_ms)
    }

    fn use_workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool> {
        if self.is(Mistake::UsesWithoutEnd) {
            return Box::pin(async move {
                self.memory.use_workload(id, now_ms).await?;
                Ok(true)
            });
        }
        self.memory.use_workload(id, now_ms)
    }
}

impl Executions for Wrong {
    fn begin_execution<'a>(
        &'a self,
        new: &'a SavedExecution,
        forget_before_ms: u64,
    ) -> Answer<'a, bool> {
        self.memory.begin_execution(new, forget_before_ms)
    }

    fn end_execution<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool> {
        if self.is(Mistake::EndsAgain) {
            self.memory.revive_execution(id);
        }
        self.memory.end_execution(id, now_ms)
    }

    fn executions(&self) -> Answer<'_, Vec<SavedExecution>> {
        self.memory.executions()
    }
}

impl Usage for Wrong {
    fn use_calls<'a>(&'a self, used: &'a [UsedCalls]) -> Answer<'a, ()> {
        if self.is(Mistake::CountsDown) {
            used.iter().for_each(|used| self.memory.count(used));
        }
        self.memory.use_calls(used)
    }

    fn used_calls(&self) -> Answer<'_, Vec<UsedCalls>> {
        self.memory.used_calls()
    }

    fn used_calls_of<'a>(&'a self, execution: &'a str) -> Answer<'a, Vec<UsedCalls>> {
        self.memory.used_calls_of(execution)
    }
}

impl FileLabels for Wrong {
    fn volume_labels<'a>(&'a self, volume: &'a str) -> Answer<'a, VolumeLabels> {
        self.memory.volume_labels(volume)
    }

    fn settle_volume<'a>(&'a self, volume: &'a str, root: (u64, u64)) -> Answer<'a, ()> {
        self.memory.settle_volume(volume, root)
    }

    fn raise_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()> {
        match self.mistake {
            Mistake::OverwritesFiles => self.memory.replace_file_label(volume, key, label),
            Mistake::RaisesFilesInSteps => Box::pin(async move {
                let found = self.memory.volume_labels(volume).await?.labels;
                let mut joined = label.clone();
                if let Some((_, found)) = found.iter().find(|(found, _)| *found == key) {
                    joined.join_in(found);
                }
                tokio::time::sleep(BETWEEN_STEPS).await;
                self.memory.replace_file_label(volume, key, &joined).await
            }),
            _ => self.memory.raise_file_label(volume, key, label),
        }
    }

    fn replace_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()> {
        self.memory.replace_file_label(volume, key, label)
    }

    fn forget_files<'a>(&'a self, volume: &'a str, files: &'a [(u64, u64)]) -> Answer<'a, ()> {
        if !self.is(Mistake::ForgetsByInode) {
            return self.memory.forget_files(volume, files);
        }
        Box::pin(async move {
            let known = self.memory.volume_labels(volume).await?.labels;
            let is_meant = |key: &FileKey| files.iter().any(|(inode, _)| *inode == key.inode);
            let meant = known.iter().map(|(key, _)| key).filter(|key| is_meant(key));
            let all: Vec<_> = meant.map(|key| (key.inode, key.birth)).collect();
            self.memory.forget_files(volume, &all).await
        })
    }
}
