//! Logins to servers: where the vault keeps them, one for each server and one for each user's account there.

use std::{
    fs::File,
    io::Read as _,
    path::Path,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use config::Resolved;
use gateway::settings::{Holder, LoginStore};
use oauth::{Login, Plain};
use secrets::{Secret, SecretError, Vault};
use vocab::ServerId;
use zeroize::Zeroizing;

use crate::{Home, accounts, worker};

const PREFIX: &str = "login.";

/// The vault's name for a login. A user's is where the user's token would be.
fn name(holder: &Holder) -> Option<String> {
    match &holder.user {
        None => Some(format!("{PREFIX}{}", holder.server)),
        Some(user) => accounts::name(&holder.server, holder.tenant.as_deref(), user),
    }
}

/// The server, if this is the name of a login.
#[must_use]
pub fn parse(name: &str) -> Option<ServerId> {
    ServerId::parse(name.strip_prefix(PREFIX)?).ok()
}

/// The login of a holder, if there is one.
pub fn load(vault: &Vault, holder: &Holder) -> Result<Option<Login>, SecretError> {
    let sealed = sealed(vault, holder)?;
    Ok(sealed.and_then(|sealed| open(&sealed)))
}

fn sealed(vault: &Vault, holder: &Holder) -> Result<Option<Secret>, SecretError> {
    name(holder).map_or(Ok(None), |name| vault.get(&name))
}

/// The login that an entry of the vault is. A user may have handed over a token instead.
#[must_use]
pub fn open(sealed: &Secret) -> Option<Login> {
    Login::open(sealed, Plain::OnLoopback)
}

pub fn save(vault: &Vault, holder: &Holder, login: &Login) -> Result<(), SecretError> {
    let name = name(holder).unwrap_or_default();
    vault.set(&name, &login.seal())
}

/// Says whether there was one.
pub fn forget(vault: &Vault, holder: &Holder) -> Result<bool, SecretError> {
    name(holder).map_or(Ok(false), |name| vault.delete(&name))
}

/// What the gate renews logins with.
pub fn store(home: &Home, resolved: &Resolved) -> Result<LoginStore, String> {
    let vault = Vault::in_home(home.vault(), secrets::os_entropy());
    let kept = vault.clone();
    Ok(LoginStore {
        load: Arc::new(move |holder| sealed(&vault, holder).map_err(|error| error.to_string())),
        replace: Arc::new(move |holder, before, login| {
            let name = name(holder).unwrap_or_default();
            kept.replace(&name, before, login)
                .map_err(|error| error.to_string())
        }),
        assertion: Arc::new(|file| read_assertion(Path::new(file))),
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

/// What the place we run in says of us, in a file that it keeps fresh: one line.
pub fn read_assertion(file: &Path) -> Result<Secret, String> {
    const LONGEST: u64 = 16 << 10;
    let unreadable = |error| format!("cannot read the assertion in {}: {error}", file.display());
    let mut text = Zeroizing::new(String::new());
    let opened = File::open(file).map_err(unreadable)?;
    let mut opened = opened.take(LONGEST + 1);
    opened.read_to_string(&mut text).map_err(unreadable)?;
    let line = text.trim();
    if line.is_empty()
        || line.len() as u64 > LONGEST
        || !line.bytes().all(|byte| byte.is_ascii_graphic())
    {
        return Err(format!("{} holds no assertion", file.display()));
    }
    Ok(Secret::new(line.to_owned()))
}

/// Seconds of the epoch.
#[must_use]
pub fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH);
    since.map_or(0, |since| since.as_secs())
}
