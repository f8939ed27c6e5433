//! The bytes of answers: right, almost right, and far too many.

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use super::script::Script;

pub(super) const MIB: usize = 1 << 20;

/// The arguments of a call exactly as they were written.
pub(super) fn arguments(text: &str) -> &str {
    #[derive(Deserialize)]
    struct Message<'a> {
        #[serde(borrow)]
        params: Params<'a>,
    }
    #[derive(Deserialize)]
    struct Params<'a> {
        #[serde(borrow)]
        arguments: &'a RawValue,
    }
    serde_json::from_str::<Message<'_>>(text).map_or("{}", |message| message.params.arguments.get())
}

/// Ten MiB of zeros; gzip members may be concatenated.
pub(super) fn bomb() -> io::Result<Vec<u8>> {
    let mut gzip = GzEncoder::new(Vec::new(), Compression::best());
    gzip.write_all(&vec![b' '; 10 * MIB])?;
    gzip.finish()
}

/// Bytes that are almost an answer.
pub(super) fn malformed(script: Script, id: &Value) -> Option<Vec<u8>> {
    let wrap = |content: &[u8]| {
        let head =
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[{{"type":"text","text":"#);
        [head.as_bytes(), content, b"}]}}"].concat()
    };
    Some(match script {
        Script::DeepJson => {
            let deep = format!("{}1{}", "[".repeat(100_000), "]".repeat(100_000));
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"deep":{deep}}}}}}}"#)
                .into_bytes()
        }
        Script::DuplicateKeys => {
            let one = r#"[{"type":"text","text":"one"}]"#;
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":{one},"c\u006fntent":[]}}}}"#).into_bytes()
        }
        Script::BadUtf8 => wrap(b"\"\xff\xfe\xc0\xaf\""),
        Script::LoneSurrogate => wrap(br#""\ud800""#),
        Script::NotANumber => {
            format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{{"content":[],"structuredContent":{{"n":NaN}}}}}}"#).into_bytes()
        }
        Script::NotAResult => format!(r#"{{"jsonrpc":"2.0","id":{id},"result":7}}"#).into_bytes(),
        _ => return None,
    })
}

pub(super) fn ok(id: &Value, result: Value) -> Vec<u8> {
    json!({"jsonrpc": "2.0", "id": id, "result": result})
        .to_string()
        .into_bytes()
}
