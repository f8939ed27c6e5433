//! What is kept of what a command prints: the end of both streams together.

use std::collections::VecDeque;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Stream {
    Out,
    Err,
}

#[derive(Debug, Default)]
pub(crate) struct Tail {
    pieces: VecDeque<(Stream, Vec<u8>)>,
    kept: usize,
    most: usize,
    pub(crate) out_bytes: u64,
    pub(crate) err_bytes: u64,
}

/// Both streams as texts that together are no longer than the limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Texts {
    pub(crate) out: String,
    pub(crate) err: String,
    pub(crate) is_cut: bool,
    /// Some of it was no text.
    pub(crate) is_lossy: bool,
}

impl Tail {
    pub(crate) fn new(most: usize) -> Self {
        Self {
            most,
            ..Self::default()
        }
    }

    pub(crate) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let count = match stream {
            Stream::Out => &mut self.out_bytes,
            Stream::Err => &mut self.err_bytes,
        };
        *count += bytes.len() as u64;
        self.kept += bytes.len();
        self.pieces.push_back((stream, bytes.to_vec()));
        while self.kept > self.most
            && let Some((_, first)) = self.pieces.front_mut()
        {
            let dropped = (self.kept - self.most).min(first.len());
            first.drain(..dropped);
            let is_empty = first.is_empty();
            self.kept -= dropped;
            if is_empty {
                self.pieces.pop_front();
            }
        }
    }

    pub(crate) fn texts(&self) -> Texts {
        let mut texts = Texts {
            is_cut: self.out_bytes + self.err_bytes > self.kept as u64,
            ..Texts::default()
        };
        let (mut out, mut err) = (Vec::new(), Vec::new());
        for (stream, bytes) in &self.pieces {
            match stream {
                Stream::Out => out.extend_from_slice(bytes),
                Stream::Err => err.extend_from_slice(bytes),
            }
        }
        let mut text = |mut bytes: Vec<u8>, printed: u64| {
            if printed > bytes.len() as u64 {
                // The cut may have gone through a character.
                let broken = bytes
                    .iter()
                    .take(3)
                    .take_while(|byte| (0x80..0xC0).contains(*byte))
                    .count();
                bytes.drain(..broken);
            }
            texts.is_lossy |= std::str::from_utf8(&bytes).is_err();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let (out, err) = (text(out, self.out_bytes), text(err, self.err_bytes));
        // What stands for bytes that are no text is longer than they were.
        texts.err = end_of(err, self.most);
        texts.out = end_of(out, self.most.saturating_sub(texts.err.len()));
        texts
    }
}

/// The last so many bytes of a text, in whole characters.
fn end_of(text: String, most: usize) -> String {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_both_streams_is_kept() {
        let mut tail = Tail::new(10);
        tail.push(Stream::Out, b"12345678");
        tail.push(Stream::Err, b"abcd");
        let texts = tail.texts();
        assert_eq!((&*texts.out, &*texts.err), ("345678", "abcd"));
        assert!(texts.is_cut && !texts.is_lossy);
        assert_eq!((tail.out_bytes, tail.err_bytes), (8, 4));
    }

    #[test]
    fn a_cut_goes_between_characters_and_what_is_no_text_is_marked() {
        let mut tail = Tail::new(4);
        tail.push(Stream::Out, "aäöü".as_bytes());
        assert_eq!(tail.texts().out, "öü");
        let mut tail = Tail::new(5);
        tail.push(Stream::Out, "äöü".as_bytes());
        let texts = tail.texts();
        assert_eq!((&*texts.out, texts.is_lossy), ("öü", false));
        let mut tail = Tail::new(8);
        tail.push(Stream::Out, &[0xFF; 8]);
        let texts = tail.texts();
        assert!(texts.is_lossy && texts.out.len() <= 8, "{texts:?}");
    }
}
