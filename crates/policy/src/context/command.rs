//! Commands and their first argument.
//!
//! The subcommand is the first argument, whatever it is. An option before the subcommand can change what every subcommand does
//! (`git -c core.pager=…`, `cargo --config …`, `make -f …`), so it is not skipped: it passes only where it is listed itself. What
//! follows the subcommand is not read here; what a command may touch is the sandbox's business, and this list is no substitute.

use std::collections::BTreeMap;

use wire::{
    Json, Kind,
    builtin::argument::{ARGS, COMMAND},
};

use super::keys;
use crate::BESIDE;

/// Which first arguments a command may have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Subcommands {
    /// By command; an empty list stands for any.
    ByCommand(BTreeMap<String, Vec<String>>),
    /// The same for every command.
    ForAll(Vec<String>),
}

/// What a list says to a command.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Said {
    Allowed,
    /// Not this command; these.
    NotCommand(Vec<String>),
    /// This command, but not with this first argument; with these.
    NotSubcommand(Vec<String>),
}

impl Subcommands {
    pub(crate) fn says(&self, call: &CommandLine) -> Said {
        let list = match self {
            Self::ForAll(list) => Some(list),
            Self::ByCommand(map) => map.get(&call.command),
        };
        match (list, &call.first) {
            (None, _) => Said::NotCommand(self.commands()),
            (Some(list), _) if list.is_empty() && matches!(self, Self::ByCommand(_)) => {
                Said::Allowed
            }
            (Some(list), First::Text(first)) if list.contains(first) => Said::Allowed,
            (Some(list), _) => Said::NotSubcommand(list.clone()),
        }
    }

    fn commands(&self) -> Vec<String> {
        match self {
            Self::ByCommand(map) => map.keys().cloned().collect(),
            Self::ForAll(_) => Vec::new(),
        }
    }
}

/// A command as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CommandLine {
    pub(crate) command: String,
    pub(crate) first: First,
    /// Every argument that is a text.
    pub(crate) args: Vec<String>,
    /// The name of an argument beside these that may hold a command, or more of this one.
    pub(crate) elsewhere: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum First {
    None,
    Text(String),
    /// Arguments that are no list of texts.
    Unreadable,
}

impl CommandLine {
    /// `None`: there is no command, which is for Shape to refuse. A command that is no text, or under another name, is an empty one,
    /// which no list has.
    pub(crate) fn of(arguments: Json<'_>) -> Option<Self> {
        let elsewhere = arguments
            .fields()
            .filter(|(key, value)| !value.is_null() && value.text() != "false" && is_beside(key));
        let elsewhere = elsewhere.map(|(key, _)| key.into_owned()).next();
        let elsewhere = elsewhere.or_else(|| arguments.get(BESIDE).and_then(command_in));
        let command = arguments.get(COMMAND).filter(|command| !command.is_null());
        if command.is_none() && elsewhere.is_none() {
            return None;
        }
        let command = command
            .and_then(Json::as_str)
            .map(|text| text.into_owned())
            .unwrap_or_default();
        let first = match arguments.get(ARGS).filter(|args| !args.is_null()) {
            None => First::None,
            Some(args) if !args.is_array() || args.items().any(|item| item.as_str().is_none()) => {
                First::Unreadable
            }
            Some(args) => args
                .items()
                .next()
                .and_then(Json::as_str)
                .map_or(First::None, |text| First::Text(text.into_owned())),
        };
        let args = arguments
            .get(ARGS)
            .into_iter()
            .flat_map(Json::items)
            .filter_map(Json::as_str);
        Some(Self {
            command,
            first,
            args: args.map(|text| text.into_owned()).collect(),
            elsewhere,
        })
    }

    pub(crate) fn subcommand(&self) -> &str {
        match &self.first {
            First::Text(text) => text,
            First::None | First::Unreadable => "",
        }
    }

    /// The program's name, without the directory it is named in.
    pub(crate) fn program(&self) -> &str {
        self.command
            .trim()
            .rsplit(['/', '\\'])
            .next()
            .unwrap_or_default()
    }
}

/// The name of a field, at any depth of what is sent beside the arguments, that may hold a command or more of one.
fn command_in(json: Json<'_>) -> Option<String> {
    match json.kind() {
        Kind::Object => json.fields().find_map(|(key, value)| {
            let plain = keys::plain(&key);
            let is_command =
                keys::is_other_command(&plain) || matches!(plain.as_str(), COMMAND | ARGS);
            if is_command {
                Some(key.into_owned())
            } else {
                command_in(value)
            }
        }),
        Kind::Array => json.items().find_map(command_in),
        _ => None,
    }
}

/// Whether an argument of this name may change what is run: a command under another name, or one of ours in another spelling.
fn is_beside(key: &str) -> bool {
    let plain = keys::plain(key);
    keys::is_other_command(&plain) || (matches!(plain.as_str(), COMMAND | ARGS) && plain != key)
}
