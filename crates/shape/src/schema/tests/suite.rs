//! The official JSON Schema test suite: every required test of the three dialects, with the validator as it is configured for servers.
//!
//! The suite travels in the source package of Python's `jsonschema`, which is pinned by version and digest and unpacked under
//! `target/tools` when missing. Documents the suite expects on a web server are handed to the compiler; nothing is fetched.

use std::{
    collections::HashMap,
    fs::{self, File},
    path::{Path, PathBuf},
    process::Command,
    sync::Arc,
};

use referencing::{Draft, Retrieve, Uri};
use serde_json::Value;

use super::super::Schema;

const PACKAGE: &str = "jsonschema==4.26.0 --hash=sha256:0c26707e2efad8aa1bfc5b7ce170f3fccc2e4918ff85989ba9ffa9facb2be326\n";
const DIRECTORY: &str = "jsonschema-4.26.0/json";

/// Dialect, its directory, and how many tests it must have: a suite that silently shrank would prove nothing.
const DIALECTS: [(Draft, &str, usize); 3] = [
    (Draft::Draft202012, "draft2020-12", 1257),
    (Draft::Draft201909, "draft2019-09", 1227),
    (Draft::Draft7, "draft7", 913),
];

/// The suite's directory. A lock keeps two test processes from unpacking at once.
fn suite() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"))
        .ancestors()
        .nth(2)
        .unwrap();
    let home = root.join("target/tools/json-schema-suite");
    fs::create_dir_all(&home).unwrap();
    let lock = File::create(home.with_extension("lock")).unwrap();
    lock.lock().unwrap();
    let done = home.join("installed.txt");
    if fs::read_to_string(&done).is_ok_and(|installed| installed == PACKAGE) {
        return home.join(DIRECTORY);
    }
    fs::write(home.join("package.txt"), PACKAGE).unwrap();
    let run = |command: &mut Command| {
        let output = command
            .current_dir(&home)
            .output()
            .expect("python3 is installed");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(
            output.status.success(),
            "{command:?} failed; on Debian: apt-get install python3-venv\n{said}"
        );
    };
    run(Command::new("python3").args(["-m", "venv", "--clear", "venv"]));
    let pip = [
        "download",
        "--quiet",
        "--disable-pip-version-check",
        "--no-deps",
        "--no-binary=:all:",
        "--require-hashes",
        "-r",
    ];
    run(Command::new(home.join("venv/bin/pip"))
        .args(pip)
        .arg("package.txt"));
    run(Command::new("python3").args(["-m", "tarfile", "-e", "jsonschema-4.26.0.tar.gz", "."]));
    fs::write(done, PACKAGE).unwrap();
    home.join(DIRECTORY)
}

fn json_files(directory: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(json_files(&path));
        } else if path
            .extension()
            .is_some_and(|extension| extension == "json")
        {
            files.push(path);
        }
    }
    files.sort();
    files
}

/// What the suite's web server would serve: documents for everyone, and those of the dialect.
fn documents(suite: &Path, dialect: &str) -> HashMap<String, Value> {
    let remotes = suite.join("remotes");
    let ours = |path: &Path| {
        let first = path
            .strip_prefix(&remotes)
            .unwrap()
            .components()
            .next()
            .unwrap()
            .as_os_str()
            .to_string_lossy()
            .into_owned();
        !first.starts_with("draft") || first == dialect
    };
    let files = json_files(&remotes).into_iter().filter(|path| ours(path));
    files
        .map(|path| {
            let name = path.strip_prefix(&remotes).unwrap().to_str().unwrap();
            (
                format!("http://localhost:1234/{name}"),
                serde_json::from_slice(&fs::read(&path).unwrap()).unwrap(),
            )
        })
        .collect()
}

struct Shelf(Arc<HashMap<String, Value>>);

impl Retrieve for Shelf {
    fn retrieve(
        &self,
        uri: &Uri<String>,
    ) -> Result<Value, Box<dyn std::error::Error + Send + Sync>> {
        self.0
            .get(uri.as_str())
            .cloned()
            .ok_or_else(|| "not on the shelf".into())
    }
}

#[test]
fn the_official_suite_passes() {
    let suite = suite();
    let mut failures = Vec::new();
    for (draft, dialect, expected) in DIALECTS {
        let documents = Arc::new(documents(&suite, dialect));
        let mut count = 0;
        let required = json_files(&suite.join("tests").join(dialect));
        for file in required
            .iter()
            .filter(|file| !file.components().any(|part| part.as_os_str() == "optional"))
        {
            let groups: Vec<Value> = serde_json::from_slice(&fs::read(file).unwrap()).unwrap();
            for group in &groups {
                let tests = group["tests"].as_array().unwrap();
                count += tests.len();
                let place = format!(
                    "{dialect}/{}: {}",
                    file.file_stem().unwrap().display(),
                    group["description"]
                );
                match Schema::compile_among(
                    group["schema"].to_string().as_bytes(),
                    Shelf(Arc::clone(&documents)),
                    draft,
                ) {
                    Err(problem) => failures.push(format!("{place}: does not compile: {problem}")),
                    Ok(schema) => failures.extend(
                        tests
                            .iter()
                            .filter_map(|test| wrong(&schema, test))
                            .map(|what| format!("{place}: {what}")),
                    ),
                }
            }
        }
        assert_eq!(count, expected, "the required tests of {dialect}");
    }
    assert!(
        failures.is_empty(),
        "{} of the required tests fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

fn wrong(schema: &Schema, test: &Value) -> Option<String> {
    let verdict = schema.check(test["data"].to_string().as_bytes());
    (verdict.is_ok() != test["valid"].as_bool().unwrap())
        .then(|| format!("{}: {verdict:?}", test["description"]))
}
