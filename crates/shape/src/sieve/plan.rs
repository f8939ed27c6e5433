//! Choosing the cores: for every needle the few bytes by which it is found, and the bucket they go to.
//!
//! The fewer places of an ordinary text are marked by mistake, the faster is the search. So cores are made of bytes that are rare, and
//! share a bucket with cores of similar bytes. What is chosen changes only how fast a search is, never what it finds.

use std::sync::LazyLock;

use super::{Core, Spelling, blocks::POSITIONS};

pub(super) const BUCKETS: usize = 8;
/// Places in a needle that are tried; values we hold may be long.
const TRIED: usize = 24;
/// What a core costs that stands in common words, in marks.
const FOUND: f32 = 0.0015;
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

/// What a bucket has at one position of its cores: how many have each lower half of a byte, and how many each upper half.
#[derive(Clone, Default)]
struct Position {
    low: [u16; 16],
    high: [u16; 8],
    /// Cores that end before this position: any byte may stand there.
    open: u16,
}

#[derive(Clone, Default)]
struct Bucket([Position; POSITIONS]);

impl Plan {
    pub(super) fn new(spelling: Spelling) -> Self {
        Self {
            spelling,
            buckets: vec![Bucket::default(); BUCKETS],
        }
    }

    /// Places all of these, thinking it over until it is good.
    pub(super) fn place_well(&mut self, needles: &[&[u8]]) -> Vec<Placed> {
        let mut placed: Vec<Placed> = needles
            .iter()
            .enumerate()
            .filter_map(|(at, needle)| self.place(at, needle))
            .collect();
        for _ in 0..SECOND_THOUGHTS {
            for (core, bucket) in &mut placed {
                let Some(needle) = needles.get(core.needle) else {
                    continue;
                };
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

    /// Puts a needle where it costs the least.
    pub(super) fn place(&mut self, at: usize, needle: &[u8]) -> Option<Placed> {
        let mut best: Option<(f32, Placed)> = None;
        let buckets: Vec<[Let; POSITIONS]> = self.buckets.iter().map(Bucket::lets).collect();
        for core in Core::all(at, needle).take(TRIED) {
            let bytes = core.bytes(needle);
            let (core_lets, found) = (
                bytes.map(|byte| Let::of(byte, self.spelling)),
                FOUND * common(&bytes),
            );
            for (bucket, there) in buckets.iter().enumerate() {
                let with = there
                    .iter()
                    .zip(&core_lets)
                    .map(|(there, more)| there.and(*more).share());
                let cost =
                    with.product::<f32>() - there.iter().map(Let::share).product::<f32>() + found;
                if best.as_ref().is_none_or(|(least, _)| cost < *least) {
                    best = Some((cost, (core, bucket)));
                }
            }
        }
        let (_, (core, bucket)) = best?;
        self.buckets
            .get_mut(bucket)?
            .change(&core.bytes(needle), self.spelling, true);
        Some((core, bucket))
    }
}

impl Bucket {
    fn lets(&self) -> [Let; POSITIONS] {
        self.0.each_ref().map(Position::lets)
    }

    fn change(&mut self, core: &[Option<u8>; POSITIONS], spelling: Spelling, add: bool) {
        let change = |count: &mut u16| {
            *count = if add {
                count.saturating_add(1)
            } else {
                count.saturating_sub(1)
            }
        };
        for (byte, there) in core.iter().zip(&mut self.0) {
            let Some(byte) = byte else {
                change(&mut there.open);
                continue;
            };
            for form in spelling.forms(*byte) {
                there
                    .low
                    .get_mut(usize::from(form & 0xf))
                    .into_iter()
                    .for_each(change);
                there
                    .high
                    .get_mut(usize::from(form >> 4 & 7))
                    .into_iter()
                    .for_each(change);
            }
        }
    }
}

impl Position {
    fn lets(&self) -> Let {
        if self.open > 0 {
            return Let::ANY;
        }
        let set = |(at, count): (usize, &u16)| usize::from(*count > 0) << at;
        Let {
            low: self.low.iter().enumerate().map(set).sum(),
            high: self.high.iter().enumerate().map(set).sum(),
        }
    }
}

/// The bytes that are let through at one position, where tables are of half a byte: those with one of these lower halves and one of these
/// upper halves, a bit for each. Whole tables let fewer of the same through.
#[derive(Clone, Copy)]
struct Let {
    low: usize,
    high: usize,
}

impl Let {
    const ANY: Self = Self {
        low: 0xffff,
        high: 0xff,
    };

    fn of(byte: Option<u8>, spelling: Spelling) -> Self {
        let Some(byte) = byte else { return Self::ANY };
        let [one, other] = spelling.forms(byte).map(|form| Self {
            low: 1 << (form & 0xf),
            high: 1 << (form >> 4 & 7),
        });
        one.and(other)
    }

    const fn and(self, more: Self) -> Self {
        Self {
            low: self.low | more.low,
            high: self.high | more.high,
        }
    }

    /// How much of an ordinary text they are.
    fn share(&self) -> f32 {
        let columns = columns()
            .iter()
            .enumerate()
            .filter(|(low, _)| self.low >> low & 1 == 1);
        columns
            .map(|(_, column)| column.get(self.high).copied().unwrap_or_default())
            .sum()
    }
}

/// For every lower half of a byte, how much of an ordinary text has it together with one of a set of upper halves, a bit for each.
fn columns() -> &'static [[f32; 256]; 16] {
    static COLUMNS: LazyLock<Box<[[f32; 256]; 16]>> = LazyLock::new(|| {
        let share = |low: u8, highs: usize| {
            let bytes = (0..8_u8)
                .filter(|high| highs >> high & 1 == 1)
                .map(|high| high << 4 | low);
            bytes.map(frequency).sum()
        };
        let column = |low: usize| {
            std::array::from_fn(|highs| share(u8::try_from(low).unwrap_or_default(), highs))
        };
        Box::new(std::array::from_fn(column))
    });
    &COLUMNS
}

/// Words that are in every text, of people and of programs. A core from one of them would be found all the time.
const COMMON: &str = " about across act action after against also among available base based because been before being between both call called card change class close closed code common complete consist contain could      data default different does done down each else error even every example false file find first found from function further general given have here however including information instance instead into is it its just      know large last late later left less like line list long longer made make master match matter may mean message many mind mode more most much must my name need never next null number object      only open order other over page part pass path people place point read request result return right same server should show since some      state string such system take text than that their them then there these they think thing this those though thought three through time true turn type under      until upon user using value very want well were what when where which while will with without word work world would year your ";

/// How often the bytes of a core stand in an ordinary text because words do.
fn common(core: &[Option<u8>; POSITIONS]) -> f32 {
    let bytes: Vec<u8> = core.iter().flatten().copied().collect();
    let is_in = |part: &[u8]| {
        COMMON
            .as_bytes()
            .windows(part.len())
            .any(|there| there == part)
    };
    match bytes.as_slice() {
        all if all.len() == POSITIONS && is_in(all) => 1.0,
        [first, second, third, ..] if is_in(&[*first, *second, *third]) => 0.3,
        _ => 0.0,
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
        b'(' | b')' | b'=' | b'\'' | b';' | b'[' | b']' | b'{' | b'}' | b'<' | b'>' | b'\n' => {
            0.004
        }
        _ => 0.001,
    }
}
