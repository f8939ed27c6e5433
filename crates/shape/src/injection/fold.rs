//! Making text plain, so that one pattern finds all its disguises.
//!
//! Cheap on purpose: ASCII is only lowered, and white space becomes one space. What is folded beyond it are the disguises that cost an attacker nothing: invisible
//! characters, full-width and mathematical letters, Cyrillic and Greek look-alikes, odd spaces.

use std::sync::LazyLock;

use wire::letters::{is_invisible, plain};

/// What becomes of a character that is not ASCII.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fold {
    Same,
    /// It is not seen, and what it is in is worth a look by the hidden rules.
    Nothing,
    /// A letter in either case, another character, or white space.
    Becomes(u8),
}

/// A code point from what its bytes carry, six bits each.
fn code(bytes: &[u8]) -> u32 {
    bytes
        .iter()
        .fold(0, |code, byte| code << 6 | u32::from(byte & 0x3f))
}

fn fold_code(code: u32) -> Fold {
    char::from_u32(code).map_or(Fold::Same, fold)
}

pub(super) fn fold(c: char) -> Fold {
    if is_invisible(c) {
        return Fold::Nothing;
    }
    match plain(c) {
        plain if plain == c => Fold::Same,
        plain => u8::try_from(plain).map_or(Fold::Same, Fold::Becomes),
    }
}

/// Folds that are looked up, so that they need not be worked out for every letter of a text.
pub(super) struct Letters {
    /// Of all characters of two bytes.
    two_bytes: Vec<Fold>,
    /// For every 64 characters of three bytes, whether all of them stay what they are.
    same: Vec<bool>,
}

impl Letters {
    pub(super) fn get() -> &'static Self {
        static LETTERS: LazyLock<Letters> = LazyLock::new(|| Letters {
            two_bytes: (0..0x800).map(fold_code).collect(),
            same: (0..0x400)
                .map(|block| {
                    (block << 6..(block + 1) << 6).all(|code| fold_code(code) == Fold::Same)
                })
                .collect(),
        });
        &LETTERS
    }

    /// The fold of the character that a text begins with, and how many bytes it takes.
    #[inline]
    pub(super) fn first(&self, text: &[u8]) -> (Fold, usize) {
        match *text {
            [lead @ 0xc0..=0xdf, next, ..] => (
                self.two_bytes
                    .get(code(&[lead & 0x1f, next]) as usize)
                    .copied()
                    .unwrap_or(Fold::Same),
                2,
            ),
            [lead @ 0xe0..=0xef, next, last, ..] => {
                let same = self
                    .same
                    .get(code(&[lead & 0x0f, next]) as usize)
                    .copied()
                    .unwrap_or_default();
                (
                    if same {
                        Fold::Same
                    } else {
                        fold_code(code(&[lead & 0x0f, next, last]))
                    },
                    3,
                )
            }
            [lead @ 0xf0..=0xf7, next, third, last, ..] => {
                (fold_code(code(&[lead & 0x07, next, third, last])), 4)
            }
            _ => (Fold::Same, 1),
        }
    }
}
