//! No key is accepted in silence: it has an effect, or whoever writes it is told that it has none.

use std::{fs, path::Path};

use vocab::{NameError, ServerId};

use super::{
    super::keys::{self, Key, Kind},
    good,
};

/// What carries the effect of a key beyond the configuration, where it is not called like the key.
const CARRIED_BY: &[(&str, &str)] = &[
    ("mcp_servers", "servers"),
    ("resource_limits", "memory"),
    ("memory_mb", "memory"),
    ("home_mb", "home_bytes"),
    ("cpu_millicores", "millicores"),
    ("update", "offline_packages"),
    ("default", "profile"),
    ("executable", "command"),
    ("health_check", "health"),
    ("interval_seconds", "interval"),
    ("timeout_seconds", "timeout"),
    ("security_contexts", "contexts"),
    ("builtin_dispatchers", "ceilings"),
    ("executor", "pattern"),
    ("token_ttl_seconds", "ttl"),
    ("public_key_path", "public_key"),
    ("jwks_url", "keys"),
    ("jwks_file", "keys"),
    ("rotate_size", "rotate_bytes"),
    ("trust", "ca_files"),
    ("narrowed", "narrowed_definitions"),
    ("manifest", "contexts"),
    ("dpop", "proofs"),
    ("hardlinks", "allows_hardlinks"),
    ("mounts", "allows_mounts"),
    ("connectors", "connector_commands"),
    ("commands", "connector_commands"),
    ("role_id", "auth"),
    ("secret_id", "auth"),
    ("jwt_file", "auth"),
    ("not_after", "not_after_ms"),
    ("locks", "newly_passed_over"),
    ("forbid", "refuses"),
    ("registry", "refuses"),
    ("cert", "certificate"),
    ("more", "pairs"),
    ("mtls", "clients"),
    ("mode", "certificates"),
    ("crl", "revocation"),
    ("uri", "name"),
    ("dns", "name"),
    ("operator", "is_operator"),
    ("protocol", "preamble"),
    ("plain_from", "only_from"),
    ("store_user", "user"),
    ("store_password", "password"),
    ("on_unavailable", "posture"),
    ("tool_timeout", "budget"),
    ("engine", "engines"),
];

/// Every key with an effect, with the path to it. What stands below an idle key is idle too.
fn walk(keys: &'static [Key], path: &str, found: &mut Vec<(String, &'static str)>) {
    for key in keys.iter().filter(|key| key.idle.is_empty()) {
        let path = format!("{path}.{}", key.name);
        match &key.kind {
            Kind::RuleMap(_, keys)
            | Kind::Table(keys)
            | Kind::TableOrWord(keys, _)
            | Kind::TableList(keys)
            | Kind::AgentMap(keys)
            | Kind::RateOrTable(keys) => walk(keys, &path, found),
            Kind::Servers(mapped, listed) | Kind::Named(mapped, listed) => {
                walk(mapped, &path, found);
                walk(listed, &path, found);
            }
            _ => {}
        }
        found.push((path, key.name));
    }
}

/// The sources of everything that is told what the file says, and of nothing that reads the file or tests it.
fn sources(dir: &Path, text: &mut String) {
    for entry in fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let (path, name) = (entry.path(), entry.file_name());
        let name = name.to_string_lossy();
        let is_left_out = [
            "tests", "tests.rs", "config", "testkit", "xtask", "examples", "target",
        ]
        .contains(&name.as_ref());
        if path.is_dir() && !is_left_out {
            sources(&path, text);
        } else if name.ends_with(".rs") && !is_left_out {
            let source = fs::read_to_string(&path).unwrap();
            text.push_str(
                source
                    .split("#[cfg(test)]\nmod tests {")
                    .next()
                    .unwrap_or_default(),
            );
        }
    }
}

fn is_read(field: &str, sources: &str) -> bool {
    let after = |rest: &str| !rest.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_');
    let dotted = format!(".{field}");
    sources
        .match_indices(&dotted)
        .any(|(at, _)| sources.get(at + dotted.len()..).is_some_and(after))
}

#[test]
fn every_key_has_an_effect_or_says_that_it_has_none() {
    let mut text = String::new();
    sources(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut text);
    assert!(
        is_read("untrusted_influence", &text) && !is_read("env_var_denylist", &text),
        "the search itself works"
    );
    let mut found = Vec::new();
    walk(keys::ROOT, "", &mut found);
    walk(crate::corp::CORP, "corp.yaml: ", &mut found);
    assert!(found.len() > 100, "{}", found.len());
    let carried = |name: &'static str| {
        CARRIED_BY
            .iter()
            .find(|(key, _)| *key == name)
            .map_or(name, |(_, by)| *by)
    };
    let silent: Vec<&String> = found
        .iter()
        .filter(|(_, name)| !is_read(carried(name), &text))
        .map(|(path, _)| path)
        .collect();
    assert!(
        silent.is_empty(),
        "nothing outside the configuration reads these, and nobody is told: {silent:?}"
    );
}

#[test]
fn keys_without_an_effect_are_named() {
    let yaml = "\
mcp_servers:
  a: { command: a, env: { K: 'secret:kv/a#b' }, capabilities: [{ name: web.get, skip_judge: true }] }
  b: { url: 'https://b.example/mcp', bearer: 'secret:kv/b' }
  c: { command: c, credentials: { T: 'secret:kv/c#t' }, capabilities: [{ name: web.put, skip_judge: false }] }
agents:
  coder: { tools: [{ name: cmd.run, config: { env_var_denylist: [A] } }] }
builtin_dispatchers:
  cmd: { global_env_denylist: [B], api_key: 'env:C', capabilities: [{ name: cmd.run, skip_judge: true }] }
";
    let resolved = good(yaml);
    let named: Vec<&str> = resolved
        .warnings
        .iter()
        .filter(|warning| warning.what.contains("no effect"))
        .map(|w| &*w.what)
        .collect();
    for path in [
        "mcp_servers.a.env.K",
        "mcp_servers.a.capabilities[0].skip_judge",
        "mcp_servers.b.bearer",
        "mcp_servers.c.credentials.T",
        "agents.coder.tools[0].config.env_var_denylist",
        "builtin_dispatchers.cmd.global_env_denylist",
        "builtin_dispatchers.cmd.api_key",
        "builtin_dispatchers.cmd.capabilities",
    ] {
        assert!(
            named
                .iter()
                .any(|what| what.starts_with(&format!("`{path}` has no effect"))),
            "{path} is not in {named:#?}"
        );
    }
    assert!(
        !named
            .iter()
            .any(|what| what.contains("mcp_servers.c.capabilities")),
        "what says nothing is not named: {named:#?}"
    );
}

#[test]
fn controls_of_a_manifest_that_nothing_enforces_are_named() {
    let manifest = "\
kind: Agent
metadata: { name: judged }
spec:
  runtime: { language: python }
  task: { instruction: x }
  tools: [fs.read]
  security_context: code
  execution: { max_calls_per_execution: 5, tool_validation: [{ type: semantic }], iteration_timeout: 5s }
  security: { network: { mode: deny }, filesystem: { read: [/a] } }
  volumes: [{ name: v }]
  schedule:
";
    assert_eq!(
        crate::signed::idle_in_manifest(manifest),
        [
            "spec.execution.tool_validation",
            "spec.execution.iteration_timeout",
            "spec.security.network",
            "spec.security.filesystem",
            "spec.volumes"
        ]
    );
}

#[test]
fn the_page_names_every_id_that_no_server_can_have() {
    let page = keys::ROOT.iter().find(|key| key.name == "mcp_servers");
    let page = page.expect("a key for servers").doc;
    for id in ServerId::RESERVED {
        assert!(
            page.contains(&format!("`{id}`")),
            "`{id}` is not named: {page}"
        );
        assert_eq!(ServerId::parse(id), Err(NameError::Reserved));
    }
}
