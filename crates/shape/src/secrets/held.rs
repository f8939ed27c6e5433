//! Values that we hold ourselves, in every spelling a server might return them in, and the one search for all there is to find.

use std::{ops::ControlFlow, sync::LazyLock};

use base64::{Engine, engine::general_purpose};
use wire::Json;

use super::{SHAPES, SecretShape};
use crate::sieve::{Seen, Sieve, Spelling};

/// Shorter values would be found in texts that have nothing to do with them.
const SHORTEST: usize = 8;

/// How JSON writes ASCII that needs no escape: a letter by its number, or a slash.
const ESCAPES: [&str; 2] = ["\\u00", "\\/"];

/// What stands at a place of a text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// A literal of this shape.
    Literal(usize),
    /// An escape that JSON does not need.
    Escape,
    /// A value of ours.
    Value,
}

/// The secrets to look for: the values we hold, besides the well-known shapes. Prints nothing of them.
pub struct Held {
    /// Shapes, escapes and values in one, so that a text is read once.
    sieve: Sieve,
    spellings: Vec<Vec<u8>>,
}

/// What is looked for whatever we hold: literals and escapes.
struct Fixed {
    sieve: Sieve,
    needles: Vec<(&'static [u8], Found)>,
}

impl Fixed {
    fn get() -> &'static Self {
        static FIXED: LazyLock<Fixed> = LazyLock::new(|| {
            let of_shape = |(at, shape): (usize, &'static SecretShape)| {
                shape
                    .literals
                    .iter()
                    .map(move |literal| (*literal, Found::Literal(at)))
            };
            let literals = SHAPES.iter().enumerate().flat_map(of_shape);
            let all = literals.chain(ESCAPES.map(|escape| (escape, Found::Escape)));
            let needles: Vec<(&[u8], Found)> = all
                .map(|(needle, found)| (needle.as_bytes(), found))
                .collect();
            let texts: Vec<&[u8]> = needles.iter().map(|(needle, _)| *needle).collect();
            Fixed {
                sieve: Sieve::new(&texts, Spelling::Exact),
                needles,
            }
        });
        &FIXED
    }
}

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({} spellings)", self.spellings.len())
    }
}

impl Default for Held {
    fn default() -> Self {
        Self::new(std::iter::empty())
    }
}

impl Held {
    /// Values shorter than eight bytes are left out.
    #[must_use]
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        Self::spelled(
            values
                .filter(|value| value.len() >= SHORTEST)
                .flat_map(spellings)
                .collect(),
        )
    }

    pub(super) fn spelled(mut spellings: Vec<Vec<u8>>) -> Self {
        spellings.sort_unstable();
        spellings.dedup();
        let borrowed: Vec<&[u8]> = spellings.iter().map(Vec::as_slice).collect();
        let fixed = Fixed::get();
        Self {
            sieve: fixed.sieve.with(fixed.needles.len(), &borrowed),
            spellings,
        }
    }

    /// Calls `found` with where each value, literal and escape stands in a text, overlapping ones too.
    pub(super) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize, Found)) {
        let fixed = Fixed::get();
        let _all: Option<()> = self.sieve.sift(text, |seen| {
            if let Seen::Core(at, core) = seen
                && let Some((needle, what)) = self.needle(fixed, core.needle)
                && let Some(start) = at.checked_sub(core.offset)
                && text
                    .get(start..)
                    .is_some_and(|rest| rest.starts_with(needle))
            {
                found(start, start + needle.len(), what);
            }
            ControlFlow::Continue(())
        });
    }

    fn needle<'a>(&'a self, fixed: &'a Fixed, at: usize) -> Option<(&'a [u8], Found)> {
        let value = || {
            Some((
                self.spellings
                    .get(at.checked_sub(fixed.needles.len())?)?
                    .as_slice(),
                Found::Value,
            ))
        };
        fixed.needles.get(at).copied().or_else(value)
    }

    /// Calls `found` with where each value stands in a text.
    pub(super) fn find_values(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        self.find(text, |start, end, what| {
            if what == Found::Value {
                found(start, end);
            }
        });
    }
}

/// The value as it is, as JSON writes it, also inside a text that is JSON itself, as URLs write it, in hex, backwards, and inside base64,
/// wherever it starts in a group of three bytes.
pub(super) fn spellings(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let mut all = vec![bytes.to_vec()];
    let once = escaped(value);
    for spelling in [once.replace('/', "\\/"), once] {
        all.push(escaped(&spelling).into_bytes());
        all.push(spelling.into_bytes());
    }
    all.push(percent(bytes));
    let backwards: String = value.chars().rev().collect();
    // What JSON would write in another way is not what anybody turns around.
    if escaped(&backwards) == backwards {
        all.push(backwards.into_bytes());
    }
    for is_upper in [false, true] {
        let digits = hex(bytes, is_upper);
        all.push(digits.concat().into_bytes());
        // URLs may write any character this way, and so may JSON.
        for before in ["%", "\\u00"] {
            all.push(
                digits
                    .iter()
                    .map(|pair| format!("{before}{pair}"))
                    .collect::<String>()
                    .into_bytes(),
            );
        }
    }
    for skip in 0..3 {
        for engine in [
            &general_purpose::STANDARD_NO_PAD,
            &general_purpose::URL_SAFE_NO_PAD,
        ] {
            let shifted: Vec<u8> = std::iter::repeat_n(0, skip)
                .chain(bytes.iter().copied())
                .collect();
            let code = engine.encode(shifted).into_bytes();
            // Characters at the edges mix with what stands before and after.
            let start = if skip == 0 { 0 } else { skip + 1 };
            let end = code.len() - usize::from(!(bytes.len() + skip).is_multiple_of(3));
            all.push(code.get(start..end).unwrap_or_default().to_vec());
        }
    }
    all.retain(|spelling| spelling.len() >= SHORTEST);
    all
}

/// A text as it stands in a JSON string.
fn escaped(text: &str) -> String {
    let quoted = wire::canonical(Json::checked_before(&wire::write::quoted(text)));
    String::from_utf8_lossy(
        quoted
            .get(1..quoted.len().saturating_sub(1))
            .unwrap_or_default(),
    )
    .into_owned()
}

/// Each byte as two digits.
fn hex(bytes: &[u8], is_upper: bool) -> Vec<String> {
    bytes
        .iter()
        .map(|byte| {
            if is_upper {
                format!("{byte:02X}")
            } else {
                format!("{byte:02x}")
            }
        })
        .collect()
}

fn percent(bytes: &[u8]) -> Vec<u8> {
    let mut out = Vec::with_capacity(bytes.len());
    for &byte in bytes {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(byte);
        } else {
            out.extend_from_slice(format!("%{byte:02X}").as_bytes());
        }
    }
    out
}
