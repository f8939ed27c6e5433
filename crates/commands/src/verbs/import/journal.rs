//! What is needed to take an import back: a list without secrets, and the clients' files, sealed.

use std::{
    fs,
    path::{Path, PathBuf},
};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use home::{Home, private_file};
use secrets::{Secret, Vault, os_entropy};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use terminal::Trouble;

use super::{Plan, Rewritten, plan::Outcome};

/// One entry of a vault holds somewhat more.
const PIECE: usize = 48 << 10;

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Journal {
    pub(super) id: u64,
    pub(super) servers: Vec<String>,
    pub(super) secrets: Vec<String>,
    pub(super) files: Vec<File>,
}

/// A client's file, by digests of what it was and of what it became.
#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct File {
    pub(super) path: PathBuf,
    pub(super) before: String,
    pub(super) after: String,
    pieces: usize,
}

impl Journal {
    /// Writes what is going to be done, before any of it is.
    pub(super) fn begin(
        home: &Home,
        plan: &Plan,
        taken_over: &[Rewritten],
    ) -> Result<Self, Trouble> {
        let all = home.state.join("imports");
        let highest = fs::read_dir(&all).map_or(0, |entries| {
            let ids =
                entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<u64>().ok());
            ids.max().unwrap_or_default()
        });
        let id = highest + 1;
        let dir = dir(home, id);
        private_file::make_dirs(&dir)?;
        let seal = Vault::in_home(&dir, os_entropy());
        let mut files = Vec::new();
        for (index, file) in taken_over.iter().enumerate() {
            let pieces = pieces(&file.before);
            for (piece, text) in pieces.iter().enumerate() {
                seal.set(&name(index, piece), &Secret::new((*text).to_owned()))
                    .map_err(crate::verbs::secret::trouble)?;
            }
            files.push(File {
                path: file.path.clone(),
                before: digest(&file.before),
                after: digest(&file.after),
                pieces: pieces.len(),
            });
        }
        let added = plan.added();
        let journal = Self {
            id,
            servers: added
                .filter_map(|planned| match &planned.outcome {
                    Outcome::Added(id) => Some(id.clone()),
                    _ => None,
                })
                .collect(),
            secrets: plan
                .added()
                .flat_map(|planned| &planned.secrets)
                .map(|kept| kept.name.clone())
                .collect(),
            files,
        };
        let text = serde_json::to_vec_pretty(&journal).map_err(Trouble::failed)?;
        private_file::replace(&dir.join("import.json"), &text)?;
        Ok(journal)
    }

    pub(super) fn read(home: &Home, id: u64) -> Result<Self, Trouble> {
        let file = dir(home, id).join("import.json");
        let text = fs::read(&file).map_err(|_| {
            Trouble::usage(format!(
                "there is no import {id} in this home that could be taken back"
            ))
        })?;
        serde_json::from_slice(&text)
            .map_err(|error| Trouble::failed(format!("{}: {error}", file.display())))
    }

    /// What a client's file was.
    pub(super) fn original(&self, home: &Home, index: usize) -> Result<String, Trouble> {
        let seal = Vault::in_home(&dir(home, self.id), os_entropy());
        let pieces = self.files.get(index).map_or(0, |file| file.pieces);
        let mut text = String::new();
        for piece in 0..pieces {
            let kept = seal
                .get(&name(index, piece))
                .map_err(crate::verbs::secret::trouble)?;
            let kept =
                kept.ok_or_else(|| Trouble::failed("a piece of the sealed file is missing"))?;
            text.push_str(kept.expose());
        }
        Ok(text)
    }

    pub(super) fn remove(&self, home: &Home) -> Result<(), Trouble> {
        Ok(fs::remove_dir_all(dir(home, self.id))?)
    }
}

fn dir(home: &Home, id: u64) -> PathBuf {
    home.state.join("imports").join(id.to_string())
}

fn name(file: usize, piece: usize) -> String {
    format!("file.{file}.{piece}")
}

/// A text in parts that a vault holds, cut between characters.
fn pieces(text: &str) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let (piece, after) = rest
            .split_at_checked(rest.floor_char_boundary(PIECE.min(rest.len())))
            .unwrap_or((rest, ""));
        pieces.push(piece);
        rest = after;
    }
    pieces
}

pub(super) fn digest(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}

/// The digest of a file as it is, if it can be read.
pub(super) fn digest_of(path: &Path) -> Option<String> {
    fs::read_to_string(path).ok().map(|text| digest(&text))
}
