//! The keys of signed calls: contexts, agents, the node's ceilings, the seal.

use super::{CAPABILITY, KIB, Key, Kind, MIB, key};

/// One context in the map form.
pub static CONTEXT: &[Key] = &[DESCRIPTION, CONTEXT_CAPABILITIES, DENY_LIST, CONTEXT_TENANT];

/// One context in the list form.
pub static LISTED_CONTEXT: &[Key] = &[
    key("name", Kind::Text, "", "The context's name."),
    DESCRIPTION,
    CONTEXT_CAPABILITIES,
    DENY_LIST,
    CONTEXT_TENANT,
];

const DESCRIPTION: Key = key("description", Kind::Text, "", "What it is for, in words.");
const CONTEXT_CAPABILITIES: Key = key(
    "capabilities",
    Kind::TableList(CONTEXT_CAPABILITY),
    "[]",
    "What may be called, and within which bounds: a list of maps, or of bare patterns for tools without bounds. Without any, nothing may \
     be called.",
);
const DENY_LIST: Key = key(
    "deny_list",
    Kind::TextList,
    "[]",
    "What may not be called whatever the capabilities say: `fs.delete`, `fs.*`, `*`, or with an argument `cmd.run:rm`, \
     `fs.read:/etc/*`, `web.fetch:*.example.com`.",
);
const CONTEXT_TENANT: Key = key(
    "tenant",
    Kind::Text,
    "",
    "Whose context it is. A name that begins with `tenant-{slug}-` says so itself; only a slug with a `-` in it must be written here too.",
);

pub static CONTEXT_CAPABILITY: &[Key] = &[
    key(
        "tool_pattern",
        Kind::Text,
        "",
        "`fs.read`, `fs.*` (the dot and at least one more character), `github__*`, or `*`.",
    ),
    key(
        "path_allowlist",
        Kind::TextList,
        "",
        "Paths that may be touched. An entry covers what it matches and everything beneath it; `*` and `?` match within one \
         component, `**` any number of them. Without the key paths are not bounded; an empty list allows none.",
    ),
    key(
        "command_allowlist",
        Kind::TextList,
        "",
        "Commands that may be run, exactly as they are asked for.",
    ),
    SUBCOMMANDS,
    key(
        "domain_allowlist",
        Kind::TextList,
        "",
        "Hosts that may be reached: `example.com` and what is under it, `*.example.com` only what is under it, an IP address, or `*`; \
         `:443` at the end for one port. For mail, the hosts of all recipients.",
    ),
    key(
        "account_allowlist",
        Kind::TextList,
        "",
        "Mail accounts that may be used: an address, `*@example.com`, or a name. A call must then name its account.",
    ),
    key(
        "rate_limit",
        Kind::RateOrTable(CONTEXT_RATE),
        "",
        "The most calls of one session under this capability: `30/min`, or a map with `calls` and `per_seconds`.",
    ),
    key(
        "max_response_size",
        Kind::Size(1..=1024 * MIB),
        "",
        "The largest result, in bytes.",
    ),
    key(
        "max_concurrent",
        Kind::Count(1..=65_536),
        "",
        "Calls of one session under this capability in flight at once.",
    ),
];

const SUBCOMMANDS: Key = key(
    "subcommand_allowlist",
    Kind::Subcommands,
    "",
    "Map of command to the first arguments it may have, where an empty list stands for any; or one list for every command. The first \
     argument counts as it stands: an option before a subcommand must be listed itself.",
);

pub static CONTEXT_RATE: &[Key] = &[
    key("calls", Kind::Count(1..=1_000_000), "", "So many calls."),
    key(
        "per_seconds",
        Kind::Count(1..=86_400),
        "60",
        "In so many seconds.",
    ),
];

pub static AGENT: &[Key] = &[
    key(
        "tools",
        Kind::TableList(AGENT_TOOL),
        "[]",
        "The tools it may use: names and patterns, `mcp:server` for all of a server, or maps. Without any it may use none.",
    ),
    key(
        "manifest",
        Kind::Text,
        "",
        "Path of an agent manifest (`kind: Agent`) whose `spec.tools` is read instead. Relative paths start at the directory of this \
         file. A path in place of the whole map means the same.",
    ),
    key(
        "max_calls_per_execution",
        Kind::Count(0..=1_000_000_000),
        "",
        "Calls that one execution may make.",
    ),
    SUBCOMMANDS,
    key(
        "security_context",
        Kind::Text,
        "",
        "The context its sessions are in. They need not name it, and cannot be in another.",
    ),
    key("tenant", Kind::Text, "", "Whose agent it is."),
];

pub static AGENT_TOOL: &[Key] = &[
    key(
        "name",
        Kind::Text,
        "",
        "The tool, or a label beside `server` or `executor`.",
    ),
    key(
        "server",
        Kind::Text,
        "",
        "Only tools of this server: `mcp:id` or its id. A `name` without a dot then stands for all of them.",
    ),
    key(
        "executor",
        Kind::Text,
        "",
        "`builtin:cmd` and the like: the tools of that family.",
    ),
    key(
        "config",
        Kind::Table(AGENT_TOOL_CONFIG),
        "",
        "What this entry takes back of what the context allows.",
    ),
];

pub static AGENT_TOOL_CONFIG: &[Key] = &[
    SUBCOMMANDS,
    key(
        "env_var_denylist",
        Kind::TextList,
        "[]",
        "Variables its commands are not given.",
    )
    .idle("remove it: commands are given no variables but the fixed ones"),
    key(
        "max_calls_per_execution",
        Kind::Count(0..=1_000_000_000),
        "",
        "Calls that one execution may make of each tool under this entry.",
    ),
    key("allowed_paths", Kind::TextList, "", "Paths it may touch."),
    key("allowed_domains", Kind::TextList, "", "Hosts it may reach."),
    key(
        "timeout_ceiling_secs",
        Kind::Count(1..=86_400),
        "",
        "The most time a command may ask for. Never more than the node allows.",
    ),
    key(
        "max_output_bytes",
        Kind::Size(1..=1024 * MIB),
        "",
        "The most a command may print. Never more than the node allows.",
    ),
];

/// One family of built-in tools in the map form.
pub static DISPATCHER: &[Key] = &[
    DISPATCHER_DESCRIPTION,
    DISPATCHER_ENABLED,
    DISPATCHER_CAPABILITIES,
    API_KEY,
    DEFAULT_TIMEOUT,
    MAX_TIMEOUT,
    MAX_OUTPUT,
    MAX_CONCURRENT,
    WORKSPACE_BYTES,
    ENV_DENYLIST,
    SUBCOMMANDS,
    SEARCH_HOST,
];

/// The same in the list form.
pub static LISTED_DISPATCHER: &[Key] = &[
    key(
        "name",
        Kind::Text,
        "",
        "The family: `cmd`, `fs`, `web`, … or `builtin:cmd`.",
    ),
    DISPATCHER_DESCRIPTION,
    DISPATCHER_ENABLED,
    DISPATCHER_CAPABILITIES,
    API_KEY,
    DEFAULT_TIMEOUT,
    MAX_TIMEOUT,
    MAX_OUTPUT,
    MAX_CONCURRENT,
    WORKSPACE_BYTES,
    ENV_DENYLIST,
    SUBCOMMANDS,
    SEARCH_HOST,
];

const DISPATCHER_DESCRIPTION: Key = key("description", Kind::Text, "", "What it is for, in words.");
const DISPATCHER_ENABLED: Key = key(
    "enabled",
    Kind::Flag,
    "true",
    "`false` switches the whole family off on this node.",
);
const DISPATCHER_CAPABILITIES: Key = key(
    "capabilities",
    Kind::TableList(CAPABILITY),
    "[]",
    "Its tools, where something is to be said about one.",
)
.idle("remove it: what a session may call is said in its context and its agent's tools");
const API_KEY: Key = key("api_key", Kind::Reference, "", "Secret reference.")
    .idle("give it to the server that needs it, in its `credentials`");
const DEFAULT_TIMEOUT: Key = key(
    "default_timeout_secs",
    Kind::Count(1..=86_400),
    "",
    "`cmd` only: the time of a command that asks for none. 60 without it.",
);
const MAX_TIMEOUT: Key = key(
    "max_timeout_ceiling_secs",
    Kind::Count(1..=86_400),
    "",
    "`cmd` only: the most time any command may ask for, whatever a manifest says. 300 without it.",
);
const MAX_OUTPUT: Key = key(
    "max_output_bytes",
    Kind::Size(KIB..=1024 * MIB),
    "",
    "`cmd` only: the most any command may print, whatever a manifest says. 512 KiB without it.",
);
const MAX_CONCURRENT: Key = key(
    "max_concurrent_per_execution",
    Kind::Count(1..=65_536),
    "",
    "`cmd` only: commands of one execution that may run at once. 1 without it.",
);
const WORKSPACE_BYTES: Key = key(
    "workspace_bytes",
    Kind::Size(MIB..=1024 * 1024 * MIB),
    "",
    "`cmd` only: how much the workspace of one caller may hold. A command that makes it hold more is ended. 2048 MiB without it.",
);
const ENV_DENYLIST: Key = key(
    "global_env_denylist",
    Kind::TextList,
    "[]",
    "`cmd` only: variables no command is given.",
)
.idle("remove it: commands are given no variables but the fixed ones");
const SEARCH_HOST: Key = key(
    "search_host",
    Kind::Text,
    "",
    "`web` only: where `web.search` asks. A context that bounds domains must allow it. `html.duckduckgo.com` without it.",
);

pub static SEAL: &[Key] = &[
    key(
        "issuer",
        Kind::Text,
        "aegis-orchestrator",
        "Who signs tokens: their `iss`.",
    ),
    key(
        "audiences",
        Kind::TextList,
        "[aegis-agents]",
        "Whom tokens are for: their `aud`.",
    ),
    key(
        "token_ttl_seconds",
        Kind::Count(1..=86_400),
        "3600",
        "How long a token is good.",
    ),
    key(
        "private_key_path",
        Kind::Text,
        "",
        "PEM file with the key that signs tokens. Without it the gate makes one and keeps it in its home. Relative paths start at the \
         directory of this file.",
    ),
    key(
        "public_key_path",
        Kind::Text,
        "",
        "PEM file with the public half, where it is not to be derived from the other.",
    ),
    key(
        "max_sessions_per_workload",
        Kind::Count(1..=10_000),
        "8",
        "Sessions that one launched workload may have open at once; and one credential, whatever it calls its workloads.",
    ),
];
