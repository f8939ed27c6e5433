//! Remote procedure calls (RFC 5531): the head of a request, and of its answer. Who a client says that it is counts for nothing.

use crate::xdr::{Garbage, Reader, Writer};

const CALL: u32 = 0;
const REPLY: u32 = 1;
const VERSION: u32 = 2;
/// The longest credential or verifier.
const LONGEST_AUTH: usize = 400;

/// The head of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    pub(crate) id: u32,
    pub(crate) program: u32,
    pub(crate) version: u32,
    pub(crate) procedure: u32,
}

/// What a request is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Call(Head),
    /// In another version of these calls.
    OtherVersion(u32),
}

impl Asked {
    /// Leaves the reader at the arguments.
    pub(crate) fn read(reader: &mut Reader<'_>) -> Result<Self, Garbage> {
        let id = reader.u32()?;
        if reader.u32()? != CALL {
            return Err(Garbage);
        }
        if reader.u32()? != VERSION {
            return Ok(Self::OtherVersion(id));
        }
        let head = Head {
            id,
            program: reader.u32()?,
            version: reader.u32()?,
            procedure: reader.u32()?,
        };
        for _credential_then_verifier in 0..2 {
            reader.u32()?;
            reader.bytes(LONGEST_AUTH)?;
        }
        Ok(Self::Call(head))
    }
}

/// How a request was taken.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Taken {
    Done,
    NoProgram,
    /// The versions that there are.
    OtherVersion(u32, u32),
    NoProcedure,
    Garbage,
}

/// The head of an answer; what the procedure says follows where it was done.
pub(crate) fn reply(id: u32, taken: Taken) -> Writer {
    let mut out = Writer::default();
    // Accepted, with a verifier of no kind and no length.
    out.u32(id).u32(REPLY).u32(0).u32(0).u32(0);
    match taken {
        Taken::Done => out.u32(0),
        Taken::NoProgram => out.u32(1),
        Taken::OtherVersion(least, most) => out.u32(2).u32(least).u32(most),
        Taken::NoProcedure => out.u32(3),
        Taken::Garbage => out.u32(4),
    };
    out
}

/// The answer to a request in another version of these calls.
pub(crate) fn other_version(id: u32) -> Vec<u8> {
    let mut out = Writer::default();
    out.u32(id)
        .u32(REPLY)
        .u32(1)
        .u32(0)
        .u32(VERSION)
        .u32(VERSION);
    out.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{Asked, Head};
    use crate::xdr::{Reader, Writer};

    proptest! {
        #[test]
        fn any_bytes_are_a_call_or_garbage(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            let _no_panic = Asked::read(&mut Reader::new(&bytes));
        }
    }

    #[test]
    fn a_call_is_read_up_to_its_arguments() {
        let mut call = Writer::default();
        call.u32(7).u32(0).u32(2).u32(100_003).u32(3).u32(1);
        call.u32(1).bytes(b"a credential").u32(0).bytes(b"");
        call.u32(42);
        let call = call.finish();
        let mut reader = Reader::new(&call);
        let head = Head {
            id: 7,
            program: 100_003,
            version: 3,
            procedure: 1,
        };
        assert_eq!(Asked::read(&mut reader), Ok(Asked::Call(head)));
        assert_eq!(reader.u32(), Ok(42));
    }
}
