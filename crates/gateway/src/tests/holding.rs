//! Nothing is held without an owner: random scenes of answers, questions, readers, resets, hang-ups and expiries, with a clock that the
//! scene turns. No bound is ever exceeded, nothing leaves under a lower label than it came, and at the end nothing is left.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use callers::{
    places::Places,
    room::{Account, FLOOR, IN_ALL, PER_CALLER, Rooms},
};
use calls::{parking::Parking, running::FromClient};
use flow::{Session, Showable};
use upstreams::words::own_words;
use vocab::{Label, Level, Mark, ServerId};

use crate::{
    Answer, Event, Running,
    call::{FEW_WAITING, MAX_WAITING, MAX_WAITING_IN_ALL, Waiting},
};

const STEPS: usize = 40;
const LARGEST: usize = 32 << 20;
const PATIENCE: Duration = Duration::from_secs(600);
const LEVELS: [Level; 4] = [
    Level::Public,
    Level::Internal,
    Level::Confidential,
    Level::Restricted,
];

/// How many random scenes a property is tried on; more in a campaign.
fn scenes() -> u64 {
    let told = std::env::var("PORTCULLIS_SCENES").ok();
    told.and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

/// A source of numbers that is the same in every run.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 >> 11).unwrap_or(0) % sides
    }
}

/// One caller, and what is on its way to it.
struct Party {
    session: Arc<Session>,
    account: Arc<Account>,
    slots: Arc<Places>,
    waiting: Arc<Places>,
    /// Answers that nobody has read yet, with what they carry.
    unread: Vec<(Mark, Bytes, Showable)>,
}

struct Scene {
    dice: Dice,
    rooms: Arc<Rooms>,
    slots: Arc<Places>,
    waiting: Arc<Places>,
    parking: Parking,
    parked: Vec<u64>,
    parties: Vec<Party>,
}

/// What a call that was sent does while its server has asked something: it waits for the answer, a cancellation, or nobody.
fn asking(waits: Waiting, places: [Arc<Places>; 2], text: Bytes, evidence: Showable) -> Running {
    Running::new(move |mut wires| async move {
        let _held = (text, evidence);
        wires
            .say(Event::Ask {
                key: "1".into(),
                method: "elicitation/create".into(),
                params: own_words("{}"),
            })
            .await;
        let answered = matches!(
            wires.from_client.recv().await,
            Some(FromClient::Answer { .. })
        );
        drop(waits);
        let _again = answered.then(|| places.each_ref().map(Places::take_again));
        tokio::task::yield_now().await;
    })
}

impl Scene {
    fn new(seed: u64) -> Self {
        let mut dice = Dice(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let rooms = Arc::<Rooms>::default();
        rooms.set_largest(LARGEST);
        let party = |_| Party {
            session: Arc::new(Session::new()),
            account: Account::under(&rooms),
            slots: Arc::default(),
            waiting: Arc::default(),
            unread: Vec::new(),
        };
        let parties = (0..=dice.roll(5)).map(party).collect();
        let (slots, waiting) = (Arc::default(), Arc::default());
        Self {
            dice,
            rooms,
            slots,
            waiting,
            parking: Parking::default(),
            parked: Vec::new(),
            parties,
        }
    }

    /// Words of a server that `party` may be shown: counted, and part of its durable label.
    fn words(&mut self, at: usize) -> Option<(Mark, Bytes, Showable)> {
        let bytes = [100, 64 << 10, 1 << 20, LARGEST / 3, LARGEST][self.dice.roll(5)];
        let mark = Mark::trusted(LEVELS[self.dice.roll(4)]);
        let party = &self.parties[at];
        let text = party.account.take(bytes)?.hold(Bytes::new());
        let absorbed = party
            .session
            .absorb(&Label::of(mark, ServerId::parse("server").unwrap()));
        if let Some(unsaved) = party.session.unsaved() {
            party.session.saved(&unsaved);
        }
        Some((mark, text, absorbed.durable().unwrap()))
    }

    async fn step(&mut self) {
        let at = self.dice.roll(self.parties.len());
        match self.dice.roll(10) {
            0..=3 => {
                if let Some(words) = self.words(at) {
                    self.parties[at].unread.push(words);
                }
            }
            4 => self.read(at),
            5 => self.parties[at].unread.clear(),
            6 => self.reset(at),
            7 => self.ask(at).await,
            8 => self.come_back().await,
            _ => {
                tokio::time::advance(PATIENCE / 3).await;
                self.parking.expire(PATIENCE);
                tokio::task::yield_now().await;
            }
        }
    }

    fn read(&mut self, at: usize) {
        let party = &mut self.parties[at];
        if party.unread.is_empty() {
            return;
        }
        let (mark, text, evidence) = party.unread.remove(self.dice.roll(party.unread.len()));
        assert_eq!(
            party.session.mark().join(mark),
            party.session.mark(),
            "it leaves under a lower label than it came"
        );
        drop((text, evidence));
    }

    fn reset(&mut self, at: usize) {
        let party = &self.parties[at];
        let reset = party.session.reset();
        party.session.saved(&reset.begun);
        for (mark, ..) in &party.unread {
            assert_eq!(
                party.session.mark().join(*mark),
                party.session.mark(),
                "a reset washed it off"
            );
        }
    }

    async fn ask(&mut self, at: usize) {
        let Some((_, text, evidence)) = self.words(at) else {
            return;
        };
        let party = &self.parties[at];
        let Some(waits) = Waiting::take(&party.waiting, &self.waiting) else {
            return;
        };
        let places = [Arc::clone(&party.slots), Arc::clone(&self.slots)];
        let mut running = asking(waits, places, text, evidence);
        assert!(matches!(running.next().await, Event::Ask { .. }));
        self.parked.push(self.parking.put(running));
    }

    async fn come_back(&mut self) {
        if self.parked.is_empty() {
            return;
        }
        let handle = self.parked.remove(self.dice.roll(self.parked.len()));
        // It may have expired.
        let Some(mut running) = self.parking.take(handle) else {
            return;
        };
        match self.dice.roll(3) {
            0 => running.cancel(),
            1 => drop(running),
            _ => {
                running.answer("1", Answer::Result(Bytes::from_static(b"{}")));
                assert!(matches!(running.next().await, Event::Done(_)));
            }
        }
    }

    fn check(&self) {
        let callers = self.parties.len();
        assert!(
            self.rooms.held() <= IN_ALL * LARGEST + callers * FLOOR,
            "{}",
            self.rooms.held()
        );
        assert!(self.waiting.taken() <= MAX_WAITING_IN_ALL + callers * FEW_WAITING);
        assert!(
            self.parking.count() <= self.waiting.taken(),
            "every parked call has its place among those who wait"
        );
        for party in &self.parties {
            assert!(
                party.account.held() <= (PER_CALLER * LARGEST).max(FLOOR),
                "{}",
                party.account.held()
            );
            assert!(party.waiting.taken() <= MAX_WAITING);
        }
        let own: usize = self.parties.iter().map(|party| party.account.held()).sum();
        assert_eq!(own, self.rooms.held(), "every byte is somebody's");
    }

    async fn end(mut self) {
        self.parties
            .iter_mut()
            .for_each(|party| party.unread.clear());
        tokio::time::advance(PATIENCE).await;
        self.parking.expire(PATIENCE);
        for _ in 0..4 {
            tokio::task::yield_now().await;
        }
        assert_eq!((self.parking.count(), self.rooms.held()), (0, 0));
        assert_eq!((self.waiting.taken(), self.slots.taken()), (0, 0));
        for party in &self.parties {
            assert_eq!(
                (
                    party.waiting.taken(),
                    party.slots.taken(),
                    party.account.held()
                ),
                (0, 0, 0)
            );
            assert_eq!(party.session.on_its_way(), Mark::default());
        }
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_held_without_an_owner() {
    for seed in 1..=scenes() {
        let mut scene = Scene::new(seed);
        for _ in 0..STEPS {
            scene.step().await;
            scene.check();
        }
        scene.end().await;
    }
}
