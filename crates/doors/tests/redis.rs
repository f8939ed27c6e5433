//! The limiter on a real Redis of Debian that is killed, that hangs, and that cannot be reached.
#![cfg(test)]

use std::{
    net::{IpAddr, Ipv4Addr},
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::{Duration, Instant},
};

use doors::{Admission, Limiter, Posture, StoreSpec, Terms};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
};

const LIMIT: u32 = 200;
const SOON: Duration = Duration::from_secs(60);
/// What a request may wait for a store, on a machine that has other things to do as well. A quiet one needs half a tenth of it.
const WAIT: Duration = Duration::from_millis(500);

struct Redis {
    child: Child,
    port: u16,
    _dir: tempfile::TempDir,
}

impl Redis {
    async fn start() -> Self {
        let port = std::net::TcpListener::bind("127.0.0.1:0")
            .unwrap()
            .local_addr()
            .unwrap()
            .port();
        let dir = tempfile::tempdir().unwrap();
        let child = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no", "--dir"])
            .arg(dir.path())
            .stdout(Stdio::null())
            .spawn()
            .expect("`redis-server` of Debian's package redis-server is needed");
        let redis = Self {
            child,
            port,
            _dir: dir,
        };
        let began = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).await.is_err() {
            assert!(began.elapsed() < SOON, "redis-server does not listen");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        redis
    }

    fn tell(&self, signal: &str) {
        let told = Command::new("kill")
            .args([signal, &self.child.id().to_string()])
            .status()
            .unwrap();
        assert!(told.success());
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn limiter(port: u16) -> Limiter {
    let limiter = Limiter::default();
    let terms = Terms {
        requests: LIMIT,
        window: Duration::from_secs(600),
        store: Some(StoreSpec {
            address: format!("127.0.0.1:{port}"),
            database: 0,
            user: None,
            password: None,
        }),
        posture: Posture::Local,
    };
    limiter.apply(Some(terms), None);
    limiter
}

fn address(last: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(198, 51, 100, last))
}

/// Asks so often; how many passed, and the longest wait.
async fn ask(limiter: &Limiter, from: IpAddr, times: usize) -> (u32, Duration) {
    let (mut passed, mut longest) = (0, Duration::ZERO);
    for _ in 0..times {
        let began = Instant::now();
        passed += u32::from(limiter.admit(from).await == Admission::Pass);
        longest = longest.max(began.elapsed());
    }
    (passed, longest)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn two_gates_on_one_redis_share_one_limit() {
    let redis = Redis::start().await;
    let (one, other) = (limiter(redis.port), limiter(redis.port));
    let ((first, _), (second, _)) =
        tokio::join!(ask(&one, address(1), 300), ask(&other, address(1), 300));
    assert_eq!(first + second, LIMIT, "{first} and {second}");
    assert!(one.degraded().borrow().is_none() && other.degraded().borrow().is_none());
    assert_eq!(ask(&one, address(2), 5).await.0, 5, "another address");
    let Admission::Over(over) = one.admit(address(1)).await else {
        panic!("one more passed");
    };
    assert!(over.retry > Duration::from_secs(300), "{over:?}");
}

/// Two gates that ask half of what is allowed, lose their store, and ask on. What passed in all, and the longest wait after the loss.
async fn lose(port: u16, lose: impl FnOnce()) -> (u32, u32, Duration) {
    let (one, other) = (limiter(port), limiter(port));
    let (first, _) = ask(&one, address(1), 60).await;
    let (second, _) = ask(&other, address(1), 40).await;
    assert_eq!((first, second), (60, 40));
    lose();
    let ((more, one_waited), (yet_more, other_waited)) =
        tokio::join!(ask(&one, address(1), 600), ask(&other, address(1), 600));
    assert!(one.degraded().borrow().is_some(), "nobody noticed");
    (
        first + more,
        second + yet_more,
        one_waited.max(other_waited),
    )
}

fn holds((one, other, waited): (u32, u32, Duration)) {
    println!("one gate {one}, the other {other}, the longest wait {waited:?}");
    assert!(one <= LIMIT && other <= LIMIT, "{one} and {other}");
    // N gates: (2 - 1/N) times the limit in the first window after the loss; each may not yet know of the other.
    assert!(one + other <= 2 * LIMIT, "{one} and {other}");
    assert!(waited < WAIT, "{waited:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_becomes_of_redis_the_limit_holds_and_nobody_waits() {
    let redis = Redis::start().await;
    holds(lose(redis.port, || redis.tell("-KILL")).await);

    let redis = Redis::start().await;
    holds(lose(redis.port, || redis.tell("-STOP")).await);
    redis.tell("-CONT");

    // Cut off: what is sent goes nowhere, and nobody is told.
    let redis = Redis::start().await;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let is_cut = Arc::new(AtomicBool::new(false));
    let (cut, beyond) = (Arc::clone(&is_cut), redis.port);
    let relay = tokio::spawn(async move {
        let mut held = Vec::new();
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            if cut.load(Ordering::SeqCst) {
                held.push(near);
                continue;
            }
            let cut = Arc::clone(&cut);
            tokio::spawn(async move {
                let mut far = TcpStream::connect(("127.0.0.1", beyond)).await.unwrap();
                let until_cut = async {
                    while !cut.load(Ordering::SeqCst) {
                        tokio::task::yield_now().await;
                    }
                };
                tokio::select! {
                    _ = copy_bidirectional(&mut near, &mut far) => {}
                    () = until_cut => std::future::pending().await,
                }
            });
        }
    });
    holds(lose(port, || is_cut.store(true, Ordering::SeqCst)).await);
    relay.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_that_is_back_is_asked_again() {
    let redis = Redis::start().await;
    let limiter = limiter(redis.port);
    assert_eq!(ask(&limiter, address(1), 10).await.0, 10);
    redis.tell("-STOP");
    let began = Instant::now();
    while limiter.degraded().borrow().is_none() {
        ask(&limiter, address(3), 1).await;
        assert!(began.elapsed() < SOON);
    }
    redis.tell("-CONT");
    while limiter.degraded().borrow().is_some() {
        ask(&limiter, address(4), 1).await;
        tokio::time::sleep(Duration::from_millis(50)).await;
        assert!(began.elapsed() < SOON);
    }
}
