//! One command as it waits for an executor.

use std::path::{Component, Path};

use tokio::time::Instant;
use wire::dispatch::{Dispatch, WORKSPACE, name};

use crate::commands::CommandAsk;

/// Characters of a command that operators are shown.
const SHOWN: usize = 200;

#[derive(Debug)]
pub struct Work {
    command: String,
    args: Vec<String>,
    directory: String,
    input: String,
    /// When its time is over.
    until: Instant,
    pub(super) output_bytes: usize,
}

impl Work {
    /// # Errors
    /// With what is wrong with what was asked for, for whoever asked.
    pub fn new(ask: CommandAsk) -> Result<Self, String> {
        let command = Path::new(&ask.command);
        let is_path = ask.command.contains('/');
        let is_inside = command.starts_with(WORKSPACE) || command.is_relative();
        if ask.command.is_empty() || (is_path && !(is_inside && is_plain(command))) {
            return Err(format!(
                "`command` must be a name, or a path inside {WORKSPACE}"
            ));
        }
        let directory = Path::new(WORKSPACE).join(ask.directory.as_deref().unwrap_or_default());
        if !directory.starts_with(WORKSPACE) || !is_plain(&directory) {
            return Err(format!("`cwd` must be inside {WORKSPACE}"));
        }
        let texts = std::iter::once(&ask.command).chain(&ask.args);
        if texts.into_iter().any(|text| text.contains('\0')) {
            return Err("a command and its arguments hold no NUL".to_owned());
        }
        Ok(Self {
            directory: directory.to_string_lossy().trim_end_matches('/').to_owned(),
            // It came as a text.
            input: String::from_utf8_lossy(&ask.input).into_owned(),
            command: ask.command,
            args: ask.args,
            until: Instant::now() + ask.time,
            output_bytes: ask.output_bytes,
        })
    }

    pub(super) fn dispatch(&self, id: String) -> Dispatch {
        let left = self.until.saturating_duration_since(Instant::now());
        Dispatch {
            id,
            action: name::EXEC.to_owned(),
            command: self.command.clone(),
            args: self.args.clone(),
            cwd: self.directory.clone(),
            env: Vec::new(),
            stdin: self.input.clone(),
            // In whole seconds, and never none: the gate itself keeps the time.
            timeout_secs: u64::try_from(left.as_millis().div_ceil(1000))
                .unwrap_or(u64::MAX)
                .max(1),
            max_output_bytes: self.output_bytes as u64,
        }
    }

    /// In a line, for operators.
    pub(super) fn shown(&self) -> String {
        let argv: Vec<&str> = std::iter::once(self.command.as_str())
            .chain(self.args.iter().map(String::as_str))
            .collect();
        audit::printable(&argv.join(" "))
            .chars()
            .take(SHOWN)
            .collect()
    }
}

fn is_plain(path: &Path) -> bool {
    !path.components().any(|part| part == Component::ParentDir)
}
