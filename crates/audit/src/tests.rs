//! Each file is one promise of the ledger.

mod bodies; // sealed arguments, kept apart, erasable
mod bus; // every record is events, in order, one line each
mod calls; // opened, intended, concluded, abandoned
mod columns; // the keys of a record, then and now
mod combining; // many threads, one chain
mod commit; // one sync for all who wait
mod disk_full; // broken, refused, recovered
mod fake; // a disk with faults, a clock that stands still
mod faults; // a fault at every operation, power cuts, every byte
mod kill; // kill -9: acknowledged implies recovered
mod proofs; // checkpoints, inclusion proofs, rollback, forks
mod recovery; // torn tails, rotation, locks, indeterminate outcomes
mod retention; // what is removed, and what still verifies
mod second; // a second implementation, in Python
mod showing; // render, read, tail, strangers
mod sim; // a disk in memory that forgets
mod strings; // one record is one line
mod tampering; // flips, deletions, insertions, swaps
