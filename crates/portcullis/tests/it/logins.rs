//! Logins to servers: made by a person, kept alive by the gate, ended by either side.

mod machines;
mod proofs;
mod trouble;
mod users;

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::Era;
use testkit::gate::Gate;
use testkit::guarded::Guarded;

use crate::support::{
    await_state, client, config, eventually, gate, http, portcullis, records, server,
};

const SOON: Duration = Duration::from_secs(20);

async fn gate_before(guarded: &Guarded) -> Gate {
    gate(&config(&[(
        "guarded",
        http(&guarded.url(), "classification: PUBLIC"),
    )]))
    .await
}

/// `servers login` under way.
struct Person {
    child: Child,
    heard: std::sync::mpsc::Receiver<String>,
    address: String,
    port: u16,
}

fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    listener.local_addr().unwrap().port()
}

fn begin(home: &Path, options: &[&str]) -> Person {
    begin_by(home, &["servers", "login", "guarded"], options)
}

fn begin_by(home: &Path, verb: &[&str], options: &[&str]) -> Person {
    let port = free_port();
    let mut command = Command::new(portcullis());
    command.arg("--home").arg(home).arg("--json");
    command.args(verb).args(["--no-browser", "--port"]);
    command.arg(port.to_string()).args(options);
    let piped = [Stdio::piped(), Stdio::piped(), Stdio::piped()];
    let [stdin, stdout, stderr] = piped;
    let mut child = command
        .stdin(stdin)
        .stdout(stdout)
        .stderr(stderr)
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    let mut said = Vec::new();
    let address = lines.by_ref().map(Result::unwrap).find_map(|line| {
        said.push(line.clone());
        line.strip_prefix("Open this address: ").map(str::to_owned)
    });
    let address = address.unwrap_or_else(|| panic!("no address: {said:?}"));
    // Whoever stops reading would stop the program.
    let (send, heard) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for line in lines.map_while(Result::ok) {
            let _ = send.send(line);
        }
    });
    Person {
        child,
        heard,
        address,
        port,
    }
}

impl Person {
    /// The line that has these words.
    fn heard_until(&mut self, words: &str) -> String {
        loop {
            let line = self.heard.recv_timeout(SOON).unwrap();
            if line.contains(words) {
                return line;
            }
        }
    }

    fn give_up(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn end(mut self) -> (Option<i32>, Value) {
        let mut said = String::new();
        self.child
            .stdout
            .take()
            .unwrap()
            .read_to_string(&mut said)
            .unwrap();
        let code = self.child.wait().unwrap().code();
        (code, serde_json::from_str(&said).unwrap_or(Value::Null))
    }
}

/// One GET, as a browser makes it: the status, and where it leads.
fn get(address: &str) -> (u16, Option<String>) {
    let rest = address.strip_prefix("http://").unwrap();
    let (host, path) = rest.split_once('/').unwrap();
    let mut stream = TcpStream::connect(host).unwrap();
    write!(
        stream,
        "GET /{path} HTTP/1.1\r\nhost: {host}\r\nconnection: close\r\n\r\n"
    )
    .unwrap();
    let mut reader = BufReader::new(stream);
    let mut lines = reader.by_ref().lines().map(Result::unwrap);
    let status = lines
        .next()
        .unwrap()
        .split(' ')
        .nth(1)
        .unwrap()
        .parse()
        .unwrap();
    let head = lines.take_while(|line| !line.is_empty());
    let mut headers = head.filter_map(|line| {
        line.split_once(": ")
            .map(|(a, b)| (a.to_owned(), b.to_owned()))
    });
    (
        status,
        headers
            .find(|(name, _)| name == "location")
            .map(|(_, to)| to),
    )
}

/// Goes where the person is sent, and back.
fn visit(person: &Person) -> u16 {
    let (status, back) = get(&person.address);
    assert_eq!(status, 302);
    get(&back.unwrap()).0
}

async fn log_in(gate: &Gate, options: &[&str]) -> Value {
    let home = gate.home().to_owned();
    let options: Vec<String> = options.iter().map(ToString::to_string).collect();
    let done = tokio::task::spawn_blocking(move || {
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let person = begin(&home, &options);
        assert_eq!(visit(&person), 200);
        person.end()
    });
    let (code, said) = done.await.unwrap();
    assert_eq!(code, Some(0), "{said}");
    await_state(gate, "guarded", "connected", SOON).await;
    said
}

async fn echo(gate: &Gate) -> testkit::client::Called {
    let client = client(gate, Era::Legacy).await;
    client
        .call("guarded__echo", json!({ "text": "hello" }))
        .await
        .unwrap()
}

/// Every file of the home, read whole.
fn everything_in(dir: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in std::fs::read_dir(dir).unwrap().map(Result::unwrap) {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            all.extend(everything_in(&entry.path()));
        } else if kind.is_file() {
            all.extend(std::fs::read(entry.path()).unwrap_or_default());
        }
    }
    all
}

/// No token that was ever given is in clear in the home.
fn assert_no_secret(guarded: &Guarded, gate: &Gate) {
    let files = everything_in(gate.home());
    for secret in guarded.secrets() {
        let mut parts = files.windows(secret.len());
        let is_there = parts.any(|part| part == secret.as_bytes());
        assert!(!is_there, "{secret} in clear");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_wants_a_login_says_what_to_type_and_gets_one() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    let waiting = await_state(&gate, "guarded", "failed", SOON).await;
    let error = waiting["last_error"].as_str().unwrap();
    assert!(
        error.contains("portcullis servers login guarded"),
        "{waiting}"
    );
    assert_eq!(waiting["login"]["state"], "login_required", "{waiting}");
    let said = log_in(&gate, &[]).await;
    assert_eq!(
        (&said["issuer"], &said["renews"]),
        (&json!(guarded.issuer()), &json!(true))
    );
    let called = echo(&gate).await;
    assert_eq!(
        (called.text.as_str(), called.is_error),
        ("hello", false),
        "{called:?}"
    );
    assert_eq!(
        guarded.with(|books| (books.calls, books.registered)),
        (1, 1)
    );
    assert_eq!(
        server(&gate, "guarded").await["login"]["state"],
        "connected"
    );
    // The ledger knows who was logged in where, and no file knows a token.
    let actions: Vec<Value> = records(&gate)
        .await
        .iter()
        .map(|record| record["action"].clone())
        .collect();
    assert!(actions.contains(&json!("server.logged_in")), "{actions:?}");
    assert_no_secret(&guarded, &gate);
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_login_a_call_is_refused_and_names_no_address() {
    let guarded = Guarded::start(3600).unwrap();
    let mut gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    gate.stop().await.unwrap();
    let vault = gate.home().join("state/secrets.vault");
    let vault = if vault.exists() {
        vault
    } else {
        gate.home().join("secrets.vault")
    };
    std::fs::remove_file(vault).unwrap();
    gate.start_again().await.unwrap();
    await_state(&gate, "guarded", "failed", SOON).await;
    let called = echo(&gate).await;
    assert_eq!(
        (called.violation(), called.error_code()),
        (Some("LoginRequired"), Some("permission_denied")),
        "{called:?}"
    );
    assert!(!called.answer.to_string().contains("http://"), "{called:?}");
    assert_eq!(guarded.with(|books| books.calls), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_hundred_calls_at_the_end_of_a_token_renew_it_once() {
    let guarded = Guarded::start(3600).unwrap();
    let servers = config(&[("guarded", http(&guarded.url(), "classification: PUBLIC"))]);
    let limits = "limits: { max_concurrent_calls: 512, max_concurrent_calls_per_caller: 256 }\n";
    let gate = gate(&format!("{limits}{servers}")).await;
    log_in(&gate, &[]).await;
    let client = client(&gate, Era::Legacy).await;
    for round in 1..=5 {
        guarded.end_tokens();
        let calls: Vec<_> = (0..200)
            .map(|_| {
                client.start(
                    "tools/call",
                    json!({ "name": "guarded__echo", "arguments": { "text": "x" } }),
                )
            })
            .collect();
        for call in calls {
            let answer = call.answer().await.unwrap();
            assert_eq!(answer["result"]["content"][0]["text"], "x", "{answer}");
        }
        assert_eq!(guarded.granted("refresh_token"), round);
    }
    assert_eq!(guarded.with(|books| (books.calls, books.reused)), (1000, 0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_renewed_before_it_ends_and_after_a_restart() {
    let guarded = Guarded::start(6).unwrap();
    let mut gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let refused = guarded.with(|books| books.refused);
    eventually("a renewal", SOON, || async {
        match guarded.granted("refresh_token") {
            0 => Err("none yet".to_owned()),
            _ => Ok(()),
        }
    })
    .await;
    assert!(!echo(&gate).await.is_error);
    assert_eq!(
        guarded.with(|books| books.refused),
        refused,
        "no request was refused meanwhile"
    );
    // Ended while nobody was there: renewed first, then connected.
    gate.stop().await.unwrap();
    guarded.end_tokens();
    tokio::time::sleep(Duration::from_secs(6)).await;
    gate.start_again().await.unwrap();
    await_state(&gate, "guarded", "connected", SOON).await;
    assert!(!echo(&gate).await.is_error);
    assert_eq!(
        guarded.with(|books| (books.reused, books.registered)),
        (0, 1)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_authorization_server_that_is_down_ends_no_login() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    guarded.with(|books| books.is_down = true);
    guarded.end_tokens();
    assert!(echo(&gate).await.is_error);
    guarded.with(|books| books.is_down = false);
    eventually("a call that works", Duration::from_secs(60), || async {
        let called = echo(&gate).await;
        if called.is_error {
            Err(format!("{called:?}"))
        } else {
            Ok(())
        }
    })
    .await;
    assert_eq!(guarded.with(|books| books.reused), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_login_that_was_taken_back_asks_for_a_person() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    guarded.forget_logins();
    guarded.end_tokens();
    let called = echo(&gate).await;
    assert_eq!(called.violation(), Some("LoginRequired"), "{called:?}");
    let failed = await_state(&gate, "guarded", "failed", SOON).await;
    assert_eq!(failed["login"]["state"], "expired", "{failed}");
    let asked = guarded.granted("refresh_token");
    assert_eq!(echo(&gate).await.violation(), Some("LoginRequired"));
    assert_eq!(
        guarded.granted("refresh_token"),
        asked,
        "a refusal is not asked for twice"
    );
    log_in(&gate, &[]).await;
    assert!(!echo(&gate).await.is_error);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_echoes_its_token_shows_a_mark() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let client = client(&gate, Era::Legacy).await;
    for _ in 0..2 {
        let called = client.call("guarded__reflect", json!({})).await.unwrap();
        assert!(
            !called.answer.to_string().contains("access-token-number"),
            "{called:?}"
        );
        guarded.end_tokens();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_comes_with_another_state_changes_nothing() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    let home = gate.home().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let person = begin(&home, &[]);
        let callback = format!("http://127.0.0.1:{}/oauth/callback", person.port);
        for stranger in [
            "?code=stolen&state=guess",
            "?code=stolen",
            "?error=access_denied&state=x",
            "?state=a&state=b",
        ] {
            assert_eq!(get(&format!("{callback}{stranger}")).0, 400, "{stranger}");
        }
        assert_eq!(
            get(&format!("http://127.0.0.1:{}/other", person.port)).0,
            404
        );
        assert_eq!(visit(&person), 200);
        person.end().0
    });
    assert_eq!(done.await.unwrap(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_of_another_authorization_server_is_not_redeemed() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    guarded.with(|books| books.poses_as = Some("https://honest.example".to_owned()));
    let home = gate.home().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let person = begin(&home, &[]);
        assert_eq!(visit(&person), 400);
        person.end().0
    });
    assert_eq!(done.await.unwrap(), Some(3));
    assert_eq!(guarded.with(|books| books.granted.len()), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_address_can_be_pasted_and_a_code_alone_is_refused() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    let home = gate.home().to_owned();
    let done = tokio::task::spawn_blocking(move || {
        let paste = |text: &dyn Fn(String) -> String| {
            let mut person = begin(&home, &["--paste"]);
            let (_, back) = get(&person.address);
            let mut stdin = person.child.stdin.take().unwrap();
            writeln!(stdin, "{}", text(back.unwrap())).unwrap();
            person.end().0
        };
        let code = |back: String| back.split(['=', '&']).nth(1).unwrap().to_owned();
        (paste(&code), paste(&|back| back))
    });
    assert_eq!(done.await.unwrap(), (Some(2), Some(0)));
    await_state(&gate, "guarded", "connected", SOON).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn another_authorization_server_needs_a_word_of_the_person() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    guarded.with(|books| books.tenant = "/moved".to_owned());
    let said = gate
        .cli(&["servers", "login", "guarded", "--no-browser", "--paste"])
        .await
        .unwrap();
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(
        said.stderr.contains("--accept-issuer") && said.stderr.contains("/moved"),
        "{said:?}"
    );
    // A user's first login is held to what the server's own login knows.
    let own = ["connect-account", "guarded", "--user", "alice", "--login"];
    let own = [&own[..], &["--no-browser", "--paste"]].concat();
    let said = gate.cli(&own).await.unwrap();
    assert_eq!(said.code, Some(3), "{said:?}");
    assert!(said.stderr.contains("--accept-issuer"), "{said:?}");
    let registered = guarded.with(|books| books.registered);
    log_in(&gate, &["--accept-issuer"]).await;
    // Nothing of the old one is shown to the new one.
    assert_eq!(guarded.with(|books| books.registered), registered + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn logging_out_takes_the_tokens_back_and_disconnects() {
    let guarded = Guarded::start(3600).unwrap();
    let gate = gate_before(&guarded).await;
    log_in(&gate, &[]).await;
    let said = gate.cli(&["servers", "logout", "guarded"]).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(guarded.with(|books| books.revoked), 2);
    let failed = await_state(&gate, "guarded", "failed", SOON).await;
    assert_eq!(failed["login"]["state"], "login_required", "{failed}");
    assert_eq!(
        gate.cli(&["servers", "logout", "guarded"])
            .await
            .unwrap()
            .code,
        Some(2)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_machine_logs_in_with_a_client_of_its_own() {
    let guarded = Guarded::start(3600).unwrap();
    guarded.with(|books| books.client = Some(("gate".to_owned(), "hush".to_owned())));
    let gate = gate_before(&guarded).await;
    // Nobody can register here, and the message says what to do.
    let said = gate
        .cli(&["servers", "login", "guarded", "--no-browser", "--paste"])
        .await
        .unwrap();
    assert!(
        said.code == Some(2) && said.stderr.contains("client_id"),
        "{said:?}"
    );
    let stored = gate
        .cli_with_input(&["secret", "set", "client"], "hush")
        .await
        .unwrap();
    assert_eq!(stored.code, Some(0), "{stored:?}");
    let options = [
        "servers",
        "login",
        "guarded",
        "--client-credentials",
        "--client-id",
        "gate",
        "--client-secret",
        "keychain:client",
    ];
    // The server's word alone does not decide whom the secret goes to.
    let said = gate.cli(&options).await.unwrap();
    assert_eq!(said.code, Some(2), "{said:?}");
    let issuer = guarded.issuer();
    assert!(
        said.stderr.contains(&format!("say --issuer {issuer}")),
        "{said:?}"
    );
    assert_eq!(guarded.granted("client_credentials"), 0);
    let mut options = options.to_vec();
    options.extend(["--issuer", &issuer]);
    let said = gate.cli(&options).await.unwrap();
    assert_eq!(said.code, Some(0), "{said:?}");
    await_state(&gate, "guarded", "connected", SOON).await;
    assert!(!echo(&gate).await.is_error);
    guarded.end_tokens();
    assert!(!echo(&gate).await.is_error, "it is asked for again");
    assert_eq!(guarded.granted("client_credentials"), 2);
}
