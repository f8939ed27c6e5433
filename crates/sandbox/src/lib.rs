//! The walls: spawning, jails and the passing of descriptors.
//!
//! - [`spawn`] starts stdio servers with a cleared environment and gives their pipe ends back.
//! - [`allocator`] bounds how much freed memory a process keeps.
//! - [`descriptors`] raises how many of them may be open.
//! - [`child`] owns what was started; nothing it started outlives it, daemons included.
//! - [`jail`] starts the worker and, inside the worker, gives up every power it does not need.
//! - [`jailer`] puts programs that are not ours into jails: stdio servers, commands, converters.
//! - [`handover`] carries descriptors from the gate to the worker.
//! - [`output`] keeps the end of what a program prints.
//! - [`shared`] is memory that both of them see, for long texts.
//! - [`inspect`] reads `/proc`, for tests and `portcullis doctor`.
//! - [`escape`] tries to break out of the jail from the inside and reports what the kernel said.
//!
//! Invariants:
//! - This is the only crate with `unsafe` code, and only in `sys.rs`, `jailer/calls.rs`, `shared/map.rs` and `escape/attempt.rs`.
//! - A measure the kernel refuses is reported; it is never skipped in silence.
//! - It knows nothing of MCP, of policy or of an async runtime: it deals in processes and descriptors.
//!
//! **Invariant: unsafe code is in this crate only.** Tidy rules `unsafe` and `lint-tables`.

#[cfg(not(target_os = "linux"))]
compile_error!("the walls are built from Linux system calls; this crate has no meaning elsewhere");

pub mod allocator;
pub mod child;
pub mod descriptors;
pub mod escape;
pub mod handover;
pub mod inspect;
pub mod jail;
pub mod jailer;
pub mod output;
pub mod shared;
pub mod spawn;

mod disk;
mod keeper;
mod mark;
mod orphans;
mod registry;
mod sys;

pub use child::Child;
pub use disk::disk_use;
pub use orphans::{become_subreaper, reap_orphans};
pub use registry::kill_all;
pub use spawn::{Command, SpawnError, Spawned};

/// Makes reads and writes on a descriptor answer `WouldBlock` instead of waiting. Allowed inside the jail.
///
/// # Errors
/// If the kernel refuses.
pub fn set_nonblocking(fd: impl std::os::fd::AsFd) -> std::io::Result<()> {
    Ok(rustix::io::ioctl_fionbio(fd, true)?)
}

/// Takes a lock even if a thread panicked while holding it: the tables here are valid after every single write.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex
        .lock()
        .unwrap_or_else(std::sync::PoisonError::into_inner)
}
