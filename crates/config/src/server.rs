//! The keys of a server, and what they mean to the gate that connects it and holds calls to it. Both dialects are read here.
//!
//! A new key is a row, a field of `TargetSpec` (what calls are held to) or `ServerSpec` (how it is connected), and the line in [`lower`]
//! that fills it.

mod transport;

use std::{path::Path, sync::Arc, time::Duration};

use gateway::settings::{Allow, Health, HealthMethod, ServerSpec, Standing, TargetSpec, Transport};
use policy::Budget;
use vocab::{ServerId, ToolName};

pub(super) use transport::{bad_url, check_url, in_clear};

use super::{
    fields::Fields,
    finding::{Finding, Place},
    keys::{
        ACCESS_LISTS, ALLOWANCES, ARRIVING, CAPABILITY, HEALTH, HOUR_MS, HTTP_KINDS, JAIL, KIB,
        Key, Kind, LEVELS, LISTED_HEALTH, MIB, PERMISSIONS, RESOURCES, TOOL_RULE, key,
    },
    rules, signed,
    tree::Node,
};

/// One server in the map form.
pub static SERVER: &[Key] = &[
    COMMAND,
    ARGS,
    ENV,
    CREDENTIALS,
    CWD,
    URL,
    TRANSPORT,
    HEADERS,
    BEARER,
    CLASSIFICATION,
    ACCEPTS,
    BLOCKED,
    ENABLED,
    ACCESS,
    RATE_LIMIT,
    OPEN_WORLD,
    INJECTION_SCAN,
    REDACT_RESULTS,
    DEFINITIONS,
    TIMEOUT,
    CONNECT_TIMEOUT,
    TOOLS,
    key(
        "health_check",
        Kind::TableOrWord(HEALTH, &["off"]),
        "",
        "How a connected server is asked whether it is still there; `off` never asks.",
    ),
    ALLOW,
    MAX_RESULT_BYTES,
    CAPABILITIES,
    TENANT,
    RESOURCE_LIMITS,
    JAIL,
];

/// One server in the list form. `executable` and `environment` are the words of that dialect for `command` and `env`.
pub static LISTED_SERVER: &[Key] = &[
    key("name", Kind::Text, "", "The server's id."),
    COMMAND,
    key("executable", Kind::Text, "", "Another word for `command`."),
    ARGS,
    ENV,
    key(
        "environment",
        Kind::TextMap,
        "{}",
        "Another word for `env`.",
    ),
    CREDENTIALS,
    CWD,
    URL,
    TRANSPORT,
    HEADERS,
    BEARER,
    CLASSIFICATION,
    ACCEPTS,
    BLOCKED,
    ENABLED,
    ACCESS,
    RATE_LIMIT,
    OPEN_WORLD,
    INJECTION_SCAN,
    REDACT_RESULTS,
    DEFINITIONS,
    TIMEOUT,
    CONNECT_TIMEOUT,
    TOOLS,
    key(
        "health_check",
        Kind::TableOrWord(LISTED_HEALTH, &["off"]),
        "",
        "How a connected server is asked whether it is still there; `off` never asks.",
    ),
    ALLOW,
    MAX_RESULT_BYTES,
    CAPABILITIES,
    TENANT,
    RESOURCE_LIMITS,
    JAIL,
];

const COMMAND: Key = key(
    "command",
    Kind::Text,
    "",
    "Program to start; it speaks MCP on its standard input and output. Exactly one of `command` and `url` is needed: an entry with \
     neither is skipped and shown as such, an entry with both is an error.",
);
const ARGS: Key = key("args", Kind::TextList, "[]", "Arguments of the program.");
const ENV: Key = key(
    "env",
    Kind::TextMap,
    "{}",
    "Environment of the program. It gets `PATH`, in a jail a home of its own and settings for package runners, and what is declared here, \
     nothing else. A value is literal text, or a secret \
     reference: `env:NAME`, `keychain:name`, `secret:engine/path#field`. `literal:text` is text even where the name sounds like a \
     credential's.",
);
const CREDENTIALS: Key = key(
    "credentials",
    Kind::ReferenceMap,
    "{}",
    "Like `env`, but every value must be a secret reference.",
);
const CWD: Key = key(
    "cwd",
    Kind::Text,
    "",
    "Directory the program starts in. A relative path starts at the directory of this file. Without it the program starts in its own home, \
     or without a jail where the gate was started.",
);
const URL: Key = key(
    "url",
    Kind::Text,
    "",
    "Endpoint of a remote server, `https://…` or `http://…`.",
);
const TRANSPORT: Key = key(
    "transport",
    Kind::Choice(HTTP_KINDS),
    "auto",
    "How to speak to `url`. `auto` tries streamable HTTP and falls back to the older HTTP with SSE.",
);
const HEADERS: Key = key(
    "headers",
    Kind::TextMap,
    "{}",
    "Headers sent with every request to `url`. Values may be secret references, and must be where a header carries a credential.",
);
const BEARER: Key = key(
    "bearer",
    Kind::Reference,
    "",
    "Secret reference of the token sent to `url` as `Authorization: Bearer …`.",
);
const CLASSIFICATION: Key = key(
    "classification",
    Kind::Choice(LEVELS),
    "",
    "How secret what this server returns is and, unless `accepts` says otherwise, the most secret data that may be sent to it. A server without one is UNTRUSTED: it \
     is connected and shown, and none of its tools can be called.",
);
const ACCEPTS: Key = key(
    "accepts",
    Kind::Choice(LEVELS),
    "",
    "The most secret data that may be sent to this server, where that is not its `classification`: a service that may be told more than its \
     results are worth, or less.",
);
const ENABLED: Key = key(
    "enabled",
    Kind::Flag,
    "true",
    "`false` keeps the entry and does not start or connect the server. Its tools leave every list, and a call is \
     told that the server is switched off.",
);
const TIMEOUT: Key = key(
    "timeout",
    Kind::Duration(1..=HOUR_MS),
    "",
    "The longest one call may take, where its tool does not say. Without it, `tool_timeout`.",
);
const CONNECT_TIMEOUT: Key = key(
    "connect_timeout",
    Kind::Duration(100..=HOUR_MS),
    "",
    "How long one attempt to start and greet the server may take, as in `3m`. Without it 60 seconds beside `command`, where a launcher may \
     have to fetch the program first, and 10 beside `url`.",
);
const BLOCKED: Key = key(
    "blocked",
    Kind::Text,
    "",
    "Why nothing of this server may be used. It beats every other key: the server is not started or connected and gets no credential, and \
     nothing of it is shown, called or read. `portcullis servers block` and `unblock` write it.",
);
const ACCESS: Key = key(
    "access",
    Kind::Table(ACCESS_LISTS),
    "",
    "Who may use this server: a caller that is in any of the lists. Without it, every caller may.",
);
const RATE_LIMIT: Key = key(
    "rate_limit",
    Kind::Rate,
    "",
    "The most calls to this server, of all callers together, as in `60/min`. Without it there is no limit.",
);
const OPEN_WORLD: Key = key(
    "open_world",
    Kind::Flag,
    "",
    "Whether what this server returns may have been written by strangers, as web pages, mail and issues are. `true` makes a session \
     that reads from it untrusted. Without it, a server counts as such until a person says `false`.",
);
const INJECTION_SCAN: Key = key(
    "injection_scan",
    Kind::Flag,
    "true",
    "Look for injections in the arguments of calls. `false` is an opt-out that is recorded in the ledger.",
);
const REDACT_RESULTS: Key = key(
    "redact_results",
    Kind::Flag,
    "true",
    "Replace secrets in results (values the gate holds, and well-known token shapes) by a mark.",
);
const DEFINITIONS: Key = key(
    "definitions",
    Kind::Table(ARRIVING),
    "",
    "What happens when the server changes what it offers.",
);
const TOOLS: Key = key(
    "tools",
    Kind::RuleMap(PERMISSIONS, TOOL_RULE),
    "{}",
    "Rule per tool, by the name the server gave it: a permission, or a map. `restricted` needs a credential that was granted the tool, \
     or that the rule lists; `blocked` is never called. The name `\"*\"` stands for every tool not listed, and says what a listed \
     tool's own rule leaves out; without it tools are `permitted`.",
);
const ALLOW: Key = key(
    "allow",
    Kind::Table(ALLOWANCES),
    "",
    "What the server may ask of the client.",
);
const MAX_RESULT_BYTES: Key = key(
    "max_result_bytes",
    Kind::Size(KIB..=1024 * MIB),
    "",
    "The largest result of one call to this server. Without it `limits.max_result_bytes` holds.",
);
const CAPABILITIES: Key = key(
    "capabilities",
    Kind::TableList(CAPABILITY),
    "[]",
    "Dotted names (`web.search`, `web.*`) under which signed calls reach this server. A whole name beats a prefix; no two servers of a \
     tenant have the same one. With several prefixes, a tool is of the kind it names itself by, or of none.",
);
const TENANT: Key = key(
    "tenant",
    Kind::Text,
    "",
    "Whose server it is: only sessions of this tenant see it. Without it, everyone's.",
);
const RESOURCE_LIMITS: Key = key(
    "resource_limits",
    Kind::Table(RESOURCES),
    "",
    "What the program, and all it starts, may use of this machine. It needs a jail.",
);

/// A dotted name, and where it stands, so that two that meet can both be named.
pub(super) type Dotted = (String, Place);

/// What entries stand on: the rest of the file, and where it is.
#[derive(Clone, Copy)]
pub(super) struct Ground<'a> {
    /// The most that any server may return.
    pub(super) largest: usize,
    /// The profile of jails for servers that name none.
    pub(super) jail: &'a str,
    /// The socket of the container runtime, if the file names it.
    pub(super) container_socket: Option<&'a Node>,
    /// The time of calls at servers that say nothing.
    pub(super) tool_timeout: Duration,
    pub(super) base: &'a Path,
}

/// Reads an entry. The dotted names are those of its `capabilities`.
pub(super) fn lower(
    id: ServerId,
    place: Place,
    fields: Fields<'_>,
    ground: Ground<'_>,
    findings: &mut Vec<Finding>,
) -> (ServerSpec, Vec<Dotted>) {
    let path = format!("mcp_servers.{id}");
    let entry = Entry {
        path: &path,
        fields,
        default_jail: ground.jail,
        container_socket: ground.container_socket,
    };
    let transport = entry.transport(ground.base, findings);
    let standing = match transport {
        _ if !fields.flag("enabled") => Standing::Disabled,
        Transport::Nothing => Standing::Skipped("it has neither `command` nor `url`".to_owned()),
        _ => Standing::Enabled,
    };
    let blocked = rules::blocked(fields, &path, findings);
    if standing == Standing::Enabled && blocked.is_none() && fields.node("classification").is_none()
    {
        let what = format!(
            "`{id}` has no classification, so it is UNTRUSTED and none of its tools can be called"
        );
        findings.push(Finding::warning(
            place,
            what,
            "add `classification:` with PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED",
        ));
    }
    let is_remote = matches!(transport, Transport::Http { .. });
    let (default_rule, rules) = rules::tools(fields, &path, is_remote, findings);
    let definitions = fields.table("definitions");
    let dotted = entry.capabilities(findings);
    let target = TargetSpec {
        classification: fields
            .written("classification")
            .and_then(|text| text.parse().ok()),
        accepts: fields.written("accepts").and_then(|text| text.parse().ok()),
        blocked,
        standing,
        access: rules::server_access(fields, &path, findings),
        rate: rules::rate(fields),
        default_rule,
        rules,
        injection_scan: rules::injection_scan(fields, &path, findings),
        redact_results: fields.flag("redact_results"),
        tenant: signed::tenant(fields, findings),
        ..TargetSpec::new(id, entry.budget(ground))
    };
    let spec = ServerSpec {
        target: Arc::new(target),
        transport,
        connect_timeout: fields
            .node("connect_timeout")
            .map(|_| fields.duration("connect_timeout")),
        open_world: fields.node("open_world").and_then(Node::flag),
        new_definitions: rules::arrivals(definitions, "new"),
        narrowed_definitions: rules::arrivals(definitions, "narrowed"),
        recheck: definitions.duration("recheck"),
        health: entry.health(findings),
        allow: allow(fields.table("allow")),
        capabilities: dotted.iter().map(|(name, _)| name.clone()).collect(),
        rotation: 0,
    };
    (spec, dotted)
}

fn allow(fields: Fields<'_>) -> Allow {
    Allow {
        sampling: fields.flag("sampling"),
        roots: fields.flag("roots"),
        elicitation: fields.flag("elicitation"),
    }
}

/// An entry being read.
struct Entry<'a> {
    path: &'a str,
    fields: Fields<'a>,
    /// The profile of its jail, if it names none.
    default_jail: &'a str,
    container_socket: Option<&'a Node>,
}

impl<'a> Entry<'a> {
    /// What one call may cost.
    fn budget(&self, ground: Ground<'_>) -> Budget {
        let own = self.fields.node("max_result_bytes");
        let own = own.map_or(u64::MAX, |_| self.fields.size("max_result_bytes"));
        Budget {
            time: self
                .fields
                .node("timeout")
                .map_or(ground.tool_timeout, |_| self.fields.duration("timeout")),
            result_bytes: usize::try_from(own)
                .unwrap_or(usize::MAX)
                .min(ground.largest),
        }
    }

    fn health(&self, findings: &mut Vec<Finding>) -> Option<Health> {
        if self.fields.written("health_check") == Some("off") {
            return None;
        }
        let fields = self.fields.table("health_check");
        let mut span = |name: &'static str, seconds: &'static str| match (
            fields.node(name),
            fields.node(seconds),
        ) {
            (Some(_), Some(node)) => {
                let what = format!(
                    "`{}.health_check` has both `{name}` and `{seconds}`",
                    self.path
                );
                findings.push(Finding::error(node.place, what, format!("keep `{name}`")));
                Duration::ZERO
            }
            (None, Some(_)) => Duration::from_secs(fields.count(seconds)),
            _ => fields.duration(name),
        };
        Some(Health {
            interval: span("interval", "interval_seconds"),
            timeout: span("timeout", "timeout_seconds"),
            method: if fields.text("method") == "ping" {
                HealthMethod::Ping
            } else {
                HealthMethod::ListTools
            },
        })
    }

    fn capabilities(&self, findings: &mut Vec<Finding>) -> Vec<Dotted> {
        let mut dotted = Vec::new();
        for node in self.fields.items("capabilities") {
            let fields = Fields::new(Some(node), CAPABILITY);
            let name = node
                .text()
                .or_else(|| fields.written("name"))
                .unwrap_or_default();
            let stem = name.strip_suffix(".*").unwrap_or(name);
            if ToolName::parse(stem).is_err() {
                let what = format!("`{name}` is not a dotted name");
                findings.push(Finding::error(
                    node.place,
                    what,
                    "write it as in `web.search` or `web.*`",
                ));
            }
            dotted.push((name.to_owned(), node.place));
        }
        dotted
    }
}
