//! Both executors against a real gate: the same calls come to the same results, and what is killed in between runs nothing twice.

use std::process::{Child, Command, Stdio};

use serde_json::{Value, json};
use testkit::gate::Gate;

use crate::dispatch::{Begun, agent, open, shell};
use crate::operator::{SOON, done, told};
use crate::seal::{Agent, violation};
use crate::support::{eventually, new_token, program, workspace};

/// An executor as a process, ended when dropped.
struct Executor {
    process: Child,
    place: tempfile::TempDir,
}

const BOTH: [&str; 2] = ["portcullis-executor", "bootstrap.py"];

impl Executor {
    fn start(gate: &Gate, begun: &Begun, which: &str) -> Self {
        let place = tempfile::tempdir().unwrap();
        Self {
            process: process(gate, begun, which, &place),
            place,
        }
    }

    /// Kills it and starts another in its place.
    fn start_again(&mut self, gate: &Gate, begun: &Begun, which: &str) {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.process = process(gate, begun, which, &self.place);
    }
}

fn process(gate: &Gate, begun: &Begun, which: &str, place: &tempfile::TempDir) -> Child {
    let mut command = match which {
        "bootstrap.py" => {
            let mut command = Command::new("python3");
            command.arg(workspace().join("crates/executor/bootstrap.py"));
            command
        }
        which => Command::new(program(which)),
    };
    command
        .env("AEGIS_EXECUTION_ID", &begun.id)
        .env("AEGIS_DISPATCH_TOKEN", &begun.token)
        .env(
            "AEGIS_ORCHESTRATOR_URL",
            gate.url().trim_end_matches("/mcp"),
        )
        .env("AEGIS_WORKSPACE", place.path())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

impl Drop for Executor {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn ran(said: &Value) -> &Value {
    said.pointer("/result/structuredContent")
        .unwrap_or_else(|| panic!("{said}"))
}

#[tokio::test]
async fn both_executors_run_commands_of_clients_and_of_signed_calls() {
    for which in BOTH {
        let gate = open(&[]).await;
        let client = agent(&gate, "one").await;
        let begun = Begun::new(&gate, "one", &[]).await;
        let mut executor = Executor::start(&gate, &begun, which);
        let first = client
            .call("cmd.run", shell("echo $((6*7)); echo note > note; exit 3"))
            .await
            .unwrap();
        assert_eq!(
            ran(&first.answer)["stdout"],
            "42\n",
            "{which}: {}",
            first.answer
        );
        assert_eq!(ran(&first.answer)["exit_code"], 3);
        let note = std::fs::read_to_string(executor.place.path().join("note")).unwrap();
        assert_eq!(note, "note\n", "it ran where the executor is");
        let cut = client
            .call(
                "cmd.run",
                shell("head -c 9000 /dev/zero | tr '\\0' x; echo end"),
            )
            .await
            .unwrap();
        assert_eq!(
            (
                &ran(&cut.answer)["truncated"],
                &ran(&cut.answer)["stdout_bytes"]
            ),
            (&json!(true), &json!(9004)),
            "{which}"
        );
        let mut slow = shell("sleep 600");
        slow["timeout_secs"] = json!(1);
        let slow = client.call("cmd.run", slow).await.unwrap();
        assert!(
            slow.is_error && slow.text.contains("timeout"),
            "{which}: {}",
            slow.answer
        );
        let missing = client
            .call(
                "cmd.run",
                json!({"command": "git", "args": ["status"], "cwd": "/workspace/none"}),
            )
            .await
            .unwrap();
        assert_eq!(
            ran(&missing.answer)["exit_code"],
            -1,
            "{which}: {}",
            missing.answer
        );
        let refused = client
            .call("cmd.run", json!({"command": "git", "args": ["push"]}))
            .await
            .unwrap();
        assert_eq!(refused.violation(), Some("SubcommandNotAllowed"));

        // The same for whoever signs, in an execution of its own.
        let bearer = new_token(&gate, "signer", &[]).await;
        let signer = Agent::attest(&gate, &bearer, 9, "hands").await;
        let own = Begun::new(&gate, "signer", &["--execution", signer.execution()]).await;
        let _other = Executor::start(&gate, &own, which);
        let (status, said) = signer.call("cmd.run", shell("echo signed; ls")).await;
        assert_eq!(
            (status, &ran(&said)["stdout"]),
            (200, &json!("signed\n")),
            "{which}: {said}"
        );
        let (status, said) = signer
            .call("cmd.run", json!({"command": "rm", "args": ["-rf"]}))
            .await;
        assert_eq!(
            (status, violation(&said)),
            (403, "CommandNotAllowed"),
            "{which}"
        );

        done(&gate, &["executions", "end", &begun.id, "--reason", "done"]).await;
        let ended = eventually("the executor to end", SOON, || {
            let ended = executor.process.try_wait().unwrap();
            async move { ended.ok_or_else(|| "it runs".to_owned()) }
        })
        .await;
        assert!(ended.success(), "{which}: {ended:?}");
    }
}

/// An executor is killed at odd moments while commands run that leave a trace each: none runs twice by one executor, none is lost.
#[tokio::test]
async fn an_executor_that_is_killed_runs_nothing_twice() {
    for which in BOTH {
        let gate = open(&[]).await;
        let client = agent(&gate, "one").await;
        let begun = Begun::new(&gate, "one", &[]).await;
        let mut executor = Executor::start(&gate, &begun, which);
        let mut unknown = 0;
        for round in 0..6 {
            let script = format!("echo {round} >> ran; sleep 0.2; echo done {round}");
            let call = client.call("cmd.run", shell(&script));
            let traces = executor.place.path().join("ran");
            let kill = async {
                if round % 2 == 0 {
                    return;
                }
                // It has begun and not ended.
                eventually("the command to begin", SOON, || async {
                    let text = std::fs::read_to_string(&traces).unwrap_or_default();
                    match text.lines().any(|line| line == round.to_string()) {
                        true => Ok(()),
                        false => Err(text),
                    }
                })
                .await;
                executor.start_again(&gate, &begun, which);
            };
            let (called, ()) = tokio::join!(call, kill);
            let called = called.unwrap();
            match called.is_error {
                true => {
                    assert!(
                        called.text.contains("outcome is unknown"),
                        "{which}: {}",
                        called.answer
                    );
                    unknown += 1;
                }
                false => assert!(called.text.contains(&format!("done {round}")), "{which}"),
            }
        }
        assert_eq!(unknown, 3, "{which}: those that were killed");
        let text = std::fs::read_to_string(executor.place.path().join("ran")).unwrap();
        assert_eq!(text, "0\n1\n2\n3\n4\n5\n", "{which}: each ran once");
        let said = told(&gate, &["executions", "show", &begun.id]).await;
        assert_eq!(
            (&said["executed"], &said["waiting"]),
            (&json!(3), &json!(0))
        );
    }
}
