//! The keeper: the one thread that forks, and that tends what was forked.
//!
//! The kernel sends the parent-death signal when the *thread* that forked ends, not the process. A runtime's worker
//! threads come and go, so every fork happens on a thread that lives as long as the process.
//!
//! Once a second, while there are children, it finishes those that died unobserved and sweeps up strays.

use std::io;
use std::sync::OnceLock;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::{Duration, Instant};

use crate::{orphans, registry};

type Job = Box<dyn FnOnce() + Send>;

const TEND_EVERY: Duration = Duration::from_secs(1);
const TEND_WHEN_EMPTY: Duration = Duration::from_secs(60);

/// Runs `job` on the keeper's thread and waits for its answer.
pub(crate) fn run<T: Send + 'static>(job: impl FnOnce() -> T + Send + 'static) -> io::Result<T> {
    let (answer, answered) = mpsc::sync_channel(1);
    let job: Job = Box::new(move || {
        // The other end waits below, so it cannot be gone.
        let _ = answer.send(job());
    });
    let gone =
        || io::Error::other("the thread that spawns processes has stopped; restart the program");
    jobs()?.send(job).map_err(|_| gone())?;
    answered.recv().map_err(|_| gone())
}

fn jobs() -> io::Result<&'static Sender<Job>> {
    static JOBS: OnceLock<Result<Sender<Job>, io::ErrorKind>> = OnceLock::new();
    let started = JOBS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel();
        let thread = std::thread::Builder::new().name("keeper".to_owned());
        thread
            .spawn(move || keep(&receiver))
            .map_err(|error| error.kind())?;
        Ok(sender)
    });
    started.as_ref().map_err(|&kind| {
        io::Error::new(
            kind,
            "the thread that spawns processes could not be started",
        )
    })
}

fn keep(jobs: &Receiver<Job>) {
    // Without it strays go to init, where we cannot find them. `jail::probe` tells whether the kernel offers it.
    let _ = orphans::become_subreaper();
    let mut tended = Instant::now();
    loop {
        let pause = if registry::is_empty() {
            TEND_WHEN_EMPTY
        } else {
            TEND_EVERY
        };
        match jobs.recv_timeout(pause) {
            Ok(job) => job(),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return,
        }
        if tended.elapsed() >= TEND_EVERY {
            tend();
            tended = Instant::now();
        }
    }
}

fn tend() {
    for process in registry::living() {
        // An error here is the child's owner's to see, when it asks.
        let _ = process.finish();
    }
    orphans::reap_orphans();
}
