//! One server behind the gate: how it is reached, whether it is connected, what it shows.

mod connect;
mod hints;
mod hub;
mod keeper;
mod presence;
mod recheck;
mod servers;
mod shown;
mod start;
mod tend;

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU8, Ordering},
    },
    time::Instant,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use bytes::Bytes;
use tokio::sync::{Notify, watch};

pub use hub::Hub;
pub use servers::{Board, Replacement, ServerNote, Servers};

use crate::{
    catalog::Face,
    logins::LoginState,
    settings::{ServerSpec, Standing, Transport},
};

/// How much of a server's stderr is kept.
const STDERR_TAIL: usize = 16 << 10;

/// Where the connection to a server stands.
#[derive(Debug, Clone)]
pub enum Status {
    Connecting {
        attempt: u32,
    },
    Connected,
    /// Waiting to try again.
    Disconnected {
        error: String,
        attempt: u32,
        retry_at: Instant,
    },
    /// Gave up; somebody must ask for another try.
    Failed {
        error: String,
    },
    Disabled,
    /// A person prohibited it: it is not started.
    Blocked,
    Skipped {
        reason: String,
    },
}

impl Status {
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Connecting { .. } => "connecting",
            Self::Connected => "connected",
            Self::Disconnected { .. } => "disconnected",
            Self::Failed { .. } => "failed",
            Self::Disabled => "disabled",
            Self::Blocked => "blocked",
            Self::Skipped { .. } => "skipped",
        }
    }
}

#[derive(Debug)]
pub struct Upstream {
    spec: ArcSwap<ServerSpec>,
    face: ArcSwapOption<Face>,
    pub status: watch::Sender<Status>,
    /// Set while connected: which connection, in the worker's words.
    generation: Mutex<Option<u64>>,
    /// A person asked for another try.
    pub retry: Notify,
    /// A person asked for its home to be emptied before it is started again.
    reinstall: AtomicBool,
    /// The upstream said one of its lists changed.
    stale: Notify,
    /// The worker said the connection is gone.
    closed: Notify,
    /// The server does not take the token of its login.
    unauthorized: Notify,
    /// `None`: it wanted none so far.
    login: Mutex<Option<LoginState>>,
    last_error: Mutex<Option<String>>,
    stderr: Mutex<VecDeque<u8>>,
    /// What holds its program back, since it was started last.
    walls: Mutex<start::Walls>,
    /// Resources somebody watches, and how many do.
    subscriptions: Mutex<HashMap<String, usize>>,
    /// When its lists were read last, and the tag of its list of tools.
    listed: Mutex<Option<Listing>>,
    /// One look at a time.
    rechecking: tokio::sync::Mutex<()>,
    /// The most talkative level this connection was told to log at, by rank; [`QUIET`] if it was told nothing.
    log_rank: AtomicU8,
}

/// The last reading of a server's lists over one connection.
#[derive(Debug, Clone)]
struct Listing {
    at: Instant,
    generation: u64,
    /// What the worker said when it connected.
    hello: Bytes,
    /// The worker's name for the text of the list of tools.
    tag: String,
}

/// Levels of log messages, the most talkative first.
const LOG_LEVELS: [&str; 8] = [
    "debug",
    "info",
    "notice",
    "warning",
    "error",
    "critical",
    "alert",
    "emergency",
];
/// Quieter than every level.
const QUIET: u8 = u8::MAX;

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Upstream {
    fn new(spec: Arc<ServerSpec>, face: Option<Face>) -> Self {
        let status = match &spec.standing {
            _ if spec.blocked.is_some() => Status::Blocked,
            Standing::Enabled => Status::Connecting { attempt: 0 },
            Standing::Disabled => Status::Disabled,
            Standing::Skipped(reason) => Status::Skipped {
                reason: reason.clone(),
            },
        };
        Self {
            spec: ArcSwap::new(spec),
            face: ArcSwapOption::new(face.map(Arc::new)),
            status: watch::Sender::new(status),
            generation: Mutex::default(),
            retry: Notify::new(),
            reinstall: AtomicBool::new(false),
            stale: Notify::new(),
            closed: Notify::new(),
            unauthorized: Notify::new(),
            login: Mutex::default(),
            last_error: Mutex::default(),
            stderr: Mutex::default(),
            walls: Mutex::default(),
            subscriptions: Mutex::default(),
            listed: Mutex::default(),
            rechecking: tokio::sync::Mutex::default(),
            log_rank: AtomicU8::new(QUIET),
        }
    }

    /// Whether it is started in a jail, with a home of its own.
    pub fn has_home(&self) -> bool {
        matches!(
            &self.spec().transport,
            Transport::Stdio { jail: Some(_), .. }
        )
    }

    /// Ends its program, empties its home and starts it anew.
    pub fn reinstall(&self) {
        self.reinstall.store(true, Ordering::Release);
        *lock(&self.last_error) = Some("it is installed anew".to_owned());
        self.closed.notify_one();
        self.retry.notify_one();
    }

    /// Whether the server must be told to say more before a call that wants messages of this level. Asked once per level.
    pub fn must_say_more(&self, level: &str) -> bool {
        let Some(rank) = LOG_LEVELS
            .iter()
            .position(|name| *name == level)
            .and_then(|rank| u8::try_from(rank).ok())
        else {
            return false;
        };
        self.log_rank.fetch_min(rank, Ordering::AcqRel) > rank
    }

    pub fn spec(&self) -> Arc<ServerSpec> {
        self.spec.load_full()
    }

    pub fn face(&self) -> Option<Arc<Face>> {
        self.face.load_full()
    }

    /// Where its login stands, if it wants one.
    pub fn login(&self) -> Option<LoginState> {
        lock(&self.login).clone()
    }

    /// The server wants more rights than its login has; a person can give them.
    fn want_scopes(&self, scopes: &str) {
        let mut login = lock(&self.login);
        let issuer = match &*login {
            Some(
                LoginState::LoggedIn { issuer, .. }
                | LoginState::RenewalFailing { issuer, .. }
                | LoginState::ScopeRequired { issuer, .. },
            ) => issuer.clone(),
            _ => return,
        };
        *login = Some(LoginState::ScopeRequired {
            issuer,
            scopes: audit::printable(scopes),
        });
    }

    pub fn last_error(&self) -> Option<String> {
        lock(&self.last_error).clone()
    }

    /// The end of what the server wrote to stderr, safe to show.
    pub fn stderr_tail(&self) -> String {
        let bytes: Vec<u8> = lock(&self.stderr).iter().copied().collect();
        String::from_utf8_lossy(&bytes)
            .lines()
            .map(audit::printable)
            .collect::<Vec<_>>()
            .join("\n")
    }

    fn set_walls(&self, walls: start::Walls) {
        *lock(&self.walls) = walls;
    }

    fn walls(&self) -> start::Walls {
        lock(&self.walls).clone()
    }

    fn keep_stderr(&self, bytes: &[u8]) {
        let mut tail = lock(&self.stderr);
        tail.extend(bytes);
        let surplus = tail.len().saturating_sub(STDERR_TAIL);
        tail.drain(..surplus);
    }

    /// It could not be reached just now. Its tender asks it again, and learns whether the connection is gone.
    pub fn doubt(&self) {
        self.stale.notify_one();
    }

    fn is_generation(&self, generation: u64) -> bool {
        *lock(&self.generation) == Some(generation)
    }

    /// Counts a subscription; `true` if it is the first for this URI.
    pub fn add_subscription(&self, uri: &str) -> bool {
        let mut subscriptions = lock(&self.subscriptions);
        let count = subscriptions.entry(uri.to_owned()).or_default();
        *count += 1;
        *count == 1
    }

    /// Uncounts one; `true` if nobody is left.
    pub fn remove_subscription(&self, uri: &str) -> bool {
        let mut subscriptions = lock(&self.subscriptions);
        match subscriptions.get_mut(uri) {
            Some(count) if *count > 1 => {
                *count -= 1;
                false
            }
            Some(_) => subscriptions.remove(uri).is_some(),
            None => false,
        }
    }

    fn subscribed(&self) -> Vec<String> {
        lock(&self.subscriptions).keys().cloned().collect()
    }
}
