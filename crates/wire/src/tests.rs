use proptest::prelude::*;

use crate::{
    header,
    json::Problem,
    line::{Line, Lines},
    rpc::{self, Id, Message},
    sse,
    worker::{self, Assembler, PartError},
    write::{self, Object},
    *,
};

fn parse(text: &str) -> Result<Json<'_>, JsonError> {
    Json::parse(text.as_bytes(), Limits::default())
}

#[test]
fn values_keep_their_text() {
    let text = r#" {"a": 12345678901234567890123, "b":[1.10,1e2, "x\u00e9"], "c":null} "#;
    let json = parse(text).unwrap();
    assert_eq!(json.text(), text.trim());
    assert_eq!(json.get("a").unwrap().text(), "12345678901234567890123");
    assert_eq!(
        json.get("b")
            .unwrap()
            .items()
            .map(Json::text)
            .collect::<Vec<_>>(),
        ["1.10", "1e2", r#""x\u00e9""#]
    );
    assert_eq!(
        json.path(&["b"])
            .unwrap()
            .items()
            .nth(2)
            .unwrap()
            .as_str()
            .unwrap(),
        "xé"
    );
    assert!(json.get("c").unwrap().is_null());
    assert!(json.get("d").is_none());
}

#[test]
fn duplicate_keys_are_refused_at_any_depth_and_in_any_spelling() {
    for text in [
        r#"{"a":1,"a":2}"#,
        r#"{"a":1,"\u0061":2}"#,
        r#"[[{"x":{"name":1,"b":2,"n\u0061me":3}}]]"#,
        r#"{"1":0,"2":0,"3":0,"4":0,"5":0,"6":0,"7":0,"8":0,"9":0,"10":0,"11":0,"12":0,"13":0,"5":1}"#,
    ] {
        assert!(
            matches!(
                parse(text).unwrap_err().problem,
                Problem::DuplicateKey { .. }
            ),
            "{text}"
        );
    }
    assert!(parse(r#"{"a":{"a":{"a":1}},"b":{"a":1}}"#).is_ok());
}

#[test]
fn malformed_texts_are_refused() {
    for text in [
        "",
        " ",
        "{",
        "}",
        "[1,]",
        "{,}",
        r#"{"a"}"#,
        r#"{"a":}"#,
        "01",
        "1.",
        ".5",
        "+1",
        "1e",
        "NaN",
        "Infinity",
        "tru",
        "nulll",
        "\"",
        "\"\\x\"",
        "\"\\u12\"",
        "\"\\ud800\"",
        "\"\\ud800\\u0041\"",
        "\"\\udc00\"",
        "\"a\nb\"",
        "[1] [2]",
        "{\"a\":1}x",
        "'a'",
        "{a:1}",
        "[1 2]",
        "\u{feff}1",
        "-",
        "--1",
        "/**/1",
    ] {
        assert!(parse(text).is_err(), "{text:?}");
    }
    assert_eq!(
        Json::parse(b"\"\xff\"", Limits::default())
            .unwrap_err()
            .problem,
        Problem::NotUtf8
    );
    assert_eq!(
        Json::parse(b"\"\xed\xa0\x80\"", Limits::default())
            .unwrap_err()
            .problem,
        Problem::NotUtf8
    );
}

#[test]
fn depth_and_size_have_limits() {
    let deep = |n: usize| format!("{}{}", "[".repeat(n), "]".repeat(n));
    assert!(parse(&deep(64)).is_ok());
    assert!(matches!(
        parse(&deep(65)).unwrap_err().problem,
        Problem::TooDeep { limit: 64 }
    ));
    assert!(matches!(
        parse(&"[".repeat(1_000_000)).unwrap_err().problem,
        Problem::TooDeep { .. }
    ));
    assert!(matches!(
        Json::parse(b"[1,2,3]", Limits::new(6, 4))
            .unwrap_err()
            .problem,
        Problem::TooLong { .. }
    ));
    assert!(parse(r#"[[1],[2],{"a":[3]}]"#).is_ok());
}

#[test]
fn messages_are_told_apart() {
    let read = |text: &'static str| rpc::read(parse(text).unwrap());
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#),
        Ok(Message::Request { .. })
    ));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","method":"x","params":{}}"#),
        Ok(Message::Notification { .. })
    ));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","id":"a","result":{}}"#),
        Ok(Message::Result { .. })
    ));
    assert!(matches!(
        read(r#"{"jsonrpc":"2.0","id":null,"error":{"code":1,"message":"x"}}"#),
        Ok(Message::Error { id: None, .. })
    ));
    for bad in [
        r#"[]"#,
        r#"{"id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"1.0","id":1,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":null,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1.5,"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":{},"method":"ping"}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","params":[1]}"#,
        r#"{"jsonrpc":"2.0","id":1,"method":"x","result":{}}"#,
        r#"{"jsonrpc":"2.0","id":1}"#,
    ] {
        assert!(read(bad).is_err(), "{bad}");
    }
    assert_eq!(
        read(r#"{"jsonrpc":"2.0","id":7,"method":1}"#)
            .unwrap_err()
            .id,
        Some(Id::number(7))
    );
}

#[test]
fn replacing_fields_leaves_the_others_byte_for_byte() {
    let json = parse(
        r#"{"name" : "x", "arguments":{"n":1.10,"z":[ 1 ]},"_meta":{"a":1}, "n\u0061me2":2}"#,
    )
    .unwrap();
    let out = write::replace_fields(json, &["name", "_meta"], |out| {
        out.str("name", "a\"b\n");
    });
    assert_eq!(
        String::from_utf8(out).unwrap(),
        r#"{"arguments":{"n":1.10,"z":[ 1 ]},"n\u0061me2":2,"name":"a\"b\n"}"#
    );
}

#[test]
fn flattening_changes_only_line_breaks_between_tokens() {
    let mut text = b"{\n  \"a\": \"x\\ny\",\r\n \"b\":[1,\n2]}".to_vec();
    write::flatten(&mut text);
    assert_eq!(
        std::str::from_utf8(&text).unwrap(),
        "{   \"a\": \"x\\ny\",   \"b\":[1, 2]}"
    );
}

#[test]
fn a_nested_object_is_written_in_place() {
    let mut object = Object::new();
    object.str("a", "b").object("c", |inner| {
        inner.i64("d", -5).bool("e", true);
    });
    object.raw("f", b"[1]");
    assert_eq!(
        object.finish(),
        br#"{"a":"b","c":{"d":-5,"e":true},"f":[1]}"#
    );
}

#[test]
fn an_over_long_line_costs_that_line_only() {
    let mut lines = Lines::new(16);
    lines.feed(b"short\n{\"id\":42,\"x\":\"");
    assert_eq!(lines.next_line(), Some(Line::Whole("short".into())));
    assert_eq!(lines.next_line(), None);
    lines.feed(&[b'y'; 100]);
    assert_eq!(lines.next_line(), None);
    lines.feed(b"\nnext\r\n\n");
    let Some(Line::TooLong {
        prefix,
        skim,
        bytes,
    }) = lines.next_line()
    else {
        panic!()
    };
    assert_eq!(worker::salvage_id(&prefix), Some(42));
    assert_eq!(skim.id(), Some(&Id::number(42)));
    assert_eq!(bytes, 115);
    assert_eq!(lines.next_line(), Some(Line::Whole("next".into())));
    assert_eq!(lines.next_line(), Some(Line::Whole("".into())));
    assert_eq!(lines.next_line(), None);
}

#[test]
fn long_texts_travel_as_parts_and_come_back_whole() {
    let text = format!(
        r#"{{"id":9,"result":"{}\u0001é"}}"#,
        "\\\"ab".repeat(600_000)
    );
    let mut out = Vec::new();
    worker::push(&mut out, 9, text.as_bytes());
    worker::push(&mut out, 10, b"{\"id\":10}");
    let mut assembler = Assembler::new(worker::TOTAL_LIMIT);
    let mut whole = Vec::new();
    for line in out
        .split(|byte| *byte == b'\n')
        .filter(|line| !line.is_empty())
    {
        assert!(line.len() < worker::LINE_LIMIT);
        whole.extend(assembler.take(line.to_vec().into()).unwrap());
    }
    assert_eq!(whole, [text.as_bytes(), b"{\"id\":10}"]);
}

#[test]
fn a_joined_text_is_the_same_text() {
    let mut assembler = Assembler::new(worker::TOTAL_LIMIT);
    for lengths in [
        [0, 0, 0],
        [3, 5, 2],
        [10, 1_048_570, 2],
        [40, 1_100_000, 2],
        [1_048_544, 1, 0],
        [1_048_543, 3, 0],
        [7, 3_145_728, 9],
    ] {
        let pieces: Vec<String> = lengths
            .iter()
            .zip(["a", "é", "z"])
            .map(|(length, text)| text.repeat(length / text.len()))
            .collect();
        let mut out = Vec::new();
        worker::push_joined(
            &mut out,
            5,
            &[
                pieces[0].as_bytes(),
                pieces[1].as_bytes(),
                pieces[2].as_bytes(),
            ],
        );
        let mut whole = Vec::new();
        for line in out.split(|byte| *byte == b'\n') {
            assert!(
                line.len() < worker::LINE_LIMIT && std::str::from_utf8(line).is_ok(),
                "{lengths:?}"
            );
            whole.extend(
                assembler
                    .take(line.to_vec().into())
                    .unwrap()
                    .filter(|text| !text.is_empty()),
            );
        }
        assert_eq!(whole.concat(), pieces.concat().as_bytes(), "{lengths:?}");
        assert!(whole.len() <= 1);
    }
}

#[test]
fn skimming_finds_the_fields_of_one_line_of_text_and_nothing_else() {
    let text = br#"{"id":5,"result":{"a":"}\"{"},"x":[1]}"#;
    let fields = Json::skim_fields(text).unwrap();
    assert_eq!(
        fields,
        Json::parse_fields(text, Limits::default())
            .unwrap()
            .fields()
            .into_owned()
    );
    for bad in [
        &b"{\"id\":1,\n\"result\":{}}"[..],
        b"{\"a\":\"\r\"}",
        b"[1]",
        b"{\"a\":1",
        b"{\"a\":\"\xff\"}",
        b"",
    ] {
        assert!(Json::skim_fields(bad).is_err());
    }
}

#[test]
fn parts_over_the_total_are_refused_once_and_swallowed() {
    let mut assembler = Assembler::new(10);
    assert_eq!(assembler.take("+1 123456".into()), Ok(None));
    assert_eq!(
        assembler.take("+1 123456".into()),
        Err(PartError::TooLarge { id: 1 })
    );
    assert_eq!(assembler.take("+1 123456".into()), Ok(None));
    assert_eq!(assembler.take("=1 123456".into()), Ok(None));
    assert_eq!(
        assembler.take("=1 123456".into()),
        Ok(Some("123456".into()))
    );
}

#[test]
fn lines_that_only_look_like_parts_are_refused() {
    let mut assembler = Assembler::new(10);
    for line in [
        "+",
        "=",
        "+1",
        "+x y",
        "=99999999999999999999999 y",
        "+-1 y",
        "+ 1 y",
    ] {
        assert_eq!(
            assembler.take(line.into()),
            Err(PartError::Malformed),
            "{line}"
        );
    }
    assert_eq!(worker::salvage_id(b"+77 {\"id\":5"), Some(77));
}

#[test]
fn fields_found_while_validating_are_those_found_by_walking() {
    for text in [
        r#"{"a":1,"b":{"c":[1,2]},"d":"x\"y"}"#,
        "{}",
        "[{\"a\":1}]",
        "5",
        r#" {"k\u0061":{"z":{}} } "#,
    ] {
        let outline = Json::parse_fields(text.as_bytes(), Limits::default()).unwrap();
        assert_eq!(*outline.fields(), outline.json.raw_fields(), "{text}");
        for (_, value) in outline.json.raw_fields() {
            assert_eq!(outline.fields_of(value), value.raw_fields(), "{text}");
        }
    }
    let many: String = (0..1000)
        .map(|n| format!("\"k{n}\":{{\"x\":{n}}},"))
        .collect();
    let many = format!("{{{many}\"end\":{{}}}}");
    let outline = Json::parse_fields(many.as_bytes(), Limits::default()).unwrap();
    assert_eq!(outline.fields().len(), 1001);
    assert_eq!(
        outline.fields_of(outline.json.get("k999").unwrap()).len(),
        1
    );
}

#[test]
fn header_values_round_trip() {
    for value in [
        "plain",
        "",
        " edge",
        "edge ",
        "=?base64?SGVsbG8=?=",
        "Zürich",
        "a\r\nb: c",
        "tab\tx",
        "=?base64?open",
    ] {
        let encoded = header::encode(value);
        assert!(
            encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
            "{encoded}"
        );
        assert_eq!(header::decode(&encoded).unwrap(), value);
    }
    assert_eq!(header::decode("=?base64?SGVsbG8=?=").unwrap(), "Hello");
    assert_eq!(header::decode("=?base64?SGVsbG8?="), None);
    assert_eq!(header::decode("=?base64?SGVs!!!bG8=?="), None);
    assert_eq!(
        header::decode("=?base64?SGVsbG8=").unwrap(),
        "=?base64?SGVsbG8="
    );
    assert_eq!(header::decode("  name\t").unwrap(), "name");
}

#[test]
fn events_are_decoded_however_they_are_cut() {
    let text = "\u{feff}: hi\r\nid: 1\ndata: a\ndata: b\r\n\nretry: 500\rid: 2\rdata\r\r\nevent: x\ndata:{\"é\":1}\n\n";
    let whole = |cut: &[usize]| {
        let mut decoder = sse::Decoder::new(1000);
        let mut out = Vec::new();
        let mut from = 0;
        for &at in cut {
            decoder.feed(&text.as_bytes()[from..at], &mut out);
            from = at;
        }
        decoder.feed(&text.as_bytes()[from..], &mut out);
        out
    };
    let events = whole(&[]);
    assert_eq!(events.len(), 3);
    assert_eq!(events[0].data, b"a\nb");
    assert_eq!(
        (events[1].retry, events[1].id.as_deref()),
        (Some(500), Some("2"))
    );
    assert_eq!(events[2].data, "{\"é\":1}".as_bytes());
    for at in 0..text.len() {
        assert_eq!(whole(&[at]), events, "cut at {at}");
    }
}

#[test]
fn an_over_large_event_costs_that_event_only() {
    let long = format!(
        "data: {{\"result\":\"{}\",\ndata:\"jsonrpc\":\"2.0\",\ndata: \"id\":42}}\n\n",
        "y".repeat(300)
    );
    let text = format!(
        "id: 1\n{long}data: next\n\nid: 2\nx: {}\n\n",
        "z".repeat(300)
    );
    for step in [1, 7, 64, 1000] {
        let mut decoder = sse::Decoder::new(100);
        let mut out = Vec::new();
        for chunk in text.as_bytes().chunks(step) {
            decoder.feed(chunk, &mut out);
            assert!(decoder.held() <= 100, "nothing above the cap is kept");
        }
        let [first, second, third] = out.as_slice() else {
            panic!("{out:?}")
        };
        assert_eq!(
            first.too_large.as_deref().and_then(Skim::id),
            Some(&Id::number(42))
        );
        assert_eq!((first.id.as_deref(), first.data.len()), (Some("1"), 0));
        assert_eq!(
            (second.data.as_slice(), second.too_large.is_none()),
            (&b"next"[..], true)
        );
        assert!(
            third
                .too_large
                .as_deref()
                .is_some_and(|skim| skim.id().is_none())
        );
    }
}

#[test]
fn lines_about_shared_memory_are_read_back() {
    let mut out = Vec::new();
    worker::push_attached(&mut out, 4096, 50_000, br#"{"id":1,"result":null}"#);
    worker::push_returned(&mut out, 8192);
    let read = |line: &str| worker::Shared::read(&bytes::Bytes::copy_from_slice(line.as_bytes()));
    let text = String::from_utf8(out).unwrap();
    let lines: Vec<_> = text.lines().map(read).collect();
    let attached = worker::Attached {
        offset: 4096,
        length: 50_000,
        message: br#"{"id":1,"result":null}"#.as_slice().into(),
    };
    assert_eq!(
        lines,
        [
            Some(worker::Shared::Attached(attached)),
            Some(worker::Shared::Returned(8192))
        ]
    );
    for malformed in [
        "@",
        "@1",
        "@1 2",
        "@x 2 {}",
        "@1 -2 {}",
        "@99999999999999999999999 1 {}",
        "-",
        "-1 ",
        "-x",
        "--1",
    ] {
        assert_eq!(
            read(malformed),
            Some(worker::Shared::Malformed),
            "{malformed}"
        );
    }
    for other in ["", "{}", "+1 {", "=1 }", "[]"] {
        assert_eq!(read(other), None, "{other}");
    }
}

fn any_json() -> impl Strategy<Value = serde_json::Value> {
    let leaf = prop_oneof![
        Just(serde_json::Value::Null),
        any::<bool>().prop_map(Into::into),
        any::<i64>().prop_map(Into::into),
        any::<i32>().prop_map(|n| (f64::from(n) / 4.0).into()),
        ".*".prop_map(Into::into),
    ];
    leaf.prop_recursive(5, 64, 8, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..8).prop_map(Into::into),
            prop::collection::hash_map(".*", inner, 0..16)
                .prop_map(|map| map.into_iter().collect()),
        ]
    })
}

proptest! {
    #[test]
    fn everything_serde_writes_we_read_alike(value in any_json()) {
        for text in [value.to_string(), serde_json::to_string_pretty(&value).unwrap()] {
            let json = parse(&text).unwrap();
            prop_assert_eq!(json.text(), &text);
            if let Some(map) = value.as_object() {
                prop_assert_eq!(json.fields().count(), map.len());
                let heads: Vec<_> = json.fields().map(|(name, value)| (name, value.kind())).collect();
                prop_assert_eq!(json.heads().collect::<Vec<_>>(), heads);
                for (key, expected) in map {
                    let found: serde_json::Value = serde_json::from_str(json.get(key).unwrap().text()).unwrap();
                    prop_assert_eq!(&found, expected);
                }
            }
            if let Some(text) = value.as_str() {
                prop_assert_eq!(json.as_str().unwrap(), text);
            }
        }
    }

    #[test]
    fn we_accept_nothing_that_serde_refuses(bytes in prop::collection::vec(any::<u8>(), 0..64)) {
        if Json::parse(&bytes, Limits::default()).is_ok() {
            prop_assert!(serde_json::from_slice::<serde::de::IgnoredAny>(&bytes).is_ok());
        }
    }

    #[test]
    fn mutated_json_is_judged_like_serde_judges_it(value in any_json(), at in any::<prop::sample::Index>(), byte in any::<u8>()) {
        let mut bytes = value.to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let ours = Json::parse(&bytes, Limits::default());
        let theirs = serde_json::from_slice::<serde_json::Value>(&bytes);
        match (&ours, &theirs) {
            (Err(error), Ok(_)) => prop_assert!(matches!(error.problem, Problem::DuplicateKey { .. }), "{error}"),
            (Ok(_), Err(error)) => prop_assert!(error.to_string().contains("number out of range"), "{error}"),
            _ => {}
        }
    }

    #[test]
    fn mutated_long_strings_are_judged_like_serde_judges_them(
        texts in prop::collection::vec("([a-z ]{0,90}|é|\"|\n|\u{1F512}){1,12}", 1..4),
        at in any::<prop::sample::Index>(),
        byte in prop_oneof![any::<u8>(), Just(b'"'), Just(b'\\'), Just(0xFF), Just(0xC3)],
    ) {
        let mut bytes = serde_json::json!({ "texts": texts }).to_string().into_bytes();
        let at = at.index(bytes.len());
        bytes[at] = byte;
        let ours = Json::parse(&bytes, Limits::default());
        let theirs = serde_json::from_slice::<serde_json::Value>(&bytes);
        prop_assert_eq!(ours.is_ok(), theirs.is_ok(), "{:?} {:?}", ours, theirs);
        if std::str::from_utf8(&bytes).is_err() {
            prop_assert_eq!(ours.unwrap_err().problem, Problem::NotUtf8);
        }
    }

    #[test]
    fn a_long_value_is_led_in_without_being_copied(before in 0..3usize, after in 0..3usize, long in prop_oneof![0..20_000usize, 40_000..70_000usize], drop in any::<bool>()) {
        let other = |name: &str, count: usize| (0..count).map(|n| format!("\"{name}{n}\":[{n},\n1],")).collect::<String>();
        let value = format!("\"{}\"", "x".repeat(long));
        let text = format!("{{{}\"name\":1,\"long\":{value},{}\"z\":0}}", other("a", before), other("b", after));
        let owner = crate::Text::from(text);
        let fields = Json::parse(&owner, Limits::default()).unwrap().raw_fields();
        let dropped = if drop { vec!["name", "long"] } else { vec!["name"] };
        let pieces = write::lead_fields(&owner, &fields, &dropped, |out| { out.u64("name", 2); });
        let whole = pieces.all().concat();
        prop_assert_eq!(whole.len(), pieces.len());
        let json = Json::parse_line(&whole, Limits::default()).unwrap();
        prop_assert_eq!(json.fields().next().unwrap().0, "name");
        prop_assert_eq!(json.get("name").unwrap().text(), "2");
        prop_assert_eq!(json.get("long").map(|long| long.text().to_owned()), (!drop).then_some(value));
        prop_assert_eq!(json.fields().count(), before + after + if drop { 2 } else { 3 });
        let copied = owner.as_ptr_range();
        prop_assert_eq!(long >= 40_000 && !drop, copied.contains(&pieces.all()[1].as_ptr()) && !pieces.all()[1].is_empty());
    }

    #[test]
    fn quoting_round_trips_on_one_line(text in ".*") {
        let quoted = write::quoted(&text);
        prop_assert!(!quoted.contains(&b'\n'));
        prop_assert_eq!(Json::parse(&quoted, Limits::default()).unwrap().as_str().unwrap(), text);
    }

    #[test]
    fn headers_round_trip(text in ".*") {
        let encoded = header::encode(&text).into_owned();
        prop_assert_eq!(header::decode(&encoded).unwrap(), text);
    }
}
