//! Keeping a worker alive: spawn, listen, notice death or silence, spawn again.
//!
//! A dead worker never takes the gate down. Its waiting requests end at once, and the next worker starts with nothing of the old
//! one's: not its ids, not its pipes.
//!
//! **Invariant: a dead or hung worker never takes the gate down.** Tests `two_hundred_kills_under_load`,
//! `a_hung_worker_is_noticed_and_replaced`, `stdio_servers_come_back_with_the_next_worker`.

mod vigil;

use std::{
    os::fd::OwnedFd,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use callers::oauth::Fetch;
use sandbox::jail;
use tokio::{io::AsyncReadExt, net::unix::pipe, sync::watch};
use vocab::Backoff;
use wire::{Json, Text, worker::method, write::Object};

use crate::{
    link::{Link, Word},
    settings::WorkerSettings,
};
use vigil::{Seen, TICK, Vigil};

/// Every so many ticks, memory that was needed in a rush is given back.
const TRIM: u32 = 200;
/// Between a worker's death and its successor; doubled for each that dies without having said anything.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(2), Duration::from_millis(512));

/// The worker keeps the time of what it fetches; this much later the gate stops waiting for it.
const GRACE: Duration = Duration::from_millis(500);

/// How long a worker may take to say what confines it.
const REPORT_PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct Workers {
    settings: WorkerSettings,
    current: watch::Sender<Option<Arc<Link>>>,
    spawned: AtomicU64,
}

/// Keys of identity providers come through the worker, like everything from outside.
impl Fetch for Workers {
    fn is_ready(&self) -> bool {
        self.link().is_some()
    }

    async fn fetch(&self, url: &str, max_bytes: u64, patience: Duration) -> Result<Text, String> {
        let Some(link) = self.link() else {
            return Err("the worker is starting".to_owned());
        };
        let mut params = Object::new();
        params.str("url", url).u64("max_bytes", max_bytes).u64(
            "timeout_ms",
            u64::try_from(patience.as_millis()).unwrap_or(u64::MAX),
        );
        let params = params.finish();
        let asked = link.ask_within(method::FETCH, &params, patience + GRACE);
        match asked.await {
            Word::Result(text) => Ok(text),
            Word::Error { text, .. } => Err(text),
            _ => Err("the worker was lost".to_owned()),
        }
    }
}

impl Workers {
    pub fn new(settings: WorkerSettings) -> Arc<Self> {
        Arc::new(Self {
            settings,
            current: watch::Sender::new(None),
            spawned: AtomicU64::new(0),
        })
    }

    /// The living worker, if there is one right now.
    pub fn link(&self) -> Option<Arc<Link>> {
        self.current
            .borrow()
            .clone()
            .filter(|link| !link.is_severed())
    }

    /// As it is replaced.
    pub fn subscribe(&self) -> watch::Receiver<Option<Arc<Link>>> {
        self.current.subscribe()
    }

    /// How many workers were started in the place of a dead one.
    pub fn respawns(&self) -> u64 {
        self.spawned.load(Ordering::Relaxed).saturating_sub(1)
    }

    /// What the worker says it is confined by.
    pub async fn confinement(&self) -> Vec<api::Confinement> {
        let Some(link) = self.link() else {
            return Vec::new();
        };
        let asked = link.ask_within(method::CONFINEMENT, b"{}", REPORT_PATIENCE);
        let Word::Result(report) = asked.await else {
            return Vec::new();
        };
        let report = Json::checked_before(&report);
        let list = |key: &str, applied: bool| {
            let items = report.get(key).into_iter().flat_map(Json::items);
            items.map(move |item| measure(item, applied))
        };
        list("applied", true)
            .chain(list("refused", false))
            .collect()
    }

    /// Runs until the task is dropped.
    pub async fn supervise(self: Arc<Self>) {
        let mut failures = 0u32;
        loop {
            let spoke = match self.spawn() {
                Ok(life) => life.run(&self).await,
                Err(error) => {
                    tracing::error!(%error, program = %self.settings.program.display(), "cannot start the worker");
                    false
                }
            };
            self.current.send_replace(None);
            // A worker that dies at every start, before it says anything, must not take the machine with it.
            failures = if spoke { 0 } else { failures + 1 };
            tokio::time::sleep(PAUSES.doubled(failures)).await;
        }
    }

    fn spawn(&self) -> Result<Life, String> {
        let spawned = jail::Worker::new(&self.settings.program)
            .args(&self.settings.args)
            .spawn()
            .map_err(|error| error.to_string())?;
        self.spawned.fetch_add(1, Ordering::Relaxed);
        let stdin =
            pipe::Sender::from_owned_fd(spawned.stdin).map_err(|error| error.to_string())?;
        let stdout =
            pipe::Receiver::from_owned_fd(spawned.stdout).map_err(|error| error.to_string())?;
        let link = Arc::new(Link::new(spawned.handover, spawned.child.pid()));
        Ok(Life {
            child: spawned.child,
            stdin,
            stdout,
            stderr: spawned.stderr,
            link,
            total_bytes: self.settings.total_bytes,
        })
    }
}

/// One worker process from start to end.
struct Life {
    child: sandbox::Child,
    stdin: pipe::Sender,
    stdout: pipe::Receiver,
    stderr: OwnedFd,
    link: Arc<Link>,
    total_bytes: usize,
}

impl Life {
    /// Returns whether the worker ever said anything.
    async fn run(self, workers: &Workers) -> bool {
        let Self {
            child,
            stdin,
            stdout,
            stderr,
            link,
            total_bytes,
        } = self;
        tokio::spawn(log_lines(stderr));
        link.open();
        let writer = tokio::spawn({
            let link = Arc::clone(&link);
            async move { link.write_all(stdin).await }
        });
        workers.current.send_replace(Some(Arc::clone(&link)));
        tokio::select! {
            () = link.read_all(stdout, total_bytes) => tracing::warn!(pid = link.pid, "the worker is gone"),
            () = until_hung(&link) => tracing::warn!(pid = link.pid, "the worker hangs; killing it"),
        }
        link.sever();
        writer.abort();
        // Reaping waits for the kernel, so not on this thread.
        let _ = tokio::task::spawn_blocking(move || child.kill()).await;
        link.has_spoken()
    }
}

/// Resolves when the worker has been silent for too long while a request waits.
async fn until_hung(link: &Link) {
    let mut vigil = Vigil::default();
    let mut ticks = 0u32;
    loop {
        let before = Instant::now();
        tokio::time::sleep(TICK).await;
        link.flush();
        ticks = ticks.wrapping_add(1);
        if ticks.is_multiple_of(TRIM) {
            wire::buffers::trim();
        }
        if !link.is_waiting() {
            vigil = Vigil::default();
            continue;
        }
        let Some(pulse) = sandbox::inspect::pulse(link.pid) else {
            continue;
        };
        match vigil.look(before.elapsed(), pulse, link.silence()) {
            Seen::Alive => {}
            Seen::Ask => link.tell(method::PING, b"{}"),
            Seen::Hung => return,
        }
    }
}

/// The worker's own log, line by line, into ours.
async fn log_lines(stderr: OwnedFd) {
    let Ok(mut pipe) = pipe::Receiver::from_owned_fd(stderr) else {
        return;
    };
    let mut lines = wire::line::Lines::new(8 << 10);
    while let Ok(1..) = pipe.read_buf(lines.buffer()).await {
        while let Some(line) = lines.next_line() {
            if let wire::line::Line::Whole(text) = line {
                tracing::info!(target: "worker", "{}", audit::printable(&String::from_utf8_lossy(&text)));
            }
        }
    }
}

/// The worker says `name: applied (detail)` or `name: refused (reason)`.
fn measure(item: Json<'_>, applied: bool) -> api::Confinement {
    let text = item.as_str().unwrap_or_default();
    let (name, rest) = text.split_once(": ").unwrap_or((&text, ""));
    let detail = rest.split_once(" (").map_or(rest, |(_, detail)| {
        detail.strip_suffix(')').unwrap_or(detail)
    });
    api::Confinement {
        name: name.to_owned(),
        applied,
        detail: detail.to_owned(),
    }
}
