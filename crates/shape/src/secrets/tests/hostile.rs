//! Texts made to be dear. What is compared is how the cost grows with the length: a busy machine slows both sides.

use std::time::{Duration, Instant};

use super::*;

/// The quickest of a few runs, so that what else the machine does counts as little as possible.
fn quickest(work: &dyn Fn()) -> Duration {
    let timed = |_| {
        let start = Instant::now();
        work();
        start.elapsed()
    };
    (0..5).map(timed).min().unwrap()
}

fn repeated(piece: &str, bytes: usize) -> String {
    json!({"content": [{"type": "text", "text": piece.repeat(bytes / piece.len())}]}).to_string()
}

/// Everything that a secret begins with, over and over, and what stands in the way of being one.
fn pieces() -> Vec<String> {
    let literals = SHAPES.iter().flat_map(|shape| shape.literals).copied();
    let mut pieces: Vec<String> = literals
        .flat_map(|literal| {
            [
                literal.to_owned(),
                format!("-{literal}"),
                format!(" {literal}aB3"),
            ]
        })
        .collect();
    pieces.extend(tokens().into_iter().map(|(_, token)| format!("{token} ")));
    pieces.extend(
        [
            "-eyJaaaaaaaa",
            "eyJaaaaaaaa.",
            "sk-T3BlbkFJ",
            "sk-aaaaaaaaaaaaaaaaT3BlbkFJ",
            "tskey-a-",
            "a://b:c",
            "-----BEGIN A ",
            "-----END ",
            "\\u0041\\/",
            "\\\\",
        ]
        .map(str::to_owned),
    );
    pieces
}

#[test]
fn the_cost_of_a_text_of_nothing_but_beginnings_grows_with_its_length_only() {
    const SHORT: usize = 16 << 10;
    const TIMES: u32 = 8;
    let held = held(&["aaaaaaaaaaaaaaaa", "1234567812345678"]);
    for piece in pieces() {
        let (short, long) = (
            repeated(&piece, SHORT),
            repeated(&piece, SHORT * TIMES as usize),
        );
        let cost = |text: &String| quickest(&|| drop(redact(text.as_bytes(), &held)));
        let (few, many) = (cost(&short), cost(&long));
        // Twice what a straight line gives; a quadratic search would take eight times as much.
        assert!(
            many < few * TIMES * 4 + Duration::from_millis(2),
            "{piece:?}: {few:?}, and {many:?} for {TIMES} times as much"
        );
    }
}

#[test]
fn many_keys_and_long_numbers_cost_no_more_than_their_length() {
    let held = held(&["1234567812345678"]);
    let token = &tokens()[1].1;
    let keys = |n: usize| {
        format!(
            "{{{}}}",
            (0..n)
                .map(|at| format!("\"{token}{at}\":1"))
                .collect::<Vec<_>>()
                .join(",")
        )
    };
    let number = |n: usize| format!("[{}]", "12345678".repeat(n));
    for (few, many) in [(keys(200), keys(3200)), (number(2_000), number(32_000))] {
        let cost = |text: &String| quickest(&|| assert!(redact(text.as_bytes(), &held).is_some()));
        let (short, long) = (cost(&few), cost(&many));
        assert!(
            long < short * 64 + Duration::from_millis(5),
            "{short:?}, and {long:?} for sixteen times as much"
        );
    }
}

#[test]
fn keys_that_were_changed_never_become_one_however_many() {
    let token = &tokens()[1].1;
    let text = format!(
        r#"{{"x #7]":0,"y #99999999999999999999]":0,"{token}":1,"{token}b":2,"[redacted: github-token #3]":3}}"#
    );
    let done = redacted(&text, &[]);
    parse(done.as_bytes());
    assert!(done.contains("#8]") && done.contains("#9]"), "{done}");
}
