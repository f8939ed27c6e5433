//! Values of `Mcp-Name` and `Mcp-Param-*` headers: plain where HTTP can carry them, else `=?base64?…?=`.

use std::borrow::Cow;

use base64::{Engine, engine::general_purpose::STANDARD};

const OPEN: &str = "=?base64?";
const CLOSE: &str = "?=";

/// Encodes a value for a header. Anything HTTP would change or refuse (edges of white space, control or non-ASCII characters), and
/// anything that would be mistaken for an encoded value, is encoded.
#[must_use]
pub fn encode(value: &str) -> Cow<'_, str> {
    let visible = value.bytes().all(|byte| (0x20..0x7f).contains(&byte));
    let edges = value.starts_with(' ') || value.ends_with(' ') || value.is_empty();
    if visible && !edges && !(value.starts_with(OPEN) && value.ends_with(CLOSE)) {
        return Cow::Borrowed(value);
    }
    Cow::Owned(format!("{OPEN}{}{CLOSE}", STANDARD.encode(value)))
}

/// Decodes a header value; `None` if it claims to be encoded and is not.
#[must_use]
pub fn decode(value: &str) -> Option<Cow<'_, str>> {
    let value = value.trim_matches([' ', '\t']);
    let Some(inner) = value
        .strip_prefix(OPEN)
        .and_then(|rest| rest.strip_suffix(CLOSE))
    else {
        return Some(Cow::Borrowed(value));
    };
    String::from_utf8(STANDARD.decode(inner).ok()?)
        .ok()
        .map(Cow::Owned)
}
