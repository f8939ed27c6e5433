//! The world of the test: agents, a gate made of real sessions, servers, a disk, and a clock that only moves from event to event.
//!
//! When things happen is fixed by the plan alone, never by content. So whatever differs between two runs of a plan is information.

use std::{collections::BTreeMap, mem, sync::Arc};

use flow::{Absorbed, Session, Showable, Step};
use vocab::{Label, Level, Mark, ServerId};

use crate::plan::{Event, Flaw, Key, Plan, digest, timetable};

/// For each server its level, and who sent it what.
pub(crate) type Received = Vec<(Level, Vec<(usize, u64)>)>;

#[derive(Debug, Default)]
pub(crate) struct Outcome {
    pub(crate) received: Received,
    pub(crate) refused: u64,
    pub(crate) resets: u64,
    /// Values that arrived at a server below their level.
    pub(crate) leaks: u64,
}

/// A value, and the level of the most secret thing it was made of.
#[derive(Debug, Clone, Copy)]
struct Value {
    digest: u64,
    level: Level,
}

const NOTHING: Value = Value {
    digest: 0,
    level: Level::Public,
};

impl Value {
    fn with(self, other: Self) -> Self {
        Self {
            digest: digest((self.digest, other.digest)),
            level: self.level.max(other.level),
        }
    }
}

struct Call {
    server: usize,
    content: Value,
    step: Step,
    /// Which agent of this caller makes it: a reset begins another.
    incarnation: u64,
    result: Value,
    absorbed: Option<Absorbed>,
    showable: Option<Showable>,
    is_weighed: bool,
}

#[derive(Clone, Copy)]
struct Agent {
    memory: Value,
    incarnation: u64,
}

struct Server {
    id: ServerId,
    level: Level,
    secret: u64,
    history: Value,
}

struct World<'p> {
    plan: &'p Plan,
    agents: Vec<Agent>,
    sessions: Vec<Arc<Session>>,
    /// What outlives the gate, for each caller: the epoch and the label.
    disk: Vec<(u64, Label)>,
    servers: Vec<Server>,
    calls: BTreeMap<(usize, u64), Call>,
    outcome: Outcome,
}

/// Runs a plan. Servers above `line` have the secrets of `variant`; all others always have the same.
pub(crate) fn run(plan: &Plan, line: Level, variant: u64) -> Outcome {
    let servers = plan.levels.iter().enumerate().map(|(index, level)| Server {
        id: ServerId::parse(&format!("s{index}")).unwrap(),
        level: *level,
        secret: if *level > line {
            digest((plan.seed, index, variant))
        } else {
            0
        },
        history: NOTHING,
    });
    let mut world = World {
        plan,
        agents: vec![
            Agent {
                memory: NOTHING,
                incarnation: 0
            };
            plan.callers
        ],
        sessions: (0..plan.callers)
            .map(|_| Arc::new(Session::new()))
            .collect(),
        disk: vec![(0, Label::default()); plan.callers],
        servers: servers.collect(),
        calls: BTreeMap::new(),
        outcome: Outcome {
            received: plan
                .levels
                .iter()
                .map(|level| (*level, Vec::new()))
                .collect(),
            ..Outcome::default()
        },
    };
    let mut events: Vec<Key> = timetable(plan);
    events.sort_unstable();
    for (_, caller, wake, event) in events {
        world.happens(caller, wake, event);
    }
    world.outcome
}

impl World<'_> {
    fn happens(&mut self, caller: usize, wake: u64, event: Event) {
        match event {
            Event::Wake => self.wake(caller, wake),
            Event::Reset => self.reset(caller),
            Event::Kill => self.kill(),
            _ => {
                // Gone if it was refused, or if the gate was killed meanwhile.
                let Some(mut call) = self.calls.remove(&(caller, wake)) else {
                    return;
                };
                let goes_on = match event {
                    Event::Weigh => self.weigh(caller, &mut call),
                    Event::Dispatch => self.dispatch(caller, &mut call),
                    Event::Return => self.absorb(caller, &mut call),
                    Event::Save => self.save(caller, &mut call),
                    Event::Show => self.show(caller, &mut call),
                    _ => self.absorb_too_late(caller, &mut call),
                };
                if goes_on {
                    self.calls.insert((caller, wake), call);
                }
            }
        }
    }

    /// The agent begins a call. Whom it calls depends on everything it knows, and so does what it says.
    fn wake(&mut self, caller: usize, wake: u64) {
        let (agent, session) = (self.agents[caller], &self.sessions[caller]);
        let server = (digest((agent.memory.digest, wake)) % self.servers.len() as u64) as usize;
        let call = Call {
            server,
            content: agent.memory,
            step: Step::new(&format!("{caller}-{wake}"), session),
            incarnation: agent.incarnation,
            result: NOTHING,
            absorbed: None,
            showable: None,
            is_weighed: self.plan.flaw == Flaw::WeighsBeforeReceived
                && session.weigh(self.servers[server].level).is_ok(),
        };
        self.calls.insert((caller, wake), call);
    }

    /// The call has been received in full. Until then its agent could put into it whatever it learnt.
    fn weigh(&mut self, caller: usize, call: &mut Call) -> bool {
        let agent = &mut self.agents[caller];
        if call.incarnation == agent.incarnation {
            call.content = agent.memory;
        }
        if self.plan.flaw == Flaw::ForgetsTheArrival {
            call.step = Step::new("late", &self.sessions[caller]);
        }
        let is_allowed = self.sessions[caller]
            .weigh_step(self.servers[call.server].level, &call.step)
            .is_ok();
        if is_allowed || call.is_weighed || self.plan.flaw == Flaw::NeverWeighs {
            return true;
        }
        self.outcome.refused += 1;
        // The word goes to whoever made the call.
        if call.incarnation == agent.incarnation {
            agent.memory = agent.memory.with(Value {
                digest: 1,
                ..NOTHING
            });
        }
        false
    }

    fn dispatch(&mut self, caller: usize, call: &mut Call) -> bool {
        let server = &mut self.servers[call.server];
        self.outcome.leaks += u64::from(call.content.level > server.level);
        self.outcome.received[call.server]
            .1
            .push((caller, call.content.digest));
        server.history = server.history.with(call.content);
        call.result = Value {
            digest: digest((server.secret, server.history.digest)),
            level: server.level,
        };
        true
    }

    fn absorb(&mut self, caller: usize, call: &mut Call) -> bool {
        if self.plan.flaw != Flaw::AbsorbsAfterShowing {
            let server = &self.servers[call.server];
            call.absorbed = Some(self.sessions[caller].absorb_step(
                &Label::of(Mark::trusted(server.level), server.id.clone()),
                &call.step,
            ));
        }
        true
    }

    fn save(&mut self, caller: usize, call: &mut Call) -> bool {
        let Some(absorbed) = call.absorbed.take() else {
            return true;
        };
        let showable = absorbed.durable().unwrap_or_else(|absorbed| {
            let snapshot = absorbed.session().unsaved().unwrap();
            self.disk[caller] = (snapshot.epoch, snapshot.label.clone());
            absorbed.session().saved(&snapshot);
            absorbed.durable().unwrap()
        });
        call.showable = (self.plan.flaw != Flaw::ForgetsWhatIsLeaving).then_some(showable);
        true
    }

    /// The result reaches whoever uses the credential now.
    fn show(&mut self, caller: usize, call: &mut Call) -> bool {
        let agent = &mut self.agents[caller];
        agent.memory = agent.memory.with(call.result);
        drop(call.showable.take());
        matches!(
            self.plan.flaw,
            Flaw::ShowsBeforeSaving | Flaw::AbsorbsAfterShowing
        )
    }

    fn absorb_too_late(&mut self, caller: usize, call: &mut Call) -> bool {
        let server = &self.servers[call.server];
        if self.plan.flaw == Flaw::AbsorbsAfterShowing {
            call.absorbed = Some(self.sessions[caller].absorb_step(
                &Label::of(Mark::trusted(server.level), server.id.clone()),
                &call.step,
            ));
            self.save(caller, call);
        }
        false
    }

    /// A person replaces the agent by one that knows nothing, and resets the session.
    fn reset(&mut self, caller: usize) {
        let agent = &mut self.agents[caller];
        *agent = Agent {
            memory: NOTHING,
            incarnation: agent.incarnation + 1,
        };
        let reset = self.sessions[caller].reset();
        self.disk[caller] = (reset.begun.epoch, reset.begun.label.clone());
        self.sessions[caller].saved(&reset.begun);
        self.outcome.resets += 1;
    }

    /// The gate is killed and started again. The agents and the servers are not.
    fn kill(&mut self) {
        drop(mem::take(&mut self.calls));
        for (session, (epoch, label)) in self.sessions.iter_mut().zip(&self.disk) {
            *session = Arc::new(match self.plan.flaw {
                Flaw::ForgetsAtRestart => Session::new(),
                _ => Session::restore(label.clone(), *epoch, ""),
            });
        }
    }
}
