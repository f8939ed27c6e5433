//! JSON over several lines. Numbers, texts and the order of keys stay as they were written: only the space between them changes.

/// `text` is JSON that was parsed before; anything else comes out with odd line breaks and nothing worse.
#[must_use]
pub fn pretty(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 4);
    let mut depth = 0usize;
    let mut chars = text.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' => {
                out.push(c);
                string(&mut out, &mut chars);
            }
            '{' | '[' => {
                out.push(c);
                while chars.next_if(|next| next.is_ascii_whitespace()).is_some() {}
                if let Some(end) = chars.next_if(|next| matches!(next, '}' | ']')) {
                    out.push(end);
                } else {
                    depth += 1;
                    line(&mut out, depth);
                }
            }
            '}' | ']' => {
                depth = depth.saturating_sub(1);
                line(&mut out, depth);
                out.push(c);
            }
            ',' => {
                out.push(c);
                line(&mut out, depth);
            }
            ':' => out.push_str(": "),
            c if c.is_ascii_whitespace() => {}
            c => out.push(c),
        }
    }
    out
}

fn string(out: &mut String, chars: &mut impl Iterator<Item = char>) {
    while let Some(c) = chars.next() {
        out.push(c);
        match c {
            '"' => return,
            '\\' => out.extend(chars.next()),
            _ => {}
        }
    }
}

fn line(out: &mut String, depth: usize) {
    out.push('\n');
    out.extend(std::iter::repeat_n("  ", depth));
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::pretty;

    #[test]
    fn numbers_and_order_stay_as_they_were_written() {
        let text = r#"{"z":12345678901234567890123,"a":[1e400,-0.10],"e":{},"f":[ ],"s":"a, \"b\": {c}\\"}"#;
        assert_eq!(
            pretty(text),
            "{\n  \"z\": 12345678901234567890123,\n  \"a\": [\n    1e400,\n    -0.10\n  ],\n  \"e\": {},\n  \"f\": [],\n  \
             \"s\": \"a, \\\"b\\\": {c}\\\\\"\n}"
        );
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<String>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            Just(Value::Null)
        ];
        leaf.prop_recursive(4, 32, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::btree_map(any::<String>(), inner, 0..5)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn it_is_what_a_json_library_prints(value in any_json()) {
            prop_assert_eq!(pretty(&value.to_string()), serde_json::to_string_pretty(&value).unwrap());
        }
    }
}
