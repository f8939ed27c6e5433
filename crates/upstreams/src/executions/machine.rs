//! Where one execution stands: which calls wait, which command its executor has, and what has been said of earlier ones. Pure: ids,
//! answers and the loss of connections are arguments, in any order and as often as they come.
//!
//! ```text
//! Detached ──attach──▶ Ready ──ask──▶ Running ──result, or given up──▶ Ready …──end──▶ Ended
//! ```
//!
//! **Invariant: a call is concluded once, by an answer to its own dispatch.** An answer to another id changes nothing, and the command that
//! runs stays. Property test `every_call_is_concluded_once_and_in_order`; tests `an_answer_to_an_unknown_id_changes_nothing`,
//! `an_answer_that_comes_twice_changes_nothing`.

use std::collections::VecDeque;

/// Calls that may wait for one executor. A call holds one of its caller's places meanwhile, so this many is never the first bound.
pub const MAX_QUEUE: usize = 64;
/// Concluded dispatches whose answers are told from unknown ones. An executor keeps fewer.
const REMEMBERED: usize = 64;

/// A call's place here; never given out twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ticket(u64);

/// 128 random bits that name one dispatch to the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DispatchId(pub u128);

/// A digest of what an executor answered.
pub type ResultDigest = [u8; 32];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// No executor has come yet, or the last one was given up.
    Detached,
    Ready,
    Running,
    Ended,
}

/// What an executor has been given and not answered.
#[derive(Debug)]
struct Given<W> {
    id: DispatchId,
    ticket: Ticket,
    work: W,
    /// The executor it was given to, if that said which one it is.
    to: Option<String>,
}

#[derive(Debug)]
struct Concluded {
    id: DispatchId,
    /// `None`: it was given up before an answer came.
    digest: Option<ResultDigest>,
    /// The executor it was given to, if that said which one it is.
    to: Option<String>,
}

#[derive(Debug)]
pub struct Machine<W> {
    is_ended: bool,
    is_attached: bool,
    /// The executor that asked last, if it said which one it is.
    instance: Option<String>,
    /// Those whose place another has taken.
    replaced: VecDeque<String>,
    queue: VecDeque<(Ticket, W)>,
    given: Option<Given<W>>,
    past: VecDeque<Concluded>,
    next: u64,
    executed: u64,
}

/// Why a call cannot wait here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NotQueued {
    Ended,
    Full,
}

/// What an answer came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Heard {
    /// It is the answer to the command that runs, whose call ends with it.
    Concludes(Ticket),
    /// That dispatch was concluded before.
    Again {
        /// Whether something else was answered then.
        differs: bool,
    },
    /// No dispatch of this execution has this id.
    Unknown,
}

/// Where a call was when it was given up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GivenUp {
    /// No executor has seen it.
    Waiting,
    /// An executor has it, and nobody knows how far it came.
    Delivered,
    /// It was concluded before.
    Gone,
}

impl<W> Default for Machine<W> {
    fn default() -> Self {
        Self {
            is_ended: false,
            is_attached: false,
            instance: None,
            replaced: VecDeque::new(),
            queue: VecDeque::new(),
            given: None,
            past: VecDeque::new(),
            next: 0,
            executed: 0,
        }
    }
}

impl<W> Machine<W> {
    #[must_use]
    pub const fn phase(&self) -> Phase {
        if self.is_ended {
            Phase::Ended
        } else if self.given.is_some() {
            Phase::Running
        } else if self.is_attached {
            Phase::Ready
        } else {
            Phase::Detached
        }
    }

    /// Calls that no executor has seen.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.queue.len()
    }

    /// Commands that were answered.
    #[must_use]
    pub const fn executed(&self) -> u64 {
        self.executed
    }

    /// What the executor has now.
    #[must_use]
    pub fn running(&self) -> Option<(DispatchId, &W)> {
        self.given.as_ref().map(|given| (given.id, &given.work))
    }

    /// A call waits for its turn.
    pub fn queue(&mut self, work: W) -> Result<Ticket, NotQueued> {
        if self.is_ended {
            return Err(NotQueued::Ended);
        }
        if self.queue.len() >= MAX_QUEUE {
            return Err(NotQueued::Full);
        }
        let ticket = Ticket(self.next);
        self.next += 1;
        self.queue.push_back((ticket, work));
        Ok(ticket)
    }

    /// An executor is there. If it says that it is another than the one that has a command, that command's call is given back: whoever
    /// ran it is gone, and nobody can say how far it came.
    pub fn attach(&mut self, instance: Option<String>) -> Option<Ticket> {
        if self.is_ended {
            return None;
        }
        self.is_attached = true;
        let is_another = matches!(
            (&self.given, &instance),
            (Some(Given { to: Some(before), .. }), Some(now)) if before != now
        );
        let before = std::mem::replace(&mut self.instance, instance);
        if before != self.instance
            && self.instance.is_some()
            && let Some(before) = before
        {
            if self.replaced.len() >= REMEMBERED {
                self.replaced.pop_front();
            }
            self.replaced.push_back(before);
        }
        is_another.then(|| self.conclude(None)).flatten()
    }

    /// Whether another has taken the place of this executor.
    #[must_use]
    pub fn is_replaced(&self, instance: &str) -> bool {
        self.replaced.iter().any(|gone| gone == instance)
    }

    /// Whether a concluded dispatch was given to an executor whose place another has taken.
    #[must_use]
    pub fn was_anothers(&self, id: DispatchId) -> bool {
        let given = self.past.iter().find(|past| past.id == id);
        given
            .and_then(|past| past.to.as_deref())
            .is_some_and(|to| self.is_replaced(to))
    }

    /// What the executor that asks is to do: what it was given before and has not answered, or the next in turn, under `new`.
    pub fn ask(&mut self, new: DispatchId) -> Option<(DispatchId, &W)> {
        if self.is_ended {
            return None;
        }
        self.is_attached = true;
        if self.given.is_none() {
            let (ticket, work) = self.queue.pop_front()?;
            self.given = Some(Given {
                id: new,
                ticket,
                work,
                to: self.instance.clone(),
            });
        }
        self.running()
    }

    /// An executor answers.
    pub fn hear(&mut self, id: DispatchId, digest: ResultDigest) -> Heard {
        if self.given.as_ref().is_some_and(|given| given.id == id)
            && let Some(ticket) = self.conclude(Some(digest))
        {
            self.executed += 1;
            return Heard::Concludes(ticket);
        }
        match self.past.iter().find(|past| past.id == id) {
            Some(past) => Heard::Again {
                differs: past.digest != Some(digest),
            },
            None => Heard::Unknown,
        }
    }

    /// A call waits no longer. What an executor has is no longer waited for either: the next in turn is its when it asks again.
    pub fn give_up(&mut self, ticket: Ticket) -> GivenUp {
        if self
            .given
            .as_ref()
            .is_some_and(|given| given.ticket == ticket)
        {
            self.conclude(None);
            // Whoever does not answer in time is not relied on until it asks again.
            self.is_attached = false;
            return GivenUp::Delivered;
        }
        let before = self.queue.len();
        self.queue.retain(|(waiting, _)| *waiting != ticket);
        if self.queue.len() < before {
            GivenUp::Waiting
        } else {
            GivenUp::Gone
        }
    }

    /// Whether an executor has this call's command.
    #[must_use]
    pub fn is_delivered(&self, ticket: Ticket) -> bool {
        self.given
            .as_ref()
            .is_some_and(|given| given.ticket == ticket)
    }

    /// The execution is over. The calls that were under way, the one that an executor has first; nothing begins any more.
    pub fn end(&mut self) -> Vec<(Ticket, GivenUp)> {
        self.is_ended = true;
        let running = self
            .conclude(None)
            .map(|ticket| (ticket, GivenUp::Delivered));
        let waiting = self.queue.drain(..);
        running
            .into_iter()
            .chain(waiting.map(|(ticket, _)| (ticket, GivenUp::Waiting)))
            .collect()
    }

    fn conclude(&mut self, digest: Option<ResultDigest>) -> Option<Ticket> {
        let Given { id, ticket, to, .. } = self.given.take()?;
        if self.past.len() >= REMEMBERED {
            self.past.pop_front();
        }
        self.past.push_back(Concluded { id, digest, to });
        Some(ticket)
    }
}

#[cfg(test)]
mod tests;
