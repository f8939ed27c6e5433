//! A client's file, changed whole or not at all, with what it was before beside it.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use home::private_file;
use serde_json::json;

use super::edit::Edit;

/// Settings that a person wrote are shorter.
const MOST_BYTES: u64 = 4 << 20;
/// What the name of the kept file ends with.
const BEFORE: &str = ".before-portcullis";

#[derive(Debug)]
pub(crate) enum FileError {
    NoHome,
    /// The file, and what is wrong with it.
    Unusable(PathBuf, String),
}

impl std::fmt::Display for FileError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoHome => f.write_str("HOME does not say where clients keep their settings"),
            Self::Unusable(path, why) => {
                write!(f, "{}: {why}; nothing was changed", path.display())
            }
        }
    }
}

/// What a file is, and what it is to be.
#[derive(Debug)]
pub(crate) struct Change {
    pub(crate) path: PathBuf,
    /// Nothing if there is no such file.
    before: Option<String>,
    after: Option<String>,
    backup: Backup,
}

#[derive(Debug, PartialEq, Eq)]
enum Backup {
    /// It holds what was there before this program ever changed the file.
    Keep,
    Write,
    Remove,
}

impl Change {
    pub(super) fn install(path: &Path, edit: &Edit) -> Result<Self, FileError> {
        let before = read(path)?;
        let unusable = |why| FileError::Unusable(path.to_owned(), why);
        let text = before.clone().unwrap_or_default();
        let after = edit.install(&text).map_err(unusable)?;
        // Whose hook is there already was changed by this program before.
        let bare = edit.uninstall(&text).map_err(unusable)?;
        let backup = match bare == text && before.is_some() {
            true => Backup::Write,
            false => Backup::Keep,
        };
        Ok(Self {
            path: path.to_owned(),
            before,
            after: Some(after),
            backup,
        })
    }

    pub(super) fn uninstall(path: &Path, edit: &Edit) -> Result<Self, FileError> {
        let before = read(path)?;
        let unusable = |why| FileError::Unusable(path.to_owned(), why);
        let text = before.clone().unwrap_or_default();
        let bare = edit.uninstall(&text).map_err(unusable)?;
        let kept = read(&beside(path))?;
        let is_ours = bare != text;
        // If nobody changed anything since, the file becomes what it was to the byte.
        let original = kept.as_ref().filter(|kept| {
            let again = edit.install(kept).and_then(|text| edit.uninstall(&text));
            is_ours && again.is_ok_and(|again| again == bare)
        });
        let after = match (&before, original) {
            (None, _) => None,
            (Some(_), Some(original)) => Some(original.clone()),
            (Some(_), None) if is_ours && is_empty(&bare) && kept.is_none() => None,
            (Some(_), None) => Some(bare),
        };
        let backup = match original.is_some() {
            true => Backup::Remove,
            false => Backup::Keep,
        };
        Ok(Self {
            path: path.to_owned(),
            before,
            after,
            backup,
        })
    }

    pub(crate) fn is_needed(&self) -> bool {
        self.before != self.after
    }

    /// Where what was there before is kept once this is done.
    pub(crate) fn backup(&self) -> Option<PathBuf> {
        (self.backup == Backup::Write && self.is_needed()).then(|| beside(&self.path))
    }

    /// The lines that come and go.
    pub(crate) fn difference(&self) -> String {
        let lines = |text: &Option<String>| -> Vec<String> {
            text.iter()
                .flat_map(|text| text.lines())
                .map(str::to_owned)
                .collect()
        };
        let (before, after) = (lines(&self.before), lines(&self.after));
        let ahead = before
            .iter()
            .zip(&after)
            .take_while(|(a, b)| a == b)
            .count();
        let most = before.len().min(after.len()) - ahead;
        let behind = before.iter().rev().zip(after.iter().rev());
        let behind = behind.take_while(|(a, b)| a == b).count().min(most);
        let middle = |lines: &[String], sign: &str| -> String {
            let lines = lines.get(ahead..lines.len() - behind).unwrap_or_default();
            lines
                .iter()
                .map(|line| format!("{sign} {line}\n"))
                .collect()
        };
        format!("{}{}", middle(&before, "-"), middle(&after, "+"))
    }

    /// Writes it: first what was there before, then the file.
    pub(crate) fn apply(&self) -> Result<(), FileError> {
        if !self.is_needed() {
            return Ok(());
        }
        let failed = |error: io::Error| FileError::Unusable(self.path.clone(), error.to_string());
        if let Some(parent) = self.path.parent() {
            fs::create_dir_all(parent).map_err(failed)?;
        }
        let backup = beside(&self.path);
        if let (Backup::Write, Some(before)) = (&self.backup, &self.before) {
            private_file::replace(&backup, before.as_bytes()).map_err(failed)?;
        }
        match &self.after {
            Some(after) => private_file::replace(&self.path, after.as_bytes()).map_err(failed)?,
            None => fs::remove_file(&self.path).map_err(failed)?,
        }
        if self.backup == Backup::Remove {
            fs::remove_file(&backup).map_err(failed)?;
        }
        Ok(())
    }
}

/// Whether nothing is left of a file that was made for the hook.
fn is_empty(text: &str) -> bool {
    let left = imports::jsonc::Document::read(text).map(|document| document.value().clone());
    text.trim().is_empty()
        || left.is_ok_and(|left| left == json!({}) || left == json!({ "version": 1 }))
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(BEFORE);
    path.with_file_name(name)
}

/// The text of a file that a person may have written in any way; nothing if there is none.
fn read(path: &Path) -> Result<Option<String>, FileError> {
    let unusable = |why: String| FileError::Unusable(path.to_owned(), why);
    let metadata = match fs::metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(error.to_string())),
        Ok(metadata) => metadata,
    };
    if !metadata.is_file() {
        return Err(unusable("it is not a file".to_owned()));
    }
    if metadata.len() > MOST_BYTES {
        return Err(unusable(format!("it has more than {MOST_BYTES} bytes")));
    }
    // Whoever made it so does not want it changed, although replacing it would work.
    if metadata.permissions().mode() & 0o200 == 0 {
        return Err(unusable("it is read-only".to_owned()));
    }
    let bytes = fs::read(path).map_err(|error| unusable(error.to_string()))?;
    String::from_utf8(bytes)
        .map(Some)
        .map_err(|_| unusable("it is not UTF-8".to_owned()))
}
