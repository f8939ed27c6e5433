//! Everything that is known of one conversation besides its label: what was said and read, the plan, and what is sealed.
//!
//! **Invariant: a conversation takes at most [`MAX_BYTES`].** What is sealed and planned comes first, and the index forgets. Test
//! `ten_thousand_conversations_stay_within_their_memory`.

use std::collections::VecDeque;

use wire::Json;

use crate::{
    digest::Key,
    index::{Index, Read, Saved},
    lasting::{Aims, Lasting, MAX_LASTING},
    plan::{Plan, StepOf},
    rule::{self, Call, Vouched},
    sealed::{self, Sealed},
};

/// What one conversation may take in memory.
pub const MAX_BYTES: usize = 256 << 10;

/// See the [module](self).
#[derive(Debug)]
pub struct Conversation {
    /// The epoch of the session that it belongs to.
    epoch: u64,
    index: Index,
    plan: Option<Plan>,
    sealed: Sealed,
    /// The oldest first.
    lasting: VecDeque<Lasting>,
}

impl Conversation {
    /// A conversation in which nobody has said anything.
    #[must_use]
    pub fn new(key: Key, epoch: u64) -> Self {
        Self {
            epoch,
            index: Index::new(key, MAX_BYTES),
            plan: None,
            sealed: Sealed::new(key, epoch),
            lasting: VecDeque::new(),
        }
    }

    /// A conversation as it was saved.
    #[must_use]
    pub fn restore(key: Key, epoch: u64, saved: &Saved) -> Self {
        Self {
            index: Index::restore(key, MAX_BYTES, saved),
            ..Self::new(key, epoch)
        }
    }

    #[must_use]
    pub const fn epoch(&self) -> u64 {
        self.epoch
    }

    #[must_use]
    pub const fn index(&self) -> &Index {
        &self.index
    }

    /// Adds what a person said, over the outside road.
    pub fn say(&mut self, text: &str) {
        self.index.say(text);
        self.fit();
    }

    /// Takes in what a read brought. While nobody has said anything nothing can be vouched for, and what is read is not looked at.
    pub fn read(&mut self, read: Read, result: Json<'_>) {
        self.take(|index| index.read(read, result));
    }

    /// The same for a call that did something; see [`Index::created`].
    pub fn created(&mut self, read: Read, sent: Json<'_>, result: Json<'_>) {
        self.take(|index| index.created(read, sent, result));
    }

    fn take(&mut self, take: impl FnOnce(&mut Index)) {
        if self.index.has_words() {
            take(&mut self.index);
            self.fit();
        } else {
            self.index.pass_over();
        }
    }

    /// Notes that something was read and not looked at: before a restart, or while the epoch changed.
    pub fn pass_over(&mut self) {
        self.index.pass_over();
    }

    #[must_use]
    pub const fn plan(&self) -> Option<&Plan> {
        self.plan.as_ref()
    }

    /// See [`Plan::replace`].
    pub fn set_plan(&mut self, plan: Plan, is_clean: bool) -> Result<(), Vec<String>> {
        Plan::replace(&mut self.plan, plan, is_clean)?;
        self.fit();
        Ok(())
    }

    /// Uses a step of the plan up; false if that is not possible any more.
    #[must_use]
    pub fn spend(&mut self, step: StepOf) -> bool {
        self.plan.as_mut().is_some_and(|plan| plan.spend(step))
    }

    /// See [`Plan::give_back`].
    pub fn give_back(&mut self, step: StepOf) {
        if let Some(plan) = &mut self.plan {
            plan.give_back(step);
        }
    }

    #[must_use]
    pub const fn sealed(&self) -> &Sealed {
        &self.sealed
    }

    /// See [`Sealed::seal`].
    pub fn seal(
        &mut self,
        result: Json<'_>,
        source: sealed::Source<'_>,
        fits: impl FnOnce(Json<'_>) -> bool,
    ) -> Option<Vec<u8>> {
        let sealed = self.sealed.seal(result, source, fits);
        self.fit();
        sealed
    }

    /// Whether a call says whom, what or how much with a value that a stranger may have written. A number or a date of a sealed result is
    /// shown to a session that stays trusted, and is a stranger's all the same.
    #[must_use]
    pub fn is_led_by_sealed(&self, call: Call<'_>) -> bool {
        self.sealed.has_shown() && rule::is_strangers(&self.index, call)
    }

    /// Keeps an answer that lasts. The oldest make room for it.
    pub fn add_lasting(&mut self, lasting: Lasting) {
        if self.lasting.len() >= MAX_LASTING {
            self.lasting.pop_front();
        }
        self.lasting.push_back(lasting);
        self.fit();
    }

    /// The answers that last, the oldest first.
    pub fn lasting(&self) -> impl Iterator<Item = &Lasting> {
        self.lasting.iter()
    }

    /// Takes the answer to this approval back; false if there is none.
    pub fn revoke_lasting(&mut self, approval: &str) -> bool {
        let before = self.lasting.len();
        self.lasting.retain(|one| one.approval != approval);
        self.lasting.len() < before
    }

    /// The evidence that a lasting answer covers this call of a tool with this definition.
    #[must_use]
    pub fn covered(&self, call: Call<'_>, definition: &str) -> Option<Vouched> {
        if self.lasting.is_empty() {
            return None;
        }
        let aims = Aims::of(call)?;
        let mut answers = self.lasting.iter();
        answers.find_map(|one| one.covers(&self.index, call, definition, &aims))
    }

    fn lasting_bytes(&self) -> usize {
        let spare = self.lasting.capacity().saturating_sub(self.lasting.len());
        spare * size_of::<Lasting>() + self.lasting.iter().map(Lasting::bytes).sum::<usize>()
    }

    fn fit(&mut self) {
        let plan = self.plan.as_ref().map_or(0, Plan::bytes);
        let rest = size_of::<Self>() + plan + self.sealed.bytes() + self.lasting_bytes();
        self.index.set_limit(MAX_BYTES.saturating_sub(rest));
    }

    /// What it takes.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let plan = self.plan.as_ref().map_or(0, Plan::bytes);
        size_of::<Self>() + self.index.bytes() + plan + self.sealed.bytes() + self.lasting_bytes()
    }
}
