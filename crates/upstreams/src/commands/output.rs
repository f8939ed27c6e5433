//! What is kept of what a command prints: the end of both streams together.

use std::collections::VecDeque;

/// Which of its two streams a command wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The last bytes of both streams, in the order they came. Each byte has a mark of its stream beside it, so that however a command
/// writes, it takes twice what is kept.
#[derive(Debug)]
pub(super) struct Tail {
    kept: VecDeque<(Stream, u8)>,
    most: usize,
    printed: [u64; 2],
    cut: [u64; 2],
}

impl Tail {
    pub(super) fn new(most: usize) -> Self {
        Self {
            kept: VecDeque::new(),
            most,
            printed: [0; 2],
            cut: [0; 2],
        }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        *count(&mut self.printed, stream) += bytes.len() as u64;
        let skipped = bytes.len().saturating_sub(self.most);
        *count(&mut self.cut, stream) += skipped as u64;
        let bytes = bytes.get(skipped..).unwrap_or_default();
        let surplus = (self.kept.len() + bytes.len()).saturating_sub(self.most);
        for (stream, _) in self.kept.drain(..surplus.min(self.kept.len())) {
            *count(&mut self.cut, stream) += 1;
        }
        self.kept.extend(bytes.iter().map(|byte| (stream, *byte)));
    }

    pub(super) fn printed(&self, stream: Stream) -> u64 {
        let [out, err] = self.printed;
        match stream {
            Stream::Out => out,
            Stream::Err => err,
        }
    }

    pub(super) fn is_cut(&self) -> bool {
        self.cut != [0, 0]
    }

    /// What is kept of a stream, and whether some of it was no text.
    pub(super) fn text(&self, which: Stream) -> (String, bool) {
        let mut bytes: Vec<u8> = self
            .kept
            .iter()
            .filter(|(stream, _)| *stream == which)
            .map(|(_, byte)| *byte)
            .collect();
        let [out, err] = self.cut;
        let cut = match which {
            Stream::Out => out,
            Stream::Err => err,
        };
        if cut > 0 {
            // The cut may have gone through a character; what is left of it belongs to what is missing.
            let broken = bytes
                .iter()
                .take(3)
                .take_while(|byte| (0x80..0xC0).contains(*byte))
                .count();
            bytes.drain(..broken);
        }
        match String::from_utf8(bytes) {
            Ok(text) => (text, false),
            Err(odd) => (String::from_utf8_lossy(odd.as_bytes()).into_owned(), true),
        }
    }
}

fn count(counts: &mut [u64; 2], stream: Stream) -> &mut u64 {
    let [out, err] = counts;
    match stream {
        Stream::Out => out,
        Stream::Err => err,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_both_streams_is_kept() {
        let mut tail = Tail::new(10);
        tail.push(Stream::Out, b"12345678");
        tail.push(Stream::Err, b"abcd");
        assert_eq!(tail.text(Stream::Out).0, "345678");
        assert_eq!(tail.text(Stream::Err), ("abcd".to_owned(), false));
        assert!(tail.is_cut());
        assert_eq!(
            (tail.printed(Stream::Out), tail.printed(Stream::Err)),
            (8, 4)
        );
    }

    #[test]
    fn a_cut_goes_between_characters_and_what_is_no_text_is_said() {
        let mut tail = Tail::new(5);
        tail.push(Stream::Out, "aäöü".as_bytes());
        assert_eq!(tail.text(Stream::Out), ("öü".to_owned(), false));
        let mut tail = Tail::new(5);
        tail.push(Stream::Err, b"\xffok");
        assert_eq!(tail.text(Stream::Err), ("\u{fffd}ok".to_owned(), true));
    }

    #[test]
    fn however_a_command_writes_no_more_than_twice_the_limit_is_held() {
        let mut tail = Tail::new(1000);
        for round in 0..100_000_u32 {
            let stream = if round % 2 == 0 {
                Stream::Out
            } else {
                Stream::Err
            };
            tail.push(stream, &[b'a' + (round % 26) as u8]);
        }
        assert!(tail.kept.len() <= 1000 && tail.kept.capacity() <= 4096);
        assert_eq!(tail.text(Stream::Out).0.len(), 500);
        assert_eq!(tail.printed(Stream::Err), 50_000);
        tail.push(Stream::Out, &vec![b'x'; 1 << 20]);
        assert!(tail.kept.len() == 1000 && tail.kept.capacity() <= 4096);
        assert_eq!(tail.text(Stream::Err).0, "");
    }
}
