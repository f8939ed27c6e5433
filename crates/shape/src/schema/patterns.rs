//! What the regular expressions of a schema can cost.
//!
//! The engine never backtracks, but a byte of text can cost it one step for every place in the expression that the match might be at.
//! `[ab]*a[ab]{4000}c` has four thousand such places, and makes a page of text a matter of seconds. So the places are counted, and every
//! byte of text is paid for by their number, except where an expression is plain enough that a match is never at two places at once.

use regex_syntax::{
    Parser,
    hir::{Class, ClassUnicode, ClassUnicodeRange, Hir, HirKind, Look},
};
use serde_json::Value;

use super::SchemaProblem;

/// Bytes of one compiled expression.
pub(super) const LARGEST: usize = 2 << 20;
/// Bytes of an expression as written, and how many there may be.
const LONGEST: usize = 4_096;
const MOST: usize = 256;
/// Places in all expressions together.
const MOST_PLACES: u64 = 40_000;
/// With so few places there are not many sets of them, and the engine remembers what it did for each.
const FEW: u64 = 12;
/// Steps a byte costs at least where the engine cannot remember.
const FORGETFUL: u64 = 20;

/// What patterns make of the cost of a text.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Prices {
    /// Steps for sixteen bytes of text, under the dearest expression.
    pub(super) text: u64,
    /// Steps for the name of a property, which is held against every pattern for names.
    pub(super) name: u64,
}

/// What texts cost under the expressions of a schema.
pub(super) fn weigh(schema: &Value) -> Result<Prices, SchemaProblem> {
    let (mut patterns, mut for_names) = (Vec::new(), 0);
    collect(schema, &mut patterns, &mut for_names);
    patterns.sort_unstable();
    patterns.dedup();
    if patterns.len() > MOST {
        return Err(SchemaProblem::Pattern(format!(
            "there are more than {MOST}"
        )));
    }
    let mut prices = Prices {
        text: u64::from(!patterns.is_empty()),
        name: 3 * for_names,
    };
    let mut together = 0u64;
    for pattern in patterns {
        if pattern.len() > LONGEST {
            return Err(SchemaProblem::Pattern(format!(
                "one is longer than {LONGEST} bytes"
            )));
        }
        // What is not a pattern at all may be part of an example; the compiler refuses it where it is one.
        let Ok(translated) = jsonschema_regex::to_rust_regex(pattern) else {
            continue;
        };
        let Ok(parsed) = Parser::new().parse(&translated) else {
            continue;
        };
        let places = places(&parsed);
        together = together.saturating_add(places);
        if together > MOST_PLACES {
            return Err(SchemaProblem::Pattern(
                "they are too large when compiled".to_owned(),
            ));
        }
        if is_costly(&parsed, places) {
            prices.text = prices.text.max(16 * places.max(FORGETFUL));
        }
    }
    Ok(prices)
}

fn is_costly(pattern: &Hir, places: u64) -> bool {
    // Where a word ends is looked up in tables outside ASCII, and there the engine forgets.
    let words = pattern.properties().look_set().contains_word_unicode();
    words || (places > FEW && !is_plain(pattern))
}

/// An upper bound of the places a match can be at: one for a byte, several for a character that may take more than one.
fn places(pattern: &Hir) -> u64 {
    match pattern.kind() {
        HirKind::Empty | HirKind::Look(_) => 1,
        HirKind::Literal(literal) => literal.0.len() as u64,
        HirKind::Class(Class::Unicode(class)) if !class.is_ascii() => 6,
        HirKind::Class(_) => 1,
        HirKind::Capture(group) => places(&group.sub),
        HirKind::Repetition(repetition) => {
            let times = repetition
                .max
                .unwrap_or(repetition.min.saturating_add(1))
                .max(1);
            places(&repetition.sub).saturating_mul(u64::from(times))
        }
        HirKind::Concat(parts) | HirKind::Alternation(parts) => {
            parts.iter().map(places).fold(1, u64::saturating_add)
        }
    }
}

/// Whether a match is never at two places at once: it begins at the beginning, and after each character it is clear what the next one
/// belongs to. So are most patterns that people write: identifiers, dates, base64 after a prefix.
fn is_plain(pattern: &Hir) -> bool {
    let parts: Vec<&Hir> = match pattern.kind() {
        HirKind::Concat(parts) => parts.iter().collect(),
        _ => return false,
    };
    let Some((HirKind::Look(Look::Start), rest)) = parts
        .split_first()
        .map(|(first, rest)| (first.kind(), rest))
    else {
        return false;
    };
    // What may come next after a part that can be left at any time, until a part that must come.
    let mut left: Option<ClassUnicode> = None;
    for part in rest {
        if let HirKind::Look(Look::End) = part.kind() {
            continue;
        }
        let Some((class, optional)) = one_character(part) else {
            return false;
        };
        if let Some(before) = &mut left {
            let mut both = before.clone();
            both.intersect(&class);
            if !both.ranges().is_empty() {
                return false;
            }
        }
        match (&mut left, optional) {
            (Some(before), Optional::Yes) => before.union(&class),
            (_, Optional::No) => left = None,
            (_, Optional::Yes | Optional::Repeated) => left = Some(class),
        }
    }
    true
}

/// Whether a part need not be there, and whether it may go on.
enum Optional {
    No,
    /// It may be left out or go on, so that what follows must be something else.
    Yes,
    /// It must be there once and may go on.
    Repeated,
}

/// The characters a part consists of, if they are all of one class. A literal stands for its first character: the rest must follow.
fn one_character(part: &Hir) -> Option<(ClassUnicode, Optional)> {
    match part.kind() {
        HirKind::Literal(literal) => {
            let first = std::str::from_utf8(&literal.0).ok()?.chars().next()?;
            Some((
                ClassUnicode::new([ClassUnicodeRange::new(first, first)]),
                Optional::No,
            ))
        }
        HirKind::Class(Class::Unicode(class)) => Some((class.clone(), Optional::No)),
        HirKind::Class(Class::Bytes(class)) => Some((class.to_unicode_class()?, Optional::No)),
        HirKind::Capture(group) => one_character(&group.sub),
        HirKind::Repetition(repetition) => {
            let single =
                matches!(repetition.sub.kind(), HirKind::Class(_)) || places(&repetition.sub) == 1;
            let (class, Optional::No) = one_character(&repetition.sub).filter(|_| single)? else {
                return None;
            };
            let fixed = repetition.max == Some(repetition.min);
            let optional = if fixed && repetition.min > 0 {
                Optional::No
            } else if repetition.min == 0 {
                Optional::Yes
            } else {
                Optional::Repeated
            };
            Some((class, optional))
        }
        _ => None,
    }
}

fn collect<'a>(value: &'a Value, out: &mut Vec<&'a str>, for_names: &mut u64) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                match (key.as_str(), value) {
                    ("pattern", Value::String(pattern)) => out.push(pattern),
                    ("patternProperties", Value::Object(patterns)) => {
                        out.extend(patterns.keys().map(String::as_str));
                        *for_names += patterns.len() as u64;
                        collect(value, out, for_names);
                    }
                    _ => collect(value, out, for_names),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| collect(item, out, for_names)),
        _ => {}
    }
}
