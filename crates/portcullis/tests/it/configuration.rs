//! A bad file changes nothing, and says where it is wrong and what to write instead.

use std::path::Path;
use std::time::Duration;

use serde_json::json;
use testkit::client::Era;
use testkit::gate::{Said, run};

use crate::support::{
    admin_target, client, config, connected, eventually, fixture, gate, http, portcullis, server,
};

struct Mistake {
    what: &'static str,
    yaml: &'static str,
    /// Line and column of the first mistake.
    place: &'static str,
    /// Words the message must have, in any order.
    words: &'static [&'static str],
}

const MISTAKES: &[Mistake] = &[
    Mistake {
        what: "an unknown key at the top",
        yaml: "lisen: 127.0.0.1:1\n",
        place: "1:1",
        words: &["lisen", "listen"],
    },
    Mistake {
        what: "an unknown key of a server",
        yaml: "mcp_servers:\n  fs:\n    comand: npx\n",
        place: "3:5",
        words: &["comand", "command"],
    },
    Mistake {
        what: "a wrong type",
        yaml: "mcp_servers:\n  fs:\n    command: npx\n    args: nope\n",
        place: "4:11",
        words: &["args"],
    },
    Mistake {
        what: "a flag that is no flag",
        yaml: "mcp_servers:\n  fs:\n    command: npx\n    enabled: maybe\n",
        place: "4:14",
        words: &["enabled", "true"],
    },
    Mistake {
        what: "a reserved name",
        yaml: "mcp_servers:\n  builtin:\n    command: npx\n",
        place: "2:3",
        words: &["builtin"],
    },
    Mistake {
        what: "a name with the separator in it",
        yaml: "mcp_servers:\n  a__b:\n    command: npx\n",
        place: "2:3",
        words: &["a__b"],
    },
    Mistake {
        what: "an empty name",
        yaml: "mcp_servers:\n  \"\":\n    command: npx\n",
        place: "2:3",
        words: &["empty"],
    },
    Mistake {
        what: "a name in capitals",
        yaml: "mcp_servers:\n  GitHub:\n    command: npx\n",
        place: "2:3",
        words: &["GitHub"],
    },
    Mistake {
        what: "two names that meet in a view",
        yaml: "mcp_servers:\n  a-b:\n    command: npx\n  a_b:\n    command: npx\n",
        place: "4:3",
        words: &["a_b", "a-b"],
    },
    Mistake {
        what: "the same name twice",
        yaml: "mcp_servers:\n  a:\n    command: npx\n  a:\n    command: npx\n",
        place: "4:3",
        words: &["a"],
    },
    Mistake {
        what: "both a program and an address",
        yaml: "mcp_servers:\n  a:\n    command: npx\n    url: https://example.com/mcp\n",
        place: "4:",
        words: &["command", "url"],
    },
    Mistake {
        what: "a level in small letters",
        yaml: "mcp_servers:\n  a:\n    command: npx\n    classification: confidential\n",
        place: "4:21",
        words: &["CONFIDENTIAL"],
    },
    Mistake {
        what: "a literal credential",
        yaml: "mcp_servers:\n  a:\n    url: https://example.com/mcp\n    bearer: ghp_abcdefghijklmnopqrstuvwxyz0123456789\n",
        place: "4:13",
        words: &["env:", "keychain:"],
    },
    Mistake {
        what: "a literal credential in a variable",
        yaml: "mcp_servers:\n  a:\n    command: npx\n    env:\n      API_TOKEN: sk-abcdefghijklmnop0123456789\n",
        place: "5:18",
        words: &["env:", "keychain:"],
    },
    Mistake {
        what: "an unknown permission",
        yaml: "mcp_servers:\n  a:\n    command: npx\n    tools: { x: allowed }\n",
        place: "4:17",
        words: &["permitted", "restricted", "blocked"],
    },
    Mistake {
        what: "a door to the world",
        yaml: "listen: 0.0.0.0:7878\n",
        place: "1:9",
        words: &["127.0.0.1"],
    },
    Mistake {
        what: "YAML that is not YAML",
        yaml: "mcp_servers: [\n",
        place: "",
        words: &[],
    },
    Mistake {
        what: "an alias",
        yaml: "mcp_servers:\n  a: &x\n    command: npx\n  b: *x\n",
        place: "",
        words: &[],
    },
    Mistake {
        what: "a key that stands twice",
        yaml: "listen: 127.0.0.1:1\nlisten: 127.0.0.1:2\n",
        place: "2:1",
        words: &["listen"],
    },
];

#[tokio::test]
async fn config_check_names_place_and_repair() {
    for mistake in MISTAKES {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("portcullis.yaml"), mistake.yaml).unwrap();
        let said = portcullis_in(home.path(), &["config", "check"]).await;
        assert_eq!(said.code, Some(2), "{}: {said:?}", mistake.what);
        let shown = format!("{}{}", said.stdout, said.stderr);
        assert!(
            shown.contains(&format!("portcullis.yaml:{}", mistake.place)),
            "{}: no {} in\n{shown}",
            mistake.what,
            mistake.place
        );
        for word in mistake.words {
            assert!(
                shown.contains(word),
                "{}: no `{word}` in\n{shown}",
                mistake.what
            );
        }
        assert!(
            !shown.contains("ghp_abc") && !shown.contains("sk-abc"),
            "{}: the credential is shown:\n{shown}",
            mistake.what
        );
        let said = portcullis_in(home.path(), &["--json", "config", "check"]).await;
        assert_eq!(said.code, Some(2), "{}: {said:?}", mistake.what);
        assert!(said.json().is_ok(), "{}: {said:?}", mistake.what);
    }
}

#[tokio::test]
async fn every_mistake_is_named_at_once() {
    let home = tempfile::tempdir().unwrap();
    let yaml = "lisen: x\nmcp_servers:\n  fs:\n    comand: npx\n  builtin:\n    command: npx\n";
    std::fs::write(home.path().join("portcullis.yaml"), yaml).unwrap();
    let said = portcullis_in(home.path(), &["config", "check"]).await;
    let shown = format!("{}{}", said.stdout, said.stderr);
    for place in ["1:1", "4:5", "5:3"] {
        assert!(
            shown.contains(&format!("portcullis.yaml:{place}")),
            "no {place} in\n{shown}"
        );
    }
}

#[tokio::test]
async fn both_dialects_are_good() {
    let good = [
        "",
        "mcp_servers: {}\n",
        "mcp_servers:\n  a: { command: npx, args: [\"-y\"], env: { A: b }, classification: PUBLIC, enabled: false }\n",
        "mcp_servers:\n  a: { url: \"https://example.com/mcp\", bearer: env:TOKEN, timeout: 5s }\n",
        "mcp_servers:\n  - name: search\n    executable: python3\n    args: [server.py]\n    capabilities: [web.search]\n    credentials: { KEY: env:KEY }\n    health_check: { interval_seconds: 60, timeout_seconds: 5 }\n",
    ];
    for yaml in good {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("portcullis.yaml"), yaml).unwrap();
        let said = portcullis_in(home.path(), &["config", "check"]).await;
        assert_eq!(said.code, Some(0), "{yaml}: {said:?}");
    }
}

#[tokio::test]
async fn up_refuses_a_bad_file_and_changes_nothing() {
    let home = tempfile::tempdir().unwrap();
    let yaml = "mcp_servers:\n  a:\n    comand: npx\n";
    std::fs::write(home.path().join("portcullis.yaml"), yaml).unwrap();
    let said = portcullis_in(home.path(), &["up", "--listen", "127.0.0.1:0"]).await;
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.stderr.contains("portcullis.yaml:3:5"), "{said:?}");
    assert_eq!(
        std::fs::read_to_string(home.path().join("portcullis.yaml")).unwrap(),
        yaml
    );
    assert!(!home.path().join("run/gate.json").exists());
    assert!(
        !home.path().join("state/client.token").exists(),
        "no credential is made for a gate that does not start"
    );
}

/// A gate that runs keeps what it has when the file turns bad, and takes the next good one.
#[tokio::test]
async fn reloading_a_bad_file_keeps_the_old_set() {
    let (first, second) = (fixture().await, fixture().await);
    let public = "classification: PUBLIC";
    let gate = connected(&[("first", http(&first.url(), public))]).await;
    let caller = client(&gate, Era::Modern).await;
    let good = config(&[
        ("first", http(&first.url(), public)),
        ("second", http(&second.url(), public)),
    ]);
    gate.write_config(&good.replace("classification", "clasification"))
        .unwrap();
    let reply = admin_target(&gate, "reload")
        .send("POST", &[], Vec::new())
        .await
        .unwrap();
    assert_eq!(reply.status, 422);
    let said = reply.json().await.unwrap().to_string();
    assert!(
        said.contains("clasification") && said.contains("portcullis.yaml"),
        "{said}"
    );
    assert_eq!(
        caller
            .call("first__echo", json!({"text": "still"}))
            .await
            .unwrap()
            .text,
        "still"
    );
    assert!(
        server(&gate, "second").await.is_null(),
        "half of the file was applied"
    );
    gate.write_config(&good).unwrap();
    assert_eq!(
        admin_target(&gate, "reload")
            .send("POST", &[], Vec::new())
            .await
            .unwrap()
            .status,
        200
    );
    eventually(
        "the second server's tools",
        Duration::from_secs(10),
        || async {
            let called = caller
                .call("second__echo", json!({"text": "new"}))
                .await
                .map_err(|error| error.to_string())?;
            if called.text == "new" {
                Ok(())
            } else {
                Err(called.answer.to_string())
            }
        },
    )
    .await;
}

/// Changes to the file are picked up without being told.
#[tokio::test]
async fn a_changed_file_is_noticed() {
    let fixture = fixture().await;
    let gate = gate("mcp_servers: {}\n").await;
    let caller = client(&gate, Era::Modern).await;
    assert_eq!(caller.tool_names().await.unwrap(), Vec::<String>::new());
    gate.write_config(&config(&[(
        "late",
        http(&fixture.url(), "classification: PUBLIC"),
    )]))
    .unwrap();
    eventually(
        "the new server's tools",
        Duration::from_secs(10),
        || async {
            let called = caller
                .call("late__echo", json!({"text": "hello"}))
                .await
                .map_err(|error| error.to_string())?;
            if called.text == "hello" {
                Ok(())
            } else {
                Err(called.answer.to_string())
            }
        },
    )
    .await;
}

#[tokio::test]
async fn skipped_and_disabled_entries_are_shown_as_such() {
    let fixture = fixture().await;
    let yaml = config(&[
        ("nothing", "{ classification: PUBLIC }".to_owned()),
        (
            "off",
            http(&fixture.url(), "classification: PUBLIC, enabled: false"),
        ),
        ("on", http(&fixture.url(), "classification: PUBLIC")),
    ]);
    let gate = gate(&yaml).await;
    crate::support::await_state(&gate, "on", "connected", Duration::from_secs(10)).await;
    assert_eq!(server(&gate, "nothing").await["state"], "skipped");
    assert_eq!(server(&gate, "off").await["state"], "disabled");
    let names = client(&gate, Era::Modern).await.tool_names().await.unwrap();
    assert!(
        names.iter().all(|name| name.starts_with("on__")),
        "{names:?}"
    );
    let said = gate.cli(&["servers", "list"]).await.unwrap();
    assert!(
        said.stdout.contains("skipped") && said.stdout.contains("disabled"),
        "{}",
        said.stdout
    );
}

#[tokio::test]
async fn the_schema_is_one_and_explain_tells_where_values_come_from() {
    let home = tempfile::tempdir().unwrap();
    std::fs::write(
        home.path().join("portcullis.yaml"),
        "limits: { max_depth: 32 }\n",
    )
    .unwrap();
    let schema = portcullis_in(home.path(), &["config", "schema"])
        .await
        .json()
        .unwrap();
    assert!(
        schema.pointer("/properties/mcp_servers").is_some(),
        "{schema}"
    );
    let said = portcullis_in(home.path(), &["config", "explain"]).await;
    assert_eq!(said.code, Some(0), "{said:?}");
    let line = said
        .stdout
        .lines()
        .find(|line| line.contains("max_depth"))
        .unwrap_or_else(|| panic!("{}", said.stdout));
    assert!(
        line.contains("32") && line.contains("portcullis.yaml"),
        "{line}"
    );
    let path = portcullis_in(home.path(), &["config", "path"]).await;
    assert_eq!(
        Path::new(path.stdout.trim()),
        home.path().join("portcullis.yaml")
    );
}

async fn portcullis_in(home: &Path, args: &[&str]) -> Said {
    run(&portcullis(), home, args, "").await.unwrap()
}
