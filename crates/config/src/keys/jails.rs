//! Keys about jails: which walls stand around a stdio server, and what it sees through them.

use super::{Key, Kind, key};

/// What may stand under `jail` as one word.
/// The same for all servers that say nothing: a container is chosen by the command.
const DEFAULTS: &[&str] = &["contained", "offline", "strict", "none"];
const PROFILES: &[&str] = &["contained", "offline", "strict", "container", "none"];

/// `jails`.
pub static JAILS: &[Key] = &[
    key(
        "default",
        Kind::Choice(DEFAULTS),
        "contained",
        "The profile of stdio servers whose entry names none. `docker` and `podman` are `container`.",
    ),
    key(
        "container_socket",
        Kind::Text,
        "",
        "The socket of the container runtime, for servers that run in containers. Whoever reaches it is as strong as the runtime: no server does. \
         Without it the usual places are tried.",
    ),
];

/// `mcp_servers.ID.jail`.
pub(crate) const JAIL: Key = key(
    "jail",
    Kind::TableOrWord(JAIL_KEYS, PROFILES),
    "",
    "The walls around the program: a profile, or a map. `contained` has a home of its own, sees what the entry names, and reaches the network \
     on TCP ports 443 and 53; `offline` has no network; `strict` sees only `read` and `write`, and its home forgets; `container` is for `docker run` and `podman run`, whose options are \
     bounded; `none` is no jail.",
);

pub static JAIL_KEYS: &[Key] = &[
    key(
        "profile",
        Kind::Choice(PROFILES),
        "",
        "Which walls. Without it `jails.default` holds.",
    ),
    key(
        "read",
        Kind::TextList,
        "[]",
        "Files and directories it may read, besides those that stand in `args`, `env` and `cwd`.",
    ),
    key(
        "write",
        Kind::TextList,
        "[]",
        "Files and directories it may write.",
    ),
    key(
        "unprotect",
        Kind::TextList,
        "[]",
        "Protected places (keys, browsers, histories, the gate itself) that it may be granted all the same.",
    ),
    key(
        "ports",
        Kind::TextList,
        "[]",
        "TCP ports it may connect to besides 443 and 53.",
    ),
    key(
        "listen",
        Kind::Flag,
        "false",
        "Whether it may listen on TCP ports, as for logins that call back.",
    ),
    key(
        "namespaces",
        Kind::Flag,
        "false",
        "Whether it may build walls of its own, as browsers do.",
    ),
    key(
        "home_mb",
        Kind::Count(1..=1_048_576),
        "2048",
        "How much its own home may hold on the disk, in MiB. A server whose home holds more is ended; `servers reinstall ID` empties it.",
    ),
    key(
        "update",
        Kind::Choice(&["always", "never"]),
        "always",
        "Whether `npx` and `uvx` may fetch newer versions at a start. With `never` they use what they fetched before.",
    ),
];
