use std::time::Duration;

use flow::Session;
use vocab::{Level, Rule, ServerId, Stage};

use crate::*;

fn facts(server: &ServerId) -> Facts<'_> {
    Facts {
        server,
        classification: Some(Level::Internal),
        target: "read",
        permission: Permission::Permitted,
        granted: false,
        arguments_are_object: true,
    }
}

fn rule(result: Result<Admitted, vocab::Violation>) -> Rule {
    result.unwrap_err().rule
}

#[test]
fn each_check_of_admit_refuses_with_its_own_rule() {
    let id = ServerId::parse("s").unwrap();
    let good = facts(&id);
    assert!(admit(&good).is_ok());
    assert_eq!(rule(admit(&Facts { classification: None, ..good })), Rule::ServerNotApproved);
    assert_eq!(rule(admit(&Facts { permission: Permission::Blocked, granted: true, ..good })), Rule::ToolNotAllowed);
    assert_eq!(rule(admit(&Facts { permission: Permission::Restricted, ..good })), Rule::PermissionDenied);
    assert!(admit(&Facts { permission: Permission::Restricted, granted: true, ..good }).is_ok());
}

#[test]
fn the_first_refusal_wins() {
    let id = ServerId::parse("s").unwrap();
    let all_wrong = Facts { classification: None, permission: Permission::Blocked, arguments_are_object: false, ..facts(&id) };
    assert_eq!(rule(admit(&all_wrong)), Rule::ServerNotApproved);
}

#[test]
fn arguments_must_be_an_object() {
    let id = ServerId::parse("s").unwrap();
    assert!(shape(&facts(&id)).is_ok());
    let refused = shape(&Facts { arguments_are_object: false, ..facts(&id) }).unwrap_err();
    assert_eq!(refused.rule, Rule::InvalidParameters);
    assert!(refused.public().starts_with("Invalid parameters"));
}

#[test]
fn a_budget_never_exceeds_the_ceiling() {
    let id = ServerId::parse("s").unwrap();
    let facts = facts(&id);
    let budget = |secs, result_bytes| Budget { time: Duration::from_secs(secs), result_bytes };
    let permit = judge(
        &facts,
        admit(&facts).unwrap(),
        bound(&facts, budget(90, 10), budget(60, 100)).unwrap(),
        Session::new().weigh(Level::Internal).unwrap(),
        shape(&facts).unwrap(),
        [7; 32],
    )
    .unwrap();
    assert_eq!(permit.budget(), budget(60, 10));
    assert_eq!(permit.digest(), &[7; 32]);
}

#[test]
fn the_table_is_in_stage_order_and_its_rows_refuse_at_their_own_stage() {
    assert!(CHECKS.windows(2).all(|pair| pair[0].stage <= pair[1].stage));
    let id = ServerId::parse("s").unwrap();
    let worst = Facts { classification: None, permission: Permission::Blocked, arguments_are_object: false, ..facts(&id) };
    for stage in [Stage::Admit, Stage::Shape] {
        assert_eq!(checks::run(stage, &worst).unwrap_err().rule.stage(), stage);
    }
}

/// Does not compile once one of these can be cloned: then the call below has two meanings.
#[test]
fn evidence_is_not_clone() {
    trait AmbiguousIfClone<A> {
        fn hold() {}
    }
    impl<T> AmbiguousIfClone<()> for T {}
    impl<T: Clone> AmbiguousIfClone<u8> for T {}
    <Admitted as AmbiguousIfClone<_>>::hold();
    <Bounded as AmbiguousIfClone<_>>::hold();
    <Shaped as AmbiguousIfClone<_>>::hold();
    <Permit as AmbiguousIfClone<_>>::hold();
    <flow::Weighed as AmbiguousIfClone<_>>::hold();
}
