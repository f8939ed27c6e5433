//! The same secrets by regular expressions, as the table has them.

use std::sync::LazyLock;

use memchr::memmem;
use proptest::prelude::*;
use regex::{Captures, Regex};

use super::{super::finder::spans, *};

/// Everything is ASCII, so a word boundary can be found without the tables of Unicode. At the beginning an underscore is one too: a
/// secret may stand behind the name of a server.
pub(super) fn bounded(pattern: &str) -> String {
    let begun = match pattern.strip_prefix(r"\b") {
        Some(rest) if rest.contains("(?<secret>") => format!("(?:_|\\b){rest}"),
        Some(rest) => format!("(?:_|\\b)(?<secret>{rest})"),
        None => pattern.to_owned(),
    };
    begun.replace(r"\b", r"(?-u:\b)")
}

/// What the patterns find, as which bytes are secret.
fn by_patterns(text: &str) -> Vec<bool> {
    let mut secret = vec![false; text.len()];
    static PATTERNS: LazyLock<Vec<Regex>> = LazyLock::new(|| {
        SHAPES
            .iter()
            .map(|shape| Regex::new(&bounded(shape.pattern)).unwrap())
            .collect()
    });
    for (shape, pattern) in SHAPES.iter().zip(&*PATTERNS) {
        // A name that is spelled in a way nobody uses is not looked for.
        let is_usual = |hit: &Captures<'_>| {
            let around = hit.get(0).unwrap();
            let around = &text.as_bytes()[around.start().saturating_sub(4)..around.end()];
            shape
                .literals
                .iter()
                .any(|literal| memmem::find(around, literal.as_bytes()).is_some())
        };
        for hit in pattern.captures_iter(text).filter(is_usual) {
            let part = hit.name("secret").unwrap_or(hit.get(0).unwrap());
            secret[part.range()].fill(true);
        }
    }
    secret
}

fn by_hand(text: &str) -> Vec<bool> {
    let mut secret = vec![false; text.len()];
    spans(text, &Held::default())
        .into_iter()
        .for_each(|(start, end, _)| secret[start..end].fill(true));
    secret
}

/// Nothing less is found. A little more may be: what is part of one secret can also be the beginning of the next.
fn check(text: &str) {
    let (patterns, hand) = (by_patterns(text), by_hand(text));
    let missed = patterns
        .iter()
        .zip(&hand)
        .position(|(pattern, hand)| *pattern && !*hand);
    assert_eq!(missed, None, "{text:?}");
}

#[test]
fn every_token_with_every_neighbour() {
    let texts: Vec<String> = tokens()
        .into_iter()
        .map(|(_, token)| token)
        .chain(in_context().into_iter().map(|(_, _, text)| text))
        .collect();
    for text in &texts {
        for around in [
            "", "_", "-", ".", "~", "a", "Z", "0", "=", "/", "+", " ", "é", "\"", "%", "@", ":",
        ] {
            for text in [
                format!("{around}{text}"),
                format!("{text}{around}"),
                format!("{around}{text}{around}{text}"),
            ] {
                check(&text);
            }
        }
        (1..text.len())
            .filter(|at| text.is_char_boundary(*at))
            .for_each(|at| check(text.get(at..).unwrap_or_default()));
        (1..text.len())
            .filter(|at| text.is_char_boundary(*at))
            .for_each(|at| check(text.get(..at).unwrap_or_default()));
    }
}

fn piece() -> impl Strategy<Value = String> {
    let literal: Vec<&str> = SHAPES
        .iter()
        .flat_map(|shape| shape.literals)
        .copied()
        .collect();
    prop_oneof![
        2 => "[A-Za-z0-9]{0,40}",
        2 => "[A-Za-z0-9_.~-]{0,12}",
        1 => "[ -~é\u{a0}]{0,8}",
        3 => prop::sample::select(literal).prop_map(str::to_owned),
        2 => prop::sample::select(tokens()).prop_map(|(_, token)| token),
        2 => prop::sample::select(in_context()).prop_map(|(_, _, text)| text),
        1 => prop::sample::select(vec!["sk-", ".eyJ", ".", "-----END ", "-----", "PRIVATE KEY", "://u:", "@h", "_", "%3D", "=", "?", "&", " ", "0123456789"]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn a_look_by_hand_finds_what_the_pattern_says(pieces in prop::collection::vec(piece(), 0..8)) {
        check(&pieces.concat());
    }
}
