//! What tidy looks at: every tracked file's text and who links whom, as plain values. Rules take a [`Tree`] and touch nothing else,
//! so each can be shown a small tree that breaks it.

use std::{collections::BTreeMap, path::Path, process::Command};

use anyhow::{Context, Result, ensure};
use serde_json::Value;

use super::source;

#[derive(Debug, Default)]
pub(crate) struct Tree {
    /// By path from the root of the repository, with `/`.
    pub(crate) files: BTreeMap<String, String>,
    pub(crate) members: BTreeMap<String, Member>,
    /// What a shipped program links, by package name.
    pub(crate) linked: BTreeMap<String, Vec<Linked>>,
}

/// A crate of the workspace.
#[derive(Debug, Default)]
pub(crate) struct Member {
    pub(crate) dependencies: Vec<Dependency>,
}

#[derive(Debug)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// Only for this crate's own tests.
    pub(crate) dev: bool,
    pub(crate) features: Vec<String>,
}

/// A package in a program's dependency tree, with the features it is built with there.
#[derive(Debug)]
pub(crate) struct Linked {
    pub(crate) name: String,
    pub(crate) features: Vec<String>,
}

/// The programs that ship.
const PROGRAMS: [&str; 3] = ["worker", "executor", "portcullis"];

impl Tree {
    pub(crate) fn load(root: &Path) -> Result<Self> {
        let linked = PROGRAMS
            .iter()
            .map(|name| Ok(((*name).to_owned(), linked(root, name)?)))
            .collect::<Result<_>>()?;
        Ok(Self {
            files: files(root)?,
            members: members(root)?,
            linked,
        })
    }

    /// Rust files of the workspace's crates.
    pub(crate) fn rust(&self) -> impl Iterator<Item = (&str, &str)> {
        self.files
            .iter()
            .filter(|(path, _)| path.starts_with("crates/") && path.ends_with(".rs"))
            .map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// Rust files that are part of a program, as code without tests, comments and strings; with the name of their crate.
    pub(crate) fn product_code(&self) -> impl Iterator<Item = (&str, &str, String)> {
        self.rust()
            .filter(|(path, _)| !source::is_test_file(path))
            .filter_map(|(path, text)| {
                let name = path.strip_prefix("crates/")?.split('/').next()?;
                Some((name, path, source::without_tests(&source::code(text))))
            })
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(String::as_str)
    }
}

fn files(root: &Path) -> Result<BTreeMap<String, String>> {
    let listing = capture(
        root,
        "git",
        &[
            "ls-files",
            "-z",
            "--cached",
            "--others",
            "--exclude-standard",
        ],
    )?;
    let mut files = BTreeMap::new();
    for path in listing.split('\0').filter(|path| !path.is_empty()) {
        // A tracked file that was just deleted is not there to be read.
        if let Ok(bytes) = std::fs::read(root.join(path)) {
            files.insert(
                path.to_owned(),
                String::from_utf8_lossy(&bytes).into_owned(),
            );
        }
    }
    Ok(files)
}

fn members(root: &Path) -> Result<BTreeMap<String, Member>> {
    let text = capture(
        root,
        "cargo",
        &["metadata", "--format-version", "1", "--no-deps"],
    )?;
    let metadata: Value =
        serde_json::from_str(&text).context("`cargo metadata` did not print JSON")?;
    let packages = metadata
        .get("packages")
        .and_then(Value::as_array)
        .context("`cargo metadata` names no packages")?;
    Ok(packages
        .iter()
        .map(|package| {
            let dependencies = package
                .get("dependencies")
                .and_then(Value::as_array)
                .into_iter()
                .flatten()
                .map(dependency);
            (
                text_of(package, "name"),
                Member {
                    dependencies: dependencies.collect(),
                },
            )
        })
        .collect())
}

fn dependency(json: &Value) -> Dependency {
    let features = json
        .get("features")
        .and_then(Value::as_array)
        .into_iter()
        .flatten();
    Dependency {
        name: text_of(json, "name"),
        dev: json.get("kind").and_then(Value::as_str) == Some("dev"),
        features: features
            .filter_map(Value::as_str)
            .map(str::to_owned)
            .collect(),
    }
}

fn text_of(json: &Value, key: &str) -> String {
    json.get(key)
        .and_then(Value::as_str)
        .unwrap_or_default()
        .to_owned()
}

/// `cargo tree` resolves features for one package alone, as a build of that package does.
fn linked(root: &Path, package: &str) -> Result<Vec<Linked>> {
    let arguments = [
        "tree",
        "-p",
        package,
        "-e",
        "normal",
        "--prefix",
        "none",
        "--no-dedupe",
        "--format",
        "{p}|{f}",
    ];
    let text = capture(root, "cargo", &arguments)?;
    let mut seen = BTreeMap::new();
    for line in text.lines() {
        let (name, features) = line.split_once('|').unwrap_or((line, ""));
        let name = name.split(' ').next().unwrap_or_default().to_owned();
        seen.entry(name)
            .or_insert_with(|| features.split(',').map(str::to_owned).collect());
    }
    Ok(seen
        .into_iter()
        .map(|(name, features)| Linked { name, features })
        .collect())
}

fn capture(root: &Path, program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program)
        .args(arguments)
        .current_dir(root)
        .output();
    let output = output.with_context(|| format!("cannot run `{program}`; is it installed?"))?;
    let shown = arguments.join(" ");
    ensure!(
        output.status.success(),
        "`{program} {shown}` failed:\n{}",
        String::from_utf8_lossy(&output.stderr)
    );
    String::from_utf8(output.stdout)
        .with_context(|| format!("`{program} {shown}` did not print text"))
}
