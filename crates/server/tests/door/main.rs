//! The doors in front of a real gate that has no server connected: guards, framing, sessions, discovery, lines, shutdown.
#![cfg(test)]

mod admin;
mod explain;
mod guards;
mod legacy;
mod lines;
mod modern;
mod reload;
mod seal;
mod smuggling;
mod yard;
