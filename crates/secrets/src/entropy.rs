//! Randomness as a value, so that nothing else here asks the system for it.

use std::io;
use std::sync::Arc;

/// Fills a buffer with random bytes.
pub type Entropy = Arc<dyn Fn(&mut [u8]) -> io::Result<()> + Send + Sync>;

/// The operating system's generator.
pub fn os_entropy() -> Entropy {
    Arc::new(|bytes| getrandom::fill(bytes).map_err(io::Error::other))
}
