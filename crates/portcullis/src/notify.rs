//! Words to the service manager that started the gate, if one did: it is ready, it lives, it stops.
//!
//! The protocol is a datagram to the socket that `NOTIFY_SOCKET` names. A gate that no service manager started says nothing.

use std::{
    env,
    ffi::OsStr,
    io,
    os::{
        linux::net::SocketAddrExt as _,
        unix::{
            ffi::OsStrExt as _,
            net::{SocketAddr, UnixDatagram},
        },
    },
    time::Duration,
};

use tokio::task::JoinHandle;

/// The doors are open.
pub(crate) const READY: &str = "READY=1";
/// The gate lets calls under way end, and takes no more.
pub(crate) const STOPPING: &str = "STOPPING=1";
const ALIVE: &str = "WATCHDOG=1";

/// Says a word. One that does not arrive is logged: the service manager then ends a gate that works.
pub(crate) fn say(word: &str) {
    if let Some(socket) = env::var_os("NOTIFY_SOCKET")
        && let Err(error) = send(&socket, word)
    {
        tracing::warn!(%error, word, "the service manager was not told");
    }
}

/// Says that the gate lives, twice as often as the service manager asks for, from the loop that serves calls: one that hangs is silent.
pub(crate) fn live() -> Option<JoinHandle<()>> {
    let asked = env::var("WATCHDOG_USEC").ok()?.parse().ok()?;
    let is_ours =
        env::var("WATCHDOG_PID").map_or(true, |pid| pid == std::process::id().to_string());
    let pause = Duration::from_micros(asked) / 2;
    (is_ours && !pause.is_zero()).then(|| {
        tokio::spawn(async move {
            loop {
                say(ALIVE);
                tokio::time::sleep(pause).await;
            }
        })
    })
}

fn send(socket: &OsStr, word: &str) -> io::Result<()> {
    let address = match socket.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name)?,
        _ => SocketAddr::from_pathname(socket)?,
    };
    UnixDatagram::unbound()?
        .send_to_addr(word.as_bytes(), &address)
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_reaches_a_socket_with_a_path_and_one_without() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("notify");
        let name = format!("@portcullis-notify-{}", std::process::id());
        let hidden = SocketAddr::from_abstract_name(&name.as_bytes()[1..]).unwrap();
        for (socket, listener) in [
            (path.clone().into_os_string(), UnixDatagram::bind(&path)),
            (name.into(), UnixDatagram::bind_addr(&hidden)),
        ] {
            let listener = listener.unwrap();
            send(&socket, READY).unwrap();
            let mut heard = [0; 64];
            let length = listener.recv(&mut heard).unwrap();
            assert_eq!(&heard[..length], READY.as_bytes());
        }
        assert!(send(OsStr::new("/nowhere/at/all"), READY).is_err());
    }
}
