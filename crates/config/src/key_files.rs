//! The keys that the configuration names: those that sign tokens, and those of identity providers.

use std::{fs, path::Path, sync::Arc};

use gateway::settings::{KeySource, OAuth};
use identity::{Jwks, SigningKey, TokenKeys, VerifyingKey};

use crate::{Finding, IssuerKeys, KeyFiles, NamedFile, Resolved};

/// Longer than any key set.
const MAX_KEY_SET: u64 = 256 << 10;

/// The keys in the files that the configuration names, or what is wrong with which of them.
fn named_keys(files: &KeyFiles) -> Result<TokenKeys, (&NamedFile, String)> {
    let private = &files.private;
    let signs = check_mode(&private.path).and_then(|()| usable(read_key(&private.path)?));
    let keys = signs.map_err(|what| (private, what))?;
    let Some(public) = &files.public else {
        return Ok(keys);
    };
    let failed =
        |error: &dyn std::fmt::Display| (public, format!("{}: {error}", public.path.display()));
    let key = VerifyingKey::parse(&read(&public.path).map_err(|what| (public, what))?)
        .map_err(|error| failed(&error))?;
    keys.also_verify(key).map_err(|error| failed(&error))
}

/// The keys that sign tokens, from the files that the configuration names.
pub fn token_keys(files: &KeyFiles) -> Result<TokenKeys, String> {
    named_keys(files).map_err(|(_, what)| what)
}

/// What is wrong with a file of signing keys, at the place that names it.
#[must_use]
pub fn mistake(resolved: &Resolved) -> Option<Finding> {
    let (file, what) = named_keys(resolved.seal_keys.as_ref()?).err()?;
    let fix = "name a PEM file with the key that only you can read, as `portcullis seal keygen FILE` makes one; or remove this entry";
    Some(Finding::error(file.place, what, fix))
}

/// The identity providers with the keys of those whose keys are in files. A file that cannot be used is an error, so that nothing changes.
pub fn oauth(resolved: &Resolved) -> Result<Option<OAuth>, String> {
    let source = |keys: &IssuerKeys| {
        Ok(match keys {
            IssuerKeys::Url(url) => KeySource::Url(url.clone()),
            IssuerKeys::File(file) => KeySource::Given(Arc::new(key_set(file)?)),
        })
    };
    resolved
        .oauth
        .as_ref()
        .map(|oauth| oauth.with_keys(source))
        .transpose()
}

/// The files of all keys that the configuration names.
#[must_use]
pub fn files(resolved: &Resolved) -> Vec<std::path::PathBuf> {
    let issuers = resolved.oauth.iter().flat_map(|oauth| &oauth.issuers);
    let sets = issuers.filter_map(|issuer| match &issuer.keys {
        IssuerKeys::File(file) => Some(file),
        IssuerKeys::Url(_) => None,
    });
    let signing = resolved
        .seal_keys
        .iter()
        .flat_map(|keys| std::iter::once(&keys.private).chain(&keys.public));
    sets.chain(signing.map(|file| &file.path))
        .cloned()
        .collect()
}

fn key_set(file: &Path) -> Result<Jwks, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    if fs::metadata(file).map_err(unreadable)?.len() > MAX_KEY_SET {
        return Err(format!(
            "{} is longer than a set of keys can be",
            file.display()
        ));
    }
    Jwks::parse(&fs::read(file).map_err(unreadable)?)
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// Tokens can be signed with this key.
pub fn usable(key: SigningKey) -> Result<TokenKeys, String> {
    TokenKeys::new(key).map_err(|error| format!("the key for tokens cannot be used: {error}"))
}

fn read(path: &Path) -> Result<Vec<u8>, String> {
    fs::read(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

/// The key in a PEM file.
pub fn read_key(path: &Path) -> Result<SigningKey, String> {
    SigningKey::parse(&read(path)?).map_err(|error| format!("{}: {error}", path.display()))
}

/// A key that others can read signs for them too.
pub fn check_mode(path: &Path) -> Result<(), String> {
    use std::os::unix::fs::PermissionsExt as _;
    let mode = fs::metadata(path)
        .map_err(|error| format!("cannot read {}: {error}", path.display()))?
        .permissions()
        .mode();
    match mode & 0o077 {
        0 => Ok(()),
        _ => Err(format!(
            "{} can be read by others; fix it with: chmod 600 '{}'",
            path.display(),
            path.display()
        )),
    }
}
