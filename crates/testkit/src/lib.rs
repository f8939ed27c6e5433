//! What the tests stand on: servers and clients that speak MCP for real, written for being tested against.
//!
//! Nothing here ships. A fixture may be slow or blunt, but it must never answer from a script: every reply is
//! computed from the request, so a gate that garbles a request gets a wrong answer back.
//!
//! | module | what it is | take it when |
//! |---|---|---|
//! | [`gate`] | the shipped programs in a home of their own, ended when dropped | a test needs a running gate |
//! | [`client`] | a plain MCP client of either era, over HTTP | a test says exactly what is sent and sees exactly what comes back |
//! | [`everything`] | a server with every feature of MCP, in both eras | a feature must work behind the gate |
//! | [`shifty`] | a server whose definitions change on command, and which writes down what it hears | approvals, pins, words, and that nothing was sent |
//! | [`hostile`] | a server that misbehaves in one way, by a script | the server is the enemy |
//! | [`corp`] | a company that signs its configuration | layers of the configuration |
//! | [`provider`] | an identity provider: good tokens, every kind of bad one, keys that rotate | access tokens and proofs of possession |
//! | [`guarded`] | a server behind OAuth, and its authorization server: tokens that end, rotate and are revoked | logins to servers |
//! | [`kv2`] | a secret store: KV version 2, logins, versions, trouble on demand | `secret:` references |
//! | [`reference_client`] | a client on the official SDK, for the conformance suite | the suite asks for a client |
//! | [`model`] | what the checks must decide, in plain functions that share no code with `policy` | a decision is compared with a second opinion |
//! | [`generated`] | files of the repository that are drawn from the code | a page must be current |
//! | [`procfs`] | what the kernel says about processes | a bound on a process is measured |

pub mod client;
pub mod corp;
pub mod everything;
pub mod gate;
pub mod generated;
pub mod guarded;
pub mod hostile;
pub mod kv2;
pub mod model;
pub mod procfs;
pub mod provider;
pub mod reference_client;
pub mod shifty;
