//! AEGIS's `kind: NodeConfig`, read as a person's file: what it has under `spec` and this gate has too counts as if it stood at the top.
//!
//! Everything else that such a document asks for is named, never ignored.

use super::{
    layers::PassedOver,
    tree::{Node, Value},
};

/// What a node's configuration and ours both have, in the same words.
const SHARED: [&str; 4] = [
    "mcp_servers",
    "builtin_dispatchers",
    "security_contexts",
    "seal",
];
/// What only says which document this is.
const FRAME: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// What to write here for the same, where there is something.
const INSTEAD: [(&str, &str); 5] = [
    ("network", "write `listen` for the address of the door"),
    ("secrets", "write `secrets.stores` at the top of the file"),
    ("iam", "write `oauth` at the top of the file"),
    ("storage", "write `volumes` at the top of the file"),
    (
        "observability",
        "write `audit.sinks` at the top of the file",
    ),
];

/// The tree that the document means, and what of it means nothing here. A file of ours is given back as it is.
pub(super) fn lifted(root: Node) -> (Node, Vec<PassedOver>) {
    if root.get("kind").and_then(Node::text) != Some("NodeConfig") {
        return (root, Vec::new());
    }
    let mut passed_over = Vec::new();
    let place = root.place;
    let Value::Map(entries) = root.value else {
        return (root, passed_over);
    };
    let mut top = Vec::new();
    for (key, node) in entries {
        match key.name.as_str() {
            name if FRAME.contains(&name) => {}
            "spec" => {
                let Value::Map(spec) = node.value else {
                    top.push((key, node));
                    continue;
                };
                for (key, node) in spec {
                    if SHARED.contains(&key.name.as_str()) {
                        top.push((key, node));
                        continue;
                    }
                    let instead = INSTEAD.iter().find(|(name, _)| *name == key.name);
                    let instead =
                        instead.map_or_else(String::new, |(_, words)| format!("; {words}"));
                    passed_over.push(PassedOver {
                        path: format!("spec.{}", key.name),
                        place: key.place,
                        node,
                        why: format!(
                            "this gate has nothing that a node's configuration calls so{instead}"
                        ),
                    });
                }
            }
            _ => top.push((key, node)),
        }
    }
    let root = Node {
        place,
        value: Value::Map(top),
    };
    (root, passed_over)
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use crate::{edit, parse};

    const NODE: &str = "\
apiVersion: 100monkeys.ai/v1
kind: NodeConfig
metadata: { name: edge-1 }
spec:
  node: { id: edge-1, type: edge }
  network: { bind_address: 127.0.0.1, port: 8088 }
  llm_providers: [{ name: local, type: ollama }]
  mcp_servers:
    - name: github
      executable: github-mcp
      capabilities: [github.issues]
      credentials: { GITHUB_TOKEN: env:GITHUB_TOKEN }
  security_contexts:
    - name: code
      capabilities: [{ tool_pattern: 'github.*' }]
  secrets: { backend: { address: https://bao.example } }
listen: 127.0.0.1:9
";

    #[test]
    fn a_nodes_configuration_is_read_and_what_is_not_here_is_named() {
        let resolved = parse(Path::new("aegis-config.yaml"), NODE).unwrap();
        assert!(resolved.server("github").is_some());
        assert_eq!(resolved.contexts.len(), 1);
        assert_eq!(
            resolved.listen.port(),
            9,
            "keys of ours may stand beside `spec`"
        );
        let named: Vec<(&str, usize)> = resolved
            .warnings
            .iter()
            .filter_map(|warning| {
                Some((
                    warning.what.split_once("` does not count")?.0,
                    warning.place.line,
                ))
            })
            .collect();
        assert_eq!(
            named,
            [
                ("`spec.node", 5),
                ("`spec.network", 6),
                ("`spec.llm_providers", 7),
                ("`spec.secrets", 16)
            ]
        );
        assert!(
            parse(
                Path::new("x"),
                "kind: NodeConfig\nspec: { mcp_servers: [{ name: a, comand: b }] }\n"
            )
            .is_err()
        );
        assert!(parse(Path::new("x"), "kind: Other\n").is_err());
    }

    #[test]
    fn a_nodes_configuration_is_edited_in_its_own_form() {
        let edited = edit::set_enabled(NODE, "github", false).unwrap();
        assert!(
            edited.contains("      enabled: false\n  security_contexts:"),
            "{edited}"
        );
        assert!(
            !parse(Path::new("x"), &edited)
                .unwrap()
                .server("github")
                .unwrap()
                .standing
                .eq(&gateway::settings::Standing::Enabled)
        );
    }
}
