//! Shared between the tests of this module: bundles from one text, and a question to vary.

mod agree;
mod cases;
mod decide;
mod docs;
mod explain;
mod keep;
mod load;
mod path;
mod rewrite;
mod suggest;

use vocab::{Effect, Level, Mark};

use super::{Act, Bundle, Decision, Principal, Question};

pub(super) fn bundle(text: &str) -> Bundle {
    Bundle::load("test", &[("test.cedar".to_owned(), text.to_owned())]).unwrap_or_else(|problems| {
        panic!(
            "{}",
            problems
                .iter()
                .map(ToString::to_string)
                .collect::<Vec<_>>()
                .join("\n")
        )
    })
}

/// A plain call of a plain caller, to be changed where a test cares.
pub(super) fn question<'a>() -> Question<'a> {
    Question {
        principal: Principal {
            caller: "cred-1",
            user: Some("alice"),
            agent: Some("claude"),
            departments: &[],
            context: None,
            is_operator: false,
        },
        act: Act::Call,
        server: "github",
        target: "create_issue",
        level: Level::Internal,
        effect: Effect::Consequential,
        is_open_world: false,
        arguments: b"{}",
        label: Mark::default(),
        session_calls: 0,
        target_calls: 0,
        // Sunday, 15 November 2026, 13:00 UTC.
        now_ms: 1_794_747_600_000,
        door: "mcp-http",
        provenance: None,
    }
}

/// A question with these arguments, which must be valid JSON.
pub(super) fn with_arguments(arguments: &str) -> Question<'_> {
    assert!(
        wire::Json::parse(arguments.as_bytes(), wire::Limits::default())
            .unwrap()
            .is_object()
    );
    Question {
        arguments: arguments.as_bytes(),
        ..question()
    }
}

/// The word for the decision and the policies that made it.
pub(super) fn outcome(decision: &Decision) -> (&'static str, Vec<&str>) {
    (
        decision.as_str(),
        decision
            .notes()
            .iter()
            .map(|note| note.policy.as_str())
            .collect(),
    )
}
