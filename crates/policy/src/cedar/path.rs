//! Paths into the arguments: `title`, `to[0].email`, `headers["x.y"]`, and `to[].email` for every element.
//!
//! A path has one spelling and a value has one path, so no key can be written to pass for another: a key that holds a dot, a
//! bracket, a quote, a space or the like is written in brackets and quotes.

use std::{borrow::Cow, fmt, iter::Peekable, str::Chars};

use wire::{Json, Kind};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Step {
    Key(String),
    Index(usize),
    /// Every element of an array.
    Each,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Path(pub(super) Vec<Step>);

/// Why a text is not a path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathError {
    Malformed,
    /// The same place, spelled another way.
    Spelling(String),
}

impl fmt::Display for PathError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str(
                "not a path; write it like `title`, `to[0].email` or `headers[\"x.y\"]`",
            ),
            Self::Spelling(right) => write!(f, "spell it `{right}`"),
        }
    }
}

impl std::error::Error for PathError {}

impl Path {
    pub(super) fn parse(text: &str) -> Result<Self, PathError> {
        let mut steps = Vec::new();
        let mut rest = text.chars().peekable();
        while rest.peek().is_some() {
            let step = match rest.next_if_eq(&'[') {
                Some(_) => bracketed(&mut rest),
                None if steps.is_empty() || rest.next_if_eq(&'.').is_some() => bare(&mut rest),
                None => None,
            };
            steps.push(step.ok_or(PathError::Malformed)?);
        }
        let path = Self(steps);
        match path.to_string() {
            _ if path.0.is_empty() => Err(PathError::Malformed),
            right if right != text => Err(PathError::Spelling(right)),
            _ => Ok(path),
        }
    }

    pub(super) fn has_each(&self) -> bool {
        self.0.contains(&Step::Each)
    }

    /// Whether `self` names something inside what `outer` names.
    pub(super) fn is_inside(&self, outer: &Self) -> bool {
        self.0.len() > outer.0.len() && self.0.starts_with(&outer.0)
    }

    /// The value at a path without `[]`.
    pub(super) fn find<'a>(&self, arguments: Json<'a>) -> Option<Json<'a>> {
        self.0.iter().try_fold(arguments, |value, step| match step {
            Step::Key(key) => value.get(key),
            Step::Index(index) => value.items().nth(*index),
            Step::Each => None,
        })
    }
}

fn bare(rest: &mut Peekable<Chars<'_>>) -> Option<Step> {
    let mut key = String::new();
    while let Some(next) = rest.next_if(|next| is_plain(*next)) {
        key.push(next);
    }
    (!key.is_empty()).then_some(Step::Key(key))
}

/// What follows an opening bracket: an index, nothing, or a quoted key; and the closing bracket.
fn bracketed(rest: &mut Peekable<Chars<'_>>) -> Option<Step> {
    if rest.next_if_eq(&']').is_some() {
        return Some(Step::Each);
    }
    let mut text = String::new();
    if rest.peek() == Some(&'"') {
        let mut escaped = false;
        loop {
            let next = rest.next()?;
            text.push(next);
            match next {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '"' if text.len() > 1 => break,
                _ => {}
            }
        }
        rest.next_if_eq(&']')?;
        let key = Json::parse(text.as_bytes(), wire::Limits::default())
            .ok()?
            .as_str()?
            .into_owned();
        return Some(Step::Key(key));
    }
    while let Some(digit) = rest.next_if(char::is_ascii_digit) {
        text.push(digit);
    }
    rest.next_if_eq(&']')?;
    text.parse().ok().map(Step::Index)
}

/// Characters a key may hold without being quoted.
fn is_plain(next: char) -> bool {
    !matches!(next, '.' | '[' | ']' | '"' | '\\' | ':')
        && !next.is_whitespace()
        && !next.is_control()
}

pub(super) fn push_key(out: &mut String, key: &str) {
    if !key.is_empty() && key.chars().all(is_plain) {
        if !out.is_empty() {
            out.push('.');
        }
        out.push_str(key);
    } else {
        out.push('[');
        out.push_str(&String::from_utf8_lossy(&wire::write::quoted(key)));
        out.push(']');
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut out = String::new();
        for step in &self.0 {
            match step {
                Step::Key(key) => push_key(&mut out, key),
                Step::Index(index) => out.push_str(&format!("[{index}]")),
                Step::Each => out.push_str("[]"),
            }
        }
        f.write_str(&out)
    }
}

/// A scalar as a policy sees it: a string's text, and everything else as it was written.
pub(super) fn text_of(value: Json<'_>) -> Option<Cow<'_, str>> {
    match value.kind() {
        Kind::Object | Kind::Array => None,
        Kind::String => value.as_str(),
        Kind::Number | Kind::Bool | Kind::Null => Some(Cow::Borrowed(value.text())),
    }
}

pub(super) const fn kind_name(kind: Kind) -> &'static str {
    match kind {
        Kind::Object => "object",
        Kind::Array => "array",
        Kind::String => "string",
        Kind::Number => "number",
        Kind::Bool => "boolean",
        Kind::Null => "null",
    }
}

/// One value with nothing inside it: a scalar, an empty object or an empty array.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leaf<'a> {
    pub(super) path: String,
    pub(super) kind: &'static str,
    /// `None` for an empty object or array.
    pub(super) text: Option<Cow<'a, str>>,
}

/// All leaves, sorted by path; `None` if there are more than `limit`.
pub(super) fn leaves(arguments: Json<'_>, limit: usize) -> Option<Vec<Leaf<'_>>> {
    let mut found = Vec::new();
    collect(arguments, &mut String::new(), limit, &mut found)?;
    found.sort();
    Some(found)
}

fn collect<'a>(
    value: Json<'a>,
    path: &mut String,
    limit: usize,
    found: &mut Vec<Leaf<'a>>,
) -> Option<()> {
    let length = path.len();
    let before = found.len();
    match value.kind() {
        Kind::Object => {
            for (key, inner) in value.fields() {
                push_key(path, &key);
                collect(inner, path, limit, found)?;
                path.truncate(length);
            }
        }
        Kind::Array => {
            for (index, inner) in value.items().enumerate() {
                path.push_str(&format!("[{index}]"));
                collect(inner, path, limit, found)?;
                path.truncate(length);
            }
        }
        _ => {}
    }
    // Nothing was found inside: this is a leaf, unless it is the arguments themselves.
    if found.len() == before && length > 0 {
        found.push(Leaf {
            path: path.clone(),
            kind: kind_name(value.kind()),
            text: text_of(value),
        });
    }
    (found.len() <= limit).then_some(())
}
