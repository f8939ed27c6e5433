//! The table of checks. A row is a name, a stage, one sentence, and a pure function.

mod account_connected;
mod arguments_as_declared;
mod arguments_harmless;
mod arguments_present;
mod caller_entitled;
mod command_allowed;
mod definition_approved;
mod domain_allowed;
mod influence_allowed;
mod not_denied;
mod path_inside;
mod required_present;
mod server_classified;
mod tool_listed;
mod tool_permitted;
mod volume_allowed;
mod within_execution;
mod within_rate;

use vocab::{Integrity, Mark, Stage, Violation};

use crate::Facts;

/// One rule of the fixed table.
#[derive(Debug)]
pub struct Check {
    pub name: &'static str,
    pub stage: Stage,
    pub says: &'static str,
    run: fn(&Facts<'_>) -> Result<(), Violation>,
}

macro_rules! table {
    ($($stage:ident $name:ident $says:literal;)*) => {
        /// In the order they run. The write-down check stands first in Weigh and lives in `flow`, with the label it reads;
        /// `influence_allowed` runs only where that label is untrusted.
        pub const CHECKS: &[Check] = &[
            $(Check { name: stringify!($name), stage: Stage::$stage, says: $says, run: $name::check }),*
        ];
    };
}

table! {
    Admit server_classified "the server has been reviewed, has a level and is not blocked";
    Admit tool_permitted "the tool is not blocked";
    Admit definition_approved "what the server offers is what was approved";
    Admit caller_entitled "the caller may use the server, and is named where naming is needed";
    Admit account_connected "a tool that acts for a user has that user's own credential";
    Admit tool_listed "the agent, the session and the context list the tool";
    Admit not_denied "the context does not deny it";
    Admit within_execution "the execution has calls left";
    Admit within_rate "the limits of the server and the tool are kept";
    Bound path_inside "paths are inside the boundary, and none climbs";
    Bound volume_allowed "a volume is for the caller, and no path to one climbs";
    Bound domain_allowed "hosts and accounts are on the lists";
    Bound command_allowed "the command, its first argument and its time are allowed";
    Weigh influence_allowed "a session that has read untrusted data does not act on it";
    Shape required_present "what the tool cannot do without is there";
    Shape arguments_present "arguments are an object, and the required ones are there";
    Shape arguments_as_declared "arguments are what the approved definition declares";
    Shape arguments_harmless "no text in the arguments looks like an attack";
}

/// Runs the checks of one stage; the first refusal wins.
pub(crate) fn run(stage: Stage, facts: &Facts<'_>) -> Result<(), Violation> {
    CHECKS
        .iter()
        .filter(|check| check.stage == stage)
        .try_for_each(|check| (check.run)(facts))
}

/// What every check says by itself, refusals after the first included. For explaining, never for deciding.
pub fn findings<'a>(
    facts: &'a Facts<'a>,
    label: Mark,
) -> impl Iterator<Item = (&'static Check, Result<(), Violation>)> + 'a {
    CHECKS.iter().map(move |check| match check.stage {
        Stage::Weigh if label.integrity == Integrity::Trusted => (check, Ok(())),
        _ => (check, (check.run)(facts)),
    })
}
