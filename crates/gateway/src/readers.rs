//! Reading files for operators, a few at a time.
//!
//! A report reads the whole ledger. The threads that it is read on are the ones that also put the ledger on the disk, so whoever asks for
//! many reports at once must not take all of them.
//!
//! **Invariant: operators' questions leave threads for the ledger** (`many_questions_leave_threads_for_others`).

use std::sync::Arc;

use tokio::{
    sync::Semaphore,
    task::{JoinError, spawn_blocking},
};

/// Questions that are answered from files at one time; the others wait.
const AT_ONCE: usize = 2;

#[derive(Debug)]
pub(crate) struct Readers(Arc<Semaphore>);

impl Default for Readers {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

impl Readers {
    /// Does this on a thread of its own, once it is its turn. Work that has begun counts until it ends, also if nobody waits for it any more.
    pub(crate) async fn run<T: Send + 'static>(
        &self,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> Result<T, JoinError> {
        // Nobody closes the semaphore.
        let turn = Arc::clone(&self.0).acquire_owned().await.ok();
        spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        })
        .await
    }
}

#[cfg(test)]
mod tests {
    use std::{
        sync::atomic::{AtomicUsize, Ordering},
        time::Duration,
    };

    use super::*;

    #[tokio::test]
    async fn many_questions_leave_threads_for_others() {
        let readers = Arc::new(Readers::default());
        let (now, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let ask = || {
            let (readers, now, most) = (Arc::clone(&readers), Arc::clone(&now), Arc::clone(&most));
            async move {
                let work = move || {
                    most.fetch_max(now.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                    std::thread::sleep(Duration::from_millis(5));
                    now.fetch_sub(1, Ordering::SeqCst);
                };
                readers.run(work).await.unwrap();
            }
        };
        // Who hangs up does not make room for another one before the work has ended.
        let _gave_up = tokio::time::timeout(Duration::from_millis(1), ask()).await;
        let asked: Vec<_> = (0..40).map(|_| tokio::spawn(ask())).collect();
        for one in asked {
            one.await.unwrap();
        }
        assert_eq!(most.load(Ordering::SeqCst), AT_ONCE);
        assert_eq!(now.load(Ordering::SeqCst), 0);
    }
}
