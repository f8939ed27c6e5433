//! The nine clients' files as those clients write them, files that nobody should write, and canaries.

use std::path::PathBuf;

use super::*;

fn around() -> Surroundings {
    Surroundings {
        home: PathBuf::from("/srv/ada"),
        project: Some(PathBuf::from("/srv/ada/project")),
        ..Surroundings::default()
    }
}

fn client(id: &str) -> &'static Client {
    Client::named(id).unwrap()
}

fn read_as(id: &str, text: &str) -> Vec<Entry> {
    read(client(id), text, &around()).unwrap()
}

/// One line for an entry: what of it would be written where anybody can read it.
fn shown(entry: &Entry) -> String {
    let pairs = |pairs: &[(String, Value)]| -> String {
        pairs
            .iter()
            .map(|(name, value)| format!(" {name}={value}"))
            .collect()
    };
    let what = match &entry.server {
        Err(why) => format!("not: {why}"),
        Ok(server) => {
            let transport = match &server.transport {
                Transport::Stdio {
                    command,
                    args,
                    env,
                    env_files,
                    cwd,
                } => {
                    let args: String = args.iter().map(|(_, arg)| format!(" {arg}")).collect();
                    format!(
                        "{command}{args} |{}{} | {}",
                        pairs(env),
                        env_files.join(" "),
                        cwd.as_deref().unwrap_or_default()
                    )
                }
                Transport::Http {
                    url,
                    headers,
                    bearer,
                } => {
                    let bearer = bearer.as_ref().map(|bearer| format!(" bearer={bearer}"));
                    format!("{url} |{}{}", pairs(headers), bearer.unwrap_or_default())
                }
            };
            format!("{transport} {:?} {:?}", server.timeout_ms, server.filter)
        }
    };
    format!(
        "{} at {} {what} {:?} {:?}",
        entry.name,
        entry.at.join("/"),
        entry.notes,
        entry
            .loose
            .iter()
            .map(|(name, value)| format!("{name}={value}"))
            .collect::<Vec<_>>()
    )
}

/// For each client a file with a local and a remote server, both with a secret in clear and a variable where the client has those.
const FILES: [(&str, &str); 9] = [
    ("claude-code", include_str!("../fixtures/claude-code.json")),
    (
        "claude-desktop",
        include_str!("../fixtures/claude-desktop.json"),
    ),
    ("codex", include_str!("../fixtures/codex.toml")),
    ("cursor", include_str!("../fixtures/cursor.json")),
    ("gemini", include_str!("../fixtures/gemini.json")),
    ("opencode", include_str!("../fixtures/opencode.jsonc")),
    ("vscode", include_str!("../fixtures/vscode.jsonc")),
    ("windsurf", include_str!("../fixtures/windsurf.json")),
    ("zed", include_str!("../fixtures/zed.jsonc")),
];
/// What the secrets in those files have in common.
const CANARY: &str = "CaNaRy";

#[test]
fn every_clients_own_form_is_understood() {
    for (id, text) in FILES {
        let entries = read_as(id, text);
        let find = |name: &str| {
            entries
                .iter()
                .find(|entry| entry.name == name)
                .unwrap_or_else(|| panic!("{id}: {name}"))
        };
        let Ok(Server {
            transport: Transport::Stdio {
                command, args, env, ..
            },
            ..
        }) = &find("Local Server").server
        else {
            panic!("{id}: {}", shown(find("Local Server")));
        };
        assert_eq!(command, "npx", "{id}");
        assert!(
            matches!(args.as_slice(), [(_, Value::Text(a)), (_, Value::Text(b))] if a == "-y" && b == "@example/server"),
            "{id}"
        );
        assert!(
            env.iter().any(|(name, value)| name == "API_TOKEN"
                && matches!(value, Value::Secret(secret) if secret.expose().contains(CANARY))),
            "{id}: {}",
            shown(find("Local Server"))
        );
        let Ok(Server {
            transport: Transport::Http { url, bearer, .. },
            ..
        }) = &find("remote").server
        else {
            panic!("{id}: {}", shown(find("remote")));
        };
        assert_eq!(url, "https://mcp.example.com/mcp", "{id}");
        assert!(bearer.is_some(), "{id}: {}", shown(find("remote")));
        assert!(find("gate").is_gate, "{id}");
    }
}

#[test]
fn no_canary_is_given_out_as_text() {
    for (id, text) in FILES {
        assert!(text.contains(CANARY), "{id}");
        for entry in read_as(id, text) {
            let shown = shown(&entry);
            assert!(!shown.contains(CANARY), "{id}: {shown}");
        }
    }
}

#[test]
fn variables_are_named_and_directories_filled_in() {
    let of = |id: &str, text: &str| {
        let mut notes = Vec::new();
        let value = value::of_text(client(id), "X", text, &around(), &mut notes);
        format!("{value}{}", if notes.is_empty() { "" } else { " !" })
    };
    for (id, text, means) in [
        ("cursor", "${env:KEY}", "env:KEY"),
        ("claude-code", "${KEY}", "env:KEY"),
        ("claude-code", "${KEY:-x}", "env:KEY !"),
        ("gemini", "$KEY", "env:KEY"),
        ("opencode", "{env:KEY}", "env:KEY"),
        ("opencode", "{file:~/k}", "(a file's content)"),
        ("vscode", "${input:key}", "(asked for)"),
        ("vscode", "${workspaceFolder}/x", "/srv/ada/project/x"),
        ("cursor", "${userHome}/x", "/srv/ada/x"),
        ("cursor", "a ${env:KEY}", "a ${env:KEY} !"),
        ("zed", "${KEY}", "${KEY}"),
        ("claude-desktop", "$KEY", "$KEY"),
    ] {
        assert_eq!(of(id, text), means, "{id} {text}");
    }
}

#[test]
fn a_bridge_to_an_address_becomes_the_address() {
    let text = r#"{"mcpServers": {"a": {"command": "npx", "args": ["-y", "mcp-remote@latest", "https://a.example/mcp", "--header", "Authorization: Bearer ghp_CaNaRyCaNaRyCaNaRy1"]}}}"#;
    let entries = read_as("cursor", text);
    let Ok(Server {
        transport: Transport::Http { url, bearer, .. },
        ..
    }) = &entries[0].server
    else {
        panic!()
    };
    assert_eq!(url, "https://a.example/mcp");
    assert!(matches!(bearer, Some(Value::Secret(secret)) if secret.expose().starts_with("ghp_")));
}

#[test]
fn every_field_with_a_canary_keeps_it() {
    const TOKEN: &str = "ghp_CaNaRyCaNaRyCaNaRyCaNaRy12";
    for entry in [
        format!(r#"{{"command": "x", "args": ["--token", "{CANARY}"]}}"#),
        format!(r#"{{"command": "x", "args": ["--api-key={CANARY}"]}}"#),
        format!(r#"{{"command": "x", "args": ["{TOKEN}"]}}"#),
        format!(r#"{{"command": "x", "args": ["--a=b={TOKEN}"]}}"#),
        format!(
            r#"{{"command": "x", "env": {{"PASSWORD": "{CANARY}", "A": "{TOKEN}", "B": "postgres://u:{CANARY}@h/d"}}}}"#
        ),
        format!(r#"{{"command": "x", "env": {{"{TOKEN}": "x"}}}}"#),
        format!(r#"{{"command": "{TOKEN}"}}"#),
        format!(r#"{{"command": "x", "cwd": "{TOKEN}"}}"#),
        format!(r#"{{"command": "x", "{TOKEN}": 1}}"#),
        format!(r#"{{"command": "x", "includeTools": ["{TOKEN}"]}}"#),
        format!(r#"{{"url": "https://u:{CANARY}@h.example/mcp"}}"#),
        format!(r#"{{"url": "https://{TOKEN}@h.example/mcp"}}"#),
        format!(r#"{{"url": "https://h.example/mcp?api_key={CANARY}&a=b"}}"#),
        format!(r#"{{"url": "https://h.example/{TOKEN}/mcp"}}"#),
        format!(r#"{{"url": "https://h.example/mcp#{TOKEN}"}}"#),
        format!(r#"{{"url": "{TOKEN}://h.example/mcp"}}"#),
        format!(
            r#"{{"url": "https://h.example/mcp", "headers": {{"Authorization": "Basic {CANARY}", "X-Api-Key": "{CANARY}", "{TOKEN}": "a"}}}}"#
        ),
        format!(
            r#"{{"url": "https://h.example/mcp", "auth": {{"CLIENT_ID": "a", "CLIENT_SECRET": "{CANARY}"}}}}"#
        ),
        format!(r#"{{"url": "https://h.example/mcp", "type": "{TOKEN}"}}"#),
    ] {
        let text = format!(r#"{{"mcpServers": {{"a": {entry}}}}}"#);
        let entries = read_as("cursor", &text);
        let shown = shown(&entries[0]);
        assert!(!shown.contains(CANARY), "{entry}\n{shown}");
    }
    let named = format!(r#"{{"mcpServers": {{"{TOKEN}": {{"command": "x"}}}}}}"#);
    assert!(read_as("cursor", &named)[0].server.is_err());
}

#[test]
fn forty_malformed_files_are_refused_or_leave_the_good_entry() {
    let deep = format!("{}1{}", "{\"a\":".repeat(200), "}".repeat(200));
    let long = format!(
        "{{\"mcpServers\": {{}}, \"x\": \"{}\"}}",
        "y".repeat(MOST_BYTES)
    );
    let many: String = (0..600)
        .map(|number| format!("\"s{number}\": {{\"command\": \"x\"}},"))
        .collect();
    let many = format!("{{\"mcpServers\": {{{many}}}}}");
    let refused = [
        "{",
        "[]",
        "1",
        "\"x\"",
        "null",
        "{\"mcpServers\": ",
        "{\"mcpServers\": []}",
        "{\"mcpServers\": 1}",
        "{\"mcpServers\": \"x\"}",
        "{\"mcpServers\": null}",
        "{\"mcpServers\": {}} {}",
        "{/* \"mcpServers\": {}}",
        "{'mcpServers': {}}",
        "{mcpServers: {}}",
        "{\"a\": 01}",
        "{\"a\": NaN}",
        "{,,}",
        "{\"a\": \"\u{1}\"}",
        &deep,
        &long,
        &many,
    ];
    for text in refused {
        assert!(
            read(client("cursor"), text, &around()).is_err(),
            "{}",
            text.get(..60).unwrap_or(text)
        );
    }
    let entries = [
        "1",
        "[]",
        "null",
        "\"x\"",
        "{}",
        "{\"command\": 1}",
        "{\"command\": \"\"}",
        "{\"command\": []}",
        "{\"command\": {}}",
        "{\"command\": \"a\\nb\"}",
        "{\"command\": \"x\", \"args\": \"y\"}",
        "{\"command\": \"x\", \"args\": [[]]}",
        "{\"command\": \"x\", \"env\": []}",
        "{\"command\": \"x\", \"env\": {\"A\": {}}}",
        "{\"command\": \"x\", \"url\": \"https://h\"}",
        "{\"url\": 1}",
        "{\"url\": \"h\"}",
        "{\"url\": \"unix:///x\"}",
        "{\"url\": \"https://h\", \"headers\": []}",
        "{\"url\": \"https://h\", \"headers\": {\"a\": []}}",
        "{\"url\": \"https://h\", \"type\": \"ws\"}",
        "{\"url\": \"${URL}\"}",
        "{\"command\": \"${CMD}\"}",
        "{\"command\": \"x\", \"cwd\": []}",
    ];
    for entry in entries {
        let text =
            format!("{{\"mcpServers\": {{\"bad\": {entry}, \"good\": {{\"command\": \"x\"}}}}}}");
        let entries = read_as("cursor", &text);
        assert_eq!(entries.len(), 2, "{entry}");
        assert!(entries[0].server.is_err(), "{entry}");
        assert!(entries[1].server.is_ok(), "{entry}");
    }
    for toml in [
        "[",
        "mcp_servers = 1",
        "[mcp_servers]\nx = 1\nx = 2",
        "[[mcp_servers]]",
        "a = \"ghp_CaNaRyCaNaRyCaNaRyCaNaRy",
    ] {
        let refused = read(client("codex"), toml, &around()).unwrap_err();
        assert!(!refused.contains(CANARY), "{refused}");
    }
}

#[test]
fn a_file_without_its_servers_has_the_gate_and_everything_else() {
    let gate = Gate {
        command: "/usr/bin/portcullis".to_owned(),
        args: vec!["connect".to_owned()],
    };
    for (id, text) in FILES {
        let entries = read_as(id, text);
        let all: Vec<Vec<String>> = entries
            .iter()
            .filter(|entry| entry.server.is_ok() && !entry.is_gate)
            .map(|entry| entry.at.clone())
            .collect();
        let after = without(client(id), text, &all, &gate).unwrap();
        assert!(!after.contains(CANARY), "{id}: {after}");
        assert!(
            after.contains("keep this comment") || !text.contains("keep this comment"),
            "{id}: {after}"
        );
        let left = read_as(id, &after);
        assert!(left.iter().any(|entry| entry.is_gate), "{id}: {after}");
        assert!(
            left.iter()
                .all(|entry| entry.is_gate || entry.server.is_err()),
            "{id}: {after}"
        );
    }
    // Where the gate is not there yet it is added, in the client's own form.
    for (id, text) in [
        ("cursor", r#"{"mcpServers": {"a": {"command": "x"}}}"#),
        ("vscode", r#"{"servers": {"a": {"command": "x"}}}"#),
        (
            "opencode",
            r#"{"mcp": {"a": {"type": "local", "command": ["x"]}}}"#,
        ),
        (
            "codex",
            "model = \"m\" # keep this comment\n\n[mcp_servers.a]\ncommand = \"x\"\n\n[mcp_servers.a.env]\nA = \"b\"\n",
        ),
        ("codex", "mcp_servers = { a = { command = \"x\" } }\n"),
        (
            "zed",
            "{\n  // keep this comment\n  \"context_servers\": {\n    \"a\": {\"command\": \"x\"},\n  },\n}\n",
        ),
    ] {
        let at = read_as(id, text)[0].at.clone();
        let after = without(client(id), text, &[at], &gate).unwrap();
        let left = read_as(id, &after);
        assert!(
            matches!(left.as_slice(), [entry] if entry.is_gate),
            "{id}: {after}"
        );
    }
}

#[test]
fn ids_are_the_narrower_grammar_of_names() {
    for (name, id) in [
        ("GitHub MCP", "github-mcp"),
        ("a__b", "a-b"),
        ("builtin", "builtin-server"),
        ("@scope/x.y", "scope-x-y"),
        ("日本", "server"),
        ("", "server"),
    ] {
        assert_eq!(id_of(name), id);
    }
    assert!(vocab::ServerId::parse(&id_of(&"long ".repeat(40))).is_ok());
}

#[test]
fn files_are_known_by_their_names_and_by_what_is_in_them() {
    for (path, text, id) in [
        ("/x/.cursor/mcp.json", "", "cursor"),
        ("/x/.vscode/mcp.json", "", "vscode"),
        ("/x/.mcp.json", "", "claude-code"),
        ("/x/config.toml", "", "codex"),
        ("/x/y.json", "{\"servers\": {}}", "vscode"),
        ("/x/y.json", "{\"context_servers\": {}}", "zed"),
    ] {
        assert_eq!(
            of_file(path.as_ref(), text).map(|client| client.id),
            Some(id),
            "{path}"
        );
    }
    assert_eq!(of_file("/x/y.json".as_ref(), "{}"), None);
    assert_eq!(
        env_file("# a\nexport A=b\nB = 'c d'\nnothing\n"),
        [
            ("A".to_owned(), "b".to_owned()),
            ("B".to_owned(), "c d".to_owned())
        ]
    );
}
