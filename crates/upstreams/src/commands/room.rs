//! How much a caller's workspace holds: measured while a command runs and after it, because nothing else bounds it.
//!
//! **Invariant: a workspace does not grow for ever.** A command in a full one is ended, and the next one can delete and not write. Between
//! two looks a command can write more than the bound. Test `a_full_workspace_ends_its_command_and_takes_nothing_more`.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::{sync::Mutex as Turn, task::spawn_blocking};

/// How soon after a look the next one comes, at the earliest.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// Looking takes at most one part of this many of the time.
const SHARE: u32 = 10;
/// Workspaces whose room is remembered. What is forgotten is measured again.
const MOST_ROOMS: usize = 1024;

/// What a workspace holds that cannot be walked through.
pub(super) const UNMEASURED: u64 = u64::MAX;

/// What a workspace held when it was last measured; nothing while it may have changed since.
#[derive(Debug, Default)]
pub(super) struct Room(Arc<Turn<Option<u64>>>);

/// Those of the workspaces in use.
#[derive(Debug, Default)]
pub(super) struct Rooms(Mutex<BTreeMap<PathBuf, Arc<Room>>>);

impl Rooms {
    pub(super) fn of(&self, place: &Path) -> Arc<Room> {
        let mut rooms = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if rooms.len() >= MOST_ROOMS && !rooms.contains_key(place) {
            rooms.retain(|_, room| Arc::strong_count(room) > 1);
        }
        Arc::clone(rooms.entry(place.to_owned()).or_default())
    }
}

impl Room {
    /// What the workspace holds, for a command that is about to change that.
    pub(super) async fn held(&self, files: &Path) -> u64 {
        let mut known = self.0.lock().await;
        match known.take() {
            Some(held) => held,
            None => measured(files).await,
        }
    }

    /// Measures the workspace after a command, while nobody waits. Who asks meanwhile waits for it; where another command has just ended
    /// too, whoever comes next measures.
    pub(super) fn measure_soon(&self, files: &Path) {
        if let Ok(mut known) = Arc::clone(&self.0).try_lock_owned() {
            let files = files.to_owned();
            tokio::spawn(async move { *known = Some(measured(&files).await) });
        }
    }

    /// Returns when the workspace holds more than this, with how much.
    pub(super) async fn overflows(&self, files: &Path, most: u64) -> u64 {
        let mut pause = LOOK_AGAIN;
        loop {
            tokio::time::sleep(pause).await;
            let begun = Instant::now();
            let held = measured(files).await;
            if held > most {
                return held;
            }
            pause = LOOK_AGAIN.max(begun.elapsed().saturating_mul(SHARE));
        }
    }
}

async fn measured(files: &Path) -> u64 {
    let files = files.to_owned();
    let walked = spawn_blocking(move || sandbox::disk_use(&files)).await;
    // What cannot be walked through is as good as full.
    walked.ok().and_then(Result::ok).unwrap_or(UNMEASURED)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_may_have_changed_is_measured_again() {
        let place = tempfile::tempdir().unwrap();
        let rooms = Rooms::default();
        let room = rooms.of(place.path());
        let empty = room.held(place.path()).await;
        std::fs::write(place.path().join("file"), vec![1; 100_000]).unwrap();
        // A command that nobody waited for to its end.
        let held = rooms.of(place.path()).held(place.path()).await;
        assert!(held >= empty + 100_000, "{empty} {held}");
        std::fs::write(place.path().join("other"), vec![1; 100_000]).unwrap();
        room.measure_soon(place.path());
        assert!(room.held(place.path()).await >= held + 100_000);
        let missing = place.path().join("missing");
        assert_eq!(rooms.of(&missing).held(&missing).await, UNMEASURED);
    }

    #[tokio::test(start_paused = true)]
    async fn what_grows_too_large_is_noticed() {
        let place = tempfile::tempdir().unwrap();
        std::fs::write(place.path().join("file"), vec![1; 100_000]).unwrap();
        let room = Room::default();
        assert!(room.overflows(place.path(), 50_000).await >= 100_000);
        let missing = place.path().join("missing");
        assert_eq!(room.overflows(&missing, 1 << 30).await, UNMEASURED);
        let waits = tokio::time::timeout(
            Duration::from_secs(5),
            room.overflows(place.path(), 1 << 30),
        );
        assert!(waits.await.is_err());
    }
}
