//! Slices are kept by caller and target; what is kept must never answer for another.

use vocab::{Effect, Level};

use super::{bundle, question};
use crate::cedar::{Act, Decision, Principal, Question, slice::MAX_KEPT};

#[test]
fn what_is_kept_for_one_question_answers_no_other() {
    let exact = bundle(
        r#"permit (principal == Caller::"cred-1", action in [Action::"call", Action::"complete"], resource)
        when {
            principal in User::"alice" && principal in Agent::"claude" && principal in Department::"eng" && principal in Context::"prod"
            && !principal.is_operator && resource in Server::"github" && resource.name == "create_issue" && resource.level == 1
            && resource.effect == Effect::"consequential" && !resource.is_open_world && !(resource is Resource)
        };"#,
    );
    let departments = ["eng".to_owned()];
    let principal = Principal {
        departments: &departments,
        context: Some("prod"),
        ..question().principal
    };
    let base = Question {
        principal,
        ..question()
    };
    let with = |principal| Question { principal, ..base };
    let others = [
        with(Principal {
            caller: "cred-2",
            ..principal
        }),
        with(Principal {
            user: None,
            ..principal
        }),
        with(Principal {
            user: Some("claude"),
            agent: Some("alice"),
            ..principal
        }),
        with(Principal {
            agent: Some("alice"),
            ..principal
        }),
        with(Principal {
            departments: &[],
            ..principal
        }),
        with(Principal {
            context: None,
            ..principal
        }),
        with(Principal {
            is_operator: true,
            ..principal
        }),
        Question {
            act: Act::Read,
            ..base
        },
        Question {
            act: Act::CompleteResource,
            ..base
        },
        Question {
            server: "gitlab",
            ..base
        },
        Question {
            target: "close_issue",
            ..base
        },
        Question {
            level: Level::Public,
            ..base
        },
        Question {
            effect: Effect::Read,
            ..base
        },
        Question {
            is_open_world: true,
            ..base
        },
    ];
    for round in 0..2 {
        assert_eq!(exact.decide(&base), Decision::Allow, "round {round}");
        for other in &others {
            assert!(
                matches!(exact.decide(other), Decision::Block(_)),
                "round {round}: {other:?}"
            );
        }
    }
    assert_eq!(exact.shelf.kept(), others.len() + 1);
}

#[test]
fn what_is_kept_is_bounded() {
    let open = bundle("permit (principal, action, resource);");
    for at in 0..=MAX_KEPT {
        let target = format!("file:///{at}");
        assert_eq!(
            open.decide(&Question {
                act: Act::Read,
                target: &target,
                ..question()
            }),
            Decision::Allow
        );
        assert!(open.shelf.kept() <= MAX_KEPT);
    }
    assert_eq!(open.shelf.kept(), 1);
}
