//! The first look: which places of a text could begin a core, 64 bytes at a time.
//!
//! Cores are spread over eight buckets, one bit each. For every one of the four positions of a core there is a table from byte to the
//! buckets that have such a byte there; a place is marked where the four bytes from it on share a bucket. A mark may be wrong, a missing
//! mark never is. With AVX-512 a table is looked up as a whole; elsewhere it is two tables of half a byte, which mark more.

use fearless_simd::{Level, dispatch, prelude::*, u8x16, u8x64};

/// Bytes of a core that are looked at here.
pub(super) const POSITIONS: usize = 4;
pub(super) const BLOCK: usize = 64;
/// Bytes that must follow a block so that its last places can be looked at.
pub(super) const AHEAD: usize = POSITIONS - 1;
/// Blocks that are looked at together.
pub(super) const BLOCKS: usize = 64;

/// For each position, the buckets that have a byte there.
#[derive(Clone)]
pub(super) struct Tables {
    /// By the lower seven bits of the byte, in two halves.
    whole: [[[u8; 64]; 2]; POSITIONS],
    /// By the lower and by the upper half of the byte.
    low: [[u8; 16]; POSITIONS],
    high: [[u8; 16]; POSITIONS],
}

/// What was seen in a stretch of text.
pub(super) struct Marks {
    /// A bit for every place of each block.
    places: [u64; BLOCKS],
    /// A bit for every block that has a mark left.
    blocks: u64,
    /// The places left in the first of those blocks.
    left: u64,
    pub(super) is_ascii: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self { places: [0; BLOCKS], blocks: 0, left: 0, is_ascii: true }
    }
}

impl Marks {
    /// The next place that is marked. How many marks a block has cannot be foretold, so nothing here branches on it.
    #[inline]
    pub(super) fn next(&mut self) -> Option<usize> {
        if self.blocks == 0 {
            return None;
        }
        let place = self.blocks.trailing_zeros() as usize * BLOCK + self.left.trailing_zeros() as usize;
        let left = self.left & self.left.wrapping_sub(1);
        let is_spent = u64::from(left == 0).wrapping_neg();
        let others = self.blocks & self.blocks.wrapping_sub(1);
        self.blocks = (others & is_spent) | (self.blocks & !is_spent);
        self.left = (self.first() & is_spent) | left;
        Some(place)
    }

    /// The places of the first block that has any.
    fn first(&self) -> u64 {
        self.places.get(self.blocks.trailing_zeros() as usize).copied().unwrap_or_default()
    }
}

impl Tables {
    pub(super) const fn empty() -> Self {
        Self { whole: [[[0; 64]; 2]; POSITIONS], low: [[0; 16]; POSITIONS], high: [[0; 16]; POSITIONS] }
    }

    /// Says that this bucket has this byte at this position.
    pub(super) fn add(&mut self, position: usize, byte: u8, bucket: u8) {
        let set = |table: Option<&mut u8>| {
            if let Some(buckets) = table {
                *buckets |= 1 << (bucket % 8);
            }
        };
        let halves = self.whole.get_mut(position).and_then(|halves| halves.get_mut(usize::from(byte >> 6 & 1)));
        set(halves.and_then(|half| half.get_mut(usize::from(byte & 0x3f))));
        set(self.low.get_mut(position).and_then(|table| table.get_mut(usize::from(byte & 0xf))));
        set(self.high.get_mut(position).and_then(|table| table.get_mut(usize::from(byte >> 4))));
    }

    /// Marks the whole blocks at the start of a text, up to [`BLOCKS`] of them, that have [`AHEAD`] bytes after them.
    pub(super) fn mark(&self, text: &[u8], level: Level, marks: &mut Marks) {
        dispatch!(level, simd => mark(simd, self, text, marks));
    }
}

#[inline(always)]
fn mark<S: Simd>(simd: S, tables: &Tables, text: &[u8], marks: &mut Marks) {
    if has_long_lookups(simd) {
        let [a, b, c, d] = &tables.whole;
        let [a, b, c, d] = [a, b, c, d].map(|[low, high]| (u8x64::load_array_ref(simd, low), u8x64::load_array_ref(simd, high)));
        let at = |table: (u8x64<S>, u8x64<S>), bytes: u8x64<S>| table.0.concat_swizzle_dyn(table.1, bytes);
        each_block(simd, text, marks, |[w, x, y, z]| at(a, w) & at(b, x) & at(c, y) & at(d, z));
    } else {
        let splat = |table: &[u8; 16]| u8x64::block_splat(u8x16::load_array_ref(simd, table));
        let [a, b, c, d] = [0, 1, 2, 3].map(|position| {
            let of = |tables: &[[u8; 16]; POSITIONS]| tables.get(position).map_or(u8x64::splat(simd, 0xff), splat);
            (of(&tables.low), of(&tables.high))
        });
        let half = u8x64::splat(simd, 0x0f);
        let at = |table: (u8x64<S>, u8x64<S>), bytes: u8x64<S>| {
            table.0.swizzle_dyn_within_blocks(bytes & half) & table.1.swizzle_dyn_within_blocks(bytes >> 4)
        };
        each_block(simd, text, marks, |[w, x, y, z]| at(a, w) & at(b, x) & at(c, y) & at(d, z));
    }
}

/// `shared` gets the bytes at every place of a block, and those one, two and three further on.
#[inline(always)]
fn each_block<S: Simd>(simd: S, text: &[u8], marks: &mut Marks, shared: impl Fn([u8x64<S>; POSITIONS]) -> u8x64<S>) {
    let zero = u8x64::splat(simd, 0);
    let mut seen = zero;
    let mut any = 0;
    for (at, places) in marks.places.iter_mut().enumerate() {
        let Some(bytes) = text.get(at * BLOCK..).and_then(<[u8]>::first_chunk::<{ BLOCK + AHEAD }>) else { break };
        let first = u8x64::from_slice(simd, &bytes[0..64]);
        let second = u8x64::from_slice(simd, &bytes[1..65]);
        let third = u8x64::from_slice(simd, &bytes[2..66]);
        let fourth = u8x64::from_slice(simd, &bytes[3..67]);
        seen |= first;
        let marked = shared([first, second, third, fourth]).simd_gt(zero);
        *places = marked.to_bitmask();
        any |= u64::from(marked.any_true()) << at;
    }
    marks.blocks = any;
    marks.left = marks.first();
    marks.is_ascii = seen.simd_lt(u8x64::splat(simd, 0x80)).all_true();
}

/// Whether a table of 128 bytes is looked up in one step.
#[inline(always)]
fn has_long_lookups<S: Simd>(simd: S) -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return matches!(simd.level(), Level::Avx512(_));
    #[cfg(not(any(target_arch = "x86", target_arch = "x86_64")))]
    return {
        let _same_everywhere = simd;
        false
    };
}
