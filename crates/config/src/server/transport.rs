//! How a server is reached: the program that is started, or the address that is connected to.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
};

use gateway::settings::{HttpKind, JailSpec, Text, Transport, is_container_runtime};
use http::{HeaderName, HeaderValue, Uri};

use super::{
    super::{check::join, finding::Finding, resolve::path_at, secret, tree::Node},
    Entry,
};

impl<'a> Entry<'a> {
    /// The table of the map form does not have the words of the list form.
    fn either(
        &self,
        name: &'static str,
        other: &'static str,
        findings: &mut Vec<Finding>,
    ) -> Option<(&'static str, &'a Node)> {
        let first = self.fields.node(name);
        let second = if self.fields.knows(other) {
            self.fields.node(other)
        } else {
            None
        };
        if let (Some(_), Some(node)) = (first, second) {
            let what = format!(
                "`{}` has both `{name}` and `{other}`, which mean the same",
                self.path
            );
            findings.push(Finding::error(node.place, what, format!("keep `{name}`")));
        }
        first
            .map(|node| (name, node))
            .or_else(|| second.map(|node| (other, node)))
    }

    pub(super) fn transport(&self, base: &Path, findings: &mut Vec<Finding>) -> Transport {
        let command = self.either("command", "executable", findings);
        let url = self.fields.node("url");
        match (command, url) {
            (Some(_), Some(node)) => {
                let what = format!("`{}` has both `command` and `url`", self.path);
                findings.push(Finding::error(
                    node.place,
                    what,
                    "keep one: `command` starts a program, `url` connects to one",
                ));
                Transport::Nothing
            }
            (Some((_, node)), None) => {
                self.refuse_keys(&["headers", "bearer", "transport"], "url", findings);
                self.stdio(node, base, findings)
                    .unwrap_or(Transport::Nothing)
            }
            (None, Some(node)) => {
                self.refuse_keys(
                    &[
                        "args",
                        "env",
                        "environment",
                        "credentials",
                        "cwd",
                        "resource_limits",
                        "jail",
                    ],
                    "command",
                    findings,
                );
                self.http(node, findings).unwrap_or(Transport::Nothing)
            }
            (None, None) => Transport::Nothing,
        }
    }

    /// Keys that would silently do nothing.
    fn refuse_keys(&self, names: &[&str], needed: &str, findings: &mut Vec<Finding>) {
        for name in names.iter().filter(|name| self.fields.knows(name)) {
            if let Some(node) = self.fields.node(name) {
                let what = format!(
                    "`{}` only means something beside `{needed}`",
                    join(self.path, name)
                );
                findings.push(Finding::error(node.place, what, "remove it"));
            }
        }
    }

    fn stdio(&self, command: &Node, base: &Path, findings: &mut Vec<Finding>) -> Option<Transport> {
        let text = command.text()?;
        if text.is_empty() || text.starts_with('~') || text.contains('\0') {
            let what = format!("`{}` cannot start `{}`", self.path, text.escape_default());
            findings.push(Finding::error(
                command.place,
                what,
                "write a program's name, or its whole path (`~` is not expanded)",
            ));
        }
        for node in self.fields.items("args") {
            if secret::looks_like_token(node.text().unwrap_or_default()) {
                let what = format!("`{}.args` holds a credential in clear", self.path);
                let fix = "pass it in `env` by reference; arguments can be read by every program on the machine";
                findings.push(Finding::error(node.place, what, fix).hidden());
            }
        }
        Some(Transport::Stdio {
            command: text.to_owned(),
            args: self.fields.texts("args"),
            env: self.environment(findings),
            cwd: self
                .fields
                .node("cwd")
                .and_then(|node| path_at(node, base, findings)),
            jail: self.jail(command, base, findings),
        })
    }

    /// The jail that the entry asks for; `None` where it wants none. The profile may be left to `jails.default`.
    fn jail(&self, command: &Node, base: &Path, findings: &mut Vec<Finding>) -> Option<JailSpec> {
        let fields = self.fields.table("jail");
        let profile = self
            .fields
            .written("jail")
            .or_else(|| fields.written("profile"));
        let is_runtime = is_container_runtime(command.text().unwrap_or_default());
        let profile = match profile {
            Some("container") if !is_runtime => {
                let what = format!(
                    "`{}` has `jail: container`, and its command starts none",
                    self.path
                );
                let fix = "write `command: docker` or `command: podman`, with `args: [run, …]`";
                findings.push(Finding::error(command.place, what, fix));
                "container"
            }
            Some(profile) => profile,
            None if is_runtime && self.default_jail != "none" => "container",
            None => self.default_jail,
        };
        let mut paths = |name| -> Vec<PathBuf> {
            fields
                .items(name)
                .iter()
                .filter_map(|node| path_at(node, base, findings))
                .collect()
        };
        let (read, write, unprotect) = (paths("read"), paths("write"), paths("unprotect"));
        let mut ports = Vec::new();
        for node in fields.items("ports") {
            match node.text().and_then(|text| text.parse().ok()) {
                Some(port @ 1..) => ports.push(port),
                _ => findings.push(Finding::error(
                    node.place,
                    format!("`{}.jail.ports` has something that is no port", self.path),
                    "write numbers from 1 to 65535",
                )),
            }
        }
        let limits = self.fields.table("resource_limits");
        let is_limited = self.fields.node("resource_limits").is_some();
        Some(JailSpec {
            // `none`, and what the table of keys does not have, is no profile.
            profile: profile.parse().ok()?,
            read,
            write,
            unprotect,
            ports,
            listen: fields.flag("listen"),
            namespaces: fields.flag("namespaces"),
            container_socket: self
                .container_socket
                .and_then(|node| path_at(node, base, findings)),
            home_bytes: fields.count("home_mb") << 20,
            memory: is_limited.then(|| limits.count("memory_mb") << 20),
            millicores: is_limited.then(|| limits.count("cpu_millicores")),
            offline_packages: fields.text("update") == "never",
        })
    }

    fn environment(&self, findings: &mut Vec<Finding>) -> BTreeMap<String, Text> {
        let mut env = BTreeMap::new();
        let plain = self
            .either("env", "environment", findings)
            .map(|(name, _)| name);
        for section in plain.into_iter().chain(["credentials"]) {
            for (key, node) in self
                .fields
                .entries(section)
                .iter()
                .filter(|(_, node)| node.text().is_some())
            {
                let path = join(&join(self.path, section), &key.name);
                if !secret::is_variable_name(&key.name) {
                    let what = format!(
                        "`{}` cannot be the name of an environment variable",
                        key.name
                    );
                    findings.push(Finding::error(
                        key.place,
                        what,
                        "use letters, digits and `_`, not starting with a digit",
                    ));
                }
                match secret::read_text(node, &key.name, &path) {
                    Ok(text) => {
                        if env.insert(key.name.clone(), text).is_some() {
                            let what = format!("`{}` is declared twice", key.name);
                            findings.push(Finding::error(key.place, what, "keep one of the two"));
                        }
                    }
                    // The check of `credentials` has said the same already.
                    Err(_) if section == "credentials" => {}
                    Err(finding) => findings.push(finding),
                }
            }
        }
        env
    }

    fn http(&self, url: &Node, findings: &mut Vec<Finding>) -> Option<Transport> {
        let text = url.text()?;
        if let Err((what, fix)) = check_url(text) {
            findings.push(bad_url(url, format!("`{}.url` {what}", self.path), fix));
            self.headers(findings);
            return None;
        }
        let headers = self.headers(findings);
        let bearer = self
            .fields
            .written("bearer")
            .and_then(secret::parse_reference)
            .and_then(Result::ok)
            .map(|reference| Text::Secret(reference.to_string()));
        let sends_secret = bearer.is_some()
            || headers
                .values()
                .any(|value| matches!(value, Text::Secret(_)));
        if sends_secret && in_clear(text) {
            let what = format!(
                "`{}` sends credentials to another machine without TLS",
                self.path
            );
            findings.push(Finding::warning(
                url.place,
                what,
                "use an `https://` address",
            ));
        }
        let kind = match self.fields.text("transport") {
            "streamable-http" => HttpKind::Streamable,
            "sse" => HttpKind::Sse,
            _ => HttpKind::Auto,
        };
        Some(Transport::Http {
            url: text.to_owned(),
            headers,
            bearer,
            kind,
        })
    }

    fn headers(&self, findings: &mut Vec<Finding>) -> BTreeMap<String, Text> {
        /// Headers the connection itself sets.
        const OURS: [&str; 9] = [
            "accept",
            "connection",
            "content-length",
            "content-type",
            "host",
            "mcp-protocol-version",
            "mcp-session-id",
            "te",
            "transfer-encoding",
        ];
        let mut headers = BTreeMap::new();
        for (key, node) in self
            .fields
            .entries("headers")
            .iter()
            .filter(|(_, node)| node.text().is_some())
        {
            let name = key.name.to_ascii_lowercase();
            let problem = if HeaderName::from_bytes(name.as_bytes()).is_err() {
                Some("cannot be the name of a header")
            } else if OURS.contains(&name.as_str()) {
                Some("is set by the connection itself")
            } else if name == "authorization" && self.fields.node("bearer").is_some() {
                Some("is already set by `bearer`")
            } else if headers.contains_key(&name) {
                Some("is written twice; header names do not distinguish case")
            } else if HeaderValue::from_str(node.text().unwrap_or_default()).is_err() {
                Some("has characters that a header cannot carry")
            } else {
                None
            };
            if let Some(problem) = problem {
                findings.push(
                    Finding::error(
                        node.place,
                        format!("the header `{}` {problem}", key.name),
                        "remove or rename it",
                    )
                    .hidden(),
                );
                continue;
            }
            let path = join(&join(self.path, "headers"), &key.name);
            match secret::read_text(node, &key.name, &path) {
                Ok(text) => _ = headers.insert(name, text),
                Err(finding) => findings.push(finding),
            }
        }
        headers
    }
}

/// What is wrong with an address. It is shown, since it is what must be corrected, unless it may hold a credential.
pub(in super::super) fn bad_url(node: &Node, what: String, fix: &str) -> Finding {
    let finding = Finding::error(node.place, what, fix);
    if secret::may_hold_credential(node.text().unwrap_or_default()) {
        finding.hidden()
    } else {
        finding
    }
}

pub(in super::super) fn check_url(text: &str) -> Result<(), (&'static str, &'static str)> {
    let uri: Uri = text
        .parse()
        .map_err(|_| ("is not a URL", "write it as in `https://host/mcp`"))?;
    if !matches!(uri.scheme_str(), Some("http" | "https")) || uri.host().is_none_or(str::is_empty) {
        return Err(("is not an http URL", "write it as in `https://host/mcp`"));
    }
    if uri
        .authority()
        .is_some_and(|authority| authority.as_str().contains('@'))
    {
        return Err((
            "holds a user name or password in clear",
            "remove it from the URL; use `bearer` or `headers` with a reference",
        ));
    }
    let pairs = uri
        .query()
        .unwrap_or_default()
        .split('&')
        .filter_map(|pair| pair.split_once('='));
    if pairs
        .into_iter()
        .any(|(name, value)| secrets::looks_like_credential(name, value).is_some())
    {
        return Err((
            "holds a credential in clear",
            "remove it from the URL; use `bearer` or `headers` with a reference",
        ));
    }
    Ok(())
}

/// Plain http to somewhere that is not this machine.
pub(in super::super) fn in_clear(url: &str) -> bool {
    let Ok(uri) = url.parse::<Uri>() else {
        return false;
    };
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
    let here = host == "localhost"
        || host
            .parse::<std::net::IpAddr>()
            .is_ok_and(|ip| ip.is_loopback());
    uri.scheme_str() == Some("http") && !here
}
