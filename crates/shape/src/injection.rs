//! Injection patterns over every string and key of a value, at any depth.
//!
//! A tripwire, not the boundary: what keeps a poisoned session from doing harm are labels and policy. So the table is chosen to stay
//! quiet on ordinary prose and code, and no configuration changes it. Weights follow one rule: a pattern of weight three refuses alone,
//! and patterns that mean little by themselves refuse together from four.

mod fold;
mod strings;
mod table;
#[cfg(test)]
mod tests;
mod words;

use std::{collections::BTreeMap, sync::LazyLock};

use regex::{Regex, RegexBuilder};
use wire::{Json, Kind};

use strings::Strings;
use words::Words;

use crate::pattern::Pattern;

pub use table::{Family, RULES, Rule};

/// A rule of this weight refuses alone.
pub const ALONE: u8 = 3;
/// Weights that refuse together.
pub const TOGETHER: u8 = 4;

/// How far from one of its words, in bytes, a rule looks.
const BEFORE: usize = 256;
const AFTER: usize = 384;
/// Bytes a compiled pattern may take, so that a pattern in a config cannot stall the gate.
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
    words: Words,
    patterns: Vec<Pattern>,
    extra: Vec<(String, Regex)>,
}

impl Table {
    /// The rules we ship.
    #[must_use]
    pub fn standard() -> &'static Self {
        static STANDARD: LazyLock<Table> = LazyLock::new(|| Table::of(Vec::new()));
        &STANDARD
    }

    /// The rules we ship and these, which refuse alone. There is no way to have fewer.
    pub fn with(extra: &[(String, String)]) -> Result<Self, String> {
        let compile = |(name, pattern): &(String, String)| {
            let built = RegexBuilder::new(pattern)
                .case_insensitive(true)
                .size_limit(SIZE)
                .dfa_size_limit(SIZE)
                .build();
            let usable = built.map_err(|error| {
                format!("the injection pattern `{name}` is not usable: {error}")
            })?;
            Ok((name.clone(), usable))
        };
        Ok(Self::of(
            extra.iter().map(compile).collect::<Result<_, String>>()?,
        ))
    }

    fn of(extra: Vec<(String, Regex)>) -> Self {
        // The folded text is in lower case already, and folding case again would cost.
        Self {
            words: Words::new(),
            patterns: RULES
                .iter()
                .map(|rule| Pattern::new(rule.pattern))
                .collect(),
            extra,
        }
    }

    /// Looks at every string and key of a validated value.
    #[must_use]
    pub fn scan(&self, json: Json<'_>) -> Option<Hit> {
        // Patterns of this gate's own could match anything, so they see every text.
        if self.extra.is_empty() && !self.words.could_be_in(json.as_bytes()) {
            return None;
        }
        let rules = self.matched(&Strings::gather(json.as_bytes()));
        if !self.refuses(&rules) {
            return None;
        }
        // The first of the heaviest: the table begins with the plainest.
        let worst = rules
            .iter()
            .copied()
            .rev()
            .max_by_key(|at| self.weight(*at))?;
        let path = locate(json, &|text| {
            self.matched(&Strings::of(text)).contains(&worst)
        });
        let alone = self.weight(worst) >= ALONE;
        let named = rules
            .iter()
            .copied()
            .filter(|at| !alone || *at == worst)
            .map(|at| self.name(at));
        let (names, says): (Vec<&str>, Vec<&str>) = named.unzip();
        Some(Hit {
            path: path.unwrap_or_default(),
            rule: names.join("+"),
            says: says.join("; "),
        })
    }

    fn refuses(&self, rules: &[usize]) -> bool {
        let weights = rules.iter().map(|at| self.weight(*at));
        weights.clone().any(|weight| weight >= ALONE)
            || weights.map(u32::from).sum::<u32>() >= u32::from(TOGETHER)
    }

    /// Patterns added to the table refuse alone.
    fn weight(&self, at: usize) -> u8 {
        RULES.get(at).map_or(ALONE, |rule| rule.weight)
    }

    fn name(&self, at: usize) -> (&str, &str) {
        let extra = || {
            self.extra
                .get(at.wrapping_sub(RULES.len()))
                .map_or("", |(name, _)| name.as_str())
        };
        RULES.get(at).map_or_else(
            || (extra(), "matches a pattern of this gate's own"),
            |rule| (rule.name, rule.says),
        )
    }

    /// The rules that match, each once, in the order of the table.
    fn matched(&self, text: &Strings) -> Vec<usize> {
        let mut rules: Vec<usize> = self
            .suspected(&text.folded)
            .into_iter()
            .filter(|(at, spans)| self.matches_in(*at, spans, &text.folded))
            .map(|(at, _)| at)
            .collect();
        if !text.unusual.is_empty() {
            let hidden = RULES
                .iter()
                .zip(&self.patterns)
                .enumerate()
                .filter(|(_, (rule, _))| rule.family == Family::Hidden);
            let matches = |pattern: &Pattern| {
                pattern
                    .get()
                    .is_none_or(|pattern| pattern.is_match(&text.unusual))
            };
            rules.extend(
                hidden
                    .filter(|(_, (_, pattern))| matches(pattern))
                    .map(|(at, _)| at),
            );
        }
        if !self.extra.is_empty() {
            let folded = String::from_utf8_lossy(&text.folded);
            let extra = self
                .extra
                .iter()
                .enumerate()
                .filter(|(_, (_, pattern))| pattern.is_match(&folded));
            rules.extend(extra.map(|(at, _)| at + RULES.len()));
        }
        rules
    }

    /// Rules one of whose words is there, with the parts of the text around those words. Parts that meet are joined, so that no rule
    /// looks at any part twice, however often a word is repeated.
    fn suspected(&self, folded: &[u8]) -> BTreeMap<usize, Vec<(usize, usize)>> {
        let mut suspected: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        self.words.find(folded, |start, end, rules| {
            let (start, end) = (
                start.saturating_sub(BEFORE),
                (end + AFTER).min(folded.len()),
            );
            for at in rules {
                let spans = suspected.entry(*at).or_default();
                match spans.last_mut() {
                    Some(last) if start <= last.1 => *last = (last.0.min(start), last.1.max(end)),
                    _ => spans.push((start, end)),
                }
            }
        });
        suspected
    }

    fn matches_in(&self, at: usize, spans: &[(usize, usize)], folded: &[u8]) -> bool {
        let Some(pattern) = self.patterns.get(at).and_then(Pattern::get) else {
            return true;
        };
        spans.iter().any(|(start, end)| {
            // What stands right before a part tells whether a word begins there.
            let from = character_start(folded, start.saturating_sub(1));
            let (start, end) = (character_start(folded, *start), character_end(folded, *end));
            let part = folded
                .get(from..end)
                .and_then(|part| std::str::from_utf8(part).ok());
            part.is_some_and(|part| pattern.is_match_at(part, start - from))
        })
    }
}

/// Where the character begins that a place is in.
fn character_start(text: &[u8], at: usize) -> usize {
    let inside = |at: &usize| {
        text.get(*at)
            .is_some_and(|byte| (0x80..0xc0).contains(byte))
    };
    (0..=at).rev().find(|at| !inside(at)).unwrap_or_default()
}

/// The first place from `at` on where a character ends.
fn character_end(text: &[u8], at: usize) -> usize {
    let inside = |byte: &&u8| (0x80..0xc0).contains(*byte);
    at + text
        .get(at..)
        .unwrap_or_default()
        .iter()
        .take_while(inside)
        .count()
}

/// Looks at every string and key of a validated value, by the standard table.
#[must_use]
pub fn scan(json: Json<'_>) -> Option<Hit> {
    Table::standard().scan(json)
}

/// A JSON pointer to the first string or key for which `wanted` holds.
fn locate(json: Json<'_>, wanted: &dyn Fn(&str) -> bool) -> Option<String> {
    match json.kind() {
        Kind::String => wanted(&json.as_str()?).then(String::new),
        Kind::Object => json.fields().find_map(|(key, value)| {
            let below = if wanted(&key) {
                Some(String::new())
            } else {
                locate(value, wanted)
            };
            let key = key
                .chars()
                .take(64)
                .flat_map(char::escape_debug)
                .collect::<String>();
            below.map(|below| format!("/{}{below}", key.replace('~', "~0").replace('/', "~1")))
        }),
        Kind::Array => json
            .items()
            .enumerate()
            .find_map(|(at, item)| Some(format!("/{at}{}", locate(item, wanted)?))),
        _ => None,
    }
}
