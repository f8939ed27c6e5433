//! The rules about pages: links, the glossary, invariants, and the codes of refusals.

use super::super::{docs, pages};
use super::{green, red, tree};

#[test]
fn the_page_of_stages_names_every_code_in_its_section_and_is_narrow() {
    let check = |page: &str| {
        docs::stages(&tree(&[
            (
                "crates/vocab/src/stage.rs",
                "ALL: [Self; 2] = [Self::Receive, Self::Conclude];",
            ),
            (
                "crates/vocab/src/violation.rs",
                "catalogue! {\n    Malformed: Receive, Malformed, \"x\";\n}",
            ),
            ("docs/understand/life-of-a-call.md", page),
            ("crates/gateway/src/call.rs", "receive(); conclude();"),
        ]))
    };
    green(&check(
        "# Life\n\n## 1. Receive\n\n`Malformed`\n\n## 2. Conclude\n",
    ));
    red(
        &check("# Life\n\n## 1. Receive\n\n## 2. Conclude\n\n`Malformed`\n"),
        &["docs/understand/life-of-a-call.md"],
    );
    let wide = "a ".repeat(41);
    red(
        &check(&format!(
            "# Life\n\n## 1. Receive\n\n`Malformed`\n{wide}\n\n## 2. Conclude\n"
        )),
        &["docs/understand/life-of-a-call.md:6"],
    );
}

#[test]
fn links_lead_somewhere() {
    let page = |text: &str| {
        pages::links(&tree(&[
            ("docs/use/a.md", text),
            ("docs/use/b.md", "# B\n\n## Two words, and more\n"),
            ("docs/c.md", ""),
        ]))
    };
    green(&page(
        "[b](b.md), [c](../c.md), [d](../../docs/), [e](b.md#two-words-and-more), [f](https://example.org/x.md)",
    ));
    green(&page("# Here\n[a](#here)\n```\n[a](gone.md)\n```"));
    for wrong in [
        "[a](c.md)",
        "[a](../b.md)",
        "[a](b.md#three-words)",
        "[a](#here)",
    ] {
        red(&page(wrong), &["docs/use/a.md:1"]);
    }
}

#[test]
fn a_word_of_the_glossary_has_one_row() {
    let check = |rows: &str| {
        let text = format!("| say | for | not |\n|---|---|---|\n{rows}");
        pages::glossary(&tree(&[("GLOSSARY.md", &text)]))
    };
    green(&check(
        "| gate | a process | proxy |\n| place, position | a number | – |",
    ));
    red(
        &check("| place | one thing | – |\n| position, Place | another | – |"),
        &["GLOSSARY.md:4"],
    );
    red(&check("| place | | – |"), &["GLOSSARY.md:3"]);
}

#[test]
fn an_invariant_names_what_keeps_it() {
    let check = |page: &str, module: &str| {
        pages::invariants(&tree(&[
            ("ARCHITECTURE.md", page),
            ("crates/flow/src/lib.rs", module),
            ("crates/flow/src/tests.rs", "fn the_label_only_rises() {}"),
        ]))
    };
    let kept = "**Invariant: it rises.** Because\nof the join. Test `the_label_only_rises`.\n";
    green(&check(
        kept,
        "//! Labels.\n//!\n//! **Invariant: pure.** Tidy rule\n//! `pure`.\n",
    ));
    red(
        &check("\n**Invariant: it rises.** See `a_key`.", ""),
        &["ARCHITECTURE.md:2"],
    );
    red(
        &check(
            kept,
            "//! **Invariant: it falls.** Test\n//! `the_label_never_falls`.",
        ),
        &["crates/flow/src/lib.rs:1"],
    );
    red(
        &check(&format!("{kept}\n").repeat(21), ""),
        &["ARCHITECTURE.md"],
    );
}
