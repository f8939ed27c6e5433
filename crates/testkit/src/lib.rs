//! What the tests stand on: servers and clients that speak MCP for real, written for being tested against.
//!
//! Nothing here ships. A fixture may be slow or blunt, but it must never answer from a script: every reply is
//! computed from the request, so a gate that garbles a request gets a wrong answer back.

pub mod bench;
pub mod client;
pub mod everything;
pub mod fuzz;
pub mod gate;
pub mod hostile;
pub mod model;
pub mod procfs;
pub mod provider;
pub mod reference_client;
pub mod shifty;
