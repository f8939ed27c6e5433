//! A server's own JSON-RPC error: the code is the caller's, the words are the operator's.
//!
//! Whatever a server puts into an error (a trace, a path, a query) must never reach an agent. The caller gets the code, a sentence of
//! ours and our envelope; message and data go to the log and the ledger. Two codes carry data that the protocol itself defines and a
//! client must act on, and only that data passes.

use vocab::{ErrorCode, Fault};
use wire::{Json, mcp::code, write::Object};

use crate::{REFUSED, TIMED_OUT, UPSTREAM_FAILED};

/// Bytes of a server's words that are searched for secrets, each of message and data.
const MAX_READ: usize = 64 << 10;
/// Bytes of them that are kept: as much as a record takes.
const MAX_CAUSE: usize = 4096;

/// One error, as its two audiences read it.
#[derive(Debug)]
pub(super) struct Told {
    /// A JSON-RPC error object for the caller.
    pub(super) object: Vec<u8>,
    /// The server's own words, for the operator.
    pub(super) cause: String,
}

/// `error` is what the server answered; `asked` is the resource that the caller wanted, if any, in its own words; `scrub` takes secrets out of what the operator reads.
pub(super) fn told(
    error: Json<'_>,
    asked: Option<&str>,
    scrub: impl Fn(&str) -> Option<String>,
) -> Told {
    let given = error
        .get("code")
        .and_then(Json::as_i64)
        .unwrap_or(code::INTERNAL_ERROR);
    // No server speaks for the gate: our own codes mean what the gate did.
    let shown = if [REFUSED, TIMED_OUT].contains(&given) {
        UPSTREAM_FAILED
    } else {
        given
    };
    let (error_code, sentence) = sentence(shown);
    let mut data = Object::new();
    data.str("status", "error")
        .str("error_code", error_code.as_str())
        .str("error", sentence);
    let said = error.get("data");
    if let Some((key, value)) = protocol_data(shown).and_then(|key| Some((key, said?.get(key)?))) {
        data.json(key, value);
    }
    if let (Some(uri), code::RESOURCE_NOT_FOUND | code::INVALID_PARAMS) = (asked, shown) {
        data.str("uri", uri);
    }
    let mut object = Object::new();
    object
        .i64("code", shown)
        .str("message", sentence)
        .raw("data", &data.finish());
    let cause = cause(given, error, said);
    let mut cause = scrub(&cause).unwrap_or(cause);
    cause.truncate(cause.floor_char_boundary(MAX_CAUSE));
    Told {
        object: object.finish(),
        cause,
    }
}

/// What a caller reads instead of the server's message.
fn sentence(code: i64) -> (ErrorCode, &'static str) {
    match code {
        code::PARSE_ERROR | code::INVALID_REQUEST => {
            (ErrorCode::InvalidInput, "The server rejected the request")
        }
        code::INVALID_PARAMS => (
            ErrorCode::InvalidInput,
            "The server rejected the parameters of this call",
        ),
        code::METHOD_NOT_FOUND => (ErrorCode::NotFound, "The server does not offer this"),
        code::RESOURCE_NOT_FOUND => (
            ErrorCode::NotFound,
            "The server does not have this resource",
        ),
        code::URL_ELICITATION_REQUIRED => (
            ErrorCode::PermissionDenied,
            "The server wants the user to open a page first",
        ),
        code::MISSING_CLIENT_CAPABILITY => (
            ErrorCode::InvalidInput,
            "The server needs a capability that the client does not have",
        ),
        // `internal` would say that the gate failed.
        _ => (ErrorCode::UpstreamUnavailable, Fault::SERVER_ERROR),
    }
}

/// The one field of `data` that the protocol defines for a code.
fn protocol_data(code: i64) -> Option<&'static str> {
    match code {
        code::URL_ELICITATION_REQUIRED => Some("elicitations"),
        code::MISSING_CLIENT_CAPABILITY => Some("requiredCapabilities"),
        _ => None,
    }
}

fn cause(code: i64, error: Json<'_>, data: Option<Json<'_>>) -> String {
    let message = error
        .get("message")
        .and_then(Json::as_str)
        .unwrap_or_default();
    let (message, _) = message.split_at(message.floor_char_boundary(MAX_READ));
    let mut cause = format!("the server answered with error {code}: {message}");
    if let Some(data) = data {
        let bytes = data.as_bytes();
        cause.push_str("; data: ");
        cause.push_str(&String::from_utf8_lossy(
            bytes.get(..MAX_READ).unwrap_or(bytes),
        ));
    }
    cause
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(error: &str) -> (serde_json::Value, String) {
        let told = told(Json::checked_before(error.as_bytes()), None, |text| {
            text.contains("hunter2")
                .then(|| text.replace("hunter2", "***"))
        });
        (serde_json::from_slice(&told.object).unwrap(), told.cause)
    }

    #[test]
    fn no_word_of_a_servers_error_is_in_what_the_caller_reads() {
        for code in [
            -32700, -32600, -32601, -32602, -32603, -32002, -32021, -32042, -32050, -31001, -31003,
            0, 7,
        ] {
            let error = format!(
                r#"{{"code":{code},"message":"Trace psycopg2","data":{{"at":"/srv/x.py"}},"x":"psycopg2"}}"#
            );
            let (object, cause) = read(&error);
            let shown = object.to_string();
            assert!(
                !shown.contains("psycopg2") && !shown.contains("x.py"),
                "{shown}"
            );
            assert_eq!(
                (object["data"]["status"].as_str(), &object["message"]),
                (Some("error"), &object["data"]["error"])
            );
            assert!(
                cause.contains("Trace psycopg2")
                    && cause.contains("/srv/x.py")
                    && cause.contains(&code.to_string()),
                "{cause}"
            );
            let expected = if [-31001, -31003].contains(&code) {
                -31002
            } else {
                code
            };
            assert_eq!(
                object["code"], expected,
                "no server speaks in the gate's own codes"
            );
        }
    }

    #[test]
    fn what_the_protocol_defines_for_a_code_passes() {
        let (object, _) = read(
            r#"{"code":-32042,"message":"m","data":{"elicitations":[{"url":"https://a"}],"more":"Trace"}}"#,
        );
        assert_eq!(object["data"]["elicitations"][0]["url"], "https://a");
        assert!(!object.to_string().contains("Trace"));
        let (object, _) = read(
            r#"{"code":-32021,"message":"m","data":{"requiredCapabilities":{"sampling":{}}}}"#,
        );
        assert_eq!(
            object["data"]["requiredCapabilities"],
            serde_json::json!({ "sampling": {} })
        );
    }

    #[test]
    fn a_long_cause_is_cut() {
        let (_, cause) = read(&format!(
            r#"{{"code":1,"message":"{}"}}"#,
            "ä".repeat(MAX_CAUSE)
        ));
        assert!(cause.len() <= MAX_CAUSE && cause.ends_with('ä'));
        let (_, cause) = read(&format!(
            r#"{{"code":1,"message":"{}hunter2"}}"#,
            "a".repeat(MAX_CAUSE - 40)
        ));
        assert!(
            cause.ends_with('*') && !cause.contains("hunt"),
            "secrets are looked for before it is cut: {cause}"
        );
    }
}
