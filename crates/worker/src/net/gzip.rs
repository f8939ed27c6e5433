//! Decompression that cannot be used as a weapon: capped output, capped ratio.

use std::io::{self, Write};

use bytes::Bytes;
use flate2::write::MultiGzDecoder;

use crate::failure::Failure;

/// Input is fed in slices of this size, so that the cap is checked before much is produced.
const SLICE: usize = 4 << 10;
/// Honest JSON stays well below this ratio; a bomb reaches a thousand.
const MAX_RATIO: usize = 100;
/// Below this much output the ratio does not matter.
const RATIO_FLOOR: usize = 1 << 20;

#[derive(Debug)]
pub(super) struct Gunzip {
    decoder: MultiGzDecoder<Vec<u8>>,
    limit: usize,
    consumed: usize,
    produced: usize,
}

impl Gunzip {
    pub(super) fn new(limit: usize) -> Self {
        Self {
            decoder: MultiGzDecoder::new(Vec::new()),
            limit,
            consumed: 0,
            produced: 0,
        }
    }

    /// Decodes what it can of `chunk`.
    pub(super) fn feed(&mut self, chunk: &[u8]) -> Result<Bytes, Failure> {
        let mut out = Vec::new();
        for slice in chunk.chunks(SLICE) {
            self.consumed += slice.len();
            self.decoder
                .write_all(slice)
                .and_then(|()| self.decoder.flush())
                .map_err(|error| broken(&error))?;
            self.collect(&mut out)?;
        }
        Ok(out.into())
    }

    /// Checks that the stream ended where gzip says it ends.
    pub(super) fn finish(&mut self) -> Result<Bytes, Failure> {
        self.decoder.try_finish().map_err(|error| broken(&error))?;
        let mut out = Vec::new();
        self.collect(&mut out)?;
        Ok(out.into())
    }

    fn collect(&mut self, out: &mut Vec<u8>) -> Result<(), Failure> {
        let produced = self.decoder.get_mut();
        self.produced += produced.len();
        if self.produced > self.limit {
            return Err(Failure::too_large(format!(
                "the server's compressed answer unpacks to more than {} bytes",
                self.limit
            )));
        }
        if self.produced > RATIO_FLOOR && self.produced / MAX_RATIO > self.consumed {
            return Err(Failure::too_large(format!(
                "the server's answer is compressed more than {MAX_RATIO} to 1"
            )));
        }
        out.append(produced);
        Ok(())
    }
}

fn broken(error: &io::Error) -> Failure {
    Failure::invalid(format!("the server's compressed answer is broken: {error}"))
}
