use proptest::prelude::*;
use wire::Json;

use crate::cedar::{
    facts::whole,
    path::{Path, PathError, leaves},
};

#[test]
fn a_path_has_one_spelling() {
    for right in [
        "a",
        "a.b",
        "a[0]",
        "a[]",
        "a[].b[2].c",
        "[\"x.y\"]",
        "a[\"b c\"][0]",
        "größe",
        "$filter",
        "[\"\"]",
    ] {
        assert_eq!(Path::parse(right).unwrap().to_string(), right);
    }
    for (wrong, right) in [
        ("[\"a\"]", "a"),
        ("a[00]", "a[0]"),
        ("a[\"b\"]", "a.b"),
        ("[\"\\u002e\"]", "[\".\"]"),
    ] {
        assert_eq!(
            Path::parse(wrong),
            Err(PathError::Spelling(right.to_owned())),
            "{wrong}"
        );
    }
    for wrong in [
        "",
        ".",
        "a.",
        ".a",
        "a..b",
        "a[",
        "a[x]",
        "a]",
        "a b",
        "a\"",
        "[\"a]",
        "a[-1]",
        "a[99999999999999999999]",
    ] {
        assert_eq!(Path::parse(wrong), Err(PathError::Malformed), "{wrong}");
    }
}

fn values() -> impl Strategy<Value = serde_json::Value> {
    let keys = prop_oneof!["[a-c]", "[.\\[\\]\" :0-2]{0,3}", any::<String>()];
    let scalars = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<String>().prop_map(Into::into)
    ];
    let inner = scalars.prop_recursive(3, 24, 4, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Into::into),
            prop::collection::btree_map(keys.clone(), inner, 0..4)
                .prop_map(|map| serde_json::Value::Object(map.into_iter().collect())),
        ]
    });
    prop::collection::btree_map("[a-c.]{0,2}", inner, 0..4)
        .prop_map(|map| serde_json::Value::Object(map.into_iter().collect()))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1000))]

    /// Every leaf has its own path, the path parses, and it leads back to the leaf.
    #[test]
    fn leaves_and_paths_agree(value in values()) {
        let text = value.to_string();
        let json = Json::parse(text.as_bytes(), wire::Limits::default()).unwrap();
        let leaves = leaves(json, 10_000).unwrap();
        for pair in leaves.windows(2) {
            prop_assert_ne!(&pair[0].path, &pair[1].path);
        }
        for leaf in &leaves {
            let path = Path::parse(&leaf.path).unwrap();
            let found = path.find(json).unwrap();
            prop_assert_eq!(crate::cedar::path::text_of(found), leaf.text.clone());
        }
    }

    #[test]
    fn whole_numbers_are_read_however_they_are_written(number in any::<i64>(), zeros in 0usize..6) {
        let padding = "0".repeat(zeros);
        prop_assert_eq!(whole(&number.to_string()), Some(number));
        prop_assert_eq!(whole(&format!("{number}.0{padding}")), Some(number));
        prop_assert_eq!(whole(&format!("{number}{padding}e-{zeros}")), Some(number));
        prop_assert_eq!(whole(&format!("{number}.5")), None);
        prop_assert_eq!(whole(&format!("{number}e400")), if number == 0 { Some(0) } else { None });
    }
}
