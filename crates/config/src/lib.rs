//! `portcullis.yaml`: text → [`Raw`] (a tree that knows its places) → [`Resolved`] (what its users take, defaults filled in).
//!
//! Either the whole file resolves, or a [`Report`] names every mistake with its place and its repair, and the caller keeps what it had.
//! A value has the type of the crate that uses it, so nothing is copied from one model into another. Resolving is pure; [`read`] touches
//! the disk, and so does [`named_files`], for the files that a configuration names. This crate applies
//! nothing. The table in [`keys`] is the single truth about which keys exist.

pub mod bundle;
mod check;
pub mod corp;
mod default_file;
mod doors;
pub mod edit;
mod environment;
mod explain;
mod fields;
pub mod finding;
pub mod key_files;
pub mod keys;
pub mod layers;
pub mod manifests;
pub mod named_files;
mod node_config;
mod oauth;
mod reference;
mod resolve;
mod resolved;
mod rules;
mod schema;
mod secret;
mod server;
mod signed;
mod sinks;
pub mod stores;
pub mod tree;
pub mod units;
mod volumes;
mod web;

use std::{
    fs, io,
    path::{Path, PathBuf},
};

pub use default_file::default_file;
pub use environment::{Environment, VARIABLES};
pub use explain::{Explained, Override, explain};
pub use finding::{Finding, Place, Report, Severity};
pub use reference::reference;
pub use resolve::{BadAddress, default_listen, parse_listen};
pub use resolved::{
    AgentEntry, BundleSource, Drain, IssuerKeys, KeyFiles, NamedFile, Resolved, Retention,
};
pub use schema::schema;
pub use secret::parse_reference;

/// A file that is valid YAML within the budgets, not yet checked against the keys.
#[derive(Debug, Clone)]
pub struct Raw {
    /// As shown in findings.
    pub file: PathBuf,
    pub text: String,
    pub root: tree::Node,
    /// The other files that the tree is of, and what they say of this one.
    pub layers: layers::Layers,
}

#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error("cannot read {}: {source}", file.display())]
    Read { file: PathBuf, source: io::Error },
    #[error("{0}")]
    Invalid(Report),
}

impl Raw {
    pub fn parse(file: &Path, text: &str) -> Result<Self, Report> {
        match tree::parse(text) {
            Ok(root) => {
                let (root, passed_over) = node_config::lifted(root);
                Ok(Self {
                    file: file.to_owned(),
                    text: text.to_owned(),
                    root,
                    layers: layers::Layers {
                        passed_over,
                        ..layers::Layers::default()
                    },
                })
            }
            Err(findings) => Err(Report::new(&file.display().to_string(), text, findings)),
        }
    }

    /// Everything wrong with the file, or the configuration it describes.
    pub fn resolve(&self) -> Result<Resolved, Report> {
        self.resolve_in(&Environment::default())
    }

    /// The same where the environment says something too.
    pub fn resolve_in(&self, environment: &Environment) -> Result<Resolved, Report> {
        let base = self.file.parent().unwrap_or(Path::new(""));
        let mut resolved = resolve::resolve(&self.root, base, environment)
            .map_err(|findings| self.report(findings))?;
        self.layers.hold(&mut resolved);
        resolved.warnings = self.report(resolved.warnings).findings;
        Ok(resolved)
    }

    /// Where the entry of a server begins, and what stands there.
    #[must_use]
    pub fn server(&self, id: &str) -> Option<(Place, &tree::Node)> {
        edit::entries(&self.root)
            .into_iter()
            .find(|(name, ..)| *name == id)
            .map(|(_, place, node)| (place, node))
    }

    /// The ids of all servers.
    pub fn server_ids(&self) -> impl Iterator<Item = &str> {
        edit::entries(&self.root).into_iter().map(|(id, ..)| id)
    }

    /// The findings with the file's name and lines.
    #[must_use]
    pub fn report(&self, findings: Vec<Finding>) -> Report {
        let mut credentials = Vec::new();
        secret::find(&self.root, "", &mut credentials);
        let in_layer = |layer: u8, file: &Path, text: &str| {
            let findings = findings
                .iter()
                .filter(|finding| finding.place.layer == layer && finding.file.is_none());
            let credentials: Vec<Place> = credentials
                .iter()
                .filter(|place| place.layer == layer)
                .copied()
                .collect();
            let file = file.display().to_string();
            Report::hiding(&file, text, findings.cloned().collect(), &credentials)
        };
        let own = in_layer(layers::USER, &self.file, &self.text);
        let mut report = self.layers.files.iter().fold(own, |report, other| {
            report.and(in_layer(other.layer, &other.file, &other.text))
        });
        // Those that were in a report already.
        let settled = findings.iter().filter(|finding| finding.file.is_some());
        report.findings.extend(settled.cloned());
        report
    }
}

/// Parses and resolves a text as if it stood in `file`.
pub fn parse(file: &Path, text: &str) -> Result<Resolved, Report> {
    Raw::parse(file, text)?.resolve()
}

/// Reads a file without resolving it.
pub fn read(file: &Path) -> Result<Raw, LoadError> {
    let unreadable = |source| LoadError::Read {
        file: file.to_owned(),
        source,
    };
    let size = fs::metadata(file).map_err(unreadable)?.len();
    if size > tree::MAX_BYTES as u64 {
        let what = format!(
            "the file has {size} bytes; the limit is {}",
            tree::MAX_BYTES
        );
        let finding = Finding::error(
            Place::start(),
            what,
            "split it, or move data out of the configuration",
        );
        return Err(LoadError::Invalid(Report::new(
            &file.display().to_string(),
            "",
            vec![finding],
        )));
    }
    let bytes = fs::read(file).map_err(unreadable)?;
    let text = String::from_utf8(bytes).map_err(|error| {
        let before = error
            .as_bytes()
            .get(..error.utf8_error().valid_up_to())
            .unwrap_or_default();
        let line = 1 + before.iter().filter(|byte| **byte == b'\n').count();
        let place = Place {
            line,
            end_line: line,
            ..Place::start()
        };
        let finding = Finding::error(
            place,
            "this line is not UTF-8 text",
            "save the file as UTF-8",
        );
        LoadError::Invalid(Report::new(&file.display().to_string(), "", vec![finding]))
    })?;
    Raw::parse(file, &text).map_err(LoadError::Invalid)
}

/// The variables of this process that count more than the file.
#[must_use]
pub fn environment() -> Environment {
    Environment::read(|name| std::env::var(name).ok())
}

/// Reads and resolves a file, as this process would take it.
pub fn load(file: &Path) -> Result<(Raw, Resolved), LoadError> {
    let raw = read(file)?;
    let resolved = raw.resolve_in(&environment()).map_err(LoadError::Invalid)?;
    Ok((raw, resolved))
}

#[cfg(test)]
mod tests;
