//! What a server is told of the client behind a call: which questions it can be asked, and which extensions it speaks.
//!
//! A client writes its capabilities as it pleases, and a modern server hears them with every call. So they are read, and written anew
//! from the few words that servers act on. No text of a client's own travels in them, and nobody has to judge one.

use bytes::Bytes;
use wire::{Json, mcp::TASKS_EXTENSION, write::Object};

/// The extension for user interfaces in results, and the one form of them there is.
const UI_EXTENSION: &str = "io.modelcontextprotocol/ui";
const UI_FORM: &str = "text/html;profile=mcp-app";

/// The capabilities, in words of our own.
pub(super) fn plain(capabilities: &Bytes) -> Vec<u8> {
    let given = Json::checked_before(capabilities);
    let mut out = Object::new();
    for (key, parts) in [
        ("sampling", &["context", "tools"][..]),
        ("roots", &[]),
        ("elicitation", &["form", "url"]),
    ] {
        let Some(value) = given.get(key) else {
            continue;
        };
        out.object(key, |out| {
            for part in parts.iter().filter(|part| value.get(part).is_some()) {
                out.raw(part, b"{}");
            }
        });
    }
    let extensions = given.get("extensions").unwrap_or(Json::EMPTY_OBJECT);
    let has_tasks = extensions.get(TASKS_EXTENSION).is_some();
    let ui = extensions.get(UI_EXTENSION);
    if has_tasks || ui.is_some() {
        out.object("extensions", |out| {
            if has_tasks {
                out.raw(TASKS_EXTENSION, b"{}");
            }
            if let Some(ui) = ui {
                let mut forms = ui.get("mimeTypes").into_iter().flat_map(Json::items);
                out.object(UI_EXTENSION, |out| {
                    if forms.any(|form| form.as_str().as_deref() == Some(UI_FORM)) {
                        out.raw("mimeTypes", format!("[\"{UI_FORM}\"]").as_bytes());
                    }
                });
            }
        });
    }
    out.finish()
}

#[cfg(test)]
mod tests {
    use super::plain;

    fn told(capabilities: &'static str) -> String {
        String::from_utf8(plain(&capabilities.as_bytes().into())).unwrap()
    }

    #[test]
    fn a_server_hears_of_a_client_only_what_we_say() {
        assert_eq!(told("{}"), "{}");
        assert_eq!(
            told(r#"{"elicitation":{},"sampling":{"tools":{}},"roots":{"listChanged":true}}"#),
            r#"{"sampling":{"tools":{}},"roots":{},"elicitation":{}}"#
        );
        assert_eq!(
            told(
                r#"{"extensions":{"io.modelcontextprotocol/tasks":{"x":1},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app","CANARY"]}}}"#
            ),
            r#"{"extensions":{"io.modelcontextprotocol/tasks":{},"io.modelcontextprotocol/ui":{"mimeTypes":["text/html;profile=mcp-app"]}}}"#
        );
        let talkative = r#"{"experimental":{"x":"CANARY"},"CANARY":1,"elicitation":{"form":{"a":"CANARY"},"CANARY":{}},"extensions":{"CANARY":{}},"tasks":{"CANARY":1},"sampling":"CANARY"}"#;
        assert!(!told(talkative).contains("CANARY"), "{}", told(talkative));
    }
}
