//! How a definition that a server shows now differs from the one that was approved.
//!
//! The verdict is conservative: `Narrowed` only if no text changed anywhere and the new input schema was *proved* to accept nothing
//! that the old one does not. Whatever cannot be proved is `Widened`; any new text, be it in a pattern or an enum, is `Reworded`, because
//! text is what a model reads and obeys.

mod diff;
mod infer;
mod narrow;
mod suspect;
#[cfg(test)]
mod tests;

use serde_json::Value;
use wire::{Json, Limits};

pub use infer::{infer_effect, shows_others_words, takes_address};
pub use suspect::suspicions;

/// Definitions come from a catalog whose texts are smaller.
const LIMITS: Limits = Limits::new(4 << 20, 128);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Verdict {
    /// The same value, perhaps written differently.
    Same,
    /// Accepts no input it did not accept before, and says nothing new.
    Narrowed,
    /// Says nothing new, but may accept other input.
    Widened,
    /// Says something else.
    Reworded,
}

impl Verdict {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Narrowed => "narrowed",
            Self::Widened => "widened",
            Self::Reworded => "reworded",
        }
    }
}

impl std::fmt::Display for Verdict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(self.as_str())
    }
}

/// A verdict and what a person needs to see to make up their own mind.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Comparison {
    pub verdict: Verdict,
    /// `@ where`, `- old` and `+ new` lines. Invisible characters are spelled out.
    pub diff: Vec<String>,
}

/// Compares two definitions of the same thing. Only a `tool` has an input schema that can narrow; a change of anything else is a change
/// of text.
#[must_use]
pub fn compare(kind: &str, old: &[u8], new: &[u8]) -> Comparison {
    let (Ok(old), Ok(new)) = (Json::parse(old, LIMITS), Json::parse(new, LIMITS)) else {
        let same = old == new;
        let diff = if same {
            Vec::new()
        } else {
            vec!["@ one of the two is not valid JSON".to_owned()]
        };
        return Comparison {
            verdict: if same {
                Verdict::Same
            } else {
                Verdict::Reworded
            },
            diff,
        };
    };
    if wire::canonical(old) == wire::canonical(new) {
        return Comparison {
            verdict: Verdict::Same,
            diff: Vec::new(),
        };
    }
    let verdict = if kind == "tool" {
        judge(old, new)
    } else {
        Verdict::Reworded
    };
    Comparison {
        verdict,
        diff: diff::lines(old, new),
    }
}

fn judge(old: Json<'_>, new: Json<'_>) -> Verdict {
    let rest = |json: Json<'_>| {
        wire::canonical(Json::checked_before(&wire::write::replace_fields(
            json,
            &["inputSchema"],
            |_| {},
        )))
    };
    let schema =
        |json: Json<'_>| serde_json::from_slice::<Value>(json.get("inputSchema")?.as_bytes()).ok();
    let (Some(before), Some(after), true) = (schema(old), schema(new), rest(old) == rest(new))
    else {
        return Verdict::Reworded;
    };
    if narrow::says_more(&before, &after) {
        Verdict::Reworded
    } else if narrow::accepts_no_more(&before, &after) {
        Verdict::Narrowed
    } else {
        Verdict::Widened
    }
}
