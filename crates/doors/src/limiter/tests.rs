use std::net::Ipv4Addr;

use proptest::prelude::*;

use super::{
    local::{Local, Taken},
    *,
};

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last))
}

fn passes(local: &Local, last: u8, limit: u32, ms: u64) -> bool {
    matches!(local.take(address(last), limit, ms), Taken::Yes { .. })
}

proptest! {
    #[test]
    fn no_window_holds_more_than_the_limit(
        limit in 1_u32..40,
        pauses in proptest::collection::vec(0_u64..400, 1..400),
        jumps in proptest::collection::vec((0_usize..400, 0_u64..200_000), 0..3),
    ) {
        let window = 3000;
        let local = Local::new(Duration::from_millis(window));
        let mut now = 17;
        let mut passed: Vec<u64> = Vec::new();
        for (at, pause) in pauses.iter().enumerate() {
            now += pause;
            now += jumps.iter().filter(|(when, _)| *when == at).map(|(_, by)| by).sum::<u64>();
            if passes(&local, 1, limit, now) {
                passed.push(now);
            }
        }
        for first in &passed {
            let within = passed.iter().filter(|at| *at >= first && **at < first + window).count();
            prop_assert!(within <= limit as usize, "{within} of {limit} in the window from {first}");
        }
    }

    #[test]
    fn who_waits_as_long_as_it_is_told_is_let_in(limit in 1_u32..20, pauses in proptest::collection::vec(0_u64..300, 1..200)) {
        let local = Local::new(Duration::from_secs(3));
        let mut now = 5;
        for pause in pauses {
            now += pause;
            if let Taken::No { retry, .. } = local.take(address(1), limit, now) {
                now += u64::try_from(retry.as_millis()).unwrap();
                prop_assert!(passes(&local, 1, limit, now));
            }
        }
    }
}

#[test]
fn the_601st_within_a_minute_is_refused_and_another_address_is_not() {
    let local = Local::new(Duration::from_secs(60));
    for nth in 0..600 {
        assert!(passes(&local, 1, 600, nth * 10));
    }
    assert!(!passes(&local, 1, 600, 6_100));
    assert!(passes(&local, 2, 600, 6_100));
    assert!(passes(&local, 1, 600, 62_100));
}

#[test]
fn who_comes_steadily_gets_a_thirtieth_less_than_the_limit() {
    let local = Local::new(Duration::from_secs(60));
    let passed = (0..600_000_u64)
        .step_by(20)
        .filter(|ms| passes(&local, 1, 600, *ms))
        .count();
    assert!((5_700..=6_000).contains(&passed), "{passed} in ten minutes");
}

#[test]
fn however_many_addresses_come_there_is_room_for_so_many() {
    let local = Local::new(Duration::from_secs(60));
    for number in 0..250_000_u32 {
        let address = IpAddr::V4(Ipv4Addr::from(number));
        assert!(matches!(local.take(address, 1, 1), Taken::Yes { .. }));
    }
    assert!(local.held() <= 100_000, "{}", local.held());
}

fn terms(posture: Posture, store: Option<StoreSpec>) -> Terms {
    Terms {
        requests: 5,
        window: Duration::from_secs(60),
        store,
        posture,
    }
}

#[tokio::test]
async fn without_terms_nobody_is_counted() {
    let limiter = Limiter::default();
    for _ in 0..10_000 {
        assert_eq!(limiter.admit(address(1)).await, Admission::Pass);
    }
    assert!(!limiter.is_on());
}

#[tokio::test]
async fn terms_that_stay_the_same_keep_what_they_counted() {
    let limiter = Limiter::default();
    for _ in 0..5 {
        limiter.apply(Some(terms(Posture::Local, None)), None);
        assert_eq!(limiter.admit(address(1)).await, Admission::Pass);
    }
    let Admission::Over(over) = limiter.admit(address(1)).await else {
        panic!("the sixth passed");
    };
    assert!(over.is_new && over.requests == 5 && over.retry <= Duration::from_secs(62));
    let again = limiter.admit(address(1)).await;
    assert!(matches!(
        again,
        Admission::Over(Over {
            is_new: false,
            in_a_row: 2,
            ..
        })
    ));
    assert_eq!(limiter.throttled(), 2);
    limiter.apply(None, None);
    assert_eq!(limiter.admit(address(1)).await, Admission::Pass);
}

/// A port where nobody answers.
fn nobody() -> StoreSpec {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    StoreSpec {
        address: listener.local_addr().unwrap().to_string(),
        database: 0,
        user: None,
        password: None,
    }
}

#[tokio::test]
async fn without_its_store_a_limiter_does_what_the_operator_said() {
    for (posture, passing) in [
        (Posture::Local, 5),
        (Posture::Open, 20),
        (Posture::Closed, 0),
    ] {
        let limiter = Limiter::default();
        limiter.apply(Some(terms(posture, Some(nobody()))), None);
        let mut passed = 0;
        for _ in 0..20 {
            passed += usize::from(limiter.admit(address(1)).await == Admission::Pass);
        }
        assert_eq!(passed, passing, "{posture:?}");
        assert!(limiter.degraded().borrow().is_some(), "{posture:?}");
    }
}
