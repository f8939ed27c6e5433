//! Paths by component. A path is normalised once and compared piece by piece, so `/workspace2` is not under `/workspace`.
//!
//! Nothing is decoded. A path that another reader could take for a different one (a backslash, an encoded separator, dots that only
//! look like dots) is refused, because a volume must not be asked for what the check did not see.

use std::fmt;

use vocab::Violation;

use super::{BadPattern, refusal};

/// Where relative paths begin.
const WORKSPACE: &str = "workspace";
/// The longest path, in bytes.
const MAX_PATH: usize = 4096;

/// An absolute path without `.`, `..` or empty components.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct NormalPath(Vec<String>);

/// Why a text is not taken for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum BadPath {
    /// It climbs, or could be read as climbing.
    Traversal,
    /// It has more than one reading; says how.
    Unclear(&'static str),
}

impl NormalPath {
    pub(crate) fn parse(text: &str) -> Result<Self, BadPath> {
        if climbs(text) {
            return Err(BadPath::Traversal);
        }
        if text.is_empty() {
            return Err(BadPath::Unclear("is where a path should be"));
        }
        if text.len() > MAX_PATH {
            return Err(BadPath::Unclear("it is longer than 4096 bytes"));
        }
        if text.chars().any(char::is_control) {
            return Err(BadPath::Unclear("it holds a control character"));
        }
        if text.contains('\\') || has_needless_escape(text) {
            return Err(BadPath::Unclear(
                "it holds a backslash, or a percent escape that hides a plain character",
            ));
        }
        if text.starts_with('~') || text.contains("://") {
            return Err(BadPath::Unclear(
                "it is a home directory or an address, not a plain path",
            ));
        }
        let own = text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".");
        let base = (!text.starts_with('/')).then_some(WORKSPACE);
        let parts: Vec<String> = base.into_iter().chain(own).map(str::to_owned).collect();
        if parts.iter().any(|part| part.ends_with(['.', ' '])) {
            return Err(BadPath::Unclear("a part of it ends in a dot or a space"));
        }
        Ok(Self(parts))
    }

    /// A glob that files are looked for with, relative or absolute. Its fixed beginning is the path.
    pub(crate) fn parse_glob(text: &str) -> Result<Option<Self>, BadPath> {
        if text.split(['/', '{', '}', ',', '(', ')', '|']).any(is_dots) || climbs(text) {
            return Err(BadPath::Traversal);
        }
        if text.contains('\\') || text.chars().any(char::is_control) {
            return Err(BadPath::Unclear(
                "it holds a backslash or a control character",
            ));
        }
        if ["{/", ",/", "(/", "|/"]
            .iter()
            .any(|alternative| text.contains(alternative))
        {
            return Err(BadPath::Unclear(
                "one of its alternatives is a path of its own",
            ));
        }
        if !text.starts_with('/') {
            return Ok(None);
        }
        let fixed: Vec<&str> = text
            .split('/')
            .take_while(|part| !part.contains(['*', '?', '[', '{', '(', '!']))
            .collect();
        Self::parse(&format!("/{}", fixed.join("/"))).map(Some)
    }
}

/// The names of a path as the lists of a context read it; relative ones begin at `/workspace`.
pub fn path_names(text: &str) -> Result<Vec<String>, PathProblem> {
    NormalPath::parse(text)
        .map(|path| path.0)
        .map_err(|bad| match bad {
            BadPath::Traversal => PathProblem::Climbs(Box::new(refusal::climbing(text))),
            BadPath::Unclear(why) => PathProblem::Unclear(why),
        })
}

/// Why a text names no place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PathProblem {
    /// It climbs, or could be read as climbing: the refusal.
    Climbs(Box<Violation>),
    /// It has more than one reading; says how.
    Unclear(&'static str),
}

impl fmt::Display for NormalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "/{}", self.0.join("/"))
    }
}

/// Whether any reading of the text has a component that goes up: as it stands, with either slash, and percent-decoded.
fn climbs(text: &str) -> bool {
    let mut reading = text.to_owned();
    for _ in 0..4 {
        if reading.split(is_slash).any(is_dots) {
            return true;
        }
        match decoded(&reading) {
            Some(next) => reading = next,
            None => return false,
        }
    }
    // Encoded so many times over that nobody means it.
    true
}

fn is_slash(c: char) -> bool {
    matches!(
        c,
        '/' | '\\' | '\u{2044}' | '\u{2215}' | '\u{ff0f}' | '\u{ff3c}' | '\0'
    )
}

/// `..`, and what some readers turn into it: more dots, spaces after them, dots of other scripts.
fn is_dots(part: &str) -> bool {
    let part = part.trim_matches(|c: char| c == ' ' || c.is_control());
    let dots: usize = part
        .chars()
        .map(|c| match c {
            '.' | '\u{2024}' | '\u{ff0e}' | '\u{fe52}' => 1,
            '\u{2025}' => 2,
            '\u{2026}' => 3,
            _ => 0,
        })
        .sum();
    let is_only_dots = part.chars().all(|c| {
        matches!(
            c,
            '.' | ' ' | '\u{2024}' | '\u{2025}' | '\u{2026}' | '\u{ff0e}' | '\u{fe52}'
        )
    });
    is_only_dots && dots >= 2
}

/// The text with its percent escapes of ASCII decoded once; `None` if it has none.
fn decoded(text: &str) -> Option<String> {
    let mut out = String::with_capacity(text.len());
    let mut any = false;
    let mut rest = text;
    while let Some((before, after)) = rest.split_once('%') {
        out.push_str(before);
        let byte = after
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok())
            .filter(u8::is_ascii);
        match byte {
            Some(byte) => {
                any = true;
                out.push(char::from(byte));
                rest = after.get(2..).unwrap_or_default();
            }
            None => {
                out.push('%');
                rest = after;
            }
        }
    }
    out.push_str(rest);
    any.then_some(out)
}

/// An escape of a character that needs none, or of one that separates: written by somebody who wants to be read in two ways. `%20` and
/// the like are parts of names that came from the web.
fn has_needless_escape(text: &str) -> bool {
    text.split('%').skip(1).any(|after| {
        let byte = after
            .get(..2)
            .and_then(|digits| u8::from_str_radix(digits, 16).ok());
        byte.is_some_and(|byte| {
            byte.is_ascii_alphanumeric() || byte.is_ascii_control() || b"-._~/\\%".contains(&byte)
        })
    })
}

/// An entry of a list of paths: it covers what it matches, and everything beneath that.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathPattern {
    text: String,
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// `*` and `?` within one component.
    Glob(String),
    /// `**`: any number of components.
    Deep,
}

impl PathPattern {
    pub fn parse(text: &str) -> Result<Self, BadPattern> {
        let plain = text.replace(['*', '?'], "x");
        let normal = NormalPath::parse(&plain).map_err(|_| {
            BadPattern("a path is written like `/workspace`, `/workspace/*.rs` or `/workspace/**`, without `..`, `~` or `\\`")
        })?;
        let own: Vec<&str> = text
            .split('/')
            .filter(|part| !part.is_empty() && *part != ".")
            .collect();
        let base = (normal.0.len() > own.len()).then(|| Part::Literal(WORKSPACE.to_owned()));
        let parts = own.into_iter().map(|part| match part {
            "**" => Part::Deep,
            part if part.contains(['*', '?']) => Part::Glob(part.to_owned()),
            part => Part::Literal(part.to_owned()),
        });
        Ok(Self {
            text: text.to_owned(),
            parts: base.into_iter().chain(parts).collect(),
        })
    }

    pub(crate) fn covers(&self, path: &NormalPath) -> bool {
        covers(&self.parts, &path.0)
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Whether the parts match the beginning of the path. Keeps the places in the pattern that some reading of the path so far has
/// reached, so its cost is the product of both lengths.
fn covers(parts: &[Part], path: &[String]) -> bool {
    let mut reached = vec![false; parts.len() + 1];
    if let Some(first) = reached.first_mut() {
        *first = true;
    }
    let is_done = |reached: &[bool]| reached.last().copied().unwrap_or(false);
    settle(parts, &mut reached);
    for piece in path {
        if is_done(&reached) {
            return true;
        }
        let mut next = vec![false; parts.len() + 1];
        for (at, part) in parts
            .iter()
            .enumerate()
            .filter(|(at, _)| reached.get(*at) == Some(&true))
        {
            let to = match part {
                Part::Deep => at,
                Part::Literal(name) if name == piece => at + 1,
                Part::Glob(glob) if is_like(glob, piece) => at + 1,
                _ => continue,
            };
            if let Some(place) = next.get_mut(to) {
                *place = true;
            }
        }
        settle(parts, &mut next);
        reached = next;
    }
    is_done(&reached)
}

/// `**` may also stand for nothing.
fn settle(parts: &[Part], reached: &mut [bool]) {
    for (at, part) in parts.iter().enumerate() {
        let is_reached = *part == Part::Deep && reached.get(at) == Some(&true);
        if let Some(place) = reached.get_mut(at + 1).filter(|_| is_reached) {
            *place = true;
        }
    }
}

/// `*` for any run of characters, `?` for one.
pub(crate) fn is_like(glob: &str, text: &str) -> bool {
    if !glob.contains(['*', '?']) {
        return glob == text;
    }
    let glob: Vec<char> = glob.chars().collect();
    let text: Vec<char> = text.chars().collect();
    let (mut g, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        match (glob.get(g), retry) {
            (Some('*'), _) => {
                retry = Some((g + 1, t));
                g += 1;
            }
            (Some(c), _) if *c == '?' || Some(c) == text.get(t) => {
                g += 1;
                t += 1;
            }
            (_, Some((after, from))) => {
                retry = Some((after, from + 1));
                g = after;
                t = from + 1;
            }
            (_, None) => return false,
        }
    }
    glob.iter().skip(g).all(|c| *c == '*')
}
