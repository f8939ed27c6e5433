//! Reaching a host: name lookup, TCP, TLS.

use std::{
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    path::PathBuf,
    pin::Pin,
    rc::Rc,
    sync::Arc,
    task::{Context, Poll},
    time::Duration,
};

use hickory_resolver::{
    Hosts, TokioResolver,
    config::ResolveHosts,
    lookup_ip::LookupIp,
    net::runtime::TokioRuntimeProvider,
    proto::{
        op::Query,
        rr::{Name, RecordType},
    },
    system_conf,
};
use rustls::{
    ClientConfig, RootCertStore, crypto::ring, pki_types::CertificateDer, pki_types::ServerName,
    pki_types::pem::PemObject,
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{Account, Bounds, Target};
use crate::{failure::Failure, memory::Memory};

/// One address gets this long before the next is tried.
const PER_ADDRESS: Duration = Duration::from_secs(4);
const LOOKUP: Duration = Duration::from_secs(5);
const HANDSHAKE: Duration = Duration::from_secs(8);
/// Addresses of one name that are tried.
const MAX_ADDRESSES: usize = 6;

/// What connections need and the jail would no longer let us read.
pub(crate) struct Net {
    tls: TlsConnector,
    resolver: Option<TokioResolver>,
    hosts: Hosts,
    pub(super) held: Account,
    /// Where long answers are put together.
    pub(crate) memory: Rc<Memory>,
}

impl std::fmt::Debug for Net {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Net")
    }
}

impl Net {
    /// Reads certificates and resolver configuration. Problems that leave us able to work are returned as warnings.
    pub(crate) fn read(ca_files: &[PathBuf]) -> Result<(Self, Vec<String>), String> {
        let mut warnings = Vec::new();
        let roots = read_roots(ca_files, &mut warnings)?;
        let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .map_err(|error| format!("TLS cannot be set up: {error}"))?
            .with_root_certificates(roots)
            .with_no_client_auth();
        let resolver = read_resolver(&mut warnings);
        Ok((
            Self {
                tls: TlsConnector::from(Arc::new(config)),
                resolver,
                hosts: Hosts::from_system().unwrap_or_default(),
                held: Account::default(),
                memory: Rc::default(),
            },
            warnings,
        ))
    }

    pub(crate) async fn dial(&self, target: &Target, bounds: &Bounds) -> Result<Stream, Failure> {
        let addresses = self.lookup(target).await?;
        let found = addresses.len();
        let addresses = bounds.kept(addresses);
        if addresses.is_empty() && found > 0 {
            return Err(Failure::refused(format!(
                "{} is an address inside, and who named it is outside; nothing was sent there",
                target.place()
            )));
        }
        let mut last = None;
        for address in addresses.into_iter().take(MAX_ADDRESSES) {
            match timeout(PER_ADDRESS, connect(address)).await {
                Ok(Ok(stream)) => return self.secure(target, stream).await,
                Ok(Err(error)) => last = Some(describe(&error)),
                Err(_) => last = Some("connecting timed out".to_owned()),
            }
        }
        let why = last.unwrap_or_else(|| "the name has no address".to_owned());
        Err(Failure::unreachable(format!(
            "cannot reach {}: {why}",
            target.place()
        )))
    }

    async fn lookup(&self, target: &Target) -> Result<Vec<SocketAddr>, Failure> {
        let host = target.bare_host();
        let with_port = |ip| SocketAddr::new(ip, target.port);
        if let Ok(ip) = host.parse::<IpAddr>() {
            return Ok(vec![with_port(ip)]);
        }
        if host == "localhost" || host.ends_with(".localhost") {
            return Ok(vec![
                with_port(Ipv4Addr::LOCALHOST.into()),
                with_port(Ipv6Addr::LOCALHOST.into()),
            ]);
        }
        let listed = self.in_hosts_file(host);
        if !listed.is_empty() {
            return Ok(listed.into_iter().map(with_port).collect());
        }
        let Some(resolver) = &self.resolver else {
            return Err(Failure::unreachable(format!(
                "cannot look up {host}: no resolver configuration was readable at start"
            )));
        };
        match timeout(LOOKUP, resolver.lookup_ip(host)).await {
            Ok(Ok(found)) => Ok(found.iter().map(with_port).collect()),
            Ok(Err(error)) if error.is_no_records_found() => Err(Failure::unreachable(format!(
                "cannot look up {host}: DNS knows no address of that name"
            ))),
            Ok(Err(error)) => {
                let why = crate::failure::clip(&error.to_string());
                Err(Failure::unreachable(format!(
                    "cannot look up {host}: DNS failed: {why}"
                )))
            }
            Err(_) => Err(Failure::unreachable(format!(
                "cannot look up {host}: DNS did not answer in time"
            ))),
        }
    }

    /// What the hosts file said when we started. It comes first, so that its names work without a name server.
    fn in_hosts_file(&self, host: &str) -> Vec<IpAddr> {
        let Ok(name) = Name::from_utf8(host) else {
            return Vec::new();
        };
        let kinds = [RecordType::A, RecordType::AAAA];
        let found = kinds.into_iter().filter_map(|kind| {
            self.hosts
                .lookup_static_host(&Query::query(name.clone(), kind))
        });
        found
            .flat_map(|lookup| LookupIp::from(lookup).into_iter())
            .collect()
    }

    async fn secure(&self, target: &Target, stream: TcpStream) -> Result<Stream, Failure> {
        if !target.tls {
            return Ok(Stream::Plain(stream));
        }
        let name = ServerName::try_from(target.bare_host().to_owned()).map_err(|_| {
            Failure::invalid(format!("{} is not a name TLS can verify", target.host))
        })?;
        match timeout(HANDSHAKE, self.tls.connect(name, stream)).await {
            Ok(Ok(stream)) => Ok(Stream::Tls(Box::new(stream))),
            Ok(Err(error)) => Err(Failure::unreachable(format!(
                "TLS with {} failed: {error}",
                target.place()
            ))),
            Err(_) => Err(Failure::unreachable(format!(
                "TLS with {} did not complete in time",
                target.place()
            ))),
        }
    }
}

async fn connect(address: SocketAddr) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    socket.set_keepalive(true)?;
    socket.set_nodelay(true)?;
    socket.connect(address).await
}

fn describe(error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::ConnectionRefused => "connection refused".to_owned(),
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "network unreachable".to_owned()
        }
        io::ErrorKind::PermissionDenied => "not permitted".to_owned(),
        _ => error.to_string(),
    }
}

fn read_roots(ca_files: &[PathBuf], warnings: &mut Vec<String>) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore {
        roots: webpki_roots::TLS_SERVER_ROOTS.to_vec(),
    };
    let native = rustls_native_certs::load_native_certs();
    warnings.extend(
        native
            .errors
            .iter()
            .map(|error| format!("system certificates: {error}")),
    );
    roots.add_parsable_certificates(native.certs);
    for path in ca_files {
        let name = path.display();
        let certificates = CertificateDer::pem_file_iter(path)
            .map_err(|error| format!("--ca-file {name} cannot be read: {error}"))?;
        let mut added = 0;
        for certificate in certificates {
            let certificate = certificate
                .map_err(|error| format!("--ca-file {name} is not valid PEM: {error}"))?;
            roots.add(certificate).map_err(|error| {
                format!("--ca-file {name} holds a certificate that cannot be used: {error}")
            })?;
            added += 1;
        }
        if added == 0 {
            return Err(format!("--ca-file {name} holds no certificate"));
        }
    }
    Ok(roots)
}

fn read_resolver(warnings: &mut Vec<String>) -> Option<TokioResolver> {
    let (config, mut options) = match system_conf::read_system_conf() {
        Ok(found) => found,
        Err(error) => {
            warnings.push(format!(
                "host names cannot be looked up, only addresses work: {error}"
            ));
            return None;
        }
    };
    // The hosts file is ours to look into, before any name server is asked.
    options.use_hosts_file = ResolveHosts::Never;
    let mut builder = TokioResolver::builder_with_config(config, TokioRuntimeProvider::default());
    *builder.options_mut() = options;
    match builder.build() {
        Ok(resolver) => Some(resolver),
        Err(error) => {
            warnings.push(format!(
                "host names cannot be looked up, only addresses work: {error}"
            ));
            None
        }
    }
}

/// A connection with or without TLS.
#[derive(Debug)]
pub(crate) enum Stream {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

impl AsyncRead for Stream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_read(cx, buf),
        }
    }
}

impl AsyncWrite for Stream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, buf),
            Self::Tls(stream) => Pin::new(stream).poll_write(cx, buf),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
            Self::Tls(stream) => Pin::new(stream).poll_write_vectored(cx, bufs),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
