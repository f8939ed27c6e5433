//! What is kept of what a program prints: the end of both streams.
//!
//! Two pipes have no common order: which of them is read first depends on the scheduler. So each stream keeps its own end, and only at the
//! last do they share the room, by a rule that does not depend on time: what one does not need is the other's, and if both want more than
//! half, each gets half.

mod reading;

use std::collections::VecDeque;

pub use reading::Reading;

/// Which of its two streams a program wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stream {
    Out,
    Err,
}

/// The end of both streams; however a program writes, it takes no more than twice the limit.
#[derive(Debug)]
pub struct Tail {
    out: End,
    err: End,
    most: usize,
}

#[derive(Debug, Default)]
struct End {
    bytes: VecDeque<u8>,
    printed: u64,
}

/// Both streams as texts that together are no longer than the limit.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Texts {
    pub out: String,
    pub err: String,
    /// Not all that was printed is here.
    pub is_cut: bool,
    /// Some of it was no text.
    pub is_lossy: bool,
}

impl Tail {
    pub fn new(most: usize) -> Self {
        Self {
            out: End::default(),
            err: End::default(),
            most,
        }
    }

    pub fn push(&mut self, stream: Stream, bytes: &[u8]) {
        let most = self.most;
        let end = match stream {
            Stream::Out => &mut self.out,
            Stream::Err => &mut self.err,
        };
        end.push(bytes, most);
    }

    /// How many bytes the program has written to a stream so far.
    pub fn printed(&self, stream: Stream) -> u64 {
        match stream {
            Stream::Out => self.out.printed,
            Stream::Err => self.err.printed,
        }
    }

    pub fn texts(&self) -> Texts {
        let half = self.most / 2;
        let room_for_err = half.max(self.most.saturating_sub(self.out.bytes.len()));
        let mut texts = Texts::default();
        texts.err = self.err.text(room_for_err, &mut texts);
        texts.out = self
            .out
            .text(self.most.saturating_sub(texts.err.len()), &mut texts);
        texts
    }
}

impl End {
    fn push(&mut self, bytes: &[u8], most: usize) {
        self.printed += bytes.len() as u64;
        let bytes = bytes
            .get(bytes.len().saturating_sub(most)..)
            .unwrap_or_default();
        let surplus = (self.bytes.len() + bytes.len()).saturating_sub(most);
        self.bytes.drain(..surplus.min(self.bytes.len()));
        self.bytes.extend(bytes);
    }

    /// The last `most` bytes in whole characters; `marks` learns whether bytes are missing or were no text.
    fn text(&self, most: usize, marks: &mut Texts) -> String {
        let skipped = self.bytes.len().saturating_sub(most);
        let mut bytes: Vec<u8> = self.bytes.range(skipped..).copied().collect();
        if self.printed > bytes.len() as u64 {
            // The cut may have gone through a character; what is left of it belongs to what is missing.
            let broken = bytes
                .iter()
                .take(3)
                .take_while(|byte| (0x80..0xC0).contains(*byte))
                .count();
            bytes.drain(..broken);
            marks.is_cut = true;
        }
        String::from_utf8(bytes).unwrap_or_else(|odd| {
            marks.is_lossy = true;
            // What stands for a byte that is no text is longer than it was.
            let text = String::from_utf8_lossy(odd.as_bytes());
            marks.is_cut |= text.len() > most;
            end_of(&text, most)
        })
    }
}

/// The last so many bytes of a text, in whole characters.
fn end_of(text: &str, most: usize) -> String {
    let mut from = text.len().saturating_sub(most);
    while !text.is_char_boundary(from) {
        from += 1;
    }
    text.get(from..).unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kept(most: usize, pieces: &[(Stream, &[u8])]) -> Texts {
        let mut tail = Tail::new(most);
        for (stream, bytes) in pieces {
            tail.push(*stream, bytes);
        }
        tail.texts()
    }

    #[test]
    fn which_pipe_is_read_first_changes_nothing() {
        let (out, err) = ((Stream::Out, &b"12345678"[..]), (Stream::Err, &b"abcd"[..]));
        for pieces in [[out, err], [err, out]] {
            let texts = kept(10, &pieces);
            assert_eq!((&*texts.out, &*texts.err), ("345678", "abcd"));
            assert!(texts.is_cut && !texts.is_lossy);
        }
        let (out, err) = (
            (Stream::Out, &b"12345678"[..]),
            (Stream::Err, &b"abcdefgh"[..]),
        );
        for pieces in [[out, err], [err, out]] {
            let texts = kept(10, &pieces);
            assert_eq!((&*texts.out, &*texts.err), ("45678", "defgh"));
        }
        assert_eq!(kept(0, &[out, err]).out, "");
        assert!(!kept(16, &[out, err]).is_cut);
    }

    #[test]
    fn a_cut_goes_between_characters_and_what_is_no_text_is_marked() {
        for most in [4, 5] {
            let texts = kept(most, &[(Stream::Out, "aäöü".as_bytes())]);
            assert_eq!((&*texts.out, texts.is_lossy), ("öü", false));
        }
        let texts = kept(8, &[(Stream::Out, &[0xFF; 8])]);
        assert!(texts.is_lossy && texts.out.len() <= 8, "{texts:?}");
        assert_eq!(kept(5, &[(Stream::Err, b"\xffok")]).err, "\u{fffd}ok");
    }

    #[test]
    fn however_a_program_writes_no_more_than_twice_the_limit_is_held() {
        let mut tail = Tail::new(1000);
        for round in 0..100_000_u32 {
            let stream = [Stream::Out, Stream::Err][(round % 2) as usize];
            tail.push(stream, &[b'a' + (round % 26) as u8]);
        }
        tail.push(Stream::Out, &vec![b'x'; 1 << 20]);
        assert!(tail.out.bytes.capacity() + tail.err.bytes.capacity() <= 4096);
        assert_eq!(tail.printed(Stream::Err), 50_000);
        let texts = tail.texts();
        assert_eq!((texts.out.len(), texts.err.len()), (500, 500));
    }
}
