//! Which parts of an arena are free. The lowest that fits is taken, so that few pages are touched and they stay in the caches.

use std::collections::BTreeMap;

/// Blocks begin and end at multiples of this: a page.
const GRAIN: usize = 4096;

/// Free parts by where they begin; no two of them touch.
#[derive(Debug)]
pub(super) struct Blocks {
    free: BTreeMap<usize, usize>,
    all: usize,
}

impl Blocks {
    pub(super) fn new(bytes: usize) -> Self {
        let all = bytes / GRAIN * GRAIN;
        Self {
            free: BTreeMap::from([(0, all)]),
            all,
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.free.get(&0) == Some(&self.all)
    }

    pub(super) fn take(&mut self, bytes: usize) -> Option<usize> {
        let size = rounded(bytes)?;
        let (&start, &found) = self.free.iter().find(|(_, found)| **found >= size)?;
        self.free.remove(&start);
        if found > size {
            self.free.insert(start + size, found - size);
        }
        Some(start)
    }

    /// Takes back what [`Blocks::take`] gave for the same number of bytes.
    pub(super) fn give_back(&mut self, mut start: usize, bytes: usize) {
        let Some(mut size) = rounded(bytes) else {
            return;
        };
        if let Some(after) = self.free.remove(&(start + size)) {
            size += after;
        }
        if let Some((&before, &length)) = self.free.range(..start).next_back()
            && before + length == start
        {
            start = before;
            size += length;
        }
        self.free.insert(start, size);
    }
}

fn rounded(bytes: usize) -> Option<usize> {
    bytes.max(1).checked_next_multiple_of(GRAIN)
}

#[cfg(test)]
mod tests {
    use super::{Blocks, GRAIN};

    #[test]
    fn the_lowest_room_is_used_first_and_neighbours_join() {
        let mut blocks = Blocks::new(10 * GRAIN);
        let taken: Vec<_> = [1, GRAIN, GRAIN + 1, 6 * GRAIN]
            .iter()
            .map(|bytes| blocks.take(*bytes))
            .collect();
        assert_eq!(
            taken,
            [Some(0), Some(GRAIN), Some(2 * GRAIN), Some(4 * GRAIN)]
        );
        assert_eq!(blocks.take(1), None);
        blocks.give_back(GRAIN, GRAIN);
        assert_eq!(blocks.take(2 * GRAIN), None);
        blocks.give_back(2 * GRAIN, GRAIN + 1);
        assert_eq!(blocks.take(3 * GRAIN), Some(GRAIN));
        blocks.give_back(GRAIN, 3 * GRAIN);
        blocks.give_back(4 * GRAIN, 6 * GRAIN);
        assert!(!blocks.is_empty());
        blocks.give_back(0, 1);
        assert!(blocks.is_empty());
    }

    #[test]
    fn what_cannot_fit_is_not_given() {
        let mut blocks = Blocks::new(2 * GRAIN + 1);
        assert_eq!(blocks.take(2 * GRAIN + 1), None);
        assert_eq!(blocks.take(usize::MAX), None);
        assert_eq!(blocks.take(0), Some(0));
    }
}
