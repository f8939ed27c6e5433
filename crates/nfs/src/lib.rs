//! The NFS door: whoever was given a mount reaches its volumes as a file system, with NFS version 3 and its MOUNT protocol on one TCP port.
//!
//! Nothing is decided here. A request is taken apart, carried to the [`Mount`], and answered; what it may do is the gate's to say. The
//! listener is the identity: it belongs to one mount and listens on loopback, and the users that a client names are ignored.
//!
//! This crate must never allocate what a length in a request only claims, nor hold more requests of one connection than it may.

mod procedures;
mod rpc;
mod xdr;

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use gateway::Mount;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt, BufReader},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    sync::{Mutex, Semaphore},
    task::JoinSet,
};

use procedures::Door;

/// The longest part of a file in one request.
pub(crate) const MOST: usize = 1 << 20;
/// The longest record: a part of a file, and what stands around it.
const LONGEST_RECORD: usize = MOST + 4096;
/// Connections of one mount. A client has one, or a few side by side.
const CONNECTIONS: usize = 16;
/// Requests of one connection under way: with the longest parts these are eight megabytes.
const AT_ONCE: usize = 8;
/// A client that does not take an answer for so long is let go.
const WRITE_TIMEOUT: Duration = Duration::from_secs(30);
/// After a failed accept (out of descriptors, say) we wait instead of spinning.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Opens the door of a mount on loopback, until nothing is attached to it any more. Needs a tokio runtime. Port 0: any.
pub fn open(mount: Mount, port: u16) -> io::Result<SocketAddr> {
    let listener = std::net::TcpListener::bind((std::net::Ipv4Addr::LOCALHOST, port))?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let listener = TcpListener::from_std(listener)?;
    tokio::spawn(serve(mount, listener));
    Ok(address)
}

async fn serve(mount: Mount, listener: TcpListener) {
    let door = Arc::new(Door::new(mount.clone()));
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let mut connections = JoinSet::new();
    let mut closed = std::pin::pin!(mount.closed());
    loop {
        tokio::select! {
            () = &mut closed => break,
            Some(_) = connections.join_next() => {}
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => {
                    // Who finds no place is let go, and comes again.
                    if let Ok(place) = Arc::clone(&places).try_acquire_owned() {
                        let door = Arc::clone(&door);
                        connections.spawn(async move {
                            let _place = place;
                            converse(door, stream).await;
                        });
                    }
                }
                Err(error) => {
                    tracing::warn!(%error, "could not accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            },
        }
    }
    connections.shutdown().await;
}

async fn converse(door: Arc<Door>, stream: TcpStream) {
    let _at_worst_slower = stream.set_nodelay(true);
    let (read, write) = stream.into_split();
    let mut read = BufReader::new(read);
    let write = Arc::new(Mutex::new(write));
    let places = Arc::new(Semaphore::new(AT_ONCE));
    let mut under_way = JoinSet::new();
    // What is under way when the client leaves is concluded; nobody hears of it.
    while let Ok(place) = Arc::clone(&places).acquire_owned().await {
        while under_way.try_join_next().is_some() {}
        let Ok(Some(record)) = receive(&mut read).await else {
            break;
        };
        let (door, write) = (Arc::clone(&door), Arc::clone(&write));
        under_way.spawn(async move {
            let _place = place;
            if let Some(reply) = door.answer(&record).await {
                send(&write, &reply).await;
            }
        });
    }
    under_way.detach_all();
}

/// One record, put together from its fragments. `None`: the client left, or what it sends is too long.
async fn receive(read: &mut BufReader<OwnedReadHalf>) -> io::Result<Option<Vec<u8>>> {
    const LAST: u32 = 1 << 31;
    let mut record = Vec::new();
    loop {
        let header = match read.read_u32().await {
            Ok(header) => header,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => return Ok(None),
            Err(error) => return Err(error),
        };
        let length = usize::try_from(header & !LAST).unwrap_or(usize::MAX);
        if record.len().saturating_add(length) > LONGEST_RECORD {
            return Ok(None);
        }
        let wanted = u64::try_from(length).unwrap_or(u64::MAX);
        // Grows with what arrives, not with what is claimed.
        let taken = (&mut *read).take(wanted).read_to_end(&mut record).await?;
        if taken < length {
            return Ok(None);
        }
        if header & LAST != 0 {
            return Ok(Some(record));
        }
        if length == 0 {
            return Ok(None);
        }
    }
}

async fn send(write: &Mutex<OwnedWriteHalf>, reply: &[u8]) {
    let length = u32::try_from(reply.len()).unwrap_or(0) | 1 << 31;
    let mut write = write.lock().await;
    let all = async {
        write.write_all(&length.to_be_bytes()).await?;
        write.write_all(reply).await
    };
    if !matches!(tokio::time::timeout(WRITE_TIMEOUT, all).await, Ok(Ok(()))) {
        // A reply that was cut leaves nothing to go on with.
        let _gone = write.shutdown().await;
    }
}
