//! Whether a secret stands around a literal, found out byte by byte.
//!
//! A server chooses every byte of its results, so what one place costs is bounded: a look goes over a run of characters once, steps
//! back a few bytes at most, and a secret that was found is not looked at again. A run that several places could share is remembered
//! in [`Memo`]. So a text of nothing but beginnings of secrets costs a few nanoseconds a byte.

/// A set of ASCII characters.
#[derive(Debug, Clone, Copy)]
pub(super) struct Class(u128);

impl Class {
    /// From what a regular expression has between brackets, such as `A-Za-z0-9_-`.
    pub(super) const fn of(spec: &str) -> Self {
        let (mut rest, mut set) = (spec.as_bytes(), 0);
        loop {
            rest = match rest {
                [first, b'-', last, more @ ..] => {
                    let mut byte = *first;
                    while byte <= *last {
                        set |= 1 << byte;
                        byte += 1;
                    }
                    more
                }
                [one, more @ ..] => {
                    set |= 1 << *one;
                    more
                }
                [] => return Self(set),
            }
        }
    }

    const fn has(self, byte: u8) -> bool {
        byte < 128 && self.0 >> byte & 1 == 1
    }
}

pub(super) const ALNUM: Class = Class::of("A-Za-z0-9");
pub(super) const WORD: Class = Class::of("A-Za-z0-9_");
pub(super) const WEB: Class = Class::of("A-Za-z0-9_-");
const SCHEME: Class = Class::of("A-Za-z0-9+.-");
const LETTER: Class = Class::of("A-Za-z");
const DIGIT: Class = Class::of("0-9");
const TITLE: Class = Class::of("A-Z0-9 ");
const KEY: Class = Class::of("A-Za-z0-9/+");
/// Of characters in a name and in a password of a URL.
const USER_CHARS: usize = 128;
const PASSWORD_CHARS: usize = 256;
/// Between the name of a key and its value.
const MAX_BETWEEN: usize = 6;

/// What is secret, and where the whole match ends: further ones begin after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Hit {
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) over: usize,
}

impl Hit {
    const fn all(start: usize, end: usize) -> Self {
        Self {
            start,
            end,
            over: end,
        }
    }
}

/// Runs of characters that many places are in.
#[derive(Debug, Default)]
pub(super) struct Memo {
    ahead: [(usize, usize); 3],
    back: (usize, usize),
}

impl Memo {
    /// Where the run ends that `at` is in.
    fn run(&mut self, slot: usize, text: &[u8], class: Class, at: usize) -> usize {
        let Some(known) = self.ahead.get_mut(slot) else {
            return at;
        };
        if !(known.0..=known.1).contains(&at) || known.1 == 0 {
            *known = (at, at + run(text, class, at, usize::MAX));
        }
        known.1
    }

    /// Where the run of letters and digits begins that ends before `at`.
    fn run_back(&mut self, text: &[u8], at: usize) -> usize {
        let mut start = at;
        while let Some(byte) = start
            .checked_sub(1)
            .and_then(|before| text.get(before))
            .filter(|byte| ALNUM.has(**byte))
        {
            start -= 1;
            if start == self.back.1 && ALNUM.has(*byte) {
                start = self.back.0;
                break;
            }
        }
        self.back = (start, at);
        start
    }
}

/// How many characters of a class follow, up to a number.
fn run(text: &[u8], class: Class, at: usize, most: usize) -> usize {
    text.get(at..)
        .unwrap_or_default()
        .iter()
        .take(most)
        .take_while(|byte| class.has(**byte))
        .count()
}

/// A literal of a shape in a decoded text.
pub(super) struct Place<'a> {
    pub(super) text: &'a str,
    /// Of the literal.
    pub(super) start: usize,
    pub(super) end: usize,
    pub(super) memo: &'a mut Memo,
}

impl<'a> Place<'a> {
    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    fn is_word(&self, at: Option<usize>) -> bool {
        at.and_then(|at| self.bytes().get(at))
            .is_some_and(|byte| WORD.has(*byte))
    }

    fn has(&self, at: usize, text: &str) -> bool {
        self.bytes()
            .get(at..)
            .is_some_and(|rest| rest.starts_with(text.as_bytes()))
    }

    /// A word begins or ends here. Before a secret an underscore is the end of a word, too: it may stand behind the name of a server.
    fn is_edge(&self, at: usize) -> bool {
        self.is_word(at.checked_sub(1)) != self.is_word(Some(at))
    }

    fn begins(&self, at: usize) -> Option<()> {
        let after_underscore = at
            .checked_sub(1)
            .and_then(|before| self.bytes().get(before))
            == Some(&b'_');
        (after_underscore || self.is_edge(at)).then_some(())
    }

    /// The place after a run of so many characters.
    fn after(&self, at: usize, class: Class, least: usize, most: usize) -> Option<usize> {
        let length = run(self.bytes(), class, at, most);
        (length >= least).then_some(at + length)
    }

    /// A word that begins with the literal and goes on with so many characters.
    pub(super) fn token(&mut self, class: Class, least: usize, most: usize) -> Option<Hit> {
        self.begins(self.start)?;
        Some(Hit::all(
            self.start,
            self.after(self.end, class, least, most)?,
        ))
    }

    /// The same, with the end of a word after exactly so many.
    pub(super) fn word(&mut self, class: Class, exactly: usize) -> Option<Hit> {
        self.token(class, exactly, exactly)
            .filter(|hit| self.is_edge(hit.end))
    }

    /// Two runs with something between them.
    pub(super) fn pair(
        &mut self,
        first: (Class, usize),
        between: &str,
        second: (Class, usize),
    ) -> Option<Hit> {
        self.begins(self.start)?;
        let end = self
            .after(self.end, first.0, first.1, first.1)
            .filter(|end| self.has(*end, between))?
            + between.len();
        Some(Hit::all(
            self.start,
            self.after(end, second.0, second.1, second.1)?,
        ))
    }

    /// What follows the literal, without it.
    pub(super) fn value(&mut self, at: usize, class: Class, least: usize) -> Option<Hit> {
        Some(Hit::all(at, self.after(at, class, least, usize::MAX)?))
    }

    /// `SK` and digits; the first of them is part of the literal.
    pub(super) fn twilio(&mut self) -> Option<Hit> {
        self.end = self.start + "SK".len();
        self.word(Class::of("a-f0-9"), 32)
    }

    pub(super) fn slack(&mut self) -> Option<Hit> {
        if !self.text.get(..self.end)?.ends_with('-') {
            let rotated = [".xoxb", ".xoxp"]
                .iter()
                .find(|next| self.has(self.end, next));
            let dash = self.end + rotated.map_or(0, |next| next.len());
            self.end = if self.has(dash, "-") {
                dash + 1
            } else {
                return None;
            };
        }
        self.token(Class::of("A-Za-z0-9-"), 20, usize::MAX)
    }

    pub(super) fn slack_webhook(&mut self) -> Option<Hit> {
        let kind = ["services/", "workflows/"]
            .iter()
            .find(|kind| self.has(self.end, kind))?;
        self.value(self.end + kind.len(), Class::of("A-Za-z0-9_/-"), 24)
    }

    pub(super) fn tailscale(&mut self) -> Option<Hit> {
        self.end = self
            .after(self.end, Class::of("a-z"), 1, usize::MAX)
            .filter(|end| self.has(*end, "-"))?
            + 1;
        self.token(Class::of("A-Za-z0-9-"), 20, usize::MAX)
    }

    /// The literal stands in the middle of a key.
    pub(super) fn openai(&mut self) -> Option<Hit> {
        let from = self.memo.run_back(self.text.as_bytes(), self.start);
        let start = from
            .checked_sub("sk-".len())
            .filter(|start| self.has(*start, "sk-") && from + 16 <= self.start)?;
        self.begins(start)?;
        Some(Hit::all(
            start,
            self.after(self.end, ALNUM, 16, usize::MAX)?,
        ))
    }

    pub(super) fn telegram(&mut self) -> Option<Hit> {
        let before = self
            .bytes()
            .get(..self.start)?
            .iter()
            .rev()
            .take(11)
            .take_while(|byte| DIGIT.has(**byte))
            .count();
        let start = self
            .start
            .checked_sub(before)
            .filter(|_| (8..=10).contains(&before))?;
        self.begins(start)?;
        Some(Hit::all(start, self.after(self.end, WEB, 33, 33)?))
    }

    pub(super) fn azure_key(&mut self) -> Option<Hit> {
        let end = self.after(self.end, KEY, 40, usize::MAX)?;
        Some(Hit::all(
            self.end,
            end + run(self.bytes(), Class::of("="), end, 2),
        ))
    }

    pub(super) fn azure_signature(&mut self) -> Option<Hit> {
        let before = self
            .start
            .checked_sub(1)
            .and_then(|before| self.bytes().get(before));
        let mut end = self
            .after(self.end, Class::of("A-Za-z0-9%+/"), 40, usize::MAX)
            .filter(|_| matches!(before, Some(b'?' | b'&')))?;
        for _ in 0..2 {
            let padding = ["=", "%3d", "%3D"]
                .iter()
                .find(|padding| self.has(end, padding));
            end += padding.map_or(0, |padding| padding.len());
        }
        Some(Hit::all(self.end, end))
    }

    pub(super) fn azure_secret(&mut self) -> Option<Hit> {
        const CHARS: Class = Class::of("A-Za-z0-9_~.-");
        let start = self
            .start
            .checked_sub(3)
            .filter(|start| run(self.bytes(), CHARS, *start, 3) == 3)?;
        self.begins(start)?;
        Some(Hit::all(start, self.after(self.end, CHARS, 31, 34)?))
    }

    pub(super) fn jwt(&mut self) -> Option<Hit> {
        self.begins(self.start)?;
        let mut at = self.start;
        for slot in 0..2 {
            let from = Some(at + "eyJ".len()).filter(|_| self.has(at, "eyJ"))?;
            let end = self.memo.run(slot, self.text.as_bytes(), WEB, from);
            at = Some(end + 1).filter(|_| end >= from + 8 && self.has(end, "."))?;
        }
        let end = self.memo.run(2, self.text.as_bytes(), WEB, at);
        (end >= at + 16).then(|| Hit::all(self.start, end))
    }

    /// The name of the key is the literal; a little may stand between it and the key.
    pub(super) fn aws_secret(&mut self) -> Option<Hit> {
        let rest = self.text.get(self.end..)?;
        let between = |c: &char| c.is_whitespace() || matches!(c, '"' | '\'' | ':' | '=');
        let skipped: usize = rest
            .chars()
            .take(MAX_BETWEEN)
            .take_while(between)
            .map(char::len_utf8)
            .sum();
        let start = Some(self.end + skipped).filter(|_| skipped > 0)?;
        let end = self
            .after(start, KEY, 40, 40)
            .filter(|end| self.is_edge(*end))?;
        Some(Hit::all(start, end))
    }

    /// From its beginning to its end, or to the end of the text.
    pub(super) fn private_key(&mut self) -> Option<Hit> {
        let title = self
            .after(self.end, TITLE, 0, usize::MAX)
            .filter(|end| self.has(*end, "-----"))?;
        let words = self.text.get(self.end..title)?;
        let words = words
            .strip_suffix(" BLOCK")
            .unwrap_or(words)
            .strip_suffix("PRIVATE KEY")?;
        if !words.is_empty()
            && (words.starts_with(' ') || !words.ends_with(' ') || words.contains("  "))
        {
            return None;
        }
        let mut at = title + "-----".len();
        while let Some(found) = self
            .bytes()
            .get(at..)
            .and_then(|rest| memchr::memmem::find(rest, b"-----END "))
        {
            let from = at + found + "-----END ".len();
            let end = from + run(self.bytes(), TITLE, from, usize::MAX);
            if self.has(end, "-----") {
                return Some(Hit::all(self.start, end + "-----".len()));
            }
            at = end;
        }
        Some(Hit::all(self.start, self.text.len()))
    }

    pub(super) fn url_password(&mut self) -> Option<Hit> {
        self.scheme()?;
        let stops = |c: char| c.is_whitespace() || "/@?#\"'<>[]{}()".contains(c);
        let name = self
            .text
            .get(self.end..)?
            .char_indices()
            .take(USER_CHARS + 1)
            .find(|(_, c)| *c == ':' || stops(*c))?;
        let start = self.end + Some(name.0).filter(|_| name.1 == ':')? + 1;
        let mut chars = self
            .text
            .get(start..)?
            .char_indices()
            .take(PASSWORD_CHARS + 1)
            .enumerate();
        let (length, (at, _)) = chars.find(|(_, (_, c))| stops(*c))?;
        let end = Some(start + at).filter(|end| length >= 3 && self.has(*end, "@"))?;
        let host = self.bytes().get(end + 1)?;
        (ALNUM.has(*host) || *host == b'[').then_some(Hit {
            start,
            end,
            over: end + 2,
        })
    }

    /// Somewhere in what stands before `://` the name of a scheme begins.
    fn scheme(&self) -> Option<()> {
        let before = self
            .bytes()
            .get(..self.start)?
            .iter()
            .rev()
            .take(31)
            .take_while(|byte| SCHEME.has(**byte))
            .count();
        let letter = |at: &usize| {
            self.bytes().get(*at).is_some_and(|byte| LETTER.has(*byte))
                && self.begins(*at).is_some()
        };
        (2..=before)
            .map(|back| self.start - back)
            .find(letter)
            .map(drop)
    }
}
