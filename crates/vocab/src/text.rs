//! Text that somebody else wrote, before a person sees it.

/// Direction marks, zero-width characters and tags: there, and not to be seen.
#[must_use]
pub const fn is_hidden(c: char) -> bool {
    matches!(c,
        '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{e0000}'..='\u{e007f}')
}

/// One line of text without anything a terminal would obey or that hides itself: controls, direction marks, zero-width characters.
#[must_use]
pub fn tame(text: &str) -> String {
    let visible = |c: char| match c {
        c if is_hidden(c) => '\u{fffd}',
        c if c.is_control() => ' ',
        c => c,
    };
    text.chars()
        .map(visible)
        .collect::<String>()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
}
