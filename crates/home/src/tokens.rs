//! Client credentials.
//!
//! A token is shown once, when it is made; what is kept is its SHA-256, which is enough because tokens are random and long. The
//! exceptions are kept in clear beside the list (0600): the first client's and the command line's own, so that nothing has to be
//! set up before the first call, and those that a person asked to keep for `portcullis connect --as NAME`. Removing is never done: a revoked credential stays in the list, so that an old record in the
//! ledger can still be given a name.

use std::{
    collections::HashMap,
    fs, io,
    os::unix::fs::DirBuilderExt as _,
    path::{Path, PathBuf},
    time::{SystemTime, UNIX_EPOCH},
};

use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;
use vocab::{ServerId, ToolName, View, is_caller_name};

use crate::{Home, private_file};

mod text;

pub use api::Role;
pub use text::{TokenText, view_name};

/// A credential as it is kept: everything but the token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Credential {
    pub id: String,
    pub name: String,
    /// Seconds since 1970.
    pub created: u64,
    pub role: Role,
    #[serde(with = "text::view")]
    pub view: View,
    /// Restricted tools this credential may call: `server__tool` or `server__*`.
    #[serde(default)]
    pub grants: Vec<String>,
    /// The person it acts for, whose own accounts it may use.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub departments: Vec<String>,
    /// The program that holds it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tenant: Option<String>,
    /// The security context that bounds its calls.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    #[serde(default)]
    pub revoked: bool,
    #[serde(with = "text::hex")]
    sha256: [u8; 32],
}

impl Credential {
    /// The SHA-256 of the token, which is all that is kept of it.
    #[must_use]
    pub const fn digest(&self) -> [u8; 32] {
        self.sha256
    }

    /// Whether a restricted tool was granted.
    #[must_use]
    pub fn grants(&self, server: &ServerId, tool: &str) -> bool {
        self.grants
            .iter()
            .filter_map(|grant| vocab::split_double(grant))
            .any(|(s, t)| s == server.as_str() && (t == "*" || t == tool))
    }
}

/// What to make a credential from.
#[derive(Debug, Clone)]
pub struct NewCredential {
    pub name: String,
    pub role: Role,
    pub view: View,
    pub grants: Vec<String>,
    pub user: Option<String>,
    pub departments: Vec<String>,
    pub agent: Option<String>,
    pub tenant: Option<String>,
    pub context: Option<String>,
}

impl NewCredential {
    /// One that belongs to nobody in particular.
    #[must_use]
    pub fn plain(name: &str, role: Role) -> Self {
        let name = name.to_owned();
        Self {
            name,
            role,
            view: View::Double,
            grants: Vec::new(),
            user: None,
            departments: Vec::new(),
            agent: None,
            tenant: None,
            context: None,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("cannot use {}: {source}", file.display())]
    File { file: PathBuf, source: io::Error },
    #[error("{} is damaged ({source}); restore it from a backup, or delete it and make new credentials", file.display())]
    Damaged {
        file: PathBuf,
        source: serde_json::Error,
    },
    #[error("the system gives no random numbers: {0}")]
    Random(String),
    #[error("`{0}` is not a grant; write server__tool, or server__* for all tools of a server")]
    Grant(String),
    #[error("a credential's name has 1 to 64 printable characters")]
    Name,
    #[error(
        "`{0}` cannot be the name of a user, department or agent; it has 1 to 64 printable characters"
    )]
    Holder(String),
    #[error("there is no credential `{0}`; `portcullis token list` shows them")]
    Unknown(String),
    #[error("more than one credential is called `{name}`; say which by its id: {}", ids.join(", "))]
    Ambiguous { name: String, ids: Vec<String> },
}

/// Fills a buffer with random bytes.
pub type Random<'a> = &'a mut dyn FnMut(&mut [u8]) -> Result<(), TokenError>;

/// The operating system's randomness.
pub fn system_random(buffer: &mut [u8]) -> Result<(), TokenError> {
    getrandom::fill(buffer).map_err(|error| TokenError::Random(error.to_string()))
}

/// The list of credentials.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    list: Vec<Credential>,
    /// From the hash of a token to its place in the list.
    index: HashMap<[u8; 32], usize>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    version: u32,
    credentials: Vec<Credential>,
}

impl Tokens {
    /// Reads the list; a file that does not exist is an empty one.
    pub fn load(file: &Path) -> Result<Self, TokenError> {
        let bytes = match fs::read(file) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(source) => {
                return Err(TokenError::File {
                    file: file.to_owned(),
                    source,
                });
            }
        };
        let stored: Stored =
            serde_json::from_slice(&bytes).map_err(|source| TokenError::Damaged {
                file: file.to_owned(),
                source,
            })?;
        Ok(Self::from_list(stored.credentials))
    }

    /// Changes the list under a lock and writes it back. Nothing is written when `change` fails.
    pub fn update<T>(
        file: &Path,
        change: impl FnOnce(&mut Self) -> Result<T, TokenError>,
    ) -> Result<T, TokenError> {
        let unusable = |source| TokenError::File {
            file: file.to_owned(),
            source,
        };
        let _held = private_file::lock(&file.with_extension("lock")).map_err(unusable)?;
        let mut tokens = Self::load(file)?;
        let answer = change(&mut tokens)?;
        let stored = Stored {
            version: 1,
            credentials: tokens.list,
        };
        let bytes = serde_json::to_vec_pretty(&stored).map_err(|error| unusable(error.into()))?;
        private_file::replace(file, &bytes).map_err(unusable)?;
        Ok(answer)
    }

    fn from_list(list: Vec<Credential>) -> Self {
        let index = list
            .iter()
            .enumerate()
            .map(|(place, credential)| (credential.sha256, place))
            .collect();
        Self { list, index }
    }

    #[must_use]
    pub fn list(&self) -> &[Credential] {
        &self.list
    }

    /// Makes a credential. The token is returned here and nowhere else.
    pub fn issue(
        &mut self,
        new: NewCredential,
        now: SystemTime,
        random: Random<'_>,
    ) -> Result<(Credential, TokenText), TokenError> {
        if !is_caller_name(&new.name) {
            return Err(TokenError::Name);
        }
        if let Some(bad) = new
            .user
            .iter()
            .chain(&new.departments)
            .chain(&new.agent)
            .chain(&new.tenant)
            .chain(&new.context)
            .find(|name| !is_caller_name(name) || *name == "*")
        {
            return Err(TokenError::Holder(bad.clone()));
        }
        if let Some(bad) = new.grants.iter().find(|grant| !is_grant(grant)) {
            return Err(TokenError::Grant(bad.clone()));
        }
        let token = TokenText::random(random)?;
        let sha256 = hash(token.expose());
        let credential = Credential {
            id: text::short_id(&sha256),
            name: new.name,
            created: now
                .duration_since(UNIX_EPOCH)
                .map_or(0, |since| since.as_secs()),
            role: new.role,
            view: new.view,
            grants: new.grants,
            user: new.user,
            departments: new.departments,
            agent: new.agent,
            tenant: new.tenant,
            context: new.context,
            revoked: false,
            sha256,
        };
        self.index.insert(sha256, self.list.len());
        self.list.push(credential.clone());
        Ok((credential, token))
    }

    /// Revokes by id, or by name where only one credential has it.
    pub fn revoke(&mut self, id_or_name: &str) -> Result<Credential, TokenError> {
        let unknown = || TokenError::Unknown(id_or_name.to_owned());
        let named: Vec<usize> = (0..self.list.len())
            .filter(|place| {
                self.list
                    .get(*place)
                    .is_some_and(|c| c.id == id_or_name || (c.name == id_or_name && !c.revoked))
            })
            .collect();
        let place = match named.as_slice() {
            [] => return Err(unknown()),
            [place] => *place,
            several => {
                let ids = several
                    .iter()
                    .filter_map(|place| self.list.get(*place))
                    .map(|credential| credential.id.clone());
                return Err(TokenError::Ambiguous {
                    name: id_or_name.to_owned(),
                    ids: ids.collect(),
                });
            }
        };
        let credential = self.list.get_mut(place).ok_or_else(unknown)?;
        credential.revoked = true;
        Ok(credential.clone())
    }

    /// The credential of this token, unless it is revoked.
    #[must_use]
    pub fn verify(&self, token: &str) -> Option<&Credential> {
        self.find(token).filter(|credential| !credential.revoked)
    }

    fn find(&self, token: &str) -> Option<&Credential> {
        let sha256 = hash(token);
        let credential = self.list.get(*self.index.get(&sha256)?)?;
        let same: bool = credential.sha256.ct_eq(&sha256).into();
        same.then_some(credential)
    }
}

/// Makes the credentials a new home starts with, where they are missing. Returns the first client's token, or nothing where that
/// credential was revoked: what a person revoked does not come back by a restart.
pub fn prepare_first(
    home: &Home,
    now: SystemTime,
    random: Random<'_>,
) -> Result<Option<TokenText>, TokenError> {
    keep_or_issue(
        home,
        "operator",
        Role::Operator,
        &home.operator_token_file(),
        now,
        &mut *random,
    )?;
    keep_or_issue(
        home,
        "first-client",
        Role::Client,
        &home.client_token_file(),
        now,
        &mut *random,
    )
}

fn keep_or_issue(
    home: &Home,
    name: &str,
    role: Role,
    clear: &Path,
    now: SystemTime,
    random: Random<'_>,
) -> Result<Option<TokenText>, TokenError> {
    let list = home.tokens_file();
    let tokens = Tokens::load(&list)?;
    if let Some(token) = read_clear(clear)
        && let Some(known) = tokens.find(token.expose())
    {
        return Ok((!known.revoked).then_some(token));
    }
    let new = NewCredential::plain(name, role);
    let (_, token) = Tokens::update(&list, |tokens| tokens.issue(new, now, random))?;
    private_file::replace(clear, format!("{}\n", token.expose()).as_bytes()).map_err(|source| {
        TokenError::File {
            file: clear.to_owned(),
            source,
        }
    })?;
    Ok(Some(token))
}

/// Keeps a client's token in clear, for `connect` and `call` to use.
pub fn keep(home: &Home, id: &str, token: &TokenText) -> Result<(), TokenError> {
    let file = home.kept_token_file(id);
    let unusable = |source| TokenError::File {
        file: file.clone(),
        source,
    };
    if let Some(dir) = file.parent() {
        fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir)
            .map_err(unusable)?;
    }
    private_file::replace(&file, format!("{}\n", token.expose()).as_bytes()).map_err(unusable)
}

/// A client's token that was kept; the first client's always is.
#[must_use]
pub fn read_kept(home: &Home, id: &str) -> Option<TokenText> {
    let first = || {
        read_clear(&home.client_token_file())
            .filter(|token| text::short_id(&hash(token.expose())) == id)
    };
    read_clear(&home.kept_token_file(id)).or_else(first)
}

/// Deletes a token that was kept, as when its credential is revoked.
pub fn forget(home: &Home, id: &str) -> Result<(), TokenError> {
    let file = home.kept_token_file(id);
    match fs::remove_file(&file) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(TokenError::File {
            file,
            source: error,
        }),
        _ => Ok(()),
    }
}

/// A token kept in clear.
#[must_use]
pub fn read_clear(file: &Path) -> Option<TokenText> {
    TokenText::parse(fs::read_to_string(file).ok()?.trim())
}

fn hash(token: &str) -> [u8; 32] {
    Sha256::digest(token.as_bytes()).into()
}

fn is_grant(text: &str) -> bool {
    vocab::split_double(text).is_some_and(|(server, tool)| {
        ServerId::parse(server).is_ok() && (tool == "*" || ToolName::parse(tool).is_ok())
    })
}

#[cfg(test)]
mod tests;

/// What people call the callers of a home. Without a list of credentials, or with a damaged one, callers are shown by id.
pub fn caller_names(home: &Home) -> reports::CallerNames {
    let tokens = Tokens::load(&home.tokens_file());
    let credentials = tokens.iter().flat_map(Tokens::list);
    reports::CallerNames::new(credentials.map(|known| (known.id.as_str(), known.name.as_str())))
}
