//! What is kept of what a command prints: the end of both streams together.

use std::collections::VecDeque;

/// Which of its two streams a command wrote to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stream {
    Out,
    Err,
}

/// The last bytes of both streams.
#[derive(Debug)]
pub(super) struct Tail {
    pieces: VecDeque<(Stream, Vec<u8>)>,
    kept: usize,
    most: usize,
    printed: [u64; 2],
    cut: [u64; 2],
}

impl Tail {
    pub(super) fn new(most: usize) -> Self {
        Self {
            pieces: VecDeque::new(),
            kept: 0,
            most,
            printed: [0; 2],
            cut: [0; 2],
        }
    }

    pub(super) fn push(&mut self, stream: Stream, bytes: &[u8]) {
        *count(&mut self.printed, stream) += bytes.len() as u64;
        self.kept += bytes.len();
        self.pieces.push_back((stream, bytes.to_vec()));
        while self.kept > self.most {
            let surplus = self.kept - self.most;
            let Some((stream, first)) = self.pieces.front_mut() else {
                break;
            };
            let dropped = surplus.min(first.len());
            first.drain(..dropped);
            let (stream, is_empty) = (*stream, first.is_empty());
            self.kept -= dropped;
            *count(&mut self.cut, stream) += dropped as u64;
            if is_empty {
                self.pieces.pop_front();
            }
        }
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

    /// What is kept of a stream, with a line that says how much is missing; and whether some of it was no text.
    pub(super) fn text(&self, which: Stream) -> (String, bool) {
        let mut bytes: Vec<u8> = self
            .pieces
            .iter()
            .filter(|(stream, _)| *stream == which)
            .flat_map(|(_, bytes)| bytes.iter().copied())
            .collect();
        let [out, err] = self.cut;
        let cut = match which {
            Stream::Out => out,
            Stream::Err => err,
        };
        let mut text = String::new();
        if cut > 0 {
            // The cut may have gone through a character; what is left of it belongs to what is missing.
            let broken = bytes
                .iter()
                .take(3)
                .take_while(|byte| (0x80..0xC0).contains(*byte))
                .count();
            bytes.drain(..broken);
            text = format!("[{} bytes before this are left out]\n", cut + broken as u64);
        }
        let is_lossy = std::str::from_utf8(&bytes).is_err();
        text.push_str(&String::from_utf8_lossy(&bytes));
        (text, is_lossy)
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
        assert_eq!(
            tail.text(Stream::Out).0,
            "[2 bytes before this are left out]\n345678"
        );
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
        assert_eq!(
            tail.text(Stream::Out),
            ("[3 bytes before this are left out]\nöü".to_owned(), false)
        );
        let mut tail = Tail::new(5);
        tail.push(Stream::Err, b"\xffok");
        assert_eq!(tail.text(Stream::Err), ("\u{fffd}ok".to_owned(), true));
    }
}
