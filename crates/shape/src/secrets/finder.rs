//! Finding where a secret could be, and then whether it is one.

use super::{
    HELD, Held, SHAPES, SecretShape,
    held::Found,
    place::{Memo, Place},
    shapes::RUN,
};

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

/// The secrets in a decoded string.
pub(super) fn spans(text: &str, held: &Held) -> Vec<Span> {
    let mut memo = Memo::default();
    // Where the last secret of each shape ended; what it consists of is not looked at again.
    let mut over = [0; SHAPES.len()];
    let mut values: Vec<Span> = Vec::new();
    let mut tokens: Vec<Span> = Vec::new();
    held.find(text.as_bytes(), |start, end, found| {
        match (found, values.last_mut()) {
            (Found::Literal(shape), _) => {
                if let (Some(SecretShape { name, look, .. }), Some(over)) =
                    (SHAPES.get(shape), over.get_mut(shape))
                    && start >= *over
                    && let Some(hit) = look(&mut Place {
                        text,
                        start,
                        end,
                        memo: &mut memo,
                    })
                {
                    *over = hit.over;
                    tokens.push((hit.start, hit.end, name));
                }
            }
            (Found::Escape, _) => {}
            // A value that is repeated makes one span, not one for every place it begins at.
            (Found::Value, Some(last)) if (last.0..last.1).contains(&start) => {
                last.1 = last.1.max(end)
            }
            (Found::Value, _) => values.push((start, end, HELD)),
        }
    });
    values.append(&mut tokens);
    apart(values)
}

/// Everything in a raw JSON text that makes a string worth decoding, in order.
pub(super) fn suspects(text: &[u8], held: &Held) -> Vec<(usize, Reason)> {
    let mut suspects: Vec<(usize, Reason)> = Vec::new();
    // After the last suspect, no quote stands before this place.
    let mut unquoted_to = 0;
    held.find(text, |start, end, found| {
        let reason = match found {
            Found::Literal(shape) if plausible(text, start, end, shape) => Reason::Shape(shape),
            Found::Escape if is_disguise(text, start) => Reason::Disguise,
            Found::Literal(_) | Found::Escape => return,
            Found::Value => Reason::Held,
        };
        // One of a kind is enough for a string, and a text of nothing else must not fill the memory.
        let last = suspects
            .last()
            .filter(|last| last.1 == reason && start <= last.0 + NEAR)
            .map(|last| last.0.max(unquoted_to));
        let between = last.map(|from| text.get(from..start).unwrap_or_default());
        if between.is_none_or(|between| between.contains(&b'"')) {
            suspects.push((start, reason));
        }
        unquoted_to = start;
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
    let before = text
        .get(..start)
        .unwrap_or_default()
        .iter()
        .rev()
        .take_while(|byte| **byte == b'\\')
        .count();
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
    if SHAPES.get(shape).is_some_and(|shape| shape.runs_on)
        && (after.len() < RUN || !after.iter().take(RUN).all(in_token))
    {
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
