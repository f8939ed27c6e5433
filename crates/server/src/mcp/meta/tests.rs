use bytes::Bytes;
use wire::{Json, Limits};

use super::{Meta, SPOKEN, spoken_json};

fn read(text: &'static str) -> Result<Meta, i64> {
    let body = Bytes::from_static(text.as_bytes());
    Meta::read(
        Json::parse(&body, Limits::default()).unwrap().get("params"),
        &body,
    )
    .map_err(|problem| problem.code)
}

#[test]
fn the_required_keys_must_be_there() {
    let rows = [
        r#"{}"#,
        r#"{"params":{}}"#,
        r#"{"params":{"_meta":null}}"#,
        r#"{"params":{"_meta":{"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        r#"{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}}}"#,
        r#"{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":1,"io.modelcontextprotocol/clientCapabilities":{}}}}"#,
        r#"{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":[]}}}"#,
        r#"{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/logLevel":"loud"}}}"#,
    ];
    for row in rows {
        assert_eq!(read(row).unwrap_err(), -32602, "{row}");
    }
}

#[test]
fn what_is_there_is_kept_as_written() {
    let meta = read(
        r#"{"params":{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"x": 1.10},"progressToken":"p\u0041","io.modelcontextprotocol/logLevel":"info"}}}"#,
    )
    .unwrap();
    assert_eq!(meta.capabilities, &br#"{"x": 1.10}"#[..]);
    assert_eq!(meta.progress.unwrap(), &br#""p\u0041""#[..]);
    assert_eq!(meta.log.unwrap().as_str(), "info");
}

#[test]
fn only_modern_versions_are_spoken_statelessly() {
    let with = |version: &str| Meta {
        version: version.to_owned(),
        capabilities: Bytes::new(),
        log: None,
        progress: None,
    };
    assert!(with("2026-07-28").spoken().is_ok());
    for version in ["2025-11-25", "v999.0.0", ""] {
        let problem = with(version).spoken().unwrap_err();
        assert_eq!(problem.code, -32022);
        let object = Json::parse(&problem.object, Limits::default()).unwrap();
        assert_eq!(
            object
                .path(&["data", "requested"])
                .unwrap()
                .as_str()
                .unwrap(),
            version
        );
        assert_eq!(
            object.path(&["data", "supported"]).unwrap().as_bytes(),
            spoken_json()
        );
    }
    assert_eq!(SPOKEN.len(), 4);
}
