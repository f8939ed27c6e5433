//! The hooks that clients have, and where they stand in their settings: what makes a client tell the gate what a person typed.
//!
//! Settings belong to the person. A file is changed only where the hook stands, comments and all else stay as they are, and what it was before is
//! kept beside it. What cannot be understood is not changed. `edit` changes texts, `file` files.

mod edit;
mod file;

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::snippets::shell;

pub(crate) use self::file::{Change, FileError};

/// The clients that have hooks, by the name a person types.
pub(crate) const NAMES: [&str; 5] = ["claude-code", "codex", "cursor", "gemini", "opencode"];

/// Seconds that a client gives the hook, more than it ever takes.
const PATIENCE_S: u64 = 15;
/// The same when a conversation ends; Codex gives no hook more.
const END_PATIENCE_S: u64 = 3;
/// The plugin of opencode, which has no hooks that run a command.
const OPENCODE_PLUGIN: &str = include_str!("client_hooks/opencode.js");
/// What the first line of the plugin begins with.
const OPENCODE_MARK: &str = "// portcullis:";

/// What is to be written into a client's settings.
#[derive(Debug)]
pub(crate) struct Wanted {
    pub(crate) client: String,
    /// The words of the hook's command.
    pub(crate) hook: Vec<String>,
    /// The words of the command by which the client reaches the gate, where the gate is to be added as a server.
    pub(crate) server: Option<Vec<String>>,
}

/// One file, and how its text changes.
#[derive(Debug)]
struct Target {
    path: PathBuf,
    edit: edit::Edit,
}

/// What the hook is added to, for those that keep hooks as lists under the names of events.
struct Form {
    file: PathBuf,
    events: &'static [&'static str],
    /// Whether each entry holds a list of commands.
    is_grouped: bool,
    /// How many of the client's units of time a second has.
    units: u64,
}

/// Every change that this asks for. Nothing is written yet; what cannot be done is said before anything is.
pub(crate) fn install(
    wanted: &Wanted,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<Change>, FileError> {
    let targets = targets(wanted, variable)?;
    let changes = targets
        .iter()
        .map(|target| Change::install(&target.path, &target.edit));
    changes.collect()
}

/// The changes that take back what was installed.
pub(crate) fn uninstall(
    client: &str,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<Change>, FileError> {
    // What a hook says does not matter to whoever removes it.
    let wanted = Wanted {
        client: client.to_owned(),
        hook: ["portcullis", "task", "hook", client, "--caller", "NAME"]
            .map(str::to_owned)
            .to_vec(),
        server: Some(["portcullis", "connect"].map(str::to_owned).to_vec()),
    };
    let targets = targets(&wanted, variable)?;
    let changes = targets
        .iter()
        .map(|target| Change::uninstall(&target.path, &target.edit));
    changes.collect()
}

/// The command that adds the gate as a server, for clients whose files are theirs alone to write.
pub(crate) fn server_command(client: &str, words: &[String]) -> Option<String> {
    let add = match client {
        "claude-code" => "claude mcp add --scope user portcullis --",
        "codex" => "codex mcp add portcullis --",
        _ => return None,
    };
    Some(format!("{add} {}", line(words)))
}

fn line(words: &[String]) -> String {
    let words: Vec<String> = words.iter().map(|word| shell(word)).collect();
    words.join(" ")
}

fn targets(
    wanted: &Wanted,
    variable: &dyn Fn(&str) -> Option<OsString>,
) -> Result<Vec<Target>, FileError> {
    let absolute = |name: &str| {
        variable(name)
            .map(PathBuf::from)
            .filter(|path| path.is_absolute())
    };
    let home = absolute("HOME").ok_or(FileError::NoHome)?;
    let mut targets = Vec::new();
    let client = wanted.client.as_str();
    let hook = line(&wanted.hook);
    let settings = |form: Form| Target {
        path: form.file.clone(),
        edit: edit::Edit::Hooks {
            client: client.to_owned(),
            entries: form.entries(&hook),
            version: (client == "cursor").then_some(1),
        },
    };
    match client {
        "claude-code" => targets.push(settings(Form {
            file: absolute("CLAUDE_CONFIG_DIR")
                .unwrap_or_else(|| home.join(".claude"))
                .join("settings.json"),
            events: &["SessionStart", "UserPromptSubmit", "SessionEnd"],
            is_grouped: true,
            units: 1,
        })),
        "codex" => targets.push(settings(Form {
            file: absolute("CODEX_HOME")
                .unwrap_or_else(|| home.join(".codex"))
                .join("hooks.json"),
            events: &["SessionStart", "UserPromptSubmit", "SessionEnd"],
            is_grouped: true,
            units: 1,
        })),
        "gemini" => targets.push(settings(Form {
            file: gemini(&home, &absolute),
            events: &["SessionStart", "BeforeAgent", "SessionEnd"],
            is_grouped: true,
            units: 1000,
        })),
        "cursor" => targets.push(settings(Form {
            file: home.join(".cursor/hooks.json"),
            events: &["sessionStart", "beforeSubmitPrompt", "sessionEnd"],
            is_grouped: false,
            units: 1,
        })),
        _ => targets.push(Target {
            path: opencode(&home, &absolute).join("plugins/portcullis.js"),
            edit: edit::Edit::Whole {
                mark: OPENCODE_MARK,
                text: OPENCODE_PLUGIN.replace(
                    "[/* command */]",
                    &Value::from(wanted.hook.clone()).to_string(),
                ),
            },
        }),
    }
    let server = |path: PathBuf, section: &'static str, entry: Value| Target {
        path,
        edit: edit::Edit::Server { section, entry },
    };
    let Some((command, args)) = wanted.server.as_ref().and_then(|words| words.split_first()) else {
        return Ok(targets);
    };
    let entry = json!({ "command": command, "args": args });
    match client {
        "cursor" => targets.push(server(home.join(".cursor/mcp.json"), "mcpServers", entry)),
        // The same file has the hooks, so both are one change.
        "gemini" => {
            if let Some(target) = targets.pop() {
                let both = edit::Edit::Both(
                    Box::new(target.edit),
                    Box::new(server(PathBuf::new(), "mcpServers", entry).edit),
                );
                targets.push(Target {
                    path: target.path,
                    edit: both,
                });
            }
        }
        "opencode" => {
            let dir = opencode(&home, &absolute);
            let with_comments = dir.join("opencode.jsonc");
            let path = match with_comments.exists() {
                true => with_comments,
                false => dir.join("opencode.json"),
            };
            let entry = json!({ "type": "local", "command": wanted.server, "enabled": true });
            targets.push(server(path, "mcp", entry));
        }
        _ => {}
    }
    Ok(targets)
}

fn gemini(home: &Path, absolute: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let base = absolute("GEMINI_CLI_HOME").unwrap_or_else(|| home.to_owned());
    base.join(".gemini/settings.json")
}

fn opencode(home: &Path, absolute: &dyn Fn(&str) -> Option<PathBuf>) -> PathBuf {
    let config = absolute("XDG_CONFIG_HOME").unwrap_or_else(|| home.join(".config"));
    config.join("opencode")
}

impl Form {
    fn entries(&self, hook: &str) -> Vec<(&'static str, Value)> {
        let entry = |event: &str| {
            let is_end = event.eq_ignore_ascii_case("SessionEnd");
            let seconds = if is_end { END_PATIENCE_S } else { PATIENCE_S };
            let timeout = seconds * self.units;
            match self.is_grouped {
                true => {
                    json!({ "hooks": [{ "type": "command", "command": hook, "timeout": timeout }] })
                }
                false => json!({ "command": hook, "timeout": timeout }),
            }
        };
        let events = self.events.iter();
        events.map(|event| (*event, entry(event))).collect()
    }
}

#[cfg(test)]
mod tests;
