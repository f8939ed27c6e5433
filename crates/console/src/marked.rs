//! The one road for foreign text: names, descriptions, arguments, reasons, errors. What an eye cannot see, or what moves the text around
//! it, becomes a mark that says which sign it is.

use maud::{Markup, Render, html};
use serde::{Serialize, Serializer, ser::SerializeSeq as _};
use unicode_normalization::char::is_combining_mark;

/// Combining marks on one sign; more are a pile that covers the lines around it.
const MAX_MARKS: usize = 4;

/// A piece of foreign text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Run {
    /// Every sign of it is what it looks like.
    Plain(String),
    /// A sign that would not be seen.
    Mark(char),
}

/// Foreign text that is safe to show. Only [`marked`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marked(Vec<Run>);

/// Takes a text apart into what can be seen and what cannot.
#[must_use]
pub fn marked(text: &str) -> Marked {
    let mut runs = Vec::new();
    let mut plain = String::new();
    let mut pile = 0;
    for sign in text.chars() {
        pile = if is_combining_mark(sign) { pile + 1 } else { 0 };
        if is_hidden(sign) || pile > MAX_MARKS || (pile > 0 && plain.is_empty()) {
            if !plain.is_empty() {
                runs.push(Run::Plain(std::mem::take(&mut plain)));
            }
            runs.push(Run::Mark(sign));
        } else {
            plain.push(sign);
        }
    }
    if !plain.is_empty() {
        runs.push(Run::Plain(plain));
    }
    Marked(runs)
}

/// Whether a sign is invisible, moves text, or looks like a blank and is another one.
const fn is_hidden(sign: char) -> bool {
    matches!(sign,
        '\0'..='\x1f' | '\x7f'..='\u{9f}'
        | '\u{a0}' | '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{1680}'
        | '\u{17b4}' | '\u{17b5}' | '\u{180b}'..='\u{180f}'
        | '\u{2000}'..='\u{200f}' | '\u{2028}'..='\u{202f}' | '\u{205f}'..='\u{206f}'
        | '\u{2800}' | '\u{3000}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffc}' | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}'
        | '\u{e000}'..='\u{f8ff}' | '\u{f0000}'..='\u{10ffff}')
}

impl Marked {
    #[must_use]
    pub fn runs(&self) -> &[Run] {
        &self.0
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl Render for Marked {
    fn render(&self) -> Markup {
        html! {
            bdi {
                @for run in &self.0 {
                    @match run {
                        Run::Plain(text) => (text),
                        Run::Mark(sign) => {
                            span.mark { "U+" (format!("{:04X}", u32::from(*sign))) }
                        },
                    }
                }
            }
        }
    }
}

/// A list: texts as they are, and marks as numbers.
impl Serialize for Marked {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut list = serializer.serialize_seq(Some(self.0.len()))?;
        for run in &self.0 {
            match run {
                Run::Plain(text) => list.serialize_element(text)?,
                Run::Mark(sign) => list.serialize_element(&u32::from(*sign))?,
            }
        }
        list.end()
    }
}

/// A text of several lines: each line is marked by itself, so that line ends stay line ends.
pub(crate) fn lines(text: &str) -> Markup {
    html! {
        pre.text {
            @for line in text.split('\n') {
                (marked(line.strip_suffix('\r').unwrap_or(line))) "\n"
            }
        }
    }
}

/// A text that may be long: what is above the limit is folded away, with its size.
pub(crate) fn folded(text: &str, most: usize) -> Markup {
    if text.chars().count() <= most {
        return lines(text);
    }
    html! {
        details.long {
            summary { (text.chars().count()) " characters; open to read all" }
            (lines(text))
        }
    }
}

/// Whether a name would be taken for another one that is known, and for which.
pub(crate) fn looks_like<'a>(
    name: &str,
    known: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let shape = |name: &str| -> String {
        unicode_security::skeleton(name)
            .flat_map(char::to_lowercase)
            .collect()
    };
    let own = shape(name);
    known
        .into_iter()
        .find(|other| *other != name && shape(other) == own)
}
