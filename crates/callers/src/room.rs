//! Room for answers: the bytes of results and events between the moment they are heard and the moment they have left.
//!
//! **Invariant: nothing is held without an owner.** Test `nothing_is_held_without_an_owner`. A text from a server that a call is to show is counted to its caller for exactly as
//! long as any slice of it exists, wherever it waits: the text owns its [`Room`], so no door can forget to give it back. A caller has at
//! most [`PER_CALLER`] times the largest result, all callers together [`IN_ALL`] times, and nobody more than half of what the others
//! leave. [`FLOOR`] is everybody's own, so ordinary answers are never kept waiting by those who do not read theirs. The texts of requests
//! are counted in the same way and apart from answers, from the moment they are more than one read.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use bytes::Bytes;
use tokio::{sync::Notify, time::Instant};

/// How many of the largest results one caller may have waiting for a reader, and all callers together.
pub const PER_CALLER: usize = 4;
pub const IN_ALL: usize = 16;
/// What every caller may hold, however much the others do.
pub const FLOOR: usize = 1 << 20;

/// What all callers hold together.
#[derive(Debug, Default)]
pub struct Rooms {
    held: AtomicUsize,
    /// The largest result there can be.
    largest: AtomicUsize,
    freed: Notify,
}

impl Rooms {
    pub fn set_largest(&self, bytes: usize) {
        self.largest.store(bytes, Ordering::Relaxed);
        self.freed.notify_waiters();
    }

    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }
}

/// What one caller holds.
#[derive(Debug, Default)]
pub struct Account {
    rooms: Arc<Rooms>,
    held: AtomicUsize,
}

/// Room for so many bytes, until it is dropped.
#[derive(Debug)]
pub struct Room {
    account: Arc<Account>,
    bytes: usize,
}

impl Account {
    pub fn under(rooms: &Arc<Rooms>) -> Arc<Self> {
        Arc::new(Self {
            rooms: Arc::clone(rooms),
            held: AtomicUsize::new(0),
        })
    }

    /// What this caller may hold now.
    fn most(&self, own: usize) -> usize {
        let largest = self.rooms.largest.load(Ordering::Relaxed);
        let others = self.rooms.held().saturating_sub(own);
        let left = IN_ALL.saturating_mul(largest).saturating_sub(others);
        PER_CALLER.saturating_mul(largest).min(left / 2).max(FLOOR)
    }

    /// Room for a text, if there is any.
    pub fn take(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let more = |own: usize| own.checked_add(bytes).filter(|sum| *sum <= self.most(own));
        self.held
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, more)
            .ok()?;
        self.rooms.held.fetch_add(bytes, Ordering::AcqRel);
        Some(Room {
            account: Arc::clone(self),
            bytes,
        })
    }

    /// Room for what takes the place of a text that has some, or holds several together.
    pub fn take_anyway(self: &Arc<Self>, bytes: usize) -> Room {
        self.held.fetch_add(bytes, Ordering::AcqRel);
        self.rooms.held.fetch_add(bytes, Ordering::AcqRel);
        Room {
            account: Arc::clone(self),
            bytes,
        }
    }

    /// Waits for room until `deadline`.
    pub async fn take_until(self: &Arc<Self>, bytes: usize, deadline: Instant) -> Option<Room> {
        tokio::time::timeout_at(deadline, self.wait_for(bytes))
            .await
            .ok()
    }

    async fn wait_for(self: &Arc<Self>, bytes: usize) -> Room {
        loop {
            let freed = self.rooms.freed.notified();
            tokio::pin!(freed);
            freed.as_mut().enable();
            if let Some(room) = self.take(bytes) {
                return room;
            }
            freed.await;
        }
    }

    /// Whether not even a short answer would find room.
    pub fn is_full(&self) -> bool {
        let own = self.held.load(Ordering::Acquire);
        own >= self.most(own)
    }

    pub fn held(&self) -> usize {
        self.held.load(Ordering::Acquire)
    }
}

impl Room {
    /// The same text, which from now on owns its room.
    pub fn hold(self, text: Bytes) -> Bytes {
        Bytes::from_owner(Counted { text, _room: self })
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.account.held.fetch_sub(self.bytes, Ordering::AcqRel);
        self.account
            .rooms
            .held
            .fetch_sub(self.bytes, Ordering::AcqRel);
        self.account.rooms.freed.notify_waiters();
    }
}

/// Room for a request that is longer than what is read at once.
#[derive(Debug)]
pub struct RequestRoom(Room);

impl RequestRoom {
    /// Waits for room; the door that reads the request has the clock.
    pub async fn take(account: &Arc<Account>, bytes: usize) -> Self {
        Self(account.wait_for(bytes).await)
    }

    /// Room for so many more bytes of the same request.
    pub async fn grow(&mut self, bytes: usize) {
        let mut more = self.0.account.wait_for(bytes).await;
        self.0.bytes += std::mem::take(&mut more.bytes);
    }

    /// The request, which from now on owns its room.
    #[must_use]
    pub fn hold(self, text: Bytes) -> Bytes {
        self.0.hold(text)
    }
}

struct Counted {
    text: Bytes,
    _room: Room,
}

impl AsRef<[u8]> for Counted {
    fn as_ref(&self) -> &[u8] {
        &self.text
    }
}

#[cfg(test)]
mod tests {
    use std::{sync::Arc, time::Duration};

    use bytes::Bytes;
    use tokio::time::Instant;

    use super::{Account, FLOOR, IN_ALL, PER_CALLER, RequestRoom, Rooms};

    const LARGEST: usize = 32 << 20;

    fn rooms() -> Arc<Rooms> {
        let rooms = Arc::<Rooms>::default();
        rooms.set_largest(LARGEST);
        rooms
    }

    #[test]
    fn a_text_holds_its_room_until_its_last_slice_is_gone() {
        let rooms = rooms();
        let account = Account::under(&rooms);
        let text = account.take(5).unwrap().hold(Bytes::from_static(b"words"));
        let slice = text.slice(1..2);
        drop(text);
        assert_eq!((account.held(), rooms.held()), (5, 5));
        assert_eq!(slice, "o");
        drop(slice);
        assert_eq!((account.held(), rooms.held()), (0, 0));
    }

    #[test]
    fn nobody_takes_what_others_need() {
        let rooms = rooms();
        let greedy: Vec<_> = (0..64).map(|_| Account::under(&rooms)).collect();
        let mut held = Vec::new();
        for account in &greedy {
            while let Some(room) = account.take(1 << 20) {
                held.push(room);
            }
            assert!(account.held() <= PER_CALLER * LARGEST);
            assert!(account.is_full());
        }
        assert!(
            rooms.held() <= IN_ALL * LARGEST + greedy.len() * FLOOR,
            "{}",
            rooms.held()
        );
        let polite = Account::under(&rooms);
        assert!(polite.take(FLOOR).is_some(), "ordinary answers find room");
        drop(held);
        assert_eq!(rooms.held(), 0);
        assert!(polite.take(LARGEST).is_some());
    }

    #[tokio::test]
    async fn a_request_that_grows_gives_everything_back() {
        let rooms = rooms();
        let account = Account::under(&rooms);
        let mut room = RequestRoom::take(&account, 5).await;
        room.grow(7).await;
        assert_eq!((account.held(), rooms.held()), (12, 12));
        let text = room.hold(Bytes::from_static(b"twelve bytes"));
        assert_eq!(rooms.held(), 12);
        drop(text);
        assert_eq!((account.held(), rooms.held()), (0, 0));
    }

    #[tokio::test(start_paused = true)]
    async fn who_waits_for_room_gets_it_or_is_told_in_time() {
        let account = Account::under(&rooms());
        let held: Vec<_> = (0..PER_CALLER)
            .map(|_| account.take(LARGEST).unwrap())
            .collect();
        let soon = Instant::now() + Duration::from_secs(1);
        assert!(account.take_until(LARGEST, soon).await.is_none());
        assert_eq!(Instant::now(), soon);
        let later = Instant::now() + Duration::from_secs(60);
        let (room, ()) = tokio::join!(account.take_until(LARGEST, later), async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            drop(held);
        });
        assert!(room.is_some());
    }
}
