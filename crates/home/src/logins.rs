//! Logins to servers: where the vault keeps them, one for each server.

use std::{
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use config::Resolved;
use gateway::settings::LoginStore;
use oauth::{Login, Plain};
use secrets::{SecretError, Vault};
use vocab::ServerId;

use crate::{Home, worker};

const PREFIX: &str = "login.";

/// The vault's name for a server's login.
fn name(server: &ServerId) -> String {
    format!("{PREFIX}{server}")
}

/// The server, if this is the name of a login.
#[must_use]
pub fn parse(name: &str) -> Option<ServerId> {
    ServerId::parse(name.strip_prefix(PREFIX)?).ok()
}

/// The login to a server, if there is one.
pub fn load(vault: &Vault, server: &ServerId) -> Result<Option<Login>, SecretError> {
    let sealed = vault.get(&name(server))?;
    Ok(sealed.and_then(|sealed| Login::open(&sealed, Plain::OnLoopback)))
}

pub fn save(vault: &Vault, server: &ServerId, login: &Login) -> Result<(), SecretError> {
    vault.set(&name(server), &login.seal())
}

/// Says whether there was one.
pub fn forget(vault: &Vault, server: &ServerId) -> Result<bool, SecretError> {
    vault.delete(&name(server))
}

/// What the gate renews logins with.
pub fn store(home: &Home, resolved: &Resolved) -> Result<LoginStore, String> {
    let vault = Vault::in_home(home.vault(), secrets::os_entropy());
    let kept = vault.clone();
    Ok(LoginStore {
        load: Arc::new(move |server| vault.get(&name(server)).map_err(|error| error.to_string())),
        replace: Arc::new(move |server, before, sealed| {
            kept.replace(&name(server), before, sealed)
                .map_err(|error| error.to_string())
        }),
        now: Arc::new(now),
        random: Arc::new(|| {
            let mut bytes = [0; 16];
            // Without it a renewal is only less spread; an id that is not unique is refused, and tried again.
            let _ = getrandom::fill(&mut bytes);
            bytes
        }),
        clerk: worker::clerk(resolved)?,
    })
}

/// Seconds of the epoch.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
