//! Finding where a secret could be, and then whether it is one.

use std::sync::LazyLock;

use super::{HELD, Held, SHAPES, held::Found, shapes::RUN};
use crate::pattern::Pattern;

/// How far apart two suspects may be to be taken for one.
const NEAR: usize = 256;

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

/// All shapes.
pub(super) struct Finder {
    patterns: Vec<Pattern>,
}

/// Everything is ASCII, so a word boundary can be found without the tables of Unicode. At the beginning an underscore is one too: a
/// secret may stand behind the name of a server.
pub(super) fn bounded(pattern: &str) -> String {
    let begun = match pattern.strip_prefix(r"\b") {
        Some(rest) if rest.contains("(?<secret>") => format!("(?:_|\\b){rest}"),
        Some(rest) => format!("(?:_|\\b)(?<secret>{rest})"),
        None => pattern.to_owned(),
    };
    begun.replace(r"\b", r"(?-u:\b)")
}

impl Finder {
    pub(super) fn get() -> &'static Self {
        static FINDER: LazyLock<Finder> =
            LazyLock::new(|| Finder { patterns: SHAPES.iter().map(|shape| Pattern::new(bounded(shape.pattern))).collect() });
        &FINDER
    }

    /// The secrets in a decoded string that was suspected for these reasons.
    pub(super) fn spans(&self, text: &str, reasons: &[Reason], held: &Held) -> Vec<Span> {
        let suspected = |reason: &Reason| if let Reason::Shape(at) = reason { Some(*at) } else { None };
        let mut shapes: Vec<usize> = reasons.iter().filter_map(suspected).collect();
        let mut spans: Vec<Span> = Vec::new();
        held.find(text.as_bytes(), |start, end, found| match (found, spans.last_mut()) {
            (Found::Literal(shape), _) if plausible(text.as_bytes(), start, end, shape) => shapes.push(shape),
            (Found::Literal(_) | Found::Escape, _) => {}
            // A value that is repeated makes one span, not one for every place it begins at.
            (Found::Value, Some(last)) if (last.0..last.1).contains(&start) => last.1 = last.1.max(end),
            (Found::Value, _) => spans.push((start, end, HELD)),
        });
        shapes.sort_unstable();
        shapes.dedup();
        for (pattern, shape) in shapes.into_iter().filter_map(|at| Some((self.patterns.get(at)?, SHAPES.get(at)?))) {
            let Some(pattern) = pattern.get() else {
                spans.push((0, text.len(), shape.name));
                continue;
            };
            if pattern.captures_len() == 1 {
                spans.extend(pattern.find_iter(text).map(|hit| (hit.start(), hit.end(), shape.name)));
            } else {
                let groups = pattern.captures_iter(text).filter_map(|hit| hit.name("secret"));
                spans.extend(groups.map(|hit| (hit.start(), hit.end(), shape.name)));
            }
        }
        apart(spans)
    }
}

/// Everything in a raw JSON text that makes a string worth decoding, in order.
pub(super) fn suspects(text: &[u8], held: &Held) -> Vec<(usize, Reason)> {
    let mut suspects: Vec<(usize, Reason)> = Vec::new();
    held.find(text, |start, end, found| {
        let reason = match found {
            Found::Literal(shape) if plausible(text, start, end, shape) => Reason::Shape(shape),
            Found::Escape if is_disguise(text, start) => Reason::Disguise,
            Found::Literal(_) | Found::Escape => return,
            Found::Value => Reason::Held,
        };
        // One of a kind is enough for a string, and a text of nothing else must not fill the memory.
        let between = suspects.last().filter(|last| last.1 == reason).and_then(|last| text.get(last.0..start));
        if between.is_none_or(|between| between.len() > NEAR || between.contains(&b'"')) {
            suspects.push((start, reason));
        }
    });
    suspects.sort_unstable();
    suspects
}

/// Whether an escape in a raw text is one that JSON does not need; control characters must be escaped. Behind a backslash that is itself
/// escaped a slash is a slash, but an escaped letter may be meant for whoever reads the string as JSON.
fn is_disguise(text: &[u8], start: usize) -> bool {
    if text.get(start + 1) != Some(&b'/') {
        return matches!(text.get(start + 4), Some(b'2'..=b'7'));
    }
    let before = text.get(..start).unwrap_or_default().iter().rev().take_while(|byte| **byte == b'\\').count();
    before.is_multiple_of(2)
}

/// Whether a secret could be in a text at all.
pub(super) fn anything_in(text: &[u8], held: &Held) -> bool {
    let mut anything = false;
    held.find(text, |start, end, found| {
        anything |= match found {
            Found::Literal(shape) => plausible(text, start, end, shape),
            Found::Escape => false,
            Found::Value => true,
        };
    });
    anything
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

/// A quick look around a literal of a shape. Most mentions of what secrets begin with end here, in prose and code about them.
fn plausible(text: &[u8], start: usize, end: usize, shape: usize) -> bool {
    let after = text.get(end..).unwrap_or_default();
    let in_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"_-.+/=%~".contains(byte);
    if SHAPES.get(shape).is_some_and(|shape| shape.runs_on) && (after.len() < RUN || !after.iter().take(RUN).all(in_token)) {
        return false;
    }
    match text.get(start..end).unwrap_or_default() {
        // A password stands before an `@`, and the name of a host begins before any `/`.
        b"://" => {
            let (mut at, mut colon) = (false, false);
            for byte in after.iter().take(400) {
                match byte {
                    b'/' | b'?' | b'#' | b' ' | b'"' | b'<' | b'>' => break,
                    b'@' => at = true,
                    b':' => colon = true,
                    _ => {}
                }
            }
            at && colon
        }
        b":AA" => start > 0 && text.get(start - 1).is_some_and(u8::is_ascii_digit),
        _ => true,
    }
}
