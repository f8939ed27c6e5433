//! The entries of `audit.sinks`, to what the sinks are told.
//!
//! Each kind has its own keys, and a key of another kind is refused: whoever writes `secret` for a file believes that something is signed.

use std::path::{Path, PathBuf};

use audit::Filter;
use gateway::settings;
use http::{HeaderName, HeaderValue};
use sinks::{Address, Facility, Kind, NatsSpec, Spec, Start, Text};

use super::{
    check::join,
    fields::Fields,
    finding::{Finding, Place},
    keys::{KIB, Key, Kind as KeyKind, MIB, key},
    resolve::path_at,
    secret,
    server::{bad_url, check_url, in_clear},
    tree::Node,
};

pub const SINK_KINDS: &[&str] = &["file", "syslog", "webhook", "otlp", "nats"];
pub(crate) const SINK_STARTS: &[&str] = &["beginning", "now"];
pub(crate) const FACILITIES: &[&str] = &[
    "user", "daemon", "auth", "authpriv", "audit", "local0", "local1", "local2", "local3",
    "local4", "local5", "local6", "local7",
];

pub static SINK: &[Key] = &[
    key(
        "name",
        KeyKind::Text,
        "",
        "What the sink is called: lower-case words joined by `-`. How far it has come is kept under this name.",
    ),
    key(
        "kind",
        KeyKind::Choice(SINK_KINDS),
        "",
        "A file of JSON lines, a syslog daemon (RFC 5424), a signed POST, an OpenTelemetry collector (OTLP logs over HTTP), or NATS JetStream.",
    ),
    key(
        "filter",
        KeyKind::TextMap,
        "{}",
        "Only events with these values; the keys are `event`, `family` and the conditions of `audit query`, such as `caller`, `server`, `tool`, `verdict` or `tenant`.",
    ),
    key(
        "start",
        KeyKind::Choice(SINK_STARTS),
        "beginning",
        "Where a new sink begins: at the ledger's first record, or at the next one.",
    ),
    key(
        "batch",
        KeyKind::Count(1..=1_000),
        "100",
        "The most events handed over at once.",
    ),
    key(
        "timeout",
        KeyKind::Duration(100..=300_000),
        "10s",
        "How long handing over a batch may take (with `nats`, an event).",
    ),
    key(
        "path",
        KeyKind::Text,
        "",
        "`file`: the file. Its directory must exist. A relative path starts at the directory of this file.",
    ),
    key(
        "rotate_size",
        KeyKind::Size(64 * KIB..=1024 * MIB),
        "64 MiB",
        "`file`: one that has reached this size is moved aside, under the number of the next record, and never deleted.",
    ),
    key(
        "address",
        KeyKind::Text,
        "",
        "`syslog`: `tcp://host:port`, `udp://host:port` or `unix:/path`. Over UDP what gets lost on the way is lost.",
    ),
    key(
        "facility",
        KeyKind::Choice(FACILITIES),
        "local0",
        "`syslog`: whom messages say they come from.",
    ),
    key(
        "url",
        KeyKind::Text,
        "",
        "`webhook`: where to POST. `otlp`: the collector's address of logs, which mostly ends in `/v1/logs`. `nats`: `nats://host:port` or \
         `tls://host:port`.",
    ),
    key(
        "secret",
        KeyKind::Reference,
        "",
        "`webhook`: secret reference of the key that signs: `portcullis-signature` is `v1=` and the hex HMAC-SHA256 of \
         `portcullis-timestamp`, a dot, and the body.",
    ),
    key(
        "headers",
        KeyKind::TextMap,
        "{}",
        "`webhook`, `otlp`: more headers. Values may be secret references, and must be where a header carries a credential.",
    ),
    key(
        "subject",
        KeyKind::Text,
        "portcullis.events",
        "`nats`: events are published to it, a dot, and their family.",
    ),
    key(
        "stream",
        KeyKind::Text,
        "",
        "`nats`: the stream, made if it does not exist. Without it there must be one for the subject.",
    ),
    key(
        "token",
        KeyKind::Reference,
        "",
        "`nats`: secret reference of the token to connect with.",
    ),
    key(
        "user",
        KeyKind::Text,
        "",
        "`nats`: the user to connect as, with `password`.",
    ),
    key(
        "password",
        KeyKind::Reference,
        "",
        "`nats`: secret reference of the user's password.",
    ),
];

const MAX_NAME: usize = 64;
/// Keys that every kind has.
const COMMON: [&str; 6] = ["name", "kind", "filter", "start", "batch", "timeout"];

pub(super) fn lower(
    audit: Fields<'_>,
    base: &Path,
    ca_files: &[PathBuf],
    findings: &mut Vec<Finding>,
) -> Vec<Spec> {
    let mut specs: Vec<Spec> = Vec::new();
    for (index, node) in audit.items("sinks").iter().enumerate() {
        if node.text().is_some() {
            findings.push(Finding::error(
                node.place,
                "a sink is a map",
                "write `- { name: events, kind: file, path: … }`",
            ));
            continue;
        }
        let path = format!("audit.sinks[{index}]");
        let entry = Entry {
            fields: Fields::new(Some(node), SINK),
            node,
            path: &path,
            base,
            ca_files,
        };
        let Some(spec) = entry.read(findings) else {
            continue;
        };
        if specs.iter().any(|other| other.name == spec.name) {
            let what = format!("there is another sink called `{}`", spec.name);
            findings.push(Finding::error(
                entry.place("name"),
                what,
                "rename one of the two",
            ));
        }
        specs.push(spec);
    }
    specs
}

struct Entry<'a> {
    fields: Fields<'a>,
    node: &'a Node,
    path: &'a str,
    base: &'a Path,
    ca_files: &'a [PathBuf],
}

impl<'a> Entry<'a> {
    fn read(&self, findings: &mut Vec<Finding>) -> Option<Spec> {
        let name = self.name(findings)?;
        let Some(kind) = self.fields.written("kind") else {
            let fix = format!("write `kind:` and one of {}", SINK_KINDS.join(", "));
            findings.push(Finding::error(
                self.node.place,
                format!("`{}` has no `kind`", self.path),
                fix,
            ));
            return None;
        };
        self.refuse_others_keys(kind, findings);
        let kind = match kind {
            "file" => self.file(findings)?,
            "syslog" => self.syslog(findings)?,
            "webhook" => self.webhook(findings)?,
            "otlp" => Kind::Otlp {
                url: self.url(findings)?,
                headers: self.headers(findings),
            },
            "nats" => Kind::Nats(self.nats(findings)?),
            // The check of the choice has said so.
            _ => return None,
        };
        Some(Spec {
            name,
            filter: self.filter(findings),
            start: if self.fields.text("start") == "now" {
                Start::Now
            } else {
                Start::Beginning
            },
            batch: usize::try_from(self.fields.count("batch"))
                .unwrap_or(1)
                .max(1),
            timeout: self.fields.duration("timeout"),
            kind,
        })
    }

    fn name(&self, findings: &mut Vec<Finding>) -> Option<String> {
        let name = self.fields.written("name").unwrap_or_default();
        let fits = (1..=MAX_NAME).contains(&name.len())
            && name.bytes().all(|byte| {
                byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'_')
            });
        if fits {
            return Some(name.to_owned());
        }
        let fix = format!(
            "write `name:` and lower-case letters, digits, `-` and `_`; at most {MAX_NAME}"
        );
        findings.push(Finding::error(
            self.place("name"),
            format!("`{}` has no name that fits", self.path),
            fix,
        ));
        None
    }

    fn refuse_others_keys(&self, kind: &str, findings: &mut Vec<Finding>) {
        let own: &[&str] = match kind {
            "file" => &["path", "rotate_size"],
            "syslog" => &["address", "facility"],
            "webhook" => &["url", "secret", "headers"],
            "otlp" => &["url", "headers"],
            "nats" => &["url", "subject", "stream", "token", "user", "password"],
            _ => return,
        };
        for (key, _) in self.node.entries().unwrap_or_default() {
            let known = SINK.iter().any(|known| known.name == key.name);
            if known && !COMMON.contains(&key.name.as_str()) && !own.contains(&key.name.as_str()) {
                let what = format!("a sink of the kind `{kind}` has no `{}`", key.name);
                findings.push(Finding::error(
                    key.place,
                    what,
                    format!("its keys are {}", own.join(", ")),
                ));
            }
        }
    }

    fn file(&self, findings: &mut Vec<Finding>) -> Option<Kind> {
        let node = self.needed("path", "the file, as in `events.jsonl`", findings)?;
        let path: PathBuf = path_at(node, self.base, findings)?;
        Some(Kind::File {
            path,
            rotate_bytes: self.fields.size("rotate_size"),
        })
    }

    fn syslog(&self, findings: &mut Vec<Finding>) -> Option<Kind> {
        let fix = "as in `tcp://host:601`, `udp://host:514` or `unix:/dev/log`";
        let node = self.needed("address", fix, findings)?;
        let text = node.text()?;
        let network = |address: &str| {
            let (host, port) = address.rsplit_once(':')?;
            (!host.is_empty() && port.parse::<u16>().is_ok()).then(|| address.to_owned())
        };
        let address = match text.split_once(':') {
            Some(("tcp", rest)) => rest.strip_prefix("//").and_then(network).map(Address::Tcp),
            Some(("udp", rest)) => rest.strip_prefix("//").and_then(network).map(Address::Udp),
            Some(("unix", rest)) => {
                let rest = rest.strip_prefix("//").unwrap_or(rest);
                rest.starts_with('/').then(|| Address::Unix(rest.into()))
            }
            _ => None,
        };
        let Some(address) = address else {
            findings.push(Finding::error(
                node.place,
                format!("`{text}` is not the address of a syslog daemon"),
                format!("write it {fix}"),
            ));
            return None;
        };
        Some(Kind::Syslog {
            address,
            facility: Facility::parse(self.fields.text("facility"))?,
        })
    }

    fn webhook(&self, findings: &mut Vec<Finding>) -> Option<Kind> {
        let url = self.url(findings)?;
        let secret = self.reference("secret");
        if secret.is_none() {
            let what = format!("what `{}` sends is not signed", self.path);
            findings.push(Finding::warning(
                self.node.place,
                what,
                "add `secret: keychain:…`, and check the signature where it arrives",
            ));
        }
        Some(Kind::Webhook {
            url,
            headers: self.headers(findings),
            secret,
        })
    }

    fn nats(&self, findings: &mut Vec<Finding>) -> Option<NatsSpec> {
        let node = self.needed("url", "as in `nats://host:4222`", findings)?;
        let url = node.text()?;
        let host = url
            .split_once("://")
            .filter(|(scheme, _)| matches!(*scheme, "nats" | "tls"))
            .map(|(_, host)| host);
        if host.is_none_or(|host| host.is_empty() || host.contains(['@', '/', ' '])) {
            let what = format!("`{}.url` is not the address of a NATS server", self.path);
            let fix = "write it as in `nats://host:4222` or `tls://host:4222`; credentials go into `token`, or `user` and `password`";
            findings.push(Finding::error(node.place, what, fix).hidden());
            return None;
        }
        let user = self.fields.written("user").map(str::to_owned);
        let password = self.reference("password").map(Text::Secret);
        if user.is_some() != password.is_some() {
            let what = format!("`{}` needs `user` and `password`, or neither", self.path);
            findings.push(Finding::error(self.node.place, what, "add the other one"));
        }
        Some(NatsSpec {
            url: url.to_owned(),
            subject: self.subject("subject", findings)?,
            stream: self.fields.written("stream").map(str::to_owned),
            token: self.reference("token").map(Text::Secret),
            user: user.zip(password),
            ca_files: self.ca_files.to_vec(),
        })
    }

    fn subject(&self, key: &str, findings: &mut Vec<Finding>) -> Option<String> {
        let text = self.fields.text(key);
        let word = |word: &str| {
            !word.is_empty()
                && word
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
        };
        if text.split('.').all(word) {
            return Some(text.to_owned());
        }
        let what = format!("`{text}` is not a subject to publish to");
        findings.push(Finding::error(
            self.place(key),
            what,
            "write words joined by dots, as in `portcullis.events`",
        ));
        None
    }

    fn url(&self, findings: &mut Vec<Finding>) -> Option<String> {
        let node = self.needed("url", "as in `https://host/path`", findings)?;
        let text = node.text()?;
        if let Err((what, fix)) = check_url(text) {
            findings.push(bad_url(node, format!("`{}.url` {what}", self.path), fix));
            return None;
        }
        if in_clear(text) {
            let what = format!(
                "`{}` sends events to another machine without TLS",
                self.path
            );
            findings.push(Finding::warning(
                node.place,
                what,
                "use an `https://` address",
            ));
        }
        Some(text.to_owned())
    }

    fn headers(&self, findings: &mut Vec<Finding>) -> Vec<(String, Text)> {
        let mut headers = Vec::new();
        for (key, node) in self
            .fields
            .entries("headers")
            .iter()
            .filter(|(_, node)| node.text().is_some())
        {
            let name = key.name.to_ascii_lowercase();
            let is_ours = matches!(
                name.as_str(),
                "content-type" | "content-length" | "host" | "connection" | "transfer-encoding"
            ) || name.starts_with("portcullis-");
            let fits = HeaderName::from_bytes(name.as_bytes()).is_ok()
                && HeaderValue::from_str(node.text().unwrap_or_default()).is_ok();
            if is_ours || !fits {
                let what = format!("`{}` cannot be a header of a sink", key.name);
                findings.push(Finding::error(key.place, what, "remove or rename it").hidden());
                continue;
            }
            match secret::read_text(
                node,
                &key.name,
                &join(&join(self.path, "headers"), &key.name),
            ) {
                Ok(settings::Text::Literal(value)) => headers.push((name, Text::Literal(value))),
                Ok(settings::Text::Secret(reference)) => {
                    headers.push((name, Text::Secret(reference)));
                }
                Err(finding) => findings.push(finding),
            }
        }
        headers
    }

    fn filter(&self, findings: &mut Vec<Finding>) -> Filter {
        let mut filter = Filter::default();
        for (key, node) in self.fields.entries("filter") {
            if !filter.set(&key.name, node.text().unwrap_or_default()) {
                let what = format!("events are not chosen by `{}`", key.name);
                findings.push(Finding::error(
                    key.place,
                    what,
                    format!("the keys are {}", Filter::KEYS.join(", ")),
                ));
            }
        }
        filter
    }

    /// What is wrong with a reference was reported when the table was checked.
    fn reference(&self, key: &str) -> Option<String> {
        let reference = self
            .fields
            .written(key)
            .and_then(secret::parse_reference)?
            .ok()?;
        Some(reference.to_string())
    }

    fn needed(&self, key: &str, what: &str, findings: &mut Vec<Finding>) -> Option<&'a Node> {
        let node = self.fields.node(key);
        if node.is_none() {
            findings.push(Finding::error(
                self.node.place,
                format!("`{}` has no `{key}`", self.path),
                format!("write it, {what}"),
            ));
        }
        node
    }

    fn place(&self, key: &str) -> Place {
        self.fields
            .node(key)
            .map_or(self.node.place, |node| node.place)
    }
}
