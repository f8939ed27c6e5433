//! The shape of files: lint tables, module docs, length, and nothing that belongs to one machine.

use std::collections::BTreeSet;

use super::{Finding, source, tree::Tree};
use crate::check::testrun::OWN_MAIN;

/// Lines a Rust file may have before it must be excused.
pub(super) const MAX_LINES: usize = 800;

/// Long files and why each is one file.
const LONG_FILES: &[(&str, &str)] = &[];

pub(crate) fn lint_tables(tree: &Tree) -> Vec<Finding> {
    let root = tree.get("Cargo.toml").unwrap_or_default();
    let mut found = Vec::new();
    for name in tree.members.keys() {
        let path = format!("crates/{name}/Cargo.toml");
        let manifest = tree.get(&path).unwrap_or_default();
        if name == "sandbox" {
            found.extend(
                sandbox_lints(root, manifest)
                    .into_iter()
                    .map(|what| Finding::new(&path, what)),
            );
        } else if !section(manifest, "lints").contains("workspace = true") {
            found.push(Finding::new(path, "has no `[lints] workspace = true`"));
        }
    }
    found
}

/// `sandbox` repeats the workspace's lints, with `unsafe_code` denied where the others forbid it.
fn sandbox_lints(root: &str, manifest: &str) -> Vec<String> {
    let mut found = Vec::new();
    for table in ["rust", "clippy"] {
        let wanted = section(root, &format!("workspace.lints.{table}"));
        let present = section(manifest, &format!("lints.{table}"));
        for line in wanted {
            let line = if line.starts_with("unsafe_code") {
                "unsafe_code = \"deny\""
            } else {
                line
            };
            if !present.contains(line) {
                found.push(format!(
                    "`[lints.{table}]` lacks `{line}`, which the rest of the workspace has"
                ));
            }
        }
    }
    found
}

/// The lines of one TOML table, without comments and blank ones.
fn section<'a>(manifest: &'a str, name: &str) -> BTreeSet<&'a str> {
    let header = format!("[{name}]");
    let body = manifest
        .lines()
        .map(str::trim)
        .skip_while(|line| *line != header)
        .skip(1);
    body.take_while(|line| !line.starts_with('['))
        .filter(|line| !line.is_empty() && !line.starts_with('#'))
        .collect()
}

/// Test programs with a `main` of their own that the gate does not know of.
pub(crate) fn own_main(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for name in tree.members.keys() {
        let path = format!("crates/{name}/Cargo.toml");
        for table in tree
            .get(&path)
            .unwrap_or_default()
            .split("[[test]]")
            .skip(1)
        {
            let table = table.split("\n[").next().unwrap_or_default();
            let target = table
                .lines()
                .find_map(|line| line.trim().strip_prefix("name = \"")?.strip_suffix('"'))
                .unwrap_or_default();
            if table.contains("harness = false") && !OWN_MAIN.contains(&(name.as_str(), target)) {
                found.push(Finding::new(
                    &path,
                    format!(
                        "the test `{target}` has a `main` of its own; list it in check/testrun.rs"
                    ),
                ));
            }
        }
    }
    found
}

pub(crate) fn module_docs(tree: &Tree) -> Vec<Finding> {
    let files = tree
        .rust()
        .filter(|(path, _)| path.contains("/src/") && !source::is_test_file(path));
    files
        .filter(|(_, text)| !text.trim_start().starts_with("//!"))
        .map(|(path, _)| Finding::at(path, 1, "does not open with a module doc (`//!`)"))
        .collect()
}

pub(crate) fn file_length(tree: &Tree) -> Vec<Finding> {
    let excused = |path: &str| LONG_FILES.iter().any(|(file, _)| *file == path);
    let long = tree
        .rust()
        .map(|(path, text)| (path, text.lines().count()))
        .filter(|(path, lines)| *lines > MAX_LINES && !excused(path));
    long.map(|(path, lines)| {
        Finding::new(
            path,
            format!("{lines} lines; split it, or excuse it in tidy/shape.rs"),
        )
    })
    .collect()
}

/// Directories that exist on somebody's machine. Written in halves, or this file would be the first to be found.
const MACHINE_PATHS: [&str; 5] = [
    concat!("/wo", "rk/"),
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/tmp", "/pc"),
    concat!("/fa", "rm/"),
];

/// The words by which a file names a package index of its own.
const INDEX_WORDS: [&str; 4] = [
    concat!("index", "-url"),
    concat!("replace", "-with"),
    concat!("_auth", "Token"),
    concat!("registry", "=http"),
];

/// Where locked packages may come from.
const CRATES: &str = "registry+https://github.com/rust-lang/crates.io-index";
const NPM: &str = "https://registry.npmjs.org/";

pub(crate) fn machine_paths(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in &tree.files {
        for (at, line) in text.lines().enumerate() {
            if let Some(what) = foreign(path, line) {
                found.push(Finding::at(path, at + 1, what));
            }
        }
    }
    found
}

fn foreign(path: &str, line: &str) -> Option<String> {
    if let Some(needle) = MACHINE_PATHS
        .iter()
        .find(|needle| names_directory(line, needle))
    {
        return Some(format!("names `{needle}`, a directory of one machine"));
    }
    if let Some(word) = INDEX_WORDS.iter().find(|word| line.contains(**word)) {
        return Some(format!(
            "sets `{word}`; packages come from the public indexes"
        ));
    }
    let from = |key: &str, home: &str| {
        line.trim()
            .strip_prefix(key)
            .is_some_and(|value| !value.starts_with(home))
    };
    let lock = path.rsplit('/').next().unwrap_or_default();
    let strange = (lock == "Cargo.lock" && from("source = \"", CRATES))
        || (lock == "package-lock.json" && from("\"resolved\": \"", NPM));
    strange.then(|| format!("locks a package from somewhere else: {}", line.trim()))
}

/// An absolute path, not the middle of a longer one.
fn names_directory(line: &str, needle: &str) -> bool {
    let whole = |at: usize| {
        !line
            .get(..at)
            .and_then(|head| head.chars().next_back())
            .is_some_and(|c| c.is_alphanumeric() || "._-/}$".contains(c))
    };
    line.match_indices(needle).any(|(at, _)| whole(at))
}
