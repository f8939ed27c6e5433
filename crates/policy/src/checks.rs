//! The table of checks. A row is a name, a stage, one sentence, and a pure function.

mod arguments_object;
mod caller_entitled;
mod server_classified;
mod tool_permitted;

use vocab::{Stage, Violation};

use crate::Facts;

/// One rule of the fixed floor.
#[derive(Debug)]
pub struct Check {
    pub name: &'static str,
    pub stage: Stage,
    pub says: &'static str,
    run: fn(&Facts<'_>) -> Result<(), Violation>,
}

/// In the order they run. The write-down check stands between Admit and Shape and lives in `flow`, with the label it reads.
pub const CHECKS: &[Check] = &[
    Check {
        name: "server_classified",
        stage: Stage::Admit,
        says: "the server has been reviewed and has a level",
        run: server_classified::check,
    },
    Check { name: "tool_permitted", stage: Stage::Admit, says: "the tool is not blocked", run: tool_permitted::check },
    Check {
        name: "caller_entitled",
        stage: Stage::Admit,
        says: "a restricted tool is named by the caller's credential",
        run: caller_entitled::check,
    },
    Check { name: "arguments_object", stage: Stage::Shape, says: "arguments are an object", run: arguments_object::check },
];

/// Runs the checks of one stage; the first refusal wins.
pub(crate) fn run(stage: Stage, facts: &Facts<'_>) -> Result<(), Violation> {
    CHECKS.iter().filter(|check| check.stage == stage).try_for_each(|check| (check.run)(facts))
}
