//! How much of unfinished answers is held in memory, over all servers together.

use std::{cell::Cell, rc::Rc};

use crate::failure::{Failure, Kind};

/// All answers that are still arriving may hold this much.
const LIMIT: usize = 192 << 20;

/// The common account.
#[derive(Debug, Clone, Default)]
pub(crate) struct Account(Rc<Cell<usize>>);

/// One answer's share of it; given back when dropped.
#[derive(Debug)]
pub(crate) struct Share {
    account: Account,
    bytes: usize,
}

impl Account {
    pub(crate) fn open(&self) -> Share {
        Share {
            account: self.clone(),
            bytes: 0,
        }
    }
}

impl Share {
    /// Says how much is held now. An answer that would exceed the common limit fails, not the process.
    pub(crate) fn set(&mut self, bytes: usize) -> Result<(), Failure> {
        let others = self.account.0.get() - self.bytes;
        if bytes > self.bytes && others.saturating_add(bytes) > LIMIT {
            return Err(Failure::new(
                Kind::NoRoom,
                "too many large answers are arriving at once",
            ));
        }
        self.account.0.set(others + bytes);
        self.bytes = bytes;
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.account.0.set(self.account.0.get() - self.bytes);
    }
}
