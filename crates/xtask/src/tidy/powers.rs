//! Powers that a word in the source gives away: unsafe code, clocks, randomness, processes, the environment.
//!
//! **Invariant: pure crates stay pure.** `vocab`, `wire`, `flow`, `provenance`, `shape`, `policy`, `identity` and `oauth` touch no file,
//! clock, randomness or runtime: rule `pure`. Elsewhere time and randomness come from few, listed files: rule `clock`.
//! The environment is read in one place: rule `environment`.

use super::{Finding, source, tree::Tree};

/// Crates that compute and never touch the world.
const PURE: [&str; 9] = [
    "vocab",
    "api",
    "wire",
    "flow",
    "provenance",
    "shape",
    "policy",
    "identity",
    "oauth",
];
const IMPURE_WORDS: &[&str] = &[
    "std::fs",
    "std::net",
    "std::env",
    "std::process",
    "std::thread",
    "fs::File",
    "File::open",
    "SystemTime",
    "Instant::now",
    "tokio",
    "getrandom",
    "async fn",
];
const IMPURE_PACKAGES: [&str; 9] = [
    "tokio",
    "getrandom",
    "rand",
    "chrono",
    "time",
    "rustix",
    "libc",
    "hyper",
    "tempfile",
];

/// Crates that are never shipped.
const DEVELOPMENT: [&str; 4] = ["testkit", "bench", "fuzzing", "xtask"];

/// The program: it reads argv, the environment and the clock, and passes them down.
const PROGRAM: [&str; 4] = ["portcullis", "commands", "home", "terminal"];

/// Files outside the program that may read the wall clock or draw randomness, each with its reason.
const CLOCK_FILES: &[(&str, &str)] = &[
    (
        "crates/audit/src/clock.rs",
        "makes the clock that the ledger is given",
    ),
    (
        "crates/audit/src/entropy.rs",
        "draws the keys that arguments are sealed under",
    ),
    (
        "crates/identity/src/sign.rs",
        "blinds RSA signatures; the library draws what it needs by itself",
    ),
    (
        "crates/oauth/src/jwt.rs",
        "draws keys and signs with them; the library draws what it needs by itself",
    ),
    (
        "crates/secrets/src/entropy.rs",
        "makes the source of randomness that sealing is given",
    ),
    (
        "crates/doors/src/tls.rs",
        "whether a certificate holds is asked of the clock at the moment its file is read",
    ),
    (
        "crates/server/src/mcp/session.rs",
        "a session's id must not be guessed",
    ),
];

/// Files outside `sandbox` that may start a process, each with its reason.
const SPAWN_FILES: &[(&str, &str)] = &[
    (
        "crates/commands/src/verbs/seal.rs",
        "starts the user's own program, as the user's shell would",
    ),
    (
        "crates/commands/src/verbs/servers/login/browser.rs",
        "opens the user's own browser, as the user's shell would",
    ),
];

/// Files outside the program that may read argv or the environment.
const ENVIRONMENT_FILES: &[(&str, &str)] = &[
    (
        "crates/config/src/lib.rs",
        "four variables count more than the file, in every program that loads it; resolving takes them as a value",
    ),
    (
        "crates/worker/src/process.rs",
        "hands the worker's own flags to their reader",
    ),
    (
        "crates/executor/src/main.rs",
        "an executor is told everything by its environment",
    ),
    (
        "crates/worker/src/args.rs",
        "where the probe of the jail aims when nothing is said",
    ),
];

pub(crate) fn unsafe_code(tree: &Tree) -> Vec<Finding> {
    let outside = tree
        .rust()
        .filter(|(path, _)| !path.starts_with("crates/sandbox/"));
    outside
        .flat_map(|(path, text)| {
            let code = source::code(text);
            let lines: Vec<_> = source::lines_with(&code, "unsafe").collect();
            lines
                .into_iter()
                .map(move |line| Finding::at(path, line, "`unsafe` outside `sandbox`"))
        })
        .collect()
}

pub(crate) fn pure_crates(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, path, code) in tree.product_code().filter(|(name, ..)| PURE.contains(name)) {
        for word in IMPURE_WORDS {
            let lines = source::lines_with(&code, word);
            found.extend(lines.map(|line| {
                Finding::at(path, line, format!("`{word}` in `{name}`, which is pure"))
            }));
        }
    }
    for name in PURE {
        let dependencies = tree
            .members
            .get(name)
            .into_iter()
            .flat_map(|member| &member.dependencies);
        let impure = dependencies.filter(|dependency| {
            !dependency.dev && IMPURE_PACKAGES.contains(&dependency.name.as_str())
        });
        found.extend(impure.map(|dependency| {
            Finding::new(
                format!("crates/{name}/Cargo.toml"),
                format!(
                    "`{name}` is pure and may not depend on `{}`",
                    dependency.name
                ),
            )
        }));
    }
    found
}

pub(crate) fn clock_and_randomness(tree: &Tree) -> Vec<Finding> {
    let allowed = |name: &str, path: &str| {
        PROGRAM.contains(&name) || CLOCK_FILES.iter().any(|(file, _)| *file == path)
    };
    words(
        tree,
        &["SystemTime::now", "getrandom::", "rand::"],
        allowed,
        |word| {
            format!(
                "`{word}`; take the value as an argument, or list the file with its reason in tidy/powers.rs"
            )
        },
    )
}

pub(crate) fn spawn(tree: &Tree) -> Vec<Finding> {
    words(
        tree,
        &["process::Command", "tokio::process"],
        |name, path| name == "sandbox" || SPAWN_FILES.iter().any(|(file, _)| *file == path),
        |word| format!("`{word}`; processes are started by `sandbox`"),
    )
}

pub(crate) fn environment(tree: &Tree) -> Vec<Finding> {
    let allowed = |name: &str, path: &str| {
        PROGRAM.contains(&name) || ENVIRONMENT_FILES.iter().any(|(file, _)| *file == path)
    };
    let reads = [
        "env::var",
        "env::vars",
        "env::var_os",
        "env::vars_os",
        "env::args",
        "env::args_os",
        "env::current_dir",
        "env::temp_dir",
        "env::set_var",
    ];
    words(tree, &reads, allowed, |word| {
        format!("`{word}`; the program's `main` reads it and passes the value down")
    })
}

fn words(
    tree: &Tree,
    words: &[&str],
    allowed: impl Fn(&str, &str) -> bool,
    complaint: impl Fn(&str) -> String,
) -> Vec<Finding> {
    let mut found = Vec::new();
    for (name, path, code) in tree.product_code() {
        if DEVELOPMENT.contains(&name) || allowed(name, path) {
            continue;
        }
        for word in words {
            found.extend(
                source::lines_with(&code, word)
                    .map(|line| Finding::at(path, line, complaint(word))),
            );
        }
    }
    found
}

/// Marks of work that was left for later. Written in two halves, or this file would be the first to be found.
const MARKS: [&str; 2] = [concat!("FIX", "ME"), concat!("X", "XX:")];
const MACROS: [&str; 3] = ["todo!", "unimplemented!", "#[ignore"];

pub(crate) fn unfinished(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (path, text) in tree
        .files
        .iter()
        .filter(|(path, _)| !path.starts_with("fuzz/corpus/"))
    {
        for mark in MARKS {
            let lines = source::lines_with(text, mark);
            found.extend(lines.map(|line| {
                Finding::at(
                    path,
                    line,
                    format!("`{mark}`: finish it, or write the issue and drop the mark"),
                )
            }));
        }
    }
    for (path, text) in tree.rust() {
        let code = source::code(text);
        for word in MACROS {
            found.extend(
                source::lines_with(&code, word)
                    .map(|line| Finding::at(path, line, format!("`{word}`"))),
            );
        }
    }
    found
}
