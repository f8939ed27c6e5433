//! What other languages make of a value, captured from `python3` (`json.dumps` with sorted keys, no spaces, no ASCII escapes) and from
//! `node` (`JSON.stringify`): the texts that their clients sign and send. Ours must be the same text again.

use proptest::prelude::*;
use wire::{
    Json, Limits,
    canonical::{Order, canonical_after},
};

use super::json;

/// Written, what Python signs, what JavaScript signs.
const NUMBERS: &[(&str, &str, &str)] = &[
    ("2.0", "2.0", "2"),
    ("1e16", "1e+16", "10000000000000000"),
    ("1e-7", "1e-07", "1e-7"),
    ("-0.0", "-0.0", "0"),
    (
        "12345678901234567890",
        "12345678901234567890",
        "12345678901234567000",
    ),
    ("0.1", "0.1", "0.1"),
    ("100", "100", "100"),
    ("1.5e300", "1.5e+300", "1.5e+300"),
    ("5e-324", "5e-324", "5e-324"),
    ("-1", "-1", "-1"),
    ("1E2", "100.0", "100"),
    (
        "123456789.123456789",
        "123456789.12345679",
        "123456789.12345679",
    ),
];
const PYTHON_KEYS: &str =
    "{\"\":7,\"A\":5,\"a\":3,\"é\":4,\"\u{e000}\":6,\"\u{fffd}\":1,\"\u{1f600}\":2}";
const NODE_KEYS: &str =
    "{\"\":7,\"A\":5,\"a\":3,\"é\":4,\"\u{1f600}\":2,\"\u{e000}\":6,\"\u{fffd}\":1}";
const ESCAPES: &str = "\"\\\"\\\\/\\b\\f\\n\\r\\t\\u0000\\u001f\u{7f}\u{2028}é\u{1f600}\"";

fn canonical(text: &str, order: Order) -> String {
    String::from_utf8(canonical_after(Vec::new(), json(text), order)).unwrap()
}

#[test]
fn numbers_keep_the_text_that_was_sent() {
    for (written, python, node) in NUMBERS {
        for sent in [written, python, node] {
            for order in [Order::CodePoint, Order::Utf16] {
                assert_eq!(
                    canonical(&format!(" [ {sent} ] "), order),
                    format!("[{sent}]")
                );
            }
        }
    }
}

#[test]
fn keys_sort_as_the_client_sorts_them() {
    let written =
        "{\"\u{fffd}\":1,\"\\ud83d\\ude00\":2,\"a\":3,\"é\":4,\"A\":5,\"\\ue000\":6,\"\":7}";
    assert_eq!(canonical(written, Order::CodePoint), PYTHON_KEYS);
    assert_eq!(canonical(written, Order::Utf16), NODE_KEYS);
}

#[test]
fn strings_are_escaped_as_both_escape_them() {
    let written = "\"\\u0022\\u005c\\/\\u0008\\u000c\\u000A\\u000D\\u0009\\u0000\\u001F\\u007f\\u2028\\u00E9\\uD83D\\uDE00\"";
    assert_eq!(canonical(written, Order::CodePoint), ESCAPES);
    assert_eq!(canonical(ESCAPES, Order::Utf16), ESCAPES);
}

/// Any JSON text, by way of another library.
fn value() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        any::<Option<bool>>().prop_map(|word| word.map_or(serde_json::Value::Null, Into::into)),
        any::<i64>().prop_map(Into::into),
        any::<f64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into),
    ];
    leaf.prop_recursive(4, 48, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Into::into),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    })
}

fn read(text: &[u8]) -> serde_json::Value {
    serde_json::from_slice(text).unwrap()
}

proptest! {
    #[test]
    fn canonical_text_is_stable_and_says_the_same(value in value()) {
        let pretty = serde_json::to_vec_pretty(&value).unwrap();
        let parsed = Json::parse(&pretty, Limits::default()).unwrap();
        for order in [Order::CodePoint, Order::Utf16] {
            let once = canonical_after(Vec::new(), parsed, order);
            let again = Json::parse(&once, Limits::default()).unwrap();
            prop_assert_eq!(&canonical_after(Vec::new(), again, order), &once);
            prop_assert_eq!(read(&once), read(&pretty));
        }
    }

    #[test]
    fn utf16_order_is_that_of_the_units(mut keys in prop::collection::hash_set("[a\u{e000}\u{fffd}\u{10000}\u{1f600}é]{0,4}", 0..8)) {
        let object: serde_json::Map<_, _> = keys.drain().map(|key| (key, 0.into())).collect();
        let text = serde_json::to_string(&object).unwrap();
        let sorted = canonical(&text, Order::Utf16);
        let units: Vec<Vec<u16>> = json(&sorted).fields().map(|(key, _)| key.encode_utf16().collect()).collect();
        prop_assert!(units.is_sorted());
        prop_assert_eq!(units.len(), object.len());
    }
}
