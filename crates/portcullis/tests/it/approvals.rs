//! A person agrees to one exact call, once, in time: whoever asks, however the answer comes, whatever happens meanwhile.

mod binding;
mod lasting;

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Client, Era, Pending, Target};
use testkit::gate::Gate;
use testkit::shifty::{Shifty, Shown, tool};

use crate::foreign::{python, script, talk, text};
use crate::operator::{
    SOON, assert_allowed, await_definition, done, listed, post, reconfigure, shifty, told,
};
use crate::reload::reload;
use crate::support::{await_state, config, eventually, gate, http, new_token, portcullis, records};

const PAY: &str = "bank__pay";
const REVISIONS: [&str; 4] = ["2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28"];
/// Long enough for a call to have been made if it were going to be.
const A_WHILE: Duration = Duration::from_millis(400);

/// A web server that makes sessions untrusted, and a bank whose `pay` is then asked about.
pub(crate) struct Yard {
    pub(crate) gate: Gate,
    web: Shifty,
    bank: Shifty,
    more: &'static str,
}

impl Yard {
    pub(crate) async fn open(more: &'static str) -> Self {
        let web = shifty(Shown::usual()).await;
        let bank = shifty(Shown::tools([
            tool("pay", "Pays somebody"),
            tool("say", "Answers"),
        ]))
        .await;
        let gate = gate(&yaml(&web, &bank, "observe", more)).await;
        let yard = Self {
            gate,
            web,
            bank,
            more,
        };
        yard.connected().await;
        yard
    }

    /// The same under other policies.
    pub(crate) async fn under(policies: &str) -> Self {
        let yard = Self::open("").await;
        let file = yard.gate.home().join("own.cedar");
        std::fs::write(&file, policies).unwrap();
        let bundle = json!(file.to_str().unwrap()).to_string();
        reconfigure(&yard.gate, &yaml(&yard.web, &yard.bank, &bundle, "")).await;
        yard
    }

    pub(crate) async fn connected(&self) {
        for id in ["news", "bank"] {
            await_state(&self.gate, id, "connected", SOON).await;
        }
    }

    pub(crate) fn target(&self, token: &str) -> Target {
        self.gate.target().unwrap().with_token(Some(token))
    }

    /// A credential whose session has read what anybody could have written.
    pub(crate) async fn influenced(&self, name: &str) -> String {
        self.influenced_for(name, name).await
    }

    async fn influenced_for(&self, name: &str, user: &str) -> String {
        let token = new_token(&self.gate, name, &["--user", user]).await;
        let agent = Client::plain(&self.target(&token), Era::Modern)
            .await
            .unwrap();
        assert_allowed(
            &agent
                .call("news__say", json!({"text": "buy now"}))
                .await
                .unwrap(),
            "buy now",
        );
        token
    }

    /// The approvals that wait for an answer, once there are this many.
    pub(crate) async fn pending(&self, count: usize) -> Vec<Value> {
        eventually(&format!("{count} pending approvals"), SOON, || async {
            let all = listed(&self.gate, "approvals", "approvals").await;
            let waiting: Vec<Value> = all
                .into_iter()
                .filter(|one| one["state"] == "pending")
                .collect();
            if waiting.len() == count {
                Ok(waiting)
            } else {
                Err(format!("{waiting:?}\n{}", self.gate.output()))
            }
        })
        .await
    }

    pub(crate) fn paid(&self) -> usize {
        self.bank.calls_of("pay").len()
    }

    /// Whether anything that was sent to the bank, or to the web, holds this.
    pub(crate) fn bank_heard(&self, text: &str) -> bool {
        self.bank.ever_heard(text)
    }

    pub(crate) fn news_heard(&self, text: &str) -> bool {
        self.web.ever_heard(text)
    }

    /// Gives the web these rules for its tools.
    pub(crate) async fn rules_of_news(&self, rules: &str) {
        let usual = yaml(&self.web, &self.bank, "observe", self.more);
        let changed = usual.replacen("\"*\": { effect: read }", rules, 1);
        assert_ne!(usual, changed);
        reconfigure(&self.gate, &changed).await;
    }

    /// Crashes the gate and starts it again.
    pub(crate) async fn crash(&mut self) {
        self.gate.kill().unwrap();
        self.gate.start_again().await.unwrap();
        self.connected().await;
    }
}

fn yaml(web: &Shifty, bank: &Shifty, bundle: &str, more: &str) -> String {
    let web_rules = "classification: PUBLIC, open_world: true, tools: { \"*\": { effect: read } }";
    let bank_rules = "classification: INTERNAL, open_world: false, definitions: { recheck: 0s }, \
        tools: { pay: { effect: consequential }, say: { effect: read } }";
    let servers = config(&[
        ("news", http(&web.url(), web_rules)),
        ("bank", http(&bank.url(), bank_rules)),
    ]);
    format!("policy: {{ bundle: {bundle} }}\nuntrusted_influence: ask\n{more}{servers}")
}

pub(crate) fn pay(client: &Client, whom: &str) -> Pending {
    client.start(
        "tools/call",
        json!({"name": PAY, "arguments": {"text": whom}}),
    )
}

pub(crate) fn id(approval: &Value) -> String {
    approval["id"]
        .as_str()
        .map_or_else(|| approval["id"].to_string(), str::to_owned)
}

pub(crate) fn is_refused(answer: &Value) -> bool {
    answer.get("error").is_some() || answer.pointer("/result/isError") == Some(&Value::Bool(true))
}

fn violation(answer: &Value) -> Option<&str> {
    let envelope = answer
        .pointer("/result/_meta/portcullis~1error")
        .or_else(|| answer.pointer("/error/data"))?;
    envelope.get("violation")?.as_str()
}

/// Every revision of the protocol waits for a person at the command line, and gets the answer that was given.
#[tokio::test]
async fn the_command_line_answers_for_clients_of_every_revision() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    for (turn, revision) in REVISIONS.into_iter().enumerate() {
        let agent = Client::connect_as(&yard.target(&token), revision, json!({}), &[])
            .await
            .unwrap();
        let asking = pay(&agent, "carol");
        let waiting = yard.pending(1).await;
        assert_eq!(yard.paid(), turn, "nothing happens before the answer");
        done(
            &yard.gate,
            &[
                "approvals",
                "approve",
                &id(&waiting[0]),
                "--reason",
                "it is her rent",
            ],
        )
        .await;
        let answer = asking.answer().await.unwrap();
        assert!(!is_refused(&answer), "{revision}: {answer}");
        assert_eq!(yard.paid(), turn + 1, "{revision}");
        let asking = pay(&agent, "mallory");
        let waiting = yard.pending(1).await;
        done(
            &yard.gate,
            &[
                "approvals",
                "deny",
                &id(&waiting[0]),
                "--reason",
                "who is that",
            ],
        )
        .await;
        let answer = asking.answer().await.unwrap();
        assert!(is_refused(&answer), "{revision}: {answer}");
        assert_eq!(
            violation(&answer),
            Some("ApprovalDenied"),
            "{revision}: {answer}"
        );
        assert_eq!(yard.paid(), turn + 1, "{revision}");
    }
    let records = records(&yard.gate).await;
    for reason in ["it is her rent", "who is that"] {
        assert!(
            records
                .iter()
                .any(|record| record.to_string().contains(reason)),
            "no record says '{reason}': {records:#?}"
        );
    }
}

/// A call that waits for a person was counted when it came; it is not refused by its own count when the answer is there.
#[tokio::test]
async fn an_approved_call_is_within_the_rate_it_was_counted_against() {
    let yard = Yard::open("").await;
    let limited = yaml(&yard.web, &yard.bank, "observe", "").replace(
        "pay: { effect: consequential }",
        "pay: { effect: consequential, rate_limit: 1/h }",
    );
    reconfigure(&yard.gate, &limited).await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
    let answer = asking.answer().await.unwrap();
    assert!(!is_refused(&answer), "{answer}");
    assert_eq!(yard.paid(), 1);
    assert_eq!(
        violation(&pay(&agent, "dave").answer().await.unwrap()),
        Some("RateLimitExceeded")
    );
}

/// A credential that is given to another user while its call waits: what is done then is done for the new one.
#[tokio::test]
async fn an_approved_call_goes_on_as_its_caller_is_now() {
    let yard = Yard::open("").await;
    let own = yaml(&yard.web, &yard.bank, "observe", "").replace(
        "pay: { effect: consequential }",
        "pay: { effect: consequential, requires_user_auth: true }",
    );
    reconfigure(&yard.gate, &own).await;
    for user in ["ann", "ben"] {
        let connect = ["connect-account", "bank", "--user", user];
        let secret = format!("{user}-0815\n");
        let said = yard.gate.cli_with_input(&connect, &secret).await.unwrap();
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    let token = yard.influenced_for("agent", "ann").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    let file = yard.gate.home().join("state/tokens.json");
    let text = std::fs::read_to_string(&file).unwrap();
    let given = text.replacen("\"ann\"", "\"ben\"", 1);
    assert_ne!(text, given);
    std::fs::write(&file, given).unwrap();
    reload(&yard.gate).await;
    done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
    let answer = asking.answer().await.unwrap();
    assert!(!is_refused(&answer), "{answer}");
    let records = records(&yard.gate).await;
    let paid = records
        .iter()
        .find(|record| record["kind"] == "outcome" && record["server"] == "bank")
        .unwrap_or_else(|| panic!("{records:#?}"));
    assert_eq!(paid["user"], "ben", "{paid}");
    let sent = yard.bank.calls_of("pay");
    assert_eq!(sent.len(), 1);
    assert_eq!(
        sent[0].authorization.as_deref(),
        Some("Bearer ben-0815"),
        "with the account of whoever has the credential now"
    );
}

/// Who decides sees all of it: every byte of the arguments, escaped, the label, where it came from, and why it was asked.
#[tokio::test]
async fn the_approver_sees_everything_escaped() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    let tricky = format!(
        "carol\u{1b}[2K\r\u{202e}\u{200b}\u{7}{}END",
        "x".repeat(3000)
    );
    let asking = pay(&agent, &tricky);
    let waiting = yard.pending(1).await;
    for key in [
        "caller",
        "name",
        "server",
        "tool",
        "label",
        "lineage",
        "why",
        "expires_ms",
        "bundle",
        "definition",
    ] {
        assert!(!waiting[0][key].is_null(), "no {key} in {}", waiting[0]);
    }
    assert_eq!(
        (&waiting[0]["server"], &waiting[0]["tool"]),
        (&json!("bank"), &json!("pay"))
    );
    assert_eq!(
        waiting[0]["lineage"].as_array().map(Vec::len),
        Some(1),
        "{}",
        waiting[0]
    );
    let shown = done(&yard.gate, &["approvals", "show", &id(&waiting[0])])
        .await
        .stdout;
    let list = done(&yard.gate, &["approvals", "list"]).await.stdout;
    for hidden in ["\u{1b}[2K", "\r", "\u{202e}", "\u{200b}", "\u{7}"] {
        assert!(
            !shown.contains(hidden) && !list.contains(hidden),
            "{hidden:?} reached the terminal: {shown:?}"
        );
    }
    for words in ["carol", "END", "alice", "pay", "untrusted"] {
        assert!(shown.contains(words), "no '{words}' in\n{shown}");
    }
    let letters = shown.chars().filter(|letter| *letter == 'x').count();
    assert!(letters >= 3000, "{letters} of 3000 letters are shown");
    done(
        &yard.gate,
        &["approvals", "deny", &id(&waiting[0]), "--reason", "no"],
    )
    .await;
    assert!(is_refused(&asking.answer().await.unwrap()));
}

/// The agent's own credential is not a person: it can neither see nor answer, by any road.
#[tokio::test]
async fn an_agent_does_not_answer_for_itself() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let answers = [(
        "elicitation/create",
        json!({"action": "accept", "content": {"approve": true}}),
    )];
    for era in [Era::Legacy, Era::Modern] {
        let agent = Client::connect(
            &yard.target(&token),
            era,
            json!({"elicitation": {}}),
            &answers,
        )
        .await
        .unwrap();
        agent.listen(&[]).await.unwrap();
        let asking = pay(&agent, "mallory");
        let waiting = yard.pending(1).await;
        let target = yard
            .target(&token)
            .at(&format!("/v1/admin/approvals/{}/approve", id(&waiting[0])));
        let reply = target
            .send(
                "POST",
                &[],
                json!({"reason": "I say so"}).to_string().into_bytes(),
            )
            .await
            .unwrap();
        assert!(matches!(reply.status, 401 | 403), "{}", reply.status);
        tokio::time::sleep(A_WHILE).await;
        assert_eq!(yard.paid(), 0);
        assert!(
            agent.seen_of("elicitation/create").is_empty(),
            "the client was asked: {:?}",
            agent.seen()
        );
        done(
            &yard.gate,
            &["approvals", "deny", &id(&waiting[0]), "--reason", "no"],
        )
        .await;
        assert!(is_refused(&asking.answer().await.unwrap()));
    }
    assert_eq!(yard.paid(), 0);
}

/// An operator's credential in an agent's hands is still the agent's: another person answers.
#[tokio::test]
async fn a_caller_does_not_answer_its_own_question() {
    let yard = Yard::open("").await;
    let boss = new_token(&yard.gate, "boss", &["--operator", "--user", "boss"]).await;
    let agent = Client::plain(&yard.target(&boss), Era::Modern)
        .await
        .unwrap();
    assert_allowed(
        &agent
            .call("news__say", json!({"text": "buy now"}))
            .await
            .unwrap(),
        "buy now",
    );
    let asking = pay(&agent, "mallory");
    let waiting = yard.pending(1).await;
    let target = yard
        .target(&boss)
        .at(&format!("/v1/admin/approvals/{}/approve", id(&waiting[0])));
    let headers = [("content-type".to_owned(), "application/json".to_owned())];
    let reply = target
        .send(
            "POST",
            &headers,
            json!({"reason": "I say so"}).to_string().into_bytes(),
        )
        .await
        .unwrap();
    assert!((400..500).contains(&reply.status), "{}", reply.status);
    tokio::time::sleep(A_WHILE).await;
    assert_eq!(yard.paid(), 0);
    done(
        &yard.gate,
        &[
            "approvals",
            "approve",
            &id(&waiting[0]),
            "--reason",
            "somebody else looked",
        ],
    )
    .await;
    assert!(!is_refused(&asking.answer().await.unwrap()));
    assert_eq!(yard.paid(), 1);
}

/// Where the operator allows it, a client that can show questions answers them: by elicitation, or by another round.
#[tokio::test]
async fn a_client_answers_where_the_operator_allows_it() {
    let yard = Yard::open("approvals: { in_client: true }\n").await;
    let token = yard.influenced("alice").await;
    let mut paid = 0;
    for revision in REVISIONS.into_iter().skip(1) {
        for (action, agrees) in [("accept", true), ("decline", false), ("cancel", true)] {
            let whom = format!("carol, by {revision}");
            let answer = json!({"action": action});
            let answers = [("elicitation/create", answer)];
            let agent = Client::connect_as(
                &yard.target(&token),
                revision,
                json!({"elicitation": {}}),
                &answers,
            )
            .await
            .unwrap();
            if agent.era() == Era::Legacy {
                agent.listen(&[]).await.unwrap();
            }
            let asking = pay(&agent, &whom);
            if action == "cancel" {
                // Who closes the window has not answered: the operator still can.
                agent.wait_for("elicitation/create", SOON).await.unwrap();
                let waiting = yard.pending(1).await;
                done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
            }
            let answer = asking.answer().await.unwrap();
            assert_eq!(
                is_refused(&answer),
                !agrees,
                "{revision} {action}: {answer}"
            );
            paid += usize::from(agrees);
            assert_eq!(yard.paid(), paid, "{revision} {action}");
            let asked = agent.seen_of("elicitation/create");
            assert_eq!(asked.len(), 1, "{revision} {action}: {asked:?}");
            assert!(
                asked[0].to_string().contains(&whom),
                "it shows what is asked: {asked:?}"
            );
            let schema = asked[0]
                .pointer("/params/requestedSchema")
                .unwrap_or_else(|| panic!("{asked:?}"));
            assert_eq!(
                schema,
                &json!({"type": "object", "properties": {}}),
                "nothing is left to fill in"
            );
            if !agrees {
                assert_eq!(
                    violation(&answer),
                    Some("ApprovalDenied"),
                    "{revision} {action}: {answer}"
                );
            }
        }
    }
    // The oldest revision knows no questions: the command line answers.
    let agent = Client::connect_as(&yard.target(&token), REVISIONS[0], json!({}), &[])
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    done(&yard.gate, &["approvals", "approve", &id(&waiting[0])]).await;
    assert!(!is_refused(&asking.answer().await.unwrap()));
    assert_eq!(yard.paid(), paid + 1);
}

/// Whoever waits is told where to look; and whoever answers sees that nobody waits any more, and what the answer is then good for.
#[tokio::test]
async fn a_question_whose_client_gave_up_says_so_and_holds_for_the_same_call() {
    let yard = Yard::open("").await;
    let token = yard.influenced("alice").await;
    let agent = Client::plain(&yard.target(&token), Era::Legacy)
        .await
        .unwrap();
    let asking = pay(&agent, "carol");
    let waiting = yard.pending(1).await;
    assert_eq!(waiting[0]["awaited"], true, "{waiting:?}");
    asking.cancel().await.unwrap();
    let approval = id(&waiting[0]);
    let given_up = eventually("the question to be nobody's", SOON, || async {
        let waiting = yard.pending(1).await;
        if waiting[0]["awaited"] == false {
            Ok(())
        } else {
            Err(format!("{waiting:?}"))
        }
    });
    given_up.await;
    for args in [
        &["approvals", "list"][..],
        &["approvals", "show", &approval],
    ] {
        let said = done(&yard.gate, args).await.stdout;
        assert!(
            said.contains("the client gave up")
                && said.contains("the same call if it is made again"),
            "{said}"
        );
    }
    done(&yard.gate, &["approvals", "approve", &approval]).await;
    assert_eq!(yard.paid(), 0, "nobody asks any more");
    assert!(!is_refused(&pay(&agent, "carol").answer().await.unwrap()));
    assert_eq!(yard.paid(), 1);
}

/// The official SDK, unmodified, shows the question to its person: in both eras, over both doors.
#[tokio::test]
async fn the_python_sdk_answers_in_both_eras() {
    let yard = Yard::open("approvals: { in_client: true }\n").await;
    let token = yard.gate.token().unwrap();
    let agent = Client::plain(&yard.target(&token), Era::Modern)
        .await
        .unwrap();
    assert_allowed(
        &agent
            .call("news__say", json!({"text": "buy now"}))
            .await
            .unwrap(),
        "buy now",
    );
    let program = text(&python().join("python"));
    let (approver, door, home) = (
        script("python_approver.py"),
        text(&portcullis()),
        text(yard.gate.home()),
    );
    let mut paid = 0;
    for (mode, protocol) in [("auto", "2026-07-28"), ("legacy", "2025-11-25")] {
        for (choice, agrees) in [("accept", true), ("decline", false)] {
            for over in ["http", "stdio"] {
                let arguments =
                    json!({"text": format!("carol, {mode} {choice} {over}")}).to_string();
                let call = [approver.as_str(), mode, choice, PAY, &arguments, over];
                let to = if over == "http" {
                    [yard.gate.url(), &token].to_vec()
                } else {
                    [&door, "--home", &home, "connect"].to_vec()
                };
                let said = talk(&program, &[&call[..], &to].concat()).await;
                assert_eq!(said["protocol"], protocol, "{said}");
                assert_eq!(said["error"], !agrees, "{mode} {choice} {over}: {said}");
                assert_eq!(said["asked"].as_array().map(Vec::len), Some(1), "{said}");
                assert!(said["asked"][0].to_string().contains("carol"), "{said}");
                paid += usize::from(agrees);
                assert_eq!(yard.paid(), paid, "{mode} {choice} {over}");
            }
        }
    }
}
