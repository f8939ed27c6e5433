//! Turning the table of allowed calls into filters, and installing them.
//!
//! Two filters, because one filter gives all refused calls the same error number. The first answers `ENOSYS` to
//! `clone3`, whose flags lie in memory where no filter can see them: the C library then uses `clone`, whose flags can be
//! checked. The second is the table, and answers `EPERM` to everything else. The kernel asks both and takes the
//! stricter answer, so allowing `clone3` in the second does not open it.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter,
    SeccompRule, TargetArch,
};

use super::Spec;
use super::table::{ALLOWED, Condition, NETWORK, Row, Test};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

pub(super) fn lock_calls(spec: &Spec) -> Result<String, String> {
    let absent = absent_calls().map_err(|error| error.to_string())?;
    let own_pid = std::process::id();
    let allowed = allowed_calls(own_pid, spec.has_network).map_err(|error| error.to_string())?;
    for filter in [&absent, &allowed] {
        seccompiler::apply_filter_all_threads(filter).map_err(|error| error.to_string())?;
    }
    Ok(format!(
        "{} system calls allowed, all others refused",
        rows(spec.has_network).count()
    ))
}

fn absent_calls() -> Result<BpfProgram, seccompiler::BackendError> {
    let rules = Rules::from([(libc::SYS_clone3, Vec::new())]);
    compile(
        rules,
        SeccompAction::Allow,
        SeccompAction::Errno(libc::ENOSYS.unsigned_abs()),
    )
}

/// The rows that hold for a process with a network, or without.
fn rows(has_network: bool) -> impl Iterator<Item = &'static Row> {
    let holds = move |row: &&Row| has_network || !NETWORK.contains(&row.number);
    ALLOWED.iter().filter(holds)
}

/// The table as a program, for the process of this number.
pub(super) fn allowed_calls(
    own_pid: u32,
    has_network: bool,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let mut rules = Rules::new();
    for row in rows(has_network) {
        rules.insert(row.number, alternatives(row, own_pid)?);
    }
    compile(
        rules,
        SeccompAction::Errno(libc::EPERM.unsigned_abs()),
        SeccompAction::Allow,
    )
}

fn compile(
    rules: Rules,
    others: SeccompAction,
    these: SeccompAction,
) -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    SeccompFilter::new(rules, others, these, arch)?.try_into()
}

/// A row's alternatives, each a list of conditions that must all hold. None means: whatever the arguments.
fn alternatives(row: &Row, own_pid: u32) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    row.when
        .iter()
        .map(|all| {
            SeccompRule::new(
                all.iter()
                    .map(|one| condition(*one, own_pid))
                    .collect::<Result<_, _>>()?,
            )
        })
        .collect()
}

fn condition(
    condition: Condition,
    own_pid: u32,
) -> Result<SeccompCondition, seccompiler::BackendError> {
    use SeccompCmpArgLen::{Dword, Qword};
    let (length, operator, value) = match condition.test {
        Test::Int(value) => (Dword, SeccompCmpOp::Eq, u64::from(value)),
        Test::IntBits { mask, value } => (
            Dword,
            SeccompCmpOp::MaskedEq(u64::from(mask)),
            u64::from(value),
        ),
        Test::Long(value) => (Qword, SeccompCmpOp::Eq, value),
        Test::LongBits { mask, value } => (Qword, SeccompCmpOp::MaskedEq(mask), value),
        Test::OwnPid => (Dword, SeccompCmpOp::Eq, u64::from(own_pid)),
    };
    SeccompCondition::new(condition.arg, length, operator, value)
}
