//! What an operator says of a door. Plain data.

use std::{net::SocketAddr, path::PathBuf};

use crate::Network;

/// One place where the gate listens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorSpec {
    pub listen: SocketAddr,
    pub tls: Option<TlsSpec>,
    pub clients: ClientSpec,
    pub proxies: ProxySpec,
    /// Only these may connect. Empty: everybody who can reach the door.
    pub only_from: Vec<Network>,
}

impl DoorSpec {
    /// A door of this machine, without anything before HTTP.
    #[must_use]
    pub fn plain(listen: SocketAddr) -> Self {
        Self {
            listen,
            tls: None,
            clients: ClientSpec::default(),
            proxies: ProxySpec::default(),
            only_from: Vec::new(),
        }
    }
}

/// The certificates that a door shows; the first where no name fits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsSpec {
    pub pairs: Vec<Pair>,
}

/// PEM files: a chain, and its key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pair {
    pub certificate: PathBuf,
    pub key: PathBuf,
}

/// What is asked of clients' certificates.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClientSpec {
    pub certificates: ClientCertificates,
    pub ca_files: Vec<PathBuf>,
    pub crl_files: Vec<PathBuf>,
    pub revocation: Revocation,
    pub role: CertificateRole,
    /// In the order in which they are looked at. Empty: who has a good certificate.
    pub callers: Vec<CertificateCaller>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ClientCertificates {
    #[default]
    Off,
    /// One that is shown must be good; none is fine.
    Request,
    Require,
}

/// What a list of revoked certificates that is too old, or silent on one, means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Revocation {
    #[default]
    Strict,
    Lenient,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum CertificateRole {
    /// It is asked for beside a token.
    #[default]
    Factor,
    /// It makes a caller by itself.
    Identity,
}

/// Who a certificate stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateCaller {
    pub name: Name,
    pub user: Option<String>,
    pub departments: Vec<String>,
    pub agent: Option<String>,
    pub tenant: Option<String>,
    pub is_operator: bool,
}

/// What is looked at of a certificate: one of its alternative names, never its subject.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Name {
    Dns(String),
    /// Exactly this, or, with `/*` at the end, everything beneath it.
    Uri(String),
    /// SHA-256 of the certificate, in lower-case hex.
    Fingerprint(String),
}

/// Who may speak for others, and how.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProxySpec {
    pub trusted: Vec<Network>,
    pub preamble: Preamble,
    pub header: Forwarding,
}

/// The PROXY protocol: with it a connection of a trusted proxy begins with whom it speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Preamble {
    #[default]
    Off,
    V1,
    V2,
}

/// Which header of a trusted proxy says whom it speaks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Forwarding {
    #[default]
    Off,
    Forwarded,
    XForwardedFor,
}
