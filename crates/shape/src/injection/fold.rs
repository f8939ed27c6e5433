//! Making text plain, so that one pattern finds all its disguises.
//!
//! Cheap on purpose: ASCII is only lowered, and white space becomes one space. What is folded beyond it are the disguises that cost an attacker nothing: invisible
//! characters, full-width and mathematical letters, Cyrillic and Greek look-alikes, odd spaces.

use std::sync::LazyLock;

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
    if invisible(c) {
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

/// Characters that take no room on a screen.
fn invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180E}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}' | '\u{E0000}'..='\u{E0FFF}' | '\u{0300}'..='\u{036F}')
}

fn plain(c: char) -> char {
    let code = u32::from(c);
    let letter = |offset: u32| char::from_u32(u32::from('a') + offset % 26).unwrap_or(c);
    match c {
        '\u{FF01}'..='\u{FF5E}' => {
            char::from_u32(code - 0xFEE0).map_or(c, |c| c.to_ascii_lowercase())
        }
        // Upper and lower case in turn, thirteen styles of them.
        '\u{1D400}'..='\u{1D6A3}' => letter(code - 0x1D400),
        '\u{24B6}'..='\u{24CF}' => letter(code - 0x24B6),
        '\u{24D0}'..='\u{24E9}' => letter(code - 0x24D0),
        '\u{1F130}'..='\u{1F149}' => letter(code - 0x1F130),
        '\u{00A0}'
        | '\u{1680}'
        | '\u{2000}'..='\u{200A}'
        | '\u{202F}'
        | '\u{205F}'
        | '\u{3000}' => ' ',
        '\u{2028}' | '\u{2029}' | '\u{0085}' => '\n',
        'а' | 'А' | 'α' | 'Α' => 'a',
        'В' | 'Β' => 'b',
        'с' | 'С' | 'ϲ' => 'c',
        'ԁ' => 'd',
        'е' | 'Е' | 'ё' | 'Ε' => 'e',
        'һ' | 'Н' | 'Η' => 'h',
        'і' | 'І' | 'ι' | 'Ι' | 'ı' => 'i',
        'ј' | 'Ј' => 'j',
        'к' | 'К' | 'κ' | 'Κ' | '\u{212A}' => 'k',
        'М' | 'Μ' => 'm',
        'Ν' => 'n',
        'о' | 'О' | 'ο' | 'Ο' => 'o',
        'р' | 'Р' | 'ρ' | 'Ρ' => 'p',
        'ѕ' | 'Ѕ' | '\u{017F}' => 's',
        'Т' | 'Τ' | 'т' => 't',
        'υ' => 'u',
        'ν' | 'ѵ' => 'v',
        'х' | 'Х' | 'Χ' | 'χ' => 'x',
        'у' | 'У' | 'Υ' => 'y',
        'Ζ' => 'z',
        '\u{00C0}'..='\u{017E}' => accent(c),
        _ => c,
    }
}

/// Latin letters without their accents, as far as they are in the first two blocks.
fn accent(c: char) -> char {
    match c {
        'À'..='Å' | 'à'..='å' | 'Ā'..='ą' => 'a',
        'Ç' | 'ç' | 'Ć'..='č' => 'c',
        'È'..='Ë' | 'è'..='ë' | 'Ē'..='ě' => 'e',
        'Ì'..='Ï' | 'ì'..='ï' | 'Ĩ'..='İ' => 'i',
        'Ñ' | 'ñ' | 'Ń'..='ň' => 'n',
        'Ò'..='Ö' | 'ò'..='ö' | 'Ø' | 'ø' | 'Ō'..='ő' => 'o',
        'Ŕ'..='ř' => 'r',
        'Ś'..='š' => 's',
        'Ţ'..='ŧ' => 't',
        'Ù'..='Ü' | 'ù'..='ü' | 'Ũ'..='ų' => 'u',
        'Ý' | 'ý' | 'ÿ' | 'Ŷ'..='Ÿ' => 'y',
        _ => c,
    }
}
