//! Servers of other programs: every one lands switched off, no secret is in a byte that is written, and back is to the byte.

use std::{collections::BTreeMap, fs, path::Path, process::Command};

use serde_json::Value;
use testkit::gate::Said;

use crate::support::{portcullis, workspace};

/// Each client's file, where it keeps it.
const FILES: [(&str, &str); 9] = [
    ("claude-code.json", ".claude.json"),
    (
        "claude-desktop.json",
        ".config/Claude/claude_desktop_config.json",
    ),
    ("codex.toml", ".codex/config.toml"),
    ("cursor.json", ".cursor/mcp.json"),
    ("gemini.json", ".gemini/settings.json"),
    ("opencode.jsonc", ".config/opencode/opencode.jsonc"),
    ("vscode.jsonc", ".config/Code/User/mcp.json"),
    ("windsurf.json", ".codeium/windsurf/mcp_config.json"),
    ("zed.jsonc", ".config/zed/settings.json"),
];
/// What is in every secret of those files.
const CANARY: &[u8] = b"CaNaRy";

struct House {
    dir: tempfile::TempDir,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        for (fixture, place) in FILES {
            let place = dir.path().join("user").join(place);
            fs::create_dir_all(place.parent().unwrap()).unwrap();
            let file = workspace().join("crates/imports/fixtures").join(fixture);
            let mut text = fs::read_to_string(file).unwrap();
            // Each client has another server, so that none is another's.
            let (name, _) = fixture.split_once('.').unwrap();
            text = text.replace("@example/server", &format!("@example/{name}"));
            text = text.replace("mcp.example.com", &format!("{name}.example.com"));
            fs::write(place, text).unwrap();
        }
        fs::create_dir(dir.path().join("gate")).unwrap();
        fs::set_permissions(
            dir.path().join("gate"),
            std::os::unix::fs::PermissionsExt::from_mode(0o700),
        )
        .unwrap();
        Self { dir }
    }

    fn run(&self, args: &[&str]) -> Said {
        let output = Command::new(portcullis())
            .env("HOME", self.dir.path().join("user"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("CODEX_HOME")
            .env_remove("CLAUDE_CONFIG_DIR")
            .env("PORTCULLIS_CORP_DIR", self.dir.path().join("no-company"))
            .arg("--home")
            .arg(self.dir.path().join("gate"))
            .args(args)
            .output()
            .unwrap();
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    /// Every file below a directory, by its bytes.
    fn files(&self, below: &str) -> BTreeMap<String, Vec<u8>> {
        let mut files = BTreeMap::new();
        collect(&self.dir.path().join(below), &mut files);
        files
    }

    fn with_canary(&self, below: &str) -> Vec<String> {
        let files = self.files(below).into_iter();
        let holds = |bytes: &[u8]| bytes.windows(CANARY.len()).any(|part| part == CANARY);
        files
            .filter(|(_, bytes)| holds(bytes))
            .map(|(name, _)| name)
            .collect()
    }
}

fn collect(dir: &Path, files: &mut BTreeMap<String, Vec<u8>>) {
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, files);
        } else if let Ok(bytes) = fs::read(&path) {
            files.insert(path.display().to_string(), bytes);
        }
    }
}

fn outcomes(said: &Said) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for entry in said.json().unwrap()["entries"].as_array().unwrap() {
        *counts
            .entry(entry["outcome"].as_str().unwrap().to_owned())
            .or_default() += 1;
    }
    counts
}

#[test]
fn a_dry_run_writes_nothing() {
    let house = House::new();
    let before = (house.files("user"), house.files("gate"));
    for args in [
        &["import"][..],
        &["import", "--all", "--dry-run", "--take-over"],
        &["import", "cursor", "--dry-run"],
    ] {
        let said = house.run(args);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains(".API_TOKEN (30 bytes)"), "{said:?}");
        assert!(!said.stdout.contains("CaNaRy"));
    }
    assert_eq!(before, (house.files("user"), house.files("gate")));
}

#[test]
fn no_canary_of_any_client_is_in_a_byte_that_is_written() {
    let house = House::new();
    let clients = house.files("user");
    let said = house.run(&["import", "--all", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(
        outcomes(&said),
        BTreeMap::from([
            ("gate".to_owned(), 9),
            ("imported".to_owned(), 18),
            ("skipped".to_owned(), 1)
        ]),
        "{said:?}"
    );
    assert_eq!(house.with_canary("gate"), Vec::<String>::new());
    assert!(!said.stdout.contains("CaNaRy") && !said.stderr.contains("CaNaRy"));
    assert_eq!(
        said.json().unwrap()["still_in_clear"]
            .as_array()
            .unwrap()
            .len(),
        9,
        "{said:?}"
    );
    assert_eq!(
        house.files("user"),
        clients,
        "without --take-over the clients' files stay"
    );

    // Switched off and UNTRUSTED, in the layer of their own, and the values are where the references lead.
    let servers = house.run(&["servers", "list", "--json"]).json().unwrap();
    let servers: Vec<&Value> = servers
        .as_array()
        .unwrap()
        .iter()
        .filter(|server| !server["id"].as_str().unwrap().starts_with("demo-"))
        .collect();
    assert_eq!(servers.len(), 18);
    assert!(
        servers
            .iter()
            .all(|server| server["state"] == "disabled" && server["classification"].is_null()),
        "{servers:?}"
    );
    let rows = house.run(&["config", "explain", "--json"]).json().unwrap();
    let row = |key: &str| {
        rows.as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == key)
            .cloned()
            .unwrap_or_default()
    };
    assert_eq!(row("mcp_servers.local-server.command")["layer"], "imported");
    let names = house.run(&["secret", "list", "--json"]).json().unwrap();
    assert!(
        names
            .as_array()
            .unwrap()
            .contains(&"import.zed.remote-zed.token".into()),
        "{names}"
    );
    assert_eq!(house.run(&["config", "check"]).code, Some(0));

    // A person's word about one is kept in that layer too.
    assert_eq!(
        house
            .run(&["servers", "classify", "local-server", "internal"])
            .code,
        Some(0)
    );
    assert!(
        fs::read_to_string(house.dir.path().join("gate/imported.yaml"))
            .unwrap()
            .contains("classification: INTERNAL")
    );
    // Again: nothing is new.
    let again = house.run(&["import", "--all", "--json"]);
    assert_eq!(outcomes(&again).get("imported"), None, "{again:?}");
    let ledger = house.run(&["audit", "tail", "-n", "50", "--json"]);
    assert!(
        ledger.stdout.contains("servers.imported") && ledger.stdout.contains("import 1:"),
        "{ledger:?}"
    );
}

#[test]
fn what_was_taken_over_comes_back_to_the_byte() {
    let house = House::new();
    let clients = house.files("user");
    let said = house.run(&["import", "--all", "--take-over", "--json"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let left: Vec<String> = house
        .with_canary("user")
        .into_iter()
        .filter(|file| !file.contains("zed"))
        .collect();
    assert_eq!(
        left,
        Vec::<String>::new(),
        "what Zed's extension has stays Zed's"
    );
    assert_eq!(house.with_canary("gate"), Vec::<String>::new());
    for (file, bytes) in house.files("user") {
        assert!(
            String::from_utf8(bytes).unwrap().contains("connect"),
            "{file} leads to the gate"
        );
    }
    // A file that somebody changed since is theirs.
    let cursor = house.dir.path().join("user/.cursor/mcp.json");
    let ours = fs::read_to_string(&cursor).unwrap();
    fs::write(&cursor, format!("{ours}\n")).unwrap();
    let refused = house.run(&["import", "--undo", "1"]);
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(
        refused.stderr.contains("changed since import 1"),
        "{refused:?}"
    );
    fs::write(&cursor, ours).unwrap();

    let undone = house.run(&["import", "--undo", "1", "--json"]);
    assert_eq!(undone.code, Some(0), "{undone:?}");
    assert_eq!(house.files("user"), clients, "to the byte");
    assert!(!house.dir.path().join("gate/imported.yaml").exists());
    assert_eq!(
        house.run(&["secret", "list", "--json"]).json().unwrap(),
        serde_json::json!([])
    );
    assert_eq!(
        house.run(&["import", "--undo", "1"]).code,
        Some(2),
        "there is nothing more to take back"
    );
}

#[test]
fn a_file_that_cannot_be_read_hinders_no_other() {
    let house = House::new();
    let user = house.dir.path().join("user");
    fs::write(user.join(".cursor/mcp.json"), "{").unwrap();
    fs::write(user.join(".gemini/settings.json"), [0xff, 0xfe]).unwrap();
    fs::remove_file(user.join(".codex/config.toml")).unwrap();
    fs::create_dir(user.join(".codex/config.toml")).unwrap();
    let zed = user.join(".config/zed/settings.json");
    fs::remove_file(&zed).unwrap();
    assert!(Command::new("mkfifo").arg(&zed).status().unwrap().success());
    let said = house.run(&["import", "--all", "--json"]);
    assert_eq!(said.code, Some(1), "{said:?}");
    let document = said.json().unwrap();
    assert_eq!(
        document["problems"].as_array().unwrap().len(),
        4,
        "{document}"
    );
    assert_eq!(outcomes(&said).get("imported"), Some(&10), "{document}");
}
