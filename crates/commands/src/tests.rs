use clap::{CommandFactory as _, Parser as _};
use terminal::{
    Exit,
    style::{ColorChoice, Style, cut, tame},
};

use crate::{
    args::{self, Servers, Token},
    *,
};

mod decide;

fn parsed(line: &str) -> Cli {
    let words = line.split_whitespace().map(|word| word.trim_matches('\''));
    Cli::try_parse_from(words).unwrap_or_else(|error| panic!("{line}: {error}"))
}

fn refused(line: &str) -> String {
    let error = Cli::try_parse_from(line.split_whitespace()).expect_err(line);
    assert_eq!(error.exit_code(), i32::from(Exit::Usage.code()));
    error.to_string()
}

#[test]
fn the_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn every_verb_is_understood() {
    for line in [
        "portcullis up --listen 127.0.0.1:0 --no-snippets",
        "portcullis --home /h connect --server github",
        "portcullis servers list --json",
        "portcullis servers remove a",
        "portcullis servers enable a",
        "portcullis servers disable a",
        "portcullis servers retry a",
        "portcullis servers classify a PUBLIC",
        "portcullis servers classify a PUBLIC --reason reviewed",
        "portcullis servers block a --reason leaks",
        "portcullis servers unblock a --reason fixed",
        "portcullis servers review a",
        "portcullis servers approve a",
        "portcullis servers approve a tool:b prompt:c --reason read",
        "portcullis approvals list --all",
        "portcullis approvals show k7",
        "portcullis approvals approve k7 --reason fine",
        "portcullis approvals deny k7",
        "portcullis session show",
        "portcullis session show laptop",
        "portcullis session reset laptop --reason done --yes",
        "portcullis lineage 19a8c-17 --forward",
        "portcullis policy check",
        "portcullis policy check ./rules",
        "portcullis policy test cases.json --bundle strict",
        "portcullis policy explain 19a8c-17",
        "portcullis policy explain --tool a__b --caller laptop",
        "portcullis policy diff strict --caller laptop --since 7d",
        "portcullis policy suggest --since 30m",
        "portcullis connect-account github --user alice",
        "portcullis connect-account --list",
        "portcullis connect-account github --user alice --remove",
        "portcullis connect-account github --user alice --tenant acme",
        "portcullis token new laptop --user alice --department eng --department ops --agent claude",
        "portcullis tools list --server a",
        "portcullis call a__b {}",
        "portcullis call a__b -",
        "portcullis status --watch",
        "portcullis doctor",
        "portcullis demo --no-pause",
        "portcullis token new laptop --view flat --grant a__*",
        "portcullis token list",
        "portcullis token revoke laptop",
        "portcullis config check",
        "portcullis config explain other.yaml",
        "portcullis config schema",
        "portcullis config path",
        "portcullis secret set a",
        "portcullis secret list",
        "portcullis secret delete a",
        "portcullis audit tail -n 5 --follow",
        "portcullis audit verify",
        "portcullis audit show 17",
        "portcullis audit verify --against head.txt --key key.txt",
        "portcullis audit verify --export november.ledger --key key.txt",
        "portcullis audit query --caller c --user u --agent a --tenant t --server s --tool t --verdict refused --violation V --level PUBLIC",
        "portcullis audit query --since 2h --until 2026-11-15T10:00Z --lineage c-1 --session s --execution e --limit 5 --json",
        "portcullis audit report --since 7d --format html --out report.html",
        "portcullis audit export --since 7d --until 2026-11-15 --out november.ledger",
        "portcullis audit retain --before 90d --reason old --dry-run",
        "portcullis audit checkpoint",
        "portcullis audit proof 17",
        "portcullis audit check-proof proof.txt --key key.txt",
        "portcullis audit erase 19a8c-17 --reason private",
        "portcullis completions bash",
        "portcullis man --out man",
        "portcullis import --all --project . --take-over",
        "portcullis import --undo 3",
        "portcullis console --code --role viewer",
        "portcullis demo-server notes",
    ] {
        parsed(line);
    }
}

#[test]
fn the_examples_in_the_help_work() {
    fn with_examples(command: &clap::Command, found: &mut Vec<String>) {
        found.extend(
            command
                .get_after_help()
                .map(ToString::to_string)
                .filter(|help| help.contains("Examples:")),
        );
        command
            .get_subcommands()
            .for_each(|command| with_examples(command, found));
    }
    let mut helps = Vec::new();
    with_examples(&Cli::command(), &mut helps);
    assert!(helps.len() >= 6, "{}", helps.len());
    for help in helps {
        assert!(
            help.lines().all(|line| line.chars().count() <= 98),
            "would wrap: {help}"
        );
        let help = help.replace(" \\\n      ", " ");
        let examples: Vec<_> = help
            .lines()
            .filter(|line| line.starts_with("  portcullis"))
            .collect();
        assert!(examples.len() >= 2);
        for example in examples {
            // What is explained stands after a run of spaces, what a shell does with files after its sign; quoted is one word.
            let line = example
                .trim()
                .split("   ")
                .next()
                .unwrap()
                .split(['<', '>'])
                .next()
                .unwrap();
            parsed(
                &line
                    .replace("\"query\": ", "\"query\":")
                    .replace("'read them'", "read"),
            );
        }
    }
}

#[test]
fn adding_a_server_keeps_the_programs_own_options() {
    let cli = parsed(
        "portcullis --home /h servers add fs --command npx --env A=b=c --classification INTERNAL -- -y pkg --json",
    );
    assert!(!cli.json, "what follows -- is the program's");
    assert_eq!(cli.home.as_deref(), Some(std::path::Path::new("/h")));
    assert_eq!(cli.color, ColorChoice::Auto);
    let Verb::Servers(Servers::Add(add)) = cli.verb else {
        panic!()
    };
    assert_eq!(add.args, ["-y", "pkg", "--json"]);
    assert_eq!(add.env, [("A".to_owned(), "b=c".to_owned())]);
    assert_eq!(add.classification, Some(vocab::Level::Internal));
}

#[test]
fn wrong_usage_is_explained() {
    assert!(refused("portcullis servers add a").contains("--command <CMD>|--url <URL>"));
    assert!(
        refused("portcullis servers add a --command x --url y").contains("cannot be used with")
    );
    assert!(refused("portcullis servers add a --url y --env A=b").contains("cannot be used with"));
    assert!(refused("portcullis servers add a --command x --env A").contains("NAME=VALUE"));
    for written in ["PUBLIC", "public", "Public"] {
        let cli = parsed(&format!("portcullis servers classify a {written}"));
        assert!(
            matches!(cli.verb, Verb::Servers(args::Servers::Classify(args)) if args.level == vocab::Level::Public)
        );
    }
    assert!(
        refused("portcullis servers classify a secret")
            .contains("PUBLIC, INTERNAL, CONFIDENTIAL or RESTRICTED")
    );
    assert!(refused("portcullis stauts").contains("'status'"));
    assert!(refused("portcullis servers block a").contains("--reason <TEXT>"));
    assert!(refused("portcullis session reset laptop").contains("--reason <TEXT>"));
    assert!(refused("portcullis connect-account github").contains("--user <USER>"));
    assert!(refused("portcullis connect-account").contains("--list"));
    assert!(refused("portcullis policy explain --tool a__b").contains("--caller <CALLER>"));
    assert!(refused("portcullis policy explain 7 --caller b").contains("cannot be used with"));
    assert!(refused("portcullis audit query --since yesterday").contains("2026-11-15"));
    assert!(refused("portcullis audit query --verdict maybe").contains("permitted, refused"));
    assert!(refused("portcullis policy suggest --since yesterday").contains("30m, 2h or 7d"));
}

#[test]
fn a_new_token_is_a_client_unless_asked() {
    let Verb::Token(Token::New(new)) = parsed("portcullis token new x").verb else {
        panic!()
    };
    assert!(!new.operator && new.grant.is_empty());
    assert_eq!(vocab::View::from(new.view), vocab::View::Double);
}

#[test]
fn completions_know_the_verbs() {
    let script = String::from_utf8(args::completions(clap_complete::Shell::Bash)).unwrap();
    assert!(script.contains("servers") && script.contains("completions"));
}

#[test]
fn generated_page_is_current() {
    let page = page::page();
    assert!(page.contains("## portcullis servers add\n") && !page.contains("demo-server NAME"));
    assert!(
        !page.contains("--home <DIR>\n"),
        "options of every verb are told once"
    );
    testkit::generated::check("docs/use/cli.md", &page);
}

#[test]
fn exit_codes_are_distinct_and_in_the_help() {
    let mut codes: Vec<u8> = Exit::ALL.iter().map(|exit| exit.code()).collect();
    let help = Cli::command().get_after_help().unwrap().to_string();
    assert!(codes.iter().all(|code| help.contains(&format!("{code} "))));
    codes.dedup();
    assert_eq!(codes.len(), Exit::ALL.len());
}

fn server(id: &str, state: api::ServerState) -> api::Server {
    let classification = Some("PUBLIC".to_owned());
    api::Server {
        id: id.to_owned(),
        state,
        transport: "stdio".to_owned(),
        classification,
        ..api::Server::default()
    }
}

fn fleet() -> Vec<api::Server> {
    vec![
        api::Server {
            protocol: Some("2025-11-25".to_owned()),
            tools: 12,
            confined: Some("own process group, cleared environment".to_owned()),
            ..server("github", api::ServerState::Connected)
        },
        api::Server {
            classification: None,
            tools: 2,
            ..server("time", api::ServerState::Connected)
        },
        api::Server {
            last_error: Some("connection refused\u{1b}[2J".to_owned()),
            attempt: 3,
            next_retry_ms: Some(7_200),
            transport: "http".to_owned(),
            ..server("search", api::ServerState::Disconnected)
        },
        api::Server {
            last_error: Some("no such program: npx".to_owned()),
            ..server("fs", api::ServerState::Failed)
        },
        server("old", api::ServerState::Disabled),
        api::Server {
            transport: String::new(),
            last_error: Some("it has neither `command` nor `url`".to_owned()),
            ..server("empty", api::ServerState::Skipped)
        },
    ]
}

#[test]
fn servers_as_a_table() {
    assert_eq!(
        render::servers(&fleet(), Style::PLAIN),
        "\
SERVER  STATE         LEVEL      TRANSPORT  PROTOCOL    TOOLS  NOTE
github  connected     PUBLIC     stdio      2025-11-25  12
time    connected     UNTRUSTED  stdio      -           2      cannot be called; portcullis servers…
search  disconnected  PUBLIC     http       -           -      attempt 4 in 8s: connection refused …
fs      failed        PUBLIC     stdio      -           -      no such program: npx; portcullis ser…
old     disabled      PUBLIC     stdio      -           -      portcullis servers enable old
empty   skipped       PUBLIC     -          -           -      it has neither `command` nor `url`
"
    );
    assert!(render::servers(&[], Style::PLAIN).contains("portcullis servers add"));
}

#[test]
fn what_a_failing_program_said_is_shown_below() {
    let stderr = Some(
        (1..9)
            .map(|line| format!("line {line}\u{1b}[31m\n"))
            .collect(),
    );
    let failing = api::Server {
        stderr,
        remarks: vec!["the tool `a b` is not shown".to_owned()],
        ..server("fs", api::ServerState::Failed)
    };
    let text = render::servers(&[failing], Style::PLAIN);
    let below: String = text
        .lines()
        .skip(2)
        .map(|line| format!("{line}\n"))
        .collect();
    assert_eq!(
        below,
        "\
fs: the tool `a b` is not shown

fs wrote to standard error:
  line 4 [31m
  line 5 [31m
  line 6 [31m
  line 7 [31m
  line 8 [31m
  portcullis servers show fs has it whole
"
    );
}

#[test]
fn the_mcp_line_counts_and_colours() {
    let color = Style {
        color: true,
        width: 80,
    };
    let line = |states: &[api::ServerState]| {
        let servers: Vec<_> = states.iter().map(|state| server("a", *state)).collect();
        render::mcp_line(&servers, color)
    };
    use api::ServerState::{Connected, Connecting, Disabled, Failed, Skipped};
    assert_eq!(
        line(&[Connected, Connected, Disabled]),
        "\u{1b}[32mMCP 2/2\u{1b}[0m"
    );
    assert_eq!(
        line(&[Connected, Connecting, Connected]),
        "\u{1b}[33mMCP 2/3\u{1b}[0m"
    );
    assert_eq!(line(&[Failed, Connecting]), "\u{1b}[31mMCP 0/2\u{1b}[0m");
    assert_eq!(line(&[Disabled, Skipped]), "");
}

#[test]
fn tools_as_a_table() {
    let tool = |name: &str, permission: &str, description: &str| api::Tool {
        name: name.to_owned(),
        permission: permission.to_owned(),
        description: Some(description.to_owned()),
        ..api::Tool::default()
    };
    let tools = [
        api::Tool {
            effect: "read".to_owned(),
            open_world: Some(false),
            ..tool(
                "demo-notes__echo",
                "permitted",
                "Says it back.\nSecond line.",
            )
        },
        tool(
            "github__delete_repo",
            "blocked",
            "\u{202e}Deletes\u{7} a repository",
        ),
        api::Tool {
            quarantined: true,
            ..tool("github__new", "permitted", "")
        },
    ];
    assert_eq!(
        render::tools(&tools, Style::PLAIN),
        "\
TOOL                 PERMISSION  EFFECT  OPEN WORLD  DESCRIPTION
demo-notes__echo     permitted   read    no          Says it back. Second line.
github__delete_repo  blocked     -       -           \u{fffd}Deletes a repository
github__new          to review   -       -
"
    );
}

#[test]
fn status_tells_of_providers_and_their_trouble() {
    let issuer = |last_error: Option<&str>, usable| api::Issuer {
        issuer: "https://id.example".into(),
        keys: 2,
        jwks_url: None,
        age_ms: Some(125_000),
        last_error: last_error.map(str::to_owned),
        usable,
    };
    let shown = |issuer: api::Issuer| {
        let oauth = api::OAuth {
            issuers: vec![issuer],
            ..api::OAuth::default()
        };
        let text = render::status(
            &api::Status {
                oauth: Some(oauth),
                ..api::Status::default()
            },
            Style::PLAIN,
        );
        text.lines().nth(1).unwrap().to_owned()
    };
    assert_eq!(
        shown(issuer(None, None)),
        "tokens  of https://id.example, 2 keys"
    );
    assert_eq!(
        shown(issuer(Some("it answered with HTTP 503"), Some(true))),
        "tokens  of https://id.example, by keys from 2m 5s ago: it answered with HTTP 503"
    );
    assert_eq!(
        shown(issuer(Some("timeout"), Some(false))),
        "tokens  of https://id.example are refused, there are no keys: timeout"
    );
}

#[test]
fn status_on_one_screen() {
    let status = api::Status {
        version: "0.1.0".to_owned(),
        pid: 42,
        url: "http://127.0.0.1:7878/mcp".to_owned(),
        uptime_ms: 125_400,
        awaiting_restart: Vec::new(),
        authentication: "bearer".to_owned(),
        oauth: None,
        servers: vec![server("a", api::ServerState::Connected)],
        callers: vec![api::Caller {
            id: "1f2e3d4c".into(),
            name: "laptop".into(),
            label: "CONFIDENTIAL".into(),
        }],
        calls: api::Calls {
            in_flight: 1,
            answered: 20,
            refused: 3,
            ..api::Calls::default()
        },
        bundle: String::new(),
        pending_approvals: 0,
        ledger: api::Ledger {
            path: "/h/ledger".into(),
            records: 46,
            broken: None,
        },
        sinks: vec![],
        worker: api::Worker {
            pid: Some(43),
            restarts: 0,
            confinement: vec![
                api::Confinement {
                    name: "seccomp".into(),
                    applied: true,
                    detail: String::new(),
                },
                api::Confinement {
                    name: "landlock".into(),
                    applied: false,
                    detail: "kernel has none".into(),
                },
            ],
        },
    };
    assert_eq!(
        render::status(&status, Style::PLAIN),
        "\
portcullis 0.1.0  http://127.0.0.1:7878/mcp  pid 42, up 2m 5s
calls   20 answered, 3 refused, 0 failed, 1 in flight
ledger  46 records in /h/ledger
worker  pid 43, NOT confined by landlock, never restarted

MCP 1/1
SERVER  STATE      LEVEL   TRANSPORT  PROTOCOL  TOOLS  NOTE
a       connected  PUBLIC  stdio      -         0

CALLER  ID        HAS SEEN
laptop  1f2e3d4c  CONFIDENTIAL
"
    );
    let broken = api::Status {
        ledger: api::Ledger {
            broken: Some("disk full".into()),
            ..api::Ledger::default()
        },
        authentication: "none".into(),
        ..api::Status::default()
    };
    let text = render::status(&broken, Style::PLAIN);
    assert!(
        text.contains("ledger  broken, so nothing is carried out: disk full"),
        "{text}"
    );
    assert!(
        text.contains("authentication is off") && text.contains("worker  not running"),
        "{text}"
    );
}

#[test]
fn answers_of_other_versions_are_read() {
    let json =
        r#"{"version":"9","servers":[{"id":"a","state":"hibernating","novel":1}],"more":{}}"#;
    let status: api::Status = serde_json::from_str(json).unwrap();
    assert_eq!(status.servers[0].state, api::ServerState::Unknown);
}

#[test]
fn credentials_as_a_table() {
    use home::tokens::{NewCredential, Role, Tokens};
    let mut tokens = Tokens::default();
    let at = std::time::UNIX_EPOCH + std::time::Duration::from_secs(1_794_740_520);
    let mut fixed = |buffer: &mut [u8]| {
        buffer.fill(9);
        Ok(())
    };
    let mut other = |buffer: &mut [u8]| {
        buffer.fill(10);
        Ok(())
    };
    let plain = NewCredential::plain("laptop", Role::Client);
    tokens
        .issue(
            NewCredential {
                grants: vec!["github__*".into()],
                ..plain
            },
            at,
            &mut fixed,
        )
        .unwrap();
    tokens.revoke("laptop").unwrap();
    let held = NewCredential {
        user: Some("alice".into()),
        departments: vec!["eng".into()],
        agent: Some("claude".into()),
        ..NewCredential::plain("desk", Role::Operator)
    };
    tokens.issue(held, at, &mut other).unwrap();
    let [id, desk] = [tokens.list()[0].id.clone(), tokens.list()[1].id.clone()];
    assert_eq!(
        render::tokens(
            tokens.list(),
            Style {
                color: false,
                width: 120
            }
        ),
        format!(
            "\
ID        NAME    ROLE      STATE    VIEW    CREATED               FOR                      GRANTS
{id}  laptop  client    revoked  double  2026-11-15 11:02 UTC  -                        github__*
{desk}  desk    operator  valid    double  2026-11-15 11:02 UTC  alice (eng) with claude  -
"
        )
    );
}

#[test]
fn dates_are_right_at_the_edges() {
    assert_eq!(render::utc(0), "1970-01-01 00:00 UTC");
    assert_eq!(render::utc(951_782_400), "2000-02-29 00:00 UTC");
    assert_eq!(render::utc(4_107_542_399), "2100-02-28 23:59 UTC");
    assert_eq!(render::utc(4_107_542_400), "2100-03-01 00:00 UTC");
}

#[test]
fn nothing_a_server_says_can_drive_the_terminal() {
    assert_eq!(
        tame("a\u{1b}]0;title\u{7}b\r\nc\u{200b}d"),
        "a ]0;title b c\u{fffd}d"
    );
    assert_eq!(cut("abcdef", 4), "abc…");
    assert_eq!(cut("abcd", 4), "abcd");
}
