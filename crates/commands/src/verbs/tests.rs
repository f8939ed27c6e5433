use clap::Parser as _;

use home::Home;
use terminal::{Exit, Screen, Style, Trouble};

use super::servers::edit::{configured, first_config};
use crate::{Cli, Program, args, files::load};

mod accounts;
mod policy;

/// Nothing here starts a gate.
struct NoProgram;

impl Program for NoProgram {
    fn up(&self, _: &Cli, _: &args::Up, _: &Home, _: &mut Screen<'_>) -> Result<Exit, Trouble> {
        unreachable!("no test starts a gate")
    }

    fn demo(&self, _: &args::Demo, _: &Home, _: &mut Screen<'_>) -> Result<Exit, Trouble> {
        unreachable!("no test starts a gate")
    }

    fn demo_server(&self, _: args::DemoName, _: &mut Screen<'_>) -> Result<Exit, Trouble> {
        unreachable!("no test serves a demo")
    }
}

struct House {
    _dir: tempfile::TempDir,
    home: Home,
}

impl House {
    fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        Self {
            home: Home::at(dir.path()),
            _dir: dir,
        }
    }

    /// Exit code and what was printed; the path of the home is shown as `HOME`.
    fn run(&self, line: &str) -> (u8, String) {
        let cli = Cli::try_parse_from(line.split_whitespace()).unwrap();
        let mut out = Vec::new();
        let mut screen = Screen {
            out: &mut out,
            style: Style::PLAIN,
            json: cli.json,
        };
        let result = crate::verbs::run(&cli, &self.home, &mut screen, &NoProgram);
        let (exit, message) = match result {
            Ok(exit) => (exit, String::new()),
            Err(trouble) => (trouble.exit, trouble.message),
        };
        let text = String::from_utf8(out).unwrap() + &message;
        (
            exit.code(),
            text.replace(self.home.config.to_str().unwrap(), "HOME"),
        )
    }
}

#[test]
fn servers_are_edited_in_the_file() {
    let house = House::new();
    let said = |line| house.run(line);
    assert_eq!(
        said("portcullis servers add time --command uvx -- mcp-server-time"),
        (
            0,
            "Server time added in HOME/portcullis.yaml.\n\
             It has no classification yet, so none of its tools can be called: portcullis servers classify time LEVEL\n"
                .to_owned()
        )
    );
    assert_eq!(
        said("portcullis servers classify time PUBLIC").1,
        "Server time classified in HOME/portcullis.yaml.\n\
         No gate runs, so nobody has seen what it offers. When one does, look and approve:\n  portcullis servers review time\n  \
         portcullis servers approve time\n"
    );
    assert_eq!(said("portcullis servers disable time").0, 0);
    assert_eq!(said("portcullis servers remove demo-web").0, 0);
    let (_, resolved) = load(&house.home.config_file()).unwrap();
    let shown: Vec<_> = configured(&resolved)
        .into_iter()
        .map(|server| (server.id, server.state.as_str()))
        .collect();
    assert_eq!(
        shown,
        [
            ("demo-notes".to_owned(), "disconnected"),
            ("time".to_owned(), "disabled")
        ]
    );
    let text = std::fs::read_to_string(house.home.config_file()).unwrap();
    assert!(
        text.contains("# Yours. A server without"),
        "comments survive: {text}"
    );
    assert_eq!(
        said("portcullis servers remove tim"),
        (
            2,
            "there is no server `tim`; did you mean `time`?".to_owned()
        )
    );
    assert_eq!(
        said("portcullis servers enable time --json").1,
        "{\n  \"server\": \"time\",\n  \"done\": \"enabled\",\n  \"file\": \"HOME/portcullis.yaml\"\n}\n"
    );
}

#[test]
fn a_refused_edit_leaves_the_file_alone() {
    let house = House::new();
    house.run("portcullis servers disable demo-web");
    let before = std::fs::read_to_string(house.home.config_file()).unwrap();
    let (code, text) =
        house.run("portcullis servers add a --url https://h/ --bearer not-a-reference");
    assert_eq!(code, 2);
    assert!(
        text.contains("must name a secret, not be one") && !text.contains("not-a-reference"),
        "{text}"
    );
    assert_eq!(
        std::fs::read_to_string(house.home.config_file()).unwrap(),
        before
    );
}

#[test]
fn the_configuration_is_checked_and_explained() {
    let house = House::new();
    assert_eq!(
        house.run("portcullis config path"),
        (0, "HOME/portcullis.yaml\n".to_owned())
    );
    assert_eq!(
        house.run("portcullis config check").0,
        2,
        "there is no file yet"
    );
    house.home.prepare().unwrap();
    assert!(first_config(&house.home).unwrap());
    assert!(
        !first_config(&house.home).unwrap(),
        "an existing file is never overwritten"
    );
    assert_eq!(
        house.run("portcullis config check"),
        (0, "HOME/portcullis.yaml: good, 2 servers\n".to_owned())
    );
    assert!(
        house
            .run("portcullis config explain")
            .1
            .contains("limits.max_depth")
    );
    std::fs::write(house.home.config_file(), "listn: x\nretry: 3\n").unwrap();
    let (code, text) = house.run("portcullis config check");
    assert_eq!(code, 2);
    assert!(
        text.ends_with("HOME/portcullis.yaml: 2 mistakes, nothing is applied\n"),
        "{text}"
    );
    let (code, json) = house.run("portcullis config check --json");
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (
            code,
            json["ok"].as_bool(),
            json["findings"][0]["line"].as_u64()
        ),
        (2, Some(false), Some(1))
    );
    assert_eq!(house.run("portcullis config explain").0, 2);
    let schema: serde_json::Value =
        serde_json::from_str(&house.run("portcullis config schema").1).unwrap();
    assert_eq!(
        schema["$schema"],
        "https://json-schema.org/draft/2020-12/schema"
    );
}

#[test]
fn keys_that_cannot_be_used_are_mistakes_of_the_file_that_names_them() {
    let house = House::new();
    let write = |name: &str, text: &str| {
        std::fs::write(house.home.config_file().with_file_name(name), text).unwrap()
    };
    write(
        "portcullis.yaml",
        "seal:\n  private_key_path: keys/none.pem\n",
    );
    let (code, text) = house.run("portcullis config check");
    assert!(
        code == 2
            && text.contains("keys/none.pem")
            && text.contains("portcullis.yaml:2:21")
            && text.contains("fix:"),
        "{text}"
    );
    write("portcullis.yaml", "seal: { private_key_path: empty.pem }\n");
    write("empty.pem", "");
    let (code, text) = house.run("portcullis config check");
    assert!(
        code == 2 && text.contains("empty.pem") && text.contains("portcullis.yaml:1:27"),
        "{text}"
    );
    let trouble = crate::files::whole_of_home(&house.home).unwrap_err();
    assert!(
        trouble.exit == Exit::Usage && trouble.message.contains("portcullis.yaml:1:27"),
        "{}",
        trouble.message
    );
}

#[test]
fn credentials_are_made_listed_and_revoked() {
    let house = House::new();
    let (code, text) = house.run("portcullis token new laptop --grant github__* --json");
    let made: serde_json::Value = serde_json::from_str(&text).unwrap();
    let token = made["token"].as_str().unwrap();
    assert_eq!((code, made["role"].as_str()), (0, Some("client")));
    let tokens = home::tokens::Tokens::load(&house.home.tokens_file()).unwrap();
    assert_eq!(tokens.verify(token).unwrap().name, "laptop");
    let (_, list) = house.run("portcullis token list");
    assert!(list.contains("laptop") && !list.contains(token));
    assert_eq!(house.run("portcullis token revoke laptop").0, 0);
    assert_eq!(
        house.run("portcullis token revoke laptop").0,
        2,
        "it is revoked already"
    );
    assert_eq!(house.run("portcullis token new x --grant nonsense").0, 2);
}

#[test]
fn secrets_are_listed_by_name() {
    let house = House::new();
    assert!(
        house
            .run("portcullis secret list")
            .1
            .contains("No secrets stored")
    );
    house.home.prepare().unwrap();
    let vault = secrets::Vault::in_home(house.home.vault(), secrets::os_entropy());
    vault
        .set("github-pat", &secrets::Secret::new("hunter2".to_owned()))
        .unwrap();
    assert_eq!(
        house.run("portcullis secret list"),
        (0, "github-pat\n".to_owned())
    );
    assert_eq!(house.run("portcullis secret delete github-pat").0, 0);
    assert_eq!(house.run("portcullis secret delete github-pat").0, 2);
}

#[test]
fn verbs_that_need_the_gate_say_so() {
    let house = House::new();
    for line in [
        "portcullis status",
        "portcullis servers retry a",
        "portcullis tools list",
        "portcullis approvals list",
        "portcullis session show",
    ] {
        let (code, said) = house.run(line);
        assert_eq!(code, Exit::NotRunning.code(), "{line}: {said}");
    }
}

#[test]
fn a_trouble_says_what_lies_behind_it() {
    let source = std::io::Error::from(std::io::ErrorKind::ReadOnlyFilesystem);
    let error = audit::OpenError::Disk {
        what: "locking the ledger directory",
        path: "/home".into(),
        source,
    };
    let message = Trouble::because(&error).message;
    assert_eq!(
        message,
        "locking the ledger directory /home failed: read-only filesystem or storage medium"
    );
}
