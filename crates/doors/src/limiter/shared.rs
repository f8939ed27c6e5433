//! The counters that several gates share, in a Redis or Valkey.
//!
//! One script does it all at once: it takes the store's own clock, so that gates need not agree on theirs. Whoever asks waits for
//! [`PATIENCE`] at most; three failures within a second close the road for a while that grows, so that a store that hangs costs a few
//! requests a little and the others nothing.

use std::{
    net::IpAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use resp::{Client, Target};
use tokio::sync::watch;
use vocab::Redacted;

use super::{StoreSpec, local::PARTS};

/// How long a request waits for the store.
pub(super) const PATIENCE: Duration = Duration::from_millis(25);
/// Failures within a second after which the store is not asked for a while.
const FAILURES: usize = 3;
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// How often a gate says that it is there, and how long the others believe it.
const BEAT: Duration = Duration::from_secs(10);
const ALIVE_MS: &[u8] = b"30000";
const GATES: &[u8] = b"portcullis:limiter:gates";

/// KEYS: the address. ARGV: limit, milliseconds of a counter, counters in a window. Answers 0, or how many milliseconds to wait.
const TAKE: &[u8] = b"local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
local limit, step, parts = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local bucket = math.floor(now / step)
local held = redis.call('HGETALL', KEYS[1])
local sum, counts = 0, {}
for i = 1, #held, 2 do
  local b = tonumber(held[i])
  if b < bucket - parts then
    redis.call('HDEL', KEYS[1], held[i])
  else
    counts[b] = tonumber(held[i + 1])
    sum = sum + counts[b]
  end
end
if sum < limit then
  redis.call('HINCRBY', KEYS[1], string.format('%d', bucket), 1)
  redis.call('PEXPIRE', KEYS[1], step * (parts + 2))
  return 0
end
local left = sum
for b = bucket - parts, bucket do
  left = left - (counts[b] or 0)
  if left < limit then
    return math.max(1, (b + parts + 1) * step - now)
  end
end
return step";

/// KEYS: the gates. ARGV: this one, milliseconds for which it counts. Answers how many there are.
const HERE: &[u8] = b"local t = redis.call('TIME')
local now = t[1] * 1000 + math.floor(t[2] / 1000)
redis.call('ZADD', KEYS[1], now, ARGV[1])
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now - tonumber(ARGV[2]))
redis.call('PEXPIRE', KEYS[1], tonumber(ARGV[2]) * 2)
return redis.call('ZCARD', KEYS[1])";

#[derive(Debug)]
pub(super) struct Shared {
    client: Option<Client>,
    road: Arc<Road>,
    beat: Option<tokio::task::JoinHandle<()>>,
}

/// Whether the store is asked, and how many gates it knew last.
#[derive(Debug)]
struct Road {
    breaker: Mutex<Breaker>,
    gates: AtomicU32,
    degraded: watch::Sender<Option<String>>,
}

#[derive(Debug, Default)]
struct Breaker {
    failures: Vec<Instant>,
    closed_until: Option<Instant>,
    pause: Duration,
}

/// The store was not asked, or did not answer.
pub(super) struct Lost;

impl Shared {
    pub(super) fn new(
        store: &StoreSpec,
        password: Option<Redacted<String>>,
        degraded: watch::Sender<Option<String>>,
    ) -> Self {
        let client = Client::new(Target {
            address: store.address.clone(),
            database: store.database,
            user: store.user.clone(),
            password,
        });
        let road = Arc::new(Road::new(degraded));
        let beat = tokio::spawn(beat(client.clone(), Arc::clone(&road)));
        Self {
            client: Some(client),
            road,
            beat: Some(beat),
        }
    }

    /// One that is never asked.
    pub(super) fn unusable(why: String, degraded: watch::Sender<Option<String>>) -> Self {
        degraded.send_replace(Some(why));
        Self {
            client: None,
            road: Arc::new(Road::new(degraded)),
            beat: None,
        }
    }

    /// How many gates share the store, as far as is known.
    pub(super) fn gates(&self) -> u32 {
        self.road.gates.load(Ordering::Relaxed).max(1)
    }

    pub(super) fn is_lost(&self) -> bool {
        self.road.degraded.borrow().is_some()
    }

    /// Counts a request. `Some`: it is beyond the limit, and this long it takes until the next one is not.
    pub(super) async fn take(
        &self,
        address: IpAddr,
        limit: u32,
        window: Duration,
    ) -> Result<Option<Duration>, Lost> {
        let Some(client) = self.client.as_ref().filter(|_| self.road.is_open()) else {
            return Err(Lost);
        };
        let window = u64::try_from(window.as_millis()).unwrap_or(u64::MAX);
        let step = (window / PARTS).max(1).to_string();
        // Gates with other terms count apart.
        let key = format!("portcullis:limiter:{limit}:{window}:{address}");
        let (limit, parts) = (limit.to_string(), PARTS.to_string());
        let words: [&[u8]; 7] = [
            b"EVAL",
            TAKE,
            b"1",
            key.as_bytes(),
            limit.as_bytes(),
            step.as_bytes(),
            parts.as_bytes(),
        ];
        let answer = client.ask(&words, PATIENCE).await;
        let waits = answer.map_err(|error| error.to_string()).and_then(|value| {
            let number = value.integer().and_then(|ms| u64::try_from(ms).ok());
            number.ok_or_else(|| "the store answers something else".to_owned())
        });
        match waits {
            Ok(0) => {
                self.road.answered();
                Ok(None)
            }
            Ok(ms) => {
                self.road.answered();
                Ok(Some(Duration::from_millis(ms)))
            }
            Err(error) => {
                self.road.failed(error);
                Err(Lost)
            }
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        if let Some(beat) = &self.beat {
            beat.abort();
        }
    }
}

impl Road {
    fn new(degraded: watch::Sender<Option<String>>) -> Self {
        Self {
            breaker: Mutex::default(),
            gates: AtomicU32::new(1),
            degraded,
        }
    }

    fn breaker(&self) -> MutexGuard<'_, Breaker> {
        self.breaker.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn is_open(&self) -> bool {
        let breaker = self.breaker();
        breaker
            .closed_until
            .is_none_or(|until| Instant::now() >= until)
    }

    fn answered(&self) {
        if self.degraded.borrow().is_none() && self.breaker().failures.is_empty() {
            return;
        }
        *self.breaker() = Breaker::default();
        self.degraded
            .send_if_modified(|degraded| degraded.take().is_some());
    }

    fn failed(&self, error: String) {
        let now = Instant::now();
        let mut breaker = self.breaker();
        if breaker.closed_until.is_some_and(|until| now < until) {
            return;
        }
        breaker
            .failures
            .retain(|at| now.duration_since(*at) < Duration::from_secs(1));
        breaker.failures.push(now);
        // One that was closed before and fails again needs no three more.
        if breaker.failures.len() >= FAILURES || breaker.closed_until.is_some() {
            let pause = (breaker.pause * 2).clamp(FIRST_PAUSE, LONGEST_PAUSE);
            *breaker = Breaker {
                failures: Vec::new(),
                closed_until: Some(now + pause),
                pause,
            };
        }
        drop(breaker);
        self.degraded.send_if_modified(|degraded| {
            let is_new = degraded.is_none();
            if is_new {
                *degraded = Some(error);
            }
            is_new
        });
    }
}

/// Says every so often that this gate is there, and learns how many there are. Not in anybody's way, so it waits longer.
async fn beat(client: Client, road: Arc<Road>) {
    let own = format!(
        "{:p}-{}-{:?}",
        Arc::as_ptr(&road),
        std::process::id(),
        Instant::now()
    );
    loop {
        let words: [&[u8]; 6] = [b"EVAL", HERE, b"1", GATES, own.as_bytes(), ALIVE_MS];
        if let Ok(answer) = client.ask(&words, Duration::from_secs(1)).await
            && let Some(gates) = answer.integer().and_then(|count| u32::try_from(count).ok())
        {
            road.gates.store(gates, Ordering::Relaxed);
        }
        tokio::time::sleep(BEAT).await;
    }
}
