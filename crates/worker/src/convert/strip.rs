//! A page without its tags: what is given where no better text can be made of it.

use super::scan::{Piece, Scan, unescaped};

/// Elements that stand in a line with others.
const INLINE: [&str; 27] = [
    "a", "abbr", "acronym", "b", "bdi", "bdo", "cite", "code", "data", "dfn", "em", "font", "i",
    "kbd", "mark", "q", "s", "samp", "small", "span", "strong", "sub", "sup", "time", "u", "var",
    "wbr",
];

pub(super) fn text(page: &str) -> String {
    let mut out = String::new();
    let mut is_title = false;
    for piece in Scan::new(page) {
        match piece {
            Piece::Text(_) if is_title => {}
            Piece::Text(text) => push(&mut out, &unescaped(text)),
            Piece::Hidden(_) | Piece::Noise => {}
            Piece::Tag(tag) => {
                is_title = tag.is("title") && !tag.is_end;
                if !tag.is_any(&INLINE) && !out.is_empty() && !out.ends_with('\n') {
                    out.truncate(out.trim_end_matches(' ').len());
                    out.push('\n');
                }
            }
        }
    }
    out.truncate(out.trim_end().len());
    out
}

/// White space between words is one space.
fn push(out: &mut String, text: &str) {
    for (index, word) in text.split_whitespace().enumerate() {
        let is_apart = index > 0 || text.starts_with(char::is_whitespace);
        if is_apart && !out.is_empty() && !out.ends_with(char::is_whitespace) {
            out.push(' ');
        }
        out.push_str(word);
    }
    let is_apart = text.ends_with(char::is_whitespace);
    if is_apart && !out.is_empty() && !out.ends_with(char::is_whitespace) {
        out.push(' ');
    }
}
