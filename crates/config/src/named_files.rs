//! Everything that a configuration leads to besides itself: policies, manifests of agents, keys. Read whole or not at all.

use std::{path::PathBuf, sync::Arc};

use gateway::settings::Rules;

use crate::{BundleSource, Finding, Resolved, bundle, key_files, manifests};

/// What decides besides the servers' own entries. A mistake in any file is an error, so that nothing changes.
pub fn rules(resolved: &Resolved) -> Result<Rules, String> {
    let bundle = bundle::load(&resolved.bundle).map_err(|error| error.to_string())?;
    let contexts = manifests::load(resolved).map_err(|findings| in_words(&findings))?;
    Ok(Rules {
        bundle: Arc::new(bundle),
        untrusted_influence: resolved.untrusted_influence,
        approvals: resolved.approvals,
        contexts: Arc::new(contexts),
        oauth: key_files::oauth(resolved)?.map(Arc::new),
    })
}

fn in_words(findings: &[Finding]) -> String {
    let sentences = findings
        .iter()
        .map(|finding| format!("{}; {}", finding.what, finding.fix));
    sentences.collect::<Vec<_>>().join("\n")
}

/// What is wrong with manifests and signing keys, each at the place that names its file.
#[must_use]
pub fn mistakes(resolved: &Resolved) -> Vec<Finding> {
    let manifests = manifests::load(resolved).err().unwrap_or_default();
    manifests
        .into_iter()
        .chain(key_files::mistake(resolved))
        .collect()
}

/// Where all of them are. A directory of policies that cannot be read stands for itself.
#[must_use]
pub fn paths(resolved: &Resolved) -> Vec<PathBuf> {
    let mut paths = match &resolved.bundle {
        BundleSource::Shipped(_) => Vec::new(),
        BundleSource::At(path) => bundle::files(path).unwrap_or_else(|_| vec![path.clone()]),
    };
    paths.extend(manifests::files(resolved));
    paths.extend(key_files::files(resolved));
    paths
}
