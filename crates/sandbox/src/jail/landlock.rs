//! Landlock with no rules: every file right there is, allowed for nothing.

use landlock::{
    ABI, Access, AccessFs, AccessNet, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetError,
    RulesetStatus, Scope,
};

use super::Spec;
use crate::sys;

/// The newest version whose rights the `landlock` crate names; an older kernel enforces those it knows.
const NEWEST: ABI = ABI::V9;

pub(super) fn lock_files(_: &Spec) -> Result<String, String> {
    let version = sys::landlock_abi()
        .ok_or("this kernel has no Landlock; seccomp alone keeps files closed")?;
    match restrict().map_err(|error| error.to_string())? {
        RulesetStatus::NotEnforced => {
            Err("the kernel accepted the rules but enforces none of them".to_owned())
        }
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced => {
            Ok(format!("version {version}: {}", coverage(version)))
        }
    }
}

fn restrict() -> Result<RulesetStatus, RulesetError> {
    let status = Ruleset::default()
        .set_compatibility(CompatLevel::BestEffort)
        .handle_access(AccessFs::from_all(NEWEST))?
        // Connecting stays allowed: it is what the worker is for. Offering a service is not.
        .handle_access(AccessNet::BindTcp)?
        .scope(Scope::from_all(NEWEST))?
        .create()?
        .restrict_self()?;
    Ok(status.ruleset)
}

/// What a version of Landlock closes, in words.
pub(super) fn coverage(version: u32) -> &'static str {
    match version {
        0..=3 => "no files; TCP bind, signals and abstract sockets are left to seccomp",
        4..=5 => "no files, no TCP bind; signals and abstract sockets are left to seccomp",
        _ => "no files, no TCP bind, no signals or abstract sockets outside the jail",
    }
}
