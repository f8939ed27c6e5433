//! Tokens whose signature was verified before, so that an unchanged one costs a digest and a lookup.
//!
//! Remembered are claims and the key that signed them, by the digest of the whole token. Whether they are good now is decided anew each
//! time, by the caller and by the ring: a key that left it takes its tokens along.

use std::{
    collections::{HashMap, VecDeque},
    fmt,
    sync::{Arc, Mutex, PoisonError},
};

use sha2::{Digest, Sha256};

use crate::keyring::KeyRing;

/// Locks that calls share; each holds its own part.
const SHARDS: usize = 16;

/// Verified claims of at most so many tokens; when it is full, the one that was first goes.
pub struct TokenCache<C> {
    shards: [Mutex<Shard<C>>; SHARDS],
    per_shard: usize,
}

struct Shard<C> {
    known: HashMap<[u8; 32], Known<C>>,
    order: VecDeque<[u8; 32]>,
}

struct Known<C> {
    claims: Arc<C>,
    thumbprint: Arc<str>,
}

impl<C> TokenCache<C> {
    #[must_use]
    pub fn new(capacity: usize) -> Self {
        let shards = std::array::from_fn(|_| {
            Mutex::new(Shard {
                known: HashMap::new(),
                order: VecDeque::new(),
            })
        });
        Self {
            shards,
            per_shard: capacity.div_ceil(SHARDS).max(1),
        }
    }

    /// The claims of a token: remembered, or else read and remembered if that succeeds.
    pub(crate) fn claims<E>(
        &self,
        token: &str,
        ring: &KeyRing,
        read: impl FnOnce() -> Result<(C, Arc<str>), E>,
    ) -> Result<Arc<C>, E> {
        let digest: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let [first, ..] = digest;
        let Some(shard) = self.shards.get(usize::from(first) % SHARDS) else {
            return read().map(|(claims, _)| Arc::new(claims));
        };
        let lock = || shard.lock().unwrap_or_else(PoisonError::into_inner);
        let known = lock()
            .known
            .get(&digest)
            .map(|known| (Arc::clone(&known.claims), Arc::clone(&known.thumbprint)));
        if let Some((claims, thumbprint)) = known
            && ring.holds(&thumbprint)
        {
            return Ok(claims);
        }
        let (claims, thumbprint) = read()?;
        let claims = Arc::new(claims);
        lock().keep(
            digest,
            Known {
                claims: Arc::clone(&claims),
                thumbprint,
            },
            self.per_shard,
        );
        Ok(claims)
    }

    /// How many tokens are remembered.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shards
            .iter()
            .map(|shard| {
                shard
                    .lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .known
                    .len()
            })
            .sum()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<C> Shard<C> {
    fn keep(&mut self, digest: [u8; 32], known: Known<C>, room: usize) {
        if self.known.insert(digest, known).is_some() {
            return;
        }
        self.order.push_back(digest);
        if self.order.len() > room
            && let Some(oldest) = self.order.pop_front()
        {
            self.known.remove(&oldest);
        }
    }
}

impl<C> fmt::Debug for TokenCache<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TokenCache({})", self.len())
    }
}
