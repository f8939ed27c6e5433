//! `doors`, `rate_limit` and `drain`, to what listens, counts and stops.
//!
//! **Invariant: nothing that other machines can reach is open to all of them in clear, or without asking who comes.** Test
//! `a_door_that_others_can_reach_is_guarded`.

use std::{
    net::SocketAddr,
    path::{Path, PathBuf},
};

use doors::{
    CertificateCaller, CertificateRole, ClientCertificates, ClientSpec, DoorSpec, Forwarding, Name,
    Network, Pair, Posture, Preamble, ProxySpec, Revocation, StoreSpec, Terms, TlsSpec,
};

use super::{
    fields::Fields,
    finding::{Finding, Place},
    keys::doors::{DOOR, HOLDER, PAIR},
    resolve::{address, path_at},
    resolved::Drain,
    secret,
    tree::Node,
};

/// The doors besides the first, which is at `listen`.
pub(super) fn doors(
    top: Fields<'_>,
    first: SocketAddr,
    is_open: bool,
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<DoorSpec> {
    let mut doors: Vec<DoorSpec> = Vec::new();
    for (index, node) in top.items("doors").iter().enumerate() {
        let entry = Entry {
            fields: Fields::new(Some(node), DOOR),
            node,
            path: format!("doors[{index}]"),
            base,
        };
        let Some(door) = entry.read(is_open, findings) else {
            continue;
        };
        let is_taken = |other: SocketAddr| other == door.listen && other.port() != 0;
        if is_taken(first) || doors.iter().any(|other| is_taken(other.listen)) {
            findings.push(Finding::error(
                entry.place("listen"),
                format!("there is a door at {} already", door.listen),
                "give each door an address of its own",
            ));
        }
        doors.push(door);
    }
    doors
}

struct Entry<'a> {
    fields: Fields<'a>,
    node: &'a Node,
    path: String,
    base: &'a Path,
}

impl Entry<'_> {
    fn read(&self, is_open: bool, findings: &mut Vec<Finding>) -> Option<DoorSpec> {
        let written = self.node.text().or_else(|| self.fields.written("listen"));
        let Some(text) = written else {
            findings.push(Finding::error(
                self.node.place,
                format!("`{}` has no `listen`", self.path),
                "write it, as in `listen: 0.0.0.0:8443`",
            ));
            return None;
        };
        let listen = match address(text) {
            Ok(listen) => listen,
            Err(bad) => {
                findings.push(Finding::error(self.place("listen"), bad.what, bad.fix));
                return None;
            }
        };
        let door = DoorSpec {
            listen,
            tls: self.tls(findings),
            clients: self.clients(findings),
            proxies: self.proxies(findings),
            only_from: networks(self.fields, "plain_from", findings),
        };
        self.refuse_unguarded(&door, is_open, findings);
        self.refuse_contradictions(&door, findings);
        Some(door)
    }

    fn refuse_unguarded(&self, door: &DoorSpec, is_open: bool, findings: &mut Vec<Finding>) {
        if door.listen.ip().is_loopback() {
            return;
        }
        let reached = format!("`{}` can be reached from other machines", door.listen);
        if door.tls.is_none() && door.only_from.is_empty() {
            findings.push(Finding::error(
                self.place("listen"),
                format!("{reached}, and what is sent there would cross the network in clear"),
                "add `tls: { cert: …, key: … }`, or name who may connect in clear with `plain_from: [10.0.0.0/8]`",
            ));
        } else if door.tls.is_none() {
            findings.push(Finding::warning(
                self.place("plain_from"),
                format!("{reached}, and credentials are sent there in clear"),
                "add `tls`, unless the network between is yours alone",
            ));
        }
        if is_open && door.clients.certificates != ClientCertificates::Require {
            findings.push(Finding::error(
                self.place("listen"),
                format!("{reached}, and nobody there is asked who they are"),
                "write `authentication: bearer`, or `mtls: { mode: require, … }` at this door",
            ));
        }
    }

    fn refuse_contradictions(&self, door: &DoorSpec, findings: &mut Vec<Finding>) {
        let mut wrong = |key: &str, what: &str, fix: &str| {
            let what = format!("`{}.{key}` {what}", self.path);
            findings.push(Finding::error(self.place(key), what, fix));
        };
        let clients = &door.clients;
        let asks = clients.certificates != ClientCertificates::Off;
        if asks && door.tls.is_none() {
            wrong(
                "mtls",
                "asks for certificates, and the door has no TLS",
                "add `tls: { cert: …, key: … }`",
            );
        }
        if asks && clients.ca_files.is_empty() {
            wrong(
                "mtls",
                "does not say whose certificates are good",
                "add `ca_files: [clients-ca.pem]`",
            );
        }
        if !asks && !clients.callers.is_empty() {
            wrong(
                "mtls",
                "names callers, and asks for no certificate",
                "write `mode: require` or `mode: request`",
            );
        }
        if clients.role == CertificateRole::Identity && clients.callers.is_empty() {
            wrong(
                "mtls",
                "makes callers of certificates, and names none",
                "add `callers: [{ uri: spiffe://…, user: … }]`",
            );
        }
        let proxies = &door.proxies;
        let believes = proxies.preamble != Preamble::Off || proxies.header != Forwarding::Off;
        if believes == proxies.trusted.is_empty() && self.fields.node("proxies").is_some() {
            wrong(
                "proxies",
                "needs `trusted`, and `protocol` or `header`",
                "write whom to trust, and how they say for whom they speak",
            );
        }
    }

    fn tls(&self, findings: &mut Vec<Finding>) -> Option<TlsSpec> {
        let node = self.fields.node("tls")?;
        let fields = self.fields.table("tls");
        let mut pairs: Vec<Pair> = self.pair(fields, node, findings).into_iter().collect();
        for node in fields.items("more") {
            pairs.extend(self.pair(Fields::new(Some(node), PAIR), node, findings));
        }
        Some(TlsSpec { pairs })
    }

    fn pair(&self, fields: Fields<'_>, node: &Node, findings: &mut Vec<Finding>) -> Option<Pair> {
        match (fields.node("cert"), fields.node("key")) {
            (Some(certificate), Some(key)) => Some(Pair {
                certificate: path_at(certificate, self.base, findings)?,
                key: path_at(key, self.base, findings)?,
            }),
            _ => {
                findings.push(Finding::error(
                    node.place,
                    format!("`{}.tls` needs `cert` and `key`", self.path),
                    "write both, as paths of PEM files",
                ));
                None
            }
        }
    }

    fn clients(&self, findings: &mut Vec<Finding>) -> ClientSpec {
        let fields = self.fields.table("mtls");
        if fields.node("mode").is_none() && self.fields.node("mtls").is_none() {
            return ClientSpec::default();
        }
        ClientSpec {
            certificates: match fields.text("mode") {
                "request" => ClientCertificates::Request,
                "require" => ClientCertificates::Require,
                _ => ClientCertificates::Off,
            },
            ca_files: self.paths(fields, "ca_files", findings),
            crl_files: self.paths(fields, "crl_files", findings),
            revocation: match fields.text("crl") {
                "lenient" => Revocation::Lenient,
                _ => Revocation::Strict,
            },
            role: match fields.text("role") {
                "identity" => CertificateRole::Identity,
                _ => CertificateRole::Factor,
            },
            callers: fields
                .items("callers")
                .iter()
                .filter_map(|node| self.holder(node, findings))
                .collect(),
        }
    }

    fn holder(&self, node: &Node, findings: &mut Vec<Finding>) -> Option<CertificateCaller> {
        let fields = Fields::new(Some(node), HOLDER);
        let uri = node.text().or_else(|| fields.written("uri"));
        let names: Vec<Name> = [
            uri.map(|text| Name::Uri(text.to_owned())),
            fields
                .written("dns")
                .map(|text| Name::Dns(text.to_ascii_lowercase())),
            fields
                .written("fingerprint")
                .map(|text| Name::Fingerprint(text.replace(':', "").to_ascii_lowercase())),
        ]
        .into_iter()
        .flatten()
        .collect();
        let [name] = names.as_slice() else {
            findings.push(Finding::error(
                node.place,
                format!("one of `{}.mtls.callers` names no certificate, or more than one way to know it", self.path),
                "write one of `uri`, `dns` and `fingerprint`",
            ));
            return None;
        };
        let fits = match name {
            Name::Uri(text) => text.contains(':') && !text.trim_end_matches("/*").contains('*'),
            Name::Dns(text) => !text.is_empty() && !text.contains(['*', '/', ':']),
            Name::Fingerprint(text) => {
                text.len() == 64 && text.bytes().all(|byte| byte.is_ascii_hexdigit())
            }
        };
        if !fits {
            findings.push(Finding::error(
                node.place,
                format!("one of `{}.mtls.callers` names what no certificate has", self.path),
                "write a whole name; only a `uri` may end in `/*`, and a fingerprint is 64 hex digits",
            ));
        }
        let named = |key: &str, findings: &mut Vec<Finding>| {
            let text = fields.written(key)?;
            if !vocab::is_caller_name(text) || text == "*" {
                let place = fields.node(key).map_or(node.place, |node| node.place);
                let what = format!("`{text}` cannot be the name of a caller");
                findings.push(Finding::error(
                    place,
                    what,
                    "use printable characters, at most 128",
                ));
            }
            Some(text.to_owned())
        };
        Some(CertificateCaller {
            name: name.clone(),
            user: named("user", findings),
            departments: fields.texts("departments"),
            agent: named("agent", findings),
            tenant: named("tenant", findings),
            is_operator: fields.flag("operator"),
        })
    }

    fn proxies(&self, findings: &mut Vec<Finding>) -> ProxySpec {
        let fields = self.fields.table("proxies");
        if self.fields.node("proxies").is_none() {
            return ProxySpec::default();
        }
        ProxySpec {
            trusted: networks(fields, "trusted", findings),
            preamble: match fields.text("protocol") {
                "v1" => Preamble::V1,
                "v2" => Preamble::V2,
                _ => Preamble::Off,
            },
            header: match fields.text("header") {
                "forwarded" => Forwarding::Forwarded,
                "x-forwarded-for" => Forwarding::XForwardedFor,
                _ => Forwarding::Off,
            },
        }
    }

    fn paths(&self, fields: Fields<'_>, key: &str, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
        let items = fields.items(key).iter();
        items
            .filter_map(|node| path_at(node, self.base, findings))
            .collect()
    }

    fn place(&self, key: &str) -> Place {
        let written = self.node.get(key);
        written.map_or(self.node.place, |node| node.place)
    }
}

fn networks(fields: Fields<'_>, key: &str, findings: &mut Vec<Finding>) -> Vec<Network> {
    let mut networks = Vec::new();
    for node in fields.items(key) {
        let Some(text) = node.text() else { continue };
        match text.parse() {
            Ok(network) => networks.push(network),
            Err(error) => findings.push(Finding::error(
                node.place,
                format!("`{text}`: {error}"),
                "write it as in `10.0.0.0/8`, `192.0.2.7` or `fd00::/8`",
            )),
        }
    }
    networks
}

/// How often one address may ask; `None`: nobody counts.
pub(super) fn rate_limit(
    fields: Fields<'_>,
    enabled: bool,
    requests: Option<u32>,
    window: Option<std::time::Duration>,
    findings: &mut Vec<Finding>,
) -> Option<Terms> {
    let store = store(fields, findings);
    enabled.then(|| Terms {
        requests: requests
            .unwrap_or_else(|| u32::try_from(fields.count("requests")).unwrap_or(u32::MAX)),
        window: window.unwrap_or_else(|| fields.duration("window")),
        store,
        posture: match fields.text("on_unavailable") {
            "open" => Posture::Open,
            "closed" => Posture::Closed,
            _ => Posture::Local,
        },
    })
}

fn store(fields: Fields<'_>, findings: &mut Vec<Finding>) -> Option<StoreSpec> {
    let node = fields.node("store")?;
    let text = node.text()?;
    let parsed = text.strip_prefix("redis://").and_then(|rest| {
        let (address, database) = rest.split_once('/').unwrap_or((rest, ""));
        let (host, port) = address.rsplit_once(':').unwrap_or((address, "6379"));
        let fits = !host.is_empty() && !host.contains(['@', ' ', '?']);
        let port = port.parse::<u16>().ok().filter(|_| fits)?;
        let database = match database {
            "" => 0,
            text => text.parse().ok()?,
        };
        Some((format!("{host}:{port}"), database))
    });
    let Some((address, database)) = parsed else {
        findings.push(
            Finding::error(
                node.place,
                "`rate_limit.store` is not the address of a Redis or Valkey that the gate can use",
                "write it as in `redis://host:6379/0`; user and password go into `store_user` and `store_password`, and for TLS put stunnel or \
                 the like before it",
            )
            .hidden(),
        );
        return None;
    };
    let password = fields
        .written("store_password")
        .and_then(secret::parse_reference)
        .and_then(Result::ok)
        .map(|reference| reference.to_string());
    Some(StoreSpec {
        address,
        database,
        user: fields.written("store_user").map(str::to_owned),
        password,
    })
}

pub(super) fn drain(fields: Fields<'_>) -> Drain {
    Drain {
        delay: fields.duration("delay"),
        timeout: fields.duration("timeout"),
    }
}
