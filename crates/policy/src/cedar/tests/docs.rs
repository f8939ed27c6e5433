//! What docs/operate/policy.md shows is what works.

use super::{bundle, outcome};
use crate::cedar::{Bundle, SCHEMA, cases};

const PAGE: &str = include_str!("../../../../../docs/operate/policy.md");

/// The code blocks of the page in one language.
fn blocks(language: &str) -> Vec<&'static str> {
    let opening = format!("```{language}\n");
    PAGE.split(opening.as_str())
        .skip(1)
        .map(|rest| rest.split("```").next().unwrap())
        .collect()
}

#[test]
fn every_policy_shown_loads() {
    let shown = blocks("cedar");
    assert!(shown.len() >= 3);
    for text in shown {
        bundle(text);
    }
}

#[test]
fn the_case_shown_runs_as_it_says() {
    let examples = blocks("cedar")
        .into_iter()
        .find(|text| text.contains("large-payment"))
        .unwrap();
    let [file] = blocks("json")[..] else {
        panic!("one file of cases is shown")
    };
    let outcomes = cases::run(&bundle(examples), &cases::parse("docs.json", file).unwrap());
    assert_eq!(
        outcomes
            .iter()
            .map(|it| it.failure.clone())
            .collect::<Vec<_>>(),
        [None]
    );
    assert_eq!(
        outcome(&outcomes[0].decision),
        ("ask", vec!["large-payment"])
    );
}

#[test]
fn the_page_names_every_starter_and_everything_in_the_schema() {
    for name in Bundle::STARTERS {
        assert!(PAGE.contains(&format!("| `{name}` |")), "{name}");
    }
    let is_word = |next: char| next == '_' || next.is_ascii_alphanumeric();
    for line in SCHEMA
        .lines()
        .filter(|line| !line.trim_start().starts_with("//"))
    {
        let Some((name, _)) = line.trim_start().split_once(':') else {
            continue;
        };
        let name = name
            .trim_start_matches(|next| !is_word(next))
            .trim_end_matches('?');
        if name.chars().all(is_word) {
            assert!(
                PAGE.contains(name),
                "`{name}` of the schema is not on the page"
            );
        }
    }
}
