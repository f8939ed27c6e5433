//! Reading `portcullis.lock` again: first to look at, then to keep.

use std::sync::{Mutex, MutexGuard};

use arc_swap::ArcSwap;

use super::{Pins, load};

/// The file as it was read again.
#[derive(Debug)]
pub struct ReadAgain<'a> {
    pins: &'a Pins,
    preview: Pins,
    _turn: MutexGuard<'a, ()>,
}

impl ReadAgain<'_> {
    /// The approved definitions as they would be: to look at, never to change.
    #[must_use]
    pub fn preview(&self) -> &Pins {
        &self.preview
    }

    /// They are so from now on.
    pub fn keep(self) {
        self.pins.lock.store(self.preview.lock.load_full());
    }
}

impl Pins {
    /// Reads the file again, and changes nothing yet. Nobody else changes anything until it is kept or let go.
    pub fn read_again(&self) -> Result<ReadAgain<'_>, String> {
        let turn = self.turn();
        let lock = load(&self.file)?;
        let preview = Self {
            file: self.file.clone(),
            lock: ArcSwap::from_pointee(lock),
            changing: Mutex::default(),
            reported: Mutex::default(),
        };
        Ok(ReadAgain {
            pins: self,
            preview,
            _turn: turn,
        })
    }

    /// Takes on what the file says now; a bad one changes nothing.
    pub fn reload(&self) -> Result<(), String> {
        self.read_again().map(ReadAgain::keep)
    }
}
