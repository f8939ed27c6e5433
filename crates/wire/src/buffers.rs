//! Room for long texts, used again. A fresh megabyte costs a page fault for every four kilobytes of it; one that was used a moment ago
//! costs nothing. As many are kept as were in use at one time, within bounds, until [`trim`] says that they may go.

use std::sync::{Mutex, PoisonError};

use bytes::Bytes;

/// Buffers that are kept, and how large each may be. Shorter ones are left to the allocator, which is good at them.
const KEPT: usize = 64;
const SHORTEST: usize = 64 << 10;
const LONGEST: usize = 2 << 20;
/// Capacities are multiples of this, so that a question's buffer fits its answer.
const STEP: usize = 64 << 10;

static SPARE: Mutex<Vec<Vec<u8>>> = Mutex::new(Vec::new());

/// An empty buffer with at least this much room.
#[must_use]
pub fn take(room: usize) -> Vec<u8> {
    if !(SHORTEST..=LONGEST).contains(&room) {
        return Vec::with_capacity(room);
    }
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    // One that is too short is not made longer: the allocator would copy what is in it, and that is nothing.
    match spare.iter().rposition(|buffer| buffer.capacity() >= room) {
        Some(at) => spare.swap_remove(at),
        None => {
            let _shorter = spare.pop();
            drop(spare);
            Vec::with_capacity(room.next_multiple_of(STEP))
        }
    }
}

/// Gives a buffer back.
pub fn give_back(mut buffer: Vec<u8>) {
    if !(SHORTEST..=LONGEST).contains(&buffer.capacity()) {
        return;
    }
    buffer.clear();
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    if spare.len() < KEPT {
        spare.push(buffer);
    }
}

/// Lets half of what is kept go. Said now and then, it empties the store some time after a rush.
pub fn trim() {
    let mut spare = SPARE.lock().unwrap_or_else(PoisonError::into_inner);
    let kept = spare.len() / 2;
    let gone = spare.split_off(kept);
    drop(spare);
    drop(gone);
}

/// The text of a buffer, which is given back when the last slice of the text is dropped.
#[must_use]
pub fn freeze(buffer: Vec<u8>) -> Bytes {
    if buffer.capacity() < SHORTEST {
        buffer.into()
    } else {
        Bytes::from_owner(Lent(buffer))
    }
}

struct Lent(Vec<u8>);

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        give_back(std::mem::take(&mut self.0));
    }
}

#[cfg(test)]
mod tests {
    use super::{LONGEST, SHORTEST, STEP, freeze, give_back, take};

    #[test]
    fn a_buffer_comes_back_empty_and_with_room() {
        let mut buffer = take(100_000);
        buffer.extend_from_slice(&[7; 100_000]);
        let text = freeze(buffer);
        let part = text.slice(5..10);
        drop(text);
        assert_eq!(part, [7; 5].as_slice());
        drop(part);
        let again = take(200_000);
        assert!(again.is_empty() && again.capacity() >= 200_000);
    }

    #[test]
    fn one_that_is_too_short_is_passed_over() {
        give_back(Vec::with_capacity(SHORTEST));
        let long = take(SHORTEST + 1);
        assert!(
            long.is_empty() && long.capacity() > SHORTEST && long.capacity().is_multiple_of(STEP)
        );
    }

    #[test]
    fn short_and_huge_ones_are_not_kept() {
        give_back(vec![1; 10]);
        give_back(vec![1; LONGEST + 1]);
        let buffer = take(LONGEST);
        assert!(buffer.is_empty() && buffer.capacity() <= 2 * LONGEST);
    }
}
