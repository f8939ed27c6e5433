//! What the person said: the words in their order, and the values among them. Digests only.

use std::borrow::Cow;

use crate::{
    digest::{Digest, Key},
    form::{self, BREAK, Class, Form, Number, Reading},
    pieces::{self, BEGINNING},
    scan,
};

/// Words that are kept. Whoever pastes a book has said its beginning.
pub(crate) const MAX_WORDS: usize = 2_048;
/// Pieces of the text itself that are kept.
pub(crate) const MAX_PIECES: usize = 4_096;
/// Values among them that are kept.
pub(crate) const MAX_VALUES: usize = 1_024;

/// Words that say nothing about whom or what, so that none of them names anything alone.
const COMMON: [&str; 60] = [
    "a", "about", "after", "all", "also", "an", "and", "any", "are", "as", "at", "be", "by", "can",
    "do", "every", "everyone", "file", "files", "for", "from", "get", "have", "i", "if", "in",
    "is", "it", "its", "mail", "me", "message", "my", "new", "no", "not", "of", "on", "or", "our",
    "out", "please", "send", "so", "than", "that", "the", "their", "them", "then", "this", "to",
    "up", "us", "was", "we", "what", "with", "you", "your",
];

/// Words that make the number after them a name of something.
const COUNTERS: [&str; 5] = ["id", "no", "nr", "number", "num"];

#[derive(Debug, Clone, Default)]
pub(crate) struct Said {
    words: Vec<u64>,
    /// The text sign by sign; see [`pieces::pieces`].
    pieces: Vec<u64>,
    /// Sorted.
    values: Vec<Digest>,
    looks: Vec<u64>,
    /// The largest amount that was said with a currency; not kept on the disk.
    cap: Option<i128>,
}

/// Where some of the words stand, by place and number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Span {
    pub(crate) at: u16,
    pub(crate) len: u16,
}

impl Said {
    pub(crate) fn is_empty(&self) -> bool {
        self.words.is_empty() && self.values.is_empty()
    }

    /// Adds what a person said.
    pub(crate) fn add(&mut self, key: &Key, text: &str) {
        if !self.words.is_empty() && self.words.len() < MAX_WORDS {
            self.words.push(key.word(BREAK));
        }
        for word in form::words(text) {
            if self.words.len() >= MAX_WORDS {
                break;
            }
            self.words.push(key.word(&word));
        }
        for piece in std::iter::once(BEGINNING.to_owned()).chain(pieces::pieces(text)) {
            if self.pieces.len() >= MAX_PIECES {
                break;
            }
            self.pieces.push(key.word(&piece));
        }
        scan::values(&with_spaces(text), |found| {
            if self.values.len() >= MAX_VALUES {
                return;
            }
            self.values.push(key.value(&found.form));
            self.looks.push(key.look(&found.form));
            let amount = found.number.filter(|number| number.has_currency);
            if let Some(Number { scaled, .. }) = amount {
                self.cap = self.cap.max(Some(scaled));
            }
        });
        self.values.sort_unstable();
        self.values.dedup();
        self.looks.sort_unstable();
        self.looks.dedup();
        self.words.shrink_to_fit();
        self.pieces.shrink_to_fit();
        self.values.shrink_to_fit();
        self.looks.shrink_to_fit();
    }

    /// Whether the person said this value, other than in plain words.
    pub(crate) fn has(&self, key: &Key, form: &Form) -> bool {
        self.values.binary_search(&key.value(form)).is_ok()
    }

    pub(crate) fn looks_like_one(&self, key: &Key, form: &Form) -> bool {
        self.looks.binary_search(&key.look(form)).is_ok()
    }

    /// Where the person said these words, one after the other.
    pub(crate) fn span(&self, key: &Key, phrase: &str) -> Option<Span> {
        let words: Vec<u64> = phrase.split(' ').map(|word| key.word(word)).collect();
        let at = find(&self.words, &words)?;
        Some(Span {
            at: u16::try_from(at).ok()?,
            len: u16::try_from(words.len()).ok()?,
        })
    }

    /// Whether the person used any of these words.
    pub(crate) fn has_any(&self, key: &Key, words: &[&str]) -> bool {
        words
            .iter()
            .any(|word| self.words.contains(&key.word(word)))
    }

    /// Whether the person said this text, sign by sign.
    pub(crate) fn has_text(&self, key: &Key, text: &str) -> bool {
        let pieces: Vec<u64> = pieces::pieces(text)
            .iter()
            .map(|piece| key.word(piece))
            .collect();
        find(&self.pieces, &pieces).is_some()
    }

    /// The words by which this phrase could name something: where they were said, unless they are too common to name anything.
    pub(crate) fn naming(&self, key: &Key, phrase: &str) -> Option<Span> {
        if is_vague(phrase) {
            return None;
        }
        self.span(key, phrase)
    }

    /// Whether the person said this number as the name of something: `#7`, `id 7`, `issue 7` for an argument called `issue_number`.
    pub(crate) fn numbers(&self, key: &Key, number: &str, argument: &str) -> bool {
        let digest = key.word(number);
        let counters = COUNTERS.iter().map(|word| (*word).to_owned());
        let own = form::words(argument).filter(|word| word != BREAK && !is_vague(word));
        counters
            .chain(own)
            .any(|word| find(&self.words, &[key.word(&word), digest]).is_some())
    }

    pub(crate) fn is_within(&self, number: Number) -> bool {
        number.scaled >= 0 && self.cap.is_some_and(|cap| number.scaled <= cap)
    }

    pub(crate) fn bytes(&self) -> usize {
        (self.words.capacity() + self.pieces.capacity()) * size_of::<u64>()
            + self.values.capacity() * size_of::<Digest>()
            + self.looks.capacity() * size_of::<u64>()
    }

    /// For the disk: digests, and nothing else.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let counts = [
            self.words.len(),
            self.pieces.len(),
            self.values.len(),
            self.looks.len(),
        ];
        for count in counts {
            out.extend_from_slice(&u32::try_from(count).unwrap_or(0).to_le_bytes());
        }
        for word in self.words.iter().chain(&self.pieces).chain(&self.looks) {
            out.extend_from_slice(&word.to_le_bytes());
        }
        for Digest { high, low } in &self.values {
            out.extend_from_slice(&high.to_le_bytes());
            out.extend_from_slice(&low.to_le_bytes());
        }
    }

    /// What [`Said::write`] wrote. Nothing if it is anything else: then nothing was said.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let mut rest = text;
        let mut take = |bytes: usize| {
            let (head, tail) = rest.split_at_checked(bytes)?;
            rest = tail;
            Some(head)
        };
        let mut count = || Some(u32::from_le_bytes(take(4)?.try_into().ok()?) as usize);
        let (words, pieces, values, looks) = (count()?, count()?, count()?, count()?);
        if words > MAX_WORDS || pieces > MAX_PIECES || values.max(looks) > MAX_VALUES {
            return None;
        }
        let mut long = || Some(u64::from_le_bytes(take(8)?.try_into().ok()?));
        let words = (0..words).map(|_| long()).collect::<Option<Vec<_>>>()?;
        let pieces = (0..pieces).map(|_| long()).collect::<Option<Vec<_>>>()?;
        let looks = (0..looks).map(|_| long()).collect::<Option<Vec<_>>>()?;
        let values = (0..values)
            .map(|_| {
                Some(Digest {
                    high: u64::from_le_bytes(take(8)?.try_into().ok()?),
                    low: u32::from_le_bytes(take(4)?.try_into().ok()?),
                })
            })
            .collect::<Option<Vec<_>>>()?;
        let is_sorted = values.is_sorted() && looks.is_sorted();
        (rest.is_empty() && is_sorted).then_some(Self {
            words,
            pieces,
            values,
            looks,
            cap: None,
        })
    }
}

/// Whether words are too few or too common to name one thing.
pub(crate) fn is_vague(phrase: &str) -> bool {
    let mut telling = phrase
        .split(' ')
        .filter(|word| *word != BREAK && !COMMON.contains(word))
        .filter(|word| word.chars().count() >= 2 && !word.chars().all(|c| c.is_ascii_digit()));
    telling.next().is_none()
}

/// The text, and after it what stands before a full stop that lacks its space: who says `see example.com.They` says `example.com`.
fn with_spaces(text: &str) -> Cow<'_, str> {
    let mut more = String::new();
    for token in text.split_whitespace() {
        let Some((before, after)) = token.rsplit_once('.') else {
            continue;
        };
        let mut letters = after.chars();
        let is_word = letters.next().is_some_and(char::is_uppercase)
            && letters.clone().next().is_some()
            && letters.all(char::is_lowercase);
        if is_word && !before.contains(char::is_uppercase) && before.contains('.') {
            more.push(' ');
            more.push_str(before);
        }
    }
    if more.is_empty() {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("{text}{more}"))
    }
}

/// Where `part` stands in `whole`.
fn find(whole: &[u64], part: &[u64]) -> Option<usize> {
    if part.is_empty() {
        return None;
    }
    whole.windows(part.len()).position(|window| window == part)
}

/// The words by which a text in a field names its record; nothing for an address, a number or a date.
pub(crate) fn called(text: &str) -> Option<String> {
    match form::read(text) {
        Reading::Values(forms) => match forms.as_slice() {
            [
                Form {
                    class: Class::Phrase | Class::Link | Class::Path,
                    ..
                },
            ] => Some(form::name(text).text),
            _ => None,
        },
        Reading::Empty | Reading::Odd => None,
    }
}
