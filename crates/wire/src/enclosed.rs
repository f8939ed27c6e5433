//! A long text between the two ends of its envelope, none of them copied, and all of them written at once: three buffers that pass for one.

use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// Up to three pieces, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Enclosed([Bytes; 3]);

impl Enclosed {
    #[must_use]
    pub fn new(head: impl Into<Bytes>, text: Bytes, tail: &'static [u8]) -> Self {
        Self([head.into(), text, Bytes::from_static(tail)])
    }

    /// The same between two more ends. The long piece is not copied.
    #[must_use]
    pub fn between(self, mut before: Vec<u8>, after: &[u8]) -> Self {
        let Self([head, text, tail]) = self;
        if text.is_empty() && tail.is_empty() {
            return Self([before.into(), head, Bytes::copy_from_slice(after)]);
        }
        before.extend_from_slice(&head);
        Self([before.into(), text, [&tail, after].concat().into()])
    }

    /// In order; some may be empty.
    #[must_use]
    pub const fn pieces(&self) -> &[Bytes; 3] {
        &self.0
    }
}

impl<T: Into<Bytes>> From<T> for Enclosed {
    fn from(text: T) -> Self {
        Self([text.into(), Bytes::new(), Bytes::new()])
    }
}

impl Buf for Enclosed {
    fn remaining(&self) -> usize {
        self.0.iter().map(Bytes::len).sum()
    }

    fn chunk(&self) -> &[u8] {
        self.0
            .iter()
            .find(|piece| !piece.is_empty())
            .map_or(&[], |piece| piece)
    }

    fn chunks_vectored<'a>(&'a self, into: &mut [IoSlice<'a>]) -> usize {
        let pieces = self.0.iter().filter(|piece| !piece.is_empty());
        into.iter_mut()
            .zip(pieces)
            .map(|(slice, piece)| *slice = IoSlice::new(piece))
            .count()
    }

    fn advance(&mut self, mut count: usize) {
        for piece in &mut self.0 {
            let step = count.min(piece.len());
            piece.advance(step);
            count -= step;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn abc() -> Enclosed {
        Enclosed::new(b"ab".to_vec(), Bytes::from_static(b"cdef"), b"g")
    }

    #[test]
    fn it_reads_like_one_text_however_it_is_taken() {
        for step in 1..=7 {
            let (mut left, mut read) = (abc(), Vec::new());
            while left.has_remaining() {
                let taken = step.min(left.chunk().len());
                read.extend_from_slice(&left.chunk()[..taken]);
                left.advance(taken);
            }
            assert_eq!(read, b"abcdefg");
            let mut rest = abc();
            rest.advance(step);
            assert_eq!(rest.copy_to_bytes(rest.remaining()), &b"abcdefg"[step..]);
        }
    }

    #[test]
    fn all_of_it_is_offered_at_once() {
        let (whole, one, none) = (
            abc(),
            Enclosed::new(Vec::new(), Bytes::new(), b"x"),
            Enclosed::default(),
        );
        let mut slices = [IoSlice::new(&[]); 4];
        assert_eq!(whole.chunks_vectored(&mut slices), 3);
        assert_eq!(slices.map(|slice| slice.to_vec()).concat(), b"abcdefg");
        assert_eq!(whole.chunks_vectored(&mut slices[..2]), 2);
        assert_eq!(one.chunks_vectored(&mut slices), 1);
        assert_eq!(none.chunks_vectored(&mut slices), 0);
    }
}
