//! Where the gate listens, and how often one address may ask.

use super::{HOUR_MS, Key, Kind, key};

const CERTIFICATES: &[&str] = &["off", "request", "require"];
const REVOCATIONS: &[&str] = &["strict", "lenient"];
const ROLES: &[&str] = &["factor", "identity"];
const PREAMBLES: &[&str] = &["off", "v1", "v2"];
const HEADERS: &[&str] = &["off", "forwarded", "x-forwarded-for"];
const POSTURES: &[&str] = &["local", "open", "closed"];

pub static DOOR: &[Key] = &[
    key(
        "listen",
        Kind::Text,
        "",
        "Address and port. One that other machines can reach needs `tls`, or `plain_from`.",
    ),
    key(
        "tls",
        Kind::Table(TLS),
        "",
        "What the door shows. The files are looked at every second; what is good is shown to new connections, else what was before stays.",
    ),
    key(
        "mtls",
        Kind::Table(MTLS),
        "",
        "What is asked of clients' certificates.",
    ),
    key(
        "proxies",
        Kind::Table(PROXIES),
        "",
        "Who may speak for others. Nobody else is believed.",
    ),
    key(
        "plain_from",
        Kind::TextList,
        "[]",
        "Addresses and networks that may connect, and no others; with them a door can do without `tls`. What they send crosses the network \
         in clear.",
    ),
];

pub(crate) static TLS: &[Key] = &[
    key(
        "cert",
        Kind::Text,
        "",
        "PEM file with the chain, the door's own certificate first. Relative paths start at the directory of this file.",
    ),
    key(
        "key",
        Kind::Text,
        "",
        "PEM file with its key, which nobody but its owner may read.",
    ),
    key(
        "more",
        Kind::TableList(PAIR),
        "[]",
        "Further certificates, for clients that ask for a name that the first has not.",
    ),
];

pub(crate) static PAIR: &[Key] = &[
    key("cert", Kind::Text, "", "PEM file with the chain."),
    key("key", Kind::Text, "", "PEM file with its key."),
];

pub(crate) static MTLS: &[Key] = &[
    key(
        "mode",
        Kind::Choice(CERTIFICATES),
        "off",
        "`request`: one that is shown must be good, none is fine. `require`: without a good one there is no connection. Such doors resume no \
         session, and let go of a connection after an hour.",
    ),
    key(
        "ca_files",
        Kind::TextList,
        "[]",
        "PEM files with the authorities that clients' certificates come from.",
    ),
    key(
        "crl_files",
        Kind::TextList,
        "[]",
        "PEM files with lists of revoked certificates.",
    ),
    key(
        "crl",
        Kind::Choice(REVOCATIONS),
        "strict",
        "What a list means that has expired, or that says nothing of an authority: nobody comes in (`strict`), or it is passed over (`lenient`).",
    ),
    key(
        "role",
        Kind::Choice(ROLES),
        "factor",
        "`factor`: the certificate is needed beside a token. `identity`: it makes a caller by itself, where no token is sent.",
    ),
    key(
        "callers",
        Kind::TableList(HOLDER),
        "[]",
        "Whom certificates stand for; the first that fits counts, and who fits none is not let in. Without a list every good certificate is a \
         factor.",
    ),
];

pub(crate) static HOLDER: &[Key] = &[
    key(
        "uri",
        Kind::Text,
        "",
        "An alternative name, as in `spiffe://example.org/agent`; `/*` at the end means everything beneath it. The subject is never looked at.",
    ),
    key("dns", Kind::Text, "", "An alternative name of a host."),
    key(
        "fingerprint",
        Kind::Text,
        "",
        "SHA-256 of the certificate itself, in hex. Its renewal is then another caller.",
    ),
    key("user", Kind::Text, "", "The person it stands for."),
    key(
        "departments",
        Kind::TextList,
        "[]",
        "Groups of that person.",
    ),
    key("agent", Kind::Text, "", "The program it was given to."),
    key("tenant", Kind::Text, "", "The tenant it belongs to."),
    key(
        "operator",
        Kind::Flag,
        "false",
        "Whether it may steer the gate.",
    ),
];

pub(crate) static PROXIES: &[Key] = &[
    key(
        "trusted",
        Kind::TextList,
        "[]",
        "Addresses and networks of the proxies before this door.",
    ),
    key(
        "protocol",
        Kind::Choice(PREAMBLES),
        "off",
        "The PROXY protocol: connections of trusted proxies begin with it, or are closed.",
    ),
    key(
        "header",
        Kind::Choice(HEADERS),
        "off",
        "The header of trusted proxies that says whom they speak for. It is read from the right, to the first address that is none of theirs.",
    ),
];

pub static ADDRESS_RATE: &[Key] = &[
    key(
        "enabled",
        Kind::Flag,
        "false",
        "Whether requests are counted by address. `MCP_RATE_LIMIT_ENABLED` in the environment counts more than this file.",
    ),
    key(
        "requests",
        Kind::Count(1..=10_000_000),
        "600",
        "The most requests of one IPv4 address, or one /64 of IPv6, in the window. Health paths are not counted. In the environment: \
         `MCP_RATE_LIMIT_REQUESTS`.",
    ),
    key(
        "window",
        Kind::Duration(1_000..=24 * HOUR_MS),
        "60s",
        "The window. No stretch of time of this length holds more, wherever it begins. In the environment: `MCP_RATE_LIMIT_WINDOW_SECONDS`.",
    ),
    key(
        "store",
        Kind::Text,
        "",
        "A Redis or Valkey that several gates count in, as in `redis://host:6379/0`. Without one each gate counts for itself.",
    ),
    key("store_user", Kind::Text, "", "The user to log in to it as."),
    key(
        "store_password",
        Kind::Reference,
        "",
        "Secret reference of the password there.",
    ),
    key(
        "on_unavailable",
        Kind::Choice(POSTURES),
        "local",
        "While the store cannot be asked: each gate goes on by its own counters, with its share of the limit (`local`), nobody is limited (`open`), \
         or nobody is let in (`closed`). No request waits for it longer than 25 ms.",
    ),
];

pub static DRAIN: &[Key] = &[
    key(
        "delay",
        Kind::Duration(0..=HOUR_MS),
        "5s",
        "How long a gate that was told to terminate says so at `/readyz` and still takes everything, so that whoever sends it work learns of it.",
    ),
    key(
        "timeout",
        Kind::Duration(1..=HOUR_MS),
        "30s",
        "How long calls under way have after that. The rest is cancelled, answered and recorded.",
    ),
];
