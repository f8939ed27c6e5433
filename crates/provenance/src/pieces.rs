//! A text piece by piece, for comparing sign by sign.

/// Stands between two pieces that no white space separates, and for a new beginning. No piece is either.
const GLUE: &str = "\t";
pub(crate) const BEGINNING: &str = "\n";
/// What people write around something they name, before and after it.
const OPENING: [char; 15] = [
    '"', '\'', '“', '”', '‘', '’', '«', '„', '(', '[', '{', '<', '`', '#', '@',
];
const CLOSING: [char; 18] = [
    '"', '\'', '“', '”', '‘', '’', '»', ')', ']', '}', '>', '`', '.', ',', ';', ':', '!', '?',
];

/// A text piece by piece, so that some of them one after the other are a part of the text sign by sign. Only what people write around a
/// name is a piece of its own: who says `"#general".` says `general`.
pub(crate) fn pieces(text: &str) -> Vec<String> {
    let mut out = Vec::new();
    for token in text.split_whitespace() {
        let mut rest = token;
        let mut is_glued = false;
        let mut add = |out: &mut Vec<String>, piece: &str| {
            if is_glued {
                out.push(GLUE.to_owned());
            }
            is_glued = true;
            out.push(piece.to_lowercase());
        };
        while let Some(sign) = rest.chars().next().filter(|sign| OPENING.contains(sign)) {
            let (head, tail) = rest.split_at(sign.len_utf8());
            add(&mut out, head);
            rest = tail;
        }
        let core = rest.trim_end_matches(CLOSING);
        let after = rest.get(core.len()..).unwrap_or_default();
        let owner = ["'s", "’s"]
            .iter()
            .find_map(|ending| core.strip_suffix(ending).map(|owner| (owner, *ending)));
        match owner {
            Some((owner, ending)) if !owner.is_empty() => {
                add(&mut out, owner);
                add(&mut out, ending);
            }
            _ if core.is_empty() => {}
            _ => add(&mut out, core),
        }
        for sign in after.chars() {
            add(&mut out, sign.encode_utf8(&mut [0; 4]));
        }
    }
    out
}
