//! The keys of one provider: fetched through the worker, kept while it is away, renewed when a token names one that is new.
//!
//! Keys are renewed every few minutes and when a token names an unknown one, but never more often than every few seconds, whatever
//! strangers send. When the provider cannot be reached, its last keys are used for a bounded time, and that is said.

use std::{
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwapOption;
use identity::Jwks;
use wire::Text;

use crate::settings::KeySource;

/// Keys older than this are renewed in the background.
const RENEW_MS: u64 = 5 * 60 * 1000;
/// The least time between two attempts, whoever asks.
const PAUSE_MS: u64 = 5 * 1000;
/// How long keys are used after the provider was last heard. Without it no new tokens are issued, so this only has to outlive those
/// that are out.
const OUTLIVE_MS: u64 = 6 * 3600 * 1000;
const MAX_BYTES: u64 = 256 << 10;
/// How long the worker may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// Who fetches a provider's keys from the address that the operator wrote. Callers know no server and no worker.
pub trait Fetch: Sync {
    /// Whether fetching can be tried at all.
    fn is_ready(&self) -> bool;

    /// The text at an address, or a sentence that says why there is none.
    fn fetch(
        &self,
        url: &str,
        max_bytes: u64,
        patience: Duration,
    ) -> impl Future<Output = Result<Text, String>> + Send;
}

pub(super) struct Keys {
    source: KeySource,
    held: ArcSwapOption<Held>,
    /// One fetches, the others wait for what it brings.
    turn: tokio::sync::Mutex<()>,
    /// When the last attempt began, plus one; 0 before the first.
    tried: AtomicU64,
    trouble: Mutex<Option<String>>,
}

struct Held {
    keys: Arc<Jwks>,
    /// When the provider last confirmed them.
    since_ms: u64,
}

impl Keys {
    pub(super) fn new(source: &KeySource) -> Self {
        let keys = Self {
            source: source.clone(),
            held: ArcSwapOption::empty(),
            turn: tokio::sync::Mutex::new(()),
            tried: AtomicU64::new(0),
            trouble: Mutex::new(None),
        };
        if let KeySource::Given(set) = source {
            keys.held.store(Some(Arc::new(Held {
                keys: Arc::clone(set),
                since_ms: 0,
            })));
        }
        keys
    }

    /// The keys in force, fetched now if there are none.
    pub(super) async fn current(
        &self,
        fetch: &impl Fetch,
        mono_ms: u64,
    ) -> Result<Arc<Jwks>, String> {
        if let Some(keys) = self.usable(mono_ms) {
            return Ok(keys);
        }
        self.fetch(fetch, mono_ms).await;
        self.usable(mono_ms).ok_or_else(|| {
            self.trouble()
                .unwrap_or_else(|| "the provider's keys are not known yet".to_owned())
        })
    }

    fn usable(&self, mono_ms: u64) -> Option<Arc<Jwks>> {
        let held = self.held.load_full()?;
        let fixed = matches!(self.source, KeySource::Given(_));
        (fixed || mono_ms.saturating_sub(held.since_ms) <= OUTLIVE_MS)
            .then(|| Arc::clone(&held.keys))
    }

    /// A token named a key that is not known: were there perhaps new ones? `false` if that was just tried.
    pub(super) async fn look_again(&self, fetch: &impl Fetch, mono_ms: u64) -> bool {
        self.fetch(fetch, mono_ms).await
    }

    pub(super) async fn refresh_if_old(&self, fetch: &impl Fetch, mono_ms: u64) {
        let old = self
            .held
            .load()
            .as_ref()
            .is_none_or(|held| mono_ms.saturating_sub(held.since_ms) >= RENEW_MS);
        if old {
            self.fetch(fetch, mono_ms).await;
        }
    }

    /// Fetches, unless somebody did within the pause; `true` if there may be something new.
    async fn fetch(&self, fetch: &impl Fetch, mono_ms: u64) -> bool {
        let KeySource::Url(url) = &self.source else {
            return false;
        };
        let before = self.tried.load(Ordering::Acquire);
        let _turn = self.turn.lock().await;
        let tried = self.tried.load(Ordering::Acquire);
        if tried != before {
            // Somebody else came back while we waited.
            return true;
        }
        if tried != 0 && mono_ms < (tried - 1).saturating_add(PAUSE_MS) {
            return false;
        }
        if !fetch.is_ready() {
            self.note(Some("the worker is starting".to_owned()));
            return false;
        }
        self.tried.store(mono_ms + 1, Ordering::Release);
        let fetched = fetch.fetch(url, MAX_BYTES, PATIENCE).await;
        let fetched =
            fetched.and_then(|text| Jwks::parse(&text).map_err(|error| error.to_string()));
        self.take(url, fetched, mono_ms)
    }

    fn take(&self, url: &str, fetched: Result<Jwks, String>, mono_ms: u64) -> bool {
        match fetched {
            Ok(keys) => {
                self.note(None);
                let before = self.held.swap(Some(Arc::new(Held {
                    keys: Arc::new(keys.clone()),
                    since_ms: mono_ms,
                })));
                if before.is_none_or(|before| before.keys.ring() != keys.ring()) {
                    tracing::info!(
                        url,
                        keys = keys.ring().len(),
                        unusable = keys.unusable,
                        "a provider's keys are new"
                    );
                }
                true
            }
            Err(error) => {
                tracing::warn!(
                    url,
                    error,
                    "a provider's keys cannot be fetched; the last ones are used for a while"
                );
                self.note(Some(error));
                false
            }
        }
    }

    fn note(&self, trouble: Option<String>) {
        *self.trouble.lock().unwrap_or_else(PoisonError::into_inner) = trouble;
    }

    fn trouble(&self) -> Option<String> {
        self.trouble
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    pub(super) fn status(&self, issuer: &str, mono_ms: u64) -> api::Issuer {
        let held = self.held.load_full();
        let mut status = api::Issuer {
            issuer: issuer.to_owned(),
            keys: held.as_ref().map_or(0, |held| held.keys.ring().len()) as u64,
            ..api::Issuer::default()
        };
        if let (KeySource::Url(url), Some(held)) = (&self.source, &held) {
            status.jwks_url = Some(url.clone());
            status.age_ms = Some(mono_ms.saturating_sub(held.since_ms));
        }
        if let Some(trouble) = self.trouble() {
            status.last_error = Some(trouble);
            status.usable = Some(self.usable(mono_ms).is_some());
        }
        status
    }
}
