//! All sinks of a gate: started, replaced on reload, stopped.
//!
//! They run on a thread of their own, started with the first of them: writing a thousand events down takes milliseconds, and the thread
//! that serves calls has none to spare.

use std::{
    path::PathBuf,
    sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError},
    time::Duration,
};

use tokio::{
    runtime::{Builder, Runtime},
    sync::watch,
    task::JoinHandle,
};

use crate::{
    cursor::Cursor,
    delivery::Delivery,
    settings::{Outside, Spec},
    status::{Board, Status},
};

/// What sinks read from.
#[derive(Debug, Clone)]
pub struct Source {
    pub ledger: PathBuf,
    /// How many records survive a power cut. Nothing above is delivered: it could still be taken back.
    pub durable: watch::Receiver<u64>,
    /// Where cursors are kept.
    pub cursors: PathBuf,
}

#[derive(Debug)]
pub struct Sinks {
    source: Source,
    outside: Outside,
    running: Mutex<Vec<Running>>,
    /// `None` where the thread could not be started.
    runtime: OnceLock<Option<Runtime>>,
}

/// Threads that wait for the disk.
const BLOCKING: usize = 4;

#[derive(Debug)]
struct Running {
    spec: Spec,
    board: Arc<Board>,
    stop: watch::Sender<bool>,
    task: Option<JoinHandle<()>>,
}

impl Sinks {
    /// Starts them.
    #[must_use]
    pub fn start(source: Source, outside: Outside, specs: Vec<Spec>) -> Sinks {
        let sinks = Sinks {
            source,
            outside,
            running: Mutex::default(),
            runtime: OnceLock::new(),
        };
        sinks.apply(specs);
        sinks
    }

    /// Makes the sinks be exactly these. One that is unchanged goes on undisturbed; one that is changed begins when its predecessor, which
    /// has the same cursor, has ended.
    pub fn apply(&self, specs: Vec<Spec>) {
        let mut running = self.lock();
        let mut before: Vec<Running> = std::mem::take(&mut *running);
        for spec in specs {
            let old = before
                .iter()
                .position(|old| old.spec.name == spec.name)
                .map(|at| before.swap_remove(at));
            running.push(match old {
                Some(old)
                    if old.spec == spec
                        && old.task.as_ref().is_some_and(|task| !task.is_finished()) =>
                {
                    old
                }
                old => self.begin(spec, old),
            });
        }
        for old in before {
            let _ = old.stop.send(true);
        }
    }

    fn runtime(&self) -> Option<&Runtime> {
        let make = || {
            let made = Builder::new_multi_thread()
                .worker_threads(1)
                .max_blocking_threads(BLOCKING)
                .thread_name("sinks")
                .enable_all()
                .build();
            made.map_err(|error| tracing::error!(%error, "there is no thread for sinks, so nothing is delivered")).ok()
        };
        self.runtime.get_or_init(make).as_ref()
    }

    fn begin(&self, spec: Spec, old: Option<Running>) -> Running {
        let (stop, told) = watch::channel(false);
        let board = Arc::new(Board::default());
        let delivery = Delivery {
            cursor: Cursor::of(&self.source.cursors, &spec.name),
            spec: spec.clone(),
            ledger: self.source.ledger.clone(),
            durable: self.source.durable.clone(),
            outside: self.outside.clone(),
            board: Arc::clone(&board),
            stop: told,
        };
        let run = async move {
            if let Some(Running {
                stop,
                task: Some(task),
                ..
            }) = old
            {
                let _ = stop.send(true);
                let _ = task.await;
            }
            delivery.run().await;
        };
        let task = self.runtime().map(|runtime| runtime.spawn(run));
        if task.is_none() {
            board.failed("there is no thread for sinks");
        }
        Running {
            spec,
            board,
            stop,
            task,
        }
    }

    /// How each of them is doing, in the order of the configuration.
    #[must_use]
    pub fn status(&self) -> Vec<Status> {
        let durable = *self.source.durable.borrow();
        self.lock()
            .iter()
            .map(|running| {
                let notes = running.board.note().clone();
                Status {
                    name: running.spec.name.clone(),
                    kind: running.spec.kind.as_str(),
                    state: notes.state.as_str(),
                    position: notes.next.to_string(),
                    lag: durable.saturating_sub(notes.next.seq),
                    delivered: notes.delivered,
                    lost: notes.lost,
                    failures: notes.failures,
                    error: notes.error,
                }
            })
            .collect()
    }

    /// Lets them deliver what is there, for so long at most. What is left is delivered after the next start.
    pub async fn close(&self, within: Duration) {
        let running = std::mem::take(&mut *self.lock());
        for one in &running {
            let _ = one.stop.send(true);
        }
        let ended = async {
            for task in running.into_iter().filter_map(|one| one.task) {
                let _ = task.await;
            }
        };
        let _ = tokio::time::timeout(within, ended).await;
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Sinks {
    fn drop(&mut self) {
        // Whoever drops it may be in a runtime of its own, which must not wait for this one.
        if let Some(runtime) = self.runtime.take().flatten() {
            runtime.shutdown_background();
        }
    }
}
