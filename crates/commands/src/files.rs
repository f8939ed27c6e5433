//! The configuration of a home, read for a verb: mistakes are a matter of usage.

use std::path::Path;

use terminal::Trouble;

/// Reads and resolves the home's file; mistakes are a matter of usage.
pub fn load(file: &Path) -> Result<(config::Raw, config::Resolved), Trouble> {
    config::load(file).map_err(|error| match error {
        config::LoadError::Read { .. } => {
            Trouble::failed(format!("{error}\n`portcullis up` creates it; `portcullis config path` says where it is looked for"))
        }
        config::LoadError::Invalid(report) => Trouble::usage(report),
    })
}

/// The same as [`load`], the files that it names included.
pub fn load_whole(file: &Path) -> Result<(config::Raw, config::Resolved), Trouble> {
    let (raw, resolved) = load(file)?;
    match config::named_files::mistakes(&resolved) {
        mistakes if mistakes.is_empty() => Ok((raw, resolved)),
        mistakes => Err(Trouble::usage(raw.report(mistakes))),
    }
}
