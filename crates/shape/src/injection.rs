//! Injection patterns over every string and key of a value, at any depth.
//!
//! A tripwire, not the boundary: what keeps a poisoned session from doing harm are labels and policy. So the table is chosen to stay
//! quiet on ordinary prose and code, and it can only be made stricter. Weights follow one rule: a pattern of weight three refuses alone,
//! and patterns that mean little by themselves refuse together from four.

mod fold;
mod strings;
mod table;
#[cfg(test)]
mod tests;

use std::{collections::BTreeMap, sync::LazyLock};

use aho_corasick::AhoCorasick;
use regex::{Regex, RegexBuilder};
use wire::{Json, Kind};

use strings::Strings;

pub use table::{Family, RULES, Rule};

/// A rule of this weight refuses alone.
pub const ALONE: u8 = 3;
/// Weights that refuse together.
pub const TOGETHER: u8 = 4;

/// How far from one of its words, in bytes, a rule looks.
const BEFORE: usize = 128;
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
    words: Option<AhoCorasick>,
    /// For every word the rules it belongs to.
    rules_of: Vec<Vec<usize>>,
    patterns: Vec<Regex>,
    extra: Vec<(String, Regex)>,
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
        let compile = |name: &str, pattern: &str| {
            let built = RegexBuilder::new(pattern).case_insensitive(true).size_limit(SIZE).dfa_size_limit(SIZE).build();
            built.map_err(|error| format!("the injection pattern `{name}` is not usable: {error}"))
        };
        let mut words: Vec<&str> = RULES.iter().flat_map(|rule| rule.words).copied().collect();
        words.sort_unstable();
        words.dedup();
        let rules_of =
            |word: &&str| (0..RULES.len()).filter(|at| RULES.get(*at).is_some_and(|rule| rule.words.contains(word))).collect();
        Ok(Self {
            rules_of: words.iter().map(rules_of).collect(),
            words: Some(
                AhoCorasick::new(&words).map_err(|error| format!("the words of the injection table are not usable: {error}"))?,
            ),
            // The folded text is in lower case already, and folding case again would cost.
            patterns: RULES
                .iter()
                .map(|rule| Regex::new(rule.pattern).map_err(|error| error.to_string()))
                .collect::<Result<_, _>>()?,
            extra: extra
                .iter()
                .map(|(name, pattern)| Ok((name.clone(), compile(name, pattern)?)))
                .collect::<Result<_, String>>()?,
        })
    }

    /// A table that takes everything for an injection; used if ours could not be compiled, which a test rules out.
    fn refusing() -> Self {
        let all = Regex::new("").into_iter().map(|all| ("broken-table".to_owned(), all)).collect();
        Self { words: None, rules_of: Vec::new(), patterns: Vec::new(), extra: all }
    }

    /// Looks at every string and key of a validated value.
    #[must_use]
    pub fn scan(&self, json: Json<'_>) -> Option<Hit> {
        let rules = self.matched(&Strings::gather(json.text()));
        if !self.refuses(&rules) {
            return None;
        }
        // The first of the heaviest: the table begins with the plainest.
        let worst = rules.iter().copied().rev().max_by_key(|at| self.weight(*at))?;
        let path = locate(json, &|text| self.matched(&Strings::of(text)).contains(&worst));
        let alone = self.weight(worst) >= ALONE;
        let named = rules.iter().copied().filter(|at| !alone || *at == worst).map(|at| self.name(at));
        let (names, says): (Vec<&str>, Vec<&str>) = named.unzip();
        Some(Hit { path: path.unwrap_or_default(), rule: names.join("+"), says: says.join("; ") })
    }

    fn refuses(&self, rules: &[usize]) -> bool {
        let weights = rules.iter().map(|at| self.weight(*at));
        weights.clone().any(|weight| weight >= ALONE) || weights.map(u32::from).sum::<u32>() >= u32::from(TOGETHER)
    }

    /// Patterns added to the table refuse alone.
    fn weight(&self, at: usize) -> u8 {
        RULES.get(at).map_or(ALONE, |rule| rule.weight)
    }

    fn name(&self, at: usize) -> (&str, &str) {
        let extra = || self.extra.get(at.wrapping_sub(RULES.len())).map_or("", |(name, _)| name.as_str());
        RULES.get(at).map_or_else(|| (extra(), "matches a pattern of this gate's own"), |rule| (rule.name, rule.says))
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
            let hidden = RULES.iter().zip(&self.patterns).enumerate().filter(|(_, (rule, _))| rule.family == Family::Hidden);
            rules.extend(hidden.filter(|(_, (_, pattern))| pattern.is_match(&text.unusual)).map(|(at, _)| at));
        }
        let extra = self.extra.iter().enumerate().filter(|(_, (_, pattern))| pattern.is_match(&text.folded));
        rules.extend(extra.map(|(at, _)| at + RULES.len()));
        rules
    }

    /// Rules one of whose words is there, with the parts of the text around those words. Parts that meet are joined, so that no rule
    /// looks at any part twice, however often a word is repeated.
    fn suspected(&self, folded: &str) -> BTreeMap<usize, Vec<(usize, usize)>> {
        let mut suspected: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
        for hit in self.words.iter().flat_map(|words| words.find_overlapping_iter(folded)) {
            let (start, end) = (hit.start().saturating_sub(BEFORE), (hit.end() + AFTER).min(folded.len()));
            for at in self.rules_of.get(hit.pattern().as_usize()).into_iter().flatten() {
                let spans = suspected.entry(*at).or_default();
                match spans.last_mut() {
                    Some(last) if start <= last.1 => last.1 = last.1.max(end),
                    _ => spans.push((start, end)),
                }
            }
        }
        suspected
    }

    fn matches_in(&self, at: usize, spans: &[(usize, usize)], folded: &str) -> bool {
        let Some(pattern) = self.patterns.get(at) else { return false };
        spans.iter().any(|(start, end)| {
            let (start, end) = (folded.floor_char_boundary(*start), folded.ceil_char_boundary(*end));
            folded.get(..end).is_some_and(|text| pattern.is_match_at(text, start))
        })
    }
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
            let below = if wanted(&key) { Some(String::new()) } else { locate(value, wanted) };
            let key = key.chars().take(64).flat_map(char::escape_debug).collect::<String>();
            below.map(|below| format!("/{}{below}", key.replace('~', "~0").replace('/', "~1")))
        }),
        Kind::Array => json.items().enumerate().find_map(|(at, item)| Some(format!("/{at}{}", locate(item, wanted)?))),
        _ => None,
    }
}
