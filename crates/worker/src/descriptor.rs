//! What standard input and output are connected to.

use std::{
    fs::File,
    io,
    os::{
        fd::{BorrowedFd, OwnedFd},
        unix::{fs::FileTypeExt, net::UnixStream},
    },
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Pipe,
    Socket,
    /// A file or a terminal.
    File,
}

impl Kind {
    /// Looks at a descriptor. Must happen before the jail, which does not let us look.
    pub(crate) fn of(fd: BorrowedFd<'_>) -> io::Result<Self> {
        let kind = File::from(fd.try_clone_to_owned()?).metadata()?.file_type();
        Ok(match () {
            () if kind.is_fifo() => Self::Pipe,
            () if kind.is_socket() => Self::Socket,
            () => Self::File,
        })
    }
}

/// Switches any descriptor to non-blocking. The standard library offers this for sockets only, but asks the kernel in a way that works
/// for pipes too, and that the jail allows.
pub(crate) fn nonblocking(fd: OwnedFd) -> io::Result<OwnedFd> {
    let stream = UnixStream::from(fd);
    stream.set_nonblocking(true)?;
    Ok(stream.into())
}
