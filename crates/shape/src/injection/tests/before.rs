//! The search as it was before there was a first look: every string gathered, folded character by character and searched as a whole by
//! one library search. Slow and plain; what is done now must come to the same.

use std::sync::LazyLock;

use aho_corasick::AhoCorasick;
use proptest::prelude::*;
use wire::{
    json::{decode_key, string_end},
    vector::Vectors,
};

use super::{
    super::fold::{Fold, fold},
    *,
};

/// Folded and unusual strings.
fn gather(text: &str) -> (String, String) {
    let (mut folded, mut unusual) = (String::new(), String::new());
    let mut at = 0;
    while let Some(open) = text.get(at..).and_then(|rest| rest.find('"')) {
        let start = at + open;
        at = string_end(text.as_bytes(), start);
        let decoded = decode_key(&text.as_bytes()[start..at]);
        let mut hides = decoded.contains(['\0', '\u{1b}']);
        for c in decoded.chars() {
            match (c.is_ascii(), fold(c)) {
                (true, _) | (false, Fold::Same) => folded.push(c),
                (false, Fold::Nothing) => hides = true,
                (false, Fold::Becomes(byte)) => folded.push(char::from(byte)),
            }
        }
        folded.push('\u{1f}');
        if hides {
            unusual.push_str(&decoded);
            unusual.push('\u{1f}');
        }
    }
    let space = |byte: u8| matches!(byte, b'\t' | b'\n' | b'\r' | 0x0b | 0x0c);
    let mut bytes: Vec<u8> = folded
        .bytes()
        .map(|byte| {
            if space(byte) {
                b' '
            } else {
                byte.to_ascii_lowercase()
            }
        })
        .collect();
    bytes.dedup_by(|next, before| *next == b' ' && *before == b' ');
    (String::from_utf8(bytes).unwrap(), unusual)
}

fn matched_before(folded: &str, unusual: &str) -> Vec<usize> {
    static WORDS: LazyLock<(AhoCorasick, Vec<&str>)> = LazyLock::new(|| {
        let words: Vec<&str> = RULES.iter().flat_map(|rule| rule.words).copied().collect();
        (AhoCorasick::new(&words).unwrap(), words)
    });
    let table = Table::standard();
    let mut suspected: BTreeMap<usize, Vec<(usize, usize)>> = BTreeMap::new();
    for hit in WORDS.0.find_overlapping_iter(folded) {
        let (start, end) = (
            hit.start().saturating_sub(BEFORE),
            (hit.end() + AFTER).min(folded.len()),
        );
        for at in (0..RULES.len()).filter(|at| {
            RULES[*at]
                .words
                .contains(&WORDS.1[hit.pattern().as_usize()])
        }) {
            let spans = suspected.entry(at).or_default();
            match spans.last_mut() {
                Some(last) if start <= last.1 => last.1 = last.1.max(end),
                _ => spans.push((start, end)),
            }
        }
    }
    let matches = |(at, spans): &(usize, Vec<(usize, usize)>)| {
        spans.iter().any(|(start, end)| {
            let (start, end) = (
                folded.floor_char_boundary(*start),
                folded.ceil_char_boundary(*end),
            );
            table.patterns[*at]
                .get()
                .unwrap()
                .is_match_at(folded.get(..end).unwrap(), start)
        })
    };
    let hidden = (0..RULES.len()).filter(|at| {
        RULES[*at].family == Family::Hidden && table.patterns[*at].get().unwrap().is_match(unusual)
    });
    suspected
        .into_iter()
        .filter(matches)
        .map(|(at, _)| at)
        .chain(hidden.filter(|_| !unusual.is_empty()))
        .collect()
}

/// The same strings, the same rules, and a first look that misses none of them.
fn check(text: &str) {
    let json = Json::parse(text.as_bytes(), Limits::default())
        .unwrap_or_else(|error| panic!("{error}: {text}"));
    let (folded, unusual) = gather(text);
    for level in Vectors::ALL.map(Vectors::level) {
        let now = Strings::gather_with(level, text.as_bytes());
        assert_eq!(
            String::from_utf8_lossy(&now.folded),
            folded,
            "{text} with {level:?}"
        );
        assert_eq!(now.unusual, unusual, "{text} with {level:?}");
    }
    let now = Strings::gather(text.as_bytes());
    let before = matched_before(&folded, &unusual);
    let table = Table::standard();
    assert_eq!(table.matched(&now), before, "{text}");
    let suspicious = !unusual.is_empty()
        || RULES
            .iter()
            .flat_map(|rule| rule.words)
            .any(|word| folded.contains(word));
    assert!(
        table.words.could_be_in(text.as_bytes()) || !suspicious,
        "overlooked in {text}"
    );
    assert_eq!(scan(json).is_some(), table.refuses(&before), "{text}");
}

/// A character as it is, or in a disguise.
fn disguised(c: char, how: u8) -> String {
    let full_width = |c: char| char::from_u32(u32::from(c) + 0xfee0).unwrap();
    match (c, how % 24) {
        (' ', 0) => "\n".into(),
        (' ', 1) => "  ".into(),
        (' ', 2) => "\u{a0}".into(),
        (' ', 3) => "\r\n\t".into(),
        (' ', 4) => " \u{3000} ".into(),
        ('!'..='~', 0) => full_width(c).into(),
        ('!'..='~', 1) => format!("{c}\u{200b}"),
        ('!'..='~', 2) => format!("{c}\u{301}"),
        ('a', 3) => "а".into(),
        ('e', 3) => "é".into(),
        ('o', 3) => "ο".into(),
        (_, 4..=9) => c.to_ascii_uppercase().into(),
        _ => c.into(),
    }
}

/// A text as a JSON string, with more escapes in it than need be.
fn quoted(text: &str, escapes: &[u8]) -> String {
    let mut how = escapes.iter().cycle();
    let mut units = [0; 2];
    let mut out = String::from("\"");
    for c in text.chars() {
        match (how.next().map_or(9, |how| how % 20), c) {
            (0, _) => c
                .encode_utf16(&mut units)
                .iter()
                .for_each(|unit| out.push_str(&format!("\\u{unit:04x}"))),
            (1, '/') => out.push_str("\\/"),
            _ => out.push_str(json!(c).to_string().trim_matches('"').trim_end_matches('"')),
        }
        // A quote is trimmed off with those around it.
        if c == '"' && !out.ends_with("\\\"") && !out.ends_with("22") {
            out.push('"');
        }
    }
    out.push('"');
    out
}

fn piece() -> impl Strategy<Value = String> {
    let words: Vec<&str> = RULES.iter().flat_map(|rule| rule.words).copied().collect();
    let examples: Vec<&str> = EXAMPLES
        .iter()
        .map(|(_, text)| *text)
        .chain(BENIGN.iter().copied())
        .collect();
    let disguise = |text: &str, how: &[u8]| {
        text.chars()
            .zip(how.iter().cycle())
            .map(|(c, how)| disguised(c, *how))
            .collect::<String>()
    };
    let some = prop::collection::vec(any::<u8>(), 1..40);
    prop_oneof![
        3 => (prop::sample::select(words), some.clone()).prop_map(move |(word, how)| disguise(word, &how)),
        2 => (prop::sample::select(examples), some).prop_map(move |(text, how)| disguise(text, &how)),
        3 => "[a-zA-Z ./|<>\\\\\"]{0,30}",
        1 => "[ \t\néüß–”Ж中😀\u{200b}\u{ad}\u{0}\u{1b}\u{fe0f}]{0,10}",
        1 => ".{0,20}",
        1 => " {0,80}",
    ]
}

#[test]
fn a_word_is_seen_at_every_place_of_a_block() {
    for word in RULES.iter().flat_map(|rule| rule.words) {
        for before in (0..131).chain([4089, 4090, 4091, 4092, 4093, 4094]) {
            let text = format!(
                "[\"{}. {}\"]",
                "-".repeat(before),
                json!(word).to_string().trim_matches('"')
            );
            assert!(
                Table::standard().words.could_be_in(text.as_bytes()),
                "`{word}` after {before}"
            );
        }
        for (plain, spelled) in [(" ", "\\n"), (" ", " \\t "), ("/", "\\/")] {
            let text = format!(
                "[\"x {} y\"]",
                word.replace(plain, spelled)
                    .to_uppercase()
                    .replace("\\N", "\\n")
                    .replace("\\T", "\\t")
            );
            assert!(
                Table::standard().words.could_be_in(text.as_bytes()),
                "`{word}` in {text}"
            );
            check(&text);
        }
    }
}

#[test]
fn ordinary_texts_are_seen_to_be_ordinary() {
    for text in [
        "The gate opens for those who are known.\\nNothing passes \\\"unseen\\\".",
        "日本の首都は東京",
        "It’s “fine” — really…",
        "",
        "{}",
    ] {
        assert!(
            !Table::standard()
                .words
                .could_be_in(format!("[\"{text}\"]").as_bytes()),
            "{text}"
        );
    }
}

#[test]
fn every_example_comes_to_the_same() {
    for text in EXAMPLES
        .iter()
        .map(|(_, text)| *text)
        .chain(BENIGN.iter().copied())
    {
        check(&json!({"a": [text, 1.5e3, null], text: "\u{7f}"}).to_string());
        check(&quoted(text, &[0]));
        check(&quoted(
            &format!("{}{text}{}", "é ".repeat(300), "x  ".repeat(300)),
            &[7],
        ));
    }
    check(r#"["\ud83d\ude00 \u00e9\u0000\b\f\/ \u001b \udb40\udc41"]"#);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1500, ..ProptestConfig::default() })]

    #[test]
    fn it_comes_to_the_same(
        pieces in prop::collection::vec(prop::collection::vec(piece(), 0..6), 1..4),
        escapes in prop::collection::vec(any::<u8>(), 1..50),
        gap in " {0,70}",
    ) {
        let strings: Vec<String> = pieces.iter().map(|pieces| quoted(&pieces.concat(), &escapes)).collect();
        check(&format!("[{}]", strings.join(&format!(",{gap}"))));
        check(&format!("{{{}:{gap}[{}]}}", strings[0], strings.join(",")));
    }
}
