//! The search as it was before there was a sieve: one library search for long literals, one for each short one, and some for the values
//! we hold. Slow, and written by others; the sieve must find everything it finds.

use std::sync::LazyLock;

use aho_corasick::{AhoCorasick, MatchKind};
use memchr::memmem;
use proptest::prelude::*;
use serde_json::json;

use super::{super::held, *};

const LONG: usize = 4;
const AT_ONCE: usize = 60;

struct Before {
    long: AhoCorasick,
    long_shapes: Vec<usize>,
    short: Vec<(memmem::Finder<'static>, usize)>,
    values: Vec<AhoCorasick>,
}

fn before() -> &'static Before {
    static BEFORE: LazyLock<Before> = LazyLock::new(|| {
        let all = SHAPES
            .iter()
            .enumerate()
            .flat_map(|(at, shape)| shape.literals.iter().map(move |literal| (*literal, at)));
        let (long, short): (Vec<_>, Vec<_>) = all.partition(|(literal, _)| literal.len() >= LONG);
        let search = |kind: MatchKind, needles: &[Vec<u8>]| {
            AhoCorasick::builder()
                .match_kind(kind)
                .build(needles)
                .unwrap()
        };
        let literals: Vec<Vec<u8>> = long
            .iter()
            .map(|(literal, _)| literal.as_bytes().to_vec())
            .collect();
        let mut spellings: Vec<Vec<u8>> = VALUES
            .iter()
            .flat_map(|value| spellings_before(value))
            .collect();
        spellings.sort_unstable();
        spellings.dedup();
        Before {
            long: search(MatchKind::LeftmostFirst, &literals),
            long_shapes: long.iter().map(|(_, shape)| *shape).collect(),
            short: short
                .iter()
                .map(|(literal, shape)| (memmem::Finder::new(*literal), *shape))
                .collect(),
            values: spellings
                .chunks(AT_ONCE)
                .map(|some| search(MatchKind::LeftmostLongest, some))
                .collect(),
        }
    });
    &BEFORE
}

fn literals(text: &[u8], mut found: impl FnMut(usize, usize)) {
    let Before {
        long,
        long_shapes,
        short,
        ..
    } = before();
    long.find_iter(text)
        .for_each(|hit| found(hit.start(), long_shapes[hit.pattern().as_usize()]));
    for (literal, shape) in short {
        literal
            .find_iter(text)
            .filter(|at| plausible(text, *at))
            .for_each(|at| found(at, *shape));
    }
}

fn values(text: &[u8], mut found: impl FnMut(usize, usize)) {
    before()
        .values
        .iter()
        .flat_map(|search| search.find_iter(text))
        .for_each(|hit| found(hit.start(), hit.end()));
}

fn values_held() -> &'static Held {
    static HELD: LazyLock<Held> = LazyLock::new(|| Held::new(VALUES.into_iter()));
    &HELD
}

fn suspects_before(text: &[u8]) -> Vec<(usize, Reason)> {
    let mut found = Vec::new();
    literals(text, |at, shape| found.push((at, Reason::Shape(shape))));
    values(text, |start, _| found.push((start, Reason::Held)));
    let letters =
        memmem::find_iter(text, "\\u00").filter(|at| matches!(text.get(at + 4), Some(b'2'..=b'7')));
    found.extend(
        letters
            .chain(memmem::find_iter(text, "\\/"))
            .map(|at| (at, Reason::Disguise)),
    );
    found.sort_unstable();
    found
}

/// Of what could be found before, with fewer spellings, nothing more is found when what was suspected then is suspected, too.
fn check(text: &[u8]) {
    static HELD: LazyLock<Held> = LazyLock::new(|| {
        Held::spelled(
            VALUES
                .iter()
                .flat_map(|value| spellings_before(value))
                .collect(),
        )
    });
    let shown = |suspects: Vec<(usize, Reason)>| {
        rewritten(text, &HELD, suspects)
            .map(|done| (String::from_utf8_lossy(&done.text).into_owned(), done.found))
    };
    let now = suspects(text, values_held());
    let mut both = [now.clone(), suspects_before(text)].concat();
    both.sort_unstable();
    assert_eq!(shown(now), shown(both), "{}", String::from_utf8_lossy(text));
}

/// Without those for a text that is JSON itself.
fn spellings_before(value: &str) -> Vec<Vec<u8>> {
    let quoted = json!(value).to_string();
    let once = String::from_utf8_lossy(&quoted.as_bytes()[1..quoted.len() - 1]).into_owned();
    let twice = |spelling: &str| json!(spelling).to_string().into_bytes();
    let new = [twice(&once), twice(&once.replace('/', "\\/"))]
        .map(|quoted| quoted[1..quoted.len() - 1].to_vec());
    held::spellings(value)
        .into_iter()
        .filter(|spelling| !new.contains(spelling) || *spelling == once.as_bytes())
        .collect()
}

/// The quick look that was taken around short literals.
fn plausible(text: &[u8], at: usize) -> bool {
    match text.get(at..).unwrap_or_default() {
        [b':', b'/', b'/', rest @ ..] => {
            let authority = rest
                .iter()
                .take(400)
                .take_while(|byte| !matches!(byte, b'/' | b'?' | b'#' | b' ' | b'"' | b'<' | b'>'));
            authority.clone().any(|byte| *byte == b'@')
                && authority.clone().any(|byte| *byte == b':')
        }
        [b':', b'A', b'A', ..] => at > 0 && text.get(at - 1).is_some_and(u8::is_ascii_digit),
        _ => true,
    }
}

const VALUES: [&str; 5] = [
    "Tr0ub4dor&3/\"ü\" and more",
    "aaaaaaaa",
    "8c7d1f0e-77aa-4e3b-9a51",
    "p4ss://word\\",
    "correct horse battery staple",
];

#[test]
fn every_secret_is_suspected_at_every_place_of_a_block() {
    let mut secrets: Vec<String> = tokens().into_iter().map(|(_, token)| token).collect();
    secrets.extend(in_context().into_iter().map(|(_, _, text)| text));
    secrets.extend(
        VALUES
            .iter()
            .flat_map(|value| held::spellings(value))
            .filter_map(|spelling| String::from_utf8(spelling).ok()),
    );
    for secret in secrets {
        for (spelled, step) in [(json!(secret).to_string(), 1), (all_escaped(&secret), 13)] {
            for before in (0..131).step_by(step).chain([4090, 4094]) {
                check(format!(r#"["{}",{spelled},"x"]"#, "-".repeat(before)).as_bytes());
            }
        }
    }
}

#[test]
fn a_text_of_nothing_but_a_value_stays_small() {
    let held = held(&["aaaaaaaa"]);
    let text = format!("[\"{}\"]", "a".repeat(100_000));
    assert!(suspects(text.as_bytes(), &held).len() < 1_000);
    assert_eq!(
        redacted(&text, &["aaaaaaaa"]),
        r#"["[redacted: held-value]"]"#
    );
}

fn piece() -> impl Strategy<Value = String> {
    let literal: Vec<&str> = SHAPES
        .iter()
        .flat_map(|shape| shape.literals)
        .copied()
        .collect();
    let spelled: Vec<String> = VALUES
        .iter()
        .flat_map(|value| held::spellings(value))
        .filter_map(|text| String::from_utf8(text).ok())
        .collect();
    prop_oneof![
        4 => "[ -~éж]{0,20}",
        2 => prop::sample::select(literal).prop_map(str::to_owned),
        2 => prop::sample::select(spelled),
        1 => prop::sample::select(tokens()).prop_map(|(_, token)| token),
        1 => prop::sample::select(vec!["\\/", "\\u0041", "\\u001b", "\\u0", "\\", "\"", "://u:p@h", "SK0123456789", ":AA", "7:AA"]).prop_map(str::to_owned),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_suspected_is_suspected(pieces in prop::collection::vec(piece(), 0..30), quoted: bool) {
        let text = pieces.concat();
        check(text.as_bytes());
        if quoted {
            check(json!([text, {text.clone(): pieces}]).to_string().as_bytes());
        }
    }

    /// What was taken out of a decoded string is taken out now.
    #[test]
    fn whatever_was_redacted_is_redacted(pieces in prop::collection::vec(piece(), 0..20)) {
        let text = pieces.concat();
        let held = values_held();
        let spans = spans(&text, held);
        let mut before = Vec::new();
        values(text.as_bytes(), |start, end| before.push((start, end)));
        for (start, end) in before {
            prop_assert!(spans.iter().any(|span| span.0 <= start && end <= span.1), "{start}..{end} of {text}");
        }
    }
}
