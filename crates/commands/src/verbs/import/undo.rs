//! `portcullis import --undo`: the clients' files as they were, to the byte, and none of what came from them.

use std::fs;

use config::edit;
use home::{Home, private_file};
use secrets::{Vault, os_entropy};
use serde_json::json;
use terminal::{Exit, Screen, Trouble};

use super::journal::{Journal, digest_of};
use crate::record;

pub(super) fn run(id: u64, home: &Home, screen: &mut Screen<'_>) -> Result<Exit, Trouble> {
    let journal = Journal::read(home, id)?;
    let held = private_file::lock(&home.state.join("config.lock"))?;
    // What somebody changed since is theirs.
    for file in &journal.files {
        let now = digest_of(&file.path);
        if now.as_ref() != Some(&file.after) && now.as_ref() != Some(&file.before) {
            return Err(Trouble::failed(format!(
                "{} changed since import {id}; nothing was taken back. Put it as it was then, or remove the gate from it yourself",
                file.path.display()
            )));
        }
    }
    let mut originals = Vec::new();
    for index in 0..journal.files.len() {
        originals.push(journal.original(home, index)?);
    }
    let detail = format!("import {id} taken back: {}", journal.servers.join(", "));
    record::by_hand(
        home,
        &audit::Change {
            action: "servers.import_undone",
            door: "cli",
            detail: &detail,
            ..audit::Change::default()
        },
    )?;
    let removed = remove_servers(&journal, home)?;
    let secrets = remove_secrets(&journal, home)?;
    for (file, original) in journal.files.iter().zip(&originals) {
        private_file::replace(&file.path, original.as_bytes())?;
    }
    journal.remove(home)?;
    drop(held);
    for id in &removed {
        crate::verbs::forget(id, home)?;
    }
    let files: Vec<_> = journal.files.iter().map(|file| &file.path).collect();
    let mut text = format!(
        "Import {id} is taken back: {} servers and {} secrets are gone",
        removed.len(),
        secrets.len()
    );
    for file in &files {
        text.push_str(&format!(", {} is as it was", file.display()));
    }
    text.push_str(".\n");
    screen.show(
        &json!({ "import": id, "servers": removed, "secrets": secrets, "files": files }),
        &text,
    )?;
    crate::verbs::reloaded(Exit::Done, home)
}

/// Those that are still in the imported file; what a person moved to their own is theirs.
fn remove_servers(journal: &Journal, home: &Home) -> Result<Vec<String>, Trouble> {
    let file = home.imported_file();
    let Ok(before) = fs::read_to_string(&file) else {
        return Ok(Vec::new());
    };
    let mut text = before.clone();
    let mut removed = Vec::new();
    for id in &journal.servers {
        match edit::remove_server(&text, id) {
            Ok(shorter) => {
                text = shorter;
                removed.push(id.clone());
            }
            Err(edit::EditError::Unknown { .. }) => {}
            Err(error) => return Err(Trouble::usage(error)),
        }
    }
    if text.trim() == super::HEAD.trim() {
        fs::remove_file(&file)?;
    } else if text != before {
        private_file::replace(&file, text.as_bytes())?;
    }
    Ok(removed)
}

/// Those that no other entry refers to.
fn remove_secrets(journal: &Journal, home: &Home) -> Result<Vec<String>, Trouble> {
    let vault = Vault::in_home(home.vault(), os_entropy());
    let files = [home.config_file(), home.imported_file()];
    let texts: String = files
        .iter()
        .filter_map(|file| fs::read_to_string(file).ok())
        .collect();
    let mut removed = Vec::new();
    for name in &journal.secrets {
        let reference = format!("keychain:{name}");
        let is_used = texts.match_indices(&reference).any(|(at, found)| {
            let after = texts
                .get(at + found.len()..)
                .and_then(|rest| rest.chars().next());
            after.is_none_or(|c| !(c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-')))
        });
        if !is_used && vault.delete(name).map_err(crate::verbs::secret::trouble)? {
            removed.push(name.clone());
        }
    }
    Ok(removed)
}
