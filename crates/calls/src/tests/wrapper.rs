use callers::{Caller, Credential, CredentialSet, ForGate, Role, caller::Callers};
use vocab::{ServerId, View};

use crate::{
    Action, Wrapper,
    tokens::{self, Bound},
    wrapper::{join, split},
};

pub(super) fn caller(id: &str) -> Caller {
    let callers = Callers::new(Vec::new(), [0; 32]);
    let digest = sha2::Digest::finalize(sha2::Digest::chain_update(
        <sha2::Sha256 as sha2::Digest>::new(),
        id,
    ))
    .into();
    let credential = Credential {
        id: id.into(),
        name: id.into(),
        role: Role::Client,
        view: View::Double,
        grants: vec!["s__x".into()],
        user: None,
        departments: Vec::new(),
        agent: None,
        tenant: None,
        context: None,
        digest,
    };
    let known = callers.prepare(&CredentialSet::default(), vec![credential]);
    known.identify(id).unwrap()
}

#[test]
fn what_is_wrapped_opens_only_for_its_purpose_and_unchanged() {
    let wrapper = Wrapper::new(&[1; 32]);
    let text = wrapper.wrap("cursor", b"page 2");
    assert_eq!(wrapper.open("cursor", &text).unwrap(), b"page 2");
    assert_eq!(wrapper.open("task-id", &text), None);
    assert_eq!(Wrapper::new(&[2; 32]).open("cursor", &text), None);
    for at in 0..text.len() {
        let mut bytes = text.clone().into_bytes();
        bytes[at] = if bytes[at] == b'A' { b'B' } else { b'A' };
        assert_eq!(
            wrapper.open("cursor", std::str::from_utf8(&bytes).unwrap()),
            None,
            "byte {at}"
        );
    }
    for hostile in ["", "A", "====", &"A".repeat(3 << 20), "ü", "-TAMPERED"] {
        assert_eq!(wrapper.open("cursor", hostile), None);
    }
    assert_eq!(wrapper.open("cursor", &format!("{text}-TAMPERED")), None);
}

#[test]
fn joined_fields_come_apart_again_and_do_not_run_together() {
    let joined = join(&[b"a", b"", b"bc"]);
    assert_eq!(split::<3>(&joined).unwrap(), [&b"a"[..], b"", b"bc"]);
    assert_eq!(split::<2>(&joined), None);
    assert_ne!(join(&[b"ab", b"c"]), join(&[b"a", b"bc"]));
    assert_eq!(split::<1>(&[255, 255, 255, 255, 0]), None);
}

#[test]
fn a_request_state_is_bound_to_its_caller_server_call_and_time() {
    let wrapper = Wrapper::new(&[1; 32]);
    let (alice, bob) = (caller("alice"), caller("bob"));
    let (one, two) = (
        ServerId::parse("one").unwrap(),
        ServerId::parse("two").unwrap(),
    );
    let bound = |caller, server, action, digest| Bound {
        caller,
        server,
        action,
        digest,
    };
    let right = bound(&alice, &one, Action::CallTool, [7; 32]);
    let text = tokens::wrap_state(&wrapper, right, 1000, b"\"inner\"");
    let opened = tokens::open_state(&wrapper, right, 2000, &text).unwrap();
    assert_eq!(
        (opened.inner.as_slice(), opened.issued_ms()),
        (&b"\"inner\""[..], 1000)
    );
    for wrong in [
        bound(&bob, &one, Action::CallTool, [7; 32]),
        bound(&alice, &two, Action::CallTool, [7; 32]),
        bound(&alice, &one, Action::GetPrompt, [7; 32]),
        bound(&alice, &one, Action::CallTool, [8; 32]),
    ] {
        assert!(tokens::open_state(&wrapper, wrong, 2000, &text).is_err());
    }
    assert!(tokens::open_state(&wrapper, right, 1000 + 3_600_001, &text).is_err());
}

#[test]
fn a_task_id_belongs_to_one_caller_and_is_stable() {
    let wrapper = Wrapper::new(&[1; 32]);
    let (alice, bob) = (caller("alice"), caller("bob"));
    let server = ServerId::parse("s").unwrap();
    let task = tokens::Task {
        server,
        tool: "pay".into(),
        asked: "s__pay".into(),
        id: "t-1".into(),
    };
    let id = tokens::wrap_task(&wrapper, &alice, &task);
    assert_eq!(id, tokens::wrap_task(&wrapper, &alice, &task));
    assert_ne!(
        id,
        tokens::wrap_task(
            &wrapper,
            &alice,
            &tokens::Task {
                tool: "look".into(),
                ..task.clone()
            }
        ),
        "it is its tool's"
    );
    assert_eq!(tokens::open_task(&wrapper, &alice, &id), Some(task));
    assert_eq!(tokens::open_task(&wrapper, &bob, &id), None);
}

#[test]
fn a_revoked_credential_is_inactive_in_hands_that_hold_it_already() {
    let callers = Callers::new(Vec::new(), [0; 32]);
    let credential = |id: &str, digest| Credential {
        id: id.into(),
        name: id.into(),
        role: Role::Client,
        view: View::Double,
        grants: vec!["s__*".into()],
        user: None,
        departments: Vec::new(),
        agent: None,
        tenant: None,
        context: None,
        digest,
    };
    let digest = |text: &str| <[u8; 32]>::from(<sha2::Sha256 as sha2::Digest>::digest(text));
    let both = vec![credential("a", digest("ta")), credential("b", digest("tb"))];
    let before = callers.prepare(&CredentialSet::default(), both);
    let (a, b) = (
        before.identify("ta").unwrap(),
        before.identify("tb").unwrap(),
    );
    drop(b.session().absorb(&vocab::Label::of(
        vocab::Mark::trusted(vocab::Level::Restricted),
        ServerId::parse("s").unwrap(),
    )));
    let after = callers.prepare(&before, vec![credential("b", digest("tb"))]);
    assert!(a.is_active(), "nothing has changed yet");
    assert!(after.current(&a).is_none() && after.current(&b).is_some());
    callers.retire(&before, &after);
    assert!(!a.is_active() && after.identify("ta").is_none());
    let again = after.identify("tb").unwrap();
    assert!(again.is_active());
    assert_eq!(
        again.session().mark().secrecy,
        vocab::Level::Restricted,
        "a reload keeps the label"
    );
    assert!(again.is_granted(&ServerId::parse("s").unwrap(), "anything"));
    assert!(!again.is_granted(&ServerId::parse("s2").unwrap(), "anything"));
    assert!(callers.anonymous().is_none());
}
