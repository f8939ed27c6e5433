//! Identity providers: from the configuration and its files to what the gate wants.

use std::{fs, path::Path, sync::Arc};

use gateway::{
    PROOF_WINDOW,
    settings::{Issuer, KeySource, OAuth, ProofDemand, Proofs},
};
use identity::{Bounds, Jwks};

use crate::{
    config::{self, Dpop, IssuerKeys},
    home::Home,
    replay_file::ReplayFile,
};

/// Longer than any key set.
const MAX_KEY_FILE: u64 = 256 << 10;

/// What the gate is told about providers. A file of keys that cannot be used is an error, so that nothing changes.
pub(crate) fn oauth(oauth: Option<&config::OAuth>) -> Result<Option<OAuth>, String> {
    let Some(oauth) = oauth else { return Ok(None) };
    let issuers = oauth.issuers.iter().map(issuer).collect::<Result<_, _>>()?;
    let proofs = match oauth.dpop {
        Dpop::Off => ProofDemand::Off,
        Dpop::Allowed => ProofDemand::Allowed,
        Dpop::Required => ProofDemand::Required,
    };
    Ok(Some(OAuth {
        resource: oauth.resource.clone(),
        scopes: oauth.scopes.clone(),
        proofs,
        issuers,
    }))
}

fn issuer(entry: &config::OAuthIssuer) -> Result<Issuer, String> {
    Ok(Issuer {
        issuer: entry.issuer.clone(),
        keys: match &entry.keys {
            IssuerKeys::Url(url) => KeySource::Url(url.clone()),
            IssuerKeys::File(file) => KeySource::Given(Arc::new(read(file)?)),
        },
        audience: entry.audience.clone(),
        user_claim: entry.user_claim.clone(),
        tenant_claim: entry.tenant_claim.clone(),
        departments_claim: entry.departments_claim.clone(),
        operator_scope: entry.operator_scope.clone(),
    })
}

fn read(file: &Path) -> Result<Jwks, String> {
    let unreadable = |error: std::io::Error| format!("cannot read {}: {error}", file.display());
    if fs::metadata(file).map_err(unreadable)?.len() > MAX_KEY_FILE {
        return Err(format!(
            "{} is longer than a set of keys can be",
            file.display()
        ));
    }
    Jwks::parse(&fs::read(file).map_err(unreadable)?)
        .map_err(|error| format!("{}: {error}", file.display()))
}

/// The proofs that were spent, of earlier runs too.
pub(crate) fn proofs(home: &Home, boot: &str, now_ms: u64) -> Result<Proofs, String> {
    let path = home.state.join("proofs.log");
    let bounds = Bounds {
        window_seconds: PROOF_WINDOW.seconds(),
        ..Bounds::default()
    };
    let restored = ReplayFile::restore(path.clone(), bounds, boot, now_ms);
    let (file, replay) =
        restored.map_err(|error| format!("cannot use {}: {error}", path.display()))?;
    Ok(Proofs {
        replay: Arc::new(replay),
        tidy: Box::new(move |replay| file.tidy(replay)),
    })
}
