use std::{fs, path::Path};

use policy::context::ToolPattern;
use tempfile::TempDir;

use super::*;
use crate::Resolved;

fn resolved(dir: &TempDir, text: &str) -> Resolved {
    crate::parse(&dir.path().join("portcullis.yaml"), text)
        .unwrap_or_else(|report| panic!("{report}"))
}

const MANIFEST: &str = r#"
apiVersion: 100monkeys.ai/v1
kind: Agent
metadata: { name: coder, version: 1.0.0 }
spec:
  runtime: { language: python, version: "3.11" }
  security_context: code
  execution: { mode: iterative, max_calls_per_execution: 40 }
  tools:
    - fs.read
    - name: cmd
      executor: "builtin:cmd"
      config:
        subcommand_allowlist:
          git: [clone, add, commit, push, status]
          cargo: [build, test, fmt, clippy]
"#;

#[test]
fn a_manifest_gives_its_tools_and_the_lower_limit_holds() {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("coder.yaml"), MANIFEST).unwrap();
    let text = "security_contexts: { code: {} }\nagents: { coder: coder.yaml, slow: { manifest: coder.yaml, max_calls_per_execution: 7 } }";
    let resolved = resolved(&dir, text);
    let contexts = load(&resolved).unwrap();
    let coder = contexts.agent("coder").unwrap();
    assert_eq!(
        (
            coder.max_calls_per_execution,
            coder.security_context.as_deref()
        ),
        (Some(40), Some("code"))
    );
    let patterns: Vec<_> = coder
        .tools
        .iter()
        .map(|tool| tool.pattern.clone())
        .collect();
    assert_eq!(
        patterns,
        [
            ToolPattern::Exact("fs.read".to_owned()),
            ToolPattern::Prefix("cmd.".to_owned())
        ]
    );
    assert!(coder.tools[1].subcommand_allowlist.is_some());
    assert_eq!(
        contexts.agent("slow").unwrap().max_calls_per_execution,
        Some(7)
    );
    assert_eq!(
        files(&resolved),
        [dir.path().join("coder.yaml"), dir.path().join("coder.yaml")]
    );
}

#[test]
fn a_manifest_with_a_mistake_says_where_and_nothing_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("coder.yaml");
    let resolved = resolved(&dir, "agents:\n  coder: coder.yaml\n");
    let found = || {
        let findings = load(&resolved).unwrap_err();
        assert_eq!((findings.len(), findings[0].place.line), (1, 2));
        findings[0]
            .what
            .replace(&dir.path().display().to_string(), "DIR")
    };
    assert!(found().starts_with("cannot read the manifest DIR/coder.yaml"));
    fs::write(&file, "kind: Workflow\n").unwrap();
    assert_eq!(
        found(),
        "DIR/coder.yaml:1:1: this is not an agent's manifest"
    );
    fs::write(
        &file,
        "kind: Agent\nspec:\n  tools:\n    - { name: mail, server: mcp:mail, config: { allowed_operations: [read] } }\n",
    )
    .unwrap();
    assert!(
        found().contains("coder.yaml:4:") && found().contains("unknown key `allowed_operations`"),
        "{}",
        found()
    );
    fs::write(&file, MANIFEST).unwrap();
    assert!(found().ends_with("asks for the context `code`, which is not there"));
}

/// Every example of the page is one that the program reads.
#[test]
fn the_examples_of_the_page_are_read() {
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/integrate/contexts.md");
    let text = fs::read_to_string(page).unwrap();
    let dir = tempfile::tempdir().unwrap();
    let examples: Vec<&str> = text
        .split("```yaml\n")
        .skip(1)
        .filter_map(|rest| rest.split("```").next())
        .collect();
    assert!(examples.len() >= 5, "{}", examples.len());
    for example in examples {
        if example.contains("kind: Agent") {
            signed::read_manifest("manifest", example)
                .unwrap_or_else(|report| panic!("{report}\n{example}"));
            continue;
        }
        let resolved = resolved(&dir, example);
        assert!(
            resolved
                .warnings
                .iter()
                .all(|warning| !warning.what.contains("no effect")),
            "{:?}",
            resolved.warnings
        );
    }
}
