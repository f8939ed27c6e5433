//! Pages as a reader meets them: a link leads somewhere, a word has one row in the glossary, and an invariant names what keeps it.

use std::collections::{BTreeMap, BTreeSet};

use super::{Finding, RULES, docs::code_spans, source, tree::Tree};

const GLOSSARY: &str = "GLOSSARY.md";
const ARCHITECTURE: &str = "ARCHITECTURE.md";

/// More than this nobody keeps in mind while reading a page. The others stand in the module that keeps them.
const MOST_INVARIANTS: usize = 20;

/// How an invariant begins, on the page and in a module doc alike, so that one search finds all of them.
const INVARIANT: &str = "**Invariant: ";

pub(crate) fn links(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    for (page, text) in tree.files.iter().filter(|(path, _)| path.ends_with(".md")) {
        for (at, line) in prose(text) {
            for target in targets(line) {
                if let Some(what) = leads_nowhere(tree, page, target) {
                    found.push(Finding::at(page, at, what));
                }
            }
        }
    }
    found
}

/// Lines outside of code blocks, with their numbers.
fn prose(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut is_code = false;
    text.lines().enumerate().filter_map(move |(at, line)| {
        let is_fence = line.trim_start().starts_with("```");
        is_code ^= is_fence;
        (!is_code && !is_fence).then_some((at + 1, line))
    })
}

/// Targets of Markdown links that stay in the repository.
fn targets(line: &str) -> impl Iterator<Item = &str> {
    line.split("](")
        .skip(1)
        .filter_map(|rest| rest.split_once(')').map(|(target, _)| target))
        .filter(|target| !target.contains("://") && !target.starts_with("mailto:"))
}

fn leads_nowhere(tree: &Tree, page: &str, target: &str) -> Option<String> {
    let (path, anchor) = target
        .split_once('#')
        .map_or((target, None), |(path, anchor)| (path, Some(anchor)));
    let file = if path.is_empty() {
        page.to_owned()
    } else {
        from_page(page, path)
    };
    let directory = format!("{file}/");
    let Some(text) = tree.get(&file) else {
        let is_directory = tree.files.keys().any(|known| known.starts_with(&directory));
        return (!is_directory)
            .then(|| format!("the link `{target}` leads to `{file}`, which does not exist"));
    };
    let anchor = anchor?;
    let is_heading = |(_, line): (usize, &str)| line.starts_with('#') && slug(line) == anchor;
    (!prose(text).any(is_heading))
        .then(|| format!("the link `{target}` leads to no heading of `{file}`"))
}

/// A path as a browser follows it from the page it stands on.
fn from_page(page: &str, path: &str) -> String {
    let mut parts: Vec<&str> = page.split('/').collect();
    parts.pop();
    for part in path.trim_end_matches('/').split('/') {
        match part {
            "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    parts.join("/")
}

/// The anchor that a heading gets.
fn slug(heading: &str) -> String {
    let text = heading.trim_start_matches('#').trim().to_lowercase();
    text.chars()
        .filter_map(|c| match c {
            ' ' => Some('-'),
            c if c.is_alphanumeric() || "-_".contains(c) => Some(c),
            _ => None,
        })
        .collect()
}

pub(crate) fn glossary(tree: &Tree) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut seen = BTreeMap::new();
    for (at, line) in prose(tree.get(GLOSSARY).unwrap_or_default()) {
        let mut cells = line.split('|').map(str::trim).skip(1);
        let (Some(words), Some(meaning)) = (cells.next(), cells.next()) else {
            continue;
        };
        if meaning.is_empty() {
            found.push(Finding::at(
                GLOSSARY,
                at,
                format!("`{words}` has no meaning"),
            ));
        }
        for word in words.split(',').map(|word| word.trim().to_lowercase()) {
            if word.chars().all(|c| c == '-') {
                continue;
            }
            if let Some(before) = seen.insert(word.clone(), at) {
                found.push(Finding::at(
                    GLOSSARY,
                    at,
                    format!("`{word}` has a row already, on line {before}"),
                ));
            }
        }
    }
    found
}

pub(crate) fn invariants(tree: &Tree) -> Vec<Finding> {
    let functions = functions(tree);
    let mut found = Vec::new();
    let page = paragraphs(tree.get(ARCHITECTURE).unwrap_or_default(), Some);
    let on_page: usize = page
        .iter()
        .map(|(_, text)| text.matches(INVARIANT).count())
        .sum();
    if on_page > MOST_INVARIANTS {
        found.push(Finding::new(
            ARCHITECTURE,
            format!("has {on_page} invariants; {MOST_INVARIANTS} stay, the others belong to the module docs of what keeps them"),
        ));
    }
    let modules = tree.rust().map(|(path, text)| {
        (
            path,
            paragraphs(text, |line| line.trim_start().strip_prefix("//!")),
        )
    });
    for (path, paragraphs) in modules.chain([(ARCHITECTURE, page)]) {
        for (at, text) in paragraphs {
            for invariant in text.split(INVARIANT).skip(1) {
                found.extend(unkept(invariant, &functions).map(|what| Finding::at(path, at, what)));
            }
        }
    }
    found
}

/// What is wrong with an invariant, if anything: it names no test and no tidy rule, or one that does not exist.
fn unkept(invariant: &str, functions: &BTreeSet<&str>) -> Option<String> {
    let is_rule = |span: &str| RULES.iter().any(|rule| rule.name == span);
    // The name of a test is a sentence. A key of the configuration is not.
    let is_test = |span: &str| {
        span.matches('_').count() >= 2
            && span
                .chars()
                .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "_:".contains(c))
    };
    let name = invariant.split("**").next().unwrap_or_default();
    let mut is_kept = false;
    for span in code_spans(invariant) {
        if is_test(span) && !functions.contains(span.rsplit("::").next().unwrap_or_default()) {
            return Some(format!("\"{name}\" names `{span}`, which is no test"));
        }
        is_kept |= is_test(span) || is_rule(span);
    }
    (!is_kept)
        .then(|| format!("\"{name}\" names no test and no tidy rule that fails when it is broken"))
}

/// Runs of lines that `of` finds text in, joined, with the number of the first.
fn paragraphs<'a>(text: &'a str, of: impl Fn(&'a str) -> Option<&'a str>) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut is_open = false;
    for (at, line) in text.lines().enumerate() {
        let Some(words) = of(line).map(str::trim).filter(|words| !words.is_empty()) else {
            is_open = false;
            continue;
        };
        match found.last_mut().filter(|_| is_open) {
            Some((_, paragraph)) => {
                paragraph.push(' ');
                paragraph.push_str(words);
            }
            None => found.push((at + 1, words.to_owned())),
        }
        is_open = true;
    }
    found
}

/// The names of all functions of the workspace, tests among them.
pub(super) fn functions(tree: &Tree) -> BTreeSet<&str> {
    tree.rust()
        .flat_map(|(_, text)| text.lines())
        .filter_map(|line| {
            let at = source::find_word(line, "fn", 0)?;
            line.get(at + 2..)?
                .trim_start()
                .split(|c: char| !c.is_alphanumeric() && c != '_')
                .next()
        })
        .collect()
}
