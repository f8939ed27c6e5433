//! The doors in front of a real gate that has no server connected: guards, framing, sessions, discovery, lines, shutdown.

#[path = "door/guards.rs"]
mod guards;
#[path = "door/legacy.rs"]
mod legacy;
#[path = "door/lines.rs"]
mod lines;
#[path = "door/modern.rs"]
mod modern;
#[path = "door/smuggling.rs"]
mod smuggling;
#[path = "door/yard.rs"]
mod yard;
