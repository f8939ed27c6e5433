//! One line, taken apart by a parser of its own: a flat object of strings and whole numbers, ended by its chain fields.

use crate::chain::Hash;

/// The end of every line: `,"prev":"` 64 digits `","hash":"` 64 digits `"}`.
pub(super) struct Link<'a> {
    pub(super) previous: Hash,
    pub(super) hash: Hash,
    pub(super) body: &'a [u8],
}

impl<'a> Link<'a> {
    pub(super) fn of(text: &'a [u8]) -> Option<Link<'a>> {
        let rest = text.strip_suffix(b"\"}")?;
        let (rest, hash) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
        let body = rest.strip_suffix(b",\"hash\":\"")?;
        let rest = body.strip_suffix(b"\"")?;
        let (rest, previous) = rest.split_at_checked(rest.len().checked_sub(64)?)?;
        rest.strip_suffix(b",\"prev\":\"")?;
        Some(Link {
            previous: Hash::from_hex(previous)?,
            hash: Hash::from_hex(hash)?,
            body,
        })
    }
}

/// The fields that matter here, found by walking a flat object of strings and whole numbers.
#[derive(Default)]
pub(super) struct Fields<'a> {
    pub(super) seq: Option<u64>,
    pub(super) kind: &'a [u8],
    pub(super) intent: Option<u64>,
    pub(super) action: &'a [u8],
    /// With its escapes.
    pub(super) detail: &'a [u8],
    pub(super) count: Option<u64>,
    /// The peaks of the hash tree, where the record carries them.
    pub(super) tree: &'a [u8],
}

impl<'a> Fields<'a> {
    pub(super) fn of(text: &'a [u8]) -> Result<Fields<'a>, String> {
        if std::str::from_utf8(text).is_err() || text.iter().any(|b| *b < 0x20 || *b == 0x7f) {
            return Err("the line holds bytes that no record may hold".to_owned());
        }
        Fields::walk(text).ok_or_else(|| "the line is not a flat object".to_owned())
    }

    fn walk(text: &'a [u8]) -> Option<Fields<'a>> {
        let mut fields = Fields::default();
        let mut rest = text.strip_prefix(b"{")?;
        loop {
            let (key, after) = quoted(rest)?;
            rest = after.strip_prefix(b":")?;
            if rest.first() == Some(&b'"') {
                let (value, after) = quoted(rest)?;
                match key {
                    b"kind" => fields.kind = value,
                    b"tree" => fields.tree = value,
                    b"action" => fields.action = value,
                    b"detail" => fields.detail = value,
                    _ => {}
                }
                rest = after;
            } else {
                let (value, after) = whole_number(rest)?;
                match key {
                    b"seq" => fields.seq = Some(value),
                    b"intent" => fields.intent = Some(value),
                    b"count" => fields.count = Some(value),
                    _ => {}
                }
                rest = after;
            }
            match rest.split_first()? {
                (b',', after) => rest = after,
                (b'}', []) => return Some(fields),
                _ => return None,
            }
        }
    }
}

/// A string and what follows it; the content keeps its escapes.
fn quoted(text: &[u8]) -> Option<(&[u8], &[u8])> {
    let inner = text.strip_prefix(b"\"")?;
    let mut escaped = false;
    let end = inner.iter().position(|byte| {
        let ends = *byte == b'"' && !escaped;
        escaped = *byte == b'\\' && !escaped;
        ends
    })?;
    Some((inner.get(..end)?, inner.get(end + 1..)?))
}

fn whole_number(text: &[u8]) -> Option<(u64, &[u8])> {
    let end = text.iter().position(|byte| !byte.is_ascii_digit())?;
    let (digits, after) = text.split_at_checked(end)?;
    let value = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some((value, after))
}
