//! The built-in tools of the node, and the ceilings nothing exceeds.

use policy::context::{Ceilings, DomainPattern, ToolPattern};
use wire::builtin::Family;

use super::{
    super::{
        fields::Fields,
        finding::{Finding, nearest},
        keys,
        tree::{Key, Node},
    },
    count, is_family, named, size, subcommands,
};

/// Keys that mean something to one family only.
const OF_CMD: &[&str] = &[
    "default_timeout_secs",
    "max_timeout_ceiling_secs",
    "max_output_bytes",
    "max_concurrent_per_execution",
    "workspace_bytes",
    "global_env_denylist",
    "subcommand_allowlist",
];
const OF_WEB: &[&str] = &["search_host"];

pub(in super::super) fn dispatchers(node: Option<&Node>, findings: &mut Vec<Finding>) -> Ceilings {
    let mut ceilings = Ceilings::default();
    for (key, fields) in named(
        node,
        keys::DISPATCHER,
        keys::LISTED_DISPATCHER,
        "a dispatcher",
        findings,
    ) {
        let family = key
            .name
            .strip_prefix("builtin:")
            .unwrap_or(&key.name)
            .to_owned();
        let known = is_family(&family);
        let Some(pattern) = ToolPattern::parse(&format!("{family}.*"))
            .ok()
            .filter(|_| known)
        else {
            let words = Family::ALL.map(Family::word);
            let fix = match nearest(&family, words.into_iter()) {
                Some(near) => format!("did you mean `{near}`?"),
                None => format!("the families are {}", words.join(", ")),
            };
            findings.push(Finding::error(
                key.place,
                format!("`{}` is no family of built-in tools", key.name),
                fix,
            ));
            continue;
        };
        if !fields.flag("enabled") {
            ceilings.disabled.push(pattern);
        }
        for (owner, names) in [("cmd", OF_CMD), ("web", OF_WEB)] {
            refuse_foreign(owner, names, &family, fields, findings);
        }
        match family.as_str() {
            "cmd" => commands(&key, fields, &mut ceilings, findings),
            "web" => search_host(fields, &mut ceilings, findings),
            _ => {}
        }
    }
    ceilings
}

/// Keys that would silently do nothing.
fn refuse_foreign(
    owner: &str,
    names: &[&str],
    family: &str,
    fields: Fields<'_>,
    findings: &mut Vec<Finding>,
) {
    if owner == family {
        return;
    }
    for (name, node) in names
        .iter()
        .filter_map(|name| Some((name, fields.node(name)?)))
    {
        let what =
            format!("`builtin_dispatchers.{family}.{name}` only means something for `{owner}`");
        findings.push(Finding::error(
            node.place,
            what,
            format!("move it to `{owner}`, or remove it"),
        ));
    }
}

fn commands(key: &Key, fields: Fields<'_>, ceilings: &mut Ceilings, findings: &mut Vec<Finding>) {
    let set = |name: &str, place: &mut u64| {
        if let Some(value) = count(fields, name) {
            *place = value;
        }
    };
    set(
        "max_timeout_ceiling_secs",
        &mut ceilings.max_timeout_ceiling_secs,
    );
    ceilings.default_timeout_secs = ceilings
        .default_timeout_secs
        .min(ceilings.max_timeout_ceiling_secs);
    set("default_timeout_secs", &mut ceilings.default_timeout_secs);
    if ceilings.default_timeout_secs > ceilings.max_timeout_ceiling_secs {
        let place = fields
            .node("default_timeout_secs")
            .map_or(key.place, |node| node.place);
        let what = "`default_timeout_secs` is more than `max_timeout_ceiling_secs`";
        findings.push(Finding::error(
            place,
            what,
            format!("write at most `{}`", ceilings.max_timeout_ceiling_secs),
        ));
    }
    if let Some(bytes) = size(fields, "max_output_bytes") {
        ceilings.max_output_bytes = bytes;
    }
    if let Some(bytes) = size(fields, "workspace_bytes") {
        ceilings.workspace_bytes = bytes;
    }
    if let Some(most) = count(fields, "max_concurrent_per_execution") {
        ceilings.max_concurrent_per_execution = u32::try_from(most).unwrap_or(u32::MAX);
    }
    ceilings.env_denylist = fields.texts("global_env_denylist");
    ceilings.subcommand_allowlist = subcommands(fields);
}

fn search_host(fields: Fields<'_>, ceilings: &mut Ceilings, findings: &mut Vec<Finding>) {
    let Some(node) = fields.node("search_host") else {
        return;
    };
    let Some(text) = node.text() else { return };
    if text.contains(['*', ':']) || text.starts_with('.') || DomainPattern::parse(text).is_err() {
        findings.push(Finding::error(
            node.place,
            format!("`{text}` is not a host"),
            "write it as in `html.duckduckgo.com`",
        ));
    }
    text.clone_into(&mut ceilings.search_host);
}
