use super::{bundle, question, with_arguments};
use crate::cedar::{Decision, Outcome, Question};

fn outcomes(text: &str, question: &Question<'_>) -> Vec<String> {
    bundle(text)
        .explain(question)
        .policies
        .iter()
        .map(|looked| looked.outcome.describe())
        .collect()
}

#[test]
fn every_policy_says_how_it_met_the_call() {
    let text = r#"
        permit (principal, action, resource);
        permit (principal in User::"bob", action, resource);
        permit (principal, action == Action::"read", resource);
        permit (principal, action, resource == Tool::"github/close_issue");
        forbid (principal, action, resource) when { resource.level == 1 && context.label.secrecy > 1 && context.time.hour < 6 };
        forbid (principal, action, resource) unless { resource.level == 1 };
        forbid (principal, action, resource) when { context.numbers.hasTag("n") && context.numbers.getTag("n") > 5 };
    "#;
    assert_eq!(
        outcomes(text, &with_arguments(r#"{"n":"6"}"#)),
        [
            "matches",
            "is about others: principal in User::\"bob\"",
            "is about others: action == Action::\"read\"",
            "is about others: resource == Tool::\"github/close_issue\"",
            "does not apply, since this does not hold: context.label.secrecy > 1",
            "does not apply, since this does not hold: !(resource.level == 1)",
            "could not be evaluated: a policy reads the argument `n` as a whole number, but it is a value of kind string",
        ]
    );
}

#[test]
fn a_block_says_what_would_have_allowed_the_call() {
    let forbidden = bundle("permit (principal, action, resource);\n@id(\"freeze\") forbid (principal, action, resource);")
        .explain(&question());
    assert_eq!(
        forbidden.would_allow,
        ["`freeze` (test.cedar:2) blocks: narrow it with `unless { … }`, or remove it"]
    );
    let unpermitted = bundle(
        "@id(\"night\") permit (principal, action, resource) when { context.time.hour < 6 };",
    )
    .explain(&question());
    assert_eq!(
        unpermitted.would_allow,
        [
            "`night` (test.cedar:1) would permit it if this held: context.time.hour < 6",
            "a new policy permits it: permit (principal == Caller::\"cred-1\", action == Action::\"call\", resource == Tool::\"github/create_issue\");",
        ]
    );
    let asked = bundle("@id(\"look\") @effect(\"ask\") permit (principal, action, resource);")
        .explain(&question());
    assert!(asked.would_allow[0].contains("`look` (test.cedar:1) asks"));
    let failing = bundle("@id(\"sum\") permit (principal, action, resource) when { resource.level + 9223372036854775807 > 0 };")
        .explain(&question());
    assert!(
        failing.would_allow[0]
            .contains("`sum` (test.cedar:1) must be made to evaluate: integer overflow"),
        "{failing:?}"
    );
    assert!(
        bundle("permit (principal, action, resource);")
            .explain(&question())
            .would_allow
            .is_empty()
    );
}

#[test]
fn the_permit_an_explanation_offers_does_permit() {
    let none = bundle("permit (principal, action == Action::\"read\", resource);");
    let tricky = Question {
        target: "a\"b\\c\n/d",
        ..question()
    };
    let explanation = none.explain(&tricky);
    let offered = explanation
        .would_allow
        .last()
        .unwrap()
        .split_once(": ")
        .unwrap()
        .1;
    assert_eq!(bundle(offered).decide(&tricky), Decision::Allow);
    assert!(matches!(
        explanation.policies[0].outcome,
        Outcome::OutOfScope(_)
    ));
}
