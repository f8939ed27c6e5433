//! The life of one sink: read, hand over, note how far; after a failure, wait and go on from where it was noted.

use std::{
    io,
    path::PathBuf,
    sync::Arc,
    time::{Duration, Instant},
};

use audit::{Batch, Feed, Place};
use tokio::sync::watch;

use crate::{
    backoff::pause_after,
    cursor::Cursor,
    driver::{Broken, Driver},
    settings::{Outside, Spec, Start},
    settling::Settling,
    status::{Board, State},
};

/// A sink that leaves most events out notes its place at least this often, in records.
const PASSED_OVER: u64 = 1024;
/// How often deliveries that settle are looked at.
const LOOK: Duration = Duration::from_millis(200);

pub(crate) struct Delivery {
    pub(crate) spec: Spec,
    pub(crate) ledger: PathBuf,
    pub(crate) durable: watch::Receiver<u64>,
    pub(crate) cursor: Cursor,
    pub(crate) outside: Outside,
    pub(crate) board: Arc<Board>,
    pub(crate) stop: watch::Receiver<bool>,
}

enum Round {
    /// There is more to do at once.
    More,
    /// There is nothing to do but wait.
    Idle,
}

/// A sink under way.
struct Way {
    driver: Driver,
    /// `None` while it is being read on another thread.
    feed: Option<Feed>,
    settling: Settling,
    /// Everything before this is done with.
    done: Place,
    /// What the cursor on the disk says.
    saved: Place,
}

impl Delivery {
    /// Runs until it is told to stop; then it delivers what is there already, unless that fails.
    pub(crate) async fn run(mut self) {
        let mut way = match self.begin().await {
            Some(way) => way,
            None => return,
        };
        loop {
            let until = *self.durable.borrow_and_update();
            match self.round(&mut way, until).await {
                Ok(Round::More) => self.board.well(State::Delivering),
                Ok(Round::Idle) => {
                    self.board.well(if way.settling.is_empty() {
                        State::Idle
                    } else {
                        State::Delivering
                    });
                    if (self.is_told_to_stop() && way.settling.is_empty())
                        || self.wait(&way).await.is_err()
                    {
                        break;
                    }
                }
                Err(why) => {
                    let failures = self.board.failed(&why);
                    tracing::warn!(
                        sink = self.spec.name,
                        failures,
                        why,
                        "a sink is not delivering"
                    );
                    if self.is_told_to_stop()
                        || self
                            .pause(pause_after(failures, (self.outside.dice)()))
                            .await
                            .is_err()
                    {
                        break;
                    }
                }
            }
        }
        if let Err(error) = self.save(&mut way).await {
            tracing::error!(sink = self.spec.name, %error, "where a sink was could not be noted; what it delivered last comes again");
        }
        self.board.note().state = State::Stopped;
    }

    /// Finds out where to go on. A cursor that cannot be used stops the sink until somebody has looked.
    async fn begin(&mut self) -> Option<Way> {
        loop {
            match self.starting_place().await {
                Ok(place) => {
                    self.board.note().next = place;
                    let feed = Some(Feed::new(&self.ledger, place));
                    let driver = Driver::new(&self.spec, &self.ledger, &self.outside);
                    return Some(Way {
                        driver,
                        feed,
                        settling: Settling::default(),
                        done: place,
                        saved: place,
                    });
                }
                Err(why) => {
                    let failures = self.board.failed(&why);
                    tracing::error!(sink = self.spec.name, why, "a sink cannot begin");
                    if self.is_told_to_stop()
                        || self
                            .pause(pause_after(failures, (self.outside.dice)()))
                            .await
                            .is_err()
                    {
                        return None;
                    }
                }
            }
        }
    }

    async fn starting_place(&self) -> Result<Place, String> {
        let durable = *self.durable.borrow();
        let start = match self.spec.start {
            Start::Beginning => Place::default(),
            Start::Now => Place::start_of(durable),
        };
        let cursor = self.cursor.clone();
        let found = tokio::task::spawn_blocking(move || {
            match cursor.load().map_err(|error| error.to_string())? {
                Some(place) => Ok(place),
                None => cursor
                    .save(start)
                    .map(|()| start)
                    .map_err(|error| format!("cannot write {}: {error}", cursor.file().display())),
            }
        });
        let place = found.await.map_err(|error| error.to_string())??;
        if place.seq > durable {
            let file = self.cursor.file().display();
            return Err(format!(
                "{file} says {place}, and the ledger ends at {durable}: it is not the ledger this sink read; delete the file to begin anew"
            ));
        }
        Ok(place)
    }

    async fn round(&mut self, way: &mut Way, until: u64) -> Result<Round, String> {
        self.settle(way).await?;
        if way.settling.is_full() {
            return Ok(Round::Idle);
        }
        let batch = self
            .read(way, until)
            .await
            .map_err(|error| format!("cannot read the ledger: {error}"))?;
        if batch.missed > 0 {
            tracing::error!(
                sink = self.spec.name,
                records = batch.missed,
                "records were gone before this sink had them"
            );
            self.board.note().lost += batch.missed;
        }
        if !batch.events.is_empty() {
            if let Err(broken) = way.driver.deliver(&batch.events).await {
                return Err(self.go_back(way, &batch, broken).await);
            }
            self.board.note().delivered += batch.events.len() as u64;
            if !way.driver.settle().is_zero() {
                way.settling.add(Instant::now(), batch.next);
            }
        }
        if way.settling.is_empty() {
            way.done = batch.next;
            self.board.note().next = way.done;
            let passed_over = way.done.seq.saturating_sub(way.saved.seq) >= PASSED_OVER;
            if !batch.events.is_empty() || passed_over {
                self.save(way)
                    .await
                    .map_err(|error| format!("cannot note how far this sink is: {error}"))?;
            }
        } else {
            way.settling.extend(batch.next);
        }
        Ok(if batch.more { Round::More } else { Round::Idle })
    }

    async fn read(&self, way: &mut Way, until: u64) -> io::Result<Batch> {
        let mut feed = way
            .feed
            .take()
            .unwrap_or_else(|| Feed::new(&self.ledger, way.done));
        if feed.next().seq >= until {
            let next = feed.next();
            way.feed = Some(feed);
            return Ok(Batch {
                next,
                ..Batch::default()
            });
        }
        let (filter, most) = (self.spec.filter.clone(), self.spec.batch);
        let reading = tokio::task::spawn_blocking(move || {
            let batch = feed.read(until, most, &filter);
            (feed, batch)
        });
        let (feed, batch) = reading.await.map_err(io::Error::other)?;
        way.feed = Some(feed);
        batch
    }

    /// Counts what its connection has outlived. A connection that is gone takes everything else with it.
    async fn settle(&mut self, way: &mut Way) -> Result<(), String> {
        if way.settling.is_empty() {
            return Ok(());
        }
        if let Err(why) = way.driver.check() {
            way.settling.forget();
            way.feed = Some(Feed::new(&self.ledger, way.done));
            return Err(why);
        }
        if let Some(place) = way.settling.settled(Instant::now(), way.driver.settle()) {
            way.done = place;
            self.board.note().next = place;
            self.save(way)
                .await
                .map_err(|error| format!("cannot note how far this sink is: {error}"))?;
        }
        Ok(())
    }

    /// After a broken delivery: on from the first event that was not taken.
    async fn go_back(&mut self, way: &mut Way, batch: &Batch, broken: Broken) -> String {
        way.settling.forget();
        if let Some(last) = broken
            .taken
            .checked_sub(1)
            .and_then(|last| batch.events.get(last))
        {
            way.done = last.position.next();
            self.board.delivered(broken.taken, way.done);
            if let Err(error) = self.save(way).await {
                tracing::warn!(sink = self.spec.name, %error, "where a sink is could not be noted");
            }
        }
        way.feed = Some(Feed::new(&self.ledger, way.done));
        broken.why
    }

    async fn save(&self, way: &mut Way) -> io::Result<()> {
        if way.saved == way.done {
            return Ok(());
        }
        let (cursor, place) = (self.cursor.clone(), way.done);
        tokio::task::spawn_blocking(move || cursor.save(place))
            .await
            .map_err(io::Error::other)??;
        way.saved = place;
        Ok(())
    }

    fn is_told_to_stop(&self) -> bool {
        *self.stop.borrow()
    }

    /// Until there is something to do. An error means that there never will be.
    async fn wait(&mut self, way: &Way) -> Result<(), watch::error::RecvError> {
        if !way.settling.is_empty() {
            tokio::time::sleep(LOOK).await;
            return Ok(());
        }
        tokio::select! {
            grown = self.durable.changed() => grown,
            told = self.stop.changed() => told,
        }
    }

    /// A pause that ends when it is time to stop.
    async fn pause(&mut self, pause: Duration) -> Result<(), watch::error::RecvError> {
        tokio::select! {
            () = tokio::time::sleep(pause) => Ok(()),
            told = self.stop.changed() => told,
        }
    }
}
