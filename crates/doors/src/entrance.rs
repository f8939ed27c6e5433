//! From an accepted connection to one that requests may come over.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{net::TcpStream, sync::Semaphore, time::timeout};
use tokio_rustls::TlsAcceptor;

use crate::{
    Arrival, CertificateRole, ClientCertificates, DoorSpec, Network, Preamble, ProxySpec, Stream,
    Tls, certificate, proxy,
};

/// How long a connection may take until its first request can come.
const PATIENCE: Duration = Duration::from_secs(10);
/// Connections that may be under way to that at once; a newcomer beyond them is closed.
const UNFINISHED: usize = 256;
/// How long a connection with a client certificate is used, so that what is no longer trusted ends.
const AGE: Duration = Duration::from_secs(3600);

/// Why a connection was closed before it could ask anything.
#[derive(Debug, thiserror::Error)]
pub enum Closed {
    #[error("its address may not connect here")]
    Elsewhere,
    #[error("too many connections are being opened")]
    Crowded,
    #[error("it took too long")]
    Late,
    #[error("it does not say whom it speaks for: {0}")]
    Preamble(io::Error),
    #[error("TLS failed: {0}")]
    Tls(io::Error),
    #[error("its certificate names nobody who may come")]
    Stranger,
}

impl Closed {
    /// For the count of strangers.
    #[must_use]
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Elsewhere => "address",
            Self::Crowded => "too many handshakes",
            Self::Late => "late handshake",
            Self::Preamble(_) => "proxy preamble",
            Self::Tls(_) => "tls",
            Self::Stranger => "client certificate",
        }
    }
}

/// One door, ready.
#[derive(Debug)]
pub struct Entrance {
    only_from: Vec<Network>,
    proxies: Arc<ProxySpec>,
    tls: Option<Tls>,
    unfinished: Semaphore,
}

impl Entrance {
    /// Reads the door's files.
    pub fn open(spec: &DoorSpec) -> Result<Self, String> {
        let tls = match &spec.tls {
            Some(tls) => Some(Tls::open(tls.clone(), spec.clients.clone())?),
            None => None,
        };
        Ok(Self {
            only_from: spec.only_from.clone(),
            proxies: Arc::new(spec.proxies.clone()),
            tls,
            unfinished: Semaphore::new(UNFINISHED),
        })
    }

    #[must_use]
    pub fn tls(&self) -> Option<&Tls> {
        self.tls.as_ref()
    }

    /// How long a connection of this door is used; `None`: as long as it likes.
    #[must_use]
    pub fn age(&self) -> Option<Duration> {
        let asks = |tls: &Tls| tls.clients().certificates != ClientCertificates::Off;
        self.tls.as_ref().filter(|tls| asks(tls)).map(|_| AGE)
    }

    /// Takes a connection as far as its first request.
    pub async fn admit(
        &self,
        stream: TcpStream,
        peer: SocketAddr,
    ) -> Result<(Stream, Arrival), Closed> {
        let peer_address = peer.ip().to_canonical();
        if !self.only_from.is_empty() && !Network::any_contains(&self.only_from, peer_address) {
            return Err(Closed::Elsewhere);
        }
        let local = stream.local_addr().map_err(Closed::Tls)?;
        let mut arrival = Arrival::plain(local, peer_address);
        arrival.proxies = Arc::clone(&self.proxies);
        let speaks_for_others = self.proxies.preamble != Preamble::Off
            && Network::any_contains(&self.proxies.trusted, peer_address);
        if !speaks_for_others && self.tls.is_none() {
            return Ok((Stream::Plain(stream), arrival));
        }
        let _place = self.unfinished.try_acquire().map_err(|_| Closed::Crowded)?;
        timeout(PATIENCE, self.open_up(stream, arrival, speaks_for_others))
            .await
            .map_err(|_| Closed::Late)?
    }

    async fn open_up(
        &self,
        mut stream: TcpStream,
        mut arrival: Arrival,
        speaks_for_others: bool,
    ) -> Result<(Stream, Arrival), Closed> {
        if speaks_for_others {
            let client = proxy::read(self.proxies.preamble, &mut stream)
                .await
                .map_err(Closed::Preamble)?;
            if let Some(client) = client {
                arrival.address = client;
            }
        }
        let Some(tls) = &self.tls else {
            return Ok((Stream::Plain(stream), arrival));
        };
        let ready = tls.ready();
        let secured = TlsAcceptor::from(Arc::clone(&ready.config))
            .accept(stream)
            .await
            .map_err(Closed::Tls)?;
        arrival.is_secure = true;
        if let Some(chain) = secured.get_ref().1.peer_certificates() {
            let clients = tls.clients();
            let is_identity = clients.role == CertificateRole::Identity;
            let known = certificate::read(chain, &ready.anchors, clients, is_identity)
                .filter(|known| !known.is_stranger)
                .ok_or(Closed::Stranger)?;
            arrival.certificate = Some(Arc::new(known));
        }
        Ok((Stream::Tls(Box::new(secured)), arrival))
    }
}
