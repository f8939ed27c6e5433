//! Who gets which connection, without a network: a server of the stateless revision needs none to have one.

use std::collections::HashMap;

use http::{HeaderMap, HeaderName, HeaderValue, header};
use proptest::prelude::*;
use serde_json::json;
use wire::{Json, Limits, mcp::Revision};

use super::{IDLE, Lease, MAX_USERS, Users, dismiss, lease};
use crate::{
    aggregator::{
        connection::Connection,
        delegate::{Credential, Site},
        http::HttpLink,
        hub::Hub,
        link::Link,
        terms::{Allow, Options, Owner, Peer},
    },
    failure::{Failure, Kind},
    net::{Net, Target},
    output::Out,
};
use std::{rc::Rc, time::Duration};

fn site(headers: &HeaderMap) -> Rc<Site> {
    Site::new(
        Target::parse("http://127.0.0.1:9/mcp").unwrap(),
        headers,
        &["x-team-pass".to_owned()],
        Duration::from_secs(1),
    )
}

fn system() -> Rc<Connection> {
    let (net, _) = Net::read(&[]).unwrap();
    let hub = Hub::new(Out::new(1 << 20, Rc::default()), Rc::new(net));
    let options = Options {
        allow: Allow::default(),
        client: "{}".into(),
        max_result: 1 << 20,
    };
    let link = HttpLink::new(
        &hub,
        Target::parse("http://127.0.0.1:9/mcp").unwrap(),
        HeaderMap::new(),
        1 << 20,
        (false, None),
    )
    .unwrap();
    let owner = Owner::System(Users::of(site(&HeaderMap::new())));
    let conn = Connection::new(hub, "s".into(), 1, options, Link::Http(link), owner);
    conn.set_modern(true);
    conn.introduce(Peer {
        revision: Revision::MODERN,
        capabilities: "{}".into(),
        info: "{}".into(),
        instructions: None,
    });
    conn
}

fn users(system: &Connection) -> &Users {
    let Owner::System(users) = &system.owner else {
        panic!("not the system's")
    };
    users
}

fn credential(user: &str, bearer: &str) -> Rc<Credential> {
    let text = json!({"user": user, "bearer": bearer}).to_string();
    Rc::new(Credential::read(Json::parse(text.as_bytes(), Limits::default()).unwrap()).unwrap())
}

async fn leased(system: &Rc<Connection>, user: &str, bearer: &str) -> Lease {
    lease(system, &credential(user, bearer)).await.unwrap()
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, work)
}

#[test]
fn a_connection_is_kept_while_it_is_used_and_no_longer() {
    run(async {
        let system = system();
        let busy = leased(&system, "busy", "t").await;
        let idle = Rc::clone(leased(&system, "idle", "t").await.conn());
        tokio::time::advance(IDLE / 2).await;
        drop(leased(&system, "lately", "t").await);
        users(&system).sweep();
        assert_eq!(users(&system).names(), ["busy", "idle", "lately"]);
        tokio::time::advance(IDLE / 2).await;
        users(&system).sweep();
        assert_eq!(users(&system).names(), ["busy", "lately"]);
        assert!(idle.is_closed() && !busy.conn().is_closed());
        drop(busy);
        tokio::time::advance(IDLE).await;
        users(&system).sweep();
        assert!(users(&system).names().is_empty());
    });
}

#[test]
fn a_closed_server_takes_its_users_with_it() {
    run(async {
        let system = system();
        let old = leased(&system, "alice", "old").await;
        let new = leased(&system, "alice", "new").await;
        assert!(!old.conn().is_closed(), "its call is under way");
        system.close(Failure::upstream("gone"), false);
        assert!(old.conn().is_closed() && new.conn().is_closed());
        let refused = lease(&system, &credential("alice", "new"))
            .await
            .unwrap_err();
        assert_eq!(refused.text, "gone");
        assert!(users(&system).names().is_empty());
    });
}

#[test]
fn a_lost_connection_is_replaced_and_a_dismissed_one_ends_with_its_last_call() {
    run(async {
        let system = system();
        let first = leased(&system, "alice", "t").await;
        first.conn().close(Failure::upstream("lost"), true);
        let second = leased(&system, "alice", "t").await;
        assert!(!second.conn().is_closed());
        let also = leased(&system, "alice", "t").await;
        assert!(Rc::ptr_eq(second.conn(), also.conn()));
        dismiss(&system, &second);
        let third = leased(&system, "alice", "t").await;
        assert!(!Rc::ptr_eq(second.conn(), third.conn()));
        let kept = Rc::clone(also.conn());
        drop(second);
        assert!(!kept.is_closed());
        drop(also);
        assert!(kept.is_closed() && !third.conn().is_closed());
    });
}

#[test]
fn of_the_configured_headers_only_those_that_let_nobody_in_are_a_users() {
    let mut configured = HeaderMap::new();
    let keys = [
        "authorization",
        "proxy-authorization",
        "cookie",
        "x-api-key",
        "apikey",
        "x_auth_token",
        "private-token",
        "x-amz-security-token",
        "x-team-pass",
        "client-secret",
    ];
    let plain = [
        "x-team",
        "x-keyboard",
        "accept-language",
        "x-tokenizer",
        "traceparent",
    ];
    for name in keys.iter().chain(&plain) {
        configured.insert(
            HeaderName::from_static(name),
            HeaderValue::from_static("system"),
        );
    }
    let sent = site(&configured).headers_for(&credential("alice", "t"));
    assert_eq!(sent.get(header::AUTHORIZATION).unwrap(), "Bearer t");
    assert_eq!(sent.len(), plain.len() + 1);
    for name in plain {
        assert_eq!(sent.get(name).unwrap(), "system");
    }
    assert!(!format!("{:?}", credential("alice", "hidden")).contains("hidden"));
    assert!(!format!("{sent:?}").contains("Bearer"));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever comes and goes: a connection belongs to one credential for good, and there are never too many.
    #[test]
    fn a_connection_never_changes_hands(steps in proptest::collection::vec((0u8..90, 0u8..2, 0u8..5), 1..200)) {
        run(async {
            let system = system();
            let mut owners: HashMap<*const Connection, (u8, u8)> = HashMap::new();
            // Every connection is kept, so that no address is used twice.
            let mut seen = Vec::new();
            let mut held = Vec::new();
            for (user, token, what) in steps {
                match what {
                    0 => held.clear(),
                    1 => {
                        tokio::time::advance(IDLE / 3).await;
                        users(&system).sweep();
                    }
                    _ => match lease(&system, &credential(&format!("u{user}"), &format!("t{token}"))).await {
                        Ok(lease) => {
                            prop_assert!(!lease.conn().is_closed());
                            let owner = owners.entry(Rc::as_ptr(lease.conn())).or_insert((user, token));
                            prop_assert_eq!(*owner, (user, token));
                            seen.push(Rc::clone(lease.conn()));
                            held.push(lease);
                        }
                        Err(failure) => {
                            prop_assert_eq!(failure.kind, Kind::Refused);
                            prop_assert!(held.len() >= MAX_USERS);
                        }
                    },
                }
                prop_assert!(users(&system).names().len() <= MAX_USERS);
                prop_assert!(held.iter().all(|lease| !lease.conn().is_closed()), "no call is cut off");
            }
            Ok(())
        })?;
    }
}
