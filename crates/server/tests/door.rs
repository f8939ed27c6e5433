//! The doors in front of a real gate that has no server connected: guards, framing, sessions, discovery, lines, shutdown.

#[cfg(test)]
#[path = "door/guards.rs"]
mod guards;
#[cfg(test)]
#[path = "door/legacy.rs"]
mod legacy;
#[cfg(test)]
#[path = "door/lines.rs"]
mod lines;
#[cfg(test)]
#[path = "door/modern.rs"]
mod modern;
#[cfg(test)]
#[path = "door/smuggling.rs"]
mod smuggling;
#[cfg(test)]
#[path = "door/yard.rs"]
mod yard;
