use crate::verbs::decide::*;

fn session(caller: &str, name: &str) -> api::Session {
    api::Session {
        caller: caller.into(),
        name: name.into(),
        ..api::Session::default()
    }
}

#[test]
fn a_caller_is_found_by_id_or_by_a_name_of_its_own() {
    let sessions = [
        session("a1", "laptop"),
        session("b2", "twin"),
        session("c3", "twin"),
        session("laptop", "odd"),
    ];
    assert_eq!(one_session(&sessions, "a1").unwrap().name, "laptop");
    assert_eq!(one_session(&sessions, "odd").unwrap().caller, "laptop");
    assert_eq!(
        one_session(&sessions, "laptop").unwrap().caller,
        "laptop",
        "an id is more certain than a name"
    );
    assert!(
        one_session(&sessions, "twin")
            .unwrap_err()
            .message
            .contains("by its id")
    );
    assert_eq!(
        one_session(&sessions, "lapto").unwrap_err().message,
        "no caller `lapto`; did you mean `laptop`?"
    );
}

#[test]
fn an_approval_is_found_by_its_beginning_if_that_is_enough() {
    let approval = |id: &str, state: &str| api::Approval {
        id: id.into(),
        state: state.into(),
        ..api::Approval::default()
    };
    let approvals = [
        approval("ab12", "pending"),
        approval("ab34", "used"),
        approval("cd", "denied"),
        approval("cdef", "used"),
    ];
    assert_eq!(
        one_approval(&approvals, "ab").unwrap().id,
        "ab12",
        "the one that can be answered"
    );
    assert_eq!(one_approval(&approvals, "ab3").unwrap().id, "ab34");
    assert_eq!(
        one_approval(&approvals, "cd").unwrap().id,
        "cd",
        "a whole id"
    );
    assert!(
        one_approval(&approvals, "c")
            .unwrap_err()
            .message
            .contains("several")
    );
    assert!(
        one_approval(&approvals, "")
            .unwrap_err()
            .message
            .contains("no approval")
    );
    assert!(
        one_approval(&approvals, "zz")
            .unwrap_err()
            .message
            .contains("--all")
    );
}
