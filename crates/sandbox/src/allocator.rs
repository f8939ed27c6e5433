//! How much freed memory this process keeps for itself.
//!
//! Left alone, the C library learns from long texts that long pieces of memory come and go, and keeps them from then on. One result of
//! thirty megabytes would so cost thirty megabytes for good, on every thread that had one.
#![cfg_attr(
    target_env = "gnu",
    expect(unsafe_code, reason = "the allocator is told through the C library")
)]

/// Pieces from this size on go back to the system when they are freed. Shorter ones are used again within the process.
#[cfg(target_env = "gnu")]
const LONG: libc::c_int = 4 << 20;
/// Freed memory that is kept at the end of the heap, so that it does not grow and shrink with every text.
#[cfg(target_env = "gnu")]
const KEPT: libc::c_int = 16 << 20;
/// Heaps of one process. Threads that share one wait for each other now and then; each further one keeps what it once needed.
#[cfg(target_env = "gnu")]
const HEAPS: libc::c_int = 2;

/// Says so to the allocator; to be called once, before there are threads.
pub fn give_back_long_pieces() {
    #[cfg(target_env = "gnu")]
    for (what, value) in [
        (libc::M_MMAP_THRESHOLD, LONG),
        (libc::M_TRIM_THRESHOLD, KEPT),
        (libc::M_ARENA_MAX, HEAPS),
    ] {
        // SAFETY: takes two numbers and changes settings of the allocator, under its own lock. A value that it does not take changes nothing.
        unsafe { libc::mallopt(what, value) };
    }
}
