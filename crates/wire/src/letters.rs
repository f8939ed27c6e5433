//! Letters: those that nobody sees, those that look like plain ones, and the words that names are made of.

/// Whether a character takes no room on a screen.
#[must_use]
pub fn is_invisible(c: char) -> bool {
    matches!(c,
        '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}' | '\u{180B}'..='\u{180E}'
        | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}'
        | '\u{FEFF}' | '\u{FFA0}' | '\u{E0000}'..='\u{E0FFF}' | '\u{0300}'..='\u{036F}')
}

/// The plain ASCII letter that a character looks like, or the character itself: full-width and mathematical letters, Cyrillic and Greek
/// look-alikes, accents, odd spaces.
#[must_use]
pub fn plain(c: char) -> char {
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

/// The words of a name in any of the usual styles, in lower case.
#[must_use]
pub fn name_words(name: &str) -> Vec<String> {
    let mut words: Vec<String> = Vec::new();
    let mut previous = ' ';
    let mut rest = name.chars().peekable();
    while let Some(c) = rest.next() {
        // `getURL` and `getUrl` both begin a word at the second capital run; `URLOf` begins one at `O`.
        let begins = c.is_uppercase()
            && (!previous.is_uppercase() || rest.peek().is_some_and(|next| next.is_lowercase()));
        if c.is_alphanumeric() {
            match words.last_mut() {
                Some(word) if previous.is_alphanumeric() && !begins => {
                    word.extend(c.to_lowercase())
                }
                _ => words.push(c.to_lowercase().collect()),
            }
        }
        previous = c;
    }
    words
}
