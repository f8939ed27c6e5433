use std::{sync::Arc, time::Duration};

use tokio::time::timeout;

use super::{Crowd, FEW, Guest, connections};

async fn is_dismissed(guest: &Guest) -> bool {
    timeout(Duration::from_millis(1), guest.dismissed())
        .await
        .is_ok()
}

#[tokio::test(start_paused = true)]
async fn a_newcomer_takes_the_place_of_the_oldest_idle_stranger() {
    let crowd = Crowd::new(3, 8);
    let strangers: Vec<_> = (0..3).map(|_| crowd.enter()).collect();
    strangers[0].set_busy(true);
    let newcomer = crowd.enter();
    assert_eq!(crowd.counts(), (3, 0));
    assert!(
        is_dismissed(&strangers[1]).await,
        "the oldest that waits for nothing"
    );
    for stays in [&strangers[0], &strangers[2], &newcomer] {
        assert!(!is_dismissed(stays).await);
    }
    drop(strangers);
    assert_eq!(crowd.counts(), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn no_number_of_strangers_moves_a_caller() {
    let crowd = Crowd::new(4, 8);
    let caller = crowd.enter();
    assert!(caller.recognise("alice"));
    let flood: Vec<_> = (0..1000).map(|_| crowd.enter()).collect();
    assert_eq!(crowd.counts(), (4, 1));
    assert!(!is_dismissed(&caller).await);
    let late = crowd.enter();
    assert!(
        late.recognise("bob"),
        "whoever comes with a credential gets in"
    );
    assert_eq!(crowd.counts(), (3, 2));
    drop((flood, caller, late));
    assert_eq!(crowd.counts(), (0, 0));
}

#[test]
fn one_caller_leaves_room_for_others() {
    let crowd = Crowd::new(8, 100);
    let of = |caller: &str, many: usize| -> Vec<Arc<Guest>> {
        (0..many)
            .map(|_| crowd.enter())
            .filter(|guest| guest.recognise(caller))
            .collect()
    };
    let greedy = of("greedy", 500);
    assert_eq!(greedy.len(), 50);
    let second = of("second", 500);
    assert_eq!(second.len(), 25);
    assert_eq!(of("third", 500).len(), FEW);
    let surplus = crowd.enter();
    assert!(!surplus.recognise("greedy") && surplus.is_surplus());
    drop(greedy);
    assert!(surplus.recognise("greedy") && !surplus.is_surplus());
    drop((second, surplus));
    assert_eq!(crowd.counts(), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn a_stranger_that_dawdles_is_let_go_and_a_caller_is_not() {
    let crowd = Crowd::new(4, 4);
    let (dawdler, caller, busy) = (crowd.enter(), crowd.enter(), crowd.enter());
    assert!(caller.recognise("alice"));
    busy.set_busy(true);
    let minute = Duration::from_secs(60);
    assert!(timeout(minute, dawdler.dismissed()).await.is_ok());
    assert!(timeout(minute, caller.dismissed()).await.is_err());
    assert!(
        timeout(minute, busy.dismissed()).await.is_err(),
        "its request has a time of its own"
    );
    busy.set_busy(false);
    assert!(timeout(minute, busy.dismissed()).await.is_ok());
}

#[test]
fn descriptors_are_shared_out() {
    assert_eq!(connections(1_048_576), (1024, 32_768));
    assert_eq!(connections(20_000), (1024, 18_720));
    assert_eq!(connections(1024), (192, 576));
    assert_eq!(connections(0), (2, 6), "a few are tried in any case");
}
