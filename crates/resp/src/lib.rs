//! A client of Redis and Valkey: commands out, values back, over one connection that many share.
//!
//! It speaks RESP 2, which both have always spoken, and as little of it as the gate needs: what is sent is a list of byte strings. It
//! never waits longer than whoever asks does, holds a bounded number of questions, and believes no length that it was
//! not told to expect ([decision 0111](../../../docs/decisions/0111-an-own-client-for-redis.md)).

mod client;
mod value;

pub use client::{Client, Error, Target};
pub use value::{Malformed, Value, command, parse};
