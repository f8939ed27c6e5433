//! What a jail may see of the user's files besides its own home, and what it may never see.
//!
//! A grant is a path that the operator wrote: under `jail.read` or `jail.write`, or among arguments, variables and the working directory.
//! Protected places hold keys, sessions, histories and the gate itself. A grant of one is refused; a grant that contains one is for reading
//! only, with the place covered, because a cover does not survive whoever may rename the directory above it.
//!
//! **Invariant: no grant reaches a protected place unless it is unprotected by name.** Tests `a_protected_place_is_never_granted`,
//! `what_contains_a_protected_place_is_for_reading_and_covered`, `a_poisoned_server_reaches_nothing_outside`.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use super::program::is_system;
use super::spec::{Access, Mount, What};

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

/// Never granted because it happens to be an argument.
const NEVER_IMPLIED: &[&str] = &["/proc", "/sys", "/dev"];

/// Where a grant comes from.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Origin {
    /// `jail.read`.
    Read,
    /// `jail.write`.
    Write,
    /// It stands in `args`.
    Argument,
    /// It stands in this variable.
    Variable(String),
    /// It is `cwd`.
    Directory,
    /// The project of the script that the program runs.
    Project,
}

impl Origin {
    /// Whether the operator wrote it for another purpose.
    const fn is_implied(&self) -> bool {
        !matches!(self, Self::Read | Self::Write)
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Read => f.write_str("jail.read"),
            Self::Write => f.write_str("jail.write"),
            Self::Argument => f.write_str("args"),
            Self::Variable(name) => write!(f, "env {name}"),
            Self::Directory => f.write_str("cwd"),
            Self::Project => f.write_str("the program's project"),
        }
    }
}

/// A path of the host that a jail sees.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Grant {
    /// As it was written.
    pub path: PathBuf,
    pub writable: bool,
    pub origin: Origin,
    real: PathBuf,
}

/// A path that was not granted, or not as it was asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trouble {
    /// Whether the entry is wrong; else it is only worth knowing.
    pub is_error: bool,
    pub what: String,
    /// The line to write instead.
    pub instead: String,
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.instead)
    }
}

/// The places that no jail sees.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Protected {
    places: Vec<PathBuf>,
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
        places.extend(gate.iter().cloned());
        // A place that is itself a link is protected where it leads, too.
        let leads: Vec<PathBuf> = places.iter().filter_map(|place| real(place)).collect();
        places.extend(leads);
        places.sort();
        places.dedup();
        Self { places, home }
    }

    fn holding(&self, path: &Path) -> Option<&Path> {
        self.places
            .iter()
            .find(|place| path.starts_with(place))
            .map(PathBuf::as_path)
    }

    fn within<'a>(&'a self, path: &'a Path) -> impl Iterator<Item = &'a Path> {
        self.places
            .iter()
            .filter(move |place| place.starts_with(path) && *place != path)
            .map(PathBuf::as_path)
    }
}

/// What was granted, and what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    pub granted: Vec<Grant>,
    pub troubles: Vec<Trouble>,
    covered: Vec<PathBuf>,
}

impl Grants {
    /// Weighs one path after the other.
    #[must_use]
    pub fn weigh(
        wanted: impl IntoIterator<Item = (PathBuf, Origin)>,
        protected: &Protected,
        unprotected: &[PathBuf],
    ) -> Self {
        let mut grants = Self::default();
        for (path, origin) in wanted {
            grants.add(path, origin, protected, unprotected);
        }
        grants
    }

    fn add(&mut self, path: PathBuf, origin: Origin, protected: &Protected, free: &[PathBuf]) {
        let implied = origin.is_implied();
        let Some(real) = real(&path) else {
            match to_be_made_in(&path).filter(|_| implied) {
                Some(directory) => self.add(directory, origin, protected, free),
                None if implied => {}
                None => {
                    let instead = "create it or correct the path";
                    self.trouble(true, &path, "does not exist", instead);
                }
            }
            return;
        };
        let writable = !matches!(origin, Origin::Read | Origin::Project)
            && !(implied && (is_settings(&real) || is_program(&real)));
        if implied
            && (is_system(&real) || NEVER_IMPLIED.iter().any(|place| real.starts_with(place)))
        {
            return;
        }
        let is_home = protected.home.as_deref() == Some(&*real);
        if real == Path::new("/") || (implied && is_home) {
            let instead = "name the directories it needs under `jail.read` or `jail.write`";
            self.trouble(!implied, &path, "is too much to show", instead);
            return;
        }
        let is_free = |place: &Path| {
            free.iter().any(|free| {
                place.starts_with(free) || place.starts_with(self::real(free).unwrap_or_default())
            })
        };
        if let Some(place) = protected.holding(&real).filter(|_| !is_free(&real)) {
            let instead = format!(
                "add `jail: {{ unprotect: [{}] }}` if it must see that",
                path.display()
            );
            let what = format!("is protected ({})", place.display());
            self.trouble(!implied, &path, &what, &instead);
            return;
        }
        let inside: Vec<PathBuf> = protected
            .within(&real)
            .filter(|place| !is_free(place) && place.symlink_metadata().is_ok())
            .map(Path::to_owned)
            .collect();
        if let (Some(place), true) = (inside.first(), writable) {
            let what = format!("contains {}, which is protected", place.display());
            let instead = "grant the directories below it that it must write to under `jail.write`";
            self.trouble(!implied, &path, &what, instead);
            if !implied {
                return;
            }
        }
        let writable = writable && inside.is_empty();
        for place in inside {
            if let Ok(below) = place.strip_prefix(&real) {
                self.covered.push(path.join(below));
            }
            self.covered.push(place);
        }
        self.granted.push(Grant {
            path,
            writable,
            origin,
            real,
        });
    }

    fn trouble(&mut self, is_error: bool, path: &Path, what: &str, instead: &str) {
        self.troubles.push(Trouble {
            is_error,
            what: format!("`{}` {what}", path.display()),
            instead: instead.to_owned(),
        });
    }

    /// As mounts: where one path is granted twice, the one that may write wins.
    #[must_use]
    pub fn mounts(&self) -> Vec<Mount> {
        let mut places: BTreeMap<&Path, (&Path, bool)> = BTreeMap::new();
        for grant in &self.granted {
            for target in [&grant.path, &grant.real] {
                let entry = places.entry(target).or_insert((&grant.real, false));
                entry.1 |= grant.writable;
            }
        }
        let mut mounts: Vec<Mount> = places
            .into_iter()
            .map(|(target, (source, writable))| {
                let access = if writable {
                    Access::Writable
                } else {
                    Access::ReadOnly
                };
                Mount::new(
                    target,
                    What::Bind {
                        source: source.to_owned(),
                        access,
                        optional: false,
                        owned: true,
                    },
                )
            })
            .collect();
        mounts.extend(
            self.covered
                .iter()
                .map(|place| Mount::new(place, What::Mask)),
        );
        mounts
    }
}

/// What the machine's owner set up is not a server's to change because it is among its arguments.
fn is_settings(path: &Path) -> bool {
    ["/etc", "/opt", "/snap"]
        .iter()
        .any(|place| path.starts_with(place))
}

/// Where a file that is named and not there yet would be made. Everybody's directories are too much for that.
fn to_be_made_in(path: &Path) -> Option<PathBuf> {
    let directory = path.parent().filter(|_| path.extension().is_some())?;
    let is_everybodys = ["/", "/tmp", "/var/tmp"]
        .iter()
        .any(|place| directory == Path::new(place));
    (directory.is_dir() && !is_everybodys).then(|| directory.to_owned())
}

/// A program that is named is executed, and not its own to change.
fn is_program(path: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt as _;
    path.metadata()
        .is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok()
}

/// Every absolute path that a text names: the whole of it, what follows a `=`, and the parts of a list. It exists, or is a file that could
/// be made.
#[must_use]
pub fn paths_in(text: &str) -> Vec<PathBuf> {
    let value = |text: &str| text.strip_prefix("file://").unwrap_or(text).to_owned();
    let mut found = vec![value(text)];
    if let Some((_, after)) = text.split_once('=') {
        found.push(value(after));
    }
    // Lists of paths, and scripts such as that of `sh -c`.
    let parts: Vec<String> = found
        .iter()
        .flat_map(|text| {
            text.split(|letter: char| letter.is_whitespace() || ":,;&|()'\"`<>".contains(letter))
        })
        .map(value)
        .collect();
    found.extend(parts);
    let mut paths: Vec<PathBuf> = found
        .into_iter()
        .map(PathBuf::from)
        .filter(|path| path.is_absolute())
        .filter(|path| path.symlink_metadata().is_ok() || to_be_made_in(path).is_some())
        .collect();
    paths.sort();
    paths.dedup();
    paths
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Place(tempfile::TempDir);

    impl Place {
        fn new() -> Self {
            let place = Self(tempfile::tempdir().unwrap());
            for directory in [".ssh", ".config/gh", "src/app", "docs"] {
                std::fs::create_dir_all(place.at(directory)).unwrap();
            }
            place
        }

        fn at(&self, path: &str) -> PathBuf {
            self.0.path().canonicalize().unwrap().join(path)
        }

        fn weigh(&self, path: &str, origin: Origin, free: &[&str]) -> Grants {
            let home = self.0.path().canonicalize().unwrap();
            let protected = Protected::new(Some(&home), &[self.at("gate")]);
            let path = if path == "~" {
                home
            } else if path.starts_with('/') {
                path.into()
            } else {
                self.at(path)
            };
            let free: Vec<PathBuf> = free.iter().map(|path| self.at(path)).collect();
            Grants::weigh([(path, origin)], &protected, &free)
        }
    }

    #[test]
    fn what_an_operator_wrote_is_granted() {
        let place = Place::new();
        let grants = place.weigh("src/app", Origin::Argument, &[]);
        assert!(grants.troubles.is_empty(), "{grants:?}");
        assert!(grants.granted[0].writable);
        assert!(!place.weigh("docs", Origin::Read, &[]).granted[0].writable);
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_granted_with_its_directory() {
        let place = Place::new();
        let grants = place.weigh("src/app/memory.json", Origin::Variable("FILE".into()), &[]);
        assert_eq!(grants.granted[0].path, place.at("src/app"), "{grants:?}");
        for path in [
            "memory.json",
            ".ssh/new.pem",
            "src/missing/x.json",
            "src/new-directory",
        ] {
            let grants = place.weigh(path, Origin::Argument, &[]);
            assert!(grants.granted.is_empty(), "{path}: {grants:?}");
        }
        let written = place.weigh("src/app/memory.json", Origin::Write, &[]);
        assert!(written.granted.is_empty() && written.troubles[0].is_error);
    }

    #[test]
    fn a_protected_place_is_never_granted() {
        let place = Place::new();
        for origin in [
            Origin::Argument,
            Origin::Read,
            Origin::Write,
            Origin::Directory,
        ] {
            let grants = place.weigh(".ssh", origin.clone(), &[]);
            assert!(grants.granted.is_empty(), "{origin}: {grants:?}");
            assert_eq!(grants.troubles[0].is_error, !origin.is_implied());
        }
        std::os::unix::fs::symlink(place.at(".ssh"), place.at("src/link")).unwrap();
        assert!(
            place
                .weigh("src/link", Origin::Write, &[])
                .granted
                .is_empty()
        );
        assert!(
            !place
                .weigh(".ssh", Origin::Read, &[".ssh"])
                .granted
                .is_empty()
        );
    }

    #[test]
    fn what_contains_a_protected_place_is_for_reading_and_covered() {
        let place = Place::new();
        let write = place.weigh(".config", Origin::Write, &[]);
        assert!(write.granted.is_empty() && write.troubles[0].is_error);
        let read = place.weigh(".config", Origin::Read, &[]);
        let masked = read.mounts();
        assert!(
            masked
                .iter()
                .any(|mount| mount.what == What::Mask && mount.target == place.at(".config/gh")),
            "{masked:?}"
        );
        let implied = place.weigh(".config", Origin::Argument, &[]);
        assert!(!implied.granted[0].writable && !implied.troubles[0].is_error);
    }

    #[test]
    fn neither_the_root_nor_the_home_is_ever_implied() {
        let place = Place::new();
        for path in ["/", "~"] {
            for origin in [
                Origin::Argument,
                Origin::Directory,
                Origin::Variable("X".into()),
                Origin::Project,
            ] {
                let grants = place.weigh(path, origin, &[]);
                assert!(
                    grants.granted.is_empty() && !grants.troubles.is_empty(),
                    "{path}: {grants:?}"
                );
            }
        }
        assert!(!place.weigh("~", Origin::Read, &[]).granted.is_empty());
    }

    #[test]
    fn paths_are_found_where_people_write_them() {
        let place = Place::new();
        let app = place.at("src/app");
        let docs = place.at("docs");
        let both = format!("--roots={}:{}", app.display(), docs.display());
        let only = std::slice::from_ref(&app);
        assert_eq!(paths_in(&app.display().to_string()), only);
        assert_eq!(paths_in(&format!("file://{}", app.display())), only);
        assert_eq!(paths_in(&both), [docs.clone(), app.clone()]);
        assert!(paths_in("https://example.com/usr").is_empty());
        assert!(paths_in("relative").is_empty());
        let script = format!("cd {} && exec '{}/x'", app.display(), docs.display());
        assert_eq!(paths_in(&script), only, "what is missing is not named");
    }
}
