//! Where the gate runs as root, its jails do not: files of root are shown to them as their own.
//!
//! The kernel translates owners on a mount by the map of a user namespace. A process is needed to make one; it does nothing else.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;

use super::calls::{self, Forked};
use super::inside::NOBODY;

/// A user namespace in which root is [`NOBODY`], and everybody else is themselves.
pub(super) fn translate_root() -> io::Result<OwnedFd> {
    let (ready, tell) = std::io::pipe()?;
    match calls::fork()? {
        Forked::Child => {
            let made = calls::unshare(libc::CLONE_NEWUSER);
            let _ = io::Write::write_all(&mut &tell, &[made.is_ok().into()]);
            loop {
                // Killed once the namespace is held open.
                std::thread::park();
            }
        }
        Forked::Parent(child) => {
            drop(tell);
            let opened = map_and_open(child, ready);
            calls::signal(child, libc::SIGKILL);
            calls::reap(child);
            opened
        }
    }
}

fn map_and_open(child: libc::c_int, ready: io::PipeReader) -> io::Result<OwnedFd> {
    let mut made = [0];
    io::Read::read_exact(&mut &ready, &mut made)?;
    if made != [1] {
        return Err(io::Error::from_raw_os_error(libc::EPERM));
    }
    // Who is nobody on the disk is nobody's file here.
    let after = NOBODY + 1;
    let map = format!(
        "0 {NOBODY} 1\n1 1 {}\n{after} {after} {}\n",
        NOBODY - 1,
        u32::MAX - after
    );
    for file in ["uid_map", "gid_map"] {
        std::fs::write(format!("/proc/{child}/{file}"), &map)?;
    }
    Ok(File::open(format!("/proc/{child}/ns/user"))?.into())
}
