//! The first look: which places of a text could begin a core, 64 bytes at a time.
//!
//! Cores are spread over eight buckets, one bit each. For every one of the four positions of a core there is a table from byte to the
//! buckets that have such a byte there; a place is marked where the four bytes from it on share a bucket. A mark may be wrong, a missing
//! mark never is. With AVX-512 a table is looked up as a whole; elsewhere it is two tables of half a byte, which mark more.

use fearless_simd::{Level, prelude::*, u8x16, u8x64};

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
    pub(super) places: [u64; BLOCKS],
    /// A bit for every block that has one.
    pub(super) blocks: u64,
    pub(super) is_ascii: bool,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            places: [0; BLOCKS],
            blocks: 0,
            is_ascii: true,
        }
    }
}

impl Tables {
    pub(super) const fn empty() -> Self {
        Self {
            whole: [[[0; 64]; 2]; POSITIONS],
            low: [[0; 16]; POSITIONS],
            high: [[0; 16]; POSITIONS],
        }
    }

    /// Says that this bucket has this byte at this position.
    pub(super) fn add(&mut self, position: usize, byte: u8, bucket: u8) {
        let set = |table: Option<&mut u8>| {
            if let Some(buckets) = table {
                *buckets |= 1 << (bucket % 8);
            }
        };
        let halves = self
            .whole
            .get_mut(position)
            .and_then(|halves| halves.get_mut(usize::from(byte >> 6 & 1)));
        set(halves.and_then(|half| half.get_mut(usize::from(byte & 0x3f))));
        set(self
            .low
            .get_mut(position)
            .and_then(|table| table.get_mut(usize::from(byte & 0xf))));
        set(self
            .high
            .get_mut(position)
            .and_then(|table| table.get_mut(usize::from(byte >> 4))));
    }
}

/// How a byte finds its buckets.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Way {
    /// 64 bytes at once, each in a table of 128.
    Whole,
    /// As many bytes at once as there is room for, each in two tables of 16.
    Halves,
    /// One byte after the other: there is no instruction that looks up several.
    OneByOne,
}

#[inline(always)]
fn way(level: Level) -> Way {
    match level {
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Level::Avx512(_) => Way::Whole,
        #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
        Level::Sse2(_) => Way::OneByOne,
        level if level.is_fallback() => Way::OneByOne,
        _ => Way::Halves,
    }
}

// Everything from here on is inlined into what `dispatch` compiles for each kind of processor. A closure need not be: it is a function of
// its own, and where it stays one it is compiled for any processor and calls every vector operation.

/// Marks the whole blocks at the start of a text, up to [`BLOCKS`] of them, that have [`AHEAD`] bytes after them.
#[inline(always)]
pub(super) fn mark<S: Simd>(simd: S, tables: &Tables, text: &[u8], marks: &mut Marks) {
    match way(simd.level()) {
        Way::Whole => each_block(simd, text, marks, Whole::load(simd, tables)),
        Way::Halves => each_block(simd, text, marks, Halves::load(simd, tables)),
        Way::OneByOne => each_place(tables, text, marks),
    }
}

/// Tables where vectors find them.
trait Lookup<S: Simd>: Copy {
    /// The buckets that four bytes share; `places` has the bytes at every place of a block, and those one, two and three further on.
    fn shared(self, places: [u8x64<S>; POSITIONS]) -> u8x64<S>;
}

#[derive(Clone, Copy)]
struct Whole<S: Simd>([[u8x64<S>; 2]; POSITIONS]);

impl<S: Simd> Whole<S> {
    #[inline(always)]
    fn load(simd: S, tables: &Tables) -> Self {
        let [[a, b], [c, d], [e, f], [g, h]] = &tables.whole;
        let [a, b, c, d] = [load(simd, a), load(simd, b), load(simd, c), load(simd, d)];
        let [e, f, g, h] = [load(simd, e), load(simd, f), load(simd, g), load(simd, h)];
        Self([[a, b], [c, d], [e, f], [g, h]])
    }
}

impl<S: Simd> Lookup<S> for Whole<S> {
    #[inline(always)]
    fn shared(self, [w, x, y, z]: [u8x64<S>; POSITIONS]) -> u8x64<S> {
        let [a, b, c, d] = self.0;
        whole(a, w) & whole(b, x) & whole(c, y) & whole(d, z)
    }
}

#[inline(always)]
fn load<S: Simd>(simd: S, table: &[u8; 64]) -> u8x64<S> {
    u8x64::load_array_ref(simd, table)
}

#[inline(always)]
fn whole<S: Simd>([low, high]: [u8x64<S>; 2], bytes: u8x64<S>) -> u8x64<S> {
    low.concat_swizzle_dyn(high, bytes)
}

/// The table of lower halves and the one of upper halves.
#[derive(Clone, Copy)]
struct Halves<S: Simd>([[u8x64<S>; 2]; POSITIONS]);

impl<S: Simd> Halves<S> {
    #[inline(always)]
    fn load(simd: S, tables: &Tables) -> Self {
        let ([a, b, c, d], [e, f, g, h]) = (&tables.low, &tables.high);
        let [a, b, c, d] = [
            splat(simd, a),
            splat(simd, b),
            splat(simd, c),
            splat(simd, d),
        ];
        let [e, f, g, h] = [
            splat(simd, e),
            splat(simd, f),
            splat(simd, g),
            splat(simd, h),
        ];
        Self([[a, e], [b, f], [c, g], [d, h]])
    }
}

impl<S: Simd> Lookup<S> for Halves<S> {
    #[inline(always)]
    fn shared(self, [w, x, y, z]: [u8x64<S>; POSITIONS]) -> u8x64<S> {
        let [a, b, c, d] = self.0;
        halves(a, w) & halves(b, x) & halves(c, y) & halves(d, z)
    }
}

#[inline(always)]
fn splat<S: Simd>(simd: S, table: &[u8; 16]) -> u8x64<S> {
    u8x64::block_splat(u8x16::load_array_ref(simd, table))
}

#[inline(always)]
fn halves<S: Simd>([low, high]: [u8x64<S>; 2], bytes: u8x64<S>) -> u8x64<S> {
    low.swizzle_dyn_within_blocks(bytes & 0x0f) & high.swizzle_dyn_within_blocks(bytes >> 4)
}

#[inline(always)]
fn each_block<S: Simd>(simd: S, text: &[u8], marks: &mut Marks, tables: impl Lookup<S>) {
    let zero = u8x64::splat(simd, 0);
    let mut seen = zero;
    let mut blocks = 0;
    for (at, places) in marks.places.iter_mut().enumerate() {
        let Some(bytes) = text
            .get(at * BLOCK..)
            .and_then(<[u8]>::first_chunk::<{ BLOCK + AHEAD }>)
        else {
            break;
        };
        let first = u8x64::from_slice(simd, &bytes[0..64]);
        let second = u8x64::from_slice(simd, &bytes[1..65]);
        let third = u8x64::from_slice(simd, &bytes[2..66]);
        let fourth = u8x64::from_slice(simd, &bytes[3..67]);
        seen |= first;
        *places = !tables
            .shared([first, second, third, fourth])
            .simd_eq(zero)
            .to_bitmask();
        blocks |= u64::from(*places != 0) << at;
    }
    marks.blocks = blocks;
    marks.is_ascii = seen.simd_lt(u8x64::splat(simd, 0x80)).all_true();
}

#[inline(always)]
fn each_place(tables: &Tables, text: &[u8], marks: &mut Marks) {
    let [a, b, c, d] = tables
        .whole
        .each_ref()
        .map(|table| table.as_flattened().first_chunk::<128>());
    let (Some(a), Some(b), Some(c), Some(d)) = (a, b, c, d) else {
        return;
    };
    let (mut seen, mut blocks) = (0, 0);
    for (at, places) in marks.places.iter_mut().enumerate() {
        let Some(bytes) = text
            .get(at * BLOCK..)
            .and_then(<[u8]>::first_chunk::<{ BLOCK + AHEAD }>)
        else {
            break;
        };
        let mut marked = 0;
        for (place, four) in bytes.windows(POSITIONS).enumerate() {
            if let [w, x, y, z] = *four {
                seen |= w;
                let shared = one(a, w) & one(b, x) & one(c, y) & one(d, z);
                marked |= u64::from(shared != 0) << place;
            }
        }
        *places = marked;
        blocks |= u64::from(marked != 0) << at;
    }
    marks.blocks = blocks;
    marks.is_ascii = seen < 0x80;
}

#[inline(always)]
fn one(table: &[u8; 128], byte: u8) -> u8 {
    table
        .get(usize::from(byte & 0x7f))
        .copied()
        .unwrap_or_default()
}
