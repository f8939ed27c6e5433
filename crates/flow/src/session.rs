//! The label of a session: the join of everything a caller was shown.
//!
//! **Invariant: no call is weighed against a stale label.** A call reads the label in [`Session::weigh_step`] after it has been received in full, and a result,
//! or any part of one, raises the label in [`Session::absorb_step`] before a byte of it leaves the gate. So a call that could know
//! a result is always weighed against a label that includes it, without a lane between calls. Tests `no_schedule_shows_or_sends_too_early`, `concurrent_calls_do_not_race_the_label`.
//!
//! **Invariant: a rise is durable before its result is seen.** [`Showable`](crate::evidence::Showable) is the only evidence that something may be shown,
//! and exists only once a label that includes it was reported [`saved`](Session::saved). It is not enough to wait for one's own rise:
//! a call that absorbs what another has just absorbed finds nothing new, yet the other's save may still be under way. So what counts
//! is the number of the label's version, not who raised it. Tests `a_rise_is_in_the_file_before_it_may_be_shown`,
//! `who_finds_nothing_new_still_waits_for_the_save_under_way`.
//!
//! **Invariant: a reset washes nothing off that is still on its way, and nothing else washes a label off.** Tests
//! `no_schedule_washes_a_label_off_with_a_reset`, `nothing_but_a_reset_washes_a_label_off`,
//! `write_down_is_refused_however_one_reconnects`. A reset begins an epoch with a clean label. Three kinds of data are in between:
//! - a result that is absorbed afterwards: it raises the label of the new epoch, since that is where it will be seen;
//! - a result that was absorbed before and has not left yet: its [`Absorbed`] or `Showable` is still held, and what is held
//!   begins the new epoch's label;
//! - a call that arrived before and is weighed afterwards: it is weighed against the labels of both epochs.

use std::fmt;

use vocab::{Label, Level, Mark, ServerId};

use crate::{
    evidence::{Absorbed, Weighed, WriteDown},
    step::Step,
    sync::{Arc, Mutex, PoisonError},
};

/// What one caller has been shown so far. There is one for each credential, for as long as the gate runs.
#[derive(Default)]
pub struct Session {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    epoch: u64,
    label: Label,
    /// The call whose result was shown last.
    head: Option<Arc<str>>,
    calls: u64,
    /// The join of the labels of earlier epochs, and the head of the last one.
    past: Mark,
    past_head: Option<Arc<str>>,
    /// Counts the changes of `label`.
    version: u64,
    /// The newest version that is durable.
    saved: u64,
    /// What has been absorbed and may not have left the gate yet.
    leaving: Vec<Leaving>,
    tickets: u64,
}

struct Leaving {
    ticket: u64,
    label: Label,
    /// The version that must be durable before it may be shown.
    version: u64,
}

/// Everything about a session that outlives the process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub epoch: u64,
    pub label: Label,
    pub head: String,
    version: u64,
}

/// What a reset ended and what it began. The beginning is not durable yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reset {
    pub ended: Snapshot,
    pub begun: Snapshot,
}

impl Session {
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A session as it was saved.
    #[must_use]
    pub fn restore(label: Label, epoch: u64, head: &str) -> Self {
        let head = (!head.is_empty()).then(|| head.into());
        Self {
            known: Mutex::new(Known {
                epoch,
                label,
                head,
                ..Known::default()
            }),
        }
    }

    /// The label that decisions read.
    #[must_use]
    pub fn mark(&self) -> Mark {
        self.known(|known| known.label.mark)
    }

    /// The label with its origins.
    #[must_use]
    pub fn label(&self) -> Label {
        self.known(|known| known.label.clone())
    }

    /// How often a person has reset it.
    #[must_use]
    pub fn epoch(&self) -> u64 {
        self.known(|known| known.epoch)
    }

    /// The call whose result was shown last in this epoch, or nothing.
    #[must_use]
    pub fn head(&self) -> Arc<str> {
        self.known(|known| known.head.clone())
            .unwrap_or_else(|| "".into())
    }

    /// How many calls passed Weigh in this epoch, as far as this process knows.
    #[must_use]
    pub fn calls(&self) -> u64 {
        self.known(|known| known.calls)
    }

    /// May what this session knows be sent to a server that takes at most `ceiling`?
    pub fn weigh(&self, ceiling: Level) -> Result<Weighed, WriteDown> {
        Weighed::decide(self.mark(), ceiling)
    }

    /// Weighs a call, and notes what may have influenced it. Again, for each answer the client gives in the middle of the call.
    pub fn weigh_step(&self, ceiling: Level, step: &Step) -> Result<Weighed, WriteDown> {
        self.weigh_with(ceiling, step, Mark::default())
    }

    /// The same for a call that carries more than its caller has seen: sealed texts, whose mark is `carried`.
    pub fn weigh_with(
        &self,
        ceiling: Level,
        step: &Step,
        carried: Mark,
    ) -> Result<Weighed, WriteDown> {
        self.known(|known| {
            let is_from_before = step.arrived() != known.epoch;
            let before = if is_from_before {
                known.label.mark.join(known.past)
            } else {
                known.label.mark
            };
            let before = before.join(carried);
            let weighed = Weighed::decide(before, ceiling);
            let is_first = step.links(|links| {
                let is_first = links.after.is_none();
                let head = if is_from_before && is_first {
                    &known.past_head
                } else {
                    &known.head
                };
                links.after = Some(head.clone().unwrap_or_else(|| "".into()));
                if links.follows.is_none() {
                    links.epoch = known.epoch;
                }
                is_first
            });
            known.calls += u64::from(is_first && weighed.is_ok());
            weighed
        })
    }

    /// For a call that ends without having been weighed: notes what may have influenced it all the same.
    pub fn place_step(&self, step: &Step) {
        self.known(|known| {
            let head = if step.arrived() == known.epoch {
                &known.head
            } else {
                &known.past_head
            };
            step.links(|links| {
                _ = links
                    .after
                    .get_or_insert_with(|| head.clone().unwrap_or_else(|| "".into()))
            });
        });
    }

    /// Raises the label to include words of this label that belong to no call. Must happen before they are shown.
    pub fn absorb(self: &Arc<Self>, label: &Label) -> Absorbed {
        self.take_in(label, |_| ())
    }

    /// For words that nobody asked for: what the session's label includes already, origins and all, may be shown; nothing else may, so
    /// that a server raises no label by talking.
    pub fn absorb_known(self: &Arc<Self>, label: &Label) -> Option<Absorbed> {
        let (ticket, after) = self.known(|known| {
            known
                .label
                .includes(label)
                .then(|| known.let_leave(label.clone()))
        })?;
        Some(Absorbed::new(self, ticket, after))
    }

    /// Holds the label as it is while something leaves that it includes: a reset meanwhile washes nothing of it off.
    pub fn hold(self: &Arc<Self>, origin: &ServerId) -> Absorbed {
        let (ticket, after) =
            self.known(|known| known.let_leave(Label::of(known.label.mark, origin.clone())));
        Absorbed::new(self, ticket, after)
    }

    /// Raises the label to include a part of a call's result. Must happen before it is shown. The first time, the call becomes the
    /// head of the lineage.
    pub fn absorb_step(self: &Arc<Self>, label: &Label, step: &Step) -> Absorbed {
        self.take_in(label, |known| {
            step.links(|links| {
                if links.follows.is_none() {
                    links.follows =
                        Some(known.head.replace(step.head()).unwrap_or_else(|| "".into()));
                    links.epoch = known.epoch;
                }
            });
        })
    }

    fn take_in(self: &Arc<Self>, label: &Label, advance: impl FnOnce(&mut Known)) -> Absorbed {
        let (ticket, after) = self.known(|known| {
            known.raise(label);
            advance(known);
            known.let_leave(label.clone())
        });
        Absorbed::new(self, ticket, after)
    }

    /// The join of everything that was absorbed and may not have left yet: what a reset at this moment would begin with.
    #[must_use]
    pub fn on_its_way(&self) -> Mark {
        self.known(|known| {
            known.leaving.iter().fold(Mark::default(), |mark, leaving| {
                mark.join(leaving.label.mark)
            })
        })
    }

    /// What must be saved before anything absorbed so far may be shown; nothing if all of it is durable.
    #[must_use]
    pub fn unsaved(&self) -> Option<Snapshot> {
        self.known(|known| (known.saved < known.version).then(|| known.snapshot()))
    }

    /// Reports that a snapshot is durable. Never call it for one that was not written: a lost label is a leak.
    pub fn saved(&self, snapshot: &Snapshot) {
        self.known(|known| known.saved = known.saved.max(snapshot.version));
    }

    /// Takes in what is saved of this session, where another gate may have changed it. Within an epoch the label only rises. A later
    /// epoch replaces what is known here, but for what is on its way out; an earlier one changes nothing.
    pub fn catch_up(&self, epoch: u64, label: &Label, head: &str) {
        self.known(|known| {
            if epoch < known.epoch {
                return;
            }
            let head = (!head.is_empty()).then(|| head.into());
            // What is saved includes all that was saved before, so the join is saved if nothing was left to save.
            let mut is_saved = known.saved >= known.version;
            if epoch > known.epoch {
                known.begin(epoch);
                known.head = head;
                is_saved = known.label == Label::default();
                // What was durable in the epoch that ended is not so in this one.
                let version = known.version;
                let leaving = known.leaving.iter_mut();
                leaving.for_each(|leaving| leaving.version = version);
            } else if known.head.is_none() {
                known.head = head;
            }
            known.raise(label);
            if is_saved || known.label == *label {
                known.saved = known.version;
            }
        });
    }

    /// Begins a new epoch, because a person said so. Save what has [begun](Reset::begun), or [take it back](Session::take_back).
    #[must_use = "what begins must be saved, and what ended archived"]
    pub fn reset(&self) -> Reset {
        self.known(|known| {
            let ended = known.snapshot();
            known.begin(known.epoch + 1);
            Reset {
                ended,
                begun: known.snapshot(),
            }
        })
    }

    /// Makes a reset that could not be saved as if it had not been, but for the number of the epoch.
    pub fn take_back(&self, reset: &Reset) {
        self.known(|known| {
            known.label = std::mem::take(&mut known.label).join(&reset.ended.label);
            known.version += 1;
            if known.head.is_none() && !reset.ended.head.is_empty() {
                known.head = Some(reset.ended.head.as_str().into());
            }
        });
    }

    /// Whether a label that includes what this ticket is for is durable.
    pub(crate) fn is_durable(&self, ticket: u64) -> bool {
        self.known(|known| {
            let mut leaving = known.leaving.iter();
            leaving
                .find(|leaving| leaving.ticket == ticket)
                .is_some_and(|leaving| known.saved >= leaving.version)
        })
    }

    pub(crate) fn has_left(&self, ticket: u64) {
        self.known(|known| known.leaving.retain(|leaving| leaving.ticket != ticket));
    }

    fn known<T>(&self, look: impl FnOnce(&mut Known) -> T) -> T {
        look(&mut self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Known {
    /// Notes that something absorbed is on its way out.
    fn let_leave(&mut self, label: Label) -> (u64, Mark) {
        self.tickets += 1;
        self.leaving.push(Leaving {
            ticket: self.tickets,
            label,
            version: self.version,
        });
        (self.tickets, self.label.mark)
    }

    /// Begins an epoch with a clean label, but for what is on its way out.
    fn begin(&mut self, epoch: u64) {
        self.past = self.past.join(self.label.mark);
        self.past_head.clone_from(&self.head);
        self.epoch = epoch;
        self.version += 1;
        self.calls = 0;
        self.label = Label::default();
        if self.leaving.is_empty() {
            self.head = None;
        }
        for leaving in &self.leaving {
            self.label.join_in(&leaving.label);
        }
    }

    fn raise(&mut self, label: &Label) {
        if !self.label.includes(label) {
            self.version += 1;
            self.label.join_in(label);
        }
    }

    fn snapshot(&self) -> Snapshot {
        let head = self.head.as_deref().unwrap_or_default().to_owned();
        Snapshot {
            epoch: self.epoch,
            label: self.label.clone(),
            head,
            version: self.version,
        }
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let snapshot = self.known(|known| known.snapshot());
        f.debug_struct("Session")
            .field("epoch", &snapshot.epoch)
            .field("label", &snapshot.label)
            .finish_non_exhaustive()
    }
}
