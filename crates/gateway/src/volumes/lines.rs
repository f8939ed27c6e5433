//! Who is next on the volumes: a few operations at once, and of each caller only so many among those that wait.
//!
//! **Invariant: nobody's operations keep another's waiting.** A caller with a hundred searches stands in the line of all once, and in a line
//! of its own with the rest. Test `who_searches_much_waits_behind_itself`.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError, Weak},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Operations at once: enough to keep a disk busy. Of one caller: enough to leave some.
const AT_ONCE: usize = 16;
const OF_ONE: usize = 4;
/// Searches at once: they keep a processor busy, and calls need one too.
const SEARCHES: usize = 2;
const SEARCHES_OF_ONE: usize = 1;

#[derive(Debug)]
pub(crate) struct Lines {
    all: Line,
    /// By the key of the caller; gone when nobody of it waits or works.
    own: Mutex<HashMap<usize, Weak<Line>>>,
}

#[derive(Debug)]
struct Line {
    operations: Arc<Semaphore>,
    searches: Arc<Semaphore>,
}

/// Given back when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn {
    _of_all: OwnedSemaphorePermit,
    _own: OwnedSemaphorePermit,
    _line: Arc<Line>,
}

impl Line {
    fn new(operations: usize, searches: usize) -> Self {
        Self {
            operations: Arc::new(Semaphore::new(operations)),
            searches: Arc::new(Semaphore::new(searches)),
        }
    }

    async fn wait(&self, is_search: bool) -> Option<OwnedSemaphorePermit> {
        let places = match is_search {
            true => &self.searches,
            false => &self.operations,
        };
        Arc::clone(places).acquire_owned().await.ok()
    }
}

impl Lines {
    pub(crate) fn new() -> Self {
        Self {
            all: Line::new(AT_ONCE, SEARCHES),
            own: Mutex::default(),
        }
    }

    /// Waits until an operation of this caller is next. `None` is never given: nobody closes the lines.
    pub(crate) async fn turn(&self, caller: usize, is_search: bool) -> Option<Turn> {
        let line = self.line(caller);
        let own = line.wait(is_search).await?;
        let of_all = self.all.wait(is_search).await?;
        Some(Turn {
            _of_all: of_all,
            _own: own,
            _line: line,
        })
    }

    fn line(&self, caller: usize) -> Arc<Line> {
        let mut own = self.own.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(line) = own.get(&caller).and_then(Weak::upgrade) {
            return line;
        }
        own.retain(|_, line| line.strong_count() > 0);
        let line = Arc::new(Line::new(OF_ONE, SEARCHES_OF_ONE));
        own.insert(caller, Arc::downgrade(&line));
        line
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::Lines;

    #[tokio::test]
    async fn who_searches_much_waits_behind_itself() {
        let lines = Arc::new(Lines::new());
        let first = lines.turn(1, true).await.unwrap();
        let waiting: Vec<_> = (0..100)
            .map(|_| {
                let lines = Arc::clone(&lines);
                tokio::spawn(async move { lines.turn(1, true).await.is_some() })
            })
            .collect();
        tokio::task::yield_now().await;
        // Another caller comes after all of them, and does not wait.
        let mut other = Box::pin(lines.turn(2, true));
        let next = futures_of(&mut other).await;
        assert!(next.is_some(), "the second place is for somebody else");
        assert!(waiting.iter().all(|one| !one.is_finished()));
        drop((first, next));
        for one in waiting {
            assert!(one.await.unwrap());
        }
        assert_eq!(lines.own.lock().unwrap().len(), 2);
        drop(lines.turn(3, false).await);
        assert_eq!(lines.own.lock().unwrap().len(), 1, "who left is forgotten");
    }

    /// What is ready at once.
    async fn futures_of<T>(future: &mut (impl Future<Output = Option<T>> + Unpin)) -> Option<T> {
        tokio::select! {
            biased;
            ready = future => ready,
            () = std::future::ready(()) => None,
        }
    }
}
