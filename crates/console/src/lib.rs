//! The console: pages for a browser, from what the operator interface answers.
//!
//! Typed answers go in, bytes come out. The door of the console asks for the operations that a page needs, as any operator can; so nothing
//! is shown or done here that the command line could not show or do. Pages are whole documents and plain forms. The script that comes with
//! them adds live rows, keys and signatures, and nothing is lost without it.
//!
//! This crate must never do I/O, look at a clock, or decide.
//!
//! Invariant: foreign text reaches a page only as [`Marked`]. Templates print strings of ours, numbers, and what `marked` made; tidy rule
//! `console-templates` refuses raw markup, inline style and inline script. Test `no_text_of_others_is_ever_markup`.

pub mod assets;
mod feed;
mod marked;
mod page;
mod pages;
mod time;

pub use feed::{Row, frame, row_of_event};
pub use marked::{Marked, Run, marked};
pub use page::{HEADERS, Notice, Page, Viewer, compressed};
pub use pages::{
    approvals::{approval, approvals, digest_of as approval_digest},
    call::{Story, call},
    calls::{Calls, calls},
    credentials::visits,
    ledger::ledger,
    login::{failed, logged_out, login, welcome},
    overview::{Overview, overview},
    policy::{Policy, policy},
    servers::{review, server, servers},
    sessions::{session, sessions},
    settings::{help, settings},
    start::start,
};

#[cfg(test)]
mod tests;
