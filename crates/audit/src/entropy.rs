//! Randomness for keys, asked for here and nowhere else in this crate.

use std::fmt;
use std::io;
use std::sync::{Mutex, PoisonError};

/// Keys nobody can guess, from the operating system's generator. It is asked for many at once, because asking costs more
/// than a key; a key leaves no copy behind here.
#[derive(Default)]
pub(crate) struct Keys {
    stock: Mutex<Vec<[u8; 32]>>,
}

const AT_ONCE: usize = 32;

impl Keys {
    pub(crate) fn fresh(&self) -> io::Result<[u8; 32]> {
        let mut stock = self.stock.lock().unwrap_or_else(PoisonError::into_inner);
        if stock.is_empty() {
            let mut drawn = [[0; 32]; AT_ONCE];
            getrandom::fill(drawn.as_flattened_mut()).map_err(io::Error::other)?;
            stock.extend(drawn);
        }
        let key = stock.last().copied().ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Some(last) = stock.last_mut() {
            *last = [0; 32];
        }
        stock.pop();
        Ok(key)
    }
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Keys")
    }
}
