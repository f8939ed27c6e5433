//! The Cedar half of Judge: bundles of policies, and what they say about one call.
//!
//! A [`Bundle`] is an immutable value made from texts. It refuses to exist if any policy names something the schema does not
//! know; once it exists it answers a [`Question`] with a [`Decision`], the same one every time. Nothing here reads a clock, a file
//! or a random number. Every doubt is a block: a policy that fails to evaluate, an argument that a policy cannot read, no policy
//! that permits.

mod bundle;
pub mod cases;
mod decision;
mod diff;
mod explain;
mod facts;
mod load;
mod mentions;
mod path;
mod problem;
mod question;
mod recorded;
mod rewrite;
mod rule;
mod slice;
mod source;
mod suggest;
mod tree;
mod words;

pub use bundle::Bundle;
pub use decision::{Decision, Note};
pub use diff::{Changed, diff};
pub use explain::{Explanation, Looked, Outcome};
pub use path::PathError;
pub use problem::Problem;
pub use question::{Act, Principal, Provenance, Question};
pub use recorded::{Ending, Recorded};
pub use rewrite::{RewriteOp, rewrite};
pub use suggest::suggest;
pub use words::SCHEMA;

#[cfg(test)]
mod tests;
