//! The secrets of launched workloads, as digests in memory: whether a stranger proves anything is known before the database is asked and
//! before anything is counted.
//!
//! Whether the workload may still be used is the database's to say; what is here never lets anybody in by itself.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use state::Workload;
use subtle::ConstantTimeEq;

/// Digest of the secret and when it expires, by id. As many as operators have launched and not yet seen expire.
#[derive(Debug, Default)]
pub(super) struct Launched(Mutex<HashMap<String, ([u8; 32], u64)>>);

impl Launched {
    pub(super) fn new(workloads: &[Workload]) -> Self {
        let launched = Self::default();
        workloads.iter().for_each(|workload| launched.add(workload));
        launched
    }

    fn known(&self) -> MutexGuard<'_, HashMap<String, ([u8; 32], u64)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lets one more prove itself, and forgets those whose time is over.
    pub(super) fn add(&self, workload: &Workload) {
        let mut known = self.known();
        known.retain(|_, (_, expires_ms)| *expires_ms > workload.created_ms);
        known.insert(workload.id.clone(), (workload.digest, workload.expires_ms));
    }

    /// Whether this is the digest of that workload's secret, in its time.
    pub(super) fn proves(&self, id: &str, digest: &[u8; 32], now_ms: u64) -> bool {
        let known = self.known().get(id).copied();
        known.is_some_and(|(own, expires_ms)| expires_ms > now_ms && bool::from(own.ct_eq(digest)))
    }
}
