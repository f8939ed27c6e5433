use proptest::{prelude::*, sample::select};

use super::{bundle, outcome, question};
use crate::cedar::{Bundle, Problem};

fn problems(text: &str) -> Vec<Problem> {
    Bundle::load("test", &[("test.cedar".to_owned(), text.to_owned())])
        .expect_err("the bundle was taken")
}

/// The one problem of a text: where it stands, and what its message and fix mention.
#[track_caller]
fn refused(text: &str, line: u32, column: u32, message: &str, fix: &str) {
    let found = problems(text);
    let [problem] = found.as_slice() else {
        panic!("expected one problem: {found:#?}")
    };
    assert_eq!((problem.line, problem.column), (line, column), "{problem}");
    assert!(problem.message.contains(message), "{problem}");
    assert!(problem.fix.contains(fix), "{problem}");
    assert_eq!(problem.file, "test.cedar");
}

#[test]
fn an_unknown_attribute_is_refused_where_it_stands() {
    refused(
        "// ö\npermit (principal, action, resource)\nwhen { resource.colour == \"red\" };",
        3,
        8,
        "`colour`",
        "schema",
    );
    refused(
        "permit (principal, action, resource) when { context.labels.secrecy > 1 };",
        1,
        45,
        "`labels`",
        "did you mean `label`?",
    );
    refused(
        "permit (principal, action, resource) when { principal.user == User::\"a\" };",
        1,
        45,
        "`user`",
        "principal has user",
    );
    refused(
        "permit (principal, action, resource) when { context.arguments.getTag(\"x\") == \"y\" };",
        1,
        45,
        "tag",
        "hasTag",
    );
}

#[test]
fn an_unknown_type_action_or_enumerated_name_is_refused_where_it_stands() {
    refused(
        "permit (principal in Team::\"a\", action, resource);",
        1,
        22,
        "`Team`",
        "schema",
    );
    refused(
        "\n\npermit (principal, action == Action::\"write\", resource);",
        3,
        30,
        "write",
        "call, read, get",
    );
    refused(
        "permit (principal, action, resource) when { resource.effect == Effect::\"harmless\" };",
        1,
        64,
        "harmless",
        "consequential",
    );
    refused(
        "permit (principal, action, resource) when { resource.level > \"1\" };",
        1,
        62,
        "type",
        "one type",
    );
}

#[test]
fn what_cedar_cannot_parse_is_refused_where_it_stands() {
    refused(
        "permit (principal, action, resource);\npermit (principal, action resource);",
        2,
        27,
        "unexpected token",
        "policies look like",
    );
    refused(
        "permit (principal, action, resource)",
        1,
        37,
        "unexpected end",
        "policies look like",
    );
    refused(
        "permit (principal == ?principal, action, resource);",
        1,
        22,
        "template",
        "without template slots",
    );
}

#[test]
fn a_policy_that_can_never_match_is_refused() {
    refused(
        "permit (principal, action == Action::\"call\", resource is Prompt);",
        1,
        1,
        "",
        "can never match",
    );
    refused(
        "permit (principal, action, resource) when { false };",
        1,
        1,
        "impossible",
        "look at its condition",
    );
    refused(
        "permit (principal, action, resource) unless { true };",
        1,
        1,
        "impossible",
        "look at its condition",
    );
}

#[test]
fn an_unknown_annotation_or_effect_is_refused_where_it_stands() {
    refused(
        "@id(\"a\")\n  @note(\"b\") permit (principal, action, resource);",
        2,
        3,
        "`@note`",
        "@operator",
    );
    refused(
        "@effect(\"deny\") forbid (principal, action, resource);",
        1,
        1,
        "`deny`",
        "allow, endorse, ask, block and rewrite",
    );
    refused(
        "@effect(\"block\") permit (principal, action, resource);",
        1,
        1,
        "cannot block",
        "forbid",
    );
    refused(
        "@agent(\"@effect\") @effect(\"ask\") forbid (principal, action, resource);",
        1,
        19,
        "only block",
        "permit",
    );
}

#[test]
fn an_id_is_taken_once() {
    refused(
        "@id(\"a\") permit (principal, action, resource);\n@agent(\"x\") @id(\"a\") forbid (principal, action, resource);",
        2,
        13,
        "`a` is taken by test.cedar:1",
        "own @id",
    );
    for id in [
        "",
        "a b",
        "a\\n",
        "ä",
        "no-permit",
        "unreadable-question",
        &"a".repeat(129),
    ] {
        refused(
            &format!("@id(\"{id}\") permit (principal, action, resource);"),
            1,
            1,
            "cannot be a policy id",
            "letters",
        );
    }
    let unnamed = bundle(
        "// first\n\npermit (principal, action, resource);\nforbid (principal, action, resource);",
    );
    assert_eq!(
        outcome(&unnamed.decide(&question())),
        ("block", vec!["test.cedar:4"])
    );
}

#[test]
fn a_rewrite_is_checked_when_it_is_loaded() {
    let rewrite =
        |rest: &str| format!("@effect(\"rewrite\") {rest} permit (principal, action, resource);");
    refused(
        &rewrite("@rewrite(\"a\") @with(\"b\")"),
        1,
        1,
        "lacks `@matching`",
        "@matching",
    );
    refused(
        &rewrite("@rewrite(\"a..b\") @matching(\"x\") @with(\"b\")"),
        1,
        20,
        "names no argument",
        "body",
    );
    refused(
        &rewrite("@rewrite(\"a\") @matching(\"(\") @with(\"b\")"),
        1,
        34,
        "regular expression",
        "regex",
    );
    refused(
        &rewrite("@rewrite(\"a\") @matching(\"(?<n>x)\") @with(\"${n} $2\")"),
        1,
        55,
        "no group `2`",
        "$$",
    );
    refused(
        "@rewrite(\"a\") permit (principal, action, resource);",
        1,
        1,
        "does not rewrite",
        "@effect",
    );
}

#[test]
fn arguments_are_named_by_plain_paths() {
    let when =
        |condition: &str| format!("permit (principal, action, resource)\nwhen {{ {condition} }};");
    refused(
        &when("context.arguments.hasTag(resource.name)"),
        1,
        1,
        "computed",
        "getTag(\"title\")",
    );
    refused(
        &when("context.arguments.hasTag(\"a..b\")"),
        2,
        33,
        "`a..b` names no argument",
        "not a path",
    );
    refused(
        &when("context.arguments.hasTag(\"a[01]\")"),
        2,
        33,
        "names no argument",
        "spell it `a[1]`",
    );
    refused(
        &when("context.arguments.hasTag(\"to[]\")"),
        2,
        33,
        "cannot read `to[]`",
        "context.lists",
    );
    refused(
        &when("context.lists.hasTag(\"to\")"),
        2,
        29,
        "cannot read `to`",
        "holds `[]`",
    );
}

#[test]
fn every_problem_is_reported_at_once_in_the_order_of_the_text() {
    let text = "permit (principal, action, resource) when { resource.a == 1 };\npermit (;\n@x(\"\") permit (principal, action, resource);";
    let lines: Vec<_> = problems(text).iter().map(|problem| problem.line).collect();
    assert_eq!(lines, [1, 2, 3]);
}

#[test]
fn a_bundle_without_policies_is_refused() {
    refused(
        "// nothing here; really\n",
        1,
        1,
        "no policies",
        "permit (principal, action, resource);",
    );
    assert!(Bundle::load("empty", &[]).is_err());
}

#[test]
fn invisible_and_look_alike_characters_are_refused() {
    let reversed = problems("permit (principal, action, resource);\n// \u{202e}forbid\n");
    assert_eq!((reversed[0].line, reversed[0].column), (2, 4));
    assert!(reversed[0].fix.contains("\\u{202e}"), "{}", reversed[0]);
    assert!(
        !problems("permit (principal in User::\"\\u{202e}ecila\", action, resource);").is_empty()
    );
    assert!(!problems("permit (principal in User::\"\u{430}lice\", action, resource);").is_empty());
    // A text to compare with may hold anything that can be seen.
    bundle("permit (principal, action, resource) when { resource.name != \"при\\u{202e}vet\" };");
}

#[test]
fn semicolons_in_strings_and_comments_end_no_policy() {
    let text = "// one; two\n@agent(\"wait; \\\"please\\\"; now\") @effect(\"ask\")\npermit (principal, action, resource); // end;\n";
    let asked = bundle(text).decide(&question());
    assert_eq!(
        asked.notes()[0].agent.as_deref(),
        Some("wait; \"please\"; now")
    );
    assert_eq!(asked.notes()[0].line, 2);
}

#[test]
fn the_starters_load_and_name_their_policies() {
    for name in Bundle::STARTERS {
        let text = Bundle::starter_text(name).unwrap().to_owned();
        let bundle = Bundle::load(name, &[(format!("{name}.cedar"), text)])
            .unwrap_or_else(|problems| panic!("{problems:#?}"));
        assert!(
            bundle
                .rules
                .iter()
                .all(|rule| !rule.note.policy.contains(':')),
            "{name} has a policy without @id"
        );
        assert_eq!(Bundle::starter(name).unwrap().version(), bundle.version());
    }
    assert!(Bundle::starter("lenient").is_none());
}

/// Cedar works through a policy by recursion. Whatever is written, loading ends in a bundle or in problems, on a small stack too.
#[test]
fn deep_policies_load_or_are_refused() {
    for depth in [500, 2000, 20_000] {
        let conditions = [
            vec!["context.door == \"x\""; depth].join(" || "),
            vec!["context.door == \"x\""; depth].join(" && "),
            "if context.door == \"x\" then true else ".repeat(depth) + "false",
            format!("principal{}", ".user".repeat(depth)),
            format!(
                "{}context.label.is_untrusted{}",
                "(".repeat(depth),
                ")".repeat(depth)
            ),
            format!("{}true{}", "[".repeat(depth), "]".repeat(depth)),
            format!(
                "{}context.label.is_untrusted{}",
                "(".repeat(depth / 20),
                " && true)".repeat(depth / 20)
            ),
        ];
        for condition in conditions {
            let text = format!("permit (principal, action, resource) when {{ {condition} }};");
            let loaded = Bundle::load("deep", &[("deep.cedar".to_owned(), text)]);
            if let Ok(bundle) = loaded {
                assert_eq!(bundle.decide(&question()).as_str(), "block");
                assert_eq!(bundle.explain(&question()).decision.as_str(), "block");
            }
        }
    }
    let long = vec!["context.door == \"x\""; 2000].join(" || ");
    refused(
        &format!("permit (principal, action, resource) when {{ {long} }};"),
        1,
        1,
        "deeper than 2048",
        "several policies",
    );
}

/// Texts near to policies, for what a person or a broken disk can make of a file.
fn scraps() -> impl Strategy<Value = String> {
    let words = select(vec![
        "permit",
        "forbid",
        "(principal, action, resource)",
        "when {",
        "unless {",
        "}",
        ";",
        "@id(\"a\")",
        "@effect(\"ask\")",
        "\"",
        "//",
        "\n",
        "(",
        "[",
        "context.arguments.hasTag(\"a[]\")",
        "context.label",
        ".secrecy",
        "==",
        "&&",
        "if",
        "Tool::\"x\"",
        "\u{202e}",
        "é",
        "\\",
        "@",
        "1",
    ]);
    prop::collection::vec(words, 0..24).prop_map(|words| words.join(" "))
}

proptest! {
    #[test]
    fn no_text_makes_loading_panic_and_every_problem_has_a_place(text in scraps()) {
        if let Err(problems) = Bundle::load("scraps", &[("scraps.cedar".to_owned(), text.clone())]) {
            prop_assert!(!problems.is_empty());
            let lines = text.split('\n').count();
            for problem in problems {
                prop_assert!(problem.column >= 1 && (1..=lines).contains(&usize::try_from(problem.line).unwrap()), "{}", problem);
                prop_assert!(!problem.fix.is_empty());
            }
        }
    }
}
