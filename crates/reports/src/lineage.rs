//! The lineage of a session's calls, as the ledger has it: a projection, kept nowhere else.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
};

use api::ShownCall;
use audit::{Filter, Record};
use flow::lineage::{self, Node};
use vocab::Level;

/// Longer lineages are cut, and say so.
const MOST: usize = 10_000;
/// How far back a saved head is first looked for. The whole ledger is read only where that was not enough.
const WINDOWS: [u64; 3] = [20_000, 400_000, u64::MAX];

/// Calls that belong together, and the links between their results.
#[derive(Debug, Default)]
pub struct Calls {
    calls: BTreeMap<String, ShownCall>,
    /// In the order of the ledger.
    nodes: Vec<Node>,
    place: BTreeMap<String, usize>,
}

/// Calls that a walk found; `whole` is false where links lead to calls that are not in the ledger any more, or too far.
#[derive(Debug)]
pub struct Walk {
    pub calls: Vec<ShownCall>,
    pub whole: bool,
}

impl Calls {
    /// Every call of one caller.
    pub fn of_caller(ledger: &Path, caller: &str) -> io::Result<Self> {
        Self::read(
            ledger,
            Filter {
                caller: caller.to_owned(),
                ..Filter::default()
            },
        )
    }

    fn read(ledger: &Path, filter: Filter) -> io::Result<Self> {
        let mut calls = Self::default();
        for record in audit::read(ledger, filter)? {
            calls.take(record?);
        }
        Ok(calls)
    }

    /// The intent says what a call was weighed after. Its outcome adds, as a second word, what its result followed when it was
    /// shown, where that is something else.
    pub fn take(&mut self, record: Record) {
        if record.call.is_empty() || record.kind == "change" {
            return;
        }
        let mut links = record.after.split_whitespace();
        let (first, last) = (links.next().unwrap_or_default(), links.next());
        match self
            .place
            .get(&record.call)
            .and_then(|place| self.nodes.get_mut(*place))
        {
            Some(node) => {
                node.follows = last.unwrap_or(first).to_owned();
                node.digest.clone_from(&record.result);
            }
            None => {
                self.place.insert(record.call.clone(), self.nodes.len());
                self.nodes
                    .push(node_of(&record, first, last.unwrap_or(first)));
            }
        }
        let call = self
            .calls
            .entry(record.call.clone())
            .or_insert_with(|| ShownCall {
                call: record.call,
                time: record.time,
                caller: record.caller,
                server: record.server,
                tool: if record.tool.is_empty() {
                    record.action
                } else {
                    record.tool
                },
                verdict: String::new(),
                label: record.label,
                label_after: String::new(),
            });
        if record.kind != "intent" {
            call.verdict = record.verdict;
            call.label_after = record.label_after;
        }
    }

    /// The calls of whoever made `call`; nothing where the ledger has no such call.
    pub fn around(ledger: &Path, call: &str) -> io::Result<Option<Self>> {
        let filter = Filter {
            call: call.to_owned(),
            ..Filter::default()
        };
        let own = |record: &io::Result<Record>| record.as_ref().map_or(true, Record::is_of_a_call);
        let first = audit::read(ledger, filter)?.find(own).transpose()?;
        first
            .map(|record| Self::of_caller(ledger, &record.caller))
            .transpose()
    }

    #[must_use]
    pub fn get(&self, call: &str) -> Option<&ShownCall> {
        self.calls.get(call)
    }

    /// What may have influenced `call`, latest first.
    #[must_use]
    pub fn back(&self, call: &str) -> Walk {
        let lookup = |id: &str| {
            self.place
                .get(id)
                .and_then(|place| self.nodes.get(*place))
                .cloned()
        };
        self.walked(lineage::backward(call, lookup, MOST))
    }

    /// What the result of `call` may have influenced, latest first.
    #[must_use]
    pub fn forward(&self, call: &str) -> Walk {
        let mut walk = self.walked(lineage::forward(call, &self.nodes, MOST));
        walk.calls.reverse();
        walk
    }

    /// `head` and every result that was shown before it, latest first.
    #[must_use]
    pub fn shown_until(&self, head: &str) -> Vec<ShownCall> {
        let node = |id: &str| self.place.get(id).and_then(|place| self.nodes.get(*place));
        let mut walked = BTreeSet::new();
        let chain = std::iter::successors(node(head), |last| node(&last.follows))
            .take_while(|node| walked.insert(node.id.as_str()));
        chain
            .take(MOST)
            .filter_map(|node| self.calls.get(&node.id))
            .cloned()
            .collect()
    }

    fn walked(&self, trace: lineage::Trace) -> Walk {
        let whole = trace.is_complete();
        Walk {
            calls: trace
                .nodes
                .iter()
                .filter_map(|node| self.calls.get(&node.id))
                .cloned()
                .collect(),
            whole,
        }
    }
}

fn node_of(record: &Record, after: &str, follows: &str) -> Node {
    Node {
        id: record.call.clone(),
        after: after.to_owned(),
        follows: follows.to_owned(),
        session: record.caller.clone(),
        epoch: 0,
        server: record.server.clone(),
        target: record.tool.clone(),
        // The record has the session's level, which is no lower than the server's.
        level: record
            .label_after
            .split('+')
            .next()
            .and_then(|level| level.parse().ok())
            .unwrap_or(Level::Restricted),
        digest: record.result.clone(),
        ms: record.ms,
    }
}

/// Gives sessions the heads they had: a head is saved only when its label rises, and calls went on after that. A caller that was shown
/// nothing that raised its label has no saved session; it gets one here, so that its lineage does not begin anew with every start.
pub fn catch_up(ledger: &audit::Ledger, sessions: &mut Vec<state::SavedSession>) -> io::Result<()> {
    let records = ledger.status().records;
    for window in WINDOWS {
        let mut heads = Heads::default();
        for record in audit::read(
            ledger.dir(),
            Filter {
                from: records.saturating_sub(window),
                ..Filter::default()
            },
        )? {
            heads.take(record?);
        }
        let reaches_all = sessions
            .iter()
            .all(|session| session.head.is_empty() || heads.0.contains_key(&session.caller));
        if reaches_all || window >= records {
            heads.give(sessions);
            return Ok(());
        }
    }
    Ok(())
}

/// For each caller, the shown results that nothing was shown after, in the order of the ledger: a lineage that was never interrupted
/// has one.
#[derive(Debug, Default)]
struct Heads(BTreeMap<String, Open>);

#[derive(Debug, Default)]
struct Open {
    heads: Vec<String>,
    /// Outcomes are recorded in another order than they are shown where calls overlap.
    followed: BTreeSet<String>,
}

impl Heads {
    fn take(&mut self, record: Record) {
        match record.kind.as_str() {
            "change" if record.action == "session.reset" => {
                _ = self.0.insert(record.target, Open::default())
            }
            // Only what was shown can be a head, and a failed call may have shown something: what it delivered has a digest.
            "outcome" if !record.result.is_empty() => {
                let open = self.0.entry(record.caller).or_default();
                let follows = record
                    .after
                    .split_whitespace()
                    .next_back()
                    .unwrap_or_default();
                open.heads.retain(|head| *head != follows);
                open.followed.insert(follows.to_owned());
                if !open.followed.contains(&record.call) {
                    open.heads.push(record.call);
                }
            }
            _ => {}
        }
    }

    fn give(self, sessions: &mut Vec<state::SavedSession>) {
        for (caller, open) in self.0 {
            let Some(head) = open.heads.into_iter().next_back() else {
                continue;
            };
            match sessions.iter_mut().find(|session| session.caller == caller) {
                Some(session) => session.head = head,
                None => sessions.push(state::SavedSession {
                    caller,
                    epoch: 0,
                    label: vocab::Label::default(),
                    head,
                }),
            }
        }
    }
}

#[cfg(test)]
mod tests;
