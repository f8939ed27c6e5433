//! The one table of keys.
//!
//! Everything that must agree about the file is derived from it: what is accepted and of which type, the hint for a misspelt key,
//! the defaults, the JSON Schema and `docs/use/config.md`. A key that is not here does not exist. The rows of servers, sinks and volumes
//! stand beside what reads them, in `server.rs`, `sinks.rs`, `volumes.rs` and `web.rs`; those of limits, providers and signed calls have files of their own.

pub(crate) mod doors;
mod jails;
mod limits;
mod oauth;
mod signed;

use std::ops::RangeInclusive;

pub use doors::{ADDRESS_RATE, DOOR, DRAIN};
pub(crate) use jails::JAIL;
pub use jails::{JAIL_KEYS, JAILS};

pub use super::{
    server::{LISTED_SERVER, SERVER},
    sinks::{SINK, SINK_KINDS},
    stores::{SECRETS, STORE, STORE_AUTH},
    volumes::{LISTED_VOLUME, VOLUME},
    web::{ENGINE, WEB},
};
pub use limits::LIMITS;
pub use oauth::{ISSUER, OAUTH};
pub use signed::{
    AGENT, AGENT_TOOL, AGENT_TOOL_CONFIG, CONTEXT, CONTEXT_CAPABILITY, CONTEXT_RATE, DISPATCHER,
    LISTED_CONTEXT, LISTED_DISPATCHER, SEAL,
};

/// A key, what may stand under it, and what holds when it is absent.
#[derive(Debug)]
pub struct Key {
    pub name: &'static str,
    pub kind: Kind,
    /// As it would be written in the file. Empty when there is none.
    pub default: &'static str,
    pub doc: &'static str,
    /// For a key that is read and does nothing in this version: what to do instead. Empty for a key that has an effect.
    pub idle: &'static str,
}

impl Key {
    /// A key that files of other dialects have, and that does nothing here. Whoever writes it is told so.
    pub(crate) const fn idle(self, instead: &'static str) -> Self {
        Self {
            idle: instead,
            ..self
        }
    }
}

#[derive(Debug)]
pub enum Kind {
    Text,
    Flag,
    Count(RangeInclusive<u64>),
    /// Bytes.
    Size(RangeInclusive<u64>),
    /// Bounds in milliseconds.
    Duration(RangeInclusive<u64>),
    Choice(&'static [&'static str]),
    /// Text that must name a secret, never be one.
    Reference,
    TextList,
    /// Name to text; the text may be a secret reference.
    TextMap,
    /// Name to secret reference.
    ReferenceMap,
    /// Calls per time, as in `60/min`.
    Rate,
    /// Name to one of the words, or to a table.
    RuleMap(&'static [&'static str], &'static [Key]),
    Table(&'static [Key]),
    /// A table, or one of these words.
    TableOrWord(&'static [Key], &'static [&'static str]),
    /// A list whose items are a table, or only its first (text) key.
    TableList(&'static [Key]),
    /// Map of id to the first table, or list of the second.
    Servers(&'static [Key], &'static [Key]),
    /// The same for anything else that has a name.
    Named(&'static [Key], &'static [Key]),
    /// Name to a table, or to its `manifest` key alone.
    AgentMap(&'static [Key]),
    /// Name to list of text, or one list of text.
    Subcommands,
    /// Calls per time, or a table that says the same.
    RateOrTable(&'static [Key]),
}

pub const LEVELS: &[&str] = &["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"];
pub const PERMISSIONS: &[&str] = &["permitted", "restricted", "blocked"];
pub const HTTP_KINDS: &[&str] = &["auto", "streamable-http", "sse"];
pub const HEALTH_METHODS: &[&str] = &["ping", "tools/list"];
pub const AUTHENTICATIONS: &[&str] = &["bearer", "none"];
pub const EFFECTS: &[&str] = &["read", "consequential"];
pub const ARRIVALS: &[&str] = &["quarantine", "accept"];
pub const INFLUENCES: &[&str] = &["off", "ask", "block"];
/// The bundles that come with the program.
pub const BUNDLES: &[&str] = &["observe", "balanced", "strict"];

pub(crate) const HOUR_MS: u64 = 3_600_000;
pub(crate) const KIB: u64 = 1 << 10;
pub(crate) const MIB: u64 = 1 << 20;

pub(crate) const fn key(
    name: &'static str,
    kind: Kind,
    default: &'static str,
    doc: &'static str,
) -> Key {
    Key {
        name,
        kind,
        default,
        doc,
        idle: "",
    }
}

/// The top of the file.
pub static ROOT: &[Key] = &[
    key(
        "listen",
        Kind::Text,
        "127.0.0.1:7878",
        "Address and port of the first door, which is for this machine: only loopback addresses are accepted. `doors` has those that others can \
         reach.",
    ),
    key(
        "doors",
        Kind::TableList(DOOR),
        "[]",
        "Further doors, with TLS and more: a list of maps; see docs/operate/doors.md.",
    ),
    key(
        "allowed_hosts",
        Kind::TextList,
        "[]",
        "Names under which clients know this gate, as in `gate.example.com`. Requests whose `Host` is neither one of them nor the address they \
         came to are refused.",
    ),
    key(
        "rate_limit",
        Kind::Table(ADDRESS_RATE),
        "",
        "How often one address may ask, whoever it says it is; see docs/operate/doors.md.",
    ),
    key(
        "tool_timeout",
        Kind::Duration(1..=HOUR_MS),
        "60s",
        "The longest one call may take, where neither its tool nor its server says. `MCP_TOOL_TIMEOUT_SECONDS` in the environment counts more \
         than this file.",
    ),
    key(
        "admin_listen",
        Kind::Text,
        "off",
        "Loopback address and port of a door with `/metrics`, `/livez` and `/readyz` and nothing else, which takes no credential; `9464` is the usual \
         port. See docs/operate/telemetry.md.",
    ),
    key(
        "drain",
        Kind::Table(DRAIN),
        "",
        "How a gate that was told to terminate stops.",
    ),
    key(
        "authentication",
        Kind::Choice(AUTHENTICATIONS),
        "bearer",
        "Who may call. `bearer` asks every caller for a token of `portcullis token new`. `none` lets every program on this machine \
         in, and says so at every start.",
    ),
    key(
        "allowed_origins",
        Kind::TextList,
        "[]",
        "Web origins (`https://host`) whose pages may call. Pages of loopback addresses, of any port, need not be listed. Requests that \
         carry another `Origin` are refused; programs send none.",
    ),
    key(
        "policy",
        Kind::Table(POLICY),
        "",
        "The rules that judge a call once it may be made at all; see docs/operate/policy.md.",
    ),
    key(
        "untrusted_influence",
        Kind::Choice(INFLUENCES),
        "ask",
        "What becomes of a consequential call of a session that has read untrusted data: nothing special (`off`), a person is asked \
         (`ask`), or it is refused (`block`).",
    ),
    key(
        "approvals",
        Kind::Table(APPROVALS),
        "",
        "How a person is asked before a call is made.",
    ),
    key(
        "audit",
        Kind::Table(AUDIT),
        "",
        "How long the ledger is kept, and where its events are sent; see docs/operate/ledger.md and docs/operate/events.md.",
    ),
    key(
        "limits",
        Kind::Table(LIMITS),
        "",
        "What one caller may ask of the gate.",
    ),
    key(
        "trust",
        Kind::Table(TRUST),
        "",
        "Whom the gate believes when it connects to servers over TLS.",
    ),
    key(
        "retry",
        Kind::Table(RETRY),
        "",
        "How long a server that cannot be reached is tried again.",
    ),
    key(
        "jails",
        Kind::Table(JAILS),
        "",
        "The walls around stdio servers.",
    ),
    key(
        "mcp_servers",
        Kind::Servers(SERVER, LISTED_SERVER),
        "{}",
        "The servers behind the gate: a map from id to server, or a list of servers that carry a `name`. An id is made of lower-case \
         words joined by single `-` or `_`, at most 64 characters. `built-in`, `builtin`, `portcullis`, `mcp`, `fs`, `web` and `cmd` are taken.",
    ),
    key(
        "volumes",
        Kind::Named(VOLUME, LISTED_VOLUME),
        "{}",
        "Directories that callers use with the tools for files (`fs.read` and the like): a map from name to volume, or a list of volumes that \
         carry a `name`; see docs/use/volumes.md.",
    ),
    key(
        "web",
        Kind::Table(WEB),
        "",
        "The tools for the web, `web.fetch` and `web.search`. `web: {}` lets every caller use them; without it there are none. See \
         docs/use/web.md.",
    ),
    key(
        "security_contexts",
        Kind::Named(CONTEXT, LISTED_CONTEXT),
        "{}",
        "What sessions of signed calls may do: a map from name to context, or a list of contexts that carry a `name`. A name is lower-case \
         letters, digits and `-`, beginning with a letter; see docs/integrate/contexts.md.",
    ),
    key(
        "agents",
        Kind::AgentMap(AGENT),
        "{}",
        "What the manifests of agents list: a map from the agent's name to its tools and limits, or to the path of its manifest. An agent \
         that is not here is bound by its context alone.",
    ),
    key(
        "builtin_dispatchers",
        Kind::Named(DISPATCHER, LISTED_DISPATCHER),
        "{}",
        "The built-in tools of this node and the ceilings no manifest exceeds: a map from family (`cmd`, `fs`, `web`) to its settings, or a \
         list of families that carry a `name`.",
    ),
    key(
        "seal",
        Kind::Table(SEAL),
        "",
        "Who signs the tokens of signed calls, for whom, and for how long.",
    ),
    key(
        "connectors",
        Kind::Table(CONNECTORS),
        "",
        "What host programs may do at `/mcp/connectors`.",
    ),
    key(
        "secrets",
        Kind::Table(SECRETS),
        "",
        "Secret stores that references lead to; see docs/operate/secrets.md.",
    ),
    key(
        "oauth",
        Kind::Table(OAUTH),
        "",
        "Take access tokens of identity providers too, as an OAuth 2.1 protected resource; see docs/operate/oauth.md. Tokens of `portcullis token \
         new` stay good beside them.",
    ),
];

pub static CONNECTORS: &[Key] = &[key(
    "commands",
    Kind::Flag,
    "false",
    "Let operators add servers with a `command` over HTTP. Without it only servers with a `url`: an HTTP client does not cause a new \
     program to run.",
)];

pub static POLICY: &[Key] = &[key(
    "bundle",
    Kind::Text,
    "balanced",
    "A bundle that comes with the program (`observe`, `balanced`, `strict`), or your own: the path of a `.cedar` file or of a directory \
     of them. Relative paths start at the directory of this file. A bundle with a mistake changes nothing: the gate keeps the one it \
     has.",
)];

pub static APPROVALS: &[Key] = &[
    key(
        "expiry",
        Kind::Duration(1_000..=7 * 24 * HOUR_MS),
        "15m",
        "How long a question waits for an answer before it is a no.",
    ),
    key(
        "in_client",
        Kind::Flag,
        "false",
        "Ask the person at the client too, where it can show questions. The answer then comes over the agent's own credential, so a \
         client that answers for its person can approve its own calls.",
    ),
];

pub static AUDIT: &[Key] = &[
    key(
        "retention",
        Kind::Text,
        "forever",
        "How long records are kept at least, as in `90d`, or `forever`. What is older goes, in whole segments, with the arguments kept for its \
         calls; what remains still verifies. What a sink has not delivered yet stays.",
    ),
    key(
        "max_bytes",
        Kind::Size(64 * MIB..=1024 * 1024 * 1024 * MIB),
        "",
        "The most the ledger and the arguments it keeps may take. Beyond it the oldest segments go, also where `retention` or a \
         sink would keep them. Without it there is no limit.",
    ),
    key(
        "sinks",
        Kind::TableList(SINK),
        "[]",
        "Where events are sent, each in order and at least once. A sink that is down falls behind and catches up; no call waits for it.",
    ),
];

pub static TRUST: &[Key] = &[key(
    "ca_files",
    Kind::TextList,
    "[]",
    "PEM files with certificate authorities to trust beside the system's. Relative paths start at the directory of this file.",
)];

pub static RETRY: &[Key] = &[key(
    "attempts",
    Kind::Count(1..=1_000),
    "10",
    "Connection attempts (after 2, 4, 8, 16, then every 30 seconds) before a server is `failed` and waits for \
     `portcullis servers retry`.",
)];

pub static ACCESS_LISTS: &[Key] = &[
    key(
        "users",
        Kind::TextList,
        "[]",
        "Users, as in `portcullis token new --user`.",
    ),
    key(
        "departments",
        Kind::TextList,
        "[]",
        "Departments, as in `portcullis token new --department`.",
    ),
    key(
        "agents",
        Kind::TextList,
        "[]",
        "Agents, as in `portcullis token new --agent`.",
    ),
];

pub static ARRIVING: &[Key] = &[
    key(
        "new",
        Kind::Choice(ARRIVALS),
        "quarantine",
        "A tool, prompt or template that was not there when the server was classified: kept from callers until `portcullis servers \
         approve`, or accepted as it comes.",
    ),
    key(
        "narrowed",
        Kind::Choice(ARRIVALS),
        "quarantine",
        "A tool whose words are unchanged and whose input only accepts less. Any other change is always quarantined.",
    ),
    key(
        "recheck",
        Kind::Duration(0..=HOUR_MS),
        "1s",
        "How old the last look at the server's definitions may be when one is used; an older one is renewed before the call. `0s` looks \
         before every call.",
    ),
];

pub static TOOL_RULE: &[Key] = &[
    key(
        "permission",
        Kind::Choice(PERMISSIONS),
        "permitted",
        "Who may call it, before anything else is asked.",
    ),
    key(
        "users",
        Kind::TextList,
        "[]",
        "Users that may call it. A rule that lists anyone is for those it lists, and for no others.",
    ),
    key(
        "departments",
        Kind::TextList,
        "[]",
        "Departments that may call it.",
    ),
    key("agents", Kind::TextList, "[]", "Agents that may call it."),
    key(
        "rate_limit",
        Kind::Rate,
        "",
        "The most calls of this tool, of all callers together, as in `5/min`.",
    ),
    key(
        "effect",
        Kind::Choice(EFFECTS),
        "",
        "Whether the tool only looks, or changes, sends or spends something. Without it `portcullis.lock` says, where it was noted when the \
         tool was pinned. What the server says of itself is never believed.",
    ),
    key(
        "open_world",
        Kind::Flag,
        "",
        "Whether what this tool returns may have been written by strangers. Without it, as for its server.",
    ),
    key(
        "timeout",
        Kind::Duration(1..=HOUR_MS),
        "",
        "The longest one call of this tool may take. Without it, as for its server.",
    ),
    key(
        "is_hitl",
        Kind::Flag,
        "false",
        "The tool itself waits for a person, so without a `timeout` of its own its calls may take as long as they need.",
    ),
    key(
        "requires_user_auth",
        Kind::Flag,
        "false",
        "Call it with the calling user's own account (`portcullis connect-account`), never with the server's `bearer`. Only beside `url`.",
    ),
    key(
        "roles",
        Kind::TextMap,
        "{}",
        "What its arguments are for, by path, as in `{ to: target, \"rows[].id\": object }`: target, object, amount, value, name or content. \
         What is not said is guessed from the name and the type; unknown means target.",
    ),
    key(
        "sealed",
        Kind::Choice(&["never", "asked", "always"]),
        "asked",
        "Whether callers get its texts sealed: as handles that they pass on without reading them. `asked`: when they call it through \
         `portcullis__sealed`.",
    ),
];

pub static HEALTH: &[Key] = &[
    key(
        "interval",
        Kind::Duration(1_000..=24 * HOUR_MS),
        "30s",
        "Time between two checks.",
    ),
    key(
        "interval_seconds",
        Kind::Count(1..=86_400),
        "",
        "The same, as a number of seconds.",
    ),
    key(
        "timeout",
        Kind::Duration(1..=HOUR_MS),
        "5s",
        "How long an answer may take.",
    ),
    key(
        "timeout_seconds",
        Kind::Count(1..=3_600),
        "",
        "The same, as a number of seconds.",
    ),
    key(
        "method",
        Kind::Choice(HEALTH_METHODS),
        "ping",
        "What is asked.",
    ),
];

/// The list form keeps the defaults of the dialect it comes from.
pub static LISTED_HEALTH: &[Key] = &[
    key(
        "interval",
        Kind::Duration(1_000..=24 * HOUR_MS),
        "60s",
        "Time between two checks.",
    ),
    key(
        "interval_seconds",
        Kind::Count(1..=86_400),
        "",
        "The same, as a number of seconds.",
    ),
    key(
        "timeout",
        Kind::Duration(1..=HOUR_MS),
        "5s",
        "How long an answer may take.",
    ),
    key(
        "timeout_seconds",
        Kind::Count(1..=3_600),
        "",
        "The same, as a number of seconds.",
    ),
    key(
        "method",
        Kind::Choice(HEALTH_METHODS),
        "tools/list",
        "What is asked.",
    ),
];

pub static ALLOWANCES: &[Key] = &[
    key(
        "sampling",
        Kind::Flag,
        "false",
        "Ask the client's model for a completion.",
    ),
    key(
        "roots",
        Kind::Flag,
        "false",
        "Ask for the client's root directories.",
    ),
    key(
        "elicitation",
        Kind::Flag,
        "true",
        "Ask the person at the client a question.",
    ),
];

pub static CAPABILITY: &[Key] = &[
    key("name", Kind::Text, "", "The dotted name."),
    key(
        "skip_judge",
        Kind::Flag,
        "false",
        "Whether the semantic judge is left out for this name.",
    )
    .idle("remove it: there is no semantic judge to leave out"),
];

pub static RESOURCES: &[Key] = &[
    key(
        "cpu_millicores",
        Kind::Count(1..=1_024_000),
        "1000",
        "Time on the processor, in thousandths of a core: all of them stand still for as long as they have used more.",
    ),
    key(
        "memory_mb",
        Kind::Count(1..=1_048_576),
        "512",
        "Memory, in MiB. One process that asks for more is refused it, and all are ended if they have more together.",
    ),
];
