//! The line to one living worker process: requests out, answers in, matched by id.
//!
//! Ids come from one counter that outlives the process, so an answer can never reach a caller of an earlier worker. When the
//! process is gone, [`Link::sever`] ends every waiting request at once. No lock is held across an await, and none is shared by
//! all calls: waiters are sharded by id, and writers only append to a buffer that one task empties in large writes.
//!
//! **Invariant: an answer never reaches another caller.** Tests `two_hundred_kills_under_load`,
//! `answers_to_other_ids_are_dropped`, `answers_reach_their_own_request_in_any_order`.

mod memory;

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use callers::room::{Account, Room};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::unix::pipe,
    runtime::{Handle, RuntimeFlavor},
    sync::{Notify, mpsc, oneshot},
};
use wire::{
    Json, Text,
    json::{self, RawField},
    line::{Line, Lines},
    worker::{self, Assembler, Attached, PartError, Shared},
    write::{Object, Pieces},
};

use self::memory::{Left, Memory};

const SHARDS: usize = 16;
/// Events of one call that may wait for the door; more progress and log messages than this are dropped.
const EVENTS: usize = 64;
/// What a buffer keeps of its room once it is empty.
const KEPT: usize = 4 << 20;
/// Bytes that may wait for the worker to read.
const MAX_UNSENT: usize = 128 << 20;

pub const UNREADABLE: &str = "the worker's answer could not be read";

static NEXT_ID: AtomicU64 = AtomicU64::new(1);

/// One message from the worker about one request.
#[derive(Debug)]
pub enum Word {
    Event {
        name: EventName,
        message: Bytes,
    },
    Result(Text),
    /// A result that nobody has looked at, or that the caller has no room for yet.
    Waits(Waits),
    Done,
    Error {
        text: String,
        kind: ErrorKind,
        rpc: Option<Bytes>,
    },
    /// The worker is gone; what became of the request is unknown.
    Lost,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EventName {
    Progress,
    Log,
    Ask,
    Closed,
    Changed,
    Updated,
    ElicitationComplete,
    /// A server does not take the token of its login.
    Unauthorized,
    /// A request needs a proof of the key that its token is bound to.
    Proof,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ErrorKind {
    Upstream,
    Timeout,
    Cancelled,
    NotFound,
    Refused,
    /// The server did not accept the user's own credential.
    Unauthorized,
    /// The server wants a login, or another than the one there is.
    Login,
    TooLarge,
    Invalid,
    /// There was no memory left for the answer.
    NoRoom,
}

/// A result that waits until there is room for it.
#[derive(Debug)]
pub enum Waits {
    /// It is short and was read already.
    Here(Text),
    /// It lies where the worker put it.
    There(Left),
}

impl Waits {
    /// How long it is.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Here(text) => text.len(),
            Self::There(left) => left.len(),
        }
    }

    /// The result, now that there is room. `None` if it cannot be read.
    pub fn fetch(self, room: Room) -> Option<Text> {
        match self {
            Self::Here(text) => Some(room.hold(text.into_bytes()).into()),
            Self::There(left) => left.fetch(room),
        }
    }
}

enum Waiter {
    Once(oneshot::Sender<Word>),
    /// The last word has a place of its own, so it arrives however many events are waiting.
    Stream {
        events: mpsc::Sender<Word>,
        last: mpsc::OwnedPermit<Word>,
        /// Whom what is heard is counted to; nobody where the gate itself listens.
        account: Option<Arc<Account>>,
    },
}

pub struct Link {
    waiters: [Mutex<HashMap<u64, Waiter>>; SHARDS],
    unsent: Arc<Mutex<Vec<u8>>>,
    has_unsent: Notify,
    severed: AtomicBool,
    severed_signal: Notify,
    /// Microseconds since `born` when the worker last said anything; 0 if it never did.
    heard: AtomicU64,
    born: Instant,
    memory: Option<Arc<Memory>>,
    pub handover: sandbox::handover::Sender,
    pub pid: u32,
}

impl std::fmt::Debug for Link {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Link")
            .field("pid", &self.pid)
            .finish_non_exhaustive()
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Link {
    pub fn new(handover: sandbox::handover::Sender, pid: u32) -> Self {
        let memory = Memory::new(&handover)
            .inspect_err(|error| tracing::debug!(%error, "no memory is shared with the worker"));
        Self {
            waiters: std::array::from_fn(|_| Mutex::default()),
            unsent: Arc::default(),
            has_unsent: Notify::new(),
            severed: AtomicBool::new(false),
            severed_signal: Notify::new(),
            heard: AtomicU64::new(0),
            born: Instant::now(),
            memory: memory.ok().map(Arc::new),
            handover,
            pid,
        }
    }

    fn shard(&self, id: u64) -> MutexGuard<'_, HashMap<u64, Waiter>> {
        let index = usize::try_from(id).unwrap_or(0) % SHARDS;
        lock(self.waiters.get(index).unwrap_or(&self.waiters[0]))
    }

    /// Says the first line of the protocol: a list of servers. Ours is empty; they are connected one by one.
    pub fn open(&self) {
        lock(&self.unsent).extend_from_slice(b"[]\n");
        self.has_unsent.notify_one();
    }

    /// Sends a request whose answer is one line.
    pub async fn ask(&self, method: &str, params: &[u8]) -> Word {
        let (sender, receiver) = oneshot::channel();
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        self.shard(id).insert(id, Waiter::Once(sender));
        self.send(id, method, params);
        match receiver.await.unwrap_or(Word::Lost) {
            Word::Waits(Waits::There(left)) => {
                let read = tokio::task::spawn_blocking(move || left.read()).await;
                read.ok().flatten().map_or_else(unreadable, Word::Result)
            }
            word => word,
        }
    }

    /// Like [`Link::ask`], with a deadline of our own for a worker that does not answer.
    pub async fn ask_within(&self, method: &str, params: &[u8], patience: Duration) -> Word {
        match tokio::time::timeout(patience, self.ask(method, params)).await {
            Ok(word) => word,
            Err(_) => Word::Error {
                text: "the worker did not answer in time".into(),
                kind: ErrorKind::Timeout,
                rpc: None,
            },
        }
    }

    /// Sends a request whose answer may be many lines.
    pub fn stream(&self, method: &str, params: &[u8]) -> (u64, mpsc::Receiver<Word>) {
        let (id, receiver) = self.begin_stream(None);
        self.send(id, method, params);
        (id, receiver)
    }

    /// Passes a call on: `about` are the fields that describe it, `params` its own parameters, on one line already. They may be long,
    /// so they are copied only once. What comes back is counted to `account`.
    pub fn forward(
        &self,
        mut about: Object,
        params: &Pieces,
        account: &Arc<Account>,
    ) -> (u64, mpsc::Receiver<Word>) {
        let (id, receiver) = self.begin_stream(Some(Arc::clone(account)));
        let place = self.memory.as_ref().and_then(|memory| memory.lend(params));
        about.raw("params", if place.is_some() { b"null" } else { b"" });
        let mut head = Vec::with_capacity(512);
        head.extend_from_slice(b"{\"id\":");
        wire::write::number(&mut head, id);
        head.extend_from_slice(b",\"method\":\"");
        head.extend_from_slice(worker::method::FORWARD.as_bytes());
        head.extend_from_slice(b"\",\"params\":");
        head.extend_from_slice(&about.unfinished());
        wire::write::flatten(&mut head);
        match place {
            Some(offset) => {
                head.extend_from_slice(b"}}");
                let mut line = Vec::with_capacity(head.len() + 48);
                worker::push_attached(&mut line, offset, params.len(), &head);
                line.pop();
                self.enqueue(id, &[&line]);
            }
            None => {
                let [first, long, last] = params.all();
                self.enqueue(id, &[&head, first, long, last, b"}}"]);
            }
        }
        (id, receiver)
    }

    fn begin_stream(&self, account: Option<Arc<Account>>) -> (u64, mpsc::Receiver<Word>) {
        let (events, receiver) = mpsc::channel(EVENTS + 1);
        let id = NEXT_ID.fetch_add(1, Ordering::Relaxed);
        if let Ok(last) = events.clone().try_reserve_owned() {
            self.shard(id).insert(
                id,
                Waiter::Stream {
                    events,
                    last,
                    account,
                },
            );
        }
        (id, receiver)
    }

    /// Says something whose answer does not matter.
    pub fn tell(&self, method: &str, params: &[u8]) {
        self.send(NEXT_ID.fetch_add(1, Ordering::Relaxed), method, params);
    }

    fn send(&self, id: u64, method: &str, params: &[u8]) {
        let mut message = Object::with_capacity(params.len() + method.len() + 48);
        message
            .u64("id", id)
            .str("method", method)
            .raw("params", params);
        let mut message = message.finish();
        // A client may send its JSON on many lines; ours goes on one.
        wire::write::flatten(&mut message);
        self.enqueue(id, &[&message]);
    }

    fn enqueue(&self, id: u64, pieces: &[&[u8]]) {
        let length: usize = pieces.iter().map(|piece| piece.len()).sum();
        let fits = {
            let mut unsent = lock(&self.unsent);
            let fits = unsent.len() + length <= MAX_UNSENT;
            if fits {
                worker::push_joined(&mut unsent, id, pieces);
            }
            fits
        };
        self.has_unsent.notify_one();
        if !fits || self.severed.load(Ordering::Acquire) {
            self.finish(id, Word::Lost);
        }
    }

    fn finish(&self, id: u64, word: Word) {
        let waiter = self.shard(id).remove(&id);
        match waiter {
            Some(Waiter::Once(sender)) => drop(sender.send(word)),
            Some(Waiter::Stream { last, .. }) => drop(last.send(word)),
            None => {}
        }
    }

    /// Forgets a request whose caller no longer waits.
    pub fn forget(&self, id: u64) {
        self.shard(id).remove(&id);
    }

    pub fn is_severed(&self) -> bool {
        self.severed.load(Ordering::Acquire)
    }

    /// Resolves when the worker is gone.
    pub async fn severed(&self) {
        let gone = self.severed_signal.notified();
        tokio::pin!(gone);
        gone.as_mut().enable();
        if !self.is_severed() {
            gone.await;
        }
    }

    /// Ends every waiting request: the worker is gone.
    pub fn sever(&self) {
        self.severed.store(true, Ordering::Release);
        for shard in &self.waiters {
            let waiters = std::mem::take(&mut *lock(shard));
            for (_, waiter) in waiters {
                match waiter {
                    Waiter::Once(sender) => drop(sender.send(Word::Lost)),
                    Waiter::Stream { last, .. } => drop(last.send(Word::Lost)),
                }
            }
        }
        self.severed_signal.notify_waiters();
        self.has_unsent.notify_one();
    }

    pub fn has_spoken(&self) -> bool {
        self.heard.load(Ordering::Relaxed) > 0
    }

    /// How long the worker has been silent.
    pub fn silence(&self) -> Duration {
        self.born
            .elapsed()
            .saturating_sub(Duration::from_micros(self.heard.load(Ordering::Relaxed)))
    }

    /// Whether any request is waiting for an answer, the endless `watch` aside.
    pub fn is_waiting(&self) -> bool {
        self.waiters
            .iter()
            .map(|shard| lock(shard).len())
            .sum::<usize>()
            > 1
    }

    /// Sends what was left for the next message to take along, if none came.
    pub fn flush(&self) {
        if !lock(&self.unsent).is_empty() {
            self.has_unsent.notify_one();
        }
    }

    /// Writes what callers append, until the worker is gone.
    pub async fn write_all(&self, mut pipe: pipe::Sender) {
        let mut batch = Vec::new();
        loop {
            std::mem::swap(&mut batch, &mut *lock(&self.unsent));
            if batch.is_empty() {
                if self.is_severed() {
                    return;
                }
                self.has_unsent.notified().await;
                continue;
            }
            if pipe.write_all(&batch).await.is_err() {
                return;
            }
            batch.clear();
            batch.shrink_to(KEPT);
        }
    }

    /// Reads answers until the worker closes its end, then severs the link.
    pub async fn read_all(&self, mut pipe: pipe::Receiver, total_bytes: usize) {
        let mut lines = Lines::new(worker::LINE_LIMIT);
        let mut assembler = Assembler::new(total_bytes);
        // Where there are other threads, whoever waits for a result need not wait for this one.
        let is_alone = Handle::current().runtime_flavor() == RuntimeFlavor::CurrentThread;
        while let Ok(1..) = pipe.read_buf(lines.buffer()).await {
            self.note_heard();
            while let Some(line) = lines.next_line() {
                let is_long =
                    is_alone && matches!(&line, Line::Whole(line) if worker::is_attached(line));
                self.hear(line, &mut assembler);
                if is_long {
                    // Whoever waits for a long result works on it while it is in the caches, before the next one is copied.
                    tokio::task::yield_now().await;
                    // More of its words may wait here, so that it was not listened to meanwhile says nothing about the worker.
                    self.note_heard();
                }
            }
        }
        self.sever();
    }

    fn note_heard(&self) {
        let now = u64::try_from(self.born.elapsed().as_micros())
            .unwrap_or(u64::MAX)
            .max(1);
        self.heard.store(now, Ordering::Relaxed);
    }

    fn hear(&self, line: Line, assembler: &mut Assembler) {
        let line = match line {
            Line::Whole(line) if line.is_empty() => return,
            Line::Whole(line) => line,
            Line::TooLong { prefix, bytes, .. } => {
                tracing::warn!(bytes, "the worker sent a line that is too long");
                return self.spoil(worker::salvage_id(&prefix));
            }
        };
        match Shared::read(&line) {
            None => {}
            Some(Shared::Attached(attached)) => return self.hear_attached(&attached),
            Some(Shared::Returned(offset)) => {
                return self
                    .memory
                    .iter()
                    .for_each(|memory| memory.returned(offset));
            }
            Some(Shared::Malformed) => {
                return tracing::warn!(
                    "the worker sent a line about shared memory that cannot be read"
                );
            }
        }
        let text = match assembler.take(line.clone()) {
            Ok(Some(text)) => text,
            Ok(None) => return,
            Err(PartError::TooLarge { id }) => {
                return self.give_up(id, ErrorKind::TooLarge, "the answer is too long");
            }
            Err(PartError::TooMany { id }) => {
                return self.give_up(id, ErrorKind::NoRoom, "too many long answers at once");
            }
            Err(PartError::Malformed) => {
                return tracing::warn!("the worker sent a part that cannot be read");
            }
        };
        match Json::skim_fields(&text) {
            Ok(fields) => self.dispatch(&text, &fields),
            Err(_) => {
                tracing::warn!("the worker sent a line that is not JSON");
                self.spoil(worker::salvage_id(text.get(..256).unwrap_or(&text)));
            }
        }
    }

    /// An answer whose result is in memory that the worker can still write to: it is copied first, and only the copy is looked at. Whoever
    /// waits for it copies it, when there is room for it and where that keeps nobody waiting; until then it stays where it is.
    fn hear_attached(&self, attached: &Attached) {
        let Some(memory) = &self.memory else { return };
        let id = Json::skim_fields(&attached.message)
            .ok()
            .and_then(|fields| json::find(&fields, "id")?.as_u64());
        let left = Left::new(memory, &self.unsent, attached.offset, attached.length);
        match id {
            Some(id) => self.finish(id, Word::Waits(Waits::There(left))),
            None => tracing::warn!("the worker sent a long result that cannot be read"),
        }
    }

    /// Whom the answer to a request is counted to.
    fn account(&self, id: u64) -> Option<Arc<Account>> {
        match self.shard(id).get(&id) {
            Some(Waiter::Stream { account, .. }) => account.clone(),
            _ => None,
        }
    }

    /// A result that came in lines, counted to its caller. One that is long and finds no room is given up: the call was carried out, and
    /// its caller is told what became of the answer.
    fn counted(&self, id: u64, word: Word) -> Word {
        let Word::Result(text) = word else {
            return word;
        };
        let Some(account) = self.account(id) else {
            return Word::Result(text);
        };
        match account.take(text.len()) {
            Some(room) => Word::Result(room.hold(text.into_bytes()).into()),
            None if text.len() < worker::LINE_LIMIT => Word::Waits(Waits::Here(text)),
            None => {
                let text = format!("{} bytes, and too many answers wait to be read", text.len());
                Word::Error {
                    text,
                    kind: ErrorKind::NoRoom,
                    rpc: None,
                }
            }
        }
    }

    fn give_up(&self, id: u64, kind: ErrorKind, why: &str) {
        self.finish(
            id,
            Word::Error {
                text: why.to_owned(),
                kind,
                rpc: None,
            },
        );
    }

    /// An answer that cannot be read is an answer all the same: its caller must not hang.
    fn spoil(&self, id: Option<u64>) {
        if let Some(id) = id {
            self.finish(id, unreadable());
        }
    }

    fn dispatch(&self, line: &Bytes, fields: &[RawField<'_>]) {
        let mut parts = Parts::default();
        for &(key, value) in fields {
            match key {
                b"\"id\"" => parts.id = value.as_u64(),
                b"\"event\"" => parts.event = Some(value),
                b"\"result\"" => parts.result = Some(value),
                b"\"error\"" => parts.error = Some(value),
                b"\"kind\"" => parts.kind = Some(value),
                b"\"rpc\"" => parts.rpc = Some(value),
                _ => {}
            }
        }
        let Some(id) = parts.id else { return };
        if let (worker::MEMORY_TAG, Some(memory)) = (id, &self.memory) {
            return memory.settle(parts.error.is_none());
        }
        if let Some(event) = parts.event {
            return self.forward_event(id, event, line);
        }
        self.finish(id, self.counted(id, parts.last_word(line)));
    }

    fn forward_event(&self, id: u64, event: Json<'_>, line: &Bytes) {
        let Some(name) = event.as_str().as_deref().and_then(EventName::read) else {
            return;
        };
        let message = match self.account(id) {
            None => Some(line.clone()),
            Some(account) => account.take(line.len()).map(|room| room.hold(line.clone())),
        };
        let full = match (self.shard(id).get(&id), message) {
            (Some(Waiter::Stream { events, .. }), Some(message)) => {
                events.try_send(Word::Event { name, message }).is_err()
            }
            (Some(_), None) => true,
            _ => false,
        };
        // Progress and logs may be lost; a question or a change may not, so its request ends instead.
        if full && !matches!(name, EventName::Progress | EventName::Log) {
            let text = "more questions than the caller could take".to_owned();
            self.finish(
                id,
                Word::Error {
                    text,
                    kind: ErrorKind::Refused,
                    rpc: None,
                },
            );
        }
    }
}

/// What became of an answer that cannot be read.
fn unreadable() -> Word {
    Word::Error {
        text: UNREADABLE.to_owned(),
        kind: ErrorKind::Invalid,
        rpc: None,
    }
}

#[derive(Default)]
struct Parts<'a> {
    id: Option<u64>,
    event: Option<Json<'a>>,
    result: Option<Json<'a>>,
    error: Option<Json<'a>>,
    kind: Option<Json<'a>>,
    rpc: Option<Json<'a>>,
}

impl Parts<'_> {
    fn last_word(&self, line: &Bytes) -> Word {
        if let Some(result) = self.result {
            return Word::Result(line.slice_ref(result.as_bytes()).into());
        }
        let Some(error) = self.error else {
            return Word::Done;
        };
        Word::Error {
            text: error.as_str().map(Into::into).unwrap_or_default(),
            kind: self
                .kind
                .and_then(Json::as_str)
                .as_deref()
                .map_or(ErrorKind::Upstream, ErrorKind::read),
            rpc: self.rpc.map(|rpc| line.slice_ref(rpc.as_bytes())),
        }
    }
}

impl EventName {
    fn read(text: &str) -> Option<Self> {
        Some(match text {
            "progress" => Self::Progress,
            "log" => Self::Log,
            "ask" => Self::Ask,
            "closed" => Self::Closed,
            "changed" => Self::Changed,
            "updated" => Self::Updated,
            "elicitation_complete" => Self::ElicitationComplete,
            "unauthorized" => Self::Unauthorized,
            "proof" => Self::Proof,
            _ => return None,
        })
    }
}

impl ErrorKind {
    fn read(text: &str) -> Self {
        match text {
            "timeout" => Self::Timeout,
            "cancelled" => Self::Cancelled,
            "not_found" => Self::NotFound,
            "refused" => Self::Refused,
            "unauthorized" => Self::Unauthorized,
            "login" => Self::Login,
            "too_large" => Self::TooLarge,
            "invalid" => Self::Invalid,
            "no_room" => Self::NoRoom,
            _ => Self::Upstream,
        }
    }
}
