//! Agents: what their manifests list, written here or in a manifest of their own.

use std::path::Path;

use gateway::settings::ServerSpec;
use policy::context::{AgentTool, AgentTools, BadPattern, DomainPattern, PathPattern, ToolPattern};

use super::{
    super::{
        check,
        fields::Fields,
        finding::{Finding, Place, Report, nearest},
        keys::{self, Kind},
        resolve::path_at,
        resolved::AgentEntry,
        secret,
        tree::{self, Key, Node},
    },
    count, idle, is_family, pattern, patterns, size, subcommands, tenant,
};

/// `contexts` and `servers` are those that can be named.
pub(in super::super) fn agents(
    node: Option<&Node>,
    contexts: &[policy::SecurityContext],
    servers: &[ServerSpec],
    base: &Path,
    findings: &mut Vec<Finding>,
) -> Vec<AgentEntry> {
    let entries = node.and_then(Node::entries).unwrap_or_default();
    for (_, node) in entries {
        for tool in node.get("tools").and_then(Node::items).unwrap_or_default() {
            point_out_strangers(tool, servers, findings);
        }
    }
    entries
        .iter()
        .map(|(key, node)| agent(key, node, contexts, base, findings))
        .collect()
}

/// A server that is not there allows nothing. It may come yet, so nothing is refused for it.
fn point_out_strangers(tool: &Node, servers: &[ServerSpec], findings: &mut Vec<Finding>) {
    let named = tool
        .text()
        .and_then(|text| text.strip_prefix("mcp:"))
        .map(|name| (name, tool.place));
    let written = || {
        tool.get("server")
            .and_then(|node| Some((node.text()?, node.place)))
    };
    let Some((name, place)) = named.or_else(written) else {
        return;
    };
    let name = name.strip_prefix("mcp:").unwrap_or(name);
    if servers.iter().any(|server| server.id.as_str() == name) {
        return;
    }
    let fix = match nearest(name, servers.iter().map(|server| server.id.as_str())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "add it to `mcp_servers`, or remove it here".to_owned(),
    };
    findings.push(Finding::warning(
        place,
        format!("there is no server `{name}`, so this allows nothing"),
        fix,
    ));
}

fn agent(
    key: &Key,
    node: &Node,
    contexts: &[policy::SecurityContext],
    base: &Path,
    findings: &mut Vec<Finding>,
) -> AgentEntry {
    let is_name = key.name.len() <= 64
        && key
            .name
            .starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && key
            .name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_name {
        let what = format!("`{}` cannot be an agent's name", key.name);
        findings.push(Finding::error(
            key.place,
            what,
            "use lower-case letters, digits and `-`, at most 64",
        ));
    }
    if node.text().is_some() {
        let agent = AgentTools {
            name: key.name.clone(),
            ..AgentTools::default()
        };
        return AgentEntry {
            agent,
            manifest: path_at(node, base, findings),
            place: key.place,
        };
    }
    let fields = Fields::new(Some(node), keys::AGENT);
    let manifest = fields
        .node("manifest")
        .and_then(|node| path_at(node, base, findings));
    if let (Some(_), Some(node)) = (&manifest, fields.node("tools")) {
        let what = format!("`agents.{}` has both `manifest` and `tools`", key.name);
        findings.push(Finding::error(node.place, what, "keep one of the two"));
    }
    let security_context = fields.node("security_context");
    if let Some(node) = security_context {
        check_context(
            node.text().unwrap_or_default(),
            node.place,
            contexts,
            findings,
        );
    }
    let agent = AgentTools {
        name: key.name.clone(),
        tools: fields
            .items("tools")
            .iter()
            .filter_map(|node| tool(node, findings))
            .collect(),
        max_calls_per_execution: count(fields, "max_calls_per_execution"),
        subcommand_allowlist: subcommands(fields),
        security_context: security_context.and_then(Node::text).map(str::to_owned),
        tenant: tenant(fields, findings),
    };
    AgentEntry {
        agent,
        manifest,
        place: key.place,
    }
}

fn check_context(
    name: &str,
    place: Place,
    contexts: &[policy::SecurityContext],
    findings: &mut Vec<Finding>,
) {
    if contexts.iter().any(|context| context.name == name) {
        return;
    }
    let fix = match nearest(name, contexts.iter().map(|context| context.name.as_str())) {
        Some(near) => format!("did you mean `{near}`?"),
        None => "add it to `security_contexts`".to_owned(),
    };
    findings.push(Finding::error(
        place,
        format!("there is no context `{name}`"),
        fix,
    ));
}

/// One entry of a list of tools: a name, a pattern, `mcp:server`, or a map.
fn tool(node: &Node, findings: &mut Vec<Finding>) -> Option<AgentTool> {
    let Some(text) = node.text() else {
        return table(node, findings);
    };
    if let Some(server) = text.strip_prefix("mcp:") {
        return Some(AgentTool {
            server: Some(server.to_owned()),
            pattern: ToolPattern::Any,
            ..AgentTool::default()
        });
    }
    let pattern = pattern(node, ToolPattern::parse, findings)?;
    if is_family(text) {
        let what = format!("`{text}` is a family of tools and matches none of them");
        findings.push(Finding::warning(
            node.place,
            what,
            format!("write `{text}.*`, or a tool such as `{text}.…`"),
        ));
    }
    Some(AgentTool {
        pattern,
        ..AgentTool::default()
    })
}

fn table(node: &Node, findings: &mut Vec<Finding>) -> Option<AgentTool> {
    let fields = Fields::new(Some(node), keys::AGENT_TOOL);
    let name = fields.text("name");
    let pattern = match (fields.node("server"), fields.node("executor")) {
        (Some(_), Some(other)) => {
            findings.push(Finding::error(
                other.place,
                "a tool has a `server` or an `executor`, not both",
                "keep one of the two",
            ));
            return None;
        }
        // A name without a dot is a label.
        (Some(_), None) if !name.contains('.') => Ok(ToolPattern::Any),
        (None, Some(executor)) if !name.contains('.') => {
            executor_pattern(executor.text().unwrap_or_default())
        }
        _ => ToolPattern::parse(name),
    };
    let pattern = match pattern {
        Ok(pattern) => pattern,
        Err(bad) => {
            let place = fields
                .node("executor")
                .or(fields.node("name"))
                .unwrap_or(node)
                .place;
            findings.push(Finding::error(place, "this names no tool", bad.0));
            return None;
        }
    };
    let config = fields.table("config");
    idle::point_out(&pattern, config, findings);
    Some(AgentTool {
        pattern,
        server: fields
            .written("server")
            .map(|text| text.strip_prefix("mcp:").unwrap_or(text).to_owned()),
        subcommand_allowlist: subcommands(config),
        env_denylist: config.texts("env_var_denylist"),
        max_calls_per_execution: count(config, "max_calls_per_execution"),
        allowed_paths: patterns(config, "allowed_paths", PathPattern::parse, findings),
        allowed_domains: patterns(config, "allowed_domains", DomainPattern::parse, findings),
        timeout_ceiling_secs: count(config, "timeout_ceiling_secs"),
        max_output_bytes: size(config, "max_output_bytes"),
    })
}

fn executor_pattern(executor: &str) -> Result<ToolPattern, BadPattern> {
    let family = executor
        .strip_prefix("builtin:")
        .ok_or(BadPattern("an executor is written `builtin:cmd`"))?;
    ToolPattern::parse(&format!("{family}.*"))
}

/// Sections of a manifest's `spec` that bound nothing: what runs, what it is told, what it starts with.
const WORDS_OF_SPEC: &[&str] = &["runtime", "task", "context", "env"];
/// What is read of `spec`, by section.
const READ_OF_SPEC: &[&str] = &[
    "tools",
    "security_context",
    "max_calls_per_execution",
    "execution.max_calls_per_execution",
];
/// Sections whose keys are controls of their own.
const CONTROLS_OF_SPEC: &[&str] = &["execution", "security"];

/// What a manifest asks for and this version does not do, by path. Whoever wrote it believes that something is bounded.
pub(crate) fn idle_in_manifest(text: &str) -> Vec<String> {
    let Ok(root) = tree::parse(text) else {
        return Vec::new();
    };
    let entries = |node: Option<&Node>| -> Vec<(String, bool)> {
        let entries = node.and_then(Node::entries).unwrap_or_default();
        entries
            .iter()
            .map(|(key, node)| (key.name.clone(), !node.is_null()))
            .collect()
    };
    let spec = root.get("spec");
    let mut idle = Vec::new();
    for (section, is_written) in entries(spec)
        .into_iter()
        .filter(|(name, _)| !WORDS_OF_SPEC.contains(&name.as_str()))
    {
        let inner = entries(spec.and_then(|spec| spec.get(&section)));
        if CONTROLS_OF_SPEC.contains(&section.as_str()) && !inner.is_empty() {
            idle.extend(
                inner
                    .into_iter()
                    .filter(|(_, is_written)| *is_written)
                    .map(|(name, _)| format!("{section}.{name}")),
            );
        } else if is_written {
            idle.push(section);
        }
    }
    idle.retain(|path| !READ_OF_SPEC.contains(&path.as_str()));
    idle.into_iter()
        .map(|path| format!("spec.{path}"))
        .collect()
}

/// The tools of an agent manifest. Of the manifest only `kind`, `spec.tools`, `spec.security_context` and `max_calls_per_execution` are
/// read; what stands in a tool's entry must all be known, because what is not known would not be enforced.
pub(crate) fn read_manifest(file: &str, text: &str) -> Result<AgentTools, Report> {
    let root = tree::parse(text).map_err(|findings| Report::new(file, text, findings))?;
    let mut findings = Vec::new();
    if root.get("kind").and_then(Node::text) != Some("Agent") {
        findings.push(Finding::error(
            root.place,
            "this is not an agent's manifest",
            "its `kind` must be `Agent`",
        ));
    }
    let spec = root.get("spec");
    let tools = spec.and_then(|spec| spec.get("tools"));
    if let Some(tools) = tools {
        check::check(
            tools,
            &Kind::TableList(keys::AGENT_TOOL),
            "spec.tools",
            &mut findings,
        );
    }
    let max_calls = spec.and_then(|spec| {
        let execution = spec
            .get("execution")
            .and_then(|execution| execution.get("max_calls_per_execution"));
        spec.get("max_calls_per_execution").or(execution)
    });
    if let Some(node) = max_calls {
        check::check(
            node,
            &Kind::Count(0..=1_000_000_000),
            "max_calls_per_execution",
            &mut findings,
        );
    }
    let agent = AgentTools {
        tools: tools
            .and_then(Node::items)
            .unwrap_or_default()
            .iter()
            .filter_map(|node| tool(node, &mut findings))
            .collect(),
        max_calls_per_execution: max_calls
            .and_then(Node::text)
            .and_then(|text| text.parse().ok()),
        security_context: spec
            .and_then(|spec| spec.get("security_context"))
            .and_then(Node::text)
            .map(str::to_owned),
        ..AgentTools::default()
    };
    let mut credentials = Vec::new();
    secret::find(&root, "", &mut credentials);
    let report = Report::hiding(file, text, findings, &credentials);
    if report.has_errors() {
        Err(report)
    } else {
        Ok(agent)
    }
}
