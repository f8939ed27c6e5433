//! What a company signed holds for everybody on the machine, says so, and cannot be put off by breaking its file.

use std::{fs, path::Path, process::Command};

use serde_json::Value;
use testkit::corp::Company;
use testkit::gate::{Said, Setup};

use crate::support::{eventually, portcullis};

const CORP: &str = "\
serial: 3
locks:
  - { path: policy, reason: \"see wiki/agents\" }
  - mcp_servers.github
  - mcp_servers.*.definitions
forbid:
  - { command: npx, reason: \"no packages from the net\" }
  - host: \"*.evil.example\"
registry:
  - { id: wiki, url: \"https://wiki.example.com/mcp\", classification: INTERNAL }
policy: { bundle: strict }
mcp_servers:
  github: { url: \"https://github.example.com/mcp\", classification: CONFIDENTIAL, enabled: false }
";
const USER: &str = "\
policy: { bundle: observe }
mcp_servers:
  github: { url: \"https://mine.example.com/mcp\", classification: PUBLIC }
  wiki: { url: \"https://wiki.example.com/mcp\", enabled: false, definitions: { new: accept } }
  other: { url: \"https://other.example.com/mcp\", enabled: false, classification: PUBLIC }
";

struct House {
    dir: tempfile::TempDir,
    company: Company,
}

impl House {
    fn new(corp: &str, user: &str) -> Self {
        let house = Self {
            dir: tempfile::tempdir().unwrap(),
            company: Company::new(7).unwrap(),
        };
        for name in ["home", "corp"] {
            fs::create_dir(house.dir.path().join(name)).unwrap();
        }
        let home = house.dir.path().join("home");
        fs::set_permissions(&home, std::os::unix::fs::PermissionsExt::from_mode(0o700)).unwrap();
        fs::write(home.join("portcullis.yaml"), user).unwrap();
        house.company.install(&house.corp(), corp).unwrap();
        house
    }

    fn corp(&self) -> std::path::PathBuf {
        self.dir.path().join("corp")
    }

    fn home(&self) -> std::path::PathBuf {
        self.dir.path().join("home")
    }

    fn run(&self, args: &[&str]) -> Said {
        self.run_at(&self.home(), args)
    }

    fn run_at(&self, home: &Path, args: &[&str]) -> Said {
        let output = Command::new(portcullis())
            .env("PORTCULLIS_CORP_DIR", self.corp())
            .arg("--home")
            .arg(home)
            .args(args)
            .output()
            .unwrap();
        Said {
            code: output.status.code(),
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
        }
    }

    fn value(&self, key: &str) -> Value {
        let rows = self.run(&["config", "explain", "--json"]).json().unwrap();
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == key);
        row.cloned().unwrap_or(Value::Null)
    }
}

#[test]
fn a_locked_path_is_the_companys_alone_and_every_value_says_where_it_is_from() {
    let house = House::new(CORP, USER);
    let bundle = house.value("policy.bundle");
    assert_eq!(
        (&bundle["value"], &bundle["layer"], &bundle["origin"]),
        (&"strict".into(), &"corp".into(), &"corp.yaml:11".into())
    );
    assert!(bundle["lock"].as_str().unwrap().contains("see wiki/agents"));
    assert_eq!(
        house.value("mcp_servers.github.url")["value"],
        "https://github.example.com/mcp"
    );
    assert_eq!(
        house.value("mcp_servers.wiki.definitions.new")["layer"],
        "built-in"
    );
    let own = house.value("mcp_servers.wiki.url");
    assert_eq!(
        (&own["layer"], &own["lock"]),
        (&"user".into(), &Value::Null)
    );
    let check = house.run(&["config", "check"]);
    assert_eq!(check.code, Some(0), "{check:?}");
    for named in [
        "`policy` does not count: corp.yaml:3 locks `policy` (see wiki/agents)",
        "`mcp_servers.github` does not count",
        "`mcp_servers.wiki.definitions` does not count",
        "`other` stays UNTRUSTED: the registry of corp.yaml does not list it as it is",
    ] {
        assert!(check.stdout.contains(named), "{named}\n{}", check.stdout);
    }
}

#[test]
fn verbs_refuse_what_a_company_locked_forbids_or_did_not_approve() {
    let house = House::new(CORP, USER);
    let before = fs::read(house.home().join("portcullis.yaml")).unwrap();
    let refused: [(&[&str], &str); 6] = [
        (&["servers", "disable", "github"], "corp.yaml"),
        (
            &["servers", "add", "tool", "--command", "npx", "--", "x"],
            "forbids the program `npx` (no packages from the net)",
        ),
        (
            &[
                "servers",
                "add",
                "tool",
                "--command",
                "/opt/bin/npx",
                "--",
                "x",
            ],
            "forbids",
        ),
        (
            &[
                "servers",
                "add",
                "far",
                "--url",
                "https://a.evil.example/mcp",
            ],
            "forbids the host",
        ),
        (
            &["servers", "classify", "wiki", "confidential"],
            "INTERNAL at most",
        ),
        (
            &["servers", "classify", "other", "internal"],
            "does not list it",
        ),
    ];
    for (args, why) in refused {
        let said = house.run(args);
        assert_eq!(said.code, Some(2), "{args:?} {said:?}");
        assert!(said.stderr.contains(why), "{args:?} {said:?}");
    }
    assert_eq!(
        fs::read(house.home().join("portcullis.yaml")).unwrap(),
        before,
        "nothing was written"
    );
    let approved = house.run(&["servers", "classify", "wiki", "internal"]);
    assert_eq!(approved.code, Some(0), "{approved:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_bad_older_or_missing_file_leaves_the_good_copy_in_force() {
    let house = House::new(CORP, USER);
    // Nothing was ever in force here, so there is nothing to fall back to.
    fs::write(
        house.corp().join("corp.yaml"),
        CORP.replace("strict", "observe"),
    )
    .unwrap();
    let never = house.run(&["up", "--listen", "127.0.0.1:0"]);
    assert_eq!(never.code, Some(2), "{never:?}");
    assert!(never.stderr.contains("signature is not good"), "{never:?}");
    house.company.install(&house.corp(), CORP).unwrap();

    let corp = house.corp();
    let mut gate = Setup::new(portcullis(), USER)
        .env("PORTCULLIS_CORP_DIR", corp.to_str().unwrap())
        .start()
        .await
        .unwrap();
    let check = |words: &str| {
        let said = house.run_at(gate.home(), &["config", "check"]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert!(said.stdout.contains(words), "{words}: {}", said.stdout);
        let rows = house
            .run_at(gate.home(), &["config", "explain", "--json"])
            .json()
            .unwrap();
        let row = rows
            .as_array()
            .unwrap()
            .iter()
            .find(|row| row["key"] == "policy.bundle")
            .cloned();
        assert_eq!(row.unwrap()["value"], "strict", "the good copy holds");
    };
    let other = Company::new(8).unwrap();
    let older = CORP
        .replace("serial: 3", "serial: 2")
        .replace("strict", "observe");
    let expired = CORP
        .replace("serial: 3", "serial: 4\nnot_after: 2020-01-01")
        .replace("strict", "observe");
    let wrong = CORP
        .replace("serial: 3", "serial: 4\nnot_a_key: 1")
        .replace("strict", "observe");
    fs::write(corp.join("corp.yaml"), CORP.replace("strict", "observe")).unwrap();
    check(
        "its signature is not good: it does not fit what was signed; the copy with serial 3 stays in force",
    );
    for (text, words) in [
        (older, "its serial is 2, and 3 was in force already"),
        (expired, "it has expired"),
        (wrong, "not_a_key"),
    ] {
        house.company.install(&corp, &text).unwrap();
        check(words);
    }
    fs::write(corp.join("corp.yaml"), CORP).unwrap();
    fs::write(corp.join("corp.yaml.sig"), other.sign(CORP)).unwrap();
    check("is by a key that is not among the keys");
    fs::remove_file(corp.join("corp.yaml.sig")).unwrap();
    check("corp.yaml.sig is gone");

    // A new one is taken on while the gate runs.
    house
        .company
        .install(
            &corp,
            &CORP
                .replace("serial: 3", "serial: 5")
                .replace("strict", "balanced"),
        )
        .unwrap();
    eventually(
        "the new serial to be kept",
        std::time::Duration::from_secs(20),
        || async {
            match fs::read_to_string(gate.home().join("state/corp/serial")).as_deref() {
                Ok("5") => Ok(()),
                other => Err(format!("{other:?}")),
            }
        },
    )
    .await;
    gate.stop().await.unwrap();
    house.company.install(&corp, CORP).unwrap();
    let said = house.run_at(gate.home(), &["config", "check"]);
    assert!(
        said.stdout.contains("and 5 was in force already"),
        "{said:?}"
    );
}
