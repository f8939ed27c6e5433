//! `subscriptions/listen`: the one long request through which a modern server tells what changed.

use std::{
    rc::Rc,
    time::{Duration, Instant},
};

use bytes::Bytes;
use tokio::time::{sleep, timeout};
use wire::{
    mcp::code,
    write::{self, Object},
};

use super::{
    connection::Connection,
    outgoing::{About, Outgoing, Params},
};

/// How long connecting or subscribing waits for the acknowledgement.
const ACKNOWLEDGED: Duration = Duration::from_secs(1);
const FIRST_PAUSE: Duration = Duration::from_secs(1);
const MAX_PAUSE: Duration = Duration::from_secs(30);
/// A stream that lived this long was a good one.
const GOOD: Duration = Duration::from_secs(10);
/// Short-lived streams in a row after which we stop trying.
const MAX_SHORT: u32 = 6;
const MAX_UNREACHABLE: u32 = 3;

/// Opens a stream for what is wanted now and then drops the one before, so that nothing is missed in between.
pub(crate) async fn reopen(conn: &Rc<Connection>) {
    let before = conn.listener.take();
    let wanted = filter(conn);
    if let Some(wanted) = wanted {
        let acks = conn.acks.get();
        let weak = Rc::downgrade(conn);
        let task = tokio::task::spawn_local(async move {
            let mut pause = FIRST_PAUSE;
            let (mut short, mut unreachable) = (0, 0);
            loop {
                let Some(conn) = weak.upgrade() else { return };
                let started = Instant::now();
                match once(&conn, &wanted).await {
                    Ended::ByServer => unreachable = 0,
                    Ended::Unsupported => return,
                    Ended::Unreachable(failure) => {
                        unreachable += 1;
                        if unreachable >= MAX_UNREACHABLE {
                            return conn.close(failure, true);
                        }
                    }
                }
                if started.elapsed() > GOOD {
                    (short, pause) = (0, FIRST_PAUSE);
                } else {
                    short += 1;
                    if short >= MAX_SHORT {
                        tracing::warn!(
                            server = &*conn.server,
                            "the server keeps ending `subscriptions/listen`; changes will not be noticed"
                        );
                        return;
                    }
                }
                drop(conn);
                sleep(pause).await;
                pause = pause.saturating_mul(2).min(MAX_PAUSE);
            }
        });
        conn.listener.replace(Some(task.abort_handle()));
        let acknowledged = async {
            while conn.acks.get() == acks {
                conn.acknowledged.notified().await;
            }
        };
        let _ = timeout(ACKNOWLEDGED, acknowledged).await;
    }
    if let Some(before) = before {
        before.abort();
    }
}

enum Ended {
    ByServer,
    Unsupported,
    Unreachable(crate::failure::Failure),
}

async fn once(conn: &Rc<Connection>, wanted: &Bytes) -> Ended {
    let Ok(mut outgoing) = Outgoing::new(
        conn,
        "subscriptions/listen",
        Params::owned(Some(wanted)),
        &About::NOTHING,
    ) else {
        return Ended::Unsupported;
    };
    outgoing.endless = true;
    let _withdraw = Withdraw {
        conn: Rc::clone(conn),
        id: outgoing.id,
    };
    match conn.exchange(&outgoing, None).await {
        Ok(_) => Ended::ByServer,
        Err(failure) if failure.code() == Some(code::METHOD_NOT_FOUND) => Ended::Unsupported,
        Err(failure) if failure.unreachable => Ended::Unreachable(failure),
        Err(failure) => {
            tracing::debug!(
                server = &*conn.server,
                "`subscriptions/listen` ended: {failure}"
            );
            Ended::ByServer
        }
    }
}

/// On pipes an abandoned subscription must be taken back; on HTTP closing the stream does it.
struct Withdraw {
    conn: Rc<Connection>,
    id: u64,
}

impl Drop for Withdraw {
    fn drop(&mut self) {
        if !self.conn.is_closed() {
            self.conn.cancel_upstream(self.id, "no longer needed");
        }
    }
}

/// What to listen to; `None` if nothing.
fn filter(conn: &Connection) -> Option<Bytes> {
    let lists = [
        ("tools", "toolsListChanged"),
        ("prompts", "promptsListChanged"),
        ("resources", "resourcesListChanged"),
    ];
    let uris = conn.subscriptions.borrow();
    let declared: Vec<_> = lists
        .iter()
        .filter(|(name, _)| conn.declares(&[name, "listChanged"]))
        .collect();
    if declared.is_empty() && uris.is_empty() {
        return None;
    }
    let mut params = Object::new();
    params.object("notifications", |wanted| {
        for (_, key) in declared {
            wanted.bool(key, true);
        }
        if !uris.is_empty() {
            let mut list = vec![b'['];
            for uri in uris.iter() {
                if list.len() > 1 {
                    list.push(b',');
                }
                write::quote(&mut list, uri);
            }
            list.push(b']');
            wanted.raw("resourceSubscriptions", &list);
        }
    });
    Some(params.finish().into())
}
