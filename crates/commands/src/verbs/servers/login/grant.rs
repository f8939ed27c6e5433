//! How tokens are got: by a person in a browser, or by a machine with what it has.

use home::{Home, logins};
use oauth::{Address, Client, Grant, Plain, Proof, Subject};
use terminal::Trouble;

use super::reveal;
use crate::args;

const ID_TOKEN: &str = "urn:ietf:params:oauth:token-type:id_token";

pub(super) async fn grant(how: &args::LoginOptions, home: &Home) -> Result<Grant, Trouble> {
    if let Some(file) = &how.workload {
        let file = std::path::absolute(file)?;
        return Ok(Grant::Workload {
            assertion: logins::read_assertion(&file).map_err(Trouble::failed)?,
            file: file.to_string_lossy().into_owned(),
        });
    }
    if let (Some(file), Some(provider)) = (&how.id_token, provider(how)?) {
        let secret = reveal(how.provider_client_secret.as_deref(), home).await?;
        let client = Client {
            id: how.provider_client_id.clone().unwrap_or_default(),
            proof: secret.map_or(Proof::None, Proof::Basic),
            issuer: provider.origin(),
            is_dynamic: false,
            expires_at: None,
            redirects: Vec::new(),
        };
        return Ok(Grant::IdJag {
            subject: Subject {
                token: logins::read_assertion(file).map_err(Trouble::failed)?,
                kind: ID_TOKEN.to_owned(),
            },
            provider,
            client: Box::new(client),
        });
    }
    Ok(match how.client_credentials {
        true => Grant::ClientCredentials,
        false => Grant::AuthorizationCode,
    })
}

/// The identity provider's token endpoint, which the operator typed.
pub(super) fn provider(how: &args::LoginOptions) -> Result<Option<Address>, Trouble> {
    let address = how.provider.as_deref();
    address
        .map(|address| Address::parse(address, Plain::OnLoopback))
        .transpose()
        .map_err(|error| Trouble::usage(format!("--provider: {error}")))
}
