//! The MCP door: both eras, over HTTP and over lines.
//!
//! [`era`] decides which protocol a request speaks; [`legacy`] and [`modern`] turn a request into a [`calls::Turn`]: an answer known
//! here, or a call of the gate. [`calls`] carries a call to its end; [`http`] and the line door only move the messages. How a stop
//! looks to a client is said in one place, [`render`].

pub(crate) mod answer;
pub(crate) mod asks;
pub(crate) mod batch;
pub(crate) mod calls;
pub(crate) mod changes;
pub(crate) mod client;
pub(crate) mod cursor;
pub(crate) mod era;
pub(crate) mod headers;
pub(crate) mod http;
pub(crate) mod legacy;
pub(crate) mod listen;
pub(crate) mod lists;
pub(crate) mod log;
pub(crate) mod meta;
pub(crate) mod modern;
pub(crate) mod peer;
pub(crate) mod progress;
pub(crate) mod render;
pub(crate) mod replay;
pub(crate) mod session;
pub(crate) mod stream;
pub(crate) mod tasks;
mod voice;
