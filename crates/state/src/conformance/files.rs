//! Rules about the labels of files.

use std::sync::Arc;

use vocab::{Integrity, Label, Level, Mark, ServerId};

use super::{Subject, Wrong, labels::label, same};
use crate::{FileKey, VolumeLabels};

/// Numbers that use the bits that others leave free.
const FILE: FileKey = FileKey {
    inode: u64::MAX - 1,
    birth: 1 << 63,
    is_names: false,
};
const NAMES: FileKey = FileKey {
    is_names: true,
    ..FILE
};
/// On a disk that tells no births.
const UNBORN: FileKey = FileKey {
    inode: 7,
    birth: 0,
    is_names: false,
};

fn low() -> Label {
    label(Level::Internal, Integrity::Untrusted, &["a"])
}

fn high() -> Label {
    let label = label(Level::Restricted, Integrity::Trusted, &["b"]);
    label.join(&Label::of(Mark::default(), ServerId::built_in()))
}

fn of(root: Option<(u64, u64)>, labels: &[(FileKey, &Label)]) -> VolumeLabels {
    let mut labels: Vec<_> = labels
        .iter()
        .map(|(key, label)| (*key, (*label).clone()))
        .collect();
    labels.sort_by_key(|(key, _)| *key);
    VolumeLabels { root, labels }
}

pub(super) async fn the_label_of_a_file_is_still_there_when_the_store_is_opened_again(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    store.settle_volume("v", (u64::MAX, 3)).await?;
    store.raise_file_label("v", FILE, &low()).await?;
    store.raise_file_label("v", NAMES, &high()).await?;
    store.raise_file_label("w", FILE, &high()).await?;
    drop(store);
    let store = subject.open().await;
    let kept = of(Some((u64::MAX, 3)), &[(FILE, &low()), (NAMES, &high())]);
    same("a volume", store.volume_labels("v").await?, kept)?;
    let other = of(None, &[(FILE, &high())]);
    same("another volume", store.volume_labels("w").await?, other)?;
    store.settle_volume("v", (4, 5)).await?;
    let root = store.volume_labels("v").await?.root;
    same("the root that was settled last", root, Some((4, 5)))
}

pub(super) async fn the_label_of_a_file_only_rises(subject: &dyn Subject) -> Result<(), Wrong> {
    let store = subject.open().await;
    store.raise_file_label("v", FILE, &high()).await?;
    store.raise_file_label("v", FILE, &low()).await?;
    let both = high().join(&low());
    let kept = of(None, &[(FILE, &both)]);
    same("a file", store.volume_labels("v").await?, kept)?;
    store.raise_file_label("v", FILE, &Label::default()).await?;
    let kept = of(None, &[(FILE, &both)]);
    same("the same file", store.volume_labels("v").await?, kept)
}

pub(super) async fn rises_of_one_file_at_the_same_time_lose_nothing(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let mut under_way = Vec::new();
    for origin in ["a", "b", "c", "d", "e", "f"] {
        let store: Arc<_> = subject.open().await;
        under_way.push(tokio::spawn(async move {
            let label = label(Level::Internal, Integrity::Trusted, &[origin]);
            store.raise_file_label("v", FILE, &label).await
        }));
    }
    for rise in under_way {
        rise.await??;
    }
    let all = label(
        Level::Internal,
        Integrity::Trusted,
        &["a", "b", "c", "d", "e", "f"],
    );
    let kept = subject.open().await.volume_labels("v").await?;
    same("what all raised", kept, of(None, &[(FILE, &all)]))
}

pub(super) async fn a_number_without_a_birth_may_be_another_file(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    store.replace_file_label("v", UNBORN, &high()).await?;
    store.replace_file_label("v", UNBORN, &low()).await?;
    let kept = of(None, &[(UNBORN, &low())]);
    same("the second file", store.volume_labels("v").await?, kept)
}

pub(super) async fn files_that_are_gone_are_forgotten_and_no_others(
    subject: &dyn Subject,
) -> Result<(), Wrong> {
    let store = subject.open().await;
    let other = FileKey { birth: 9, ..FILE };
    store.settle_volume("v", (1, 2)).await?;
    for key in [FILE, NAMES, other] {
        store.raise_file_label("v", key, &low()).await?;
    }
    store.raise_file_label("w", FILE, &low()).await?;
    let gone = [(FILE.inode, FILE.birth), (99, 99)];
    store.forget_files("v", &gone).await?;
    let kept = of(Some((1, 2)), &[(other, &low())]);
    same("the volume", store.volume_labels("v").await?, kept)?;
    let kept = of(None, &[(FILE, &low())]);
    same("another volume", store.volume_labels("w").await?, kept)
}
