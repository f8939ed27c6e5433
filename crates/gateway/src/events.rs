//! Listening to what happens: events from the ledger's files, from any place, as they come.
//!
//! The files are the queue. A listener is woken when records have become durable and reads at its own pace, so it costs calls nothing
//! and holds one batch in memory, whatever it has to catch up with. It is shown nothing that a power cut could take back.
//!
//! A *live* listener wants to know what happens now: one that falls far behind goes on from the newest record and is told how much it
//! missed and where. A listener that asked for a place is never moved from it.

use std::io;

use audit::{Batch, Feed, Filter, Ledger, Place};
use tokio::sync::watch;

/// Events read at once.
const BATCH: usize = 256;
/// A live listener this many records behind goes on from the newest.
const MAX_LAG: u64 = 10_000;

/// An event as a line of JSON, and where it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Told {
    pub position: Place,
    pub line: String,
}

/// What a listener is told next.
#[derive(Debug)]
pub struct News {
    pub events: Vec<Told>,
    pub missed: Option<Missed>,
    /// Where to go on after these, with another listener.
    pub next: Place,
}

/// Records that were passed over: a listener that was too slow can have them by asking for `from`; those that are no longer in the
/// ledger are gone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Missed {
    pub records: u64,
    pub from: Place,
}

impl News {
    fn of(batch: Batch, begin: Place) -> Self {
        let Batch {
            events,
            next,
            missed,
            ..
        } = batch;
        let missed = (missed > 0).then_some(Missed {
            records: missed,
            from: begin,
        });
        let events = events
            .iter()
            .map(|event| Told {
                position: event.position,
                line: event.line(),
            })
            .collect();
        Self {
            events,
            missed,
            next,
        }
    }
}

/// One listener. Dropping it ends it.
#[derive(Debug)]
pub struct Subscription {
    durable: watch::Receiver<u64>,
    /// `None` while it is being read on another thread.
    feed: Option<Feed>,
    filter: Filter,
    max_lag: Option<u64>,
}

impl Subscription {
    pub(crate) fn new(
        ledger: &Ledger,
        durable: watch::Receiver<u64>,
        from: Option<Place>,
        filter: Filter,
    ) -> Self {
        let start = from.unwrap_or_else(|| Place::start_of(*durable.borrow()));
        let feed = Some(Feed::new(ledger.dir(), start));
        Self {
            durable,
            feed,
            filter,
            max_lag: from.is_none().then_some(MAX_LAG),
        }
    }

    /// Waits until there is something to tell. `None`: the gate is gone.
    pub async fn next(&mut self) -> io::Result<Option<News>> {
        loop {
            let until = *self.durable.borrow_and_update();
            let news = self.read(until).await?;
            if !news.events.is_empty() || news.missed.is_some() {
                return Ok(Some(news));
            }
            // What is not wanted is passed over without waiting; only the end of what is durable is worth a wait.
            if news.next.seq >= until && self.durable.changed().await.is_err() {
                return Ok(None);
            }
        }
    }

    async fn read(&mut self, until: u64) -> io::Result<News> {
        let mut feed = self
            .feed
            .take()
            .ok_or_else(|| io::Error::other("this listener was stopped while it was reading"))?;
        let begin = feed.next();
        let skipped = self
            .max_lag
            .filter(|lag| until.saturating_sub(begin.seq) > *lag);
        if skipped.is_some() {
            feed.jump(Place::start_of(until));
        }
        if begin.seq >= until || skipped.is_some() {
            let next = feed.next();
            self.feed = Some(feed);
            let missed = skipped.map(|_| Missed {
                records: until - begin.seq,
                from: begin,
            });
            return Ok(News {
                events: Vec::new(),
                missed,
                next,
            });
        }
        let filter = self.filter.clone();
        // Reading and writing down take their time, and this thread may be the one that serves calls.
        let reading = tokio::task::spawn_blocking(move || {
            let news = feed
                .read(until, BATCH, &filter)
                .map(|batch| News::of(batch, begin));
            (feed, news)
        });
        let (feed, news) = reading.await.map_err(io::Error::other)?;
        self.feed = Some(feed);
        news
    }
}

#[cfg(test)]
mod tests {
    use audit::{Change, Filter, Ledger, Place};
    use tokio::sync::watch;

    use super::{MAX_LAG, Subscription};

    fn ledger(dir: &std::path::Path, changes: u64) -> Ledger {
        let ledger = Ledger::at(dir).unwrap();
        write(&ledger, changes);
        ledger
    }

    fn write(ledger: &Ledger, changes: u64) {
        let change = Change {
            action: "server.state",
            server: "github",
            ..Change::default()
        };
        ledger
            .append(&vec![change; usize::try_from(changes).unwrap()])
            .unwrap();
        ledger.sync().unwrap();
    }

    #[tokio::test]
    async fn a_listener_hears_what_comes_and_can_replay_what_was() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = ledger(dir.path(), 3);
        let (durable, growth) = watch::channel(3);
        let mut live = Subscription::new(&ledger, growth.clone(), None, Filter::default());
        let mut replay =
            Subscription::new(&ledger, growth, Some(Place::default()), Filter::default());
        assert_eq!(replay.next().await.unwrap().unwrap().events.len(), 3);
        write(&ledger, 2);
        durable.send(5).unwrap();
        for listener in [&mut live, &mut replay] {
            let news = listener.next().await.unwrap().unwrap();
            assert_eq!(
                news.events
                    .iter()
                    .map(|event| event.position.seq)
                    .collect::<Vec<_>>(),
                [3, 4]
            );
        }
        drop(durable);
        assert!(live.next().await.unwrap().is_none(), "the gate is gone");
    }

    #[tokio::test]
    async fn a_live_listener_that_falls_behind_is_told_what_it_missed() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = ledger(dir.path(), 1);
        let (durable, growth) = watch::channel(1);
        let mut live = Subscription::new(&ledger, growth.clone(), None, Filter::default());
        let mut patient =
            Subscription::new(&ledger, growth, Some(Place::start_of(1)), Filter::default());
        write(&ledger, MAX_LAG + 1);
        durable.send(MAX_LAG + 2).unwrap();
        let missed = live.next().await.unwrap().unwrap().missed.unwrap();
        assert_eq!(
            (missed.records, missed.from),
            (MAX_LAG + 1, Place::start_of(1))
        );
        let mut heard = 0;
        while heard < MAX_LAG + 1 {
            let news = patient.next().await.unwrap().unwrap();
            assert!(
                news.missed.is_none(),
                "who asked for a place is not moved from it"
            );
            assert!(news.events.len() <= super::BATCH + 4, "one batch at a time");
            heard += news.events.len() as u64;
        }
    }

    #[tokio::test]
    async fn what_is_not_durable_is_not_shown() {
        let dir = tempfile::tempdir().unwrap();
        let ledger = ledger(dir.path(), 5);
        let (_durable, growth) = watch::channel(2);
        let mut replay =
            Subscription::new(&ledger, growth, Some(Place::default()), Filter::default());
        assert_eq!(replay.next().await.unwrap().unwrap().events.len(), 2);
        let more = tokio::time::timeout(std::time::Duration::from_millis(50), replay.next()).await;
        assert!(more.is_err(), "{more:?}");
    }
}
