use super::fake::*;
use crate::*;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::{self, Thread};
use vocab::Stage;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// The smallest runtime there is.
fn wait<T>(future: impl Future<Output = T>) -> T {
    let waker = Waker::from(Arc::new(Unpark(thread::current())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}

fn conclude(ledger: &Ledger, opened: Opened) {
    let _ = ledger
        .conclude(opened, &Outcome::new(Verdict::Permitted, Stage::Absorb))
        .unwrap();
}

#[test]
fn a_durable_intent_is_synced_when_it_is_ready() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    let mut opened = ledger.open(facts("c-1"));
    let intent = wait(ledger.intend_durable(&mut opened)).unwrap();
    assert!(ledger.status().synced > intent.position().seq);
    let syncs = faults.syncs.load(Ordering::SeqCst);
    assert!(syncs >= 1);
    wait(ledger.synced(intent.position().seq)).unwrap();
    assert_eq!(
        faults.syncs.load(Ordering::SeqCst),
        syncs,
        "what is synced needs no second sync"
    );
    conclude(&ledger, opened);
}

/// 128 callers in 4 threads share syncs: far fewer syncs than calls, and nobody is passed over.
#[test]
fn all_who_wait_share_one_sync() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    faults.sync_takes_us.store(2_000, Ordering::SeqCst);
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    let threads: Vec<_> = (0..4)
        .map(|t| {
            let ledger = ledger.clone();
            thread::spawn(move || {
                for round in 0..5 {
                    let mut opened: Vec<Opened> = (0..32)
                        .map(|i| ledger.open(facts(&format!("{t}-{round}-{i}"))))
                        .collect();
                    let mut waiting: Vec<_> = opened
                        .iter_mut()
                        .map(|opened| Box::pin(ledger.intend_durable(opened)))
                        .collect();
                    let waker = Waker::from(Arc::new(Unpark(thread::current())));
                    let mut context = Context::from_waker(&waker);
                    // A finished future must not be polled again, so each leaves the list when it is ready.
                    loop {
                        waiting.retain_mut(|future| match future.as_mut().poll(&mut context) {
                            Poll::Ready(intent) => {
                                assert!(ledger.status().synced > intent.unwrap().position().seq);
                                false
                            }
                            Poll::Pending => true,
                        });
                        if waiting.is_empty() {
                            break;
                        }
                        thread::park();
                    }
                    drop(waiting);
                    opened
                        .into_iter()
                        .for_each(|opened| conclude(&ledger, opened));
                }
            })
        })
        .collect();
    threads
        .into_iter()
        .for_each(|thread| thread.join().unwrap());
    let syncs = faults.syncs.load(Ordering::SeqCst);
    assert!(
        syncs <= 4 * 5 * 3,
        "{syncs} syncs for 640 calls in 20 rounds"
    );
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean() && report.intents == 640 && report.open_intents == 0);
}

#[test]
fn a_failed_sync_is_told_to_all_who_wait_and_recovery_serves_again() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    let ledger = open_with(dir.path(), faults.clone(), 1 << 20);
    faults.sync_fails.store(true, Ordering::SeqCst);
    faults.sync_takes_us.store(20_000, Ordering::SeqCst);
    let threads: Vec<_> = (0..16)
        .map(|i| {
            let ledger = ledger.clone();
            thread::spawn(move || {
                let mut opened = ledger.open(facts(&format!("c-{i}")));
                let refused = wait(ledger.intend_durable(&mut opened)).map(drop);
                let concluded = ledger
                    .conclude(opened, &Outcome::new(Verdict::Refused, Stage::Intend))
                    .map(drop);
                (refused, concluded)
            })
        })
        .collect();
    for thread in threads {
        let (refused, concluded) = thread.join().unwrap();
        assert!(refused.unwrap_err().to_string().contains("injected"));
        assert!(concluded.is_err(), "a broken ledger records nothing");
    }
    assert!(wait(ledger.synced(0)).is_err());
    assert!(ledger.tend().is_err());
    faults.sync_fails.store(false, Ordering::SeqCst);
    ledger.tend().unwrap();
    wait(ledger.synced(0)).unwrap();
    let mut opened = ledger.open(facts("after"));
    let _ = wait(ledger.intend_durable(&mut opened)).unwrap();
    conclude(&ledger, opened);
    let report = verify(dir.path()).unwrap();
    assert!(report.is_clean(), "{:?}", report.finding);
    assert_eq!(
        report.open_intents, 0,
        "calls that could not be concluded are indeterminate"
    );
}

#[test]
fn a_waiter_that_leaves_disturbs_nobody() {
    let dir = tempfile::tempdir().unwrap();
    let faults = Arc::new(Faults::default());
    faults.sync_takes_us.store(5_000, Ordering::SeqCst);
    let ledger = open_with(dir.path(), faults, 1 << 20);
    let place = ledger
        .change(&Change {
            action: "config.reloaded",
            ..Change::default()
        })
        .unwrap();
    for _ in 0..20 {
        let mut left = Box::pin(ledger.synced(place.seq));
        let _ = left.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    }
    wait(ledger.synced(place.seq)).unwrap();
}

#[test]
fn a_ledger_can_be_opened_again_as_soon_as_it_is_closed() {
    let dir = tempfile::tempdir().unwrap();
    for _ in 0..50 {
        let ledger = open(dir.path());
        let place = ledger
            .change(&Change {
                action: "config.reloaded",
                ..Change::default()
            })
            .unwrap();
        wait(ledger.synced(place.seq)).unwrap();
    }
}
