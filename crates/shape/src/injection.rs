//! Injection patterns over every string and key of a value, at any depth.
//!
//! A tripwire, not the boundary: what keeps a poisoned session from doing harm are labels and policy. So the table is chosen to stay
//! quiet on ordinary prose and code, and it can only be made stricter. Weights follow one rule: a pattern of weight three refuses alone,
//! and patterns that mean little by themselves refuse together from four.

mod fold;
mod table;
#[cfg(test)]
mod tests;

use std::sync::LazyLock;

use regex::{RegexSet, RegexSetBuilder};
use wire::{Json, Kind, json::decode_key};

use crate::text::string_end;

pub use table::{Family, RULES, Rule};

/// A rule of this weight refuses alone.
pub const ALONE: u8 = 3;
/// Weights that refuse together.
pub const TOGETHER: u8 = 4;

/// Between strings in the folded text; no pattern matches across it.
const BETWEEN: char = '\u{1f}';
/// Bytes the compiled patterns may take, so that a pattern in a config cannot stall the gate.
const SIZE: usize = 4 << 20;

/// What was found, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hit {
    /// A JSON pointer to the string, or to the value whose key it is.
    pub path: String,
    /// The rule, or the rules that add up.
    pub rule: String,
    pub says: String,
}

/// The standard table, perhaps with more patterns in it.
#[derive(Debug)]
pub struct Table {
    names: Vec<(String, u8, String)>,
    /// Patterns over the folded text; the rest of `names` belongs to `hidden`.
    folded: RegexSet,
    hidden: RegexSet,
    extra: RegexSet,
    folded_names: Vec<usize>,
    hidden_names: Vec<usize>,
}

impl Table {
    /// The rules we ship.
    #[must_use]
    pub fn standard() -> &'static Self {
        static STANDARD: LazyLock<Table> = LazyLock::new(|| Table::build(&[]).unwrap_or_else(|_| Table::refusing()));
        &STANDARD
    }

    /// The rules we ship and these, which refuse alone. There is no way to have fewer.
    pub fn with(extra: &[(String, String)]) -> Result<Self, String> {
        Self::build(extra)
    }

    fn build(extra: &[(String, String)]) -> Result<Self, String> {
        let is_hidden = |rule: &&(usize, &Rule)| rule.1.family == Family::Hidden;
        let rules: Vec<(usize, &Rule)> = RULES.iter().enumerate().collect();
        let (hidden, folded): (Vec<_>, Vec<_>) = rules.into_iter().partition(|rule| is_hidden(&rule));
        let set = |patterns: Vec<&str>| RegexSetBuilder::new(patterns).size_limit(SIZE).dfa_size_limit(SIZE).build();
        let patterns = |rules: &[(usize, &Rule)]| rules.iter().map(|(_, rule)| rule.pattern).collect();
        for (name, pattern) in extra {
            regex::Regex::new(pattern).map_err(|error| format!("the injection pattern `{name}` is not usable: {error}"))?;
        }
        let too_large = |error: regex::Error| format!("the injection patterns are not usable together: {error}");
        let insensitive =
            RegexSetBuilder::new(extra.iter().map(|(_, pattern)| pattern)).case_insensitive(true).size_limit(SIZE).build();
        let ours = RULES.iter().map(|rule| (rule.name.to_owned(), rule.weight, rule.says.to_owned()));
        let theirs = extra.iter().map(|(name, _)| (name.clone(), ALONE, "matches a pattern of this gate's own".to_owned()));
        Ok(Self {
            names: ours.chain(theirs).collect(),
            folded: set(patterns(&folded)).map_err(too_large)?,
            hidden: set(patterns(&hidden)).map_err(too_large)?,
            extra: insensitive.map_err(too_large)?,
            folded_names: folded.iter().map(|(at, _)| *at).collect(),
            hidden_names: hidden.iter().map(|(at, _)| *at).collect(),
        })
    }

    /// A table that takes everything for an injection; used if ours could not be compiled, which a test rules out.
    fn refusing() -> Self {
        let none = RegexSet::empty();
        let all = RegexSet::new([""]).unwrap_or_else(|_| RegexSet::empty());
        let names = vec![("broken-table".to_owned(), ALONE, "the table of patterns is broken".to_owned())];
        Self { names, folded: all, hidden: none.clone(), extra: none, folded_names: vec![0], hidden_names: Vec::new() }
    }

    /// Looks at every string and key of a validated value.
    #[must_use]
    pub fn scan(&self, json: Json<'_>) -> Option<Hit> {
        let text = Strings::gather(json.as_bytes());
        let rules = self.matched(&text.folded, text.unusual.as_deref());
        if !self.refuses(&rules) {
            return None;
        }
        // The first of the heaviest: the table begins with the plainest.
        let worst = rules.iter().copied().rev().max_by_key(|at| self.weight(*at))?;
        let path = locate(json, &|text| {
            let one = Strings::of(text);
            self.matched(&one.folded, one.unusual.as_deref()).contains(&worst)
        });
        let alone = self.weight(worst) >= ALONE;
        let named = rules.iter().copied().filter(|at| !alone || *at == worst).filter_map(|at| self.names.get(at));
        let (names, says): (Vec<&str>, Vec<&str>) = named.map(|(name, _, says)| (name.as_str(), says.as_str())).unzip();
        Some(Hit { path: path.unwrap_or_default(), rule: names.join("+"), says: says.join("; ") })
    }

    fn refuses(&self, rules: &[usize]) -> bool {
        let weights = rules.iter().map(|at| self.weight(*at));
        weights.clone().any(|weight| weight >= ALONE) || weights.map(u32::from).sum::<u32>() >= u32::from(TOGETHER)
    }

    fn weight(&self, at: usize) -> u8 {
        self.names.get(at).map_or(0, |(_, weight, _)| *weight)
    }

    /// The rules that match, each once.
    fn matched(&self, folded: &str, unusual: Option<&str>) -> Vec<usize> {
        let ours = self.folded.matches(folded);
        let mut rules: Vec<usize> = ours.iter().filter_map(|at| self.folded_names.get(at).copied()).collect();
        if let Some(unusual) = unusual {
            rules.extend(self.hidden.matches(unusual).iter().filter_map(|at| self.hidden_names.get(at).copied()));
        }
        if !self.extra.is_empty() {
            rules.extend(self.extra.matches(folded).iter().map(|at| at + RULES.len()));
        }
        rules
    }
}

/// Looks at every string and key of a validated value, by the standard table.
#[must_use]
pub fn scan(json: Json<'_>) -> Option<Hit> {
    Table::standard().scan(json)
}

/// All strings of a value, one after the other.
#[derive(Debug, Default)]
struct Strings {
    folded: String,
    /// The same as they came, if any holds a character that the hidden rules could care about.
    unusual: Option<String>,
}

impl Strings {
    /// In a validated text a quote outside a string opens one, so strings are found without looking at what is between them.
    fn gather(text: &[u8]) -> Self {
        let mut strings = Self { folded: String::with_capacity(text.len()), unusual: None };
        let mut at = 0;
        while let Some(open) = text.get(at..).and_then(|rest| memchr::memchr(b'"', rest)) {
            let start = at + open;
            let end = string_end(text, start);
            strings.add(&decode_key(text.get(start..end).unwrap_or_default()));
            at = end;
        }
        strings
    }

    fn of(text: &str) -> Self {
        let mut strings = Self::default();
        strings.add(text);
        strings
    }

    fn add(&mut self, text: &str) {
        fold::fold(text, &mut self.folded);
        self.folded.push(BETWEEN);
        if !text.is_ascii() || memchr::memchr2(0, 0x1b, text.as_bytes()).is_some() {
            let unusual = self.unusual.get_or_insert_default();
            unusual.push_str(text);
            unusual.push(BETWEEN);
        }
    }
}

/// A JSON pointer to the first string or key for which `wanted` holds.
fn locate(json: Json<'_>, wanted: &dyn Fn(&str) -> bool) -> Option<String> {
    match json.kind() {
        Kind::String => wanted(&json.as_str()?).then(String::new),
        Kind::Object => json.fields().find_map(|(key, value)| {
            let below = if wanted(&key) { Some(String::new()) } else { locate(value, wanted) };
            let key = key.chars().take(64).flat_map(char::escape_debug).collect::<String>();
            below.map(|below| format!("/{}{below}", key.replace('~', "~0").replace('/', "~1")))
        }),
        Kind::Array => json.items().enumerate().find_map(|(at, item)| Some(format!("/{at}{}", locate(item, wanted)?))),
        _ => None,
    }
}
