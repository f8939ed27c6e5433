//! A small gate around a session, whose every rule can be broken.

use shuttle::thread;
use vocab::{Label, Level, Mark, ServerId};

use crate::{
    evidence::{Absorbed, Showable},
    session::Session,
    step::Step,
    sync::{Arc, Mutex},
};

/// A rule of the gate that is not kept.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Flaw {
    None,
    /// A result is shown, then absorbed.
    AbsorbsAfterShowing,
    /// A result is shown once its label is raised in memory.
    ShowsBeforeSaving,
    /// Only the call that raised the label waits until it is saved.
    TrustsNothingIsNew,
    /// A call is weighed while its arguments are still on their way.
    WeighsBeforeReceived,
    /// The evidence is dropped before the result has left.
    ForgetsWhatIsLeaving,
    /// The epoch of a call is that of its weighing, not that of its arrival.
    ForgetsTheArrival,
    /// What a reset begins with is not what is saved.
    SavesACleanReset,
}

pub(crate) struct World {
    flaw: Flaw,
    pub(crate) session: Arc<Session>,
    /// Whoever holds it may write to the disk, as in the real state.
    writer: Mutex<()>,
    /// The label a restart would find.
    pub(crate) disk: Mutex<Mark>,
    /// The most secret thing the agent knows. Holding it is what a person does who stops the agent.
    agent: Mutex<Level>,
}

impl World {
    pub(crate) fn new(flaw: Flaw) -> Arc<Self> {
        let (writer, disk, agent) = (
            Mutex::new(()),
            Mutex::new(Mark::default()),
            Mutex::new(Level::Public),
        );
        Arc::new(Self {
            flaw,
            session: Arc::new(Session::new()),
            writer,
            disk,
            agent,
        })
    }

    pub(crate) fn spawn(
        self: &Arc<Self>,
        work: impl FnOnce(&Self) + Send + 'static,
    ) -> thread::JoinHandle<()> {
        let world = Arc::clone(self);
        thread::spawn(move || work(&world))
    }

    /// A call to a confidential server, up to its result in the agent's hands.
    pub(crate) fn reads_notes(&self) {
        let step = Step::new("notes", &self.session);
        if self.session.weigh_step(Level::Confidential, &step).is_err() {
            return;
        }
        if self.flaw == Flaw::AbsorbsAfterShowing {
            self.show();
            drop(self.keep(self.absorb(&step)));
            return;
        }
        let is_known = self.session.mark().secrecy == Level::Confidential;
        let absorbed = self.absorb(&step);
        match self.flaw {
            Flaw::ShowsBeforeSaving => {
                self.show();
                drop(self.keep(absorbed));
            }
            Flaw::TrustsNothingIsNew if is_known => {
                self.show();
                drop(absorbed);
            }
            Flaw::ForgetsWhatIsLeaving => {
                drop(self.keep(absorbed));
                self.show();
            }
            _ => {
                let showable = self.keep(absorbed);
                self.show();
                drop(showable);
            }
        }
    }

    fn absorb(&self, step: &Step) -> Absorbed {
        self.session.absorb_step(
            &Label::of(
                Mark::trusted(Level::Confidential),
                ServerId::parse("notes").unwrap(),
            ),
            step,
        )
    }

    fn show(&self) {
        *self.agent.lock().unwrap() = Level::Confidential;
        self.is_killed();
    }

    /// As `State::keep` does it.
    fn keep(&self, absorbed: Absorbed) -> Showable {
        let absorbed = match absorbed.durable() {
            Ok(showable) => return showable,
            Err(absorbed) => absorbed,
        };
        let _writer = self.writer.lock().unwrap();
        if let Some(snapshot) = self.session.unsaved() {
            *self.disk.lock().unwrap() = snapshot.label.mark;
            self.session.saved(&snapshot);
        }
        absorbed.durable().unwrap()
    }

    /// The agent calls a public server with the most secret thing it knows.
    pub(crate) fn tells_the_public(&self) {
        let early = (self.flaw == Flaw::WeighsBeforeReceived)
            .then(|| self.session.weigh(Level::Public).is_ok());
        let arriving = Step::new("search", &self.session);
        let content = *self.agent.lock().unwrap();
        let step = if self.flaw == Flaw::ForgetsTheArrival {
            Step::new("search", &self.session)
        } else {
            arriving
        };
        let is_sent =
            early.unwrap_or_else(|| self.session.weigh_step(Level::Public, &step).is_ok());
        assert!(
            !is_sent || content == Level::Public,
            "{content} was sent to a public server"
        );
    }

    /// The gate is killed and started again, and the agent is not.
    pub(crate) fn is_killed(&self) {
        let agent = self.agent.lock().unwrap();
        let (known, restored) = (*agent, self.disk.lock().unwrap().secrecy);
        assert!(
            known <= restored,
            "the agent knows something {known} and the label is {restored} after a restart"
        );
    }

    /// A person stops the agent, clears what it knows, resets the session, and lets the agent go on. As `State::reset` does it.
    pub(crate) fn is_reset(&self) {
        let mut agent = self.agent.lock().unwrap();
        *agent = Level::Public;
        let _writer = self.writer.lock().unwrap();
        let reset = self.session.reset();
        let label = if self.flaw == Flaw::SavesACleanReset {
            Mark::default()
        } else {
            reset.begun.label.mark
        };
        *self.disk.lock().unwrap() = label;
        self.session.saved(&reset.begun);
    }
}
