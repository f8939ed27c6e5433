//! How often a host is asked, by everybody behind this gate together: so many times a minute and twice at once, and not before it said.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Requests to one host at once.
const AT_ONCE: usize = 2;
const MINUTE: Duration = Duration::from_secs(60);
/// Hosts remembered.
const MOST_HOSTS: usize = 10_000;
/// No server sends us away for longer.
const LONGEST: Duration = Duration::from_secs(3600);

#[derive(Debug)]
struct Host {
    asked: VecDeque<Instant>,
    /// Not before this.
    until: Option<Instant>,
    places: Arc<Semaphore>,
}

impl Host {
    fn new() -> Self {
        Self {
            asked: VecDeque::new(),
            until: None,
            places: Arc::new(Semaphore::new(AT_ONCE)),
        }
    }

    fn is_forgettable(&self, now: Instant) -> bool {
        let is_quiet = self
            .asked
            .back()
            .is_none_or(|last| now.duration_since(*last) > MINUTE);
        let waits = self.until.is_some_and(|until| until > now);
        is_quiet && !waits && self.places.available_permits() == AT_ONCE
    }
}

#[derive(Debug, Default)]
pub(crate) struct Manners(Mutex<HashMap<String, Host>>);

impl Manners {
    /// Counts a request. `Err`: when it is worth asking again.
    pub(crate) fn ask(
        &self,
        host: &str,
        per_minute: usize,
        now: Instant,
    ) -> Result<Arc<Semaphore>, Duration> {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if hosts.len() >= MOST_HOSTS && !hosts.contains_key(host) {
            hosts.retain(|_, host| !host.is_forgettable(now));
            if hosts.len() >= MOST_HOSTS {
                return Err(MINUTE);
            }
        }
        let host = hosts.entry(host.to_owned()).or_insert_with(Host::new);
        while host
            .asked
            .front()
            .is_some_and(|first| now.duration_since(*first) >= MINUTE)
        {
            host.asked.pop_front();
        }
        if let Some(until) = host.until.filter(|until| *until > now) {
            return Err(until - now);
        }
        if host.asked.len() >= per_minute {
            let first = host.asked.front().copied().unwrap_or(now);
            return Err(MINUTE.saturating_sub(now.duration_since(first)));
        }
        host.asked.push_back(now);
        Ok(Arc::clone(&host.places))
    }

    /// A host said when it may be asked again.
    pub(crate) fn sent_away(&self, host: &str, wait: Duration, now: Instant) {
        let mut hosts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(host) = hosts.get_mut(host) {
            host.until = Some(now + wait.min(LONGEST));
        }
    }
}

/// One of the places of a host, waited for.
pub(crate) async fn place(places: Arc<Semaphore>) -> Option<OwnedSemaphorePermit> {
    places.acquire_owned().await.ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_asked_so_many_times_a_minute_and_not_before_it_said() {
        let (manners, now) = (Manners::default(), Instant::now());
        for second in 0..3 {
            assert!(
                manners
                    .ask("a", 3, now + Duration::from_secs(second))
                    .is_ok()
            );
        }
        let wait = manners
            .ask("a", 3, now + Duration::from_secs(10))
            .unwrap_err();
        assert_eq!(wait, Duration::from_secs(50));
        assert!(manners.ask("b", 3, now).is_ok(), "another host");
        let later = now + MINUTE;
        assert!(manners.ask("a", 3, later).is_ok());
        manners.sent_away("a", Duration::from_secs(9), later);
        assert_eq!(
            manners.ask("a", 3, later).unwrap_err(),
            Duration::from_secs(9)
        );
        manners.sent_away("a", Duration::from_secs(1 << 40), later);
        assert_eq!(manners.ask("a", 3, later).unwrap_err(), LONGEST);
    }

    #[test]
    fn hosts_that_are_remembered_have_a_bound() {
        let (manners, now) = (Manners::default(), Instant::now());
        for number in 0..MOST_HOSTS {
            assert!(manners.ask(&number.to_string(), 1, now).is_ok());
        }
        assert!(manners.ask("one more", 1, now).is_err());
        assert!(manners.ask("one more", 1, now + 2 * MINUTE).is_ok());
        assert_eq!(manners.0.lock().unwrap().len(), 1);
    }
}
