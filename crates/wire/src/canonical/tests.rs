use proptest::prelude::*;

use super::canonical;
use crate::{Json, Limits};

fn canon(text: &str) -> String {
    let json = Json::parse(text.as_bytes(), Limits::default()).unwrap();
    String::from_utf8(canonical(json)).unwrap()
}

#[test]
fn one_spelling() {
    for (text, wanted) in [
        (
            r#" { "b" : [ 1 , 2.50 , -0 ] , "a" : { } } "#,
            r#"{"a":{},"b":[1,2.50,-0]}"#,
        ),
        (r#"{"a!":1,"a":2,"aa":3}"#, r#"{"a":2,"a!":1,"aa":3}"#),
        (
            r#"{"\u0062":1,"a\u0021":2,"a":3}"#,
            r#"{"a":3,"a!":2,"b":1}"#,
        ),
        (
            r#""\u0041\/\u00e9\u2028\ud83d\ude00\u007f""#,
            "\"A/é\u{2028}😀\u{7f}\"",
        ),
        (
            r#""\"\\\b\f\n\r\t\u0000\u001f""#,
            r#""\"\\\b\f\n\r\t\u0000\u001f""#,
        ),
        ("[1.0,1,1e0]", "[1.0,1,1e0]"),
        // U+FFFD sorts before U+1F600 by code point, though not by UTF-16 unit.
        (
            "{\"\u{1f600}\":1,\"\u{fffd}\":2}",
            "{\"\u{fffd}\":2,\"\u{1f600}\":1}",
        ),
        ("null", "null"),
    ] {
        assert_eq!(canon(text), wanted);
    }
}

/// A value, written by the tests in one of its many spellings.
#[derive(Debug, Clone)]
enum Tree {
    Word(&'static str),
    Text(String),
    List(Vec<Tree>),
    Map(Vec<(String, Tree)>),
}

fn tree() -> impl Strategy<Value = Tree> {
    let leaf = prop_oneof![
        prop::sample::select(
            &[
                "null",
                "true",
                "false",
                "0",
                "-1.50",
                "1e9",
                "12345678901234567890"
            ][..]
        )
        .prop_map(Tree::Word),
        any::<String>().prop_map(Tree::Text),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..5).prop_map(Tree::List),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| Tree::Map(map.into_iter().collect())),
        ]
    })
}

/// One spelling of a tree; `seed` chooses the order of keys, the white space and which characters are escaped.
fn spell(tree: &Tree, seed: &mut u64, out: &mut String) {
    let mut draw = |n: u64| {
        *seed = seed
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (*seed >> 33) % n
    };
    out.push_str(["", " ", "\n\t"][usize::try_from(draw(3)).unwrap()]);
    match tree {
        Tree::Word(word) => out.push_str(word),
        Tree::Text(text) => spell_text(text, &mut draw, out),
        Tree::List(items) => {
            out.push('[');
            for (at, item) in items.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                spell(item, seed, out);
            }
            out.push(']');
        }
        Tree::Map(fields) => {
            let mut order: Vec<usize> = (0..fields.len()).collect();
            for at in (1..order.len()).rev() {
                order.swap(at, usize::try_from(draw(at as u64 + 1)).unwrap());
            }
            out.push('{');
            for (at, &field) in order.iter().enumerate() {
                out.push_str(if at > 0 { "," } else { "" });
                let mut again = *seed;
                spell(&Tree::Text(fields[field].0.clone()), &mut again, out);
                out.push(':');
                spell(&fields[field].1, seed, out);
            }
            out.push('}');
        }
    }
}

fn spell_text(text: &str, draw: &mut impl FnMut(u64) -> u64, out: &mut String) {
    out.push('"');
    for c in text.chars() {
        if c < ' ' || c == '"' || c == '\\' || draw(4) == 0 {
            let mut units = [0; 2];
            for unit in c.encode_utf16(&mut units) {
                out.push_str(&if draw(2) == 0 {
                    format!("\\u{unit:04x}")
                } else {
                    format!("\\u{unit:04X}")
                });
            }
        } else {
            out.push(c);
        }
    }
    out.push('"');
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn equal_values_have_equal_bytes_however_they_are_written(tree in tree(), mut one: u64, mut other: u64) {
        let (mut first, mut second) = (String::new(), String::new());
        spell(&tree, &mut one, &mut first);
        spell(&tree, &mut other, &mut second);
        let canonical = canon(&first);
        prop_assert_eq!(&canonical, &canon(&second));
        prop_assert_eq!(&canonical, &canon(&canonical), "idempotent");
    }

    #[test]
    fn different_values_have_different_bytes(a in tree(), b in tree(), mut seed: u64) {
        let (mut first, mut second) = (String::new(), String::new());
        spell(&a, &mut seed, &mut first);
        spell(&b, &mut seed, &mut second);
        let value = |text: &str| -> serde_json::Value { serde_json::from_str(text).unwrap() };
        prop_assert_eq!(value(&first) == value(&second), canon(&first) == canon(&second));
        prop_assert_eq!(value(&canon(&first)), value(&first), "the value is kept");
    }
}

proptest! {
    #[test]
    fn no_text_makes_it_panic_or_hang(text in any::<Vec<u8>>(), braces in "[\\[\\]{}\",:\\\\ a0]{0,80}") {
        let _out = canonical(Json::checked_before(&text));
        let _out = canonical(Json::checked_before(braces.as_bytes()));
    }
}
