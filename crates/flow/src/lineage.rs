//! Lineage: from which results may this one derive, and into which has it gone?
//!
//! A node is one shown result. An agent may use everything it was shown, so what influenced a call is every result shown before it
//! was weighed. Two links say that without naming them all:
//! - `after` is the result shown last when the call was **weighed**: the newest thing it may derive from;
//! - `follows` is the result shown last when its own was **shown**. Following it from any node gives everything shown before.
//!
//! They differ when calls overlap. With `after` alone, of two results that were asked for side by side one would be lost.

use std::collections::{BTreeMap, BTreeSet};

use vocab::Level;

/// One result that a session was shown, as the ledger knows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    /// The call.
    pub id: String,
    /// The result shown last when the call was weighed, or nothing.
    pub after: String,
    /// The result shown last when this one was shown, or nothing. Where a record has none, it is the same as `after`.
    pub follows: String,
    /// The credential whose session saw it.
    pub session: String,
    pub epoch: u64,
    pub server: String,
    /// The tool, prompt or resource.
    pub target: String,
    /// What the server's results carry.
    pub level: Level,
    /// Names the content, which is not kept here.
    pub digest: String,
    pub ms: u64,
}

/// What a walk found. A walk that is not complete says so.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Trace {
    /// Backward: newest first. Forward: in the order given.
    pub nodes: Vec<Node>,
    /// Calls that a link names and nobody knows: the walk ended there.
    pub missing: Vec<String>,
    /// The limit was reached before the end.
    pub is_cut: bool,
}

impl Trace {
    #[must_use]
    pub const fn is_complete(&self) -> bool {
        self.missing.is_empty() && !self.is_cut
    }
}

/// Everything that may have influenced `id`, newest first, at most `limit` nodes.
pub fn backward(id: &str, mut lookup: impl FnMut(&str) -> Option<Node>, limit: usize) -> Trace {
    let mut trace = Trace::default();
    let Some(start) = lookup(id) else {
        trace.missing.push(id.to_owned());
        return trace;
    };
    let mut walked = BTreeSet::new();
    let mut next = start.after;
    while !next.is_empty() && walked.insert(next.clone()) {
        let Some(node) = lookup(&next) else {
            trace.missing.push(next);
            break;
        };
        next.clone_from(&node.follows);
        // A call that asked its client a question has shown a part of its result before the rest was made, so it can come after
        // something that came after itself.
        if node.id == id {
            continue;
        }
        if trace.nodes.len() == limit {
            trace.is_cut = true;
            break;
        }
        trace.nodes.push(node);
    }
    trace
}

/// Everything that `id` may have influenced, in the order of `nodes`, at most `limit` of them.
pub fn forward<'a>(
    id: &'a str,
    nodes: impl IntoIterator<Item = &'a Node> + Clone,
    limit: usize,
) -> Trace {
    let later = shown_from(id, nodes.clone());
    let mut trace = Trace::default();
    let mut is_known = false;
    for node in nodes {
        if node.id == id {
            is_known = true;
        } else if later.contains(node.after.as_str()) {
            if trace.nodes.len() == limit {
                trace.is_cut = true;
                break;
            }
            trace.nodes.push(node.clone());
        }
    }
    if !is_known && !trace.is_cut {
        trace.missing.push(id.to_owned());
    }
    trace
}

/// The head of a lineage whose head was once `saved`: the last of those that follow it, one after the other. `nodes` are results that
/// were shown; a call that failed before is none.
pub fn tip<'a>(saved: &'a str, nodes: impl IntoIterator<Item = &'a Node>) -> &'a str {
    let followers: BTreeMap<&str, &str> = nodes
        .into_iter()
        .map(|node| (node.follows.as_str(), node.id.as_str()))
        .collect();
    let mut walked = BTreeSet::new();
    let mut head = saved;
    while let Some(next) = followers.get(head).filter(|next| walked.insert(**next)) {
        head = next;
    }
    head
}

/// `id` and every result shown after it.
fn shown_from<'a>(id: &'a str, nodes: impl IntoIterator<Item = &'a Node>) -> BTreeSet<&'a str> {
    let mut followers: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for node in nodes {
        followers
            .entry(node.follows.as_str())
            .or_default()
            .push(node.id.as_str());
    }
    let mut found = BTreeSet::from([id]);
    let mut open = vec![id];
    while let Some(next) = open.pop() {
        for follower in followers.get(next).into_iter().flatten() {
            if found.insert(follower) {
                open.push(follower);
            }
        }
    }
    found
}
