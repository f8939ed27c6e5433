//! A page as a row of texts and tags, in one pass that never goes back. It builds no tree and believes nothing: what it is for is cutting a
//! page down to what a parser can take, taking its tags off, and finding links of a known shape.
//!
//! Invariant: the time it takes grows with the length of the page and with nothing else. Test `scanning_takes_time_by_length_alone`.

use std::borrow::Cow;

/// A piece of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Piece<'a> {
    Text(&'a str),
    /// What stands inside `script`, `style` and the like, which is no text for people.
    Hidden(&'a str),
    Tag(Tag<'a>),
    /// A comment, a declaration, or a tag that does not end.
    Noise,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Tag<'a> {
    /// As it was written.
    pub(super) name: &'a str,
    pub(super) is_end: bool,
    pub(super) attributes: &'a str,
    pub(super) raw: &'a str,
}

impl<'a> Tag<'a> {
    pub(super) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    pub(super) fn is_any(&self, names: &[&str]) -> bool {
        names.iter().any(|name| self.is(name))
    }

    /// The value of an attribute, its references resolved.
    pub(super) fn attribute(&self, name: &str) -> Option<Cow<'a, str>> {
        attributes(self.attributes)
            .find(|(key, _)| key.eq_ignore_ascii_case(name))
            .map(|(_, value)| unescaped(value))
    }

    /// Whether one of its classes is this.
    pub(super) fn has_class(&self, class: &str) -> bool {
        let classes = self.attribute("class").unwrap_or_default();
        classes.split_ascii_whitespace().any(|one| one == class)
    }
}

/// Elements whose content is no markup, and whether people see it.
const OPAQUE: [(&str, bool); 9] = [
    ("script", false),
    ("style", false),
    ("iframe", false),
    ("noembed", false),
    ("noframes", false),
    ("template", false),
    ("textarea", true),
    ("title", true),
    ("xmp", true),
];

#[derive(Debug)]
pub(super) struct Scan<'a> {
    rest: &'a str,
    /// Within an element whose content is no markup.
    inside: Option<(&'a str, bool)>,
}

impl<'a> Scan<'a> {
    pub(super) const fn new(page: &'a str) -> Self {
        Self {
            rest: page,
            inside: None,
        }
    }

    fn take(&mut self, bytes: usize) -> &'a str {
        let (piece, rest) = self.rest.split_at_checked(bytes).unwrap_or((self.rest, ""));
        self.rest = rest;
        piece
    }

    /// Up to the end tag of the element that is open.
    fn opaque(&mut self, name: &str, is_seen: bool) -> Option<Piece<'a>> {
        let ends = |at: &usize| {
            let after = self.rest.get(at + 2..).unwrap_or_default();
            let named = after.get(..name.len());
            let next = after.as_bytes().get(name.len());
            named.is_some_and(|word| word.eq_ignore_ascii_case(name))
                && next.is_none_or(|byte| !byte.is_ascii_alphanumeric())
        };
        let end = memchr::memmem::find_iter(self.rest.as_bytes(), b"</").find(ends);
        let content = self.take(end.unwrap_or(self.rest.len()));
        match (content.is_empty(), is_seen) {
            (true, _) => None,
            (false, true) => Some(Piece::Text(content)),
            (false, false) => Some(Piece::Hidden(content)),
        }
    }

    fn markup(&mut self) -> Piece<'a> {
        let bytes = self.rest.as_bytes();
        if bytes.starts_with(b"<!--") {
            let end = memchr::memmem::find(bytes, b"-->").map_or(bytes.len(), |at| at + 3);
            self.take(end);
            return Piece::Noise;
        }
        let is_end = bytes.get(1) == Some(&b'/');
        let begins = bytes.get(if is_end { 2 } else { 1 });
        if !begins.is_some_and(u8::is_ascii_alphabetic) {
            if matches!(bytes.get(1), Some(b'!' | b'?' | b'/')) {
                let end = memchr::memchr(b'>', bytes).map_or(bytes.len(), |at| at + 1);
                self.take(end);
                return Piece::Noise;
            }
            return Piece::Text(self.take(1));
        }
        let Some(end) = end_of_tag(bytes) else {
            self.take(bytes.len());
            return Piece::Noise;
        };
        let raw = self.take(end);
        let inner = raw.strip_suffix('>').unwrap_or(raw);
        let inner = inner.get(if is_end { 2 } else { 1 }..).unwrap_or_default();
        let is_after = |c: char| c.is_ascii_whitespace() || c == '/';
        let at = inner.find(is_after).unwrap_or(inner.len());
        let (name, attributes) = inner.split_at_checked(at).unwrap_or((inner, ""));
        let tag = Tag {
            name,
            is_end,
            attributes,
            raw,
        };
        if !is_end {
            let opaque = OPAQUE.iter().find(|(opaque, _)| tag.is(opaque));
            self.inside = opaque.map(|(_, is_seen)| (name, *is_seen));
        }
        Piece::Tag(tag)
    }
}

impl<'a> Iterator for Scan<'a> {
    type Item = Piece<'a>;

    fn next(&mut self) -> Option<Piece<'a>> {
        if let Some((name, is_seen)) = self.inside.take()
            && let Some(piece) = self.opaque(name, is_seen)
        {
            return Some(piece);
        }
        if self.rest.is_empty() {
            return None;
        }
        if self.rest.starts_with('<') {
            return Some(self.markup());
        }
        let end = memchr::memchr(b'<', self.rest.as_bytes()).unwrap_or(self.rest.len());
        Some(Piece::Text(self.take(end)))
    }
}

/// Behind the `>` that is in no quotes.
fn end_of_tag(bytes: &[u8]) -> Option<usize> {
    let mut at = 1;
    loop {
        at += memchr::memchr3(b'>', b'"', b'\'', bytes.get(at..)?)?;
        let byte = *bytes.get(at)?;
        at += 1;
        if byte == b'>' {
            return Some(at);
        }
        // A quote counts where a value begins; elsewhere it is a letter.
        let before = bytes.get(..at - 1)?.trim_ascii_end();
        if before.last() == Some(&b'=') {
            at += memchr::memchr(byte, bytes.get(at..)?)? + 1;
        }
    }
}

/// Names and values as they were written.
pub(super) fn attributes(text: &str) -> impl Iterator<Item = (&str, &str)> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| c.is_ascii_whitespace() || c == '/');
        if rest.is_empty() {
            return None;
        }
        let is_after = |c: char| c.is_ascii_whitespace() || matches!(c, '=' | '/');
        // A name may begin with an equals sign, and with no other.
        let from = rest.chars().next().map_or(0, char::len_utf8);
        let end = rest
            .get(from..)?
            .find(is_after)
            .map_or(rest.len(), |at| at + from);
        let (name, after) = rest.split_at_checked(end)?;
        rest = after;
        let Some(value) = after.trim_ascii_start().strip_prefix('=') else {
            return Some((name, ""));
        };
        let value = value.trim_ascii_start();
        let quote = value.chars().next().filter(|c| matches!(c, '"' | '\''));
        let (value, after) = match quote {
            Some(quote) => {
                let inner = value.get(1..)?;
                inner.split_once(quote).unwrap_or((inner, ""))
            }
            None => {
                let end = value.find(|c: char| c.is_ascii_whitespace());
                value.split_at_checked(end.unwrap_or(value.len()))?
            }
        };
        rest = after;
        Some((name, value))
    })
}

/// The references that pages really use; others stay as they are.
pub(super) fn unescaped(text: &str) -> Cow<'_, str> {
    const NAMED: [(&str, &str); 14] = [
        ("amp", "&"),
        ("lt", "<"),
        ("gt", ">"),
        ("quot", "\""),
        ("apos", "'"),
        ("nbsp", " "),
        ("ndash", "–"),
        ("mdash", "—"),
        ("hellip", "…"),
        ("lsquo", "‘"),
        ("rsquo", "’"),
        ("ldquo", "“"),
        ("rdquo", "”"),
        ("copy", "©"),
    ];
    const LONGEST_NAME: usize = 8;
    if !text.contains('&') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('&') {
        out.push_str(before);
        let near = after.get(..after.floor_char_boundary(LONGEST_NAME + 1));
        let reference = near
            .and_then(|near| near.split_once(';'))
            .and_then(|(name, _)| {
                let rest = after.get(name.len() + 1..)?;
                let named = NAMED.iter().find(|(known, _)| *known == name);
                let letter = match (named, name.strip_prefix('#')) {
                    (Some((_, text)), _) => (*text).to_owned(),
                    (None, Some(number)) => numbered(number)?.to_string(),
                    (None, None) => return None,
                };
                Some((letter, rest))
            });
        match reference {
            Some((letter, left)) => {
                out.push_str(&letter);
                rest = left;
            }
            None => {
                out.push('&');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    Cow::Owned(out)
}

fn numbered(number: &str) -> Option<char> {
    let hex = number.strip_prefix(['x', 'X']);
    let code = match hex {
        Some(hex) => u32::from_str_radix(hex, 16).ok()?,
        None => number.parse().ok()?,
    };
    char::from_u32(code).filter(|c| !c.is_control() || matches!(c, '\n' | '\t'))
}
