//! An instance laid out flat, so that it can be checked without building a tree of it, and the budget that checking it may use up.
//!
//! When the budget is gone every value looks empty, so the checker runs out of things to look at; whoever started it then finds
//! nothing [`left`](Tape::left) and throws its verdict away. That is what bounds a check, whatever the schema does.

use std::{borrow::Cow, cell::Cell};

use wire::{
    Kind,
    json::{decode_key, string_end},
};

use super::patterns::Prices;

/// Entries there is room for from the start.
const ROOM: usize = 1 << 10;

/// One value, or the key before it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Entry {
    pub(super) kind: Kind,
    start: u32,
    end: u32,
    /// The entry after this one and all it holds.
    pub(super) next: u32,
    /// How many fields or items it has.
    pub(super) count: u32,
}

#[derive(Debug)]
pub(super) struct Tape<'a> {
    text: &'a [u8],
    entries: Vec<Entry>,
    prices: Prices,
    left: Cell<u64>,
    /// How deep its values are nested.
    pub(super) depth: u32,
}

impl<'a> Tape<'a> {
    /// Lays out a text that was validated before. A text that was not gives `None`, or at worst a tape of something else.
    pub(super) fn lay(text: &'a [u8], budget: u64, prices: Prices) -> Option<Self> {
        let text = text.trim_ascii();
        u32::try_from(text.len()).ok()?;
        let mut tape = Self {
            text,
            entries: Vec::with_capacity((text.len() / 12).min(ROOM) + 2),
            prices,
            left: Cell::new(budget),
            depth: 0,
        };
        tape.fill()?;
        Some(tape)
    }

    fn fill(&mut self) -> Option<()> {
        let mut open: Vec<usize> = Vec::new();
        let mut at = 0;
        while let Some(byte) = self.text.get(at).copied() {
            match byte {
                b' ' | b'\t' | b'\n' | b'\r' | b',' | b':' => at += 1,
                b'{' | b'[' => {
                    open.push(self.entries.len());
                    self.depth = self.depth.max(u32::try_from(open.len()).ok()?);
                    self.push(
                        if byte == b'{' {
                            Kind::Object
                        } else {
                            Kind::Array
                        },
                        at,
                        at,
                        open.iter().rev().nth(1).copied(),
                    );
                    at += 1;
                }
                b'}' | b']' => {
                    let end = u32::try_from(self.entries.len()).ok()?;
                    let container = self.entries.get_mut(open.pop()?)?;
                    container.next = end;
                    container.end = u32::try_from(at + 1).ok()?;
                    if container.kind == Kind::Object {
                        container.count /= 2;
                    }
                    at += 1;
                }
                _ => {
                    let (kind, end) = scalar(self.text, at)?;
                    self.push(kind, at, end, open.last().copied());
                    at = end;
                }
            }
        }
        (open.is_empty() && self.entries.first()?.next as usize == self.entries.len()).then_some(())
    }

    fn push(&mut self, kind: Kind, start: usize, end: usize, parent: Option<usize>) {
        if let Some(parent) = parent.and_then(|parent| self.entries.get_mut(parent)) {
            parent.count += 1;
        }
        let next = u32::try_from(self.entries.len() + 1).unwrap_or(u32::MAX);
        // `lay` has refused texts whose offsets do not fit.
        let [start, end] = [start, end].map(|at| u32::try_from(at).unwrap_or(u32::MAX));
        self.entries.push(Entry {
            kind,
            start,
            end,
            next,
            count: 0,
        });
    }

    pub(super) fn entry(&self, at: u32) -> Option<&Entry> {
        self.entries.get(at as usize)
    }

    /// The text of an entry, as written.
    pub(super) fn raw(&self, entry: &Entry) -> &'a [u8] {
        self.text
            .get(entry.start as usize..entry.end as usize)
            .unwrap_or_default()
    }

    /// The decoded text of a string, paid for by its length.
    pub(super) fn string(&self, entry: &Entry) -> Cow<'a, str> {
        let raw = self.raw(entry);
        if self.pay(1 + raw.len() as u64 * self.prices.text / 16) {
            decode_key(raw)
        } else {
            Cow::Borrowed("")
        }
    }

    /// The decoded text of a key, paid for by its length and by the patterns it will be held against.
    pub(super) fn name(&self, entry: &Entry) -> Cow<'a, str> {
        if self.pay(self.prices.name) {
            self.string(entry)
        } else {
            Cow::Borrowed("")
        }
    }

    /// Takes something from the budget; false when nothing is left.
    pub(super) fn pay(&self, cost: u64) -> bool {
        let left = self.left.get().saturating_sub(cost);
        self.left.set(left);
        left > 0
    }

    pub(super) fn refill(&self, budget: u64) {
        self.left.set(budget);
    }

    pub(super) fn left(&self) -> u64 {
        self.left.get()
    }
}

/// Kind and end of the string, number or word that starts here.
fn scalar(text: &[u8], at: usize) -> Option<(Kind, usize)> {
    let rest = text.get(at..)?;
    let kind = match rest.first()? {
        b'"' => {
            let end = string_end(text, at);
            return (end > at + 1 && text.get(end - 1) == Some(&b'"'))
                .then_some((Kind::String, end));
        }
        b't' | b'f' => Kind::Bool,
        b'n' => Kind::Null,
        b'-' | b'0'..=b'9' => Kind::Number,
        _ => return None,
    };
    let length = rest
        .iter()
        .take_while(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.'))
        .count();
    Some((kind, at + length))
}
