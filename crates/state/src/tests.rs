//! Tests, by what they are about. Time and entropy are numbers the tests choose.

mod approvals;
mod conformance;
mod index;
mod kill;
mod model;
mod opening;
mod sessions;
mod shared;
mod signed;

use std::{sync::Arc, task::Poll};

use crate::{NewApproval, Sqlite, State};

/// A question that expires at 1000. Different `entropy` gives different ids.
fn question(digest: u8, entropy: u64) -> NewApproval {
    let mut bytes = [0; 32];
    for (index, part) in bytes.chunks_exact_mut(8).enumerate() {
        part.copy_from_slice(
            &(entropy
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
                .rotate_left(13 * index as u32))
            .to_be_bytes(),
        );
    }
    NewApproval {
        digest: [digest; 32],
        caller: "c1".into(),
        caller_name: "claude".into(),
        action: "tools/call".into(),
        server: "github".into(),
        target: "create_issue".into(),
        definition: "aa".repeat(32),
        arguments: "{\"title\":\"\\u001b[31mhello\"}".into(),
        label: "CONFIDENTIAL+untrusted".into(),
        lineage: vec!["call-1".into(), "call-2".into()],
        why: vec!["the session has read untrusted data".into()],
        bundle: "balanced@1".into(),
        asked_ms: 10,
        expires_ms: 1000,
        entropy: bytes,
    }
}

/// Polls at most `times` times, as a caller does that goes away in the middle.
async fn partly<F: Future>(times: u32, future: F) -> bool {
    let (mut future, mut polled) = (Box::pin(future), 0);
    std::future::poll_fn(|context| {
        polled += 1;
        match future.as_mut().poll(context) {
            Poll::Ready(_) => Poll::Ready(true),
            Poll::Pending if polled == times => Poll::Ready(false),
            Poll::Pending => Poll::Pending,
        }
    })
    .await
}

/// A state, and the driver it is kept by, to look behind.
fn with_driver(sqlite: Sqlite) -> (State, Sqlite) {
    (State::new(Arc::new(sqlite.clone())), sqlite)
}
