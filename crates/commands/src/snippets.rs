//! What to paste into MCP clients, for a door's address and a token.
//!
//! Two forms each: over HTTP with the token, and over standard input and output, where the client starts `portcullis connect` and
//! no token has to be pasted anywhere.

use std::path::Path;

use serde_json::{Value, json};

/// One client's configuration.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct Snippet {
    pub client: &'static str,
    /// A file, or `shell` for a command.
    pub place: &'static str,
    pub text: String,
}

/// The clients whose forms are known, by the name a person types and the one it has.
pub const CLIENTS: [(&str, &str); 9] = [
    ("claude-code", "Claude Code"),
    ("claude-desktop", "Claude Desktop"),
    ("codex", "Codex"),
    ("cursor", "Cursor"),
    ("gemini", "Gemini CLI"),
    ("opencode", "opencode"),
    ("vscode", "VS Code"),
    ("windsurf", "Windsurf"),
    ("zed", "Zed"),
];

/// Only those of one client, by the name a person types.
#[must_use]
pub fn of_client(snippets: Vec<Snippet>, client: &str) -> Vec<Snippet> {
    let name = CLIENTS
        .iter()
        .find(|(typed, _)| *typed == client)
        .map_or("", |(_, name)| name);
    let is_it = |snippet: &Snippet| {
        snippet.client == name || (name == "opencode" && snippet.client == "opencode 2")
    };
    snippets.into_iter().filter(is_it).collect()
}

/// Over HTTP, with the token.
#[must_use]
pub fn http(url: &str, token: &str) -> Vec<Snippet> {
    let bearer = format!("Bearer {token}");
    let headers = json!({ "Authorization": bearer });
    let command = format!(
        "claude mcp add --transport http portcullis {} --header {}",
        shell(url),
        shell(&format!("Authorization: {bearer}"))
    );
    vec![
        snippet("Claude Code", "shell", command),
        json_snippet(
            "Claude Code",
            ".mcp.json",
            "mcpServers",
            json!({ "type": "http", "url": url, "headers": headers }),
        ),
        json_snippet(
            "Cursor",
            "~/.cursor/mcp.json",
            "mcpServers",
            json!({ "url": url, "headers": headers }),
        ),
        json_snippet(
            "VS Code",
            ".vscode/mcp.json",
            "servers",
            json!({ "type": "http", "url": url, "headers": headers }),
        ),
        snippet(
            "Codex",
            "~/.codex/config.toml",
            format!(
                "[mcp_servers.portcullis]\nurl = {}\nhttp_headers = {{ Authorization = {} }}",
                quoted(url),
                quoted(&bearer)
            ),
        ),
        json_snippet(
            "Gemini CLI",
            "~/.gemini/settings.json",
            "mcpServers",
            json!({ "httpUrl": url, "headers": headers }),
        ),
        json_snippet(
            "opencode",
            "opencode.json",
            "mcp",
            json!({ "type": "remote", "url": url, "enabled": true, "headers": headers, "oauth": false }),
        ),
        opencode_2(json!({ "type": "remote", "url": url, "headers": headers })),
        json_snippet(
            "Windsurf",
            "~/.codeium/windsurf/mcp_config.json",
            "mcpServers",
            json!({ "serverUrl": url, "headers": headers }),
        ),
        json_snippet(
            "Zed",
            "~/.config/zed/settings.json",
            "context_servers",
            json!({ "url": url, "headers": headers }),
        ),
    ]
}

/// Over standard input and output. `home` is given when it is not the default one, `options` are those of `connect`.
#[must_use]
pub fn stdio(executable: &Path, home: Option<&Path>, options: &[String]) -> Vec<Snippet> {
    let command = executable.to_string_lossy();
    let home = home.map(|home| home.to_string_lossy().into_owned());
    let verb = std::iter::once("connect".to_owned()).chain(options.iter().cloned());
    let args: Vec<String> = home
        .iter()
        .flat_map(|home| ["--home".to_owned(), home.clone()])
        .chain(verb)
        .collect();
    let words: Vec<String> = std::iter::once(command.as_ref())
        .chain(args.iter().map(String::as_str))
        .map(shell)
        .collect();
    let entry = json!({ "command": command, "args": args });
    let listed = args
        .iter()
        .map(|arg| quoted(arg))
        .collect::<Vec<_>>()
        .join(", ");
    let all: Vec<&str> = std::iter::once(command.as_ref())
        .chain(args.iter().map(String::as_str))
        .collect();
    vec![
        snippet(
            "Claude Code",
            "shell",
            format!("claude mcp add portcullis -- {}", words.join(" ")),
        ),
        json_snippet("Claude Code", ".mcp.json", "mcpServers", entry.clone()),
        json_snippet("Cursor", "~/.cursor/mcp.json", "mcpServers", entry.clone()),
        json_snippet(
            "VS Code",
            ".vscode/mcp.json",
            "servers",
            json!({ "type": "stdio", "command": command, "args": args }),
        ),
        snippet(
            "Codex",
            "~/.codex/config.toml",
            format!(
                "[mcp_servers.portcullis]\ncommand = {}\nargs = [{listed}]",
                quoted(&command)
            ),
        ),
        json_snippet(
            "Gemini CLI",
            "~/.gemini/settings.json",
            "mcpServers",
            entry.clone(),
        ),
        json_snippet(
            "opencode",
            "opencode.json",
            "mcp",
            json!({ "type": "local", "command": all, "enabled": true }),
        ),
        opencode_2(json!({ "type": "local", "command": all })),
        json_snippet(
            "Claude Desktop",
            "claude_desktop_config.json",
            "mcpServers",
            entry.clone(),
        ),
        json_snippet(
            "Windsurf",
            "~/.codeium/windsurf/mcp_config.json",
            "mcpServers",
            entry.clone(),
        ),
        json_snippet(
            "Zed",
            "~/.config/zed/settings.json",
            "context_servers",
            entry,
        ),
    ]
}

/// Snippets as a person reads them: where, then what.
#[must_use]
pub fn render(snippets: &[Snippet]) -> String {
    let blocks: Vec<String> = snippets
        .iter()
        .map(|snippet| {
            format!(
                "# {} ({})\n{}\n",
                snippet.client, snippet.place, snippet.text
            )
        })
        .collect();
    blocks.join("\n")
}

fn snippet(client: &'static str, place: &'static str, text: String) -> Snippet {
    Snippet {
        client,
        place,
        text,
    }
}

fn json_snippet(client: &'static str, place: &'static str, section: &str, entry: Value) -> Snippet {
    let text = serde_json::to_string_pretty(&json!({ section: { "portcullis": entry } }))
        .unwrap_or_default();
    Snippet {
        client,
        place,
        text,
    }
}

/// Version 2 of opencode keeps servers one level deeper and has no `enabled`.
fn opencode_2(entry: Value) -> Snippet {
    let text =
        serde_json::to_string_pretty(&json!({ "mcp": { "servers": { "portcullis": entry } } }))
            .unwrap_or_default();
    Snippet {
        client: "opencode 2",
        place: "opencode.json",
        text,
    }
}

/// A word a POSIX shell reads back as `text`.
pub fn shell(text: &str) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_./:=@%+,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        text.to_owned()
    } else {
        format!("'{}'", text.replace('\'', r"'\''"))
    }
}

/// A TOML basic string; JSON's escapes are a subset of TOML's.
fn quoted(text: &str) -> String {
    Value::from(text).to_string()
}

#[cfg(test)]
mod tests;
