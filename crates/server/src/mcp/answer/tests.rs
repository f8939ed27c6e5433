use bytes::Bytes;
use http_body_util::BodyExt;
use proptest::prelude::*;
use wire::{Json, Limits, rpc::Id};

use super::{Answer, COPY_LIMIT, Problem};

const COMPLETE: &str = r#""resultType":"complete""#;

fn text(answer: &Answer) -> String {
    String::from_utf8(answer.message(&Id::number(7)).to_vec()).unwrap()
}

#[test]
fn a_result_passes_byte_for_byte() {
    let answer = Answer::result(Bytes::from_static(br#"{ "n": 1.10, "k":"\u0041" }"#));
    assert_eq!(
        text(&answer),
        r#"{"jsonrpc":"2.0","id":7,"result":{ "n": 1.10, "k":"\u0041" }}"#
    );
}

#[test]
fn fields_go_in_front() {
    let with = |body: &'static str| {
        text(&Answer::Result {
            fields: COMPLETE,
            body: Bytes::from_static(body.as_bytes()),
        })
    };
    assert_eq!(
        with("{}"),
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}"#
    );
    assert_eq!(
        with("{ }"),
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete"}}"#
    );
    assert_eq!(
        with(r#"{ "a":1}"#),
        r#"{"jsonrpc":"2.0","id":7,"result":{"resultType":"complete","a":1}}"#
    );
}

#[test]
fn an_error_carries_its_object() {
    let answer = Answer::from(Problem::new(-32601, "no"));
    assert_eq!(
        text(&answer),
        r#"{"jsonrpc":"2.0","id":7,"error":{"code":-32601,"message":"no"}}"#
    );
}

proptest! {
    /// The body in pieces and the message in one are the same text, and valid, whatever the size.
    #[test]
    fn pieces_and_message_agree(filler in 0usize..3 * COPY_LIMIT, with_fields: bool) {
        let body: Bytes = format!(r#"{{"t":"{}"}}"#, "x".repeat(filler)).into();
        let answer = Answer::Result { fields: if with_fields { COMPLETE } else { "" }, body };
        let id = Id::string("i");
        let message = answer.message(&id);
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        let sent = runtime.block_on(answer.body(&id).collect()).unwrap().to_bytes();
        prop_assert_eq!(&message, &sent);
        let parsed = Json::parse(&message, Limits::default()).unwrap();
        prop_assert_eq!(parsed.path(&["result", "resultType"]).is_some(), with_fields);
        prop_assert_eq!(parsed.path(&["result", "t"]).unwrap().as_str().unwrap().len(), filler);
    }
}
