//! The places that no jail sees: keys, sessions, histories, the gate itself; and what an operator takes out of that by name.
//!
//! **Invariant: a path that leads nowhere unprotects nothing.** Test `what_is_missing_unprotects_nothing_and_is_named`.

use std::path::{Path, PathBuf};

/// Places below the user's home that hold keys, sessions or histories.
const AT_HOME: &[&str] = &[
    ".ssh",
    ".gnupg",
    ".aws",
    ".azure",
    ".kube",
    ".docker",
    ".netrc",
    ".git-credentials",
    ".npmrc",
    ".pypirc",
    ".password-store",
    ".config/gcloud",
    ".config/gh",
    ".config/op",
    ".config/rclone",
    ".local/share/keyrings",
    ".local/share/kwalletd",
    ".mozilla",
    ".thunderbird",
    ".config/google-chrome",
    ".config/chromium",
    ".config/BraveSoftware",
    ".config/microsoft-edge",
    ".config/vivaldi",
    "snap/firefox",
    "snap/chromium",
    "snap/thunderbird",
    ".var/app/org.mozilla.firefox",
    ".var/app/org.mozilla.Thunderbird",
    ".var/app/com.google.Chrome",
    ".var/app/org.chromium.Chromium",
    ".var/app/com.brave.Browser",
    ".bash_history",
    ".zsh_history",
    ".python_history",
    ".node_repl_history",
    ".psql_history",
    ".mysql_history",
    ".local/share/fish/fish_history",
    ".Xauthority",
];

/// Places of the machine: sessions, display and container sockets.
const ON_THE_MACHINE: &[&str] = &[
    "/run/user",
    "/run/docker.sock",
    "/var/run/docker.sock",
    "/run/containerd",
    "/run/podman",
    "/run/dbus",
    "/tmp/.X11-unix",
    "/tmp/.ICE-unix",
    "/etc/shadow",
    "/etc/gshadow",
];

/// The places that no jail sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protected {
    places: Vec<PathBuf>,
    /// Those among them that are the gate's own.
    gate: Vec<PathBuf>,
    home: Option<PathBuf>,
}

impl Protected {
    /// Those of this user, and the gate's own.
    #[must_use]
    pub fn new(home: Option<&Path>, gate: &[PathBuf]) -> Self {
        let home = home.map(|home| real(home).unwrap_or_else(|| home.to_owned()));
        let mut places: Vec<PathBuf> = ON_THE_MACHINE.iter().map(PathBuf::from).collect();
        places.extend(
            home.iter()
                .flat_map(|home| AT_HOME.iter().map(|name| home.join(name))),
        );
        let mut gate = gate.to_vec();
        // A place that is itself a link is protected where it leads, too.
        for places in [&mut places, &mut gate] {
            let leads: Vec<PathBuf> = places.iter().filter_map(|place| real(place)).collect();
            places.extend(leads);
        }
        places.extend(gate.iter().cloned());
        places.sort();
        places.dedup();
        Self { places, gate, home }
    }

    /// The protected place that `path` is or lies in.
    pub(super) fn holding(&self, path: &Path) -> Option<&Path> {
        self.places
            .iter()
            .find(|place| path.starts_with(place))
            .map(PathBuf::as_path)
    }

    /// Whether it lies in the user's home.
    pub(super) fn is_below_home(&self, path: &Path) -> bool {
        let home = self.home.as_deref();
        home.is_some_and(|home| path != home && path.starts_with(home))
    }

    pub(super) fn is_home(&self, path: &Path) -> bool {
        self.home.as_deref() == Some(path)
    }

    /// Whether no name of a program makes this one to show: the root, the home, or what the gate lies in.
    pub(super) fn is_too_much(&self, path: &Path) -> bool {
        path == Path::new("/")
            || self.is_home(path)
            || self
                .home
                .as_ref()
                .is_some_and(|home| home.starts_with(path))
            || self.gate.iter().any(|place| place.starts_with(path))
    }

    /// The protected places that lie in `path`.
    pub(super) fn within<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.places
            .iter()
            .filter(move |place| place.starts_with(path) && *place != path)
            .map(PathBuf::as_path)
    }
}

/// What an operator took out of protection by name.
#[derive(Debug, Default)]
pub(super) struct Unprotected {
    places: Vec<PathBuf>,
    missing: Vec<PathBuf>,
}

impl Unprotected {
    pub(super) fn new(written: &[PathBuf]) -> Self {
        let mut unprotected = Self::default();
        for path in written {
            match real(path) {
                Some(real) => unprotected.places.extend([path.clone(), real]),
                None => unprotected.missing.push(path.clone()),
            }
        }
        unprotected
    }

    pub(super) fn has(&self, place: &Path) -> bool {
        self.places.iter().any(|free| place.starts_with(free))
    }

    /// What was named and is not there.
    pub(super) fn missing(&self) -> impl Iterator<Item = &Path> {
        self.missing.iter().map(PathBuf::as_path)
    }

    /// What was named and is no protected place, but holds all of them.
    pub(super) fn too_much<'a>(
        &'a self,
        protected: &'a Protected,
    ) -> impl Iterator<Item = &'a Path> {
        self.places
            .iter()
            .filter(|path| protected.is_too_much(path) && !protected.places.contains(path))
            .map(PathBuf::as_path)
    }
}

/// Where a path leads, if it leads anywhere.
pub(super) fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}
