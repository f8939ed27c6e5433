//! TLS of a door: certificates that are looked at again while the gate runs.
//!
//! What the files say is made into one value and swapped in for new handshakes, if all of it is good; else what was before stays. Open
//! connections go on as they are.
//!
//! **Invariant: a client certificate is looked at in every handshake.** A door that asks for them gives no tickets and resumes nothing, because
//! a resumed session would skip the look, and a revoked certificate with it. Test `a_door_that_asks_for_certificates_resumes_nothing`.

use std::{
    fs, io,
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::SystemTime,
};

use arc_swap::ArcSwap;
use rustls::{
    RootCertStore, ServerConfig,
    crypto::CryptoProvider,
    pki_types::{
        CertificateDer, CertificateRevocationListDer, PrivateKeyDer, ServerName, TrustAnchor,
        pem::PemObject,
    },
    server::{ClientHello, NoServerSessionStorage, ResolvesServerCert, WebPkiClientVerifier},
    sign::CertifiedKey,
};
use webpki::EndEntityCert;

use crate::{
    ClientCertificates, ClientSpec, Pair, Revocation, TlsSpec,
    certificate::{self, hex},
};

/// What became of a look at the files.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Look {
    Same,
    /// New handshakes see what the files say now.
    Taken {
        until: SystemTime,
        fingerprint: String,
    },
    /// They cannot be used, and what was before stays.
    Kept(String),
}

/// The files of a door, and what was last made of them.
#[derive(Debug)]
pub struct Tls {
    spec: TlsSpec,
    clients: ClientSpec,
    ready: ArcSwap<Ready>,
    seen: Mutex<Vec<Seen>>,
}

/// Everything that a handshake needs.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) config: Arc<ServerConfig>,
    pub(crate) anchors: Vec<TrustAnchor<'static>>,
    until: SystemTime,
    fingerprint: String,
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen(PathBuf, Option<(SystemTime, u64, u64)>);

fn see(path: &Path) -> Seen {
    let data = fs::metadata(path).ok();
    let state = data.and_then(|data| Some((data.modified().ok()?, data.len(), data.ino())));
    Seen(path.to_owned(), state)
}

impl Tls {
    /// Reads the files. The error names the file, and what to do.
    pub fn open(spec: TlsSpec, clients: ClientSpec) -> Result<Self, String> {
        let seen = looked(&spec, &clients);
        let ready = make(&spec, &clients, SystemTime::now())?;
        Ok(Self {
            spec,
            clients,
            ready: ArcSwap::from_pointee(ready),
            seen: Mutex::new(seen),
        })
    }

    /// Looks whether a file has changed, and takes what they say now if it is good. Reads files, so it may wait for the disk.
    pub fn look(&self) -> Look {
        let now = looked(&self.spec, &self.clients);
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if *seen == now {
            return Look::Same;
        }
        // Noted before they are read: what changes meanwhile is seen at the next look.
        *seen = now;
        match make(&self.spec, &self.clients, SystemTime::now()) {
            Ok(ready) => {
                let taken = Look::Taken {
                    until: ready.until,
                    fingerprint: ready.fingerprint.clone(),
                };
                self.ready.store(Arc::new(ready));
                taken
            }
            Err(error) => Look::Kept(error),
        }
    }

    /// When the first of the certificates that are shown ends.
    #[must_use]
    pub fn until(&self) -> SystemTime {
        self.ready.load().until
    }

    pub(crate) fn ready(&self) -> Arc<Ready> {
        self.ready.load_full()
    }

    pub(crate) fn clients(&self) -> &ClientSpec {
        &self.clients
    }
}

fn looked(spec: &TlsSpec, clients: &ClientSpec) -> Vec<Seen> {
    let pairs = spec
        .pairs
        .iter()
        .flat_map(|pair| [pair.certificate.as_path(), pair.key.as_path()]);
    let others = clients.ca_files.iter().chain(&clients.crl_files);
    pairs.chain(others.map(PathBuf::as_path)).map(see).collect()
}

fn make(spec: &TlsSpec, clients: &ClientSpec, now: SystemTime) -> Result<Ready, String> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut shown = Vec::new();
    let mut until: Option<SystemTime> = None;
    for pair in &spec.pairs {
        let (key, ends) = read_pair(pair, &provider, now)?;
        until = Some(until.map_or(ends, |until| until.min(ends)));
        shown.push(Arc::new(key));
    }
    let (Some(first), Some(until)) = (shown.first(), until) else {
        return Err("a door with TLS shows at least one certificate".to_owned());
    };
    let fingerprint = first.end_entity_cert().map_or_else(
        |_| String::new(),
        |end| hex(ring::digest::digest(&ring::digest::SHA256, end).as_ref()),
    );
    let failed = |error: &dyn std::fmt::Display| format!("TLS cannot be set up: {error}");
    let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
        .with_safe_default_protocol_versions()
        .map_err(|error| failed(&error))?;
    let asks = clients.certificates != ClientCertificates::Off;
    let mut anchors = Vec::new();
    let builder = if asks {
        let roots = roots(clients)?;
        anchors.clone_from(&roots.roots);
        let mut verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider)
            .with_crls(lists(clients)?);
        verifier = match clients.revocation {
            Revocation::Strict => verifier.enforce_revocation_expiration(),
            Revocation::Lenient => verifier.allow_unknown_revocation_status(),
        };
        if clients.certificates == ClientCertificates::Request {
            verifier = verifier.allow_unauthenticated();
        }
        let verifier = verifier.build().map_err(|error| failed(&error))?;
        builder.with_client_cert_verifier(verifier)
    } else {
        builder.with_no_client_auth()
    };
    let mut config = builder.with_cert_resolver(Arc::new(ByName(shown)));
    config.alpn_protocols = vec![b"http/1.1".to_vec()];
    if asks {
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
    }
    Ok(Ready {
        config: Arc::new(config),
        anchors,
        until,
        fingerprint,
    })
}

fn named(path: &Path, what: &dyn std::fmt::Display) -> String {
    format!("{}: {what}", path.display())
}

/// A chain and its key, if they go together and hold now.
fn read_pair(
    pair: &Pair,
    provider: &CryptoProvider,
    now: SystemTime,
) -> Result<(CertifiedKey, SystemTime), String> {
    let chain = certificates(&pair.certificate)?;
    let Some(leaf) = chain.first() else {
        return Err(named(
            &pair.certificate,
            &"there is no certificate in it; it is a PEM file with the chain, the door's own first",
        ));
    };
    let (from, until) = certificate::validity(leaf)
        .ok_or_else(|| named(&pair.certificate, &"the certificate cannot be read"))?;
    if now < from {
        return Err(named(
            &pair.certificate,
            &"the certificate does not hold yet; look at the clock of this machine",
        ));
    }
    if now >= until {
        return Err(named(
            &pair.certificate,
            &"the certificate has expired; renew it",
        ));
    }
    let key = private_key(&pair.key)?;
    let key = CertifiedKey::from_der(chain, key, provider).map_err(|error| {
        named(
            &pair.key,
            &format!(
                "it is not the key of {}: {error}",
                pair.certificate.display()
            ),
        )
    })?;
    Ok((key, until))
}

fn certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    CertificateDer::pem_file_iter(path)
        .and_then(Iterator::collect)
        .map_err(|error| named(path, &error))
}

/// A key that others of this machine can read is no secret.
fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, String> {
    let mode = fs::metadata(path)
        .map_err(|error: io::Error| named(path, &error))?
        .permissions()
        .mode();
    if mode & 0o077 != 0 {
        let what = format!(
            "others can read this key (mode {:o}); run `chmod 600` on it",
            mode & 0o777
        );
        return Err(named(path, &what));
    }
    PrivateKeyDer::from_pem_file(path).map_err(|error| named(path, &error))
}

fn roots(clients: &ClientSpec) -> Result<RootCertStore, String> {
    let mut roots = RootCertStore::empty();
    for file in &clients.ca_files {
        let found = certificates(file)?;
        if found.is_empty() {
            return Err(named(file, &"there is no certificate in it"));
        }
        for certificate in found {
            roots
                .add(certificate)
                .map_err(|error| named(file, &error))?;
        }
    }
    Ok(roots)
}

fn lists(clients: &ClientSpec) -> Result<Vec<CertificateRevocationListDer<'static>>, String> {
    let mut lists = Vec::new();
    for file in &clients.crl_files {
        let found: Result<Vec<_>, _> =
            CertificateRevocationListDer::pem_file_iter(file).and_then(Iterator::collect);
        lists.extend(found.map_err(|error| named(file, &error))?);
    }
    Ok(lists)
}

/// The certificate that has the name a client asks for, else the first.
#[derive(Debug)]
struct ByName(Vec<Arc<CertifiedKey>>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let asked = hello
            .server_name()
            .and_then(|name| ServerName::try_from(name).ok());
        let fits = |key: &&Arc<CertifiedKey>| {
            let Some(asked) = &asked else { return false };
            key.end_entity_cert()
                .ok()
                .and_then(|end| EndEntityCert::try_from(end).ok())
                .is_some_and(|end| end.verify_is_valid_for_subject_name(asked).is_ok())
        };
        self.0.iter().find(fits).or(self.0.first()).cloned()
    }
}
