//! What a driver offers: one small trait for each need, and [`Store`] for all of them together.
//!
//! A driver holds no decision. It is told every limit and every time, does one step in one transaction, and says what it found.
//! [`State`](crate::State) decides what that means. Any driver must pass the suite in [`conformance`](crate::conformance).
//!
//! Every change is durable when its future is ready. A future that is dropped before has done its whole step, or nothing.

use std::{fmt, pin::Pin};

use vocab::Label;

use crate::{
    Approval, ArchivedSession, FileKey, SavedExecution, SavedSession, SavedSigned, SignedStatus,
    StateError, UsedCalls, VolumeLabels, Workload,
};

/// What a driver answers, when it is ready.
pub type Answer<'a, T> = Pin<Box<dyn Future<Output = Result<T, StateError>> + Send + 'a>>;

/// The labels of sessions. The saved label is the truth; what a gate has in memory is a copy of it
/// (`docs/decisions/0049-the-saved-label-is-the-truth.md`).
pub trait Labels: Send + Sync {
    /// Whether other gates may write here while this one runs. If so, a saved label is read again before each decision.
    fn is_shared(&self) -> bool;
    /// Every session that was ever saved, by caller.
    fn sessions(&self) -> Answer<'_, Vec<SavedSession>>;
    /// One session as it is now: everything that was acknowledged to any gate before this was asked is in it.
    fn session<'a>(&'a self, caller: &'a str) -> Answer<'a, Option<SavedSession>>;
    /// Joins a label into the saved one. A later epoch replaces the saved one; an earlier one changes nothing.
    fn raise<'a>(&'a self, session: &'a SavedSession) -> Answer<'a, Written>;
    /// Archives what ended and saves what begins, both or neither. Changes nothing unless what begins is of a later epoch than what
    /// is saved.
    fn reset<'a>(
        &'a self,
        ended: &'a ArchivedSession,
        begun: &'a SavedSession,
    ) -> Answer<'a, Written>;
    /// What resets ended, oldest first; of one caller, or of all.
    fn archived_sessions<'a>(&'a self, caller: Option<&'a str>)
    -> Answer<'a, Vec<ArchivedSession>>;
}

/// What became of a session that was to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Written {
    Yes,
    /// Nothing was written: the saved session is in this epoch.
    NewerIs(u64),
}

/// What people were asked, and what they answered.
pub trait Approvals: Send + Sync {
    /// Closes what is over time, then finds the open approval for this digest, or adds it.
    fn ask<'a>(&'a self, question: &'a Question) -> Answer<'a, AskOutcome>;
    /// Records an answer to a pending approval that is not over time; `None` if there is no such one.
    fn answer<'a>(&'a self, answer: PersonsAnswer<'a>) -> Answer<'a, Option<Approval>>;
    /// Uses up the approved approval for this digest that is not over time. Of any number who try, one gets it.
    fn spend<'a>(&'a self, digest: &'a [u8; 32], now_ms: u64) -> Answer<'a, Option<Approval>>;
    /// Closes every open approval that is over time, and gives back those.
    fn expire(&self, now_ms: u64) -> Answer<'_, Vec<Approval>>;
    /// Forgets what was closed before this time.
    fn forget_closed(&self, before_ms: u64) -> Answer<'_, ()>;
    fn approval<'a>(&'a self, id: &'a str) -> Answer<'a, Option<Approval>>;
    /// The approval that was asked last for this digest.
    fn last_approval<'a>(&'a self, digest: &'a [u8; 32]) -> Answer<'a, Option<Approval>>;
    /// All that are kept, in the order they were asked.
    fn approvals(&self) -> Answer<'_, Vec<Approval>>;
}

/// An approval to be asked for.
#[derive(Debug, Clone)]
pub struct Question {
    /// Pending, and without an id.
    pub approval: Approval,
    /// The first of these that no approval has becomes its id.
    pub ids: Vec<String>,
    /// How many may be pending of its caller, and of all.
    pub limit_per_caller: u32,
    pub limit: u32,
}

/// What became of a question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AskOutcome {
    /// Approvals that were closed on the way, because they were over time.
    pub expired: Vec<Approval>,
    pub asked: Placed,
}

/// Where a question stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Placed {
    Added(Approval),
    AlreadyOpen(Approval),
    TooManyOfCaller,
    TooMany,
    NoFreeId,
}

/// What a person said.
#[derive(Debug, Clone, Copy)]
pub struct PersonsAnswer<'a> {
    pub id: &'a str,
    pub approve: bool,
    pub who: &'a str,
    pub reason: &'a str,
    pub now_ms: u64,
}

/// Sessions of signed calls.
pub trait SignedSessions: Send + Sync {
    /// Saves a new session, ends the active one of its execution as `replaced`, and forgets what ended before `forget_before_ms`: with
    /// the last session of an execution goes what it used up.
    fn begin_signed<'a>(&'a self, new: &'a SavedSigned, forget_before_ms: u64) -> Answer<'a, ()>;
    /// Ends an active session. `false`: it had ended before, or never was.
    fn end_signed<'a>(
        &'a self,
        id: &'a str,
        status: SignedStatus,
        reason: &'a str,
        now_ms: u64,
    ) -> Answer<'a, bool>;
    /// Every session that is kept, ended ones too, oldest first.
    fn signed_sessions(&self) -> Answer<'_, Vec<SavedSigned>>;
}

/// What may begin a session of signed calls by showing its secret.
pub trait Workloads: Send + Sync {
    /// Adds one, and forgets those that nobody can use any more.
    fn add_workload<'a>(&'a self, new: &'a Workload) -> Answer<'a, ()>;
    /// Every workload that may still be used.
    fn workloads(&self, now_ms: u64) -> Answer<'_, Vec<Workload>>;
    /// One of them.
    fn workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, Option<Workload>>;
    /// Takes one use away. `false`: none was left, or its time is over.
    fn use_workload<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool>;
}

/// How many calls executions have used up.
pub trait Usage: Send + Sync {
    /// Counts so many calls as used up, all of them or none. Fewer than before changes nothing.
    fn use_calls<'a>(&'a self, used: &'a [UsedCalls]) -> Answer<'a, ()>;
    fn used_calls(&self) -> Answer<'_, Vec<UsedCalls>>;
    fn used_calls_of<'a>(&'a self, execution: &'a str) -> Answer<'a, Vec<UsedCalls>>;
}

/// The labels of files on volumes.
pub trait FileLabels: Send + Sync {
    /// What is known of a volume; nothing of one that nobody has used.
    fn volume_labels<'a>(&'a self, volume: &'a str) -> Answer<'a, VolumeLabels>;
    /// The labels of a volume are for this root, by inode and birth, from now on.
    fn settle_volume<'a>(&'a self, volume: &'a str, root: (u64, u64)) -> Answer<'a, ()>;
    /// Joins a label into that of a file.
    fn raise_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()>;
    /// Another file may have the number now: this label takes the place of the one before. Never for a file with a birth.
    fn replace_file_label<'a>(
        &'a self,
        volume: &'a str,
        key: FileKey,
        label: &'a Label,
    ) -> Answer<'a, ()>;
    /// These files, by inode and birth, are gone: both their labels go.
    fn forget_files<'a>(&'a self, volume: &'a str, files: &'a [(u64, u64)]) -> Answer<'a, ()>;
}

/// Executions whose commands an executor runs.
pub trait Executions: Send + Sync {
    /// Saves a new one, and forgets those that ended, or whose time was over, before `forget_before_ms`. `false`: the id is taken.
    fn begin_execution<'a>(
        &'a self,
        new: &'a SavedExecution,
        forget_before_ms: u64,
    ) -> Answer<'a, bool>;
    /// Ends one. `false`: it had ended before, or never was.
    fn end_execution<'a>(&'a self, id: &'a str, now_ms: u64) -> Answer<'a, bool>;
    /// Every one that is kept, ended ones too, oldest first.
    fn executions(&self) -> Answer<'_, Vec<SavedExecution>>;
}

/// Everything that the gate must not forget, in one place.
pub trait Store:
    Labels
    + Approvals
    + SignedSessions
    + Workloads
    + Usage
    + FileLabels
    + Executions
    + fmt::Debug
    + Send
    + Sync
{
}

impl<T> Store for T where
    T: Labels
        + Approvals
        + SignedSessions
        + Workloads
        + Usage
        + FileLabels
        + Executions
        + fmt::Debug
        + Send
        + Sync
{
}
