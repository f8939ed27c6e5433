use proptest::prelude::*;
use wire::rpc::Id;

use super::id;

#[test]
fn an_id_is_read_from_what_is_left() {
    for (text, expected) in [
        (r#"{"jsonrpc":"2.0","id":9,"method":"#, "9"),
        (r#"{"jsonrpc":"2.0", "id" : "x\"y" ,"method"#, r#""x\"y""#),
        (r#"{"params":{"id":1},"id":2}"#, "2"),
        (r#"{"a":"\"id\":5","id":-3,"#, "-3"),
        (r#"{"id":1,"id":2}"#, "1"),
    ] {
        assert_eq!(id(text.as_bytes()).unwrap().as_bytes(), expected.as_bytes(), "{text}");
    }
}

#[test]
fn what_could_be_another_id_is_none() {
    for text in [
        "",
        "{",
        r#"{"id""#,
        r#"{"id":"#,
        r#"{"id":12"#,
        r#"{"id":"cut o"#,
        r#"{"params":{"id":1"#,
        r#"[{"id":1}]"#,
        r#"{"id":null,"#,
        r#"{"id":1.5,"#,
        r#"{"id":{},"#,
        r#"}{"id":1,"#,
        r#"{"x":"id":1,"#,
        "\u{0}",
    ] {
        assert_eq!(id(text.as_bytes()), None, "{text}");
    }
}

proptest! {
    #[test]
    fn anything_may_come(text in prop::collection::vec(any::<u8>(), 0..256)) {
        let _ = id(&text);
    }

    /// Cutting a message after its id never yields another id.
    #[test]
    fn a_cut_message_keeps_its_id_or_has_none(number: u32, filler in "[a-z{}\\[\\]:,]{0,40}", cut in 0usize..120) {
        let text = format!(r#"{{"jsonrpc":"2.0","params":{{"t":"{filler}"}},"id":{number},"method":"m"}}"#);
        let found = id(&text.as_bytes()[..cut.min(text.len())]);
        prop_assert!(found.is_none() || found == Some(Id::number(u64::from(number))));
    }
}
