//! The built-in tools: one ordered table of what they are called, take, do and carry.
//!
//! Everybody who must know something of a built-in tool reads it here: the catalog, the checks, security contexts, the configuration,
//! the documentation and the worker. The table decides nothing. Whether anything here executes a tool is for the gate to say; a server
//! that declares the capability may serve any of them.
//!
//! Invariant: rows stand in the order of their names, and no two share a name or an alias.

mod hands;
mod management;

use vocab::{Effect, Level};

use crate::write::Object;

/// Tools that are bounded alike and share the word before the dot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Family {
    Command,
    Files,
    Web,
    Mail,
    Management,
    /// The gate's own, which no server can take.
    Own,
}

impl Family {
    /// In the order in which people are told of them.
    pub const ALL: [Self; 6] = [
        Self::Command,
        Self::Files,
        Self::Web,
        Self::Mail,
        Self::Management,
        Self::Own,
    ];

    /// The word before the dot.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Command => "cmd",
            Self::Files => "fs",
            Self::Web => "web",
            Self::Mail => "email",
            Self::Management => "aegis",
            Self::Own => "portcullis",
        }
    }

    #[must_use]
    pub fn from_word(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|family| family.word() == word)
    }

    /// The family of a dotted name, or of a pattern for such names. Also of names that are in no table: a server may serve more tools
    /// of a family than these.
    #[must_use]
    pub fn of(name: &str) -> Option<Self> {
        name.split_once('.')
            .and_then(|(word, _)| Self::from_word(word))
    }
}

/// Who executes a tool where no server declares it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Executor {
    /// The gate, out of what it knows itself.
    Gate,
    /// The gate, on volumes.
    Volume,
    /// The worker, in the role that fetches.
    Web,
    /// The sandbox of the agent.
    Command,
    /// The gate, on agents and workflows.
    Workflow,
    /// Nobody but a server.
    Server,
}

impl Executor {
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Gate => "gate",
            Self::Volume => "volume",
            Self::Web => "web",
            Self::Command => "command",
            Self::Workflow => "workflow",
            Self::Server => "server",
        }
    }
}

/// What an argument, or a field of a result, holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Text,
    /// A text that is not blank.
    Words,
    /// One of these texts.
    Choice(&'static [&'static str]),
    Flag,
    Whole,
    Number,
    Texts,
    Object,
    Objects,
    Any,
}

/// One argument of a tool, or one field of its result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    pub name: &'static str,
    pub kind: Kind,
    pub is_required: bool,
    pub says: &'static str,
}

/// One row of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tool {
    pub name: &'static str,
    /// Other names of the very same tool.
    pub aliases: &'static [&'static str],
    pub family: Family,
    pub executor: Executor,
    pub effect: Effect,
    /// Its arguments. The required ones are missed in this order.
    pub input: &'static [Field],
    /// The fields of its structured result; none where they are not fixed.
    pub output: &'static [Field],
    /// Whether its results may be anyone's words.
    pub is_open_world: bool,
    /// What its results carry, unless what it read carries more.
    pub level: Level,
    /// The most secret data that may be sent to it.
    pub ceiling: Level,
    /// Whether a semantic judge looks away, by default.
    pub skip_judge: bool,
    pub says: &'static str,
}

/// Names of arguments that say what a call reaches for, where others must know them.
pub mod argument {
    pub const ARGS: &str = "args";
    pub const COMMAND: &str = "command";
    pub const CONTENT: &str = "content";
    pub const CWD: &str = "cwd";
    pub const PATH: &str = "path";
    pub const PATTERN: &str = "pattern";
    pub const QUERY: &str = "query";
    pub const STDIN: &str = "stdin";
    pub const TIMEOUT_SECS: &str = "timeout_secs";
    pub const URL: &str = "url";
}

/// The one tool for the web whose arguments name no host: the search engine's is meant.
pub const SEARCH: &str = "web.search";

/// Every tool, in the order of their names.
pub fn all() -> impl Iterator<Item = &'static Tool> {
    management::TOOLS.iter().chain(hands::TOOLS)
}

/// The tool of this name or alias.
#[must_use]
pub fn find(name: &str) -> Option<&'static Tool> {
    // Most names that are asked for are a server's and have no family.
    let family = Family::of(name)?;
    all().find(|tool| tool.family == family && (tool.name == name || tool.aliases.contains(&name)))
}

impl Tool {
    /// A row to begin with: one that changes something, takes nothing and says nothing.
    const fn acts(name: &'static str, family: Family, executor: Executor) -> Self {
        Self {
            name,
            aliases: &[],
            family,
            executor,
            effect: Effect::Consequential,
            input: &[],
            output: &[],
            is_open_world: matches!(family, Family::Web | Family::Mail),
            level: Level::Confidential,
            ceiling: Level::Confidential,
            skip_judge: false,
            says: "",
        }
    }

    /// The same for one that only looks, which a judge need not see.
    const fn reads(name: &'static str, family: Family, executor: Executor) -> Self {
        Self {
            effect: Effect::Read,
            skip_judge: true,
            ..Self::acts(name, family, executor)
        }
    }

    /// The arguments it cannot do without, in the order in which they are missed.
    pub fn required(&self) -> impl Iterator<Item = &'static Field> {
        self.input.iter().filter(|field| field.is_required)
    }

    /// Every name it has but this one.
    pub fn other_names<'a>(&self, name: &'a str) -> impl Iterator<Item = &'static str> + 'a {
        std::iter::once(self.name)
            .chain(self.aliases.iter().copied())
            .filter(move |other| *other != name)
    }

    /// Its input schema, as JSON text.
    #[must_use]
    pub fn input_schema(&self) -> Vec<u8> {
        schema(self.input)
    }

    /// The schema of its structured result, where that is fixed.
    #[must_use]
    pub fn output_schema(&self) -> Option<Vec<u8>> {
        (!self.output.is_empty()).then(|| schema(self.output))
    }
}

/// An argument that must be there.
const fn needs(name: &'static str, kind: Kind, says: &'static str) -> Field {
    Field {
        name,
        kind,
        is_required: true,
        says,
    }
}

/// An argument that may be there.
const fn takes(name: &'static str, kind: Kind, says: &'static str) -> Field {
    Field {
        is_required: false,
        ..needs(name, kind, says)
    }
}

fn schema(fields: &[Field]) -> Vec<u8> {
    let mut out = Object::new();
    out.str("type", "object").object("properties", |out| {
        for field in fields {
            out.object(field.name, |out| {
                field.kind.write(out);
                out.str("description", field.says);
            });
        }
    });
    let required: Vec<&str> = fields
        .iter()
        .filter(|field| field.is_required)
        .map(|field| field.name)
        .collect();
    if !required.is_empty() {
        out.raw("required", &texts(&required));
    }
    out.finish()
}

fn texts(texts: &[&str]) -> Vec<u8> {
    let quoted: Vec<Vec<u8>> = texts
        .iter()
        .map(|text| crate::write::quoted(text))
        .collect();
    [b"[", quoted.join(&b","[..]).as_slice(), b"]"].concat()
}

impl Kind {
    fn write(self, out: &mut Object) {
        match self {
            Self::Text => out.str("type", "string"),
            Self::Words => out.str("type", "string").str("pattern", "\\S"),
            Self::Choice(choices) => out.str("type", "string").raw("enum", &texts(choices)),
            Self::Flag => out.str("type", "boolean"),
            Self::Whole => out.str("type", "integer"),
            Self::Number => out.str("type", "number"),
            Self::Texts => out
                .str("type", "array")
                .raw("items", br#"{"type":"string"}"#),
            Self::Object => out.str("type", "object"),
            Self::Objects => out
                .str("type", "array")
                .raw("items", br#"{"type":"object"}"#),
            Self::Any => out,
        };
    }
}

#[cfg(test)]
mod tests;
