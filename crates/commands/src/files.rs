//! The configuration of a home, read for a verb: mistakes are a matter of usage.

use std::path::Path;

use home::Home;
use terminal::Trouble;

/// Reads and resolves one file by itself; mistakes are a matter of usage.
pub fn load(file: &Path) -> Result<(config::Raw, config::Resolved), Trouble> {
    config::load(file).map_err(trouble)
}

/// The same for a home: with what its company says, and what was imported.
pub fn of_home(home: &Home) -> Result<(config::Raw, config::Resolved), Trouble> {
    home::layers::load(home).map_err(trouble)
}

/// The same as [`of_home`], the files that it names included.
pub fn whole_of_home(home: &Home) -> Result<(config::Raw, config::Resolved), Trouble> {
    let (raw, resolved) = of_home(home)?;
    match config::named_files::mistakes(&resolved) {
        mistakes if mistakes.is_empty() => Ok((raw, resolved)),
        mistakes => Err(Trouble::usage(raw.report(mistakes))),
    }
}

pub(crate) fn trouble(error: config::LoadError) -> Trouble {
    match error {
        config::LoadError::Read { .. } => Trouble::failed(format!(
            "{error}\n`portcullis up` creates it; `portcullis config path` says where it is looked for"
        )),
        config::LoadError::Invalid(report) => Trouble::usage(report),
    }
}
