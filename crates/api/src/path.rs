//! From a path to the operation it names, and back.

use vocab::ServerId;

use crate::Operation;

/// An operation, and what its path names: a server, a caller, an approval or a call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Found {
    pub operation: Operation,
    /// Empty where the path names nothing.
    pub name: String,
}

/// Finds what stands behind [`crate::PREFIX`] in a URL, where a caller's name comes escaped.
#[must_use]
pub fn find(path: &str) -> Option<Found> {
    look_up(path, |part, text| match part {
        "{caller}" => unescaped(text),
        _ => Some(text.to_owned()),
    })
}

/// Finds what stands behind `portcullis/` in the method of a line, where nothing is escaped.
#[must_use]
pub fn find_unescaped(path: &str) -> Option<Found> {
    look_up(path, |_, text| Some(text.to_owned()))
}

fn look_up(path: &str, read: impl Fn(&str, &str) -> Option<String>) -> Option<Found> {
    Operation::ALL.iter().find_map(|operation| {
        let (before, part, after) = split(operation.row().path);
        let text = path.strip_prefix(before)?.strip_suffix(after)?;
        let name = read(part, text)?;
        is_named(part, &name).then_some(Found {
            operation: *operation,
            name,
        })
    })
}

/// A template before, in and behind its braces.
fn split(template: &str) -> (&str, &str, &str) {
    let start = template.find('{').unwrap_or(template.len());
    let end = template.find('}').map_or(template.len(), |end| end + 1);
    let (rest, after) = template.split_at_checked(end).unwrap_or((template, ""));
    let (before, part) = rest.split_at_checked(start).unwrap_or((rest, ""));
    (before, part, after)
}

/// Whether a text can be what the braces stand for. A caller may be named with anything.
fn is_named(part: &str, text: &str) -> bool {
    match part {
        "" => text.is_empty(),
        "{server}" => ServerId::parse(text).is_ok(),
        "{caller}" => !text.is_empty(),
        _ => {
            (1..=64).contains(&text.len())
                && text
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        }
    }
}

impl Operation {
    /// The path with this name in its braces, as a line writes it.
    #[must_use]
    pub fn path_for(self, name: &str) -> String {
        let (before, part, after) = split(self.row().path);
        match part {
            "" => before.to_owned(),
            _ => format!("{before}{name}{after}"),
        }
    }
}

/// Undoes percent escapes; `None` where they do not make text.
#[must_use]
pub fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        bytes.push(match byte {
            b'%' => u8::try_from(digit(rest.next())? * 16 + digit(rest.next())?).ok()?,
            byte => byte,
        });
    }
    String::from_utf8(bytes).ok()
}
