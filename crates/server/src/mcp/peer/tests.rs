use std::sync::Arc;

use bytes::Bytes;
use gateway::Answer;
use wire::rpc::Id;

use super::{MAX_CALLS, MAX_SUBSCRIPTIONS, Peer, Pull};

#[test]
fn an_id_is_in_flight_once_and_free_again_after() {
    let peer = Arc::new(Peer::default());
    let id = Id::string("a");
    let registration = peer.register(&id).unwrap();
    assert_eq!(peer.register(&id).err().unwrap().code, -32600);
    assert!(peer.register(&Id::number(1)).is_ok());
    drop(registration);
    assert!(peer.register(&id).is_ok());
    assert!(!peer.is_busy());
}

#[test]
fn calls_in_flight_are_bounded() {
    let peer = Arc::new(Peer::default());
    let held: Vec<_> = (0..MAX_CALLS as u64)
        .map(|id| peer.register(&Id::number(id)).unwrap())
        .collect();
    assert_eq!(
        peer.register(&Id::string("x")).err().unwrap().code,
        gateway::REFUSED
    );
    drop(held);
    assert!(peer.register(&Id::string("x")).is_ok());
}

#[tokio::test]
async fn a_cancellation_reaches_the_call_of_that_id_only() {
    let peer = Arc::new(Peer::default());
    let one = peer.register(&Id::number(1)).unwrap();
    let _two = peer.register(&Id::string("1")).unwrap();
    assert!(!peer.cancel(&Id::number(2)));
    assert!(peer.cancel(&Id::number(1)));
    assert!(matches!(one.reins.pulled().await, Pull::Cancel));
    assert!(
        tokio::time::timeout(std::time::Duration::from_millis(10), one.reins.pulled())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn an_answer_is_taken_once_by_the_call_that_asked() {
    let peer = Arc::new(Peer::default());
    let call = peer.register(&Id::number(1)).unwrap();
    let number = peer.open_ask(&call.reins, "k".to_owned());
    assert!(peer.is_asked(number));
    let answer = || Answer::Result(Bytes::from_static(b"{}"));
    assert!(!peer.answer(&Id::number(number + 1), answer()));
    assert!(
        !peer.answer(&Id::string(&number.to_string()), answer()),
        "a string is another id"
    );
    assert!(peer.answer(&Id::number(number), answer()));
    assert!(
        !peer.answer(&Id::number(number), answer()),
        "a second answer has no taker"
    );
    assert!(matches!(call.reins.pulled().await, Pull::Answer { key, .. } if key == "k"));
}

#[tokio::test]
async fn pulls_wait_for_a_call_that_is_not_listening_yet() {
    let peer = Arc::new(Peer::default());
    let call = peer.register(&Id::number(1)).unwrap();
    let number = peer.open_ask(&call.reins, "k".to_owned());
    peer.answer(
        &Id::number(number),
        Answer::Error(Bytes::from_static(b"{}")),
    );
    for _ in 0..1000 {
        peer.cancel_all();
    }
    assert!(
        super::lock(&call.reins.pulls).len() <= 2,
        "saying it again adds nothing"
    );
    assert!(matches!(call.reins.pulled().await, Pull::Answer { .. }));
    assert!(matches!(call.reins.pulled().await, Pull::Cancel));
}

#[test]
fn the_gate_hears_of_a_subscription_once() {
    let peer = Peer::default();
    assert!(peer.subscribe("a").unwrap());
    assert!(!peer.subscribe("a").unwrap());
    assert!(peer.is_subscribed("a"));
    assert!(peer.unsubscribe("a"));
    assert!(!peer.unsubscribe("a"));
    for number in 0..MAX_SUBSCRIPTIONS {
        assert!(peer.subscribe(&number.to_string()).unwrap());
    }
    assert!(peer.subscribe("one more").is_err());
    assert_eq!(peer.take_subscriptions().len(), MAX_SUBSCRIPTIONS);
    assert!(peer.subscriptions().is_empty());
}
