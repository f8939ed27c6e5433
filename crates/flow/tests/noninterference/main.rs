//! No value from a level-L result can reach a server below L.
//!
//! Two properties of one simulated world, over the real [`flow::Session`]:
//! - **Noninterference.** Two runs that differ only in what servers above a level answer are the same to every server at or below it:
//!   each receives the same calls with the same content in the same order.
//! - **No explicit flow.** Every value carries the level of the most secret thing it was made of, and never arrives below it. This
//!   one also holds where the first cannot: when a person resets a session in the middle of its calls.
//!
//! Agents are the worst there can be: a deterministic function of everything they were shown chooses whom to call with what. Calls
//! overlap, the gate is killed and started again, and labels come back from the disk.

#[cfg(test)]
mod plan;
#[cfg(test)]
mod properties;
#[cfg(test)]
mod world;
