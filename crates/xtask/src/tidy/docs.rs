//! Prose names only what exists, and shows the stages of a call as the code has them.
//!
//! **Invariant: prose names only what exists.** Rules `docs-name-what-exists`, `links` and `attacks`.

use std::collections::BTreeSet;

use super::{Finding, pages, source, tree::Tree};

const STAGE_LIST: &str = "crates/vocab/src/stage.rs";
const STAGE_PAGE: &str = "docs/understand/life-of-a-call.md";
const STAGE_CODE: &str = "crates/gateway/src/call.rs";
/// What fits a terminal beside the code. The page is read there.
const STAGE_PAGE_COLUMNS: usize = 80;
const CATALOGUE: &str = "crates/vocab/src/violation.rs";
/// Pages whose rows name tests.
const PAGES_OF_TESTS: [&str; 2] = ["docs/understand/attacks.md", "docs/understand/found.md"];
const DECISIONS: &str = "docs/decisions/";
const KEPT_BY: &str = "**Kept by**";
const CHANGELOG: &str = "CHANGELOG.md";

/// Directories of ours; a path that starts with one of them is meant to exist.
const OURS: [&str; 5] = ["crates/", "docs/", "fuzz/", ".ci/", "console/"];

pub(crate) fn names(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    // A changelog speaks of what was; all other pages speak of what is.
    let pages = tree
        .files
        .iter()
        .filter(|(path, _)| path.ends_with(".md") && *path != CHANGELOG);
    for (path, text) in pages {
        // A decision record does so where it says what keeps it.
        let is_decision = path.starts_with(DECISIONS);
        let mut says_what_is = !is_decision;
        for (at, line) in text.lines().enumerate() {
            if is_decision {
                says_what_is =
                    line.starts_with(KEPT_BY) || (says_what_is && !line.trim().is_empty());
            }
            if !says_what_is {
                continue;
            }
            let named = code_spans(line)
                .chain(link_targets(line))
                .chain(bare_paths(line))
                .collect::<BTreeSet<_>>();
            for name in named {
                if let Some(what) = missing(tree, path, name) {
                    found.push(Finding::at(path, at + 1, what));
                }
            }
        }
    }
    found
}

/// What is wrong with a name in the prose of `page`, if anything.
fn missing(tree: &Tree, page: &str, name: &str) -> Option<String> {
    if let Some(verb) = name.strip_prefix("cargo xtask ") {
        let verb = verb.split(' ').next().unwrap_or_default();
        return (!crate::VERBS.iter().any(|(known, _)| *known == verb))
            .then(|| format!("`cargo xtask {verb}` is not a verb"));
    }
    if name.contains(char::is_whitespace) || name.contains("…") || name.contains('<') {
        return None;
    }
    let path = name
        .split(['#', ':'])
        .next()
        .unwrap_or_default()
        .trim_end_matches('/');
    if OURS.iter().any(|ours| name.starts_with(ours))
        || path.ends_with(".rs")
        || path.ends_with(".md")
    {
        return (!exists(tree, page, path)).then(|| format!("`{name}` does not exist"));
    }
    missing_item(tree, name)
}

/// A path from the root, from the page, or the last parts of one; `*` stands for one part or the rest of it.
fn exists(tree: &Tree, page: &str, path: &str) -> bool {
    let path = path.trim_start_matches("./").trim_start_matches("../");
    let here = page.rsplit_once('/').map_or_else(
        || path.to_owned(),
        |(directory, _)| format!("{directory}/{path}"),
    );
    tree.files.keys().any(|file| {
        let inside = |directory: &str| {
            file.strip_prefix(directory)
                .is_some_and(|rest| rest.starts_with('/'))
        };
        file == path || *file == here || inside(path) || inside(&here) || ends_with(file, path)
    })
}

fn ends_with(file: &str, path: &str) -> bool {
    let mut parts = file.rsplit('/');
    path.rsplit('/').all(|wanted| {
        let Some(part) = parts.next() else {
            return false;
        };
        match wanted.split_once('*') {
            Some((head, tail)) => part.starts_with(head) && part.ends_with(tail),
            None => part == wanted,
        }
    })
}

/// `wire::json::Limits`: the first word is a crate of ours, so the last must be a word of its code, or of tests of that name.
fn missing_item(tree: &Tree, name: &str) -> Option<String> {
    let path = name.split(['(', '<', '{']).next().unwrap_or_default();
    let (first, _) = path.split_once("::")?;
    let last = path.rsplit("::").next().unwrap_or_default();
    if !tree.members.contains_key(first) || last.is_empty() {
        return None;
    }
    let home = format!("crates/{first}/");
    // Or of the integration tests, which are named after what they try.
    let tests = format!("crates/portcullis/tests/it/{first}");
    let known = tree
        .rust()
        .filter(|(file, _)| file.starts_with(&home) || file.starts_with(&tests))
        .any(|(file, text)| {
            source::has_word(text, last)
                || ends_with(file, &format!("{last}.rs"))
                || ends_with(file, &format!("{last}/*"))
        });
    (!known).then(|| format!("`{name}`: nothing in `{first}` is called `{last}`"))
}

/// The insides of backticks.
pub(super) fn code_spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// Relative targets of Markdown links.
fn link_targets(line: &str) -> impl Iterator<Item = &str> {
    let targets = line
        .split("](")
        .skip(1)
        .filter_map(|rest| rest.split(')').next());
    targets.filter(|target| {
        !target.contains("://") && !target.starts_with(['#', '/']) && target.contains(['.', '/'])
    })
}

/// Paths of ours that stand in prose or in a code block.
fn bare_paths(line: &str) -> impl Iterator<Item = &str> {
    let words = line.split(|c: char| c.is_whitespace() || "`()[]\"',;|".contains(c));
    words
        .map(|word| word.trim_end_matches(['.', ':']))
        .filter(|word| OURS.iter().any(|ours| word.starts_with(ours)))
}

pub(crate) fn stages(tree: &Tree) -> Vec<Finding> {
    let Some(list) = tree.get(STAGE_LIST) else {
        return vec![Finding::new(
            STAGE_LIST,
            "is missing; it is the list of stages",
        )];
    };
    let stages = listed_stages(list);
    let mut found = Vec::new();
    match tree.get(STAGE_PAGE) {
        None => found.push(Finding::new(
            STAGE_PAGE,
            "is missing; it shows the stages to a reader",
        )),
        Some(page) if page_stages(page, &stages) != stages => {
            let shown = page_stages(page, &stages).join(", ");
            found.push(Finding::new(
                STAGE_PAGE,
                format!("shows [{shown}]; the stages are [{}]", stages.join(", ")),
            ));
        }
        Some(page) => {
            found.extend(unnamed_codes(page, tree.get(CATALOGUE).unwrap_or_default()));
            found.extend(too_wide(page));
        }
    }
    match tree.get(STAGE_CODE) {
        None => found.push(Finding::new(
            STAGE_CODE,
            "is missing; it is the one path of a call",
        )),
        Some(text) => found.extend(out_of_order(&source::code(text), &stages)),
    }
    found
}

/// `Self::Receive, Self::Verify, …` out of the constant `ALL`.
fn listed_stages(text: &str) -> Vec<&str> {
    let all = text
        .split_once("ALL:")
        .and_then(|(_, rest)| rest.split_once(';').map(|(_, rest)| rest))
        .unwrap_or_default();
    let all = all.split_once("];").map_or(all, |(list, _)| list);
    all.split("Self::")
        .skip(1)
        .map(|rest| {
            rest.split(|c: char| !c.is_alphanumeric())
                .next()
                .unwrap_or_default()
        })
        .collect()
}

/// Codes of the catalogue (`Code: Stage, …;`) that the page does not name in the section of their stage.
fn unnamed_codes(page: &str, catalogue: &str) -> Vec<Finding> {
    let rows = catalogue
        .split_once("catalogue! {")
        .and_then(|(_, rest)| rest.split_once("\n}"))
        .map_or("", |(rows, _)| rows);
    let mut found = Vec::new();
    for line in rows.lines() {
        let Some((code, rest)) = line.trim().split_once(": ") else {
            continue;
        };
        let stage = rest.split(',').next().unwrap_or_default();
        if !section(page, stage).contains(&format!("`{code}`")) {
            found.push(Finding::new(
                STAGE_PAGE,
                format!("does not name `{code}` in the section of {stage}"),
            ));
        }
    }
    found
}

fn too_wide(page: &str) -> impl Iterator<Item = Finding> {
    let wide = page
        .lines()
        .map(|line| line.chars().count())
        .enumerate()
        .filter(|(_, columns)| *columns > STAGE_PAGE_COLUMNS);
    wide.map(|(at, columns)| {
        let what = format!("{columns} columns; the page is read at {STAGE_PAGE_COLUMNS}");
        Finding::at(STAGE_PAGE, at + 1, what)
    })
}

/// What stands under the heading that names a stage, down to the next heading.
fn section<'a>(page: &'a str, stage: &str) -> &'a str {
    let names = |part: &&str| {
        let heading = part.lines().next().unwrap_or_default();
        source::has_word(heading, stage)
    };
    page.split("\n#").skip(1).find(names).unwrap_or_default()
}

/// Stages in the order the page first opens a row, heading or list item with them.
fn page_stages<'a>(page: &'a str, stages: &[&str]) -> Vec<&'a str> {
    let mut shown = Vec::new();
    for line in page.lines().filter(|line| {
        line.starts_with(['|', '#', '-', '*']) || line.starts_with(|c: char| c.is_ascii_digit())
    }) {
        let first = line
            .split(|c: char| !c.is_alphabetic())
            .find(|word| !word.is_empty());
        if let Some(word) = first.filter(|word| stages.contains(word) && !shown.contains(word)) {
            shown.push(word);
        }
    }
    shown
}

/// The first stage whose function is not named after those before it.
fn out_of_order(code: &str, stages: &[&str]) -> Option<Finding> {
    let mut at = 0;
    for stage in stages {
        let function = stage.to_lowercase();
        let constant = format!("Stage::{stage}");
        let next = [&function, &constant]
            .into_iter()
            .filter_map(|word| source::find_word(code, word, at))
            .min();
        match next {
            Some(found) => at = found + 1,
            None => {
                return Some(Finding::new(
                    STAGE_CODE,
                    format!("does not name the stage `{function}` after the ones before it"),
                ));
            }
        }
    }
    None
}

pub(crate) fn attacks(tree: &Tree) -> Vec<Finding> {
    let functions = pages::functions(tree);
    let mut found = Vec::new();
    let is_name = |span: &&str| {
        span.contains('_')
            && span
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    for page in PAGES_OF_TESTS {
        for (at, line) in tree.get(page).unwrap_or_default().lines().enumerate() {
            for span in code_spans(line).filter(is_name) {
                if !functions.contains(span.rsplit("::").next().unwrap_or_default()) {
                    let what = format!("no test is called `{span}`");
                    found.push(Finding::at(page, at + 1, what));
                }
            }
        }
    }
    found
}

pub(crate) fn changelog(tree: &Tree) -> Vec<Finding> {
    let unreleased = |line: &str| {
        line.trim_start_matches('#').trim().trim_matches(['[', ']']) == "Unreleased"
            && line.starts_with("##")
    };
    match tree.get(CHANGELOG) {
        Some(text) if text.lines().any(unreleased) => Vec::new(),
        Some(_) => vec![Finding::new(CHANGELOG, "has no `## Unreleased` section")],
        None => vec![Finding::new(CHANGELOG, "is missing")],
    }
}
