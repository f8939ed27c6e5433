//! Numbers and bytes as XDR has them (RFC 4506). Reading allocates nothing and believes no length.

/// What is left to read of a request.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Reader<'a>(&'a [u8]);

/// A request that says less, or other things, than it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Garbage;

impl<'a> Reader<'a> {
    pub(crate) const fn new(bytes: &'a [u8]) -> Self {
        Self(bytes)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], Garbage> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(Garbage)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Garbage> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Garbage)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Garbage> {
        self.fixed().map(u32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Garbage> {
        self.fixed().map(u64::from_be_bytes)
    }

    pub(crate) fn flag(&mut self) -> Result<bool, Garbage> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(Garbage),
        }
    }

    /// Bytes with their length before them, of which there may be this many.
    pub(crate) fn bytes(&mut self, most: usize) -> Result<&'a [u8], Garbage> {
        let length = usize::try_from(self.u32()?).map_err(|_| Garbage)?;
        if length > most {
            return Err(Garbage);
        }
        let taken = self.take(length)?;
        self.take(padding(length))?;
        Ok(taken)
    }

    /// A value behind a flag that says whether it is there.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Garbage>,
    ) -> Result<Option<T>, Garbage> {
        match self.flag()? {
            true => read(self).map(Some),
            false => Ok(None),
        }
    }
}

const fn padding(length: usize) -> usize {
    (4 - length % 4) % 4
}

/// An answer being written.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn flag(&mut self, value: bool) -> &mut Self {
        self.u32(u32::from(value))
    }

    pub(crate) fn fixed(&mut self, bytes: &[u8]) -> &mut Self {
        self.0.extend_from_slice(bytes);
        self
    }

    pub(crate) fn bytes(&mut self, bytes: &[u8]) -> &mut Self {
        self.u32(u32::try_from(bytes.len()).unwrap_or(u32::MAX));
        self.fixed(bytes);
        let padding = padding(bytes.len());
        self.0.resize(self.0.len() + padding, 0);
        self
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    pub(crate) fn finish(self) -> Vec<u8> {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Garbage, Reader, Writer};

    proptest! {
        #[test]
        fn what_was_written_is_read(number in any::<u32>(), long in any::<u64>(), flag in any::<bool>(), bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let mut writer = Writer::default();
            writer.u32(number).u64(long).flag(flag).bytes(&bytes);
            let written = writer.finish();
            prop_assert_eq!(written.len() % 4, 0);
            let mut reader = Reader::new(&written);
            prop_assert_eq!(reader.u32(), Ok(number));
            prop_assert_eq!(reader.u64(), Ok(long));
            prop_assert_eq!(reader.flag(), Ok(flag));
            prop_assert_eq!(reader.bytes(300), Ok(bytes.as_slice()));
            prop_assert_eq!(reader.u32(), Err(Garbage));
        }
    }

    #[test]
    fn a_length_that_lies_is_garbage() {
        for claimed in [1_u32, 5, 1 << 20, u32::MAX] {
            let bytes = claimed.to_be_bytes();
            assert_eq!(Reader::new(&bytes).bytes(1 << 20), Err(Garbage));
        }
        assert_eq!(Reader::new(&[0, 0, 0, 2]).flag(), Err(Garbage));
    }
}
