//! Where things stand in a policy file: the policies, their annotations, lines and columns.
//!
//! Cedar's parser gives policies no place of their own, so the text is cut at the semicolons that end policies and each piece is
//! parsed alone. Cutting knows strings and comments, nothing else; a piece that Cedar does not take is Cedar's to complain about.

/// A file and its text.
#[derive(Debug, Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) file: &'a str,
    pub(super) text: &'a str,
}

impl Place<'_> {
    /// The line and column of a byte, both from 1; columns count characters.
    pub(super) fn line_column(&self, offset: usize) -> (u32, u32) {
        let before = self.text.get(..offset).unwrap_or(self.text);
        let line = before.bytes().filter(|byte| *byte == b'\n').count() + 1;
        let column = before
            .rsplit('\n')
            .next()
            .map_or(0, |rest| rest.chars().count())
            + 1;
        (count(line), count(column))
    }
}

fn count(number: usize) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

/// One policy's text and the byte it starts at: its first annotation or keyword, after comments and space.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Piece<'a> {
    pub(super) text: &'a str,
    pub(super) offset: usize,
}

/// The policies of a file, in order. Text after the last semicolon is a piece too, unless it is only comments and space.
pub(super) fn pieces(text: &str) -> Vec<Piece<'_>> {
    let mut found = Vec::new();
    let mut start = None;
    for (at, token) in Tokens::of(text) {
        match token {
            Token::Blank => {}
            Token::Semicolon => {
                let from = start.take().unwrap_or(at);
                found.extend(text.get(from..=at).map(|text| Piece { text, offset: from }));
            }
            _ => start = start.or(Some(at)),
        }
    }
    found.extend(start.and_then(|from| text.get(from..).map(|text| Piece { text, offset: from })));
    found
}

/// The byte in a piece where an annotation starts.
pub(super) fn annotation_offset(piece: &str, name: &str) -> usize {
    Tokens::of(piece)
        .filter(|(_, token)| *token == Token::At)
        .map(|(at, _)| at)
        .find(|at| piece.get(at + 1..).is_some_and(|rest| is_word(rest, name)))
        .unwrap_or(0)
}

fn is_word(text: &str, word: &str) -> bool {
    text.trim_start()
        .strip_prefix(word)
        .is_some_and(|rest| !rest.bytes().next().is_some_and(is_letter))
}

/// How deep the syntax tree of a piece can be at most. Chains such as `a && b && c` are deep trees too.
pub(super) fn nesting(piece: &str) -> usize {
    let mut outer: Vec<Nesting> = Vec::new();
    let mut level = Nesting::default();
    for (_, token) in Tokens::of(piece) {
        match token {
            Token::Open => outer.push(std::mem::take(&mut level)),
            // What was closed is a part of the operand it stands in.
            Token::Close => {
                let around = outer.pop().unwrap_or_default();
                level = Nesting {
                    operand: around.operand + level.peak(),
                    ..around
                };
            }
            Token::Dot => level.operand += 1,
            Token::Operator => {
                let deepest = level.deepest.max(level.operand);
                level = Nesting {
                    operators: level.operators + 1,
                    operand: 0,
                    deepest,
                    ..level
                };
            }
            Token::Comma => {
                level = Nesting {
                    before: level.peak(),
                    ..Nesting::default()
                }
            }
            Token::Blank | Token::Semicolon | Token::At | Token::Other => {}
        }
    }
    level.peak() + outer.into_iter().map(Nesting::peak).sum::<usize>()
}

/// One level of brackets.
#[derive(Debug, Clone, Copy, Default)]
struct Nesting {
    operators: usize,
    /// The operand being read, and the deepest one before it.
    operand: usize,
    deepest: usize,
    /// The deepest element before the last comma.
    before: usize,
}

impl Nesting {
    fn peak(self) -> usize {
        self.before
            .max(1 + self.operators + self.deepest.max(self.operand))
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Token {
    /// Space or a comment.
    Blank,
    Semicolon,
    At,
    Open,
    Close,
    Dot,
    Comma,
    /// Anything that makes a tree of its operands; `if` is one.
    Operator,
    Other,
}

/// A walk over the text that steps over strings and comments as a whole.
struct Tokens<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Tokens<'a> {
    fn of(text: &'a str) -> Self {
        Self {
            bytes: text.as_bytes(),
            at: 0,
        }
    }

    fn rest(&self, from: usize) -> &'a [u8] {
        self.bytes.get(from..).unwrap_or_default()
    }
}

impl Iterator for Tokens<'_> {
    type Item = (usize, Token);

    fn next(&mut self) -> Option<Self::Item> {
        let at = self.at;
        let rest = self.rest(at);
        let (token, length) = match rest {
            [] => return None,
            [b'/', b'/', ..] => (
                Token::Blank,
                rest.iter()
                    .position(|byte| *byte == b'\n')
                    .unwrap_or(rest.len()),
            ),
            [b'"', ..] => (Token::Other, string_length(rest)),
            [b';', ..] => (Token::Semicolon, 1),
            [b'@', ..] => (Token::At, 1),
            [b'(' | b'[' | b'{', ..] => (Token::Open, 1),
            [b')' | b']' | b'}', ..] => (Token::Close, 1),
            [b'.', ..] => (Token::Dot, 1),
            [b',', ..] => (Token::Comma, 1),
            [b'&', b'&', ..] | [b'|', b'|', ..] | [b'=' | b'!' | b'<' | b'>', b'=', ..] => {
                (Token::Operator, 2)
            }
            [b'!' | b'<' | b'>' | b'+' | b'-' | b'*', ..] => (Token::Operator, 1),
            [byte, ..] if byte.is_ascii_whitespace() => (Token::Blank, 1),
            [byte, ..] if is_letter(*byte) => {
                let word = rest
                    .iter()
                    .position(|byte| !is_letter(*byte))
                    .unwrap_or(rest.len());
                (
                    if rest.starts_with(b"if") && word == 2 {
                        Token::Operator
                    } else {
                        Token::Other
                    },
                    word,
                )
            }
            _ => (Token::Other, 1),
        };
        self.at = at + length;
        Some((at, token))
    }
}

fn is_letter(byte: u8) -> bool {
    byte == b'_' || byte.is_ascii_alphanumeric()
}

/// The length of the string that starts here, quotes included; to the end of the text if it never ends.
fn string_length(text: &[u8]) -> usize {
    let mut escaped = false;
    for (at, byte) in text.iter().enumerate().skip(1) {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => return at + 1,
            _ => {}
        }
    }
    text.len()
}
