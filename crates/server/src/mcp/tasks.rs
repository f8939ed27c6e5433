//! Tasks of the two eras: 2025-11-25 has them in its core, 2026-07-28 as an extension with other verbs. They are not bridged.

use gateway::Action;
use wire::{
    Json,
    mcp::{TASKS_EXTENSION, code},
};

use super::answer::Problem;

pub(crate) fn is_task(action: Action) -> bool {
    action.is_of_task()
}

/// May a modern client use this verb? Its own capabilities are checked before any task is looked up, so that ids cannot be probed.
pub(crate) fn modern(
    action: Action,
    method: &str,
    server: &[u8],
    client: &[u8],
) -> Result<(), Problem> {
    let has_extension = |capabilities: &[u8]| {
        Json::checked_before(capabilities)
            .path(&["extensions", TASKS_EXTENSION])
            .is_some()
    };
    if !matches!(
        action,
        Action::TaskGet | Action::TaskUpdate | Action::TaskCancel
    ) || !has_extension(server)
    {
        return Err(Problem::no_method(method));
    }
    if has_extension(client) {
        return Ok(());
    }
    let data =
        format!("{{\"requiredCapabilities\":{{\"extensions\":{{\"{TASKS_EXTENSION}\":{{}}}}}}}}");
    Err(Problem::with_data(
        code::MISSING_CLIENT_CAPABILITY,
        "This method needs the tasks extension",
        data.as_bytes(),
    ))
}

/// The verbs of 2025-11-25 that the gate offers. A server's list of tasks has those of every caller, so there is none here.
pub(crate) fn legacy(action: Action) -> bool {
    matches!(
        action,
        Action::TaskGet | Action::TaskCancel | Action::TaskResult
    )
}
