//! Cuts a page down to what a parser can take: nothing deeper than people write, no attribute longer than people read.

use std::borrow::Cow;

use super::{
    markdown::is_running,
    scan::{Piece, Scan, Tag, attributes, unescaped},
};

/// Elements inside elements; a browser stops at as many.
const MAX_DEPTH: usize = 512;
const MAX_ATTRIBUTE: usize = 4 << 10;
/// A tag that is longer loses all of its attributes.
const MAX_TAG: usize = 64 << 10;

/// Elements that hold nothing.
const EMPTY: [&str; 14] = [
    "area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source",
    "track", "wbr",
];
/// Elements that end where the next of their kind begins.
const SIBLINGS: [&str; 9] = [
    "p", "li", "dt", "dd", "tr", "td", "th", "option", "optgroup",
];

pub(super) fn page(page: &str) -> String {
    let mut out = String::with_capacity(page.len());
    let mut open: Vec<u64> = Vec::new();
    for piece in Scan::new(page) {
        match piece {
            Piece::Text(text) => out.push_str(text),
            Piece::Hidden(_) | Piece::Noise => {}
            Piece::Tag(tag) => {
                if fits(&mut open, &tag) {
                    out.push_str(&shortened(&tag));
                }
            }
        }
    }
    out
}

/// Whether a tag leaves the page no deeper than it may be.
fn fits(open: &mut Vec<u64>, tag: &Tag<'_>) -> bool {
    if tag.is_any(&EMPTY) {
        return !tag.is_end;
    }
    let name = named(tag.name);
    if tag.is_end {
        // An end without a beginning ends nothing.
        let Some(at) = open.iter().rposition(|one| *one == name) else {
            return false;
        };
        open.truncate(at);
        return true;
    }
    let follows_its_like = open.last() == Some(&name) && tag.is_any(&SIBLINGS);
    if !follows_its_like {
        if open.len() >= MAX_DEPTH {
            return false;
        }
        open.push(name);
    }
    true
}

/// Two names that are taken for one another cost nothing but a deeper or flatter page.
fn named(name: &str) -> u64 {
    name.bytes().fold(0xcbf2_9ce4_8422_2325, |sum, byte| {
        (sum ^ u64::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0000_01b3)
    })
}

fn shortened<'a>(tag: &Tag<'a>) -> Cow<'a, str> {
    let runs = |(_, value): (&str, &str)| is_running(&unescaped(value));
    if tag.raw.len() <= MAX_ATTRIBUTE && !attributes(tag.attributes).any(runs) {
        return Cow::Borrowed(tag.raw);
    }
    let mut out = format!("<{}{}", if tag.is_end { "/" } else { "" }, tag.name);
    if tag.raw.len() <= MAX_TAG {
        let kept = |(name, value): &(&str, &str)| {
            name.len() + value.len() <= MAX_ATTRIBUTE && !runs((name, value))
        };
        for (name, value) in attributes(tag.attributes).filter(kept) {
            let quote = if value.contains('"') { '\'' } else { '"' };
            out.push_str(&format!(" {name}={quote}{value}{quote}"));
        }
    }
    out.push('>');
    Cow::Owned(out)
}
