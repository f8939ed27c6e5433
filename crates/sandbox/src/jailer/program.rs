//! What a program needs of itself: its own file, the interpreter its first line names, the installation both belong to.
//!
//! What lies in `/usr` every jail sees. Elsewhere, often in the user's home, an installation is recognised by how it is laid out and shown as
//! a whole, for reading only; a file of no known installation is shown alone.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::io::Read;
use std::path::{Path, PathBuf};

use crate::spawn::{Command, SpawnError};

/// How many interpreters of interpreters are followed.
const MAX_DEPTH: usize = 4;
/// The kernel reads no more of a first line.
const FIRST_LINE: u64 = 256;

/// Programs that run a script named among their arguments.
const INTERPRETERS: [&str; 12] = [
    "node", "nodejs", "bun", "deno", "tsx", "ts-node", "python", "python3", "ruby", "perl", "php",
    "sh",
];
/// What marks the top of a project.
const PROJECT_FILES: [&str; 6] = [
    "package.json",
    "pyproject.toml",
    "setup.py",
    "deno.json",
    "Gemfile",
    ".git",
];
/// Directories that are an installation as a whole.
const INSTALLATIONS: [&str; 6] = [".volta", ".asdf", ".pyenv", ".bun", ".deno", ".linuxbrew"];

/// A program that was found, and what has to be shown of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    /// Where the name led, as an absolute path.
    pub file: PathBuf,
    shown: BTreeSet<(PathBuf, PathBuf)>,
    /// The projects of the script that the program runs, if its arguments name one: where it is named, and where that leads.
    pub projects: BTreeSet<PathBuf>,
}

impl Program {
    /// Finds `command` as `exec` would, with this `PATH` and in this directory.
    ///
    /// # Errors
    /// If there is no such program, or this user may not execute it.
    pub fn find(
        command: &OsStr,
        args: &[OsString],
        path: &OsStr,
        directory: Option<&Path>,
    ) -> Result<Self, SpawnError> {
        let complain = |errno| {
            let like = Command::new(command).path(path);
            directory
                .map_or(like.clone(), |directory| like.directory(directory))
                .explain(std::io::Error::from_raw_os_error(errno))
        };
        let file = locate(command, path, directory).map_err(complain)?;
        let mut program = Self {
            file: file.clone(),
            shown: BTreeSet::new(),
            projects: BTreeSet::new(),
        };
        program.show(&file, path, 0);
        program.projects = projects_of(command, args, directory);
        Ok(program)
    }

    fn show(&mut self, file: &Path, path: &OsStr, depth: usize) {
        let Ok(real) = file.canonicalize() else {
            return;
        };
        for named in [file, &real] {
            if is_system(named) {
                continue;
            }
            match installation_of(named) {
                Some(root) => self.show_at(&root),
                None => {
                    self.shown.insert((named.to_owned(), real.clone()));
                }
            }
        }
        // `uvx` executes the `uv` beside it.
        if real.file_name() == Some(OsStr::new("uvx")) && !is_system(&real) {
            self.show_at(&real.with_file_name("uv"));
        }
        if depth < MAX_DEPTH
            && let Some(interpreter) = interpreter_of(&real)
            && let Ok(found) = locate(&interpreter, path, None)
        {
            self.show(&found, path, depth + 1);
        }
    }

    fn show_at(&mut self, place: &Path) {
        if let Ok(real) = place.canonicalize() {
            self.shown.insert((place.to_owned(), real.clone()));
            self.shown.insert((real.clone(), real));
        }
    }

    /// The places that have to be shown, for reading: where the program looks for them, and where that leads.
    pub(super) fn shown(&self) -> impl Iterator<Item = (&Path, &Path)> {
        self.shown
            .iter()
            .map(|(target, source)| (target.as_path(), source.as_path()))
    }
}

/// What an installation needs of itself where it lies among other things, as Node with the prefix `~/.local` does.
pub(super) fn parts_of(installation: &Path) -> Vec<(&'static str, PathBuf)> {
    if !is_node(installation) {
        return Vec::new();
    }
    ["bin", "lib/node_modules"]
        .into_iter()
        .filter_map(|part| Some((part, installation.join(part).canonicalize().ok()?)))
        .collect()
}

fn is_node(place: &Path) -> bool {
    place.join("bin/node").exists() && place.join("lib/node_modules").exists()
}

/// What every jail sees anyway.
pub(super) fn is_system(path: &Path) -> bool {
    [
        "/usr",
        "/bin",
        "/sbin",
        "/lib",
        "/lib64",
        "/nix/store",
        "/gnu/store",
    ]
    .iter()
    .any(|system| path.starts_with(system))
}

fn locate(command: &OsStr, path: &OsStr, directory: Option<&Path>) -> Result<PathBuf, i32> {
    let named = Path::new(command);
    if named.components().count() > 1 || named.is_absolute() {
        let file = directory.map_or_else(|| named.to_owned(), |directory| directory.join(named));
        let file = std::path::absolute(&file).map_err(|_| libc::ENOENT)?;
        return executable(&file).map(|()| file);
    }
    let mut refused = libc::ENOENT;
    for place in std::env::split_paths(path).filter(|place| place.is_absolute()) {
        let file = place.join(named);
        match executable(&file) {
            Ok(()) => return Ok(file),
            Err(libc::ENOENT) => {}
            Err(errno) => refused = errno,
        }
    }
    Err(refused)
}

fn executable(file: &Path) -> Result<(), i32> {
    let metadata = std::fs::metadata(file).map_err(|_| libc::ENOENT)?;
    if !metadata.is_file() {
        return Err(libc::EACCES);
    }
    rustix::fs::access(file, rustix::fs::Access::EXEC_OK).map_err(|_| libc::EACCES)
}

/// The program that the first line of a script names.
fn interpreter_of(file: &Path) -> Option<OsString> {
    let mut start = Vec::new();
    let mut opened = std::fs::File::open(file).ok()?;
    opened
        .by_ref()
        .take(FIRST_LINE)
        .read_to_end(&mut start)
        .ok()?;
    let line = start
        .strip_prefix(b"#!")?
        .split(|&byte| byte == b'\n')
        .next()?;
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let first = words.next()?;
    if Path::new(first).file_name() != Some(OsStr::new("env")) {
        return Some(first.into());
    }
    words
        .find(|word| !word.starts_with('-') && !word.contains('='))
        .map(Into::into)
}

/// The top of the installation that a file belongs to.
fn installation_of(file: &Path) -> Option<PathBuf> {
    let ends = |path: &Path, names: &[&str]| {
        let mut path = Some(path);
        names.iter().rev().all(|name| {
            let fits = path.and_then(Path::file_name) == Some(OsStr::new(name));
            path = path.and_then(Path::parent);
            fits
        })
    };
    for place in file.ancestors().skip(1) {
        let above = place.parent()?;
        let is_named = INSTALLATIONS
            .iter()
            .any(|name| place.file_name() == Some(OsStr::new(name)));
        let is_kept = ends(above, &["uv", "tools"])
            || ends(above, &["uv", "python"])
            || ends(above, &["pipx", "venvs"])
            || above
                .parent()
                .is_some_and(|above| ends(above, &["mise", "installs"]))
            || above == Path::new("/opt")
            || place == Path::new("/snap");
        if is_node(place) || is_named || is_kept || place.join("pyvenv.cfg").is_file() {
            return Some(place.to_owned());
        }
    }
    None
}

/// The projects of a script that an interpreter is to run.
fn projects_of(command: &OsStr, args: &[OsString], directory: Option<&Path>) -> BTreeSet<PathBuf> {
    let Some(script) = script_of(command, args, directory) else {
        return BTreeSet::new();
    };
    let real = script.canonicalize().ok();
    let named = std::iter::once(script).chain(real);
    named.filter_map(|script| project_of(&script)).collect()
}

fn script_of(command: &OsStr, args: &[OsString], directory: Option<&Path>) -> Option<PathBuf> {
    let name = Path::new(command).file_name()?.to_str()?;
    let plain = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '.');
    if !INTERPRETERS.contains(&name) && !INTERPRETERS.contains(&plain) {
        return None;
    }
    args.iter()
        .map(|arg| directory.map_or_else(|| PathBuf::from(arg), |directory| directory.join(arg)))
        .find(|path| path.is_absolute() && path.is_file())
}

/// The top of the project that a script belongs to.
fn project_of(script: &Path) -> Option<PathBuf> {
    if is_system(script) {
        return None;
    }
    // Packages of one tree need each other.
    let packages = script
        .ancestors()
        .filter(|place| place.file_name() == Some(OsStr::new("node_modules")))
        .last();
    if let Some(packages) = packages {
        return Some(packages.to_owned());
    }
    let nearest = script.ancestors().skip(1).find(|place| {
        PROJECT_FILES
            .iter()
            .any(|file| place.join(file).symlink_metadata().is_ok())
    });
    nearest.or_else(|| script.parent()).map(Path::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn write(path: &Path, text: &str) {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn shown(program: &Program) -> Vec<PathBuf> {
        program
            .shown()
            .map(|(target, _)| target.to_owned())
            .collect()
    }

    #[test]
    fn a_node_of_ones_own_is_shown_with_its_installation() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap();
        let node = root.join(".nvm/versions/node/v20");
        write(&node.join("bin/node"), "");
        write(
            &node.join("lib/node_modules/npm/bin/npx-cli.js"),
            "#!/usr/bin/env node\n",
        );
        std::os::unix::fs::symlink(
            "../lib/node_modules/npm/bin/npx-cli.js",
            node.join("bin/npx"),
        )
        .unwrap();
        let program =
            Program::find("npx".as_ref(), &[], node.join("bin").as_os_str(), None).unwrap();
        assert_eq!(shown(&program), [node]);
    }

    #[test]
    fn uvx_brings_uv_and_nothing_else_of_its_directory() {
        let home = tempfile::tempdir().unwrap();
        let bin = home.path().canonicalize().unwrap().join(".local/bin");
        for name in ["uv", "uvx", "other"] {
            write(&bin.join(name), "");
        }
        let program = Program::find("uvx".as_ref(), &[], bin.as_os_str(), None).unwrap();
        assert_eq!(shown(&program), [bin.join("uv"), bin.join("uvx")]);
    }

    #[test]
    fn a_script_of_a_project_brings_the_project() {
        let home = tempfile::tempdir().unwrap();
        let root = home.path().canonicalize().unwrap().join("server");
        write(&root.join("package.json"), "{}");
        write(&root.join("dist/index.js"), "");
        let args = [root.join("dist/index.js").into_os_string()];
        let path: OsString = "/usr/bin:/bin".into();
        let sh = Program::find("sh".as_ref(), &args, &path, None).unwrap();
        assert_eq!(sh.projects, BTreeSet::from([root.clone()]));
        let package = root.join("node_modules/@a/b/node_modules/c/index.js");
        write(&package, "");
        write(&root.join("node_modules/@a/b/package.json"), "{}");
        let packed = Program::find("sh".as_ref(), &[package.into()], &path, None).unwrap();
        assert_eq!(packed.projects, BTreeSet::from([root.join("node_modules")]));
        let link = root.with_file_name("link");
        std::os::unix::fs::symlink(&root, &link).unwrap();
        let named = link.join("dist/index.js");
        let linked = Program::find("sh".as_ref(), &[named.into()], &path, None).unwrap();
        assert_eq!(linked.projects, BTreeSet::from([link, root]));
        assert!(shown(&sh).is_empty());
    }

    #[test]
    fn what_is_missing_is_said_as_before() {
        let path: OsString = "/usr/bin".into();
        let error = Program::find("no-such-program".as_ref(), &[], &path, None).unwrap_err();
        assert!(matches!(error, SpawnError::NotOnPath { .. }), "{error}");
        let error = Program::find("/no/such/program".as_ref(), &[], &path, None).unwrap_err();
        assert!(matches!(error, SpawnError::NoSuchFile { .. }), "{error}");
        let error = Program::find("/etc/passwd".as_ref(), &[], &path, None).unwrap_err();
        assert!(matches!(error, SpawnError::NotExecutable { .. }), "{error}");
    }
}
