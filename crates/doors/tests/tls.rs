//! TLS of a door, as a client of another library and `openssl` see it.
#![cfg(test)]

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
    time::Duration,
};

use doors::{
    Arrival, CertificateCaller, CertificateRole, ClientCertificates, ClientSpec, Closed, DoorSpec,
    Entrance, Look, Name, Pair, TlsSpec,
};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, PrivateKeyDer, ServerName, pem::PemObject},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};
use tokio_rustls::TlsConnector;

const SOON: Duration = Duration::from_secs(60);

/// A directory with an authority.
struct Authority(tempfile::TempDir);

fn openssl(dir: &Path, args: &[&str]) {
    let done = Command::new("openssl")
        .args(args)
        .current_dir(dir)
        .output()
        .expect("`openssl` is needed");
    assert!(
        done.status.success(),
        "{args:?}: {}",
        String::from_utf8_lossy(&done.stderr)
    );
}

impl Authority {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let at = dir.path();
        openssl(
            at,
            &[
                "req",
                "-x509",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-days",
                "30",
                "-keyout",
                "ca.key",
                "-out",
                "ca.pem",
                "-subj",
                "/CN=authority",
                "-addext",
                "basicConstraints=critical,CA:TRUE",
                "-addext",
                "keyUsage=critical,keyCertSign,cRLSign",
            ],
        );
        fs::write(at.join("index.txt"), "").unwrap();
        fs::write(at.join("crlnumber"), "01\n").unwrap();
        fs::write(
            at.join("ca.cnf"),
            "[ca]\ndefault_ca=own\n[own]\ndatabase=index.txt\ncrlnumber=crlnumber\ndefault_md=sha256\ndefault_crl_days=30\ncertificate=ca.pem\nprivate_key=ca.key\n",
        )
        .unwrap();
        Self(dir)
    }

    fn at(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// A certificate with this alternative name; files `{file}.pem` and `{file}.key`.
    fn issue(&self, file: &str, alternative: &str) -> Pair {
        let (key, request, out) = (
            format!("{file}.key.new"),
            format!("{file}.csr"),
            format!("{file}.pem.new"),
        );
        openssl(
            self.0.path(),
            &[
                "req",
                "-newkey",
                "ec",
                "-pkeyopt",
                "ec_paramgen_curve:prime256v1",
                "-nodes",
                "-keyout",
                &key,
                "-out",
                &request,
                "-subj",
                "/CN=somebody",
            ],
        );
        fs::write(self.at("ext"), format!("subjectAltName={alternative}\n")).unwrap();
        openssl(
            self.0.path(),
            &[
                "x509", "-req", "-in", &request, "-CA", "ca.pem", "-CAkey", "ca.key", "-days",
                "20", "-extfile", "ext", "-out", &out,
            ],
        );
        let pair = Pair {
            certificate: self.at(&format!("{file}.pem")),
            key: self.at(&format!("{file}.key")),
        };
        fs::set_permissions(self.at(&key), fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(self.at(&key), &pair.key).unwrap();
        fs::rename(self.at(&out), &pair.certificate).unwrap();
        pair
    }

    fn revoke(&self, pair: &Pair) {
        let file = pair.certificate.to_str().unwrap();
        openssl(self.0.path(), &["ca", "-config", "ca.cnf", "-revoke", file]);
    }

    fn list(&self) -> PathBuf {
        openssl(
            self.0.path(),
            &["ca", "-config", "ca.cnf", "-gencrl", "-out", "crl.new"],
        );
        fs::rename(self.at("crl.new"), self.at("crl.pem")).unwrap();
        self.at("crl.pem")
    }
}

/// A door that says `ok` to whoever comes in, and tells the test who did.
struct Yard {
    entrance: Arc<Entrance>,
    address: std::net::SocketAddr,
    came: mpsc::Receiver<Result<Arrival, Closed>>,
}

async fn yard(tls: TlsSpec, clients: ClientSpec) -> Yard {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let spec = DoorSpec {
        tls: Some(tls),
        clients,
        ..DoorSpec::plain(address)
    };
    let entrance = Arc::new(Entrance::open(&spec).unwrap());
    let (tell, came) = mpsc::channel(1000);
    let own = Arc::clone(&entrance);
    tokio::spawn(async move {
        loop {
            let (stream, peer) = listener.accept().await.unwrap();
            let (own, tell) = (Arc::clone(&own), tell.clone());
            tokio::spawn(async move {
                let admitted = own.admit(stream, peer).await;
                let arrival = match admitted {
                    Ok((mut stream, arrival)) => {
                        let _ = stream.write_all(b"ok").await;
                        let _ = stream.shutdown().await;
                        Ok(arrival)
                    }
                    Err(closed) => Err(closed),
                };
                let _ = tell.send(arrival).await;
            });
        }
    });
    Yard {
        entrance,
        address,
        came,
    }
}

fn visitor(authority: &Authority, own: Option<&Pair>) -> Arc<ClientConfig> {
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_file(authority.at("ca.pem")).unwrap())
        .unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some(pair) => builder
            .with_client_auth_cert(
                vec![CertificateDer::from_pem_file(&pair.certificate).unwrap()],
                PrivateKeyDer::from_pem_file(&pair.key).unwrap(),
            )
            .unwrap(),
    })
}

/// Visits the door; the certificate it showed, if it let us in.
async fn visit(
    yard: &Yard,
    config: &Arc<ClientConfig>,
    name: &str,
) -> Result<(Vec<u8>, bool), String> {
    let stream = TcpStream::connect(yard.address).await.unwrap();
    let name = ServerName::try_from(name.to_owned()).unwrap();
    let mut stream = TlsConnector::from(Arc::clone(config))
        .connect(name, stream)
        .await
        .map_err(|error| error.to_string())?;
    let shown = stream.get_ref().1.peer_certificates().unwrap()[0].to_vec();
    let mut said = Vec::new();
    stream
        .read_to_end(&mut said)
        .await
        .map_err(|error| error.to_string())?;
    let resumed = stream.get_ref().1.handshake_kind() == Some(rustls::HandshakeKind::Resumed);
    match said.as_slice() {
        b"ok" => Ok((shown, resumed)),
        other => Err(format!("it said {other:?}")),
    }
}

fn asking(authority: &Authority) -> ClientSpec {
    ClientSpec {
        certificates: ClientCertificates::Require,
        ca_files: vec![authority.at("ca.pem")],
        role: CertificateRole::Identity,
        callers: vec![CertificateCaller {
            name: Name::Uri("spiffe://example.org/agents/*".to_owned()),
            user: Some("ann".to_owned()),
            departments: Vec::new(),
            agent: None,
            tenant: None,
            is_operator: false,
        }],
        ..ClientSpec::default()
    }
}

#[tokio::test]
async fn two_hundred_swaps_under_load_fail_no_connection() {
    let authority = Authority::new();
    let pairs = [
        authority.issue("a", "DNS:gate.example"),
        authority.issue("b", "DNS:gate.example"),
    ];
    let shown = Pair {
        certificate: authority.at("door.pem"),
        key: authority.at("door.key"),
    };
    let put = |nth: usize| {
        let pair = &pairs[nth % 2];
        for (from, to) in [
            (&pair.key, &shown.key),
            (&pair.certificate, &shown.certificate),
        ] {
            let new = to.with_extension("new");
            fs::copy(from, &new).unwrap();
            fs::rename(&new, to).unwrap();
        }
    };
    put(0);
    let yard = Arc::new(
        yard(
            TlsSpec {
                pairs: vec![shown.clone()],
            },
            ClientSpec::default(),
        )
        .await,
    );
    let config = visitor(&authority, None);
    let (stop, stopped) = tokio::sync::watch::channel(false);
    let load = {
        let yard = Arc::clone(&yard);
        let config = Arc::clone(&config);
        tokio::spawn(async move {
            let mut seen = std::collections::HashSet::new();
            let mut visits = 0;
            while !*stopped.borrow() {
                let (certificate, _) = visit(&yard, &config, "gate.example").await.unwrap();
                seen.insert(certificate);
                visits += 1;
            }
            (seen.len(), visits)
        })
    };
    for nth in 1..=200 {
        put(nth);
        let own = Arc::clone(&yard);
        let look = tokio::task::spawn_blocking(move || own.entrance.tls().unwrap().look());
        let look = look.await.unwrap();
        assert!(matches!(look, Look::Taken { .. }), "{nth}: {look:?}");
        tokio::task::yield_now().await;
    }
    stop.send(true).unwrap();
    let (seen, visits) = load.await.unwrap();
    println!("200 swaps, {visits} connections, {seen} certificates, 0 failures");
    assert!(visits > 0);
    assert_eq!(yard.entrance.tls().unwrap().look(), Look::Same);
}

#[tokio::test]
async fn what_cannot_be_used_is_not_taken_and_says_why() {
    let authority = Authority::new();
    let pair = authority.issue("a", "DNS:gate.example");
    let other = authority.issue("b", "DNS:gate.example");
    let yard = yard(
        TlsSpec {
            pairs: vec![pair.clone()],
        },
        ClientSpec::default(),
    )
    .await;
    let config = visitor(&authority, None);
    let before = visit(&yard, &config, "gate.example").await.unwrap().0;
    let tls = yard.entrance.tls().unwrap();
    let good = fs::read(&pair.key).unwrap();
    for (what, bytes, mode) in [
        ("another key", fs::read(&other.key).unwrap(), 0o600),
        ("not a key", b"nonsense".to_vec(), 0o600),
        (
            "others can read",
            [good.clone(), b"\n".to_vec()].concat(),
            0o644,
        ),
    ] {
        fs::write(&pair.key, bytes).unwrap();
        fs::set_permissions(&pair.key, fs::Permissions::from_mode(mode)).unwrap();
        let Look::Kept(why) = tls.look() else {
            panic!("{what} was taken");
        };
        assert!(why.contains("a.key"), "{what}: {why}");
        assert_eq!(
            visit(&yard, &config, "gate.example").await.unwrap().0,
            before,
            "{what}"
        );
        assert_eq!(tls.look(), Look::Same, "{what} is said once");
    }
    fs::set_permissions(&pair.key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&pair.key, good).unwrap();
    assert!(matches!(tls.look(), Look::Taken { .. }));
}

#[tokio::test]
async fn a_door_shows_the_certificate_that_a_client_asks_for() {
    let authority = Authority::new();
    let first = authority.issue("a", "DNS:a.example");
    let second = authority.issue("b", "DNS:b.example");
    let spec = TlsSpec {
        pairs: vec![first, second],
    };
    let yard = yard(spec, ClientSpec::default()).await;
    let config = visitor(&authority, None);
    let a = visit(&yard, &config, "a.example").await.unwrap().0;
    let b = visit(&yard, &config, "b.example").await.unwrap().0;
    assert_ne!(a, b);
    assert!(visit(&yard, &config, "c.example").await.is_err());
}

#[tokio::test]
async fn who_shows_a_certificate_is_known_by_its_name_and_others_stay_out() {
    let authority = Authority::new();
    let door = authority.issue("door", "DNS:gate.example");
    let agent = authority.issue("agent", "URI:spiffe://example.org/agents/mail");
    let stranger = authority.issue("stranger", "URI:spiffe://example.org/other/mail,DNS:agents");
    let elsewhere = Authority::new();
    let forged = elsewhere.issue("agent", "URI:spiffe://example.org/agents/mail");
    let mut yard = yard(TlsSpec { pairs: vec![door] }, asking(&authority)).await;

    visit(&yard, &visitor(&authority, Some(&agent)), "gate.example")
        .await
        .unwrap();
    let first = yard
        .came
        .recv()
        .await
        .unwrap()
        .unwrap()
        .certificate
        .unwrap();
    let (id, named) = first.caller.clone().unwrap();
    assert!(
        id.starts_with("cert:") && id.ends_with(":spiffe://example.org/agents/mail"),
        "{id}"
    );
    assert_eq!(
        (named.user.as_deref(), first.is_identity),
        (Some("ann"), true)
    );

    let renewed = authority.issue("agent", "URI:spiffe://example.org/agents/mail");
    visit(&yard, &visitor(&authority, Some(&renewed)), "gate.example")
        .await
        .unwrap();
    let again = yard
        .came
        .recv()
        .await
        .unwrap()
        .unwrap()
        .certificate
        .unwrap();
    assert_eq!(again.caller.as_ref().unwrap().0, id);
    assert_ne!(again.fingerprint, first.fingerprint);

    for (who, pair) in [
        ("nobody", None),
        ("another authority's", Some(&forged)),
        ("a stranger's", Some(&stranger)),
    ] {
        let refused = visit(&yard, &visitor(&authority, pair), "gate.example").await;
        assert!(refused.is_err(), "{who} came in");
        let closed = yard.came.recv().await.unwrap().unwrap_err();
        let expected = if who == "a stranger's" {
            "client certificate"
        } else {
            "tls"
        };
        assert_eq!(closed.reason(), expected, "{who}");
    }
}

#[tokio::test]
async fn a_door_that_asks_for_certificates_resumes_nothing() {
    let authority = Authority::new();
    let door = authority.issue("door", "DNS:gate.example");
    let agent = authority.issue("agent", "URI:spiffe://example.org/agents/mail");
    let tls = TlsSpec { pairs: vec![door] };
    let asks = yard(tls.clone(), asking(&authority)).await;
    let config = visitor(&authority, Some(&agent));
    for _ in 0..3 {
        assert!(!visit(&asks, &config, "gate.example").await.unwrap().1);
    }
    assert!(
        asks.entrance
            .age()
            .is_some_and(|age| age <= Duration::from_secs(3600))
    );
    // The same client at a door that asks for nothing does resume: it is not that it cannot.
    let open = yard(tls, ClientSpec::default()).await;
    let config = visitor(&authority, None);
    visit(&open, &config, "gate.example").await.unwrap();
    assert!(visit(&open, &config, "gate.example").await.unwrap().1);
    assert!(open.entrance.age().is_none());
}

#[tokio::test]
async fn a_revoked_certificate_is_refused_at_the_next_connection() {
    let authority = Authority::new();
    let door = authority.issue("door", "DNS:gate.example");
    let agent = authority.issue("agent", "URI:spiffe://example.org/agents/mail");
    let other = authority.issue("other", "URI:spiffe://example.org/agents/other");
    let clients = ClientSpec {
        crl_files: vec![authority.list()],
        ..asking(&authority)
    };
    let yard = yard(TlsSpec { pairs: vec![door] }, clients).await;
    let config = visitor(&authority, Some(&agent));
    visit(&yard, &config, "gate.example").await.unwrap();
    authority.revoke(&agent);
    authority.list();
    assert!(matches!(
        yard.entrance.tls().unwrap().look(),
        Look::Taken { .. }
    ));
    assert!(visit(&yard, &config, "gate.example").await.is_err());
    let still_good = visitor(&authority, Some(&other));
    visit(&yard, &still_good, "gate.example").await.unwrap();
}

#[tokio::test]
async fn who_says_nothing_is_not_waited_for_for_ever() {
    let authority = Authority::new();
    let door = authority.issue("door", "DNS:gate.example");
    let mut yard = yard(TlsSpec { pairs: vec![door] }, ClientSpec::default()).await;
    let _silent = TcpStream::connect(yard.address).await.unwrap();
    let closed = tokio::time::timeout(SOON, yard.came.recv())
        .await
        .unwrap()
        .unwrap();
    assert_eq!(closed.unwrap_err().reason(), "late handshake");
}
