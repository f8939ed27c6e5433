//! The standing GET stream of a legacy streamable HTTP server: notifications and questions that belong to no POST.

use std::{rc::Rc, time::Duration};

use tokio::{
    sync::oneshot,
    time::{sleep, timeout},
};
use vocab::Backoff;

use super::{
    connection::Connection,
    http::HttpLink,
    post_stream::{Events, Resume},
};

/// How long connecting waits for the stream to be open. Some servers send no headers before the first event.
const OPENING: Duration = Duration::from_millis(500);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);
/// Failures in a row after which a server that cannot be reached counts as gone.
const MAX_UNREACHABLE: u32 = 3;

/// Opens the stream and keeps it open. Returns once it is open, refused, or too slow to matter.
pub(crate) async fn open(conn: &Rc<Connection>, link: &Rc<HttpLink>) {
    let (opened, is_open) = oneshot::channel();
    let (weak, link) = (Rc::downgrade(conn), Rc::clone(link));
    let task = tokio::task::spawn_local(async move {
        let mut opened = Some(opened);
        let mut resume = Resume::default();
        let mut failures = 0;
        loop {
            let got = link.get(resume.last_id.as_deref()).await;
            if let Some(opened) = opened.take() {
                let _ = opened.send(());
            }
            let Some(conn) = weak.upgrade() else { return };
            match got {
                Ok(events) => {
                    failures = 0;
                    read(&conn, events, &mut resume).await;
                }
                Err(failure) if failure.unreachable => {
                    failures += 1;
                    if failures >= MAX_UNREACHABLE {
                        return conn.close(failure, true);
                    }
                }
                Err(failure) => {
                    // 405 and friends: the server has no such stream, which is its right.
                    tracing::debug!(server = &*conn.server, "no standing stream: {failure}");
                    return;
                }
            }
            drop(conn);
            sleep(Backoff::new(resume.wait(), LONGEST_PAUSE).doubled(failures)).await;
        }
    });
    if let Some(before) = conn.standing.replace(Some(task.abort_handle())) {
        before.abort();
    }
    let _ = timeout(OPENING, is_open).await;
}

async fn read(conn: &Rc<Connection>, mut events: Events, resume: &mut Resume) {
    loop {
        match events.next().await {
            Ok(Some(mut event)) => {
                resume.note(&mut event);
                conn.take(event).await;
            }
            Ok(None) => return,
            Err(failure) => {
                tracing::debug!(
                    server = &*conn.server,
                    "the standing stream broke: {failure}"
                );
                return;
            }
        }
    }
}
