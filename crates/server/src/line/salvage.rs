//! Reading the id out of a message that cannot be read otherwise, so that its sender hears of it at once.

use wire::{Json, Limits, rpc::Id};

/// The top-level `id` near the start of a broken or over-long message, if it can be told for certain.
pub(super) fn id(text: &[u8]) -> Option<Id> {
    let mut depth = 0usize;
    let mut at = 0;
    // The last byte that is not white space: a key follows an opening brace or a comma, a value does not.
    let mut before = b' ';
    while let Some(byte) = text.get(at) {
        match byte {
            b'{' | b'[' => depth += 1,
            b'}' | b']' => depth = depth.checked_sub(1)?,
            b'"' => {
                let end = string_end(text, at)?;
                let value = after_colon(text, end);
                let is_key = depth == 1 && matches!(before, b'{' | b',');
                if let (true, Some(b"\"id\""), Some(value)) = (is_key, text.get(at..end), value) {
                    return scalar(text.get(value..)?);
                }
                before = b'"';
                at = end;
                continue;
            }
            _ => {}
        }
        if !byte.is_ascii_whitespace() {
            before = *byte;
        }
        at += 1;
    }
    None
}

fn string_end(text: &[u8], open: usize) -> Option<usize> {
    let mut at = open + 1;
    loop {
        match text.get(at)? {
            b'"' => return Some(at + 1),
            b'\\' => at += 2,
            _ => at += 1,
        }
    }
}

/// Where the value starts, if a colon follows.
fn after_colon(text: &[u8], mut at: usize) -> Option<usize> {
    let skip = |mut at: usize| {
        while matches!(text.get(at), Some(b' ' | b'\t' | b'\r')) {
            at += 1;
        }
        at
    };
    at = skip(at);
    (text.get(at) == Some(&b':')).then(|| skip(at + 1))
}

/// A whole string or number at the start of `text`; one that the text cuts off could be any.
fn scalar(text: &[u8]) -> Option<Id> {
    let end = match text.first()? {
        b'"' => string_end(text, 0)?,
        _ => text.iter().position(|byte| matches!(byte, b',' | b'}' | b' ' | b'\t'))?,
    };
    Id::read(Json::parse(text.get(..end)?, Limits::new(256, 1)).ok()?)
}

#[cfg(test)]
mod tests;
