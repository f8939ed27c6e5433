//! Bounds that can never apply: whoever wrote them believes that something is bounded, and nothing is.

use policy::context::ToolPattern;
use wire::builtin::Family;

use super::super::{fields::Fields, finding::Finding};

/// The tools that a bound means something to, by the key it is written under. Paths are looked for in the arguments of every tool.
const OF_FAMILIES: &[(&str, &[&str], &str)] = &[
    ("domain_allowlist", &["web", "email"], "hosts"),
    ("allowed_domains", &["web", "email"], "hosts"),
    ("account_allowlist", &["email"], "mail accounts"),
    ("command_allowlist", &["cmd"], "commands"),
    ("subcommand_allowlist", &["cmd"], "commands"),
    ("timeout_ceiling_secs", &["cmd"], "commands"),
    ("max_output_bytes", &["cmd"], "commands"),
    ("env_var_denylist", &["cmd"], "commands"),
];

/// Points at bounds of a pattern that none of its tools has a use for. A pattern of another family, or of several, may have.
pub(super) fn point_out(pattern: &ToolPattern, fields: Fields<'_>, findings: &mut Vec<Finding>) {
    let text = pattern.to_string();
    let Some(family) = text
        .split_once('.')
        .map(|(family, _)| family)
        .filter(|family| is_known(family))
    else {
        return;
    };
    let written = OF_FAMILIES.iter().filter(|(name, ..)| fields.knows(name));
    for (name, families, about) in written.filter(|(_, families, _)| !families.contains(&family)) {
        if let Some(node) = fields.node(name) {
            let what =
                format!("`{name}` bounds nothing here: `{text}` has nothing to do with {about}");
            let owner = families.first().copied().unwrap_or_default();
            findings.push(Finding::warning(
                node.place,
                what,
                format!("remove it, or write it for `{owner}.*`"),
            ));
        }
    }
}

/// Of management tools nobody knows what their arguments are about.
fn is_known(family: &str) -> bool {
    Family::from_word(family).is_some_and(|family| family != Family::Management)
}
