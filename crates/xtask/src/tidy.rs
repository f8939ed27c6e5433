//! `cargo xtask tidy`: the rules of the house that no compiler checks. Each failure says why the rule exists.
//!
//! A rule is a pure function from a [`Tree`] to findings. It never edits, and none is here that has not been seen red: `tests.rs`
//! shows every rule a small tree that breaks it.

mod docs;
mod links;
mod pages;
mod powers;
mod shape;
mod source;
#[cfg(test)]
mod tests;
mod tree;

use std::{fmt, path::Path};

use anyhow::{Result, bail};

use crate::say;
use tree::Tree;

/// One thing that breaks a rule, and where.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    place: String,
    what: String,
}

impl Finding {
    fn new(place: impl Into<String>, what: impl Into<String>) -> Self {
        Self {
            place: place.into(),
            what: what.into(),
        }
    }

    fn at(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self::new(format!("{path}:{line}"), what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

struct Rule {
    name: &'static str,
    why: &'static str,
    check: fn(&Tree) -> Vec<Finding>,
}

/// Every rule, in the order they are reported.
const RULES: &[Rule] = &[
    Rule {
        name: "worker-links",
        why: "the worker parses what hostile servers send; what it does not link, nobody can steal from it",
        check: links::worker_tree,
    },
    Rule {
        name: "gate-links",
        why: "the gate parses no upstream byte and opens no connection to the world; everything that fetches is a worker",
        check: links::gate_tree,
    },
    Rule {
        name: "fences",
        why: "a heavy dependency or a dangerous power has one owner, so that one crate can be reviewed for it",
        check: links::fences,
    },
    Rule {
        name: "direction",
        why: "portcullis → server → gateway → calls → upstreams → callers → policy | audit | secrets | sandbox → flow → wire → vocab; worker → wire, vocab, sandbox; executor → wire, sandbox",
        check: links::direction,
    },
    Rule {
        name: "lint-tables",
        why: "a crate outside the lint wall is a crate where a panic or an unsafe block goes unnoticed",
        check: shape::lint_tables,
    },
    Rule {
        name: "unsafe",
        why: "only `sandbox` may hold unsafe code, and every block there says why it is sound",
        check: powers::unsafe_code,
    },
    Rule {
        name: "pure",
        why: "pure crates are the ones we can prove: no files, clock, randomness, environment or runtime",
        check: powers::pure_crates,
    },
    Rule {
        name: "clock",
        why: "time and randomness are passed as values, so that a test can choose them",
        check: powers::clock_and_randomness,
    },
    Rule {
        name: "spawn",
        why: "a process started outside `sandbox` is a process outside the jail",
        check: powers::spawn,
    },
    Rule {
        name: "environment",
        why: "argv and the environment are read in `main` and passed down; elsewhere they are hidden inputs",
        check: powers::environment,
    },
    Rule {
        name: "unfinished",
        why: "what is not finished is not merged; what is not run is not tested",
        check: powers::unfinished,
    },
    Rule {
        name: "own-main",
        why: "the test runner skips a test program it gets no list from; what is not run is not tested",
        check: shape::own_main,
    },
    Rule {
        name: "module-docs",
        why: "a file says what it is and what it must never do before it does anything",
        check: shape::module_docs,
    },
    Rule {
        name: "file-length",
        why: "a file of more than 800 lines is several files; a long table may be excused with a reason",
        check: shape::file_length,
    },
    Rule {
        name: "machine-paths",
        why: "the repository builds anywhere; a path or package index of one machine does not",
        check: shape::machine_paths,
    },
    Rule {
        name: "docs-name-what-exists",
        why: "prose that names a thing that is gone misleads the next reader",
        check: docs::names,
    },
    Rule {
        name: "links",
        why: "a link that leads nowhere ends a reader's search",
        check: pages::links,
    },
    Rule {
        name: "glossary",
        why: "a word with two rows has two meanings, and every reader picks one",
        check: pages::glossary,
    },
    Rule {
        name: "invariants",
        why: "an invariant that no test and no rule keeps is a wish; one that is far from its code is forgotten",
        check: pages::invariants,
    },
    Rule {
        name: "stages",
        why: "the page and the code that show the life of a call must show the same life",
        check: docs::stages,
    },
    Rule {
        name: "attacks",
        why: "an attack we claim to stop names the test that shows it",
        check: docs::attacks,
    },
    Rule {
        name: "changelog",
        why: "a change a user would notice is written down when it is made",
        check: docs::changelog,
    },
];

/// Runs every rule over the repository; the number of rules that held, or an error that lists every finding.
pub(crate) fn run(root: &Path) -> Result<usize> {
    let tree = Tree::load(root)?;
    let mut broken = 0;
    for rule in RULES {
        let findings = (rule.check)(&tree);
        if findings.is_empty() {
            continue;
        }
        broken += 1;
        say(format_args!("tidy: {}: {}", rule.name, rule.why));
        for finding in &findings {
            say(format_args!("  {finding}"));
        }
    }
    if broken > 0 {
        bail!("{broken} of {} rules are broken", RULES.len());
    }
    say(format_args!(
        "tidy: {} rules hold over {} files",
        RULES.len(),
        tree.files.len()
    ));
    Ok(RULES.len())
}
