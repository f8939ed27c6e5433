//! Security contexts.

use policy::{
    SecurityContext,
    context::{
        AccountPattern, Capability, Denial, DomainPattern, PathPattern, RateLimit, ToolPattern,
    },
};

use super::{
    super::{
        fields::Fields,
        finding::Finding,
        keys,
        tree::{Key, Node},
        units,
    },
    count, idle, is_family, named, pattern, patterns, size, subcommands, tenant, texts,
};

pub(in super::super) fn contexts(
    node: Option<&Node>,
    findings: &mut Vec<Finding>,
) -> Vec<SecurityContext> {
    let entries = named(
        node,
        keys::CONTEXT,
        keys::LISTED_CONTEXT,
        "a context",
        findings,
    );
    entries
        .into_iter()
        .map(|(key, fields)| context(&key, fields, findings))
        .collect()
}

fn context(key: &Key, fields: Fields<'_>, findings: &mut Vec<Finding>) -> SecurityContext {
    let is_name = key.name.starts_with(|c: char| c.is_ascii_lowercase())
        && key.name.len() <= 128
        && key
            .name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_name {
        let what = format!("`{}` cannot be a context's name", key.name);
        let fix = "use lower-case letters, digits and `-`, beginning with a letter";
        findings.push(Finding::error(key.place, what, fix));
    }
    SecurityContext {
        name: key.name.clone(),
        description: fields.text("description").to_owned(),
        capabilities: fields
            .items("capabilities")
            .iter()
            .filter_map(|node| capability(node, findings))
            .collect(),
        deny_list: deny_list(fields, findings),
        tenant: owner(key, fields, findings),
    }
}

fn deny_list(fields: Fields<'_>, findings: &mut Vec<Finding>) -> Vec<Denial> {
    for node in fields.items("deny_list") {
        if let Some(family) = node.text().filter(|text| is_family(text)) {
            let what = format!("`{family}` is a family of tools, and denies none of them");
            findings.push(Finding::error(
                node.place,
                what,
                format!("write `{family}.*`, or a tool such as `{family}.…`"),
            ));
        }
    }
    patterns(fields, "deny_list", Denial::parse, findings).unwrap_or_default()
}

/// A name that speaks for a tenant is that tenant's, and nobody else may use the prefix.
fn owner(key: &Key, fields: Fields<'_>, findings: &mut Vec<Finding>) -> Option<String> {
    let Some(tenant) = tenant(fields, findings) else {
        let named = SecurityContext::tenant_of(&key.name);
        // Everybody's, although whoever wrote it meant somebody.
        if named.is_none() && key.name.starts_with("tenant-") {
            let what = format!(
                "`{}` begins like a tenant's context, and does not say whose",
                key.name
            );
            findings.push(Finding::error(
                key.place,
                what,
                "call it `tenant-{slug}-…`, or something else",
            ));
        }
        return named.map(str::to_owned);
    };
    let is_theirs = key
        .name
        .strip_prefix(&format!("tenant-{tenant}-"))
        .is_some_and(|rest| !rest.is_empty());
    if key.name.starts_with("tenant-") && !is_theirs {
        let what = format!(
            "`{}` is named after another tenant than `{tenant}`",
            key.name
        );
        findings.push(Finding::error(
            key.place,
            what,
            format!("call it `tenant-{tenant}-…`, or change `tenant`"),
        ));
    }
    Some(tenant)
}

fn capability(node: &Node, findings: &mut Vec<Finding>) -> Option<Capability> {
    if node.text().is_some() {
        return pattern(node, ToolPattern::parse, findings).map(|tool_pattern| Capability {
            tool_pattern,
            ..Capability::default()
        });
    }
    let fields = Fields::new(Some(node), keys::CONTEXT_CAPABILITY);
    let Some(tool) = fields.node("tool_pattern") else {
        findings.push(Finding::error(
            node.place,
            "a capability has a `tool_pattern`",
            "add one, as in `tool_pattern: fs.*`",
        ));
        return None;
    };
    let tool_pattern = pattern(tool, ToolPattern::parse, findings)?;
    idle::point_out(&tool_pattern, fields, findings);
    Some(Capability {
        tool_pattern,
        path_allowlist: patterns(fields, "path_allowlist", PathPattern::parse, findings),
        command_allowlist: texts(fields, "command_allowlist"),
        subcommand_allowlist: subcommands(fields),
        domain_allowlist: patterns(fields, "domain_allowlist", DomainPattern::parse, findings),
        account_allowlist: patterns(fields, "account_allowlist", AccountPattern::parse, findings),
        rate_limit: rate(fields, findings),
        max_response_size: size(fields, "max_response_size"),
        max_concurrent: count(fields, "max_concurrent").and_then(|count| u32::try_from(count).ok()),
    })
}

fn rate(fields: Fields<'_>, findings: &mut Vec<Finding>) -> Option<RateLimit> {
    let node = fields.node("rate_limit")?;
    if let Some(text) = node.text() {
        let (calls, per) = units::rate(text)?;
        return Some(RateLimit {
            calls,
            per_seconds: u32::try_from(per.as_secs()).unwrap_or(u32::MAX),
        });
    }
    let table = fields.table("rate_limit");
    if table.node("calls").is_none() {
        findings.push(Finding::error(
            node.place,
            "`rate_limit` has no `calls`",
            "write `{ calls: 30, per_seconds: 60 }`, or `30/min`",
        ));
    }
    let whole = |name| u32::try_from(table.count(name)).unwrap_or(u32::MAX);
    Some(RateLimit {
        calls: whole("calls"),
        per_seconds: whole("per_seconds"),
    })
}
