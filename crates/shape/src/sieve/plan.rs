//! Choosing the cores: for every needle the few bytes by which it is found, and the bucket they go to.
//!
//! The fewer places of an ordinary text are marked by mistake, the faster is the search. So cores are made of bytes that are rare, and
//! share a bucket with cores of similar bytes. What is chosen changes only how fast a search is, never what it finds.

use super::{Core, Spelling, blocks::POSITIONS};

pub(super) const BUCKETS: usize = 8;
/// Places in a needle that are tried; values we hold may be long.
const TRIED: usize = 24;
/// How often every choice is thought over again.
const SECOND_THOUGHTS: usize = 2;

/// A core, and its bucket.
pub(super) type Placed = (Core, usize);

/// Cores in their buckets; more can be added.
#[derive(Clone)]
pub(super) struct Plan {
    spelling: Spelling,
    buckets: Vec<Bucket>,
}

/// How many cores of a bucket have each byte at each position.
#[derive(Clone)]
struct Bucket {
    count: [[u16; 256]; POSITIONS],
    /// How much of an ordinary text has one of those bytes.
    share: [f32; POSITIONS],
}

impl Plan {
    pub(super) fn new(spelling: Spelling) -> Self {
        let empty = Bucket { count: [[0; 256]; POSITIONS], share: [0.0; POSITIONS] };
        Self { spelling, buckets: vec![empty; BUCKETS] }
    }

    /// Places all of these, thinking it over until it is good.
    pub(super) fn place_well(&mut self, needles: &[&[u8]]) -> Vec<Placed> {
        let mut placed: Vec<Placed> = needles.iter().enumerate().filter_map(|(at, needle)| self.place(at, needle)).collect();
        for _ in 0..SECOND_THOUGHTS {
            for (core, bucket) in &mut placed {
                let Some(needle) = needles.get(core.needle) else { continue };
                if let Some(bucket) = self.buckets.get_mut(*bucket) {
                    bucket.change(&core.bytes(needle), self.spelling, false);
                }
                if let Some(better) = self.place(core.needle, needle) {
                    (*core, *bucket) = better;
                }
            }
        }
        placed
    }

    /// Puts a needle where it adds the fewest marks.
    pub(super) fn place(&mut self, at: usize, needle: &[u8]) -> Option<Placed> {
        let mut best: Option<(f32, Placed)> = None;
        for core in Core::all(at, needle).take(TRIED) {
            let bytes = core.bytes(needle);
            let shares = bytes.map(|byte| byte.map_or(1.0, |byte| self.spelling.share(byte)));
            for (bucket, there) in self.buckets.iter().enumerate() {
                let cost = there.cost_of(&bytes, &shares);
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, (core, bucket)));
                }
            }
        }
        let (_, (core, bucket)) = best?;
        self.buckets.get_mut(bucket)?.change(&core.bytes(needle), self.spelling, true);
        Some((core, bucket))
    }
}

impl Bucket {
    /// How many more marks there would be with this core.
    fn cost_of(&self, core: &[Option<u8>; POSITIONS], shares: &[f32; POSITIONS]) -> f32 {
        let (mut with, mut without) = (1.0, 1.0);
        for position in 0..POSITIONS {
            let (Some(count), Some(share), Some(byte), Some(more)) =
                (self.count.get(position), self.share.get(position), core.get(position), shares.get(position))
            else {
                continue;
            };
            let there = byte.is_some_and(|byte| count.get(usize::from(byte)).is_some_and(|count| *count > 0));
            with *= if there { *share } else { share + more }.min(1.0);
            without *= share.min(1.0);
        }
        with - without
    }

    fn change(&mut self, core: &[Option<u8>; POSITIONS], spelling: Spelling, add: bool) {
        for ((byte, share), count) in core.iter().zip(&mut self.share).zip(&mut self.count) {
            // A position that is left open is open for the whole bucket.
            let (at, weight) = byte.map_or((0, 1.0), |byte| (usize::from(byte), spelling.share(byte)));
            let Some(count) = count.get_mut(at) else { continue };
            let (before, after) = (*count, if add { count.saturating_add(1) } else { count.saturating_sub(1) });
            *count = after;
            if before == 0 && after == 1 {
                *share += weight;
            } else if before == 1 && after == 0 {
                *share -= weight;
            }
        }
    }
}

/// About how much of ordinary prose, JSON and code is this byte.
pub(crate) const fn frequency(byte: u8) -> f32 {
    match byte {
        b' ' => 0.12,
        b'e' => 0.09,
        b't' => 0.065,
        b'a' | b'i' | b'n' | b'o' => 0.055,
        b'r' | b's' => 0.05,
        b'd' | b'h' | b'l' => 0.03,
        b'c' | b'u' | b'm' => 0.023,
        b'f' | b'g' | b'p' | b'w' | b'y' => 0.015,
        b'b' | b'v' => 0.01,
        b'k' => 0.006,
        b'x' => 0.003,
        b'j' | b'q' | b'z' => 0.0015,
        b'"' | b',' | b'.' | b':' | b'/' | b'-' => 0.012,
        b'0' | b'1' | b'2' => 0.009,
        b'3'..=b'9' | b'_' | b'\\' => 0.006,
        b'A' | b'C' | b'E' | b'I' | b'S' | b'T' => 0.004,
        b'B' | b'D' | b'F'..=b'H' | b'J'..=b'R' | b'U'..=b'Z' => 0.002,
        b'(' | b')' | b'=' | b'\'' | b';' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'\n' => 0.004,
        _ => 0.001,
    }
}
