use std::{collections::HashSet, sync::Arc, sync::atomic::Ordering};

use bytes::Bytes;
use vocab::ServerId;
use wire::{mcp::Revision, rpc::Id};

use super::{Beginning, IDLE, Session, Sessions, random_id};

fn begin(
    sessions: &Sessions,
    caller: &str,
    mount: Option<&str>,
) -> Option<(Arc<Session>, Vec<Arc<Session>>)> {
    sessions.begin(Beginning {
        caller: caller.to_owned(),
        mount: mount.map(|id| ServerId::parse(id).unwrap()),
        revision: Revision::V2025_11_25,
        capabilities: Bytes::from_static(b"{}"),
    })
}

#[test]
fn ids_are_unguessable_visible_and_without_order() {
    let ids: Vec<_> = (0..10_000).map(|_| random_id().unwrap()).collect();
    assert_eq!(ids.iter().collect::<HashSet<_>>().len(), ids.len());
    assert!(
        ids.iter()
            .all(|id| id.len() == 32 && id.bytes().all(|byte| (0x21..=0x7e).contains(&byte)))
    );
    assert!(!ids.is_sorted());
}

#[test]
fn a_session_exists_only_for_its_caller_at_its_mount() {
    let sessions = Sessions::new(10);
    let (session, _) = begin(&sessions, "alice", Some("demo")).unwrap();
    let demo = ServerId::parse("demo").unwrap();
    assert!(sessions.find(&session.id, "alice", Some(&demo)).is_some());
    assert!(sessions.find(&session.id, "bob", Some(&demo)).is_none());
    assert!(sessions.find(&session.id, "alice", None).is_none());
    assert!(sessions.find("nothing", "alice", Some(&demo)).is_none());
    assert!(sessions.end(&session));
    assert!(sessions.find(&session.id, "alice", Some(&demo)).is_none());
    assert!(!sessions.end(&session), "a session ends once");
}

#[test]
fn a_caller_at_its_limit_gives_up_its_oldest_idle_session() {
    let sessions = Sessions::new(64);
    let mut own: Vec<_> = (0..16)
        .map(|_| begin(&sessions, "alice", None).unwrap().0)
        .collect();
    let (other, _) = begin(&sessions, "bob", None).unwrap();
    for (age, session) in own.iter().enumerate() {
        session.used.store(age as u64, Ordering::Relaxed);
    }
    let _busy = own[0].peer.register(&Id::number(1)).unwrap();
    let (newest, ended) = begin(&sessions, "alice", None).unwrap();
    assert_eq!(ended.len(), 1);
    assert!(
        Arc::ptr_eq(&ended[0], &own.remove(1)),
        "the oldest is busy, so the next goes"
    );
    assert!(sessions.find(&newest.id, "alice", None).is_some());
    assert!(
        sessions.find(&other.id, "bob", None).is_some(),
        "another caller's is never taken"
    );
}

#[test]
fn a_full_house_refuses_strangers_rather_than_ending_others() {
    let sessions = Sessions::new(2);
    let (first, _) = begin(&sessions, "alice", None).unwrap();
    begin(&sessions, "alice", None).unwrap();
    assert!(begin(&sessions, "bob", None).is_none());
    assert!(sessions.find(&first.id, "alice", None).is_some());
}

#[test]
fn busy_sessions_are_not_ended_so_a_new_one_is_refused() {
    let sessions = Sessions::new(1);
    let (session, _) = begin(&sessions, "alice", None).unwrap();
    let busy = session.peer.register(&Id::number(1)).unwrap();
    assert!(begin(&sessions, "alice", None).is_none());
    drop(busy);
    assert!(begin(&sessions, "alice", None).is_some());
}

#[test]
fn idle_sessions_expire() {
    let mut sessions = Sessions::new(8);
    let (old, _) = begin(&sessions, "alice", None).unwrap();
    sessions.epoch -= IDLE + std::time::Duration::from_secs(1);
    let (_, ended) = begin(&sessions, "bob", None).unwrap();
    assert_eq!(ended.len(), 1);
    assert!(sessions.find(&old.id, "alice", None).is_none());
}
