//! Which programs there are, and where each keeps its servers.

use std::path::{Path, PathBuf};

use serde_json::Value;

/// A program that has MCP servers of its own.
#[derive(Debug, PartialEq, Eq)]
pub struct Client {
    /// As a person types it.
    pub id: &'static str,
    /// As it is called.
    pub name: &'static str,
    pub(crate) is_toml: bool,
    /// Where the servers are in its file, each a path of keys.
    sections: &'static [&'static [&'static str]],
    /// Whether `$V` and its like stand for variables there.
    pub(crate) has_variables: bool,
    /// Files below the user's home, or below a variable's directory.
    files: &'static [(Base, &'static str)],
    /// Files below a project.
    project: &'static [&'static str],
    /// Files of the whole machine.
    managed: &'static [&'static str],
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Base {
    Home,
    /// `XDG_CONFIG_HOME`, or `.config`.
    Config,
    /// The variable, or a directory of the home.
    Variable(&'static str, &'static str),
}

use Base::{Config, Home, Variable};

pub const CLIENTS: &[Client] = &[
    Client {
        id: "claude-code",
        name: "Claude Code",
        is_toml: false,
        sections: &[&["mcpServers"]],
        has_variables: true,
        files: &[(Variable("CLAUDE_CONFIG_DIR", ""), ".claude.json")],
        project: &[".mcp.json"],
        managed: &["/etc/claude-code/managed-mcp.json"],
    },
    Client {
        id: "claude-desktop",
        name: "Claude Desktop",
        is_toml: false,
        sections: &[&["mcpServers"]],
        has_variables: false,
        files: &[(Config, "Claude/claude_desktop_config.json")],
        project: &[],
        managed: &[],
    },
    Client {
        id: "codex",
        name: "Codex",
        is_toml: true,
        sections: &[&["mcp_servers"]],
        has_variables: false,
        files: &[(Variable("CODEX_HOME", ".codex"), "config.toml")],
        project: &[],
        managed: &[],
    },
    Client {
        id: "cursor",
        name: "Cursor",
        is_toml: false,
        sections: &[&["mcpServers"]],
        has_variables: true,
        files: &[(Home, ".cursor/mcp.json")],
        project: &[".cursor/mcp.json"],
        managed: &[],
    },
    Client {
        id: "gemini",
        name: "Gemini CLI",
        is_toml: false,
        sections: &[&["mcpServers"]],
        has_variables: true,
        files: &[(Home, ".gemini/settings.json")],
        project: &[".gemini/settings.json"],
        managed: &["/etc/gemini-cli/settings.json"],
    },
    Client {
        id: "opencode",
        name: "opencode",
        is_toml: false,
        sections: &[&["mcp"], &["mcp", "servers"]],
        has_variables: true,
        files: &[
            (Config, "opencode/opencode.json"),
            (Config, "opencode/opencode.jsonc"),
        ],
        project: &["opencode.json", "opencode.jsonc"],
        managed: &[],
    },
    Client {
        id: "vscode",
        name: "VS Code",
        is_toml: false,
        sections: &[&["servers"]],
        has_variables: true,
        files: &[(Config, "Code/User/mcp.json")],
        project: &[".vscode/mcp.json"],
        managed: &[],
    },
    Client {
        id: "windsurf",
        name: "Windsurf",
        is_toml: false,
        sections: &[&["mcpServers"]],
        has_variables: true,
        files: &[(Home, ".codeium/windsurf/mcp_config.json")],
        project: &[],
        managed: &[],
    },
    Client {
        id: "zed",
        name: "Zed",
        is_toml: false,
        sections: &[&["context_servers"]],
        has_variables: false,
        files: &[(Config, "zed/settings.json")],
        project: &[".zed/settings.json"],
        managed: &[],
    },
];

/// What files and values of a client refer to besides themselves.
#[derive(Debug, Clone, Default)]
pub struct Surroundings {
    pub home: PathBuf,
    /// `XDG_CONFIG_HOME`, if it is set.
    pub config: Option<PathBuf>,
    /// The directory of a project, if one was named.
    pub project: Option<PathBuf>,
    /// Directories that variables of clients name.
    pub variables: Vec<(String, PathBuf)>,
}

/// A file that a client may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    pub client: &'static Client,
    pub path: PathBuf,
    /// It is an administrator's, and nobody takes it over.
    pub is_managed: bool,
}

impl Client {
    #[must_use]
    pub fn named(id: &str) -> Option<&'static Self> {
        CLIENTS.iter().find(|client| client.id == id)
    }

    /// Every file that this client reads servers from, there or not.
    #[must_use]
    pub fn places(&'static self, around: &Surroundings) -> Vec<Place> {
        let place = |path: PathBuf, is_managed| Place {
            client: self,
            path,
            is_managed,
        };
        let config = || {
            let own = around.config.clone();
            own.unwrap_or_else(|| around.home.join(".config"))
        };
        let own = self.files.iter().map(|(base, file)| match base {
            Home => around.home.join(file),
            Config => config().join(file),
            Variable(name, below) => {
                let named = around.variables.iter().find(|(known, _)| known == name);
                let dir = named.map(|(_, dir)| dir.clone());
                dir.unwrap_or_else(|| around.home.join(below)).join(file)
            }
        });
        let mut places: Vec<Place> = own.map(|path| place(path, false)).collect();
        if let Some(project) = &around.project {
            places.extend(
                self.project
                    .iter()
                    .map(|file| place(project.join(file), false)),
            );
        }
        places.extend(
            self.managed
                .iter()
                .map(|file| place(PathBuf::from(file), true)),
        );
        places
    }

    /// The paths of the maps of servers in a document. Claude Code has some for each project.
    pub(crate) fn sections(&self, document: &Value, around: &Surroundings) -> Vec<Vec<String>> {
        let fixed = self.sections.iter().map(|section| {
            let keys = section.iter().map(|key| (*key).to_owned());
            keys.collect::<Vec<String>>()
        });
        let mut sections: Vec<Vec<String>> = fixed.collect();
        if self.id == "claude-code" {
            let projects = document.get("projects").and_then(Value::as_object);
            for (dir, _) in projects.into_iter().flatten() {
                let is_asked_for = around
                    .project
                    .as_deref()
                    .is_none_or(|asked| asked == Path::new(dir));
                if is_asked_for {
                    sections.push(vec![
                        "projects".to_owned(),
                        dir.clone(),
                        "mcpServers".to_owned(),
                    ]);
                }
            }
        }
        sections
    }
}

/// Whose file this is, by its name and what is in it.
#[must_use]
pub fn of_file(path: &Path, text: &str) -> Option<&'static Client> {
    let path = path.to_string_lossy();
    let by_name = |client: &&Client| {
        let own = client.files.iter().map(|(_, file)| *file);
        own.chain(client.project.iter().copied())
            .any(|file| path == file || path.ends_with(&format!("/{file}")))
    };
    if let Some(client) = CLIENTS.iter().find(by_name) {
        return Some(client);
    }
    if path.ends_with(".toml") {
        return Client::named("codex");
    }
    let document = crate::jsonc::Document::read(text).ok()?;
    let by_section = |client: &&Client| {
        !client.is_toml
            && client
                .sections
                .first()
                .and_then(|section| section.first())
                .is_some_and(|key| document.value().get(key).is_some())
    };
    CLIENTS.iter().find(by_section)
}
