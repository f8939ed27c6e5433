//! From the files that the configuration names to a bundle of policies.
//!
//! Reading is here, meaning is `policy`'s. A bundle is read whole or not at all, and is called by the names of its files only, so that
//! the same policies have the same version on every machine.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use policy::cedar::{Bundle, Problem};

use crate::{BundleSource, keys};

/// Policies are written by people; more than this is a mistake, not a policy.
const MAX_FILE: u64 = 1 << 20;
const MAX_FILES: usize = 256;

/// Why there is no bundle.
#[derive(Debug, thiserror::Error)]
pub enum BundleError {
    #[error("cannot read the policies at {}: {source}", path.display())]
    Read { path: PathBuf, source: io::Error },
    #[error("{0}")]
    Unusable(String),
    /// Every mistake, each with its file, line and column.
    #[error("{}", .0.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"))]
    Wrong(Vec<Problem>),
}

/// The bundle that the configuration names.
pub fn load(source: &BundleSource) -> Result<Bundle, BundleError> {
    match source {
        BundleSource::Shipped(name) => Bundle::starter(name)
            .ok_or_else(|| BundleError::Unusable(format!("this program has no bundle `{name}`"))),
        BundleSource::At(path) => read(path),
    }
}

/// The bundle that a person named on the command line: one of the program's by its name, or a path.
pub fn named(path: &Path) -> Result<Bundle, BundleError> {
    let shipped = path
        .to_str()
        .filter(|name| !path.exists() && keys::BUNDLES.contains(name));
    match shipped.and_then(Bundle::starter) {
        Some(bundle) => Ok(bundle),
        None => read(path),
    }
}

fn read(path: &Path) -> Result<Bundle, BundleError> {
    let files = files(path)?;
    let mut texts = Vec::new();
    for file in &files {
        texts.push((short(file), text(file)?));
    }
    let name = path
        .file_stem()
        .map_or_else(|| "bundle".into(), |stem| stem.to_string_lossy());
    Bundle::load(&name, &texts).map_err(|problems| {
        BundleError::Wrong(
            problems
                .into_iter()
                .map(|problem| at(problem, &files))
                .collect(),
        )
    })
}

/// The file itself, or the `.cedar` files of a directory, in the order of their names.
pub fn files(path: &Path) -> Result<Vec<PathBuf>, BundleError> {
    let unreadable = |source| BundleError::Read {
        path: path.to_owned(),
        source,
    };
    if !fs::metadata(path).map_err(unreadable)?.is_dir() {
        return Ok(vec![path.to_owned()]);
    }
    let mut files = Vec::new();
    for entry in fs::read_dir(path).map_err(unreadable)? {
        let file = entry.map_err(unreadable)?.path();
        if file
            .extension()
            .is_some_and(|extension| extension == "cedar")
        {
            files.push(file);
        }
    }
    files.sort();
    match files.len() {
        0 => Err(BundleError::Unusable(format!(
            "there is no .cedar file in {}",
            path.display()
        ))),
        1..=MAX_FILES => Ok(files),
        count => Err(BundleError::Unusable(format!(
            "{} has {count} .cedar files; the limit is {MAX_FILES}",
            path.display()
        ))),
    }
}

fn text(file: &Path) -> Result<String, BundleError> {
    let unreadable = |source| BundleError::Read {
        path: file.to_owned(),
        source,
    };
    let size = fs::metadata(file).map_err(unreadable)?.len();
    if size > MAX_FILE {
        return Err(BundleError::Unusable(format!(
            "{} has {size} bytes; the limit is {MAX_FILE}",
            file.display()
        )));
    }
    fs::read_to_string(file).map_err(unreadable)
}

fn short(file: &Path) -> String {
    file.file_name().map_or_else(
        || file.display().to_string(),
        |name| name.to_string_lossy().into_owned(),
    )
}

/// A person wants to open the file, so the problem gets its whole path.
fn at(problem: Problem, files: &[PathBuf]) -> Problem {
    match files.iter().find(|file| short(file) == problem.file) {
        Some(file) => Problem {
            file: file.display().to_string(),
            ..problem
        },
        None => problem,
    }
}

#[cfg(test)]
mod tests;
