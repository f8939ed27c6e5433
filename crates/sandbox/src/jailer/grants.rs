//! What a jail may see of the user's files besides its own home, and what it may never see.
//!
//! A grant is a path that the operator wrote: under `jail.read` or `jail.write`, or among arguments, variables and the working directory.
//! Protected places hold keys, sessions, histories and the gate itself. A grant of one is refused; a grant that contains one is for reading
//! only, with the place covered, because a cover does not survive whoever may rename the directory above it.
//!
//! **Invariant: no grant reaches a protected place unless it is unprotected by name.** Tests `a_protected_place_is_never_granted`,
//! `what_contains_a_protected_place_is_for_reading_and_covered`, `a_poisoned_server_reaches_nothing_outside`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};

use super::program::{self, Program, is_system};
use super::protected::{Protected, Unprotected, real};
use super::spec::{Access, Mount, What};

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

impl Trouble {
    fn new(is_error: bool, path: &Path, what: &str, instead: &str) -> Self {
        Self {
            is_error,
            what: format!("`{}` {what}", path.display()),
            instead: instead.to_owned(),
        }
    }

    fn protected(is_error: bool, path: &Path, place: &Path) -> Self {
        let what = format!("is protected ({})", place.display());
        let instead = format!(
            "add `jail: {{ unprotect: [{}] }}` if it must see that",
            path.display()
        );
        Self::new(is_error, path, &what, &instead)
    }
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.instead)
    }
}

/// What was granted, and what stands in the way.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Grants {
    pub granted: Vec<Grant>,
    pub troubles: Vec<Trouble>,
    covered: Vec<PathBuf>,
    /// What the program needs of itself: where it is seen, and where that leads.
    shown: BTreeSet<(PathBuf, PathBuf)>,
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
        let free = Unprotected::new(unprotected);
        for path in free.missing() {
            let instead = "create it, or correct it under `jail.unprotect`";
            grants.trouble(true, path, "does not exist", instead);
        }
        for path in free.too_much(protected) {
            let instead = "name the protected places that it must see under `jail.unprotect`";
            grants.trouble(true, path, "is too much to unprotect", instead);
        }
        for (path, origin) in wanted {
            grants.add(path, origin, protected, &free);
        }
        grants
    }

    /// Weighs what the program needs of itself, which nobody wrote down as a grant: it is for reading, and never what the gate lies in.
    #[must_use]
    pub fn with_program(
        mut self,
        program: &Program,
        protected: &Protected,
        unprotected: &[PathBuf],
    ) -> Self {
        let free = Unprotected::new(unprotected);
        for (target, source) in program.shown() {
            self.show(target, source, protected, &free);
        }
        self
    }

    fn show(&mut self, target: &Path, source: &Path, protected: &Protected, free: &Unprotected) {
        let is_granted = |path: &Path| {
            self.granted
                .iter()
                .any(|grant| path.starts_with(&grant.real))
        };
        if let Some(place) = protected.holding(source).filter(|_| !free.has(source)) {
            if !is_granted(source) {
                self.troubles.push(Trouble::protected(true, target, place));
            }
            return;
        }
        if protected.is_too_much(source) {
            let parts = program::parts_of(source);
            let is_granted = is_granted(source);
            let (fit, rest): (Vec<_>, Vec<_>) = parts
                .into_iter()
                .partition(|(_, source)| !protected.is_too_much(source));
            for (part, source) in &fit {
                self.show(&target.join(part), source, protected, free);
            }
            if !is_granted && (fit.is_empty() || !rest.is_empty()) {
                let what = "holds the program, and is too much to show";
                let instead = "add the directories that the program needs under `jail.read`";
                self.trouble(true, target, what, instead);
            }
            return;
        }
        self.cover(target, source, protected, free);
        self.shown.insert((target.to_owned(), source.to_owned()));
    }

    /// Covers the protected places inside of what is shown.
    fn cover(&mut self, target: &Path, source: &Path, protected: &Protected, free: &Unprotected) {
        let inside = protected
            .within(source)
            .filter(|place| !free.has(place) && place.symlink_metadata().is_ok());
        for place in inside {
            if let Ok(below) = place.strip_prefix(source) {
                self.covered.push(target.join(below));
            }
            self.covered.push(place.to_owned());
        }
    }

    fn add(&mut self, path: PathBuf, origin: Origin, protected: &Protected, free: &Unprotected) {
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
        if real == Path::new("/") || (implied && protected.is_home(&real)) {
            let instead = "name the directories it needs under `jail.read` or `jail.write`";
            self.trouble(!implied, &path, "is too much to show", instead);
            return;
        }
        if let Some(place) = protected.holding(&real).filter(|_| !free.has(&real)) {
            self.troubles
                .push(Trouble::protected(!implied, &path, place));
            return;
        }
        let inside = protected
            .within(&real)
            .find(|place| !free.has(place) && place.symlink_metadata().is_ok());
        if let (Some(place), true) = (inside, writable) {
            let what = format!("contains {}, which is protected", place.display());
            let instead = "grant the directories below it that it must write to under `jail.write`";
            self.trouble(!implied, &path, &what, instead);
            if !implied {
                return;
            }
        }
        let writable = writable && inside.is_none();
        self.cover(&path, &real, protected, free);
        self.granted.push(Grant {
            path,
            writable,
            origin,
            real,
        });
    }

    fn trouble(&mut self, is_error: bool, path: &Path, what: &str, instead: &str) {
        self.troubles
            .push(Trouble::new(is_error, path, what, instead));
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
        let program = self.shown.iter().map(|(target, source)| {
            let what = What::Bind {
                source: source.clone(),
                access: Access::ReadOnly,
                optional: true,
                owned: true,
            };
            Mount::new(target, what)
        });
        // After the program, so that what is granted for writing as well can be written.
        let granted = places.into_iter().map(|(target, (source, writable))| {
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
        });
        let covers = self
            .covered
            .iter()
            .map(|place| Mount::new(place, What::Mask));
        program.chain(granted).chain(covers).collect()
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
    fn what_is_missing_unprotects_nothing_and_is_named() {
        let place = Place::new();
        for missing in [".ssh/missing", "missing", ".config/missing/deep"] {
            for (path, origin) in [
                (".ssh", Origin::Read),
                (".ssh", Origin::Write),
                (".config", Origin::Write),
                ("docs", Origin::Read),
            ] {
                let plain = place.weigh(path, origin.clone(), &[]);
                let freed = place.weigh(path, origin, &[missing]);
                assert_eq!(freed.granted, plain.granted, "{missing}: {path}");
                let named = place.at(missing).display().to_string();
                assert!(
                    freed
                        .troubles
                        .iter()
                        .any(|trouble| trouble.is_error && trouble.what.contains(&named)),
                    "{freed:?}"
                );
            }
        }
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

    fn executable(path: &Path) {
        use std::os::unix::fs::PermissionsExt;
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, "").unwrap();
        std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    }

    /// What is mounted for a program in this place, and what is wrong with it.
    fn program(place: &Place, file: &str, granted: Grants, free: &[PathBuf]) -> Grants {
        let home = place.at("");
        let protected = Protected::new(Some(&home), &[place.at(".local/state/gate")]);
        let found = Program::find(place.at(file).as_os_str(), &[], "".as_ref(), None).unwrap();
        granted.with_program(&found, &protected, free)
    }

    fn targets(grants: &Grants, what: fn(&What) -> bool) -> Vec<PathBuf> {
        let mounts = grants.mounts().into_iter();
        mounts
            .filter(|mount| what(&mount.what))
            .map(|mount| mount.target)
            .collect()
    }

    #[test]
    fn a_program_beside_the_gate_shows_only_its_parts() {
        let place = Place::new();
        executable(&place.at(".local/bin/node"));
        std::fs::create_dir_all(place.at(".local/lib/node_modules")).unwrap();
        std::fs::create_dir_all(place.at(".local/state/gate")).unwrap();
        let grants = program(&place, ".local/bin/node", Grants::default(), &[]);
        assert!(grants.troubles.is_empty(), "{grants:?}");
        assert_eq!(
            targets(&grants, |_| true),
            [".local/bin", ".local/lib/node_modules"].map(|path| place.at(path))
        );
    }

    #[test]
    fn a_program_never_brings_the_home_the_gate_or_a_protected_place() {
        let place = Place::new();
        std::fs::create_dir_all(place.at(".local/state/gate")).unwrap();
        // The home itself, a directory that the gate lies in, the gate, a key's directory.
        for (mark, file) in [
            ("pyvenv.cfg", "bin/python"),
            (".local/pyvenv.cfg", ".local/bin/python"),
            (".local/state/gate/x", ".local/state/gate/tool"),
            (".ssh/x", ".ssh/tool"),
        ] {
            executable(&place.at(mark));
            executable(&place.at(file));
            let grants = program(&place, file, Grants::default(), &[]);
            assert!(grants.mounts().is_empty(), "{file}: {grants:?}");
            assert!(grants.troubles[0].is_error, "{file}: {grants:?}");
            std::fs::remove_file(place.at(mark)).unwrap();
        }
        let free = [place.at(".ssh")];
        let grants = program(&place, ".ssh/tool", Grants::default(), &free);
        assert!(grants.troubles.is_empty(), "{grants:?}");
        // What was granted by name needs no more.
        std::fs::write(place.at(".local/pyvenv.cfg"), "").unwrap();
        let read = place.weigh(".local", Origin::Read, &[]);
        let grants = program(&place, ".local/bin/python", read, &[]);
        assert!(grants.troubles.is_empty(), "{grants:?}");
    }

    #[test]
    fn protected_places_inside_of_an_installation_are_covered() {
        let place = Place::new();
        std::fs::write(place.at(".config/pyvenv.cfg"), "").unwrap();
        executable(&place.at(".config/bin/tool"));
        let grants = program(&place, ".config/bin/tool", Grants::default(), &[]);
        assert!(grants.troubles.is_empty(), "{grants:?}");
        let covered = targets(&grants, |what| *what == What::Mask);
        assert!(covered.contains(&place.at(".config/gh")), "{grants:?}");
    }

    #[test]
    fn nobody_unprotects_everything() {
        let place = Place::new();
        for all in ["/", ""] {
            let grants = place.weigh(".ssh", Origin::Read, &[all]);
            assert!(
                grants.troubles.iter().any(|trouble| trouble.is_error),
                "{grants:?}"
            );
        }
    }
}
