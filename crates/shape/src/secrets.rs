//! Secrets in a result, taken out before anyone sees it.
//!
//! Two kinds: values we hold ourselves, and texts that look like well-known tokens. A search over the raw bytes decides whether there
//! is anything to do; most results end there, without being walked or copied. What is found is replaced inside its own JSON string, so
//! the result stays valid JSON with the same structure.

mod finder;
mod held;
mod place;
mod shapes;
#[cfg(test)]
mod tests;

use memchr::memmem;
use wire::{
    json::{decode_key, string_end},
    write,
};

use finder::{Reason, anything_in, spans, suspects};

pub use held::Held;
pub use shapes::{SHAPES, SecretShape};

/// Longer numbers are none of ours.
const MAX_DIGITS: usize = 18;

/// What a redacted value of our own is called.
pub const HELD: &str = "held-value";

/// A result without its secrets.
#[derive(Debug)]
pub struct Redacted {
    pub text: Vec<u8>,
    /// The kinds that were found, sorted, each once.
    pub found: Vec<&'static str>,
}

/// Takes every secret out of a validated JSON text. `None` means that nothing was found and the text may go as it is.
#[must_use]
pub fn redact(text: &[u8], held: &Held) -> Option<Redacted> {
    rewritten(text, held, suspects(text, held))
}

/// The text without the secrets that are among the suspects.
fn rewritten(text: &[u8], held: &Held, mut suspects: Vec<(usize, Reason)>) -> Option<Redacted> {
    if suspects
        .iter()
        .any(|(_, reason)| *reason == Reason::Disguise)
        && !anything_in(&disguised(text, &suspects), held)
    {
        suspects.retain(|(_, reason)| *reason != Reason::Disguise);
    }
    let mut suspects = suspects.as_slice();
    let mut rewriting = Rewriting {
        text,
        copied: 0,
        out: Vec::new(),
        found: Vec::new(),
        keys: None,
    };
    let mut at = 0;
    while let Some((next, _)) = suspects.first() {
        let (open, end) = string_around(text, at, *next);
        let outside = suspects.partition_point(|(place, _)| *place < open);
        if outside > 0 {
            rewriting.numbers(held, at, open);
        }
        let inside = suspects.partition_point(|(place, _)| *place < end);
        if inside > outside {
            rewriting.string(held, open, end);
        }
        suspects = suspects.get(inside..).unwrap_or_default();
        at = end;
    }
    rewriting.finish()
}

/// The same for a text that is no JSON, such as a line of a log.
#[must_use]
pub fn redact_text(text: &str, held: &Held) -> Option<String> {
    let redacted = redact(&write::quoted(text), held)?;
    Some(decode_key(&redacted.text).into_owned())
}

/// All strings with a disguise in them, decoded: a single search tells whether any of them is worth a closer look.
fn disguised(text: &[u8], suspects: &[(usize, Reason)]) -> Vec<u8> {
    let mut decoded = Vec::new();
    let mut at = 0;
    for (place, _) in suspects
        .iter()
        .filter(|(_, reason)| *reason == Reason::Disguise)
    {
        if *place >= at {
            let (open, end) = string_around(text, at, *place);
            decoded
                .extend_from_slice(decode_key(text.get(open..end).unwrap_or_default()).as_bytes());
            decoded.push(0x1f);
            at = end;
        }
    }
    decoded
}

/// Start and end of the first string after `at` that does not end before `place`; empty at the end of the text if there is none.
fn string_around(text: &[u8], mut at: usize, place: usize) -> (usize, usize) {
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
        let open = at + found;
        at = string_end(text, open);
        if at > place || open > place {
            return (open, at);
        }
    }
    (text.len(), text.len())
}

/// The highest number that stands in a text as we write it into keys.
fn highest_number(text: &[u8]) -> u64 {
    let number = |at: usize| {
        let rest = text.get(at + 2..)?;
        let digits = rest
            .iter()
            .take(MAX_DIGITS + 1)
            .take_while(|byte| byte.is_ascii_digit())
            .count();
        let digits = rest
            .get(..digits)
            .filter(|digits| digits.len() <= MAX_DIGITS && rest.get(digits.len()) == Some(&b']'))?;
        std::str::from_utf8(digits).ok()?.parse().ok()
    };
    memmem::find_iter(text, " #")
        .filter_map(number)
        .max()
        .unwrap_or(0)
}

/// The text being written anew, copied as it stands where nothing was found.
struct Rewriting<'a> {
    text: &'a [u8],
    /// How far the text has been copied.
    copied: usize,
    out: Vec<u8>,
    found: Vec<&'static str>,
    /// The number of the last key that was changed; each gets one, so that two of them never become one.
    keys: Option<u64>,
}

impl Rewriting<'_> {
    /// Copies up to `start`, then skips to `end`.
    fn skip(&mut self, start: usize, end: usize) {
        if self.out.is_empty() {
            self.out.reserve(self.text.len());
        }
        self.out
            .extend_from_slice(self.text.get(self.copied..start).unwrap_or_default());
        self.copied = end;
    }

    fn string(&mut self, held: &Held, open: usize, end: usize) {
        let decoded = decode_key(self.text.get(open..end).unwrap_or_default());
        let spans = spans(&decoded, held);
        if spans.is_empty() {
            return;
        }
        let number = if self.is_key(end) {
            self.next_key()
        } else {
            String::new()
        };
        let mut clean = String::with_capacity(decoded.len());
        let mut from = 0;
        for (start, end, name) in spans {
            clean.push_str(decoded.get(from..start).unwrap_or_default());
            clean.push_str(&format!("[redacted: {name}{number}]"));
            self.found.push(name);
            from = end;
        }
        clean.push_str(decoded.get(from..).unwrap_or_default());
        self.skip(open, end);
        write::quote(&mut self.out, &clean);
    }

    /// Between strings only a number can hold a value of ours. It becomes a string that says so.
    fn numbers(&mut self, held: &Held, from: usize, to: usize) {
        let part = self.text.get(from..to).unwrap_or_default();
        let mut hits = Vec::new();
        held.find_values(part, |start, end| hits.push((from + start, from + end)));
        let in_number =
            |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'+' | b'-' | b'.');
        hits.sort_unstable();
        for (start, end) in hits {
            let whole = self
                .text
                .get(start..end)
                .unwrap_or_default()
                .iter()
                .all(|byte| in_number(&byte));
            // The rest of a number that was taken out is gone with it.
            if whole && start >= self.copied.max(from) {
                let before = self
                    .text
                    .get(self.copied.max(from)..start)
                    .unwrap_or_default();
                let before = before.iter().rev().take_while(in_number).count();
                let after = self
                    .text
                    .get(end..to)
                    .unwrap_or_default()
                    .iter()
                    .take_while(in_number)
                    .count();
                self.skip(start - before, end + after);
                write::quote(&mut self.out, &format!("[redacted: {HELD}]"));
                self.found.push(HELD);
            }
        }
    }

    fn is_key(&self, end: usize) -> bool {
        self.text
            .get(end..)
            .unwrap_or_default()
            .trim_ascii_start()
            .first()
            == Some(&b':')
    }

    /// A number that no key of this text has yet: one more than any that the text itself has in such a place.
    fn next_key(&mut self) -> String {
        let number = self.keys.unwrap_or_else(|| highest_number(self.text)) + 1;
        self.keys = Some(number);
        format!(" #{number}")
    }

    fn finish(mut self) -> Option<Redacted> {
        if self.found.is_empty() {
            return None;
        }
        self.skip(self.text.len(), self.text.len());
        self.found.sort_unstable();
        self.found.dedup();
        Some(Redacted {
            text: self.out,
            found: self.found,
        })
    }
}
