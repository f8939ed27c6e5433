//! The contract of an executor, kept by both: each is started as a process against a door that says what a gate says, and what a gate
//! never would.
#![cfg(test)]

use std::{
    io::{BufRead as _, BufReader, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};

/// Nothing here takes long; a busy machine may.
const SOON: Duration = Duration::from_secs(60);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Program,
    Script,
}

/// The door, an executor that knows of it, and its workspace.
struct Yard {
    listener: TcpListener,
    executor: Child,
    place: tempfile::TempDir,
}

/// A request that was heard and waits for its answer.
struct Heard {
    stream: TcpStream,
    head: String,
    body: Value,
}

impl Heard {
    fn answer(self, told: Value) {
        self.answer_with(200, told);
    }

    fn answer_with(mut self, status: u16, told: Value) {
        let text = told.to_string();
        let head = format!(
            "HTTP/1.1 {status} X\r\nContent-Type: application/json\r\nContent-Length: {}\r\nConnection: close\r\n\r\n",
            text.len()
        );
        self.stream.write_all(head.as_bytes()).unwrap();
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    fn kind(&self) -> &str {
        self.body["type"].as_str().unwrap_or_default()
    }
}

impl Yard {
    fn new(kind: Kind) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let place = tempfile::tempdir().unwrap();
        std::fs::create_dir(place.path().join("work")).unwrap();
        let token = place.path().join("token");
        std::fs::write(&token, "secret-token\n").unwrap();
        let mut command = match kind {
            Kind::Program => Command::new(env!("CARGO_BIN_EXE_portcullis-executor")),
            Kind::Script => {
                let mut command = Command::new("python3");
                command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("bootstrap.py"));
                command
            }
        };
        let executor = command
            .env_clear()
            .env("PATH", std::env::var("PATH").unwrap())
            .env("HOME", "/tmp")
            .env("AEGIS_EXECUTION_ID", "run-1")
            .env("AEGIS_DISPATCH_TOKEN_FILE", &token)
            .env(
                "AEGIS_ORCHESTRATOR_URL",
                format!("http://{}", listener.local_addr().unwrap()),
            )
            .env("AEGIS_WORKSPACE", place.path().join("work"))
            .env("OPENAI_API_KEY", "not for commands")
            .stdin(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        Self {
            listener,
            executor,
            place,
        }
    }

    fn work(&self) -> PathBuf {
        self.place.path().join("work")
    }

    fn hear(&self) -> Heard {
        let (stream, _) = self.listener.accept().unwrap();
        stream.set_read_timeout(Some(SOON)).unwrap();
        let mut reader = BufReader::new(stream.try_clone().unwrap());
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            assert_ne!(reader.read_line(&mut head).unwrap(), 0, "broke off: {head}");
        }
        let length = head
            .lines()
            .filter_map(|line| line.split_once(": "))
            .find(|(name, _)| name.eq_ignore_ascii_case("content-length"))
            .map(|(_, value)| value.parse().unwrap())
            .unwrap();
        let mut body = vec![0; length];
        reader.read_exact(&mut body).unwrap();
        let body = serde_json::from_slice(&body).unwrap();
        Heard { stream, head, body }
    }

    /// What a dispatch comes to, sent to an executor that asks.
    fn run(&self, asks: Heard, dispatch: Value) -> Heard {
        asks.answer(dispatch);
        let heard = self.hear();
        assert_eq!(heard.kind(), "dispatch_result", "{}", heard.body);
        assert_eq!(heard.body["execution_id"], "run-1");
        heard
    }

    fn ended(&mut self) -> ExitStatus {
        let until = Instant::now() + SOON;
        loop {
            if let Some(status) = self.executor.try_wait().unwrap() {
                return status;
            }
            assert!(Instant::now() < until, "the executor does not end");
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        let _ = self.executor.kill();
        let _ = self.executor.wait();
    }
}

fn dispatch(id: &str, script: &str) -> Value {
    json!({
        "type": "dispatch", "dispatch_id": id, "action": "exec", "command": "sh", "args": ["-c", script],
        "argv": ["sh", "-c", script], "cwd": "/workspace", "env_additions": {}, "timeout_secs": 30,
        "max_output_bytes": 4096, "of a later revision": true,
    })
}

fn with(mut dispatch: Value, key: &str, value: Value) -> Value {
    dispatch[key] = value;
    dispatch
}

fn asks_and_ends(kind: Kind) {
    let mut yard = Yard::new(kind);
    let first = yard.hear();
    assert_eq!(first.body["type"], "attach");
    assert_eq!(first.body["execution_id"], "run-1");
    assert_eq!(first.body["protocol"], 1);
    assert_eq!(first.body["actions"], json!(["exec", "ping"]));
    let instance = first.body["instance"].clone();
    assert!(instance.is_string());
    let head = first.head.to_ascii_lowercase();
    assert!(
        head.starts_with("post /v1/dispatch-gateway http/1.1\r\n"),
        "{head}"
    );
    assert!(
        head.contains("authorization: bearer secret-token\r\n"),
        "{head}"
    );
    assert!(
        !yard.place.path().join("token").exists(),
        "the token is read once"
    );
    first.answer(json!({"type": "idle", "retry_after_ms": 1}));
    let again = yard.hear();
    assert_eq!(again.body["instance"], instance, "the same process");
    // A gate that is not there, or not well, is asked again with the same words.
    again.answer_with(503, json!({"type": "error", "error": "x", "message": "x"}));
    let again = yard.hear();
    assert_eq!(again.kind(), "attach");
    drop(again);
    let again = yard.hear();
    assert_eq!(again.kind(), "attach");
    again.answer(
        json!({"type": "final", "content": "", "tool_calls_executed": 0, "conversation": []}),
    );
    assert!(yard.ended().success());
}

fn runs_what_it_was_sent(kind: Kind) {
    let yard = Yard::new(kind);
    let asks = yard.hear();
    let heard = yard.run(asks, dispatch("a", "pwd; cat; echo oops >&2; exit 3"));
    let work = yard.work().canonicalize().unwrap();
    assert_eq!(heard.body["dispatch_id"], "a");
    assert_eq!(heard.body["stdout"], format!("{}\n", work.display()));
    assert_eq!(
        (&heard.body["stderr"], &heard.body["exit_code"]),
        (&json!("oops\n"), &json!(3))
    );
    assert_eq!(
        (&heard.body["truncated"], &heard.body["stdout_bytes"]),
        (&json!(false), &json!(work.display().to_string().len() + 1))
    );
    assert!(heard.body["duration_ms"].is_u64());
    // Arguments are passed as they are; nothing joins and splits them.
    let odd = json!(["%s\\n", "a b", "; touch harm", "$(touch harm)", "", "\"'"]);
    let print = with(
        with(dispatch("b", ""), "command", json!("printf")),
        "args",
        odd,
    );
    let heard = yard.run(heard, print);
    assert_eq!(
        heard.body["stdout"],
        "a b\n; touch harm\n$(touch harm)\n\n\"'\n"
    );
    assert!(!yard.work().join("harm").exists());
    let input = "x".repeat(300_000);
    let heard = yard.run(heard, with(dispatch("c", "wc -c"), "stdin", json!(input)));
    assert_eq!(heard.body["stdout"].as_str().unwrap().trim(), "300000");
    let heard = yard.run(heard, dispatch("d", "kill -9 $$"));
    assert_eq!(
        (&heard.body["exit_code"], &heard.body["signal"]),
        (&json!(137), &json!(9))
    );
    // A program of the workspace, by both of its names.
    let script = yard.work().join("hello");
    std::fs::write(&script, "#!/bin/sh\necho hello $1\n").unwrap();
    std::fs::set_permissions(&script, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    std::fs::create_dir(yard.work().join("sub")).unwrap();
    let own = |id: &str, command: &str| {
        with(
            with(dispatch(id, ""), "command", json!(command)),
            "args",
            json!(["you"]),
        )
    };
    let heard = yard.run(heard, own("e", "/workspace/hello"));
    assert_eq!(heard.body["stdout"], "hello you\n", "{}", heard.body);
    let heard = yard.run(
        heard,
        with(own("f", "../hello"), "cwd", json!("/workspace/sub")),
    );
    assert_eq!(heard.body["stdout"], "hello you\n", "{}", heard.body);
}

fn environment_is_the_golden_list(kind: Kind) {
    let yard = Yard::new(kind);
    let asks = yard.hear();
    let additions = json!({"FOO": "bar", "LD_PRELOAD": "x", "ld_preload": "x", "Aws_Secret": "x", "AEGIS_X": "x", "env": "x"});
    let env = with(
        with(
            with(dispatch("a", ""), "command", json!("env")),
            "args",
            json!([]),
        ),
        "env_additions",
        additions,
    );
    let heard = yard.run(asks, env);
    let text = heard.body["stdout"].as_str().unwrap();
    let mut names: Vec<&str> = text
        .lines()
        .filter_map(|line| Some(line.split_once('=')?.0))
        .collect();
    names.sort_unstable();
    assert_eq!(
        names,
        [
            "CI",
            "FOO",
            "GIT_PAGER",
            "GIT_TERMINAL_PROMPT",
            "HOME",
            "LANG",
            "LOGNAME",
            "NO_COLOR",
            "PAGER",
            "PATH",
            "SHELL",
            "TERM",
            "TMPDIR",
            "TZ",
            "USER"
        ]
    );
    assert!(!text.contains("secret-token"));
}

fn a_dispatch_runs_once(kind: Kind) {
    let yard = Yard::new(kind);
    let asks = yard.hear();
    let count = dispatch("a", "echo ran >> count; wc -l < count");
    let heard = yard.run(asks, count.clone());
    let first = heard.body.clone();
    // The answer is lost, and the result comes again as it was.
    drop(heard);
    let heard = yard.hear();
    assert_eq!(heard.body, first);
    // The gate sends it again, as it does when an executor asks that has not answered.
    let heard = yard.run(heard, count.clone());
    assert_eq!(heard.body, first, "what was kept is posted");
    heard.answer(json!({"type": "idle", "retry_after_ms": 1}));
    let asks = yard.hear();
    assert_eq!(asks.kind(), "attach");
    let heard = yard.run(asks, count.clone());
    assert_eq!(heard.body, first);
    // What the gate does not know any more is dropped.
    heard.answer_with(
        409,
        json!({"type": "error", "error": "unknown_dispatch", "message": "x"}),
    );
    let asks = yard.hear();
    assert_eq!(asks.kind(), "attach");
    let heard = yard.run(asks, dispatch("b", "wc -l < count"));
    assert_eq!(heard.body["stdout"].as_str().unwrap().trim(), "1");
}

fn what_is_not_known_or_cannot_run_is_told(kind: Kind) {
    let yard = Yard::new(kind);
    let asks = yard.hear();
    let heard = yard.run(
        asks,
        with(dispatch("a", "touch harm"), "action", json!("stream_exec")),
    );
    assert_eq!(
        (&heard.body["exit_code"], &heard.body["stderr"]),
        (&json!(-1), &json!("unknown_action:stream_exec"))
    );
    let heard = yard.run(
        heard,
        json!({"type": "dispatch", "dispatch_id": "b", "action": "ping"}),
    );
    assert_eq!(heard.body["exit_code"], 0);
    let mut heard = heard;
    let named =
        |id: &str, command: &str| with(dispatch(id, "touch harm"), "command", json!(command));
    for (at, wrong) in [
        named("c", "no-such-program"),
        named("d", "/workspace/../bin/sh"),
        with(dispatch("e", "touch harm"), "cwd", json!("/etc")),
        with(
            dispatch("f", "touch harm"),
            "cwd",
            json!("/workspace/../.."),
        ),
        with(
            dispatch("g", "touch harm"),
            "cwd",
            json!("/workspace/missing"),
        ),
    ]
    .into_iter()
    .enumerate()
    {
        heard = yard.run(heard, wrong);
        assert_eq!(heard.body["exit_code"], -1, "{at}: {}", heard.body);
        let why = heard.body["stderr"].as_str().unwrap();
        assert!(why.starts_with("[portcullis] "), "{why}");
    }
    assert!(!yard.work().join("harm").exists());
}

fn time_and_output_have_an_end(kind: Kind) {
    let yard = Yard::new(kind);
    let asks = yard.hear();
    let mark = yard.work().join("alive");
    let script = "trap '' TERM; echo first; (setsid sh -c 'while :; do date > alive; sleep 0.05; done' >/dev/null 2>&1 &); while :; do sleep 0.1; done";
    let heard = yard.run(asks, with(dispatch("a", script), "timeout_secs", json!(1)));
    assert_eq!(
        (&heard.body["exit_code"], &heard.body["timed_out"]),
        (&json!(-1), &json!(true)),
        "{}",
        heard.body
    );
    assert_eq!(heard.body["stdout"], "first\n");
    assert!(
        heard.body["stderr"]
            .as_str()
            .unwrap()
            .contains("[portcullis] the command timed out after 1 seconds")
    );
    let _ = std::fs::remove_file(&mark);
    // A daemon that a command leaves behind is gone with it, and does not keep its result back.
    let heard = yard.run(
        heard,
        dispatch(
            "b",
            "(setsid sh -c 'while :; do date > alive; sleep 0.05; done' &); echo done",
        ),
    );
    assert_eq!(heard.body["stdout"], "done\n");
    let _ = std::fs::remove_file(&mark);
    std::thread::sleep(Duration::from_millis(300));
    assert!(!mark.exists(), "a daemon outlived its command");
    let long = "i=0; while [ $i -lt 3000 ]; do echo äöü$i; i=$((i+1)); done; printf end >&2";
    let heard = yard.run(heard, dispatch("c", long));
    let (out, err) = (
        heard.body["stdout"].as_str().unwrap(),
        heard.body["stderr"].as_str().unwrap(),
    );
    assert!(
        out.len() + err.len() <= 4096 && out.len() > 3900,
        "{} {}",
        out.len(),
        err.len()
    );
    assert!(
        out.ends_with("äöü2999\n") && err == "end",
        "{:?}",
        heard.body
    );
    assert_eq!(heard.body["truncated"], true);
    assert!(
        heard.body.get("lossy").is_none(),
        "a cut is not what is no text"
    );
    let heard = yard.run(
        heard,
        dispatch("d", "head -c 9000 /dev/zero | tr '\\0' '\\377'"),
    );
    let out = heard.body["stdout"].as_str().unwrap();
    assert!(
        out.len() <= 4096 && out.ends_with('\u{FFFD}'),
        "{}",
        out.len()
    );
    assert_eq!(
        (&heard.body["lossy"], &heard.body["stdout_bytes"]),
        (&json!(true), &json!(9000))
    );
}

fn what_is_too_large_is_told_shorter(kind: Kind) {
    let yard = Yard::new(kind);
    let asks = yard.hear();
    let heard = yard.run(asks, dispatch("a", "echo loud >&2; exit 7"));
    assert_eq!(heard.body["exit_code"], 7, "{}", heard.body);
    heard.answer_with(
        413,
        json!({"type": "error", "error": "too_large", "message": "x"}),
    );
    let heard = yard.hear();
    let said = heard.body["stderr"].as_str().unwrap().to_owned();
    assert!(
        said.contains("too large") && !said.contains("loud"),
        "{said}"
    );
    assert_eq!(
        (&heard.body["exit_code"], &heard.body["stdout"]),
        (&json!(7), &json!("")),
        "how it ended is still told"
    );
    heard.answer(json!({"type": "idle", "retry_after_ms": 0}));
    // Asked for it again, it tells the same and runs nothing.
    let heard = yard.hear();
    let heard = yard.run(heard, dispatch("a", "echo again; touch again"));
    assert_eq!(heard.body["stderr"], json!(said));
    assert!(!yard.work().join("again").exists());
}

fn who_is_not_known_ends(kind: Kind) {
    let mut yard = Yard::new(kind);
    yard.hear().answer_with(
        401,
        json!({"type": "error", "error": "unauthenticated", "message": "x"}),
    );
    assert!(!yard.ended().success());
    let mut yard = Yard::new(kind);
    yard.hear().answer_with(
        400,
        json!({"type": "error", "error": "malformed", "message": "x"}),
    );
    assert!(!yard.ended().success());
}

fn both(contract: fn(Kind)) {
    contract(Kind::Program);
    contract(Kind::Script);
}

#[test]
fn an_executor_asks_until_it_is_told_to_end() {
    both(asks_and_ends);
}

#[test]
fn an_executor_runs_exactly_what_it_was_sent() {
    both(runs_what_it_was_sent);
}

#[test]
fn a_commands_environment_is_the_golden_list() {
    both(environment_is_the_golden_list);
}

#[test]
fn an_executor_runs_a_dispatch_once() {
    both(a_dispatch_runs_once);
}

#[test]
fn what_an_executor_cannot_do_it_says() {
    both(what_is_not_known_or_cannot_run_is_told);
}

#[test]
fn time_and_output_of_a_command_have_an_end() {
    both(time_and_output_have_an_end);
}

#[test]
fn an_executor_that_is_not_known_ends() {
    both(who_is_not_known_ends);
}

#[test]
fn a_result_that_is_too_large_is_told_shorter() {
    both(what_is_too_large_is_told_shorter);
}

/// What an executor posts, in order, but for what differs between any two runs: how long it took and who it is.
fn transcript(kind: Kind) -> Vec<Value> {
    let yard = Yard::new(kind);
    let mut heard = yard.hear();
    let mut said = vec![heard.body.clone()];
    for (at, (script, key, value)) in [
        ("echo out; echo err >&2; exit 3", "cwd", json!("/workspace")),
        ("kill -9 $$", "stdin", json!("unread")),
        ("cat; printf 'no newline'", "stdin", json!("read äöü\n")),
        ("printf '\\377\\0x'", "cwd", json!("/workspace")),
        (
            "head -c 9000 /dev/zero | tr '\\0' x",
            "max_output_bytes",
            json!(100),
        ),
        ("exec sleep 60", "timeout_secs", json!(1)),
        ("true", "action", json!("stream_exec")),
        ("true", "action", json!("ping")),
        ("echo $GIVEN", "env_additions", json!({"GIVEN": "given"})),
    ]
    .into_iter()
    .enumerate()
    {
        let dispatch = with(dispatch(&format!("id-{at}"), script), key, value);
        heard = yard.run(heard, dispatch);
        said.push(heard.body.clone());
    }
    for message in &mut said {
        let key = match message["type"].as_str() {
            Some("attach") => "instance",
            _ => "duration_ms",
        };
        let taken = message.as_object_mut().unwrap().remove(key);
        assert!(taken.is_some(), "{message}");
    }
    said
}

/// Whoever reads what executors post cannot tell which of the two it was.
#[test]
fn both_executors_post_the_same_to_the_same_dispatches() {
    let (program, script) = (transcript(Kind::Program), transcript(Kind::Script));
    for (one, other) in program.iter().zip(&script) {
        assert_eq!(one, other);
    }
    assert_eq!(program.len(), script.len());
    assert_eq!(
        program[1],
        json!({
            "type": "dispatch_result", "execution_id": "run-1", "dispatch_id": "id-0", "exit_code": 3, "stdout": "out\n",
            "stderr": "err\n", "truncated": false, "stdout_bytes": 4, "stderr_bytes": 4,
        })
    );
}
