//! Who may use a server and its tools, how often, and what becomes of what it changes.
//!
//! A rule can only be read as strictly as it is written: a list that names nobody and a word that could be meant either way are
//! refused rather than guessed at.

use std::collections::BTreeMap;

use gateway::settings::{Access, ArgumentRole, Arrivals, Rate, Sealing, ToolRule};
use policy::Permission;
use vocab::ToolName;

use super::{
    check::join,
    fields::Fields,
    finding::Finding,
    keys,
    tree::{Key, Node},
    units,
};

/// The reason, where the server is blocked.
pub(super) fn blocked(
    fields: Fields<'_>,
    path: &str,
    findings: &mut Vec<Finding>,
) -> Option<String> {
    let node = fields.node("blocked")?;
    let text = node.text()?;
    if node.flag().is_some() || text.trim().is_empty() {
        let what = format!("`{path}.blocked` is the reason, in words");
        findings.push(Finding::error(
            node.place,
            what,
            "write why, as in `blocked: \"leaks tokens\"`; to unblock, remove the key",
        ));
    } else if text.chars().count() > api::MAX_REASON {
        let what = format!(
            "`{path}.blocked` is longer than {} characters",
            api::MAX_REASON
        );
        findings.push(Finding::error(node.place, what, "say it in one sentence"));
    }
    Some(text.to_owned())
}

pub(super) fn rate(fields: Fields<'_>) -> Option<Rate> {
    let (calls, per) = units::rate(fields.written("rate_limit")?)?;
    Some(Rate { calls, per })
}

pub(super) fn injection_scan(fields: Fields<'_>, path: &str, findings: &mut Vec<Finding>) -> bool {
    let scan = fields.flag("injection_scan");
    if let (false, Some(node)) = (scan, fields.node("injection_scan")) {
        let what = format!("`{path}` is not looked at for injections");
        findings.push(Finding::warning(
            node.place,
            what,
            "remove the key, unless its arguments are meant to look like commands",
        ));
    }
    scan
}

pub(super) fn arrivals(definitions: Fields<'_>, name: &str) -> Arrivals {
    if definitions.text(name) == "accept" {
        Arrivals::Accept
    } else {
        Arrivals::Quarantine
    }
}

/// Who may use the whole server.
pub(super) fn server_access(fields: Fields<'_>, path: &str, findings: &mut Vec<Finding>) -> Access {
    let Some(node) = fields.node("access") else {
        return Access::default();
    };
    let access = access(fields.table("access"), findings);
    if access.is_open() {
        let what = format!("`{path}.access` lists nobody");
        let fix = "list users, departments or agents; remove `access` to let everyone in, or write `blocked` to let nobody in";
        findings.push(Finding::error(node.place, what, fix));
    }
    access
}

fn access(fields: Fields<'_>, findings: &mut Vec<Finding>) -> Access {
    for node in ["users", "departments", "agents"]
        .into_iter()
        .flat_map(|name| fields.items(name))
    {
        let Some(name) = node.text() else { continue };
        if !is_name(name) {
            let what = format!("`{name}` cannot be the name of a user, department or agent");
            let fix = "use 1 to 64 printable characters; there are no patterns, and no list at all means everyone";
            findings.push(Finding::error(node.place, what, fix));
        }
    }
    Access {
        users: fields.texts("users"),
        departments: fields.texts("departments"),
        agents: fields.texts("agents"),
    }
}

/// Whether a credential could carry this as its user, department or agent.
fn is_name(name: &str) -> bool {
    vocab::is_caller_name(name) && name != "*"
}

/// The rule of tools that are not listed, and those of the listed ones. `remote`: users can have accounts of their own there.
pub(super) fn tools(
    fields: Fields<'_>,
    path: &str,
    remote: bool,
    findings: &mut Vec<Finding>,
) -> (ToolRule, BTreeMap<String, ToolRule>) {
    let path = join(path, "tools");
    let entries = fields.entries("tools");
    let (mut default, mut listed) = (ToolRule::default(), BTreeMap::new());
    // What the others leave out, so it comes first wherever it is written.
    if let Some((key, node)) = entries.iter().find(|(key, _)| key.name == "*") {
        default = Rule {
            path: &path,
            key,
            node,
            remote,
        }
        .read(&ToolRule::default(), findings);
    }
    for (key, node) in entries.iter().filter(|(key, _)| key.name != "*") {
        if let Err(error) = ToolName::parse(&key.name) {
            let what = format!("`{}` cannot be a tool's name: {error}", key.name);
            findings.push(Finding::error(
                key.place,
                what,
                "write the name as `portcullis tools list` shows it after `__`",
            ));
            continue;
        }
        let rule = Rule {
            path: &path,
            key,
            node,
            remote,
        }
        .read(&default, findings);
        listed.insert(key.name.clone(), narrowed(rule));
    }
    (narrowed(default), listed)
}

/// A rule that lists anyone is for those it lists.
fn narrowed(mut rule: ToolRule) -> ToolRule {
    if rule.permission == Permission::Permitted && !rule.access.is_open() {
        rule.permission = Permission::Restricted;
    }
    rule
}

/// A tool's rule being read.
struct Rule<'a> {
    path: &'a str,
    key: &'a Key,
    node: &'a Node,
    remote: bool,
}

impl Rule<'_> {
    fn read(&self, default: &ToolRule, findings: &mut Vec<Finding>) -> ToolRule {
        if let Some(word) = self.node.text() {
            return ToolRule {
                permission: permission(word),
                ..default.clone()
            };
        }
        let fields = Fields::new(Some(self.node), keys::TOOL_RULE);
        let lists = ["users", "departments", "agents"]
            .into_iter()
            .any(|name| fields.node(name).is_some());
        let rule = ToolRule {
            permission: fields
                .written("permission")
                .map_or(default.permission, permission),
            access: if lists {
                access(fields, findings)
            } else {
                default.access.clone()
            },
            rate: rate(fields).or(default.rate),
            effect: fields
                .written("effect")
                .and_then(|text| text.parse().ok())
                .or(default.effect),
            open_world: fields
                .node("open_world")
                .and_then(Node::flag)
                .or(default.open_world),
            timeout: fields
                .node("timeout")
                .map(|_| fields.duration("timeout"))
                .or(default.timeout),
            is_hitl: fields
                .node("is_hitl")
                .and_then(Node::flag)
                .unwrap_or(default.is_hitl),
            requires_user_auth: fields
                .node("requires_user_auth")
                .and_then(Node::flag)
                .unwrap_or(default.requires_user_auth),
            roles: match fields.node("roles") {
                Some(_) => self.roles(fields, findings),
                None => default.roles.clone(),
            },
            sealed: match fields.written("sealed") {
                Some("never") => Sealing::Never,
                Some("always") => Sealing::Always,
                Some(_) => Sealing::Asked,
                None => default.sealed,
            },
        };
        self.refuse_contradictions(fields, &rule, findings);
        rule
    }

    /// What the arguments are for.
    fn roles(
        &self,
        fields: Fields<'_>,
        findings: &mut Vec<Finding>,
    ) -> BTreeMap<String, ArgumentRole> {
        let mut roles = BTreeMap::new();
        for (key, node) in fields.entries("roles") {
            match node.text().and_then(ArgumentRole::parse) {
                Some(role) => _ = roles.insert(key.name.clone(), role),
                None => {
                    let path = join(&join(self.path, &self.key.name), "roles");
                    let what = format!("`{path}.{}` is no role of an argument", key.name);
                    let words = ArgumentRole::ALL.map(ArgumentRole::as_str).join(", ");
                    findings.push(Finding::error(
                        node.place,
                        what,
                        format!("write one of {words}"),
                    ));
                }
            }
        }
        roles
    }

    fn refuse_contradictions(
        &self,
        fields: Fields<'_>,
        rule: &ToolRule,
        findings: &mut Vec<Finding>,
    ) {
        let path = join(self.path, &self.key.name);
        if rule.permission == Permission::Blocked && !rule.access.is_open() {
            let what = format!("`{path}` is blocked, and lists who may call it");
            findings.push(Finding::error(
                self.key.place,
                what,
                "remove the lists, or write `permission: restricted`",
            ));
        }
        if let (true, false, Some(node)) = (
            rule.requires_user_auth,
            self.remote,
            fields.node("requires_user_auth"),
        ) {
            let what = format!(
                "`{path}.requires_user_auth` needs a server with a `url`: a program has no account to sign in to"
            );
            findings.push(Finding::error(
                node.place,
                what,
                "remove it, or connect to the server by `url`",
            ));
        }
    }
}

fn permission(word: &str) -> Permission {
    match word {
        "permitted" => Permission::Permitted,
        "restricted" => Permission::Restricted,
        _ => Permission::Blocked,
    }
}
