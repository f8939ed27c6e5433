//! `docs/use/config.md`, drawn from the table of keys.

use std::fmt::Write as _;

use super::{
    corp,
    keys::{self, Key, Kind},
    units,
};

const HEAD: &str = "\
# Configuration

<!-- Drawn from crates/config/src/keys.rs by `cargo xtask codegen`. -->

One file, `portcullis.yaml`, in YAML; the parts of YAML that surprise people are left out: anchors, aliases, merge keys, custom tags and repeated keys are
refused, a file has at most 1 MiB and 32 levels. `portcullis config path` says where it is, `portcullis config check` names every
mistake with its line and its repair, `portcullis config explain` shows every value and where it came from. A file with a mistake
changes nothing: the gate keeps what it had.

A running gate follows the file within a second or two, and the files it names, in everything but `listen`, `doors`, `admin_listen`,
`trust.ca_files` and a larger `limits.max_result_bytes`. Those hold after a restart; until then standard error, the ledger, `portcullis
status` and `portcullis config explain` name them.

```yaml
mcp_servers:
  github:
    command: npx
    args: [\"-y\", \"@modelcontextprotocol/server-github\"]
    env:
      GITHUB_PERSONAL_ACCESS_TOKEN: keychain:github-pat   # portcullis secret set github-pat
    classification: CONFIDENTIAL
    rate_limit: 60/min
    tools:
      delete_repository: blocked
      create_issue: { departments: [eng], rate_limit: 5/min, effect: consequential }
  search:
    url: https://mcp.example.com/mcp
    bearer: env:SEARCH_TOKEN
    classification: PUBLIC
```

Credentials are never written here. A value is a reference to one: `env:NAME` (a variable of the gate's own environment),
`keychain:name` (stored with `portcullis secret set name`), `secret:engine/path#field` (a secret store; without `#field` the field
is `value`). A literal credential is refused with its line. A `secret:` reference needs a store under `secrets.stores` that
has the engine; without one, what needs the secret does not start.

Some keys of files written for other gates are accepted and do nothing here. They are marked below, and `portcullis config check`
warns of each one that a file uses.

Durations are written `30s`, `500ms`, `2m`, `1h`, or as a number of seconds; sizes as a number of bytes, or `512 KiB`, `4 MiB`;
rates as `5/s`, `60/min`, `1000/h`.
Levels are `PUBLIC`, `INTERNAL`, `CONFIDENTIAL`, `RESTRICTED`, in capitals.
";

/// The whole page.
#[must_use]
pub fn reference() -> String {
    let mut page = HEAD.to_owned();
    section(&mut page, "Top of the file", keys::ROOT);
    section(&mut page, "doors[]", keys::DOOR);
    section(&mut page, "doors[].tls", keys::doors::TLS);
    section(&mut page, "doors[].tls.more[]", keys::doors::PAIR);
    section(&mut page, "doors[].mtls", keys::doors::MTLS);
    section(&mut page, "doors[].mtls.callers[]", keys::doors::HOLDER);
    section(&mut page, "doors[].proxies", keys::doors::PROXIES);
    section(&mut page, "rate_limit", keys::ADDRESS_RATE);
    section(&mut page, "drain", keys::DRAIN);
    section(&mut page, "policy", keys::POLICY);
    section(&mut page, "approvals", keys::APPROVALS);
    section(&mut page, "audit", keys::AUDIT);
    section(&mut page, "audit.sinks[]", keys::SINK);
    section(&mut page, "limits", keys::LIMITS);
    section(&mut page, "trust", keys::TRUST);
    section(&mut page, "retry", keys::RETRY);
    section(&mut page, "mcp_servers.ID", keys::SERVER);
    section(&mut page, "mcp_servers.ID.access", keys::ACCESS_LISTS);
    section(&mut page, "mcp_servers.ID.definitions", keys::ARRIVING);
    section(&mut page, "mcp_servers.ID.tools.NAME", keys::TOOL_RULE);
    section(&mut page, "mcp_servers.ID.health_check", keys::HEALTH);
    section(&mut page, "mcp_servers.ID.allow", keys::ALLOWANCES);
    section(&mut page, "mcp_servers.ID.capabilities[]", keys::CAPABILITY);
    section(&mut page, "mcp_servers.ID.resource_limits", keys::RESOURCES);
    section(&mut page, "mcp_servers.ID.jail", keys::JAIL_KEYS);
    section(&mut page, "jails", keys::JAILS);
    page.push_str(
        "\n## mcp_servers[] (the list form)\n\nThe same keys, with `name` for the id. Only what differs from the map form is listed.\n\n",
    );
    rows(
        &mut page,
        keys::LISTED_SERVER
            .iter()
            .filter(|key| keys::SERVER.iter().all(|other| other.name != key.name)),
    );
    page.push_str(
        "\nIts `health_check` asks `tools/list` every 60 seconds unless told otherwise.\n",
    );
    section(&mut page, "volumes.NAME", keys::VOLUME);
    section(&mut page, "volumes.NAME.access", keys::ACCESS_LISTS);
    section(&mut page, "web", keys::WEB);
    section(&mut page, "web.access", keys::ACCESS_LISTS);
    section(&mut page, "web.search[]", keys::ENGINE);
    section(&mut page, "security_contexts.NAME", keys::CONTEXT);
    section(
        &mut page,
        "security_contexts.NAME.capabilities[]",
        keys::CONTEXT_CAPABILITY,
    );
    section(
        &mut page,
        "security_contexts.NAME.capabilities[].rate_limit",
        keys::CONTEXT_RATE,
    );
    section(&mut page, "agents.NAME", keys::AGENT);
    section(&mut page, "agents.NAME.tools[]", keys::AGENT_TOOL);
    section(
        &mut page,
        "agents.NAME.tools[].config",
        keys::AGENT_TOOL_CONFIG,
    );
    section(&mut page, "builtin_dispatchers.NAME", keys::DISPATCHER);
    section(
        &mut page,
        "builtin_dispatchers.NAME.capabilities[]",
        keys::CAPABILITY,
    );
    section(&mut page, "seal", keys::SEAL);
    section(&mut page, "connectors", keys::CONNECTORS);
    section(&mut page, "secrets", keys::SECRETS);
    section(&mut page, "secrets.stores.NAME", keys::STORE);
    section(&mut page, "secrets.stores.NAME.auth", keys::STORE_AUTH);
    section(&mut page, "oauth", keys::OAUTH);
    section(&mut page, "oauth.issuers[]", keys::ISSUER);
    page.push_str("\n## The company's file\n\nWhat only a company's signed file has; see [layers](../operate/layers.md).\n");
    section(&mut page, "corp.yaml", corp::CORP);
    section(&mut page, "corp.yaml: locks[]", corp::LOCK);
    section(&mut page, "corp.yaml: forbid[]", corp::FORBID);
    section(&mut page, "corp.yaml: registry[]", corp::REGISTERED);
    page
}

fn section(page: &mut String, title: &str, keys: &[Key]) {
    // Writing to a String cannot fail.
    let _ = write!(page, "\n## {title}\n\n");
    rows(page, keys.iter());
}

fn rows<'a>(page: &mut String, keys: impl Iterator<Item = &'a Key>) {
    page.push_str("| key | type | default | |\n|---|---|---|---|\n");
    for key in keys {
        let default = if key.default.is_empty() {
            String::new()
        } else {
            format!("`{}`", key.default)
        };
        let idle = if key.idle.is_empty() {
            ""
        } else {
            " No effect in this version."
        };
        let _ = writeln!(
            page,
            "| `{}` | {} | {default} | {}{idle} |",
            key.name,
            kind(&key.kind),
            key.doc
        );
    }
}

fn kind(kind: &Kind) -> String {
    let words = |choices: &[&str]| {
        choices
            .iter()
            .map(|choice| format!("`{choice}`"))
            .collect::<Vec<_>>()
            .join(", ")
    };
    match kind {
        Kind::Text => "text".to_owned(),
        Kind::Flag => "`true`, `false`".to_owned(),
        Kind::Count(range) => format!("{} to {}", range.start(), range.end()),
        Kind::Size(range) => format!(
            "size, {} to {}",
            units::show_size(*range.start()),
            units::show_size(*range.end())
        ),
        Kind::Duration(range) => {
            let show = |ms: &u64| units::show_duration(std::time::Duration::from_millis(*ms));
            format!("duration, {} to {}", show(range.start()), show(range.end()))
        }
        Kind::Choice(choices) => words(choices),
        Kind::Reference => "secret reference".to_owned(),
        Kind::TextList => "list of text".to_owned(),
        Kind::TextMap => "map of name to text".to_owned(),
        Kind::ReferenceMap => "map of name to secret reference".to_owned(),
        Kind::Rate => "calls per time".to_owned(),
        Kind::RuleMap(choices, _) => {
            format!("map of name to {}, or to a map, below", words(choices))
        }
        Kind::Table(_) => "map, below".to_owned(),
        Kind::TableOrWord(_, words) => format!("map, below, or `{}`", words.join("`, `")),
        Kind::TableList(_) => "list of names, or of maps, below".to_owned(),
        Kind::Servers(..) | Kind::Named(..) => "map or list, below".to_owned(),
        Kind::AgentMap(_) => "map of name to path, or to a map, below".to_owned(),
        Kind::Subcommands => "map of name to list of text, or list of text".to_owned(),
        Kind::RateOrTable(_) => "calls per time, or a map, below".to_owned(),
    }
}
