//! Rate limits of servers and tools: so many calls in so much time, over all callers together.
//!
//! Each limit is one word of memory that says when the next call would be on time (the leaky bucket as a schedule), so counting is
//! one compare-and-swap. Meters outlive the catalog: rebuilding it forgives nothing.

mod calls;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use policy::{Exceeded, Meter};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use vocab::ServerId;

use crate::{places::Places, settings::Rate};
pub use calls::{Calls, Limits, SoFar};

#[derive(Debug)]
pub struct Bucket {
    name: String,
    rate: Rate,
    born: Instant,
    /// Nanoseconds after `born` at which a steady stream of the calls so far would end.
    due: AtomicU64,
}

impl Bucket {
    pub fn new(name: String, rate: Rate) -> Self {
        Self {
            name,
            rate,
            born: Instant::now(),
            due: AtomicU64::new(0),
        }
    }

    /// Counts a call that comes now.
    pub fn take(&self) -> Result<(), Exceeded> {
        self.take_many(1)
    }

    /// Counts several at once: all of them, or none.
    pub fn take_many(&self, calls: u64) -> Result<(), Exceeded> {
        self.count_many(Instant::now(), true, calls)
    }

    /// A call that was counted is not made after all.
    fn give_back(&self) {
        let earlier = |due: u64| Some(due.saturating_sub(self.step()));
        let _ = self
            .due
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, earlier);
    }

    fn step(&self) -> u64 {
        nanos(self.rate.per) / u64::from(self.rate.calls.max(1))
    }

    fn count(&self, now: Instant, is_counted: bool) -> Result<(), Exceeded> {
        self.count_many(now, is_counted, 1)
    }

    /// A whole burst may come at once; after that, calls are let in at the rate's pace.
    fn count_many(&self, now: Instant, is_counted: bool, calls: u64) -> Result<(), Exceeded> {
        let now = nanos(now.saturating_duration_since(self.born));
        let window = nanos(self.rate.per);
        let step = self.step().saturating_mul(calls);
        let next = |due: u64| {
            let next = due.max(now).saturating_add(step);
            (next <= now.saturating_add(window)).then_some(next)
        };
        let due = self.due.load(Ordering::Acquire);
        let counted = if is_counted {
            self.due
                .fetch_update(Ordering::AcqRel, Ordering::Acquire, next)
                .map(drop)
        } else {
            next(due).map(drop).ok_or(due)
        };
        counted.map_err(|due| Exceeded {
            limit: self.name.clone(),
            calls: self.rate.calls.into(),
            retry_after: Duration::from_nanos(
                due.saturating_add(step)
                    .saturating_sub(now.saturating_add(window)),
            )
            .max(Duration::from_millis(1)),
        })
    }
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

/// The limits one call counts against, and the places of the server it goes to.
#[derive(Debug, Clone, Default)]
pub struct Metered {
    buckets: Arc<[Arc<Bucket>]>,
    places: Arc<Places>,
}

/// A call that was counted against its limits. Given back unless it is kept: what is refused in the end uses up nothing that others need.
#[derive(Debug)]
#[must_use = "a charge that is dropped is given back"]
pub struct Charge(Option<Metered>);

impl Charge {
    /// The call is made.
    pub fn keep(mut self) {
        self.0 = None;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.0
            .iter()
            .flat_map(|metered| metered.buckets.iter())
            .for_each(|bucket| bucket.give_back());
    }
}

impl Metered {
    /// These limits and one more.
    pub fn and(&self, bucket: Arc<Bucket>) -> Self {
        Self {
            buckets: self.buckets.iter().cloned().chain([bucket]).collect(),
            places: Arc::clone(&self.places),
        }
    }

    /// The places of the server.
    pub fn places(&self) -> &Arc<Places> {
        &self.places
    }

    /// Counts a call that everything else has let through.
    pub fn charge(&self) -> Result<Charge, Exceeded> {
        self.run(true)
            .map(|()| Charge((!self.buckets.is_empty()).then(|| self.clone())))
    }

    fn run(&self, is_counted: bool) -> Result<(), Exceeded> {
        if self.buckets.is_empty() {
            return Ok(());
        }
        let now = Instant::now();
        // Looked at before any is counted, so that a call refused by one limit does not use up another.
        self.buckets
            .iter()
            .try_for_each(|bucket| bucket.count(now, false))?;
        if is_counted {
            self.buckets
                .iter()
                .try_for_each(|bucket| bucket.count(now, true))
        } else {
            Ok(())
        }
    }
}

/// Looks at the limits without counting: a call is counted when everything else has let it through.
#[derive(Debug)]
pub struct Peek<'a>(pub &'a Metered);

impl Meter for Peek<'_> {
    fn count(&self) -> Result<(), Exceeded> {
        self.0.run(false)
    }
}

/// The limits that a security context puts on one caller: a rate and a number of places for each capability, and a number of calls.
#[derive(Debug, Default)]
pub struct SessionMeters {
    rates: Mutex<HashMap<String, Arc<Bucket>>>,
    places: Mutex<HashMap<String, (u32, Arc<Semaphore>)>>,
    pub calls: Calls,
}

impl SessionMeters {
    /// The meter of a capability's rate, the same one as before unless the rate changed.
    pub fn rate(&self, name: String, rate: Rate) -> Arc<Bucket> {
        let mut rates = self.rates.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(bucket) = rates.get(&name).filter(|bucket| bucket.rate == rate) {
            return Arc::clone(bucket);
        }
        let bucket = Arc::new(Bucket::new(name.clone(), rate));
        rates.insert(name, Arc::clone(&bucket));
        bucket
    }

    /// One of so many places, given back when it is dropped; `None` if all are taken.
    pub fn place(&self, name: String, limit: u32) -> Option<OwnedSemaphorePermit> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        let fresh = || {
            (
                limit,
                Arc::new(Semaphore::new(
                    limit
                        .try_into()
                        .unwrap_or(usize::MAX)
                        .min(Semaphore::MAX_PERMITS),
                )),
            )
        };
        let entry = places.entry(name).or_insert_with(fresh);
        if entry.0 != limit {
            *entry = fresh();
        }
        Arc::clone(&entry.1).try_acquire_owned().ok()
    }
}

/// A server, or one of its tools; and how often it may be called. Two configurations that differ in a limit count apart.
type Limited = (ServerId, Option<String>, Rate);

/// Every meter of the gate.
#[derive(Debug, Default)]
pub struct Meters {
    buckets: Mutex<HashMap<Limited, Arc<Bucket>>>,
    /// As many as there were servers since the gate was opened.
    places: Mutex<HashMap<ServerId, Arc<Places>>>,
}

impl Meters {
    /// What calls to a server count against.
    pub fn of_server(&self, server: &ServerId, rate: Option<Rate>) -> Metered {
        Metered {
            buckets: self.bucket(server, None, rate).into_iter().collect(),
            places: self.places(server),
        }
    }

    /// What calls of one of its tools count against: its own limit, and the server's.
    pub fn of_tool(
        &self,
        server: &ServerId,
        rate: Option<Rate>,
        tool: &str,
        own: Option<Rate>,
    ) -> Metered {
        let buckets = self.bucket(server, None, rate).into_iter();
        Metered {
            buckets: buckets
                .chain(self.bucket(server, Some(tool), own))
                .collect(),
            places: self.places(server),
        }
    }

    fn places(&self, server: &ServerId) -> Arc<Places> {
        let mut places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::clone(places.entry(server.clone()).or_default())
    }

    /// The meter of a limit, the same one as before unless the limit changed.
    fn bucket(
        &self,
        server: &ServerId,
        tool: Option<&str>,
        rate: Option<Rate>,
    ) -> Option<Arc<Bucket>> {
        let rate = rate?;
        let mut buckets = self.buckets.lock().unwrap_or_else(PoisonError::into_inner);
        let key = (server.clone(), tool.map(str::to_owned), rate);
        if let Some(bucket) = buckets.get(&key) {
            return Some(Arc::clone(bucket));
        }
        let name = match tool {
            Some(tool) => format!("the rate limit of `{tool}` on server `{server}`"),
            None => format!("the rate limit of server `{server}`"),
        };
        // What no catalog counts by any more begins anew when it is wanted again.
        buckets.retain(|_, bucket| Arc::strong_count(bucket) > 1);
        let bucket = Arc::new(Bucket::new(name, rate));
        buckets.insert(key, Arc::clone(&bucket));
        Some(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_and_then_the_pace_holds() {
        let bucket = Bucket::new(
            "limit".into(),
            Rate {
                calls: 3,
                per: Duration::from_secs(3),
            },
        );
        let start = bucket.born;
        for _ in 0..3 {
            assert!(bucket.count(start, true).is_ok());
        }
        let exceeded = bucket.count(start, true).unwrap_err();
        assert_eq!(exceeded.retry_after, Duration::from_secs(1));
        assert!(bucket.count(start + Duration::from_secs(1), true).is_ok());
        assert!(bucket.count(start + Duration::from_secs(1), true).is_err());
    }

    #[test]
    fn looking_does_not_count() {
        let bucket = Bucket::new(
            "limit".into(),
            Rate {
                calls: 1,
                per: Duration::from_secs(1),
            },
        );
        for _ in 0..10 {
            assert!(bucket.count(bucket.born, false).is_ok());
        }
        assert!(bucket.count(bucket.born, true).is_ok());
        assert!(bucket.count(bucket.born, false).is_err());
    }

    #[test]
    fn what_is_given_back_can_be_taken_again() {
        let bucket = Arc::new(Bucket::new(
            "limit".into(),
            Rate {
                calls: 1,
                per: Duration::from_secs(3600),
            },
        ));
        let metered = Metered::default().and(Arc::clone(&bucket));
        for _ in 0..10 {
            drop(metered.charge().unwrap());
        }
        metered.charge().unwrap().keep();
        assert!(metered.charge().is_err());
        drop(metered.charge());
        assert!(
            metered.charge().is_err(),
            "a charge that failed gives nothing back"
        );
    }

    #[test]
    fn many_threads_never_pass_more_than_the_burst() {
        let bucket = Bucket::new(
            "limit".into(),
            Rate {
                calls: 100,
                per: Duration::from_secs(3600),
            },
        );
        let passed = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for _ in 0..50 {
                        if bucket.count(bucket.born, true).is_ok() {
                            passed.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(passed.into_inner(), 100);
    }
}
