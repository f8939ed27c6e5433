use crate::snippets::*;

const URL: &str = "http://127.0.0.1:7878/mcp";
const TOKEN: &str = "pct_0123456789ABCDEFGHIJKLMN";

fn text<'a>(snippets: &'a [Snippet], client: &str, place: &str) -> &'a str {
    &snippets
        .iter()
        .find(|snippet| snippet.client == client && snippet.place == place)
        .unwrap()
        .text
}

#[test]
fn over_http() {
    let all = http(URL, TOKEN);
    assert_eq!(
        text(&all, "Claude Code", "shell"),
        "claude mcp add --transport http portcullis http://127.0.0.1:7878/mcp --header 'Authorization: Bearer pct_0123456789ABCDEFGHIJKLMN'"
    );
    assert_eq!(
        text(&all, "Codex", "~/.codex/config.toml"),
        "[mcp_servers.portcullis]\nurl = \"http://127.0.0.1:7878/mcp\"\n\
         http_headers = { Authorization = \"Bearer pct_0123456789ABCDEFGHIJKLMN\" }"
    );
    assert_eq!(
        text(&all, "Cursor", "~/.cursor/mcp.json"),
        r#"{
  "mcpServers": {
    "portcullis": {
      "url": "http://127.0.0.1:7878/mcp",
      "headers": {
        "Authorization": "Bearer pct_0123456789ABCDEFGHIJKLMN"
      }
    }
  }
}"#
    );
    let entry = |client, place, section: &str| {
        let value: Value = serde_json::from_str(text(&all, client, place)).unwrap();
        let mut entry = value[section]["portcullis"].clone();
        entry.as_object_mut().unwrap().remove("headers").unwrap();
        entry
    };
    assert_eq!(
        entry("Claude Code", ".mcp.json", "mcpServers"),
        json!({"type":"http","url":"http://127.0.0.1:7878/mcp"})
    );
    assert_eq!(
        entry("VS Code", ".vscode/mcp.json", "servers"),
        json!({"type":"http","url":"http://127.0.0.1:7878/mcp"})
    );
    assert_eq!(
        entry("Gemini CLI", "~/.gemini/settings.json", "mcpServers"),
        json!({"httpUrl":"http://127.0.0.1:7878/mcp"})
    );
    assert_eq!(
        entry("opencode", "opencode.json", "mcp"),
        json!({"enabled":true,"oauth":false,"type":"remote","url":"http://127.0.0.1:7878/mcp"})
    );
}

#[test]
fn over_standard_input_and_output() {
    let all = stdio(
        Path::new("/opt/my tools/portcullis"),
        Some(Path::new("/h")),
        &[],
    );
    assert_eq!(
        text(&all, "Claude Code", "shell"),
        "claude mcp add portcullis -- '/opt/my tools/portcullis' --home /h connect"
    );
    assert_eq!(
        text(&all, "Codex", "~/.codex/config.toml"),
        "[mcp_servers.portcullis]\ncommand = \"/opt/my tools/portcullis\"\nargs = [\"--home\", \"/h\", \"connect\"]"
    );
    let opencode: Value = serde_json::from_str(text(&all, "opencode", "opencode.json")).unwrap();
    assert_eq!(
        opencode["mcp"]["portcullis"]["command"],
        json!(["/opt/my tools/portcullis", "--home", "/h", "connect"])
    );
    let opencode: Value = serde_json::from_str(text(&all, "opencode 2", "opencode.json")).unwrap();
    assert_eq!(opencode["mcp"]["servers"]["portcullis"]["type"], "local");
    let plain = stdio(Path::new("portcullis"), None, &[]);
    let cursor: Value = serde_json::from_str(text(&plain, "Cursor", "~/.cursor/mcp.json")).unwrap();
    assert_eq!(
        cursor["mcpServers"]["portcullis"],
        json!({ "command": "portcullis", "args": ["connect"] })
    );
    assert!(
        plain.iter().all(|snippet| !snippet.text.contains("pct_")),
        "no token where none is needed"
    );
}

#[test]
fn rendered_with_their_places() {
    let text = render(&http(URL, TOKEN));
    assert!(text.starts_with("# Claude Code (shell)\nclaude mcp add "));
    assert!(text.contains("\n\n# Codex (~/.codex/config.toml)\n[mcp_servers.portcullis]\n"));
}

#[test]
fn shell_words_survive_the_shell() {
    assert_eq!(shell("it's"), r"'it'\''s'");
    assert_eq!(shell(""), "''");
    assert_eq!(shell("$HOME"), "'$HOME'");
}

#[test]
fn every_client_has_a_form_and_desktop_needs_no_token() {
    let (over_http, over_stdio) = (
        http(URL, TOKEN),
        stdio(Path::new("/p"), None, &["--as".into(), "a b".into()]),
    );
    for (typed, name) in CLIENTS {
        let stdio = of_client(over_stdio.clone(), typed);
        assert!(
            !stdio.is_empty()
                && stdio
                    .iter()
                    .all(|snippet| snippet.text.contains("a b") && !snippet.text.contains("pct_")),
            "{name}"
        );
        let http = of_client(over_http.clone(), typed);
        // It takes no headers from its file.
        assert_eq!(http.is_empty(), name == "Claude Desktop", "{name}");
    }
    let known = over_http
        .iter()
        .chain(&over_stdio)
        .filter(|snippet| snippet.client != "opencode 2");
    assert!(
        known
            .into_iter()
            .all(|snippet| CLIENTS.iter().any(|(_, name)| *name == snippet.client))
    );
}
