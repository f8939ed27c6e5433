//! Two gates that share a store: what either has shown, both weigh.

use std::sync::Arc;

use flow::{Session, Step};
use proptest::prelude::*;
use vocab::{Label, Level, Mark, ServerId};

use crate::{Memory, State};

/// One gate: its state, and its copy of the caller's session.
struct Gate {
    state: State,
    session: Arc<Session>,
}

impl Gate {
    fn new(store: &Memory) -> Self {
        Self {
            state: State::new(Arc::new(store.clone())),
            session: Arc::new(Session::new()),
        }
    }

    /// Shows a result of this level: ready when it may leave.
    async fn show(&self, level: Level) -> flow::Showable {
        let origin = ServerId::parse(&level.to_string().to_lowercase()).unwrap();
        let absorbed = self
            .session
            .absorb(&Label::of(Mark::trusted(level), origin));
        self.state.keep("c1", absorbed).await.unwrap()
    }

    /// Whether a call that was just received may go to a server that takes at most `ceiling`.
    async fn lets_through(&self, ceiling: Level) -> bool {
        self.state.refresh("c1", &self.session).await.unwrap();
        let step = Step::new("call", &self.session);
        self.session.weigh_step(ceiling, &step).is_ok()
    }
}

#[derive(Debug, Clone, Copy)]
enum Op {
    Show(usize, Level),
    Weigh(usize, Level),
    Reset(usize),
    Restart(usize),
}

fn any_op() -> impl Strategy<Value = Op> {
    let level = prop::sample::select(Level::ALL.to_vec());
    prop_oneof![
        4 => (0..2usize, level.clone()).prop_map(|(gate, level)| Op::Show(gate, level)),
        6 => (0..2usize, level).prop_map(|(gate, level)| Op::Weigh(gate, level)),
        1 => (0..2usize).prop_map(Op::Reset),
        1 => (0..2usize).prop_map(Op::Restart),
    ]
}

fn run(future: impl Future<Output = ()>) {
    tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap()
        .block_on(future);
}

proptest! {
    #[test]
    fn what_one_gate_has_shown_every_gate_weighs(ops in prop::collection::vec(any_op(), 1..60)) {
        run(async {
            let store = Memory::default();
            let mut gates = [Gate::new(&store), Gate::new(&store)];
            // The highest level that was shown since the last reset.
            let mut shown = Level::Public;
            for op in ops {
                match op {
                    Op::Show(gate, level) => {
                        drop(gates[gate].show(level).await);
                        shown = shown.max(level);
                    }
                    Op::Weigh(gate, ceiling) => {
                        assert_eq!(gates[gate].lets_through(ceiling).await, shown <= ceiling, "{op:?} after {shown}");
                    }
                    Op::Reset(gate) => {
                        let Gate { state, session } = &gates[gate];
                        state.reset("c1", session, "ann", "", 1).await.unwrap();
                        shown = Level::Public;
                    }
                    Op::Restart(gate) => gates[gate] = Gate::new(&store),
                }
            }
        });
    }
}

#[tokio::test]
async fn a_rise_after_a_reset_elsewhere_belongs_to_the_new_epoch() {
    let store = Memory::default();
    let (here, there) = (Gate::new(&store), Gate::new(&store));
    drop(here.show(Level::Restricted).await);
    there
        .state
        .reset("c1", &there.session, "ann", "", 1)
        .await
        .unwrap();
    // Here nobody has looked since; what is shown now is kept in the epoch that is in force.
    drop(here.show(Level::Internal).await);
    let saved = here.state.sessions().await.unwrap().pop().unwrap();
    assert_eq!(
        (saved.epoch, saved.label.mark.secrecy),
        (1, here.session.mark().secrecy)
    );
    assert!(!there.lets_through(Level::Public).await);
}
