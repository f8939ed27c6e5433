//! From bytes to text: a mark at the beginning, the header, the page's own word, UTF-8 if it is that, else Windows-1252.

use std::borrow::Cow;

use encoding_rs::{Encoding, UTF_8, WINDOWS_1252};

/// How far into a page its own word about its letters is looked for.
const LOOKED_AT: usize = 1024;

/// The text, and the name of the character set it was read with. Letters that are none are replaced.
pub(super) fn decode<'a>(bytes: &'a [u8], content_type: &str) -> (Cow<'a, str>, &'static str) {
    let said = named_in(content_type.as_bytes());
    let encoding = Encoding::for_bom(bytes)
        .map(|(encoding, _)| encoding)
        .or(said)
        .or_else(|| named_in(bytes.get(..bytes.len().min(LOOKED_AT)).unwrap_or_default()))
        .unwrap_or_else(|| match std::str::from_utf8(bytes) {
            Ok(_) => UTF_8,
            Err(_) => WINDOWS_1252,
        });
    let (text, used, _) = encoding.decode(bytes);
    (text, used.name())
}

/// What follows `charset=`, as headers and pages write it.
fn named_in(text: &[u8]) -> Option<&'static Encoding> {
    let lower = text.to_ascii_lowercase();
    let at = memchr::memmem::find(&lower, b"charset=")?;
    let rest = lower.get(at + "charset=".len()..)?;
    let rest = rest.trim_ascii_start();
    let rest = rest.strip_prefix(b"\"").unwrap_or(rest);
    let rest = rest.strip_prefix(b"'").unwrap_or(rest);
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || b"-_:.+".contains(byte);
    let length = rest.iter().take_while(|byte| is_name(byte)).count();
    Encoding::for_label(rest.get(..length)?)
}
