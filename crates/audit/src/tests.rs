//! Each file is one promise of the ledger.

mod calls; // opened, intended, concluded, abandoned
mod combining; // many threads, one chain
mod disk_full; // broken, refused, recovered
mod fake; // a disk with faults, a clock that stands still
mod kill; // kill -9: acknowledged implies recovered
mod recovery; // torn tails, rotation, locks, indeterminate outcomes
mod showing; // render, read, tail, strangers
mod strings; // one record is one line
mod tampering; // flips, deletions, insertions, swaps
