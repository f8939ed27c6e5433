//! Handing descriptors from one process to another, over a unix socket that keeps packets apart.
//!
//! One packet is a tag, at most [`MAX_BYTES`] bytes and at most [`MAX_FDS`] descriptors. A packet that is not exactly
//! that is refused whole, and every descriptor that came with it is closed: none leaks, none is guessed at.
//!
//! Both ends work blocking (then a thread of its own is the natural place) and non-blocking, by way of [`AsFd`].

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, ReturnFlags,
    SendAncillaryBuffer, SendAncillaryMessage, SendFlags, SocketFlags, SocketType, recvmsg,
    sendmsg, socketpair,
};

use crate::sys;

/// The most bytes one packet carries beside its tag.
pub const MAX_BYTES: usize = 4096;
/// The most descriptors one packet carries.
pub const MAX_FDS: usize = 4;

const TAG_BYTES: usize = size_of::<u64>();

/// One packet as received.
#[derive(Debug)]
pub struct Packet {
    pub tag: u64,
    pub bytes: Vec<u8>,
    pub fds: Vec<OwnedFd>,
}

/// What was wrong with a packet; the source of an `InvalidData` or `InvalidInput` error.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PacketError {
    #[error("a packet carries at most {MAX_BYTES} bytes; this one has more")]
    TooManyBytes,
    #[error("a packet carries at most {MAX_FDS} descriptors; this one has more")]
    TooManyDescriptors,
    #[error("a packet starts with a tag of {TAG_BYTES} bytes; this one is shorter")]
    NoTag,
}

/// The end that gives descriptors away.
#[derive(Debug)]
pub struct Sender(OwnedFd);

/// The end that takes them.
#[derive(Debug)]
pub struct Receiver(OwnedFd);

/// A connected pair, both ends closing at exec.
///
/// # Errors
/// If no socket can be made.
pub fn pair() -> io::Result<(Sender, Receiver)> {
    let (sender, receiver) = socketpair(
        AddressFamily::UNIX,
        SocketType::SEQPACKET,
        SocketFlags::CLOEXEC,
        None,
    )?;
    Ok((Sender(sender), Receiver(receiver)))
}

impl Sender {
    /// Sends one packet. The receiver gets copies of the descriptors; ours stay open until the caller drops them.
    ///
    /// # Errors
    /// `InvalidInput` if it is too large, `WouldBlock` if non-blocking and full, `BrokenPipe` if the receiver is gone.
    pub fn send(&self, tag: u64, bytes: &[u8], fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        if bytes.len() > MAX_BYTES {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                PacketError::TooManyBytes,
            ));
        }
        if fds.len() > MAX_FDS {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                PacketError::TooManyDescriptors,
            ));
        }
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        let mut ancillary = SendAncillaryBuffer::new(&mut space);
        if !fds.is_empty() && !ancillary.push(SendAncillaryMessage::ScmRights(fds)) {
            return Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                PacketError::TooManyDescriptors,
            ));
        }
        let tag = tag.to_le_bytes();
        let parts = [IoSlice::new(&tag), IoSlice::new(bytes)];
        rustix::io::retry_on_intr(|| {
            sendmsg(&self.0, &parts, &mut ancillary, SendFlags::NOSIGNAL)
        })?;
        Ok(())
    }

    /// Makes [`Sender::send`] answer `WouldBlock` instead of waiting for room.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, nonblocking)?)
    }
}

impl Receiver {
    /// The socket a worker was started with, as descriptor 3. Can be taken once.
    ///
    /// # Errors
    /// `NotFound` if this process was started without one, or it was taken already.
    pub fn inherited() -> io::Result<Self> {
        let missing = || {
            io::Error::new(
                io::ErrorKind::NotFound,
                "descriptor 3 is not a handover socket",
            )
        };
        let fd = sys::take_handover().ok_or_else(missing)?;
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Self(fd))
    }

    /// Receives one packet; `None` once the sender is gone and nothing is left.
    ///
    /// # Errors
    /// `InvalidData` for a packet that breaks the limits (the next one can still be received), `WouldBlock` if
    /// non-blocking and empty.
    pub fn receive(&self) -> io::Result<Option<Packet>> {
        let mut buffer = vec![0_u8; TAG_BYTES + MAX_BYTES];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(MAX_FDS))];
        // Dropping it closes every descriptor that was not taken out: each early return below relies on that.
        let mut ancillary = RecvAncillaryBuffer::new(&mut space);
        let received = rustix::io::retry_on_intr(|| {
            recvmsg(
                &self.0,
                &mut [IoSliceMut::new(&mut buffer)],
                &mut ancillary,
                RecvFlags::CMSG_CLOEXEC,
            )
        })?;
        let refuse = |error| Err(io::Error::new(io::ErrorKind::InvalidData, error));
        if received.flags.contains(ReturnFlags::CTRUNC) {
            return refuse(PacketError::TooManyDescriptors);
        }
        if received.flags.contains(ReturnFlags::TRUNC) {
            return refuse(PacketError::TooManyBytes);
        }
        if received.bytes == 0 {
            return Ok(None);
        }
        buffer.truncate(received.bytes);
        let Some((tag, bytes)) = buffer.split_first_chunk::<TAG_BYTES>() else {
            return refuse(PacketError::NoTag);
        };
        let fds = taken_out(&mut ancillary);
        if fds.len() > MAX_FDS {
            return refuse(PacketError::TooManyDescriptors);
        }
        Ok(Some(Packet {
            tag: u64::from_le_bytes(*tag),
            bytes: bytes.to_vec(),
            fds,
        }))
    }

    /// Makes [`Receiver::receive`] answer `WouldBlock` instead of waiting.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn set_nonblocking(&self, nonblocking: bool) -> io::Result<()> {
        Ok(rustix::io::ioctl_fionbio(&self.0, nonblocking)?)
    }

    pub(crate) fn into_fd(self) -> OwnedFd {
        self.0
    }
}

fn taken_out(ancillary: &mut RecvAncillaryBuffer<'_>) -> Vec<OwnedFd> {
    let mut fds = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(rights) = message {
            fds.extend(rights);
        }
    }
    fds
}

impl AsFd for Sender {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Sender {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

impl AsFd for Receiver {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

impl AsRawFd for Receiver {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}
