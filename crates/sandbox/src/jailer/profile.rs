//! The profiles of stdio servers: from what an operator chose to a jail.

use std::ffi::OsString;
use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use super::container::SOCKET;
use super::grants::Grants;
use super::inside::NOBODY;
use super::program::Program;
use super::spec::{Access, Calls, Jail, Limits, Mount, Network, Rung, What};
use super::standard::{Home, standard_view};

/// TCP ports that every server with a network may connect to: HTTPS, and names where UDP is not enough.
const PORTS: [u16; 2] = [443, 53];
const PROCESSES: u64 = 512;
const PROCESSES_STRICT: u64 = 128;
/// Room for what a server writes into a home that forgets.
const OVERLAY_BYTES: u64 = 512 << 20;
/// The name of the one user that a jail knows.
const USER: &str = "user";

/// How far a server is trusted, least first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Its own home, what it was granted, and the network.
    Contained,
    /// The same without the network.
    Offline,
    /// The same, and its home forgets; every measure must be in force.
    Strict,
    /// A container of its own is the wall. What is jailed here is the runtime's program, which sees the runtime's socket.
    Container,
}

impl Profile {
    /// Those that are the wall themselves.
    pub const ALL: [Self; 3] = [Self::Contained, Self::Offline, Self::Strict];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Contained => "contained",
            Self::Offline => "offline",
            Self::Strict => "strict",
            Self::Container => "container",
        }
    }

    const fn has_network(self) -> bool {
        matches!(self, Self::Contained)
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Profile {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .chain([Self::Container])
            .find(|profile| profile.as_str() == text)
            .ok_or(())
    }
}

/// A stdio server that is to be started.
#[derive(Debug)]
pub struct Server {
    pub profile: Profile,
    pub rung: Rung,
    /// What was configured, and what it was found to be.
    pub command: OsString,
    pub program: Program,
    pub args: Vec<OsString>,
    /// The `PATH` of the gate.
    pub path: OsString,
    /// What the operator set for the gate so that certificates are found, then what is declared for this server.
    pub env: Vec<(OsString, OsString)>,
    pub directory: Option<PathBuf>,
    /// The server's own home, which exists.
    pub home: PathBuf,
    /// What it sees of the host besides, its own program included.
    pub grants: Grants,
    pub ports: Vec<u16>,
    pub listen: bool,
    pub namespaces: bool,
    pub memory: Option<u64>,
    /// Thousandths of a core, of all its processes together.
    pub millicores: Option<u64>,
    /// Do not look for newer versions, although there is a network.
    pub offline_packages: bool,
    /// The socket of the container runtime, for the profile that needs it.
    pub socket: Option<PathBuf>,
}

impl Server {
    /// The jail around it.
    #[must_use]
    pub fn jail(self) -> Jail {
        let strict = self.profile == Profile::Strict;
        let env = self.environment();
        let number = if rustix::process::geteuid().is_root() {
            NOBODY
        } else {
            rustix::process::geteuid().as_raw()
        };
        let mut view = standard_view();
        view.extend(
            Home {
                user: USER.to_owned(),
                number,
                directory: self.home.clone(),
            }
            .files(),
        );
        view.extend(self.grants.mounts());
        view.push(if strict && self.rung == Rung::Namespaces {
            Mount::new(
                &self.home,
                What::Overlay {
                    lower: self.home.clone(),
                    bytes: OVERLAY_BYTES,
                },
            )
        } else {
            Mount::same(&self.home, Access::Writable)
        });
        if let Some(source) = self.socket.clone() {
            view.push(Mount::new(
                SOCKET,
                What::Bind {
                    source,
                    access: Access::Writable,
                    optional: false,
                    owned: true,
                },
            ));
        }
        let network = if self.profile.has_network() {
            let mut ports = PORTS.to_vec();
            ports.extend(&self.ports);
            Network::Host {
                ports: Some(ports),
                listen: self.listen,
            }
        } else {
            Network::Own
        };
        Jail {
            // The name it was called by, so that programs which are many in one know which to be.
            program: if self.command.as_encoded_bytes().contains(&b'/') {
                self.program.file.into_os_string()
            } else {
                self.command
            },
            args: self.args,
            env,
            directory: self.directory.unwrap_or_else(|| self.home.clone()),
            view,
            network,
            limits: Limits {
                processes: if strict { PROCESSES_STRICT } else { PROCESSES },
                memory: self.memory,
                millicores: self.millicores,
                ..Limits::default()
            },
            calls: Calls {
                namespaces: self.namespaces && !strict,
                tracing: false,
                fewer_sockets: strict,
            },
            rung: self.rung,
            insist: strict,
            shown_user: None,
        }
    }

    fn environment(&self) -> Vec<(OsString, OsString)> {
        let scratch = match self.rung {
            Rung::Namespaces => PathBuf::from("/tmp"),
            // Without a `/tmp` of its own, one in its home.
            Rung::Reduced => self.home.join(Self::SCRATCH),
        };
        let mut env: Vec<(OsString, OsString)> = vec![
            ("HOME".into(), self.home.clone().into()),
            ("PATH".into(), self.path.clone()),
            ("TMPDIR".into(), scratch.into()),
            ("LANG".into(), "C.UTF-8".into()),
            ("SHELL".into(), "/bin/sh".into()),
            ("USER".into(), USER.into()),
            ("npm_config_update_notifier".into(), "false".into()),
            ("npm_config_audit".into(), "false".into()),
            ("npm_config_fund".into(), "false".into()),
        ];
        if !self.profile.has_network() || self.offline_packages {
            for (name, value) in [
                ("UV_OFFLINE", "1"),
                ("npm_config_offline", "true"),
                ("PIP_NO_INDEX", "1"),
                ("CARGO_NET_OFFLINE", "true"),
            ] {
                env.push((name.into(), value.into()));
            }
        }
        for (name, value) in &self.env {
            env.retain(|(known, _)| known != name);
            env.push((name.clone(), value.clone()));
        }
        if self.socket.is_some() {
            // Last, so that no entry names another.
            for name in ["DOCKER_HOST", "CONTAINER_HOST"] {
                env.retain(|(known, _)| known != name);
                env.push((name.into(), format!("unix://{SOCKET}").into()));
            }
            env.retain(|(known, _)| known != "DOCKER_CONTEXT" && known != "CONTAINER_CONNECTION");
        }
        env
    }

    /// The directory for temporary files in a home, where `/tmp` is the host's.
    pub const SCRATCH: &'static str = ".tmp";

    /// Takes away what a server's home holds. What still runs in it keeps what it sees, and the next server sees nothing of that.
    ///
    /// # Errors
    /// If it cannot be put aside.
    pub fn empty_home(home: &Path) -> std::io::Result<()> {
        use std::io::ErrorKind;
        // Left from a time when its program still wrote to it. What cannot be deleted is in nobody's way: the next name is free.
        let is_free = |old: &PathBuf| {
            delete(old);
            old.symlink_metadata().is_err()
        };
        let endings = std::iter::once("old".to_owned());
        let old = endings
            .chain((0..u32::MAX).map(|number| format!("old{number}")))
            .map(|ending| home.with_extension(ending))
            .find(is_free)
            .ok_or(ErrorKind::AlreadyExists)?;
        match std::fs::rename(home, &old) {
            Ok(()) => {
                delete(&old);
                Ok(())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            Err(error) => Err(error),
        }
    }

    /// Makes a server's home, for its owner alone.
    ///
    /// # Errors
    /// If the directories cannot be made.
    pub fn make_home(home: &Path) -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt as _;
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(home.join(Self::SCRATCH))
    }
}

/// Deletes a directory as well as can be. A program may have taken the right to look into its directories from everybody.
fn delete(directory: &Path) {
    if std::fs::remove_dir_all(directory).is_err() {
        open_up(directory, 0);
        let _ = std::fs::remove_dir_all(directory);
    }
}

/// Deeper than this nobody looks after what a program left.
const DEEPEST: usize = 128;

/// Lets its owner into a directory and those in it. Links are not followed.
fn open_up(directory: &Path, depth: usize) {
    use std::os::unix::fs::PermissionsExt as _;
    let is_directory = directory
        .symlink_metadata()
        .is_ok_and(|found| found.is_dir());
    if !is_directory || depth > DEEPEST {
        return;
    }
    let _ = std::fs::set_permissions(directory, std::fs::Permissions::from_mode(0o700));
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        open_up(&entry.path(), depth + 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    #[test]
    fn what_cannot_be_deleted_is_in_no_reinstalls_way() {
        let place = tempfile::tempdir().unwrap();
        let home = place.path().join("home");
        // A file is not deleted as a directory is, as a directory of somebody else would not be.
        for ending in ["old", "old0"] {
            fs::write(home.with_extension(ending), "in the way").unwrap();
        }
        for _ in 0..2 {
            let closed = home.join("a/closed");
            fs::create_dir_all(closed.join("b")).unwrap();
            fs::set_permissions(&closed, fs::Permissions::from_mode(0o0)).unwrap();
            Server::empty_home(&home).unwrap();
            assert!(!home.exists());
            assert_eq!(fs::read_dir(place.path()).unwrap().count(), 2);
        }
        Server::empty_home(&home).unwrap();
    }
}
