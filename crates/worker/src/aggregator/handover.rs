//! Descriptors the gate hands over: the two pipe ends of a stdio server, found again by their tag; and, once, the memory we share.

use std::{
    cell::RefCell,
    collections::HashMap,
    os::fd::{AsFd, OwnedFd},
    rc::Rc,
    time::Duration,
};

use sandbox::handover::Receiver;
use tokio::{
    io::Interest,
    net::UnixStream,
    sync::Notify,
    time::{Instant, timeout},
};
use wire::worker::MEMORY_TAG;

use super::{hub::Hub, stdio::Pipes};
use crate::failure::Failure;

/// Pairs kept for a `connect` that has not come yet.
const MAX_PARKED: usize = 64;
const PATIENCE: Duration = Duration::from_secs(30);
/// How long a `connect` waits for descriptors that are still on their way.
const ARRIVAL: Duration = Duration::from_secs(2);

#[derive(Debug, Default)]
pub(crate) struct Parked {
    pairs: RefCell<HashMap<u64, (Instant, OwnedFd, OwnedFd)>>,
    arrived: Notify,
}

impl Parked {
    /// Takes in what the gate sends until it hangs up.
    pub(crate) async fn receive(self: Rc<Self>, receiver: Receiver, hub: Rc<Hub>) {
        // A second descriptor of the same socket tells when there is something to receive.
        let watched = receiver.set_nonblocking(true).and_then(|()| {
            let second =
                std::os::unix::net::UnixStream::from(receiver.as_fd().try_clone_to_owned()?);
            UnixStream::from_std(second)
        });
        let socket = match watched {
            Ok(socket) => socket,
            Err(error) => return tracing::warn!("descriptors cannot be received: {error}"),
        };
        loop {
            match socket
                .async_io(Interest::READABLE, || receiver.receive())
                .await
            {
                Ok(Some(packet)) => {
                    let mut fds = packet.fds.into_iter();
                    match (fds.next(), fds.next(), fds.next()) {
                        (Some(requests), Some(results), None) if packet.tag == MEMORY_TAG => {
                            share(&hub, requests, results)
                        }
                        (Some(stdin), Some(stdout), None) => self.park(packet.tag, stdin, stdout),
                        _ => tracing::warn!(
                            tag = packet.tag,
                            "a handover must carry exactly two descriptors; refused"
                        ),
                    }
                }
                Ok(None) => return,
                Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                    tracing::warn!("a handover was refused: {error}")
                }
                Err(error) => {
                    return tracing::warn!("descriptors can no longer be received: {error}");
                }
            }
        }
    }

    fn park(&self, tag: u64, stdin: OwnedFd, stdout: OwnedFd) {
        let mut pairs = self.pairs.borrow_mut();
        pairs.retain(|_, (since, ..)| since.elapsed() < PATIENCE);
        if pairs.len() >= MAX_PARKED {
            return tracing::warn!(tag, "too many descriptors are waiting to be used; refused");
        }
        pairs.insert(tag, (Instant::now(), stdin, stdout));
        self.arrived.notify_waiters();
    }

    /// The pipes with this tag, waiting a moment if they are not here yet.
    pub(crate) async fn take(&self, tag: u64) -> Result<Pipes, Failure> {
        let arrival = async {
            loop {
                if let Some(pair) = self.pairs.borrow_mut().remove(&tag) {
                    return pair;
                }
                self.arrived.notified().await;
            }
        };
        let Ok((_, stdin, stdout)) = timeout(ARRIVAL, arrival).await else {
            return Err(Failure::not_found(format!(
                "no descriptors with tag {tag} were handed over"
            )));
        };
        Pipes::new(stdin, stdout).map_err(|error| {
            Failure::invalid(format!(
                "the descriptors handed over cannot be used: {error}"
            ))
        })
    }
}

/// Begins to use the memory the gate shares with us, and tells it so.
fn share(hub: &Rc<Hub>, requests: OwnedFd, results: OwnedFd) {
    match hub.net.memory.share(requests, results) {
        Ok(()) => hub.out.ok(MEMORY_TAG),
        Err(error) => hub
            .out
            .error(MEMORY_TAG, &format!("the memory cannot be shared: {error}")),
    }
}
