//! The files of a home: where they are, who may hold them, and what they say without a gate.
//!
//! `--home DIR` puts all of it under one directory; otherwise the XDG directories are used. Directories are the owner's alone
//! (0700): whoever can write here can become any caller and rewrite the rules, so a home that others can write to is refused.

pub mod accounts;
pub mod answers;
pub mod conversations;
pub mod holding;
pub mod layers;
pub mod logins;
pub mod private_file;
pub mod process;
pub mod recorded;
pub mod replay_file;
pub mod retention;
pub mod signing;
pub mod stores;
pub mod tokens;
pub mod when;
pub mod worker;

use std::{
    ffi::OsString,
    fs, io,
    os::unix::fs::{DirBuilderExt as _, MetadataExt as _},
    path::{Path, PathBuf},
    sync::Arc,
};

/// The kernel's limit for the path of a Unix socket, without its final zero.
const MAX_SOCKET_PATH: usize = 107;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    /// Directory of `portcullis.yaml`.
    pub config: PathBuf,
    /// Credentials, keys, and what must survive a restart.
    pub state: PathBuf,
    pub ledger: PathBuf,
    /// Sockets; empty after a reboot.
    pub run: PathBuf,
}

#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    #[error(
        "neither HOME nor the XDG variables say where to keep files; name a directory with --home DIR"
    )]
    Nowhere,
    #[error("cannot prepare {}: {source}", path.display())]
    Prepare { path: PathBuf, source: io::Error },
    #[error("{} is not a directory; move it away, or choose another with --home DIR", .0.display())]
    NotDirectory(PathBuf),
    #[error("{} can be written by others, who could then change the rules; fix it with: chmod go-w '{}'", .0.display(), .0.display())]
    Writable(PathBuf),
    #[error("{} belongs to another user; choose a directory of your own with --home DIR", .0.display())]
    NotOurs(PathBuf),
    #[error("{} is too long for a socket ({MAX_SOCKET_PATH} bytes at most); choose a shorter --home DIR", .0.display())]
    TooLong(PathBuf),
}

impl Home {
    /// Everything under one directory.
    #[must_use]
    pub fn at(dir: &Path) -> Self {
        let dir = std::path::absolute(dir).unwrap_or_else(|_| dir.to_owned());
        Self {
            state: dir.join("state"),
            ledger: dir.join("ledger"),
            run: dir.join("run"),
            config: dir,
        }
    }

    /// The XDG directories. `variable` looks up the environment.
    pub fn from_environment(
        variable: impl Fn(&str) -> Option<OsString>,
    ) -> Result<Self, HomeError> {
        // The specification says to ignore relative paths.
        let absolute = |name: &str| {
            variable(name)
                .map(PathBuf::from)
                .filter(|path| path.is_absolute())
        };
        let user = absolute("HOME");
        let base = |name: &str, below: &str| {
            absolute(name)
                .or_else(|| Some(user.as_ref()?.join(below)))
                .map(|dir| dir.join("portcullis"))
                .ok_or(HomeError::Nowhere)
        };
        let config = base("XDG_CONFIG_HOME", ".config")?;
        let state = base("XDG_STATE_HOME", ".local/state")?;
        let runtime = absolute("XDG_RUNTIME_DIR").filter(|dir| dir.is_dir());
        let run = runtime.map_or_else(|| state.join("run"), |dir| dir.join("portcullis"));
        Ok(Self {
            config,
            ledger: state.join("ledger"),
            run,
            state,
        })
    }

    /// The home that `--home` and the environment say.
    pub fn find(option: Option<&Path>) -> Result<Self, HomeError> {
        option.map_or_else(
            || Self::from_environment(|name| std::env::var_os(name)),
            |dir| Ok(Self::at(dir)),
        )
    }

    /// Creates what is missing and refuses what is not safe to use.
    pub fn prepare(&self) -> Result<(), HomeError> {
        let socket = self.socket();
        if socket.as_os_str().len() > MAX_SOCKET_PATH {
            return Err(HomeError::TooLong(socket));
        }
        for dir in [&self.config, &self.state, &self.ledger, &self.run] {
            fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(dir)
                .map_err(|source| match source.kind() {
                    io::ErrorKind::AlreadyExists => HomeError::NotDirectory(dir.clone()),
                    _ => HomeError::Prepare {
                        path: dir.clone(),
                        source,
                    },
                })?;
            check(dir)?;
        }
        Ok(())
    }

    #[must_use]
    pub fn config_file(&self) -> PathBuf {
        self.config.join("portcullis.yaml")
    }

    /// Volumes that the gate keeps itself.
    #[must_use]
    pub fn volumes(&self) -> PathBuf {
        self.state.join("volumes")
    }

    /// The approved definitions, beside the configuration: both belong under version control.
    #[must_use]
    pub fn lock_file(&self) -> PathBuf {
        self.config.join("portcullis.lock")
    }

    /// Where callers have the files that their commands work on.
    #[must_use]
    pub fn workspaces(&self) -> PathBuf {
        self.state.join("workspaces")
    }

    /// Where stdio servers have homes of their own.
    #[must_use]
    pub fn jails(&self) -> PathBuf {
        self.state.join("jails")
    }

    /// Sessions and approvals.
    #[must_use]
    pub fn state_file(&self) -> PathBuf {
        self.state.join("state.db")
    }

    /// The index of the ledger. It may be deleted: whoever asks next makes it anew.
    #[must_use]
    pub fn index_file(&self) -> PathBuf {
        self.state.join("index.db")
    }

    /// Which conversations of agents are open, and what each was left with.
    #[must_use]
    pub fn conversations_file(&self) -> PathBuf {
        self.state.join("conversations.json")
    }

    #[must_use]
    pub fn tokens_file(&self) -> PathBuf {
        self.state.join("tokens.json")
    }

    /// The first client credential, in clear.
    #[must_use]
    pub fn client_token_file(&self) -> PathBuf {
        self.state.join("client.token")
    }

    /// A client credential that a person asked to keep, in clear.
    #[must_use]
    pub fn kept_token_file(&self, id: &str) -> PathBuf {
        self.state.join("clients").join(format!("{id}.token"))
    }

    /// The command line's own credential, in clear.
    #[must_use]
    pub fn operator_token_file(&self) -> PathBuf {
        self.state.join("operator.token")
    }

    /// Where the vault of secrets is.
    #[must_use]
    pub fn vault(&self) -> &Path {
        &self.state
    }

    /// Resolves references at the moment they are spent, so a secret stored later is found without a restart.
    #[must_use]
    pub fn secrets(&self) -> Arc<dyn secrets::Store> {
        Arc::new(secrets::Resolver::new(
            std::env::vars(),
            secrets::Vault::in_home(self.vault(), secrets::os_entropy()),
        ))
    }

    /// How far each sink has come.
    #[must_use]
    pub fn sinks(&self) -> PathBuf {
        self.state.join("sinks")
    }

    /// The line door.
    #[must_use]
    pub fn socket(&self) -> PathBuf {
        self.run.join("gate.sock")
    }
}

fn check(dir: &Path) -> Result<(), HomeError> {
    let metadata = fs::metadata(dir).map_err(|source| HomeError::Prepare {
        path: dir.to_owned(),
        source,
    })?;
    if !metadata.is_dir() {
        return Err(HomeError::NotDirectory(dir.to_owned()));
    }
    if metadata.uid() != rustix::process::geteuid().as_raw() {
        return Err(HomeError::NotOurs(dir.to_owned()));
    }
    if metadata.mode() & 0o022 != 0 {
        return Err(HomeError::Writable(dir.to_owned()));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
