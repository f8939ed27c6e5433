//! Finding where a secret could be, and then whether it is one.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memmem;
use regex::Regex;

use super::{HELD, Held, SHAPES};

/// Literals at least this long are looked for all at once.
const LONG: usize = 4;

/// Why a string is worth decoding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Reason {
    /// The literal of this shape stands in it.
    Shape(usize),
    Held,
    /// ASCII needs no escape in JSON, so an escaped letter may be a disguise: anything could be in it.
    Disguise,
}

/// A part of a text to be redacted, and what it is.
pub(super) type Span = (usize, usize, &'static str);

/// All shapes, compiled once.
pub(super) struct Finder {
    long: AhoCorasick,
    long_shapes: Vec<usize>,
    short: Vec<(memmem::Finder<'static>, usize)>,
    patterns: Vec<Regex>,
}

/// Everything is ASCII, so a word boundary can be found without the tables of Unicode. At the beginning an underscore is one too: a
/// secret may stand behind the name of a server.
fn bounded(pattern: &str) -> String {
    let begun = match pattern.strip_prefix(r"\b") {
        Some(rest) if rest.contains("(?<secret>") => format!("(?:_|\\b){rest}"),
        Some(rest) => format!("(?:_|\\b)(?<secret>{rest})"),
        None => pattern.to_owned(),
    };
    begun.replace(r"\b", r"(?-u:\b)")
}

impl Finder {
    /// `None` if the shapes could not be compiled, which a test rules out.
    pub(super) fn get() -> Option<&'static Self> {
        static FINDER: LazyLock<Option<Finder>> = LazyLock::new(Finder::build);
        FINDER.as_ref()
    }

    fn build() -> Option<Self> {
        let all = SHAPES.iter().enumerate().flat_map(|(at, shape)| shape.literals.iter().map(move |literal| (*literal, at)));
        let (long, short): (Vec<_>, Vec<_>) = all.partition(|(literal, _)| literal.len() >= LONG);
        let patterns = SHAPES.iter().map(|shape| Regex::new(&bounded(shape.pattern)));
        Some(Self {
            long: AhoCorasick::builder()
                .match_kind(MatchKind::LeftmostFirst)
                .build(long.iter().map(|(literal, _)| literal))
                .ok()?,
            long_shapes: long.iter().map(|(_, shape)| *shape).collect(),
            short: short.iter().map(|(literal, shape)| (memmem::Finder::new(*literal), *shape)).collect(),
            patterns: patterns.collect::<Result<_, _>>().ok()?,
        })
    }

    /// Everything in a raw JSON text that makes a string worth decoding, in order.
    pub(super) fn suspects(&self, text: &[u8], held: &Held) -> Vec<(usize, Reason)> {
        let mut found = Vec::new();
        self.literals(text, |at, shape| found.push((at, Reason::Shape(shape))));
        held.find(text, |start, _| found.push((start, Reason::Held)));
        static ESCAPES: LazyLock<[memmem::Finder<'static>; 2]> = LazyLock::new(|| ["\\u00", "\\/"].map(memmem::Finder::new));
        for (finder, is_letter) in ESCAPES.iter().zip([true, false]) {
            let hits = finder.find_iter(text).filter(|at| !is_letter || matches!(text.get(at + 4), Some(b'2'..=b'7')));
            found.extend(hits.map(|at| (at, Reason::Disguise)));
        }
        found.sort_unstable();
        found
    }

    /// Whether a secret could be in a text at all.
    pub(super) fn anything_in(&self, text: &[u8], held: &Held) -> bool {
        let mut anything = false;
        self.literals(text, |_, _| anything = true);
        held.find(text, |_, _| anything = true);
        anything
    }

    fn literals(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        for hit in self.long.find_iter(text) {
            if let Some(shape) = self.long_shapes.get(hit.pattern().as_usize()) {
                found(hit.start(), *shape);
            }
        }
        for (finder, shape) in &self.short {
            for at in finder.find_iter(text).filter(|at| plausible(text, *at)) {
                found(at, *shape);
            }
        }
    }

    /// The secrets in a decoded string that was suspected for these reasons.
    pub(super) fn spans(&self, text: &str, reasons: &[Reason], held: &Held) -> Vec<Span> {
        let mut shapes: Vec<usize> = Vec::new();
        if reasons.contains(&Reason::Disguise) {
            self.literals(text.as_bytes(), |_, shape| shapes.push(shape));
        } else {
            shapes.extend(reasons.iter().filter_map(|reason| if let Reason::Shape(at) = reason { Some(*at) } else { None }));
        }
        shapes.sort_unstable();
        shapes.dedup();
        let mut spans: Vec<Span> = Vec::new();
        for (pattern, shape) in shapes.into_iter().filter_map(|at| Some((self.patterns.get(at)?, SHAPES.get(at)?))) {
            if pattern.captures_len() == 1 {
                spans.extend(pattern.find_iter(text).map(|hit| (hit.start(), hit.end(), shape.name)));
            } else {
                let groups = pattern.captures_iter(text).filter_map(|hit| hit.name("secret"));
                spans.extend(groups.map(|hit| (hit.start(), hit.end(), shape.name)));
            }
        }
        held.find(text.as_bytes(), |start, end| spans.push((start, end, HELD)));
        apart(spans)
    }
}

/// Joins spans that overlap; the one that starts first, then the longest, names what was found.
fn apart(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort_by_key(|(start, end, _)| (*start, usize::MAX - *end));
    let mut joined: Vec<Span> = Vec::with_capacity(spans.len());
    for span in spans {
        match joined.last_mut() {
            Some(last) if span.0 < last.1 => last.1 = last.1.max(span.1),
            _ => joined.push(span),
        }
    }
    joined
}

/// A quick look around a short literal, which would otherwise be suspected in every other text.
fn plausible(text: &[u8], at: usize) -> bool {
    let after = |from: usize| text.get(at + from..).unwrap_or_default();
    match after(0) {
        // A password stands before an `@`, and the name of a host begins before any `/`.
        [b':', b'/', b'/', rest @ ..] => {
            let authority =
                rest.iter().take(400).take_while(|byte| !matches!(byte, b'/' | b'?' | b'#' | b' ' | b'"' | b'<' | b'>'));
            authority.clone().any(|byte| *byte == b'@') && authority.clone().any(|byte| *byte == b':')
        }
        [b'S', b'K', rest @ ..] => rest.iter().take(8).all(u8::is_ascii_hexdigit) && rest.len() >= 8,
        [b'S', b'G', b'.', rest @ ..] => {
            rest.iter().take(16).all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'))
        }
        [b'h', b'f', b'_', rest @ ..] => rest.iter().take(16).all(u8::is_ascii_alphanumeric),
        [b':', b'A', b'A', ..] => at > 0 && text.get(at - 1).is_some_and(u8::is_ascii_digit),
        _ => true,
    }
}
