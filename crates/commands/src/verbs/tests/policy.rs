//! `portcullis policy` on a recorded session, as transcripts.

use audit::{Facts, Ledger, Outcome, Verdict};
use vocab::{Effect, Stage};

use super::*;

const CONFIG: &str = "\
mcp_servers:
  notes: { command: notes, classification: CONFIDENTIAL }
  site: { command: site, classification: PUBLIC, open_world: true }
";

fn furnished() -> House {
    let house = House::new();
    house.home.prepare().unwrap();
    std::fs::write(house.home.config_file(), CONFIG).unwrap();
    house
}

/// Records one call as the gate would.
fn call(
    ledger: &Ledger,
    id: &'static str,
    server: &'static str,
    tool: &'static str,
    arguments: Option<&str>,
    stage: Stage,
) {
    let mut opened = ledger.open(Facts {
        call: id.into(),
        door: "mcp-http".into(),
        action: "tools/call".into(),
        caller: "1f2e3d4c".into(),
        server: server.into(),
        tool: tool.into(),
        effect: Some(Effect::Consequential),
        label: "PUBLIC".into(),
        ..Facts::default()
    });
    if let Some(arguments) = arguments {
        opened.keep_body(arguments.as_bytes()).unwrap();
    }
    if stage == Stage::Conclude {
        let _intent = ledger.intend(&mut opened).unwrap();
        let _sealed = ledger
            .conclude(
                opened,
                &Outcome {
                    result: "77aa",
                    ..Outcome::new(Verdict::Permitted, stage)
                },
            )
            .unwrap();
    } else {
        let _sealed = ledger
            .conclude(opened, &Outcome::new(Verdict::Refused, stage))
            .unwrap();
    }
}

fn session(house: &House) {
    let ledger = Ledger::at(&house.home.ledger).unwrap();
    call(
        &ledger,
        "r-1",
        "notes",
        "search",
        Some(r#"{"query":"launch"}"#),
        Stage::Conclude,
    );
    call(
        &ledger,
        "r-2",
        "site",
        "post",
        Some(r#"{"channel":"general","text":"good morning"}"#),
        Stage::Conclude,
    );
    call(&ledger, "r-3", "site", "post", None, Stage::Weigh);
    call(&ledger, "r-4", "gone", "post", Some("{}"), Stage::Conclude);
    ledger.sync().unwrap();
    ledger.tend().unwrap();
}

#[test]
fn a_bundle_is_checked() {
    let house = furnished();
    let (exit, text) = house.run("portcullis policy check");
    assert!(
        exit == 0 && text.starts_with("balanced@") && text.ends_with(": good, 2 policies\n"),
        "{text}"
    );
    let file = house.home.config.join("mine.cedar");
    std::fs::write(
        &file,
        "@id(\"x\")\npermit (principal, action, resource)\nwhen { resource.colour == \"red\" };\n",
    )
    .unwrap();
    let (exit, text) = house.run(&format!("portcullis policy check {}", file.display()));
    assert_eq!(exit, 2);
    assert!(text.starts_with("HOME/mine.cedar:3:8: "), "{text}");
    assert!(
        text.contains("\n  fix: ") && text.ends_with("\n\n1 mistake; the bundle cannot be used\n"),
        "{text}"
    );
    let (exit, text) = house.run(&format!(
        "portcullis policy check {} --json",
        file.display()
    ));
    let document: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        (
            exit,
            document["ok"].as_bool(),
            document["problems"][0]["line"].as_u64()
        ),
        (2, Some(false), Some(3))
    );
    assert_eq!(house.run("portcullis policy check nothing.cedar").0, 2);
}

#[test]
fn cases_are_run() {
    let house = furnished();
    let file = house.home.config.join("cases.json");
    std::fs::write(
        &file,
        r#"{"cases": [
            {"name": "reading is free", "server": "vault", "target": "get", "level": "RESTRICTED", "effect": "read", "expect": "allow"},
            {"name": "changing is not", "server": "vault", "target": "put", "level": "RESTRICTED", "effect": "consequential", "expect": "allow"}
        ]}"#,
    )
    .unwrap();
    let (exit, text) = house.run(&format!("portcullis policy test {}", file.display()));
    assert_eq!(exit, 1);
    let shown: Vec<&str> = text.lines().collect();
    assert_eq!(shown[0], "ok   reading is free");
    assert_eq!(shown[1], "FAIL changing is not");
    assert_eq!(
        shown[2],
        "     expected allow, got ask, by change-to-restricted"
    );
    assert!(
        shown[3].starts_with("1 of 2 cases not as expected, with balanced@"),
        "{text}"
    );
    assert_eq!(
        house
            .run(&format!(
                "portcullis policy test {} --bundle observe",
                file.display()
            ))
            .0,
        0
    );
    std::fs::write(&file, "{\"cases\": [{\"name\": \"x\"}]}").unwrap();
    let (exit, text) = house.run(&format!("portcullis policy test {}", file.display()));
    assert!(
        exit == 2 && text.starts_with("HOME/cases.json:1:"),
        "{text}"
    );
}

#[test]
fn another_bundle_is_tried_on_what_happened() {
    let house = furnished();
    session(&house);
    let file = house.home.config.join("no-posts.cedar");
    let rules = "@id(\"all\") permit (principal, action, resource);\n\
                 @id(\"no-posts\") forbid (principal, action == Action::\"call\", resource in Server::\"site\");\n";
    std::fs::write(&file, rules).unwrap();
    let (exit, text) = house.run(&format!("portcullis policy diff {}", file.display()));
    assert_eq!(exit, 0, "{text}");
    let version = |text: &str, name: &str| {
        text.split_whitespace()
            .find(|word| word.starts_with(name))
            .unwrap()
            .trim_end_matches('.')
            .to_owned()
    };
    let (after, before) = (version(&text, "no-posts@"), version(&text, "balanced@"));
    assert_eq!(
        text,
        format!(
            "\
CALL  CALLER    TARGET     BEFORE  AFTER  BY
r-2   1f2e3d4c  site/post  allow   block  no-posts

1 of 2 recorded calls would be decided otherwise by {after} than by {before}.
Not judged: 1 that checks before the policies had stopped.
Not judged: 1 whose arguments were not kept, or whose server is gone.
"
        )
    );
    assert!(
        house
            .run("portcullis policy diff observe")
            .1
            .starts_with("None of 2 recorded calls")
    );
    assert!(
        house
            .run("portcullis policy diff observe --caller nobody")
            .1
            .contains("no credential `nobody`")
    );
}

#[test]
fn what_is_suggested_admits_the_session_and_nothing_else() {
    let house = furnished();
    assert_eq!(
        house.run("portcullis policy suggest").1,
        "there are no recorded calls to write a bundle from"
    );
    session(&house);
    let (exit, text) = house.run("portcullis policy suggest");
    assert_eq!(exit, 0, "{text}");
    assert!(
        text.contains("good morning") && text.contains("launch"),
        "{text}"
    );
    let file = house.home.config.join("suggested.cedar");
    std::fs::write(&file, &text).unwrap();
    assert!(
        house
            .run(&format!("portcullis policy diff {}", file.display()))
            .1
            .starts_with("None of 2 recorded calls"),
        "{text}"
    );
    let ledger = Ledger::at(&house.home.ledger).unwrap();
    call(
        &ledger,
        "r-9",
        "site",
        "post",
        Some(r#"{"channel":"general","text":"good mourning"}"#),
        Stage::Conclude,
    );
    ledger.sync().unwrap();
    ledger.tend().unwrap();
    drop(ledger);
    let (_, text) = house.run(&format!("portcullis policy diff {}", file.display()));
    assert!(
        text.lines().nth(1).unwrap().starts_with("r-9 ") && text.contains("1 of 3 recorded calls"),
        "{text}"
    );
}
