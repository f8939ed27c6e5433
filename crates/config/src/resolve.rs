//! From the tree to [`Resolved`]: the top of the file, and what servers must not share.

use std::{
    collections::BTreeMap,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use gateway::{
    DoorSettings,
    settings::{ApprovalSettings, ServerSpec, Terms},
};
use policy::{Budget, Influence, context::Ceilings};
use vocab::ServerId;

use super::{
    check, corp, doors,
    environment::Environment,
    fields::Fields,
    finding::{Finding, Place, Severity, nearest},
    keys::{self, Kind},
    oauth,
    resolved::{BundleSource, Resolved, Retention},
    secret,
    server::{self, Dotted},
    signed, sinks, stores,
    tree::{Node, Value},
    units, volumes, web,
};

/// No call may take longer than this, whatever its server's entry says.
const LONGEST_CALL: Duration = Duration::from_secs(3600);

/// Everything wrong with the tree, or the configuration. `base` is where relative paths start.
pub(super) fn resolve(
    root: &Node,
    base: &Path,
    environment: &Environment,
) -> Result<Resolved, Vec<Finding>> {
    let mut findings = environment.findings();
    check::check(root, &Kind::Table(keys::ROOT), "", &mut findings);
    let top = Fields::new(Some(root), keys::ROOT);
    let listen = listen(top, &mut findings);
    let terms = terms(top, &mut findings);
    let contexts = signed::contexts(top.node("security_contexts"), &mut findings);
    let largest = terms.ceiling.result_bytes;
    let ground = server::Ground {
        largest,
        jail: top.table("jails").text("default"),
        container_socket: top.table("jails").node("container_socket"),
        tool_timeout: environment
            .tool_timeout
            .unwrap_or_else(|| top.duration("tool_timeout")),
        base,
    };
    let (servers, places) = servers(top.node("mcp_servers"), ground, &mut findings);
    let seal = top.table("seal");
    let limit = top.table("rate_limit");
    let is_open = !terms.door.requires_credential;
    let mut resolved = Resolved {
        listen,
        doors: doors::doors(top, listen, is_open, base, &mut findings),
        rate_limit: doors::rate_limit(
            limit,
            environment
                .rate_limit_enabled
                .unwrap_or_else(|| limit.flag("enabled")),
            environment.rate_limit_requests,
            environment.rate_limit_window,
            &mut findings,
        ),
        drain: doors::drain(top.table("drain")),
        admin_listen: admin_listen(top, &mut findings),
        terms,
        bundle: bundle(top.table("policy"), base, &mut findings),
        untrusted_influence: match top.text("untrusted_influence") {
            "off" => Influence::Off,
            "block" => Influence::Block,
            _ => Influence::Ask,
        },
        approvals: approvals(top.table("approvals"), &mut findings),
        retention: retention(top.table("audit"), &mut findings),
        sinks: Vec::new(),
        ca_files: ca_files(top.table("trust"), base, &mut findings),
        connector_commands: top.table("connectors").flag("commands"),
        stores: stores::stores(top.table("secrets"), base, &mut findings),
        agents: signed::agents(top.node("agents"), &contexts, &servers, base, &mut findings),
        servers,
        volumes: volumes::volumes(top.node("volumes"), base, &mut findings),
        web: web::web(top.node("web"), top.table("web"), &mut findings),
        contexts,
        ceilings: signed::dispatchers(top.node("builtin_dispatchers"), &mut findings),
        seal_keys: signed::seal_keys(seal, base, &mut findings),
        seal: signed::seal(seal, &mut findings),
        oauth: oauth::oauth(top, base, &mut findings),
        warnings: Vec::new(),
        places,
    };
    // The engine that is asked first is the one whose host a context must allow, unless another is written.
    let engine = resolved.web.iter().flat_map(|web| &web.engines).next();
    let is_said = resolved.ceilings.search_host != Ceilings::default().search_host;
    if let Some(engine) = engine.filter(|_| !is_said) {
        engine
            .address
            .host()
            .clone_into(&mut resolved.ceilings.search_host);
    }
    oauth::namesakes(
        top,
        resolved.oauth.as_ref(),
        &resolved.servers,
        &mut findings,
    );
    let mut reachable = Vec::new();
    for store in &resolved.stores {
        secret::led_to(root, &store.engines, &mut reachable);
    }
    findings.retain(|finding| {
        !(finding.what.contains(secret::NO_STORE) && reachable.contains(&finding.place))
    });
    resolved.sinks = sinks::lower(top.table("audit"), base, &resolved.ca_files, &mut findings);
    if findings
        .iter()
        .any(|finding| finding.severity == Severity::Error)
    {
        return Err(findings);
    }
    Ok(Resolved {
        warnings: findings,
        ..resolved
    })
}

/// Why the door cannot be at an address, and what to write instead.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{what}; {fix}")]
pub struct BadAddress {
    pub what: String,
    pub fix: String,
}

/// Reads an address for the door. Also used for `--listen`.
pub fn parse_listen(text: &str) -> Result<SocketAddr, BadAddress> {
    let address = address(text)?;
    if address.ip().is_loopback() {
        return Ok(address);
    }
    Err(BadAddress {
        what: format!(
            "`{text}` can be reached from other machines, and the first door is for this one"
        ),
        fix: format!(
            "use `127.0.0.1:{}`, and make a door with TLS for the others: `doors: [{{ listen: \"{address}\", tls: {{ cert: …, key: … }} }}]`",
            address.port()
        ),
    })
}

/// An address and a port, whoever can reach it.
pub(super) fn address(text: &str) -> Result<SocketAddr, BadAddress> {
    let numeric = text
        .strip_prefix("localhost:")
        .map_or_else(|| text.to_owned(), |port| format!("127.0.0.1:{port}"));
    numeric.parse().map_err(|_| BadAddress {
        what: format!("`{text}` is not an address and port"),
        fix: "write it as in `127.0.0.1:7878`, or `\"[::1]:7878\"`".to_owned(),
    })
}

/// The door of a gate that was told nothing else.
#[must_use]
pub fn default_listen() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 7878))
}

fn listen(top: Fields<'_>, findings: &mut Vec<Finding>) -> SocketAddr {
    let fallback = default_listen();
    parse_listen(top.text("listen")).unwrap_or_else(|BadAddress { what, fix }| {
        let place = top.node("listen").map_or(Place::start(), |node| node.place);
        findings.push(Finding::error(place, what, fix));
        fallback
    })
}

fn admin_listen(top: Fields<'_>, findings: &mut Vec<Finding>) -> Option<SocketAddr> {
    let text = top.text("admin_listen");
    if text == "off" {
        return None;
    }
    let place = top
        .node("admin_listen")
        .map_or(Place::start(), |node| node.place);
    let bad = match address(text) {
        Ok(address) if address.ip().is_loopback() => return Some(address),
        Ok(address) => BadAddress {
            what: format!(
                "`{text}` can be reached from other machines, and this door asks nobody who they are"
            ),
            fix: format!(
                "write `127.0.0.1:{}`; let an agent of your monitoring read it there",
                address.port()
            ),
        },
        Err(bad) => bad,
    };
    findings.push(Finding::error(place, bad.what, bad.fix));
    None
}

fn requires_credential(top: Fields<'_>, findings: &mut Vec<Finding>) -> bool {
    if top.text("authentication") != "none" {
        return true;
    }
    let place = top
        .node("authentication")
        .map_or(Place::start(), |node| node.place);
    let what = "authentication is off: every program on this machine can call every tool";
    findings.push(Finding::warning(
        place,
        what,
        "write `bearer`; clients get their token from `portcullis token new`",
    ));
    false
}

fn origins(top: Fields<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let mut origins = Vec::new();
    for node in top.items("allowed_origins") {
        let Some(text) = node.text() else { continue };
        let well_formed = text.split_once("://").is_some_and(|(scheme, host)| {
            matches!(scheme, "http" | "https")
                && !host.is_empty()
                && !host.contains(['/', '?', '#', '@', '*', ' '])
        });
        if well_formed {
            origins.push(text.to_ascii_lowercase());
        } else {
            let what = format!("`{text}` is not a web origin");
            let fix = "write scheme, host and port only, as in `https://app.example.com` or `http://localhost:3000`";
            findings.push(Finding::error(node.place, what, fix));
        }
    }
    origins
}

/// Names of hosts, each with a port or without.
fn hosts(top: Fields<'_>, findings: &mut Vec<Finding>) -> Vec<String> {
    let mut hosts = Vec::new();
    for node in top.items("allowed_hosts") {
        let Some(text) = node.text() else { continue };
        let fits = !text.is_empty()
            && text.bytes().all(|byte| {
                byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b':' | b'[' | b']')
            });
        match fits {
            true => hosts.push(text.to_ascii_lowercase()),
            false => findings.push(Finding::error(
                node.place,
                format!("`{text}` is not the name of a host"),
                "write it as in `gate.example.com`, or `gate.example.com:8443`",
            )),
        }
    }
    hosts
}

/// What requests and calls are held to besides the rules.
fn terms(top: Fields<'_>, findings: &mut Vec<Finding>) -> Terms {
    let limits = top.table("limits");
    let count = |name| usize::try_from(limits.count(name)).unwrap_or(usize::MAX);
    let bytes = |name| usize::try_from(limits.size(name)).unwrap_or(usize::MAX);
    Terms {
        door: Arc::new(DoorSettings {
            name: "portcullis",
            version: env!("CARGO_PKG_VERSION"),
            max_body_bytes: bytes("max_body_bytes"),
            max_depth: count("max_depth"),
            max_header_bytes: bytes("max_header_bytes"),
            max_sessions: count("max_sessions"),
            requires_credential: requires_credential(top, findings),
            allowed_origins: origins(top, findings),
            allowed_hosts: hosts(top, findings),
            write_timeout: limits.duration("write_timeout"),
            question_timeout: limits.duration("question_timeout"),
        }),
        ceiling: Budget {
            time: LONGEST_CALL,
            result_bytes: bytes("max_result_bytes"),
        },
        max_concurrent_calls: count("max_concurrent_calls"),
        max_calls_per_caller: count("max_concurrent_calls_per_caller"),
        attempts: u32::try_from(top.table("retry").count("attempts")).unwrap_or(u32::MAX),
    }
}

/// The name of a shipped bundle, or a path. A word that is neither is a slip, not a file of that name.
fn bundle(fields: Fields<'_>, base: &Path, findings: &mut Vec<Finding>) -> BundleSource {
    let text = fields.text("bundle");
    if let Some(name) = keys::BUNDLES.iter().find(|name| **name == text) {
        return BundleSource::Shipped(name);
    }
    let Some(node) = fields.node("bundle") else {
        return BundleSource::Shipped("balanced");
    };
    let is_file = Path::new(text)
        .extension()
        .is_some_and(|extension| extension == "cedar");
    if !text.contains('/') && !is_file {
        let what = format!("there is no bundle `{text}`");
        let fix = match nearest(text, keys::BUNDLES.iter().copied()) {
            Some(name) => format!("write `{name}`"),
            None => format!(
                "use {}, or a path such as `./policy` or `mine.cedar`",
                keys::BUNDLES.join(", ")
            ),
        };
        findings.push(Finding::error(node.place, what, fix));
        return BundleSource::Shipped("balanced");
    }
    // Without the `.` that tells a path from a name.
    let path = path_at(node, base, findings).map(|path| path.components().collect());
    path.map_or(BundleSource::Shipped("balanced"), BundleSource::At)
}

fn approvals(fields: Fields<'_>, findings: &mut Vec<Finding>) -> ApprovalSettings {
    let in_client = fields.flag("in_client");
    if let (true, Some(node)) = (in_client, fields.node("in_client")) {
        let what = "approvals may be answered over the agent's own credential: a client that answers for its person approves itself";
        let fix =
            "remove it, and answer with `portcullis approvals`, unless you trust every client";
        findings.push(Finding::warning(node.place, what, fix));
    }
    ApprovalSettings {
        expiry: fields.duration("expiry"),
        in_client,
    }
}

fn retention(fields: Fields<'_>, findings: &mut Vec<Finding>) -> Retention {
    let text = fields.text("retention");
    let age = units::duration(text).filter(|span| !span.is_zero());
    if let (None, true, Some(node)) = (age, text != "forever", fields.node("retention")) {
        let what = format!("`{text}` does not say how long records are kept");
        findings.push(Finding::error(
            node.place,
            what,
            "write a time such as `90d` or `12h`, or `forever`",
        ));
    }
    Retention {
        age,
        max_bytes: Some(fields.size("max_bytes")).filter(|bytes| *bytes > 0),
    }
}

fn ca_files(fields: Fields<'_>, base: &Path, findings: &mut Vec<Finding>) -> Vec<PathBuf> {
    let files = fields.items("ca_files").iter();
    files
        .filter_map(|node| path_at(node, base, findings))
        .collect()
}

/// A path written in the file. `~` belongs to shells, so it is refused instead of becoming a directory of that name.
pub(super) fn path_at(node: &Node, base: &Path, findings: &mut Vec<Finding>) -> Option<PathBuf> {
    let text = node.text()?;
    if text.starts_with('~') {
        let what = format!("`{text}`: `~` is not expanded here");
        findings.push(Finding::error(node.place, what, "write the whole path"));
        return None;
    }
    if let Some(finding) = corp::relative(node.place, text) {
        findings.push(finding);
        return None;
    }
    Some(base.join(text))
}

/// The servers in the order of the file, and where the entry of each stands.
fn servers(
    node: Option<&Node>,
    ground: server::Ground<'_>,
    findings: &mut Vec<Finding>,
) -> (Vec<ServerSpec>, BTreeMap<String, Place>) {
    let mut seen = BTreeMap::new();
    let mut places = BTreeMap::new();
    let mut read: Vec<(ServerSpec, Vec<Dotted>)> = Vec::new();
    let mut lower = |name: &str, place: Place, fields: Fields<'_>, findings: &mut Vec<Finding>| {
        let id = server_id(name, place, findings)?;
        if let Some((first, line)) = seen.insert(id.folded(), (id.clone(), place.line)) {
            findings.push(collision(&id, &first, line, place));
        }
        places.insert(id.to_string(), place);
        read.push(server::lower(id, place, fields, ground, findings));
        Some(())
    };
    match node.map(|node| &node.value) {
        Some(Value::Map(entries)) => {
            for (key, node) in entries {
                lower(
                    &key.name,
                    key.place,
                    Fields::new(Some(node), keys::SERVER),
                    findings,
                );
            }
        }
        Some(Value::List(items)) => {
            for item in items.iter().filter(|item| item.entries().is_some()) {
                match item.get("name").filter(|name| name.text().is_some()) {
                    Some(name) => {
                        let fields = Fields::new(Some(item), keys::LISTED_SERVER);
                        lower(
                            name.text().unwrap_or_default(),
                            name.place,
                            fields,
                            findings,
                        );
                    }
                    None => findings.push(Finding::error(
                        item.place,
                        "a server in a list has a `name`",
                        "add `name: some-id`",
                    )),
                }
            }
        }
        _ => {}
    }
    refuse_shared_names(&read, findings);
    (read.into_iter().map(|(spec, _)| spec).collect(), places)
}

/// A dotted name leads to one server. One without a tenant is everyone's, so it meets those of every tenant.
fn refuse_shared_names(servers: &[(ServerSpec, Vec<Dotted>)], findings: &mut Vec<Finding>) {
    for (at, (server, dotted)) in servers.iter().enumerate() {
        for (name, place) in dotted {
            let meets = |other: &ServerSpec| {
                server.tenant.is_none() || other.tenant.is_none() || server.tenant == other.tenant
            };
            let mut earlier = servers.iter().take(at).filter(|(other, _)| meets(other));
            let known = earlier.find_map(|(other, theirs)| {
                let (_, place) = theirs.iter().find(|(known, _)| known == name)?;
                Some((other, place))
            });
            if let Some((other, first)) = known {
                let what = format!(
                    "`{name}` leads to `{}` already, on line {}",
                    other.id, first.line
                );
                findings.push(Finding::error(
                    *place,
                    what,
                    "keep it at one of the two servers",
                ));
            }
        }
    }
}

fn server_id(name: &str, place: Place, findings: &mut Vec<Finding>) -> Option<ServerId> {
    ServerId::parse(name)
        .map_err(|error| {
            let fix = match suggest_id(name) {
                Some(id) => format!("call it `{id}`"),
                None => "use lower-case words joined by single `-` or `_`".to_owned(),
            };
            findings.push(Finding::error(
                place,
                format!("`{name}` cannot be a server's id: {error}"),
                fix,
            ));
        })
        .ok()
}

/// The nearest id that would be accepted.
fn suggest_id(name: &str) -> Option<String> {
    let lower = name.to_lowercase();
    let words: Vec<&str> = lower
        .split(|c: char| !c.is_ascii_alphanumeric())
        .filter(|word| !word.is_empty())
        .collect();
    let id: String = words.join("-").chars().take(64).collect();
    let id = id.trim_end_matches('-');
    [id.to_owned(), format!("{id}-server")]
        .into_iter()
        .find(|id| ServerId::parse(id).is_ok())
}

fn collision(id: &ServerId, first: &ServerId, line: usize, place: Place) -> Finding {
    let what = if id == first {
        format!("the server `{id}` is already defined on line {line}")
    } else {
        format!("`{id}` and `{first}` (line {line}) would be shown under the same name")
    };
    Finding::error(place, what, "rename one of the two")
}
