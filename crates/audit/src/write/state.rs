//! What the writer keeps under its lock: where the chain stands, what is pending, and which intents are open.
//!
//! INVARIANT: `tree` and `acknowledged` are about what is written; `head` and `next_seq` are about what is pending too.

use crate::chain::Hash;
use crate::disk::SegmentFile;
use crate::encode;
use crate::error::LedgerUnavailable;
use crate::record::Draft;
use crate::recover::{ROTATED, carry};
use crate::tree::Tree;
use std::collections::HashMap;
use std::sync::Arc;

#[derive(Debug)]
pub(crate) struct State {
    pub(super) pending: Vec<u8>,
    /// The previous batch's buffer, kept for its capacity.
    pub(super) spare: Vec<u8>,
    /// The hashes of the pending records.
    pub(super) leaves: Vec<Hash>,
    pub(crate) next_seq: u64,
    pub(crate) head: Hash,
    /// Over all records that are written; pending ones are not in it.
    pub(crate) tree: Tree,
    /// The last record that was written, for [`crate::Ledger::reopen`].
    pub(crate) acknowledged: Option<(u64, Hash)>,
    pub(crate) segment: Segment,
    pub(super) writing: bool,
    pub(super) waiting: u32,
    pub(crate) broken: Option<Arc<str>>,
    /// While broken: the first segment of which the kernel may have dropped pages.
    pub(crate) suspect: Option<u64>,
    /// How many callers wait to learn whether their record is written.
    pub(super) settling: u32,
    /// Intents that this process may still conclude: `seq` → call.
    pub(crate) live: HashMap<u64, Box<str>>,
    /// Answers without an intent among the pending records.
    pub(super) pending_answers: u64,
    /// Such answers that could not be recorded since the ledger last worked: nothing else will ever tell of them.
    pub(crate) unrecorded: u64,
}

/// The file being appended to.
#[derive(Clone, Debug)]
pub(crate) struct Segment {
    pub(crate) first_seq: u64,
    pub(crate) size: u64,
    pub(crate) file: Arc<dyn SegmentFile>,
}

impl State {
    pub(crate) fn new(segment: Segment, next_seq: u64, head: Hash, tree: Tree) -> State {
        State {
            pending: Vec::new(),
            spare: Vec::new(),
            leaves: Vec::new(),
            next_seq,
            head,
            tree,
            acknowledged: next_seq.checked_sub(1).map(|seq| (seq, head)),
            segment,
            writing: false,
            waiting: 0,
            broken: None,
            suspect: None,
            settling: 0,
            live: HashMap::new(),
            pending_answers: 0,
            unrecorded: 0,
        }
    }

    /// Gives the record its place in the chain; it is pending from here on.
    pub(super) fn chain(&mut self, fields: &[u8]) -> (u64, Hash) {
        let seq = self.next_seq;
        self.head = encode::line(&mut self.pending, seq, &self.head, fields);
        self.leaves.push(self.head);
        self.next_seq += 1;
        (seq, self.head)
    }

    pub(super) fn unavailable(&self) -> Option<LedgerUnavailable> {
        let reason = self.broken.clone()?;
        Some(LedgerUnavailable { reason })
    }

    pub(crate) fn resume_at(&mut self, segment: Segment, next_seq: u64, head: Hash, tree: Tree) {
        self.pending.clear();
        self.leaves.clear();
        self.tree = tree;
        self.segment = segment;
        self.next_seq = next_seq;
        self.head = head;
        self.acknowledged = next_seq.checked_sub(1).map(|seq| (seq, head));
        self.suspect = None;
        self.broken = None;
    }

    /// Recovery failed half way.
    pub(crate) fn break_again(&mut self, reason: Arc<str>) {
        self.broken = Some(reason);
        self.suspect_from(self.segment.first_seq);
        self.pending.clear();
        self.leaves.clear();
    }

    pub(super) fn suspect_from(&mut self, first_seq: u64) {
        self.suspect = Some(
            self.suspect
                .map_or(first_seq, |earlier| earlier.min(first_seq)),
        );
    }

    /// The first `count` pending records are written now.
    pub(super) fn acknowledge(&mut self, count: usize, next_seq: u64, head: Hash) {
        for leaf in self.leaves.drain(..count.min(self.leaves.len())) {
            self.tree.push(&leaf);
        }
        self.acknowledged = next_seq.checked_sub(1).map(|seq| (seq, head));
    }
}

/// Room in one `ledger.rotated` record for the intents it carries.
const CARRIED_BYTES: usize = 3500;

/// Ends the batch that opens a new segment with the list of intents still open; `count` is how many parts follow, and the last
/// one holds the peaks of the tree over everything before it. So recovery reads one segment.
pub(super) fn carry_open_intents(state: &mut State, unix_ms: u64) {
    let mut details = vec![String::new()];
    for (seq, call) in &state.live {
        let item = carry(*seq, call);
        match details.last_mut() {
            Some(detail) if detail.len() + item.len() <= CARRIED_BYTES => detail.push_str(&item),
            _ => details.push(item),
        }
    }
    let mut fields = Vec::new();
    for (part, detail) in details.iter().enumerate() {
        let following = details.len() - part - 1;
        let tree = if following == 0 {
            tree_with_pending(state).to_hex()
        } else {
            String::new()
        };
        let draft = Draft {
            action: ROTATED,
            detail,
            count: Some(following as u64),
            tree: &tree,
            ..Draft::default()
        };
        fields.clear();
        encode::fields(&mut fields, unix_ms, &draft);
        state.chain(&fields);
    }
}

fn tree_with_pending(state: &State) -> Tree {
    let mut tree = state.tree.clone();
    state.leaves.iter().for_each(|leaf| tree.push(leaf));
    tree
}
