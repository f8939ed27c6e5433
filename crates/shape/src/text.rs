//! Finding the strings of a JSON text without walking its structure.

/// The index after the string that opens at `start`. In a validated text a quote outside a string always opens one.
pub(crate) fn string_end(text: &[u8], start: usize) -> usize {
    let mut at = start + 1;
    while let Some(found) = text.get(at..).and_then(|rest| memchr::memchr2(b'"', b'\\', rest)) {
        at += found;
        if text.get(at) == Some(&b'"') {
            return at + 1;
        }
        at += 2;
    }
    text.len()
}
