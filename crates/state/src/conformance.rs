//! The suite that every driver must pass: what the gate relies on, as rules with a name and a check each.
//!
//! A driver is shown to the suite as a [`Subject`]: a new, empty store that can be opened again, as the next process would open it, and
//! while it is open, as a second gate would. The suite gives back every rule that does not hold. That it finds drivers that lose a rise,
//! spend twice or forget is shown by `every_mistake_of_a_driver_is_found`.

mod approvals;
mod executions;
mod files;
mod labels;
mod signed;

use std::{fmt, pin::Pin, sync::Arc};

use crate::Store;

/// An open store.
pub type Opening<'a> = Pin<Box<dyn Future<Output = Arc<dyn Store>> + Send + 'a>>;

/// A store that was empty when the suite got it.
pub trait Subject: Send + Sync {
    /// Opens it, once more.
    fn open(&self) -> Opening<'_>;
}

type Checking<'a> = Pin<Box<dyn Future<Output = Result<(), Wrong>> + Send + 'a>>;

/// One thing the gate relies on.
#[derive(Debug)]
pub struct Rule {
    pub name: &'static str,
    check: for<'a> fn(&'a dyn Subject) -> Checking<'a>,
}

/// A rule that a driver breaks, and how that showed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Broken {
    pub rule: &'static str,
    pub how: String,
}

/// What a check found.
struct Wrong(String);

impl From<crate::StateError> for Wrong {
    fn from(error: crate::StateError) -> Self {
        Self(format!("the driver failed: {error}"))
    }
}

impl From<tokio::task::JoinError> for Wrong {
    fn from(error: tokio::task::JoinError) -> Self {
        Self(format!("the driver panicked: {error}"))
    }
}

/// Two values that must be the same.
fn same<T: PartialEq + fmt::Debug>(what: &str, found: T, wanted: T) -> Result<(), Wrong> {
    if found == wanted {
        Ok(())
    } else {
        Err(Wrong(format!("{what}: found {found:?}, wanted {wanted:?}")))
    }
}

macro_rules! rules {
    ($($module:ident :: $name:ident,)*) => {
        /// Every rule, by the name of its check.
        pub const RULES: &[Rule] = &[$(Rule {
            name: stringify!($name),
            check: |subject| Box::pin($module::$name(subject)),
        },)*];
    };
}

rules! {
    labels::a_rise_is_still_there_when_the_store_is_opened_again,
    labels::a_label_never_falls_within_an_epoch,
    labels::rises_at_the_same_time_lose_nothing,
    labels::an_earlier_epoch_changes_nothing_and_a_later_one_replaces,
    labels::a_reset_archives_and_begins_or_does_neither,
    labels::what_one_handle_saved_the_other_reads,
    approvals::one_digest_has_one_open_approval,
    approvals::the_first_answer_counts_and_no_other,
    approvals::an_approval_is_spent_once_by_one,
    approvals::what_is_over_time_is_neither_answered_nor_spent,
    approvals::limits_and_ids_are_kept,
    approvals::what_is_closed_is_forgotten_when_told_and_nothing_else_is,
    signed::an_execution_has_one_session_in_force,
    signed::what_has_ended_stays_ended,
    signed::a_workload_is_used_as_often_as_it_may_be,
    signed::what_was_used_up_stays_used_up,
    signed::what_is_forgotten_goes_with_the_last_session,
    executions::an_execution_ends_once_and_its_id_is_not_given_again, files::a_number_without_a_birth_may_be_another_file, files::files_that_are_gone_are_forgotten_and_no_others, files::rises_of_one_file_at_the_same_time_lose_nothing, files::the_label_of_a_file_is_still_there_when_the_store_is_opened_again, files::the_label_of_a_file_only_rises,
}

/// Every rule that does not hold. `new` gives a new, empty store for each. Must run on a Tokio runtime.
pub async fn check(new: impl Fn() -> Box<dyn Subject>) -> Vec<Broken> {
    let mut broken = Vec::new();
    for rule in RULES {
        let subject = new();
        if let Err(Wrong(how)) = (rule.check)(subject.as_ref()).await {
            let rule = rule.name;
            broken.push(Broken { rule, how });
        }
    }
    broken
}
