//! Long texts of several kinds, as agents send and receive them. All of them are our own.
//!
//! A text is JSON already: what stands between the quotes of a string. So quotes and line breaks in it are escaped, and an escape is
//! never cut.

use std::fmt::Write as _;

use anyhow::{Context, Result};
use base64::{Engine, engine::general_purpose::STANDARD};
use shape::{injection::RULES, secrets::SHAPES};
use wire::write;

mod passages;

/// One kind of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Text {
    /// Ordinary English with a line break in every paragraph; what the bounds are about.
    Prose,
    /// English in which people talk, with quotes all over.
    Quotes,
    /// Source code.
    Code,
    /// Rows of a search: JSON in a JSON string.
    Rows,
    Base64,
    German,
    Russian,
    /// Everything that the searches look for, short of its last byte.
    Almost,
    /// Every word that makes a rule look closer, and no rule that then refuses.
    Words,
    /// The beginning of a token of a messenger, again and again: every place could be one.
    Slack,
    /// The middle of a key of a cloud.
    Azure,
    /// The beginning of another cloud's key.
    Aws,
    /// The beginning of a signed token.
    Jwt,
}

impl Text {
    pub const ALL: [Self; 13] = [
        Self::Prose,
        Self::Quotes,
        Self::Code,
        Self::Rows,
        Self::Base64,
        Self::German,
        Self::Russian,
        Self::Almost,
        Self::Words,
        Self::Slack,
        Self::Azure,
        Self::Aws,
        Self::Jwt,
    ];

    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Prose => "prose",
            Self::Quotes => "quotes",
            Self::Code => "code",
            Self::Rows => "rows",
            Self::Base64 => "base64",
            Self::German => "german",
            Self::Russian => "russian",
            Self::Almost => "almost",
            Self::Words => "words",
            Self::Slack => "slack",
            Self::Azure => "azure",
            Self::Aws => "aws",
            Self::Jwt => "jwt",
        }
    }

    /// Whether somebody made it so that it is dear to search.
    #[must_use]
    pub const fn is_hostile(self) -> bool {
        matches!(
            self,
            Self::Almost | Self::Words | Self::Slack | Self::Azure | Self::Aws | Self::Jwt
        )
    }

    pub fn named(name: &str) -> Result<Self> {
        Self::ALL
            .into_iter()
            .find(|text| text.name() == name)
            .with_context(|| format!("there is no text `{name}`"))
    }

    /// Exactly `size` bytes of it, as they stand inside a JSON string.
    #[must_use]
    pub fn escaped(self, size: usize) -> String {
        let mut text = String::with_capacity(size);
        let mut number = 0;
        while text.len() < size {
            let piece = escaped(&self.piece(number));
            number += 1;
            // What does not fit any more is cut between two characters and not inside an escape.
            let room = size - text.len();
            let fits = if piece.len() <= room {
                piece.as_str()
            } else {
                cut(&piece, room)
            };
            text.push_str(fits);
            if fits.len() < piece.len() {
                text.extend(std::iter::repeat_n('.', room - fits.len()));
            }
        }
        text
    }

    /// The piece with this number; they come round again.
    fn piece(self, number: usize) -> String {
        let among = |passages: &[&str]| {
            passages
                .get(number % passages.len())
                .copied()
                .unwrap_or_default()
                .to_owned()
                + "\n"
        };
        match self {
            Self::Prose => among(&passages::PROSE),
            Self::Quotes => among(&passages::QUOTES),
            Self::Code => among(&passages::CODE),
            Self::Rows => row(number),
            Self::Base64 => base64(number),
            Self::German => among(&passages::GERMAN),
            Self::Russian => among(&passages::RUSSIAN),
            Self::Almost => almost(),
            Self::Words => words(),
            Self::Slack => "xoxb-".to_owned(),
            Self::Azure => "8Q~".to_owned(),
            Self::Aws => "AKIA".to_owned(),
            Self::Jwt => "-eyJaaaaaaaa".to_owned(),
        }
    }
}

/// As it stands inside a JSON string.
fn escaped(text: &str) -> String {
    let quoted = write::quoted(text);
    String::from_utf8_lossy(
        quoted
            .get(1..quoted.len().saturating_sub(1))
            .unwrap_or_default(),
    )
    .into_owned()
}

/// The longest beginning of an escaped text that has room and ends with a whole character, escaped or not.
fn cut(text: &str, room: usize) -> &str {
    let whole = text
        .get(..text.floor_char_boundary(room))
        .unwrap_or_default();
    // No escape here is longer than six bytes, and a backslash that is escaped is followed by something else than the end.
    let last = whole
        .rfind('\\')
        .filter(|at| whole.len() - at < 6)
        .unwrap_or(whole.len());
    whole.get(..last).unwrap_or_default().trim_end_matches('\\')
}

/// One row of a search, with a link, a digest and a date.
fn row(number: usize) -> String {
    let digest = (number as u128 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835);
    format!(
        "{{\"id\":{number},\"title\":\"Order {number} was not delivered\",\"author\":\"m.okafor\",\"commit\":\"{digest:040x}\",\
         \"url\":\"https://git.example.org/pay/ledger/issues/{number}\",\"at\":\"2026-11-{:02}T09:30:00Z\"}},\n",
        number % 28 + 1
    )
}

/// A line of an attachment.
fn base64(number: usize) -> String {
    let bytes: Vec<u8> = (0..3)
        .flat_map(|part| *blake3::hash(format!("{number}.{part}").as_bytes()).as_bytes())
        .collect();
    STANDARD.encode(bytes)
}

fn almost() -> String {
    let needles = RULES
        .iter()
        .flat_map(|rule| rule.words)
        .chain(SHAPES.iter().flat_map(|shape| shape.literals));
    let mut text = String::new();
    for needle in needles {
        let short = needle.get(..needle.len() - 1).unwrap_or_default();
        let _always_fits = write!(text, "{short}; {short} ");
    }
    text
}

fn words() -> String {
    RULES
        .iter()
        .flat_map(|rule| rule.words)
        .map(|word| format!("{word}; "))
        .collect()
}
