//! Values that we hold ourselves, in every spelling a server might return them in.

use aho_corasick::{AhoCorasick, MatchKind};
use base64::{Engine, engine::general_purpose};
use wire::Json;

/// Shorter values would be found in texts that have nothing to do with them.
const SHORTEST: usize = 8;

/// Spellings that one search looks for; with more of them the fast kind of search does not work.
const AT_ONCE: usize = 60;

/// The secrets to look for, besides the well-known shapes. Prints nothing of them.
#[derive(Default)]
pub struct Held(Vec<AhoCorasick>);

impl std::fmt::Debug for Held {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Held({} spellings)", self.0.iter().map(AhoCorasick::patterns_len).sum::<usize>())
    }
}

impl Held {
    /// Values shorter than eight bytes are left out.
    #[must_use]
    pub fn new<'a>(values: impl Iterator<Item = &'a str>) -> Self {
        let mut spellings: Vec<Vec<u8>> = values.filter(|value| value.len() >= SHORTEST).flat_map(spellings).collect();
        spellings.sort_unstable();
        spellings.dedup();
        let searches =
            spellings.chunks(AT_ONCE).map(|some| AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(some));
        Self(searches.filter_map(Result::ok).collect())
    }

    /// Calls `found` with where each value stands in a text.
    pub(super) fn find(&self, text: &[u8], mut found: impl FnMut(usize, usize)) {
        for search in &self.0 {
            search.find_iter(text).for_each(|hit| found(hit.start(), hit.end()));
        }
    }
}

/// The value as it is, as JSON and URLs write it, in hex, backwards, and inside base64, wherever it starts in a group of three bytes.
fn spellings(value: &str) -> Vec<Vec<u8>> {
    let bytes = value.as_bytes();
    let mut all = vec![bytes.to_vec()];
    let quoted = wire::canonical(Json::checked_before(&wire::write::quoted(value)));
    let escaped = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default().to_vec();
    all.push(String::from_utf8_lossy(&escaped).replace('/', "\\/").into_bytes());
    all.push(escaped);
    all.push(percent(bytes));
    all.push(value.chars().rev().collect::<String>().into_bytes());
    for is_upper in [false, true] {
        let digits = hex(bytes, is_upper);
        all.push(digits.concat().into_bytes());
        // URLs may write any character this way, and so may JSON.
        for before in ["%", "\\u00"] {
            all.push(digits.iter().map(|pair| format!("{before}{pair}")).collect::<String>().into_bytes());
        }
    }
    for skip in 0..3 {
        for engine in [&general_purpose::STANDARD_NO_PAD, &general_purpose::URL_SAFE_NO_PAD] {
            let shifted: Vec<u8> = std::iter::repeat_n(0, skip).chain(bytes.iter().copied()).collect();
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

/// Each byte as two digits.
fn hex(bytes: &[u8], is_upper: bool) -> Vec<String> {
    bytes.iter().map(|byte| if is_upper { format!("{byte:02X}") } else { format!("{byte:02x}") }).collect()
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
