//! The vector search against the plainest one there is.

use proptest::prelude::*;

use super::{checked_run_with, end_with};
use crate::vector::Vectors;

/// One byte, or one escape, at a time.
fn plainly(text: &[u8], mut at: usize) -> (usize, bool) {
    let mut escaped = false;
    loop {
        match text.get(at..).unwrap_or_default() {
            [
                b'\\',
                b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't',
                ..,
            ] => {
                escaped = true;
                at += 2;
            }
            [] | [b'"' | b'\\' | 0..0x20, ..] => return (at, escaped),
            _ => at += 1,
        }
    }
}

fn plain_end(text: &[u8], at: usize) -> usize {
    let mut from = at + 1;
    loop {
        match text.get(from) {
            None => return text.len(),
            Some(b'"') => return from + 1,
            Some(b'\\') => from += 2,
            Some(_) => from += 1,
        }
    }
}

/// Text in which everything that matters is frequent, and runs are long enough for several blocks.
fn texts() -> impl Strategy<Value = Vec<u8>> {
    let piece = prop_oneof![
        8 => "[a-z é]{1,70}".prop_map(String::into_bytes),
        6 => prop_oneof!["\\\\n", "\\\\\"", "\\\\\\\\", "\\\\/"].prop_map(String::into_bytes),
        3 => (1..200usize).prop_map(|count| vec![b'\\'; count]),
        1 => Just(b"\\u00e9".to_vec()),
        1 => Just(b"\"".to_vec()),
        1 => Just(b"\n".to_vec()),
        1 => any::<u8>().prop_map(|byte| vec![byte]),
    ];
    prop::collection::vec(piece, 0..30).prop_map(|pieces| pieces.concat())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn a_run_stops_where_a_plain_loop_stops(text in texts(), from in 0..80usize) {
        let from = from.min(text.len());
        for level in Vectors::ALL.map(Vectors::level) {
            let run = checked_run_with(level, &text, from);
            prop_assert_eq!((run.at, run.escaped), plainly(&text, from), "with {:?}", level);
            prop_assert!((from..=run.at).contains(&run.ascii_to), "with {level:?}");
            prop_assert!(text[from..run.ascii_to].is_ascii(), "with {level:?}");
        }
    }

    #[test]
    fn the_end_of_a_string_is_where_a_plain_loop_finds_it(text in texts()) {
        let text = [b"\"".as_slice(), &text].concat();
        for level in Vectors::ALL.map(Vectors::level) {
            prop_assert_eq!(end_with(level, &text, 0), plain_end(&text, 0), "with {:?}", level);
        }
    }
}

#[test]
fn an_escape_across_the_edge_of_a_block_is_one_escape() {
    for before in 0..200 {
        for escape in ["\\n", "\\\"", "\\\\", "\\\\\\\""] {
            let text = format!("{}{escape}{}\"", "a".repeat(before), "b".repeat(70));
            let bytes = text.as_bytes();
            let quoted = format!("\"{text}");
            for level in Vectors::ALL.map(Vectors::level) {
                let run = checked_run_with(level, bytes, 0);
                assert_eq!(
                    (run.at, run.escaped),
                    (text.len() - 1, true),
                    "{before} {escape} with {level:?}"
                );
                assert_eq!(
                    end_with(level, quoted.as_bytes(), 0),
                    quoted.len(),
                    "{before} {escape} with {level:?}"
                );
            }
        }
    }
}
