//! The machine against any order of messages: lost, late, twice, forged, from an executor that was started anew.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

const DIGEST: ResultDigest = [7; 32];

fn machine(calls: usize) -> (Machine<usize>, Vec<Ticket>) {
    let mut machine = Machine::default();
    let tickets = (0..calls)
        .map(|call| machine.queue(call).unwrap())
        .collect();
    (machine, tickets)
}

#[test]
fn an_execution_goes_from_detached_to_ended() {
    let (mut machine, tickets) = machine(1);
    assert_eq!(machine.phase(), Phase::Detached);
    machine.attach(None);
    assert_eq!(machine.phase(), Phase::Ready);
    assert_eq!(machine.ask(DispatchId(1)), Some((DispatchId(1), &0)));
    assert_eq!(machine.phase(), Phase::Running);
    assert_eq!(
        machine.hear(DispatchId(1), DIGEST),
        Heard::Concludes(tickets[0])
    );
    assert_eq!((machine.phase(), machine.executed()), (Phase::Ready, 1));
    assert_eq!(machine.end(), []);
    assert_eq!(machine.phase(), Phase::Ended);
    assert_eq!(machine.queue(2), Err(NotQueued::Ended));
    assert_eq!(machine.ask(DispatchId(2)), None);
}

#[test]
fn who_asks_again_is_sent_the_same_again() {
    let (mut machine, _) = machine(2);
    machine.attach(Some("a".into()));
    assert_eq!(machine.ask(DispatchId(1)), Some((DispatchId(1), &0)));
    assert_eq!(machine.attach(Some("a".into())), None);
    assert_eq!(
        machine.ask(DispatchId(2)),
        Some((DispatchId(1), &0)),
        "the same id"
    );
    machine.attach(None);
    assert_eq!(machine.ask(DispatchId(3)), Some((DispatchId(1), &0)));
}

#[test]
fn another_executor_is_not_given_what_one_before_it_had() {
    let (mut machine, tickets) = machine(2);
    machine.attach(Some("a".into()));
    machine.ask(DispatchId(1));
    assert_eq!(machine.attach(Some("b".into())), Some(tickets[0]));
    assert_eq!(machine.ask(DispatchId(2)), Some((DispatchId(2), &1)));
    assert_eq!(
        machine.hear(DispatchId(1), DIGEST),
        Heard::Again { differs: true },
        "the first one comes back late"
    );
    assert!(machine.was_anothers(DispatchId(1)) && !machine.was_anothers(DispatchId(2)));
    assert_eq!(machine.phase(), Phase::Running);
}

#[test]
fn an_answer_to_an_unknown_id_changes_nothing() {
    let (mut machine, tickets) = machine(1);
    assert_eq!(machine.hear(DispatchId(1), DIGEST), Heard::Unknown);
    machine.ask(DispatchId(1));
    assert_eq!(machine.hear(DispatchId(2), DIGEST), Heard::Unknown);
    assert!(machine.is_delivered(tickets[0]));
    assert_eq!(
        machine.hear(DispatchId(1), DIGEST),
        Heard::Concludes(tickets[0])
    );
}

#[test]
fn of_a_million_forged_ids_none_is_taken() {
    let (mut machine, tickets) = machine(1);
    let real = 0x9c5e_0f1d_77aa_4b12_8f00_13d2_6ab4_c001;
    machine.ask(DispatchId(real));
    let mut guess: u128 = 1;
    for _ in 0..1_000_000 {
        // A full period, so that no guess comes twice.
        guess = guess
            .wrapping_mul(0x2360_ed05_1fc6_5da4_4385_df64_9fcc_f645)
            .wrapping_add(1);
        assert_eq!(machine.hear(DispatchId(guess), DIGEST), Heard::Unknown);
    }
    assert!(machine.is_delivered(tickets[0]));
}

#[test]
fn an_answer_that_comes_twice_changes_nothing() {
    let (mut machine, _) = machine(2);
    machine.ask(DispatchId(1));
    machine.hear(DispatchId(1), DIGEST);
    machine.ask(DispatchId(2));
    assert_eq!(
        machine.hear(DispatchId(1), DIGEST),
        Heard::Again { differs: false }
    );
    assert_eq!(
        machine.hear(DispatchId(1), [8; 32]),
        Heard::Again { differs: true }
    );
    assert_eq!(machine.running(), Some((DispatchId(2), &1)));
}

#[test]
fn a_call_that_is_given_up_leaves_the_rest_in_turn() {
    let (mut machine, tickets) = machine(3);
    machine.ask(DispatchId(1));
    assert_eq!(machine.give_up(tickets[1]), GivenUp::Waiting);
    assert_eq!(machine.give_up(tickets[0]), GivenUp::Delivered);
    assert_eq!(machine.phase(), Phase::Detached);
    assert_eq!(machine.give_up(tickets[0]), GivenUp::Gone);
    assert_eq!(machine.ask(DispatchId(2)), Some((DispatchId(2), &2)));
    assert_eq!(
        machine.hear(DispatchId(1), DIGEST),
        Heard::Again { differs: true }
    );
    assert_eq!(machine.end(), [(tickets[2], GivenUp::Delivered)]);
}

#[test]
fn a_queue_has_an_end() {
    let (mut machine, _) = machine(MAX_QUEUE);
    assert_eq!(machine.queue(0), Err(NotQueued::Full));
    assert_eq!(machine.waiting(), MAX_QUEUE);
}

#[test]
fn what_was_concluded_is_remembered_for_a_bounded_time() {
    let mut machine = Machine::default();
    for id in 0..1000 {
        machine.queue(id).unwrap();
        machine.ask(DispatchId(id));
        machine.hear(DispatchId(id), DIGEST);
    }
    assert_eq!(machine.past.len(), REMEMBERED);
    assert_eq!(
        machine.hear(DispatchId(999), DIGEST),
        Heard::Again { differs: false }
    );
    assert_eq!(machine.hear(DispatchId(0), DIGEST), Heard::Unknown);
}

/// One thing that can happen, whatever happened before.
#[derive(Debug, Clone)]
enum Happens {
    Call,
    /// The executor asks; its answer arrives or is lost on the way.
    Asks {
        arrives: bool,
    },
    /// The executor posts what it has; it arrives or not, and the reply too.
    Posts {
        arrives: bool,
        replies: bool,
    },
    /// A copy of something posted earlier arrives late.
    Late(prop::sample::Index),
    Forged(u128),
    GivesUp(prop::sample::Index),
    /// The executor dies and another is started, which says so or not.
    Restarts {
        says_so: bool,
    },
}

fn happens() -> impl Strategy<Value = Happens> {
    prop_oneof![
        4 => Just(Happens::Call),
        4 => any::<bool>().prop_map(|arrives| Happens::Asks { arrives }),
        6 => any::<(bool, bool)>().prop_map(|(arrives, replies)| Happens::Posts { arrives, replies }),
        2 => any::<prop::sample::Index>().prop_map(Happens::Late),
        1 => any::<u128>().prop_map(Happens::Forged),
        1 => any::<prop::sample::Index>().prop_map(Happens::GivesUp),
        1 => any::<bool>().prop_map(|says_so| Happens::Restarts { says_so }),
    ]
}

/// An executor that keeps to the protocol: it runs an id once, and posts again what it kept.
#[derive(Debug, Default)]
struct Executor {
    name: Option<String>,
    ran: BTreeSet<u128>,
    /// What it has to post, until a reply says that it arrived.
    holds: Option<(u128, usize)>,
}

impl Executor {
    fn takes(&mut self, (id, work): (u128, usize), runs: &mut Vec<(String, u128)>) {
        if self.ran.insert(id) {
            runs.push((self.name.clone().unwrap_or_default(), id));
        }
        self.holds = Some((id, work));
    }
}

fn digest_of(work: usize) -> ResultDigest {
    let mut digest = [0; 32];
    digest[..8].copy_from_slice(&(work as u64).to_be_bytes());
    digest
}

#[derive(Debug, Default)]
struct World {
    machine: Machine<usize>,
    executor: Executor,
    tickets: Vec<Ticket>,
    /// How each call ended: the work of the answer that concluded it, or nothing.
    ended: BTreeMap<Ticket, Option<usize>>,
    order: Vec<Ticket>,
    posted: Vec<(u128, usize)>,
    runs: Vec<(String, u128)>,
    ids: u128,
    restarts: usize,
}

impl World {
    fn ends(&mut self, ticket: Ticket, with: Option<usize>) {
        assert!(
            self.ended.insert(ticket, with).is_none(),
            "{ticket:?} ended twice"
        );
    }

    fn asks(&mut self, arrives: bool) {
        self.ids += 1;
        let sent = self.machine.ask(DispatchId(self.ids));
        let sent = sent.map(|(id, work)| (id.0, *work));
        if let (Some(sent), true) = (sent, arrives) {
            self.executor.takes(sent, &mut self.runs);
        }
    }

    fn heard(&mut self, (id, work): (u128, usize)) {
        match self.machine.hear(DispatchId(id), digest_of(work)) {
            Heard::Concludes(ticket) => {
                self.order.push(ticket);
                self.ends(ticket, Some(work));
            }
            Heard::Again { .. } | Heard::Unknown => {}
        }
    }

    fn happens(&mut self, what: &Happens) {
        match what {
            Happens::Call => {
                let work = self.tickets.len();
                if let Ok(ticket) = self.machine.queue(work) {
                    self.tickets.push(ticket);
                }
            }
            Happens::Asks { arrives } => {
                let lost = self.machine.attach(self.executor.name.clone());
                if let Some(ticket) = lost {
                    self.ends(ticket, None);
                }
                self.asks(*arrives);
            }
            Happens::Posts { arrives, replies } => {
                let Some(held) = self.executor.holds else {
                    return;
                };
                self.posted.push(held);
                if *arrives {
                    self.heard(held);
                    if *replies {
                        self.executor.holds = None;
                    }
                    self.asks(*replies);
                }
            }
            Happens::Late(index) => {
                if !self.posted.is_empty() {
                    let copy = *index.get(&self.posted);
                    self.heard(copy);
                }
            }
            Happens::Forged(id) => {
                let before = self.machine.running().map(|(id, work)| (id, *work));
                let heard = self.machine.hear(DispatchId(id | 1 << 127), DIGEST);
                assert_eq!(heard, Heard::Unknown);
                let after = self.machine.running().map(|(id, work)| (id, *work));
                assert_eq!(before, after, "the running one stays");
            }
            Happens::GivesUp(index) => {
                if self.tickets.is_empty() {
                    return;
                }
                let ticket = *index.get(&self.tickets);
                if self.machine.give_up(ticket) != GivenUp::Gone {
                    self.ends(ticket, None);
                }
            }
            Happens::Restarts { says_so } => {
                self.restarts += 1;
                self.executor = Executor {
                    name: says_so.then(|| format!("executor {}", self.restarts)),
                    ..Executor::default()
                };
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(10_000))]

    #[test]
    fn every_call_is_concluded_once_and_in_order(history in proptest::collection::vec(happens(), 0..60)) {
        let mut world = World::default();
        for what in &history {
            world.happens(what);
        }
        for (ticket, _) in world.machine.end() {
            world.ends(ticket, None);
        }
        prop_assert_eq!(world.ended.len(), world.tickets.len(), "a call was lost");
        for (ticket, answer) in &world.ended {
            if let Some(work) = answer {
                prop_assert_eq!(world.tickets.get(*work), Some(ticket), "another's answer");
            }
        }
        prop_assert!(world.order.is_sorted(), "out of turn");
        let once: BTreeSet<_> = world.runs.iter().collect();
        let named = world.runs.iter().filter(|(name, _)| !name.is_empty());
        let named_once: BTreeSet<_> = named.clone().collect();
        prop_assert_eq!(named.count(), named_once.len(), "one executor ran an id twice");
        prop_assert!(!once.is_empty() || world.order.is_empty());
    }

    /// Two executions share nothing: what is right for one is unknown to the other.
    #[test]
    fn an_id_of_another_execution_is_unknown(ids in proptest::collection::vec(any::<u64>(), 1..20)) {
        let (mut one, _) = machine(20);
        let (mut other, _) = machine(20);
        for id in ids {
            let id = DispatchId(u128::from(id));
            if one.phase() == Phase::Running {
                one.hear(one.running().map(|(id, _)| id).unwrap(), DIGEST);
            }
            one.ask(id);
            prop_assert_eq!(other.hear(id, DIGEST), Heard::Unknown);
            prop_assert_eq!(other.executed(), 0);
        }
    }
}

/// Two executors that take turns would lose each other's commands: who was replaced stays so.
#[test]
fn an_executor_whose_place_was_taken_is_told() {
    let mut machine: Machine<&str> = Machine::default();
    machine.attach(Some("a".into()));
    assert!(!machine.is_replaced("a"));
    machine.attach(Some("b".into()));
    assert!(machine.is_replaced("a") && !machine.is_replaced("b"));
    machine.attach(Some("b".into()));
    assert!(!machine.is_replaced("b"));
}
