//! One function per parser that takes any bytes and asserts what must hold for all of them.
//!
//! The fuzzer runs them on bytes it invents, the tests run them on every file of `fuzz/corpus`. A function never skips an input: bytes
//! that a parser refuses must be refused the same way twice, and bytes it accepts must survive a round trip.

mod identity;
mod lines;
mod logins;

use serde_json::value::RawValue;
use vocab::{ServerId, ToolName, View, skeleton, split_double};
use wire::{
    Json, Kind, Limits, header,
    json::Problem,
    rpc::{self, Message},
    sse,
};

pub use self::identity::{envelope, token};
pub use lines::{worker_lines, worker_parts};
pub use logins::oauth;

/// A parser's name, which is its corpus's too, and its function.
pub type Target = (&'static str, fn(&[u8]));

/// All but the configuration, which needs the program: see [`config`].
pub const TARGETS: &[Target] = &[
    ("json", json),
    ("rpc", rpc),
    ("worker_lines", worker_lines),
    ("worker_parts", worker_parts),
    ("sse", events),
    ("names", names),
    ("header", header_values),
    ("envelope", envelope),
    ("token", token),
    ("oauth", oauth),
];

const LIMITS: Limits = Limits::new(1 << 20, 64);

/// Strict JSON: agrees with another parser about the grammar, and differs only where it is meant to be stricter.
pub fn json(data: &[u8]) {
    match Json::parse(data, LIMITS) {
        Ok(value) => {
            let again = Json::parse(value.as_bytes(), LIMITS);
            assert_eq!(
                again.map(Json::as_bytes),
                Ok(value.as_bytes()),
                "parsing is not stable"
            );
            let other = serde_json::from_slice::<&RawValue>(data);
            assert!(other.is_ok(), "accepted what is not JSON: {other:?}");
            walk(value);
        }
        Err(error) => {
            assert!(error.at <= data.len(), "points outside the text");
            let stricter = matches!(
                error.problem,
                Problem::DuplicateKey { .. } | Problem::TooDeep { .. } | Problem::TooLong { .. }
            );
            let other = serde_json::from_slice::<serde_json::Value>(data);
            assert!(stricter || other.is_err(), "refused plain JSON: {error}");
        }
    }
}

/// Every part of a value is a value by itself, and says the same about itself there.
fn walk(value: Json<'_>) {
    match value.kind() {
        Kind::Object => {
            for (key, part) in value.fields() {
                assert_eq!(
                    value.get(&key).map(Json::as_bytes),
                    Some(part.as_bytes()),
                    "a field cannot be found by its key"
                );
                walk(part);
            }
        }
        Kind::Array => value.items().for_each(walk),
        Kind::String => {
            let other = serde_json::from_slice::<String>(value.as_bytes());
            assert_eq!(
                value.as_str().as_deref(),
                other.ok().as_deref(),
                "a string is decoded in two ways"
            );
        }
        Kind::Number => {
            assert_eq!(value.as_u64(), value.text().parse().ok());
            assert!(
                value
                    .as_i64()
                    .is_none_or(|number| value.text().parse() == Ok(number))
            );
        }
        Kind::Bool => assert!(value.as_bool().is_some()),
        Kind::Null => assert!(value.is_null()),
    }
}

/// A JSON-RPC message that was read can be written, and reads the same again.
pub fn rpc(data: &[u8]) {
    let Ok(json) = Json::parse(data, LIMITS) else {
        return;
    };
    let Ok(message) = rpc::read(json) else { return };
    let written = write(&message);
    let Ok(json) = Json::parse(&written, Limits::new(2 << 20, 80)) else {
        unreadable(&written)
    };
    let Ok(again) = rpc::read(json) else {
        unreadable(&written)
    };
    assert_eq!(format!("{message:?}"), format!("{again:?}"));
}

#[expect(clippy::panic, reason = "a fuzz target reports by failing")]
fn unreadable(written: &[u8]) -> ! {
    panic!(
        "what we wrote cannot be read: {}",
        String::from_utf8_lossy(written)
    )
}

fn write(message: &Message<'_>) -> Vec<u8> {
    match message {
        Message::Request {
            id,
            method,
            params: Some(params),
        } => rpc::request(id, method, params.as_bytes()),
        Message::Request {
            id,
            method,
            params: None,
        } => {
            let mut out = wire::write::Object::new();
            out.str("jsonrpc", "2.0")
                .raw("id", id.as_bytes())
                .str("method", method);
            out.finish()
        }
        Message::Notification { method, params } => {
            rpc::notification(method, params.map(Json::as_bytes))
        }
        Message::Result { id, result } => rpc::result(id, result.as_bytes()),
        Message::Error { id, error } => rpc::error(id.as_ref(), error.as_bytes()),
    }
}

/// Server-sent events do not depend on how the stream was cut, and what we decode we can encode.
pub fn events(data: &[u8]) {
    let (step, data) = data
        .split_first()
        .map_or((1, data), |(first, rest)| (usize::from(*first) + 1, rest));
    let decode = |step: usize| {
        let (mut decoder, mut events) = (sse::Decoder::new(4096), Vec::new());
        data.chunks(step)
            .for_each(|chunk| decoder.feed(chunk, &mut events));
        events
    };
    let events = decode(data.len().max(1));
    assert_eq!(events, decode(step), "the cut at {step} shows");
    for event in events.iter().filter(|event| event.too_large.is_none()) {
        let mut text = Vec::new();
        sse::encode(&mut text, event.id.as_deref(), event.retry, &event.data);
        let (mut decoder, mut again) = (sse::Decoder::new(1 << 20), Vec::new());
        decoder.feed(&text, &mut again);
        let plain = sse::Event {
            event: None,
            ..event.clone()
        };
        assert_eq!(again, [plain]);
    }
}

/// A pair of names that is allowed keeps its two halves under every view.
pub fn names(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let (first, second) = text.split_once('\n').unwrap_or((&text, "tool"));
    if let Some((server, tool)) = split_double(&text) {
        assert_eq!(format!("{server}__{tool}"), text);
    }
    assert_eq!(
        skeleton(&skeleton(second)),
        skeleton(second),
        "a skeleton has no skeleton"
    );
    let (Ok(server), Ok(tool)) = (ServerId::parse(first), ToolName::parse(second)) else {
        return;
    };
    assert_eq!(
        (server.as_str(), tool.as_str()),
        (first, second),
        "a name was changed"
    );
    assert!(!first.contains("__") && first.len() <= 64 && second.len() <= 128);
    let exposed = View::Double.expose(&server, tool.as_str());
    assert_eq!(
        split_double(&exposed),
        Some((first, second)),
        "the pair was split elsewhere"
    );
    assert!(
        View::Flat.expose(&server, tool.as_str()).ends_with(second)
            && View::Raw.expose(&server, second) == second
    );
}

/// Header values come back as they went, and are always something HTTP can carry.
pub fn header_values(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    let encoded = header::encode(&text);
    assert!(
        encoded.bytes().all(|byte| (0x20..0x7f).contains(&byte)),
        "HTTP would refuse {encoded:?}"
    );
    assert_eq!(header::decode(&encoded).as_deref(), Some(&*text));
    if let Some(decoded) = header::decode(&text) {
        assert_eq!(
            header::decode(&header::encode(&decoded)),
            Some(decoded.clone())
        );
    }
}

/// A configuration is accepted or refused, never a crash; a refusal explains itself, and the same text is judged the same way.
///
/// `parse` is the program's loader, which this crate does not link.
pub fn config(data: &[u8], parse: impl Fn(&str) -> Result<(), String>) {
    let text = String::from_utf8_lossy(data);
    let outcome = parse(&text);
    assert_eq!(outcome, parse(&text), "judged in two ways");
    if let Err(report) = outcome {
        assert!(!report.trim().is_empty(), "refused without a word");
    }
}
