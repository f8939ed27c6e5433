//! Random questions, answers and uses, compared step by step with a model of a few lines.

use proptest::prelude::*;

use super::question;
use crate::{AnswerError, ApprovalState, SpendError, State};

#[derive(Debug, Clone)]
enum Op {
    Ask { digest: u8, lives: u64 },
    Answer { which: usize, approve: bool },
    Spend { digest: u8 },
    Expire,
    Wait { ms: u64 },
}

fn any_op() -> impl Strategy<Value = Op> {
    prop_oneof![
        4 => (0u8..3, 1u64..60).prop_map(|(digest, lives)| Op::Ask { digest, lives }),
        4 => (0usize..20, any::<bool>()).prop_map(|(which, approve)| Op::Answer { which, approve }),
        4 => (0u8..3).prop_map(|digest| Op::Spend { digest }),
        1 => Just(Op::Expire),
        2 => (0u64..40).prop_map(|ms| Op::Wait { ms }),
    ]
}

#[derive(Debug)]
struct Entry {
    id: String,
    digest: u8,
    state: ApprovalState,
    expires_ms: u64,
    /// Somebody was told that it expired.
    is_closed: bool,
}

#[derive(Default)]
struct Model {
    entries: Vec<Entry>,
    now: u64,
}

impl Model {
    /// Time passes for everything at once.
    fn wait(&mut self, ms: u64) {
        self.now += ms;
        for entry in self
            .entries
            .iter_mut()
            .filter(|entry| entry.state.is_open() && entry.expires_ms <= self.now)
        {
            entry.state = ApprovalState::Expired;
        }
    }

    fn last(&mut self, digest: u8) -> Option<&mut Entry> {
        self.entries
            .iter_mut()
            .rev()
            .find(|entry| entry.digest == digest)
    }
}

async fn step(state: &State, model: &mut Model, op: Op, n: u64) {
    let now = model.now;
    match op {
        Op::Wait { ms } => model.wait(ms),
        Op::Expire => {
            let expired: Vec<String> = state
                .expire(now)
                .await
                .unwrap()
                .into_iter()
                .map(|approval| approval.id)
                .collect();
            let mut expected = Vec::new();
            for entry in model
                .entries
                .iter_mut()
                .filter(|entry| entry.state == ApprovalState::Expired && !entry.is_closed)
            {
                entry.is_closed = true;
                expected.push(entry.id.clone());
            }
            assert_eq!(expired, expected);
        }
        Op::Ask { digest, lives } => {
            let mut new = question(digest, n + 1);
            (new.asked_ms, new.expires_ms) = (now, now + lives);
            let asked = state.ask(new).await.unwrap();
            // Asking also closes what is over time.
            model
                .entries
                .iter_mut()
                .filter(|entry| entry.state == ApprovalState::Expired)
                .for_each(|entry| entry.is_closed = true);
            match model.last(digest).filter(|entry| entry.state.is_open()) {
                Some(entry) => assert_eq!((asked.is_new, &asked.approval.id), (false, &entry.id)),
                None => {
                    assert!(asked.is_new);
                    let (id, expires_ms) = (asked.approval.id, now + lives);
                    model.entries.push(Entry {
                        id,
                        digest,
                        state: ApprovalState::Pending,
                        expires_ms,
                        is_closed: false,
                    });
                }
            }
        }
        Op::Answer { which, approve } => {
            let Some(entry) = model.entries.get_mut(which) else {
                assert!(matches!(
                    state.answer("nobody", approve, "ann", "", now).await,
                    Err(AnswerError::Unknown)
                ));
                return;
            };
            let found = state.answer(&entry.id, approve, "ann", "", now).await;
            match (entry.state, found) {
                (ApprovalState::Pending, Ok(approval)) => {
                    entry.state = if approve {
                        ApprovalState::Approved
                    } else {
                        ApprovalState::Denied
                    };
                    assert_eq!(approval.state, entry.state);
                }
                (ApprovalState::Expired, Err(AnswerError::Expired(_))) => {}
                (before, Err(AnswerError::AlreadyAnswered(approval))) => {
                    assert!(
                        before != ApprovalState::Pending && before == approval.state,
                        "{before}"
                    );
                }
                (before, other) => panic!("{before}: {other:?}"),
            }
        }
        Op::Spend { digest } => match (model.last(digest), state.spend(&[digest; 32], now).await) {
            (Some(entry), Ok(approval)) => {
                assert_eq!(
                    (entry.state, &entry.id),
                    (ApprovalState::Approved, &approval.id)
                );
                entry.state = ApprovalState::Used;
            }
            (None, Err(SpendError::NotAsked)) => {}
            (Some(entry), Err(error)) => {
                let state = match error {
                    SpendError::NotApproved(_) => ApprovalState::Pending,
                    SpendError::Denied(_) => ApprovalState::Denied,
                    SpendError::Expired(_) => ApprovalState::Expired,
                    SpendError::AlreadyUsed(_) => ApprovalState::Used,
                    SpendError::NotAsked | SpendError::State(_) => panic!("{error}"),
                };
                assert_eq!(entry.state, state);
            }
            (None, other) => panic!("{other:?}"),
        },
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn approvals_do_what_the_model_does(ops in prop::collection::vec(any_op(), 1..60)) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let state = State::in_memory().await.unwrap();
            let mut model = Model::default();
            for (n, op) in (0..).zip(ops) {
                step(&state, &mut model, op, n).await;
                let seen: Vec<_> = state.approvals(true, model.now).await.unwrap().into_iter().map(|a| (a.id, a.state)).collect();
                let expected: Vec<_> = model.entries.iter().map(|entry| (entry.id.clone(), entry.state)).collect();
                assert_eq!(seen, expected);
            }
        });
    }
}
