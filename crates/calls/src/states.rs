//! States of modern servers that callers have brought back: each is sent once.
//!
//! A state is spent when the call that carries it is about to be sent; one whose call never went out can be brought back again. What is
//! remembered is bounded: when there is no more room, every state from before that moment is void, and so is every state from before
//! the gate was opened. Forgetting never makes a spent state good again.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use vocab::Violation;

use crate::tokens::{OpenState, wrong_state};

/// 40 bytes each. More than a busy gate sends in the hour that a state lives.
const MAX_SPENT: usize = 64 << 10;

#[derive(Debug)]
pub struct SpentStates(Mutex<Book>);

#[derive(Debug)]
struct Book {
    /// States that were issued before this time are void.
    floor_ms: u64,
    /// By digest, with the time they would have expired.
    spent: HashMap<[u8; 32], u64>,
}

impl SpentStates {
    pub fn new(now_ms: u64) -> Self {
        Self(Mutex::new(Book {
            floor_ms: now_ms,
            spent: HashMap::new(),
        }))
    }

    fn book(&self) -> MutexGuard<'_, Book> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a state could still be sent.
    pub fn check(&self, state: &OpenState) -> Result<(), Violation> {
        self.book().check(state)
    }

    /// Uses it up, unless somebody did before.
    pub fn spend(&self, state: &OpenState, now_ms: u64) -> Result<(), Violation> {
        let mut book = self.book();
        book.check(state)?;
        if book.spent.len() >= MAX_SPENT {
            book.spent.retain(|_, expires_ms| *expires_ms >= now_ms);
        }
        if book.spent.len() >= MAX_SPENT {
            book.spent.clear();
            book.floor_ms = now_ms;
        }
        book.spent.insert(state.digest, state.expires_ms);
        Ok(())
    }

    /// The call that would have carried it was not sent.
    pub fn give_back(&self, state: &OpenState) {
        self.book().spent.remove(&state.digest);
    }
}

impl Book {
    fn check(&self, state: &OpenState) -> Result<(), Violation> {
        match (
            state.issued_ms() < self.floor_ms,
            self.spent.contains_key(&state.digest),
        ) {
            (true, _) => Err(wrong_state("has expired")),
            (false, true) => Err(wrong_state("was used already")),
            (false, false) => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(number: u64, issued_ms: u64) -> OpenState {
        let mut digest = [0; 32];
        digest[..8].copy_from_slice(&number.to_le_bytes());
        OpenState::new(digest, issued_ms, Vec::new())
    }

    #[test]
    fn a_state_is_spent_once_and_one_that_was_not_sent_can_be_brought_again() {
        let spent = SpentStates::new(0);
        let one = state(1, 5);
        assert!(spent.spend(&one, 6).is_ok());
        assert!(spent.check(&one).is_err() && spent.spend(&one, 7).is_err());
        assert!(spent.spend(&state(2, 5), 7).is_ok(), "another is another");
        spent.give_back(&one);
        assert!(spent.spend(&one, 8).is_ok());
    }

    #[test]
    fn forgetting_never_makes_a_spent_state_good_again() {
        let spent = SpentStates::new(100);
        assert!(
            spent.spend(&state(0, 99), 100).is_err(),
            "from before the gate was opened"
        );
        for number in 0..=MAX_SPENT as u64 {
            spent.spend(&state(number, 100), 200).unwrap();
        }
        assert!(spent.book().spent.len() <= MAX_SPENT);
        for number in [0, 1, MAX_SPENT as u64 / 2, MAX_SPENT as u64 - 1] {
            assert!(spent.spend(&state(number, 100), 201).is_err(), "{number}");
        }
        assert!(
            spent.spend(&state(7, 200), 201).is_ok(),
            "a state issued since is good"
        );
    }
}
