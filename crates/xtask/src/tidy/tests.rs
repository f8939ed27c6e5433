//! Every rule, seen red once on a small tree, and green on the same tree repaired.

mod prose;

use super::{
    Finding, RULES, docs, links, powers, shape, source,
    tree::{Dependency, Linked, Member, Tree},
};

fn tree(files: &[(&str, &str)]) -> Tree {
    let files = files
        .iter()
        .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()))
        .collect();
    Tree {
        files,
        ..Tree::default()
    }
}

fn member(mut tree: Tree, name: &str, dependencies: &[&str]) -> Tree {
    let dependencies = dependencies.iter().map(|text| dependency(text)).collect();
    tree.members
        .insert(name.to_owned(), Member { dependencies });
    tree
}

/// `name`, `name+feature` or `dev:name`.
fn dependency(text: &str) -> Dependency {
    let (dev, text) = text
        .strip_prefix("dev:")
        .map_or((false, text), |rest| (true, rest));
    let mut words = text.split('+').map(str::to_owned);
    Dependency {
        name: words.next().unwrap(),
        dev,
        features: words.collect(),
    }
}

fn linked(program: &str, packages: &[&str]) -> Tree {
    let packages = packages
        .iter()
        .map(|text| dependency(text))
        .map(|d| Linked {
            name: d.name,
            features: d.features,
        });
    Tree {
        linked: [(program.to_owned(), packages.collect())].into(),
        ..Tree::default()
    }
}

fn places(findings: &[Finding]) -> Vec<&str> {
    findings
        .iter()
        .map(|finding| finding.place.as_str())
        .collect()
}

#[track_caller]
fn red(findings: &[Finding], expected: &[&str]) {
    assert_eq!(places(findings), expected, "{findings:#?}");
}

#[track_caller]
fn green(findings: &[Finding]) {
    assert!(findings.is_empty(), "{findings:#?}");
}

#[test]
fn every_rule_has_a_name_of_its_own_and_a_reason() {
    let names: std::collections::BTreeSet<_> = RULES.iter().map(|rule| rule.name).collect();
    assert_eq!(names.len(), RULES.len());
    assert!(RULES.iter().all(|rule| rule.why.len() > 20));
}

#[test]
fn worker_links() {
    green(&links::worker_tree(&linked(
        "worker",
        &["wire", "hyper+client", "tokio"],
    )));
    red(
        &links::worker_tree(&linked("worker", &["wire", "audit"])),
        &["crates/worker/Cargo.toml"],
    );
    red(
        &links::worker_tree(&linked("worker", &["cedar-policy-core"])),
        &["crates/worker/Cargo.toml"],
    );
    red(
        &links::worker_tree(&linked("worker", &["ed25519-dalek"])),
        &["crates/worker/Cargo.toml"],
    );
    red(
        &links::worker_tree(&linked("worker", &["hyper+server"])),
        &["crates/worker/Cargo.toml"],
    );
    green(&links::worker_tree(&linked(
        "executor",
        &["wire", "sandbox"],
    )));
    for heavy in ["tokio", "policy", "rustls"] {
        red(
            &links::worker_tree(&linked("executor", &["wire", heavy])),
            &["crates/executor/Cargo.toml"],
        );
    }
}

#[test]
fn gate_links() {
    green(&links::gate_tree(&linked(
        "portcullis",
        &["gateway", "hyper+server", "policy"],
    )));
    red(
        &links::gate_tree(&linked("portcullis", &["hickory-resolver"])),
        &["crates/portcullis/Cargo.toml"],
    );
    red(
        &links::gate_tree(&linked("portcullis", &["worker"])),
        &["crates/portcullis/Cargo.toml"],
    );
    red(
        &links::gate_tree(&linked("portcullis", &["hyper+server+client"])),
        &["crates/portcullis/Cargo.toml"],
    );
}

#[test]
fn fences() {
    green(&links::fences(&member(
        Tree::default(),
        "worker",
        &["hyper+client", "hyper-rustls"],
    )));
    green(&links::fences(&member(
        Tree::default(),
        "server",
        &["hyper+server", "dev:hyper+client"],
    )));
    green(&links::fences(&member(
        Tree::default(),
        "testkit",
        &["rmcp", "hyper+client+server"],
    )));
    red(
        &links::fences(&member(Tree::default(), "gateway", &["cedar-policy"])),
        &["crates/gateway/Cargo.toml"],
    );
    red(
        &links::fences(&member(Tree::default(), "portcullis", &["reqwest"])),
        &["crates/portcullis/Cargo.toml"],
    );
    red(
        &links::fences(&member(Tree::default(), "server", &["hyper+client"])),
        &["crates/server/Cargo.toml"],
    );
    red(
        &links::fences(&member(
            Tree::default(),
            "gateway",
            &["hyper-util+server-auto"],
        )),
        &["crates/gateway/Cargo.toml"],
    );
    red(
        &links::fences(&member(Tree::default(), "worker", &["rmcp"])),
        &["crates/worker/Cargo.toml"],
    );
}

#[test]
fn direction() {
    let both = |name: &str, uses: &str| member(member(Tree::default(), uses, &[]), name, &[uses]);
    green(&links::direction(&both("wire", "vocab")));
    green(&links::direction(&both("worker", "sandbox")));
    red(
        &links::direction(&both("vocab", "wire")),
        &["crates/vocab/Cargo.toml"],
    );
    red(
        &links::direction(&both("worker", "flow")),
        &["crates/worker/Cargo.toml"],
    );
    red(
        &links::direction(&both("server", "policy")),
        &["crates/server/Cargo.toml"],
    );
    red(
        &links::direction(&member(Tree::default(), "newcomer", &[])),
        &["crates/newcomer/Cargo.toml"],
    );
    let for_tests = member(
        member(Tree::default(), "testkit", &[]),
        "portcullis",
        &["dev:testkit"],
    );
    green(&links::direction(&for_tests));
}

#[test]
fn lint_tables() {
    let root = "[workspace.lints.rust]\nunsafe_code = \"forbid\"\n\n[workspace.lints.clippy]\npanic = \"deny\"\n";
    let check = |name: &str, manifest: &str| {
        let path = format!("crates/{name}/Cargo.toml");
        shape::lint_tables(&member(
            tree(&[("Cargo.toml", root), (path.as_str(), manifest)]),
            name,
            &[],
        ))
    };
    green(&check("wire", "[package]\n\n[lints]\nworkspace = true\n"));
    red(&check("wire", "[package]\n"), &["crates/wire/Cargo.toml"]);
    green(&check(
        "sandbox",
        "[lints.rust]\nunsafe_code = \"deny\"\n[lints.clippy]\npanic = \"deny\"\n",
    ));
    red(
        &check(
            "sandbox",
            "[lints.rust]\nunsafe_code = \"allow\"\n[lints.clippy]\npanic = \"deny\"\n",
        ),
        &["crates/sandbox/Cargo.toml"],
    );
    red(
        &check("sandbox", "[lints.rust]\nunsafe_code = \"deny\"\n"),
        &["crates/sandbox/Cargo.toml"],
    );
}

#[test]
fn unsafe_code() {
    green(&powers::unsafe_code(&tree(&[(
        "crates/sandbox/src/sys.rs",
        "unsafe { f() }",
    )])));
    green(&powers::unsafe_code(&tree(&[(
        "crates/wire/src/a.rs",
        "// unsafe\nlet a = \"unsafe\"; #![forbid(unsafe_code)]",
    )])));
    red(
        &powers::unsafe_code(&tree(&[("crates/wire/src/a.rs", "\nunsafe { f() }")])),
        &["crates/wire/src/a.rs:2"],
    );
}

#[test]
fn pure() {
    green(&powers::pure_crates(&tree(&[(
        "crates/wire/src/a.rs",
        "use std::time::Duration;\n#[cfg(test)]\nmod tests { use std::fs; }",
    )])));
    green(&powers::pure_crates(&tree(&[(
        "crates/audit/src/a.rs",
        "use std::fs;",
    )])));
    red(
        &powers::pure_crates(&tree(&[("crates/wire/src/a.rs", "use std::fs;")])),
        &["crates/wire/src/a.rs:1"],
    );
    red(
        &powers::pure_crates(&tree(&[(
            "crates/flow/src/a.rs",
            "let now = Instant::now();",
        )])),
        &["crates/flow/src/a.rs:1"],
    );
    red(
        &powers::pure_crates(&member(
            Tree::default(),
            "policy",
            &["tokio", "dev:tempfile"],
        )),
        &["crates/policy/Cargo.toml"],
    );
}

#[test]
fn clock() {
    green(&powers::clock_and_randomness(&tree(&[(
        "crates/audit/src/clock.rs",
        "SystemTime::now()",
    )])));
    green(&powers::clock_and_randomness(&tree(&[(
        "crates/gateway/src/tests.rs",
        "SystemTime::now()",
    )])));
    red(
        &powers::clock_and_randomness(&tree(&[("crates/gateway/src/a.rs", "SystemTime::now()")])),
        &["crates/gateway/src/a.rs:1"],
    );
    red(
        &powers::clock_and_randomness(&tree(&[("crates/server/src/a.rs", "getrandom::fill(b)")])),
        &["crates/server/src/a.rs:1"],
    );
}

#[test]
fn spawn() {
    green(&powers::spawn(&tree(&[(
        "crates/sandbox/src/spawn.rs",
        "std::process::Command::new(x)",
    )])));
    green(&powers::spawn(&tree(&[(
        "crates/portcullis/tests/it/main.rs",
        "std::process::Command::new(x)",
    )])));
    red(
        &powers::spawn(&tree(&[(
            "crates/gateway/src/a.rs",
            "use std::process::Command;",
        )])),
        &["crates/gateway/src/a.rs:1"],
    );
    red(
        &powers::spawn(&tree(&[(
            "crates/server/src/a.rs",
            "tokio::process::spawn",
        )])),
        &["crates/server/src/a.rs:1"],
    );
}

#[test]
fn environment() {
    green(&powers::environment(&tree(&[
        ("crates/worker/src/process.rs", "std::env::args()"),
        ("crates/portcullis/src/a.rs", "env::var(x)"),
    ])));
    red(
        &powers::environment(&tree(&[(
            "crates/gateway/src/a.rs",
            "let home = std::env::var(x);",
        )])),
        &["crates/gateway/src/a.rs:1"],
    );
}

#[test]
fn unfinished() {
    green(&powers::unfinished(&tree(&[(
        "crates/wire/src/a.rs",
        "// todo! is a word\nfn todo() {}",
    )])));
    for text in [
        "fn f() { todo!() }",
        "unimplemented!()",
        "#[ignore]\nfn f() {}",
    ] {
        red(
            &powers::unfinished(&tree(&[("crates/wire/src/a.rs", text)])),
            &["crates/wire/src/a.rs:1"],
        );
    }
    let mark = ["FIX", "ME later"].concat();
    red(
        &powers::unfinished(&tree(&[("docs/a.md", &mark)])),
        &["docs/a.md:1"],
    );
}

#[test]
fn own_main() {
    let check = |name: &str, target: &str| {
        let (path, manifest) = (
            format!("crates/{name}/Cargo.toml"),
            format!("[[test]]\nname = \"{target}\"\nharness = false\n\n[x]\n"),
        );
        shape::own_main(&member(
            tree(&[(path.as_str(), manifest.as_str())]),
            name,
            &[],
        ))
    };
    green(&check("sandbox", "jail"));
    red(&check("sandbox", "cage"), &["crates/sandbox/Cargo.toml"]);
}

#[test]
fn module_docs() {
    green(&shape::module_docs(&tree(&[
        ("crates/wire/src/a.rs", "//! A.\n"),
        ("crates/wire/src/tests.rs", "use super::*;"),
    ])));
    red(
        &shape::module_docs(&tree(&[("crates/wire/src/a.rs", "// A.\nfn f() {}")])),
        &["crates/wire/src/a.rs:1"],
    );
}

#[test]
fn file_length() {
    green(&shape::file_length(&tree(&[(
        "crates/wire/src/a.rs",
        &"\n".repeat(shape::MAX_LINES),
    )])));
    red(
        &shape::file_length(&tree(&[(
            "crates/wire/src/a.rs",
            &"\n".repeat(shape::MAX_LINES + 1),
        )])),
        &["crates/wire/src/a.rs"],
    );
}

#[test]
fn machine_paths() {
    let home = ["see /ho", "me/ada/src"].concat();
    red(
        &shape::machine_paths(&tree(&[("README.md", &home)])),
        &["README.md:1"],
    );
    let inside = ["https://example.org/wo", "rk/x and target/wo", "rk/x"].concat();
    green(&shape::machine_paths(&tree(&[("README.md", &inside)])));
    let lock = "\nsource = \"registry+https://mirror.example/index\"";
    red(
        &shape::machine_paths(&tree(&[("Cargo.lock", lock)])),
        &["Cargo.lock:2"],
    );
    green(&shape::machine_paths(&tree(&[(
        "Cargo.lock",
        "source = \"registry+https://github.com/rust-lang/crates.io-index\"",
    )])));
    let npm = "  \"resolved\": \"http://10.0.0.1/a.tgz\"";
    red(
        &shape::machine_paths(&tree(&[("tools/package-lock.json", npm)])),
        &["tools/package-lock.json:1"],
    );
}

#[test]
fn docs_name_what_exists() {
    let page = |text: &str| {
        let files = [
            ("README.md", text),
            ("crates/wire/src/json/scan.rs", "pub struct Scanner;"),
            ("docs/decisions/0001-x.md", "`docs/gone.md`"),
        ];
        docs::names(&member(tree(&files), "wire", &[]))
    };
    green(&page(
        "`crates/wire` `scan.rs` `wire/src/json/*.rs` `wire::json::Scanner` `std::fs::read` `cargo xtask tidy` `portcullis.yaml`",
    ));
    green(&page(
        "[a](docs/decisions/0001-x.md#part), `crates/wire/src/json/scan.rs:12`, [b](https://example.org/x.md)",
    ));
    for wrong in [
        "`crates/nowire`",
        "crates/wire/src/gone.rs",
        "`gone.rs`",
        "`wire::json::Gone`",
        "[a](docs/gone.md)",
        "`cargo xtask dance`",
    ] {
        red(&page(wrong), &["README.md:1"]);
    }
}

#[test]
fn stages() {
    let list = "pub const ALL: [Self; 3] = [\n Self::Receive,\n Self::Verify,\n Self::Conclude,\n];\nSelf::Other";
    let check = |page: &str, code: &str| {
        docs::stages(&tree(&[
            ("crates/vocab/src/stage.rs", list),
            ("docs/understand/life-of-a-call.md", page),
            ("crates/gateway/src/call.rs", code),
        ]))
    };
    let (page, code) = (
        "| stage | does |\n| Receive | a |\n| **Verify** | b |\n| `Conclude` | c |",
        "receive(); verify(x); conclude();",
    );
    green(&check(page, code));
    green(&check(
        "1. **Receive** a\n2. **Verify** b\n3. Conclude: Receive again",
        code,
    ));
    red(
        &check("| Verify |\n| Receive |\n| Conclude |", code),
        &["docs/understand/life-of-a-call.md"],
    );
    red(
        &check("| Receive |\n| Conclude |", code),
        &["docs/understand/life-of-a-call.md"],
    );
    red(
        &check(page, "receive(); conclude(); verify();"),
        &["crates/gateway/src/call.rs"],
    );
    red(
        &check(page, "// receive verify conclude"),
        &["crates/gateway/src/call.rs"],
    );
    red(
        &docs::stages(&tree(&[("crates/vocab/src/stage.rs", list)])),
        &[
            "docs/understand/life-of-a-call.md",
            "crates/gateway/src/call.rs",
        ],
    );
}

#[test]
fn attacks() {
    let check = |page: &str| {
        docs::attacks(&tree(&[
            ("docs/understand/attacks.md", page),
            (
                "crates/server/tests/a.rs",
                "fn a_forged_origin_is_refused() {}",
            ),
        ]))
    };
    green(&check(
        "| forged origin | checked | `attacks::a_forged_origin_is_refused` |",
    ));
    red(
        &check("| forged host | checked | `a_forged_host_is_refused` |"),
        &["docs/understand/attacks.md:1"],
    );
    red(
        &docs::attacks(&tree(&[(
            "docs/understand/found.md",
            "- **H1** Names. `words::a_name_is_shown`.",
        )])),
        &["docs/understand/found.md:1"],
    );
    green(&docs::attacks(&Tree::default()));
}

#[test]
fn changelog() {
    green(&docs::changelog(&tree(&[(
        "CHANGELOG.md",
        "# Changes\n\n## Unreleased\n",
    )])));
    green(&docs::changelog(&tree(&[(
        "CHANGELOG.md",
        "## [Unreleased]\n",
    )])));
    red(
        &docs::changelog(&tree(&[("CHANGELOG.md", "## 0.1.0\n")])),
        &["CHANGELOG.md"],
    );
    red(&docs::changelog(&Tree::default()), &["CHANGELOG.md"]);
}

#[test]
fn comments_strings_and_tests_are_not_code() {
    let text =
        "a /* b /* c */ d */ e // f\n\"g \\\" h\" i r#\"j \" k\"# l 'm' '\\'' 'n: o b\"p\" r#type";
    let code = source::code(text);
    let left: Vec<_> = code.split_whitespace().collect();
    assert_eq!(left, ["a", "e", "i", "l", "'n:", "o", "b", "r#type"]);
    assert_eq!(code.lines().count(), text.lines().count());
    let cut = source::without_tests(
        "before\n#[cfg(test)]\nmod tests {\n  fn f() { {} }\n}\nafter\n#[cfg(test)]\nmod more;\nend",
    );
    assert_eq!(
        cut.split_whitespace().collect::<Vec<_>>(),
        ["before", "after", "end"]
    );
    assert_eq!(cut.lines().count(), 9);
}
