//! Reading Rust text without understanding Rust: comments and strings blanked, test code cut out.
//!
//! Line numbers survive, so a finding can name its line. Good enough to look for a word in code; never used to change code.

/// The text with comments and the insides of strings replaced by spaces.
pub(crate) fn code(text: &str) -> String {
    let chars: Vec<char> = text.chars().collect();
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    while let Some(&c) = chars.get(at) {
        let end = token_end(&chars, at);
        match end {
            Some(end) => {
                let skipped = chars.get(at..end).unwrap_or_default();
                out.extend(skipped.iter().map(|c| if *c == '\n' { '\n' } else { ' ' }));
                at = end;
            }
            None => {
                out.push(c);
                at += 1;
            }
        }
    }
    out
}

/// Where the comment or literal that starts at `at` ends, if one starts there.
fn token_end(chars: &[char], at: usize) -> Option<usize> {
    let peek = |n: usize| chars.get(at + n).copied();
    let after_word = at
        .checked_sub(1)
        .and_then(|before| chars.get(before))
        .is_some_and(|c| is_word(*c));
    match (peek(0)?, peek(1)) {
        ('/', Some('/')) => Some(until(chars, at, |c| c == '\n')),
        ('/', Some('*')) => Some(block_comment(chars, at)),
        ('"', _) => Some(string(chars, at + 1)),
        ('r', Some('"' | '#')) if !after_word => raw_string(chars, at + 1),
        ('b' | 'c', Some('r')) if !after_word => raw_string(chars, at + 2),
        ('\'', Some('\\')) => Some(until(chars, at + 3, |c| c == '\'') + 1),
        ('\'', Some(_)) if peek(2) == Some('\'') => Some(at + 3),
        _ => None,
    }
}

fn until(chars: &[char], from: usize, stop: impl Fn(char) -> bool) -> usize {
    chars
        .iter()
        .skip(from)
        .position(|c| stop(*c))
        .map_or(chars.len(), |found| from + found)
}

fn block_comment(chars: &[char], from: usize) -> usize {
    let (mut at, mut depth) = (from, 0_usize);
    while let Some(c) = chars.get(at) {
        match (c, chars.get(at + 1)) {
            ('/', Some('*')) => (at, depth) = (at + 2, depth + 1),
            ('*', Some('/')) => (at, depth) = (at + 2, depth - 1),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn string(chars: &[char], from: usize) -> usize {
    let mut at = from;
    while let Some(c) = chars.get(at) {
        match c {
            '\\' => at += 2,
            '"' => return at + 1,
            _ => at += 1,
        }
    }
    chars.len()
}

/// `from` stands on the hashes or the quote. `None` for a raw identifier such as `r#type`.
fn raw_string(chars: &[char], from: usize) -> Option<usize> {
    let hashes = until(chars, from, |c| c != '#') - from;
    if chars.get(from + hashes) != Some(&'"') {
        return None;
    }
    let mut at = from + hashes + 1;
    loop {
        at = until(chars, at, |c| c == '"') + 1;
        if at > chars.len() {
            return Some(chars.len());
        }
        if until(chars, at, |c| c != '#') - at >= hashes {
            return Some(at + hashes);
        }
    }
}

/// Code as [`code`] gives it, with items under `#[cfg(test)]` blanked as well.
pub(crate) fn without_tests(code: &str) -> String {
    let mut out = String::with_capacity(code.len());
    let mut rest = code;
    while let Some(found) = ["#[cfg(test)]", "#[cfg(all(test"]
        .iter()
        .filter_map(|mark| rest.find(mark))
        .min()
    {
        let (before, item) = rest.split_at(found);
        out.push_str(before);
        let (item, after) = item.split_at(item_end(item));
        out.extend(item.chars().map(|c| if c == '\n' { '\n' } else { ' ' }));
        rest = after;
    }
    out + rest
}

/// The end of the item at the start of `text`: its `;`, or the brace that closes its body.
fn item_end(text: &str) -> usize {
    let mut depth = 0_usize;
    for (at, c) in text.char_indices() {
        match c {
            ';' if depth == 0 => return at + 1,
            '{' => depth += 1,
            '}' if depth <= 1 => return at + 1,
            '}' => depth -= 1,
            _ => {}
        }
    }
    text.len()
}

/// Whether a file holds nothing but tests.
pub(crate) fn is_test_file(path: &str) -> bool {
    path.contains("/tests/")
        || path.ends_with("/tests.rs")
        || path.ends_with("/proofs.rs")
        || path.contains("/examples/")
}

/// Line numbers (from one) on which `needle` stands as a whole word; `needle` may hold `::` or end in `!`.
pub(crate) fn lines_with<'a>(code: &'a str, needle: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines()
        .enumerate()
        .filter(move |(_, line)| has_word(line, needle))
        .map(|(at, _)| at + 1)
}

pub(crate) fn has_word(line: &str, needle: &str) -> bool {
    find_word(line, needle, 0).is_some()
}

/// The byte position of `needle` as a whole word at or after `from`.
pub(crate) fn find_word(text: &str, needle: &str, from: usize) -> Option<usize> {
    text.get(from..)?
        .match_indices(needle)
        .map(|(at, _)| from + at)
        .find(|at| {
            let before = text.get(..*at).and_then(|head| head.chars().next_back());
            let after = text
                .get(at + needle.len()..)
                .and_then(|tail| tail.chars().next());
            let open_end = needle.ends_with(|c: char| !is_word(c));
            !before.is_some_and(is_word) && (open_end || !after.is_some_and(is_word))
        })
}

fn is_word(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}
