//! How conversations and the gate itself end: what was begun is finished, or cancelled on record and answered; a credential that was
//! revoked gets nothing more.

use std::process::Stdio;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use serde_json::{Value, json};
use testkit::client::{Client, Era, LEGACY};
use testkit::everything::HttpFixture;
use testkit::gate::{Gate, signal};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::process::{Child, ChildStdin, ChildStdout};

use crate::operator::{SOON, done};
use crate::support::{
    await_state, client, config, eventually, fixture, gate, http, new_token, portcullis, records,
};

fn hello() -> Value {
    let params = json!({"protocolVersion": LEGACY, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}});
    json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params})
}

fn slow(id: u64, ms: u64) -> Value {
    json!({"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "up__slow", "arguments": {"ms": ms}}})
}

/// A client that starts a command, initialized in the legacy era.
struct Pipe {
    child: Child,
    stdin: ChildStdin,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Pipe {
    async fn open(gate: &Gate) -> Self {
        let mut command = tokio::process::Command::new(portcullis());
        command
            .arg("--home")
            .arg(gate.home())
            .arg("connect")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut child = command.kill_on_drop(true).spawn().unwrap();
        let (stdin, stdout) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut door = Self {
            child,
            stdin,
            lines: BufReader::new(stdout).lines(),
        };
        door.say(&format!("{}\n", hello())).await;
        door.answer(0).await;
        door.say("{\"jsonrpc\":\"2.0\",\"method\":\"notifications/initialized\"}\n")
            .await;
        door
    }

    async fn say(&mut self, text: &str) {
        self.stdin.write_all(text.as_bytes()).await.unwrap();
    }

    async fn answer(&mut self, id: u64) -> Value {
        let within = Duration::from_secs(30);
        while let Some(line) = tokio::time::timeout(within, self.lines.next_line())
            .await
            .expect("a line in time")
            .unwrap()
        {
            let answer: Value = serde_json::from_str(&line).unwrap();
            if answer["id"] == id {
                return answer;
            }
        }
        panic!("the gate hung up without an answer to {id}")
    }
}

async fn yard() -> (Gate, HttpFixture) {
    let fixture = fixture().await;
    let servers = [(
        "up",
        http(&fixture.url(), "classification: PUBLIC, timeout: 60s"),
    )];
    let yaml = format!("drain: {{ delay: 2s, timeout: 10s }}\n{}", config(&servers));
    let gate = gate(&yaml).await;
    await_state(&gate, "up", "connected", SOON).await;
    (gate, fixture)
}

async fn in_flight(fixture: &HttpFixture, count: u64) {
    eventually("the calls to be in flight", SOON, || async {
        let started = fixture.effects().started;
        if started == count {
            Ok(())
        } else {
            Err(format!("{started} of {count}"))
        }
    })
    .await;
}

fn verdicts(records: &[Value]) -> Vec<&str> {
    records
        .iter()
        .filter(|record| record["kind"] == "outcome")
        .filter_map(|record| record["verdict"].as_str())
        .collect()
}

/// The last line has no line break, and the call takes longer than any patience with hung-up clients.
#[tokio::test]
async fn a_legacy_client_that_closes_its_input_still_gets_its_answer() {
    let (gate, fixture) = yard().await;
    let mut door = Pipe::open(&gate).await;
    door.say(&slow(1, 4_000).to_string()).await;
    let Pipe {
        mut child,
        stdin,
        lines,
    } = door;
    drop(stdin);
    let mut lines = lines;
    let line = tokio::time::timeout(Duration::from_secs(20), lines.next_line())
        .await
        .unwrap()
        .unwrap();
    let answer: Value = serde_json::from_str(&line.expect("an answer")).unwrap();
    assert!(
        answer["id"] == 1 && answer["result"]["isError"] != true,
        "{answer}"
    );
    assert_eq!(child.wait().await.unwrap().code(), Some(0));
    let effects = fixture.effects();
    assert_eq!((effects.finished, effects.cancelled), (1, 0));
    assert_eq!(verdicts(&records(&gate).await), ["permitted"]);
}

/// And one that is gone altogether has its call finished all the same.
#[tokio::test]
async fn a_legacy_client_that_dies_leaves_a_call_that_is_finished() {
    let (gate, fixture) = yard().await;
    let mut door = Pipe::open(&gate).await;
    door.say(&format!("{}\n", slow(1, 3_500))).await;
    in_flight(&fixture, 1).await;
    door.child.kill().await.unwrap();
    eventually("the call to end", SOON, || async {
        let found = records(&gate).await;
        let found = verdicts(&found);
        if found == ["permitted"] {
            Ok(())
        } else {
            Err(format!("{found:?}"))
        }
    })
    .await;
    assert_eq!(fixture.effects().cancelled, 0);
}

/// A gate that is told to stop finishes what it began; what takes too long is cancelled, recorded and answered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gate_that_stops_finishes_what_it_began() {
    let (mut gate, fixture) = yard().await;
    let agent = client(&gate, Era::Modern).await;
    let mut door = Pipe::open(&gate).await;
    door.say(&format!("{}\n{}\n", slow(1, 4_000), slow(2, 50_000)))
        .await;
    let long = agent.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 50_000}}),
    );
    in_flight(&fixture, 3).await;
    signal(gate.pid(), Signal::TERM).unwrap();
    let told = Instant::now();
    let answer = door.answer(1).await;
    assert_ne!(
        answer["result"]["isError"], true,
        "there was time for this one: {answer}"
    );
    let answer = door.answer(2).await;
    assert!(
        answer["result"]["isError"] == true && answer.to_string().contains("cancelled"),
        "{answer}"
    );
    let answer = long.answer().await.unwrap();
    assert!(
        answer["result"]["isError"] == true && answer.to_string().contains("cancelled"),
        "{answer}"
    );
    assert!(
        told.elapsed() > Duration::from_secs(8),
        "they had some time: {:?}",
        told.elapsed()
    );
    eventually("the gate to be gone", SOON, || async {
        if gate_is_gone(&gate) {
            Ok(())
        } else {
            Err(gate.output())
        }
    })
    .await;
    // It takes its name off the door first, and is gone a moment later.
    let deadline = Instant::now() + SOON;
    while gate.is_running() {
        assert!(Instant::now() < deadline, "{}", gate.output());
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let found = records(&gate).await;
    let mut found = verdicts(&found);
    found.sort_unstable();
    assert_eq!(found, ["cancelled", "cancelled", "permitted"]);
}

/// Whoever says it twice does not want to wait; the call is answered and recorded all the same.
#[tokio::test]
async fn a_gate_that_is_told_twice_does_not_wait() {
    let (gate, fixture) = yard().await;
    let agent = client(&gate, Era::Modern).await;
    let long = agent.start(
        "tools/call",
        json!({"name": "up__slow", "arguments": {"ms": 50_000}}),
    );
    in_flight(&fixture, 1).await;
    signal(gate.pid(), Signal::TERM).unwrap();
    tokio::time::sleep(Duration::from_millis(500)).await;
    let told = Instant::now();
    signal(gate.pid(), Signal::TERM).unwrap();
    let answer = long.answer().await.unwrap();
    assert!(
        answer["result"]["isError"] == true && answer.to_string().contains("cancelled"),
        "{answer}"
    );
    assert!(
        told.elapsed() < Duration::from_secs(5),
        "{:?}",
        told.elapsed()
    );
    eventually("the gate to be gone", SOON, || async {
        if gate_is_gone(&gate) {
            Ok(())
        } else {
            Err(gate.output())
        }
    })
    .await;
    assert_eq!(verdicts(&records(&gate).await), ["cancelled"]);
}

fn gate_is_gone(gate: &Gate) -> bool {
    !gate.home().join("run/gate.json").exists()
}

/// A line to the gate, as `connect` speaks it.
struct Line {
    lines: Lines<BufReader<OwnedReadHalf>>,
    write: OwnedWriteHalf,
}

impl Line {
    async fn open(gate: &Gate, token: &str) -> Self {
        let (read, write) = UnixStream::connect(gate.home().join("run/gate.sock"))
            .await
            .unwrap()
            .into_split();
        let mut line = Self {
            lines: BufReader::new(read).lines(),
            write,
        };
        let greeted = line
            .ask(&json!({"portcullis": "hello", "token": token}))
            .await;
        assert_eq!(greeted, Some(json!({"ok": true})));
        line.ask(&hello()).await.unwrap();
        line
    }

    async fn ask(&mut self, message: &Value) -> Option<Value> {
        self.write
            .write_all(format!("{message}\n").as_bytes())
            .await
            .unwrap();
        self.next().await
    }

    async fn next(&mut self) -> Option<Value> {
        let line = tokio::time::timeout(SOON, self.lines.next_line())
            .await
            .expect("an answer in time")
            .unwrap();
        line.map(|line| serde_json::from_str(&line).unwrap())
    }
}

/// Open conversations end with the credential: the next message is refused under its own id, streams end by themselves.
#[tokio::test]
async fn a_revoked_credential_gets_nothing_more_on_what_is_open() {
    let (gate, _fixture) = yard().await;
    let token = new_token(&gate, "agent", &[]).await;
    let target = gate.target().unwrap().with_token(Some(&token));
    let list = json!({"jsonrpc": "2.0", "id": 7, "method": "tools/list"});
    let mut line = Line::open(&gate, &token).await;
    let shown = line.ask(&list).await.unwrap();
    assert!(
        shown["result"]["tools"]
            .as_array()
            .is_some_and(|tools| !tools.is_empty()),
        "{shown}"
    );
    let agent = Client::plain(&target, Era::Legacy).await.unwrap();
    let headers = [
        ("accept".to_owned(), "text/event-stream".to_owned()),
        (
            "mcp-session-id".to_owned(),
            agent.session().unwrap().to_owned(),
        ),
        ("mcp-protocol-version".to_owned(), LEGACY.to_owned()),
    ];
    let stream = target.send("GET", &headers, Vec::new()).await.unwrap();
    assert_eq!(stream.status, 200);
    done(&gate, &["token", "revoke", "agent"]).await;
    let mut stream = stream.messages();
    let ended = tokio::time::timeout(SOON, async {
        while let Ok(Some(_)) = stream.next().await {}
    });
    ended.await.expect("the stream ends by itself");
    let refused = line
        .ask(&json!({"jsonrpc": "2.0", "id": 8, "method": "tools/list"}))
        .await
        .unwrap();
    assert!(
        refused["id"] == 8
            && refused["error"]["message"]
                .as_str()
                .unwrap()
                .contains("revoked"),
        "{refused}"
    );
    assert_eq!(line.next().await, None, "and that was the last");
}
