//! Random schedules on the real door: messages are lost, doubled, late and forged, executors are replaced, and a gate is killed at each message.

use std::time::Duration;

use serde_json::{Value, json};
use testkit::client::{Called, Client};
use testkit::gate::Gate;
use tokio::time::timeout;

use super::{Begun, agent, calls, open, shell, shown, verdicts};
use crate::operator::{SOON, told};
use crate::support::{eventually, records};

/// Schedules of each of the four executors; the campaign asks for more.
const SCHEDULES: u64 = 25;

const BUSY: u16 = 429;

/// Numbers that look random and are the same in every run.
struct Luck(u64);

impl Luck {
    fn below(&mut self, most: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        (mixed ^ (mixed >> 31)) % most
    }
}

/// What an executor does to the messages between it and the gate.
struct Road {
    luck: Luck,
    /// Answers that the gate has certainly heard.
    heard: Vec<Value>,
    instance: u64,
    /// Answers to nothing that were refused for it, and those that were sent: the last of a schedule may break off.
    forged: u64,
    sent: u64,
}

/// What the command of a dispatch prints.
fn answer(dispatch: &Value) -> String {
    format!("<{}>", dispatch["args"][1].as_str().unwrap())
}

impl Road {
    fn attach(&self, begun: &Begun) -> Value {
        json!({
            "type": "attach", "execution_id": begun.id, "protocol": 1, "actions": ["exec", "ping"],
            "instance": format!("instance {}", self.instance),
        })
    }

    /// Plays the executor until nobody waits any more.
    async fn play(&mut self, begun: &Begun) {
        let mut dispatch: Option<Value> = None;
        loop {
            let message = match &dispatch {
                Some(dispatch) => begun.result(dispatch, &answer(dispatch)),
                None => self.attach(begun),
            };
            let was_result = dispatch.is_some();
            let mut next = None;
            match self.luck.below(10) {
                // Lost on the way there or on the way back.
                0 | 1 => {
                    let pause = Duration::from_micros(200 + self.luck.below(4000));
                    let _ = timeout(pause, begun.says(message)).await;
                }
                // Doubled.
                2 => {
                    let (one, two) =
                        tokio::join!(begun.says(message.clone()), begun.says(message.clone()));
                    if was_result && one.0 == 200 && two.0 == 200 {
                        self.heard.push(message);
                    }
                    next = [one.1, two.1]
                        .into_iter()
                        .find(|said| said["type"] == "dispatch");
                }
                // An answer from before, late, and another one than then.
                3 if !self.heard.is_empty() => {
                    let at = self.luck.below(self.heard.len() as u64);
                    let mut late = self.heard[usize::try_from(at).unwrap()].clone();
                    late["stdout"] = json!("late");
                    let _ = timeout(Duration::from_millis(20), begun.says(late)).await;
                    continue;
                }
                4 => {
                    let id = format!(
                        "{:08x}-0000-0000-0000-{:012x}",
                        self.luck.below(1 << 32),
                        self.luck.below(1 << 48)
                    );
                    let forged = json!({
                        "type": "dispatch_result", "execution_id": begun.id, "dispatch_id": id, "exit_code": 0, "stdout": "forged",
                    });
                    self.sent += 1;
                    let (status, said) = begun.says(forged).await;
                    // As many requests as it may have are under way: those that broke off are not all noticed yet.
                    if status != BUSY {
                        assert_eq!(status, 409, "{said}");
                        self.forged += 1;
                    }
                    continue;
                }
                // Another executor comes, and knows nothing of the command.
                5 if self.luck.below(8) == 0 => {
                    self.instance += 1;
                    let (_, said) = begun.says(self.attach(begun)).await;
                    next = Some(said);
                }
                _ => {
                    let (status, said) = begun.says(message.clone()).await;
                    if status != BUSY {
                        assert_eq!(status, 200, "{said}");
                        if was_result {
                            self.heard.push(message);
                        }
                        next = Some(said);
                    }
                }
            }
            self.heard.drain(..self.heard.len().saturating_sub(8));
            dispatch = next.filter(|said| said["type"] == "dispatch");
        }
    }
}

/// One executor and its agent: how many calls were made, and how many ended without a word.
async fn lane(begun: &Begun, client: &Client, seed: u64, schedules: u64) -> (u64, u64, [u64; 2]) {
    let mut road = Road {
        luck: Luck(seed),
        heard: Vec::new(),
        instance: 0,
        forged: 0,
        sent: 0,
    };
    let (mut made, mut unknown) = (0, 0);
    for schedule in 0..schedules {
        let mut waiting = Vec::new();
        for call in 0..=road.luck.below(3) {
            let script = format!("schedule {schedule} call {call} of {seed}");
            waiting.push((script.clone(), calls(client.clone(), shell(&script))));
        }
        made += waiting.len() as u64;
        let all = async {
            let mut ended: Vec<(String, Called)> = Vec::new();
            for (script, call) in waiting {
                ended.push((script, call.await.unwrap()));
            }
            ended
        };
        let ended = tokio::select! {
            () = road.play(begun) => unreachable!("it plays on"),
            ended = all => ended,
        };
        for (script, called) in ended {
            if called.is_error {
                assert!(
                    called.text.contains("outcome is unknown"),
                    "{}",
                    called.answer
                );
                unknown += 1;
            } else {
                assert!(
                    called.text.contains(&format!("<{script}>")),
                    "{script}: {}",
                    called.answer
                );
            }
        }
    }
    (made, unknown, [road.forged, road.sent])
}

#[tokio::test]
async fn whatever_becomes_of_messages_each_call_ends_once_by_its_own_answer() {
    let schedules = std::env::var("DISPATCH_SCHEDULES").map_or(SCHEDULES, |n| n.parse().unwrap());
    let gate = open(&[]).await;
    let mut lanes = Vec::new();
    for name in ["one", "two", "three", "four"] {
        let client = agent(&gate, name).await;
        lanes.push((Begun::new(&gate, name, &[]).await, client));
    }
    let [one, two, three, four] = &lanes[..] else {
        unreachable!("there are four");
    };
    let counted = tokio::join!(
        lane(&one.0, &one.1, 1, schedules),
        lane(&two.0, &two.1, 2, schedules),
        lane(&three.0, &three.1, 3, schedules),
        lane(&four.0, &four.1, 4, schedules),
    );
    let mut sum = 0;
    for ((begun, _), (made, unknown, [forged, sent])) in lanes
        .iter()
        .zip([counted.0, counted.1, counted.2, counted.3])
    {
        let said = shown(&gate, &begun.id).await;
        assert_eq!(said["executed"], made - unknown, "{said}");
        assert_eq!(said["waiting"], 0, "{said}");
        let noticed = said["unknown"].as_u64().unwrap();
        assert!(
            (forged..=sent).contains(&noticed),
            "{forged} to {sent}: {said}"
        );
        assert!(unknown * 4 < made, "{unknown} of {made} ended unknown");
        sum += made;
    }
    println!("{sum} calls in {} schedules", schedules * 4);
    if schedules <= 1000 {
        assert_eq!(verdicts(&gate).await.len() as u64, sum, "one outcome each");
    }
}

/// The moment at which the gate is killed, seen from the executor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Moment {
    /// The call waits, and no executor has asked.
    Waiting,
    /// An executor has the command.
    Delivered,
    /// The executor's answer is on its way.
    Answering,
    /// The answer has come and the call has ended.
    Concluded,
}

/// The gate is killed at every message: nothing runs twice, what was delivered and not answered is unknown, and the execution goes on.
#[tokio::test]
async fn a_gate_that_is_killed_at_any_message_runs_nothing_twice() {
    for moment in [
        Moment::Waiting,
        Moment::Delivered,
        Moment::Answering,
        Moment::Concluded,
    ] {
        let mut gate = open(&[]).await;
        let client = agent(&gate, "one").await;
        let begun = Begun::new(&gate, "one", &[]).await;
        let call = {
            let client = client.clone();
            tokio::spawn(async move { client.call("cmd.run", shell("first")).await })
        };
        let mut first = None;
        match moment {
            Moment::Waiting => {
                eventually("the call to wait", SOON, || async {
                    let said = shown(&gate, &begun.id).await;
                    match said["waiting"] == 1 {
                        true => Ok(()),
                        false => Err(said.to_string()),
                    }
                })
                .await;
            }
            Moment::Delivered => first = Some(begun.dispatch().await),
            Moment::Answering => {
                let dispatch = begun.dispatch().await;
                let posting = begun.answers(&dispatch, "<first>");
                tokio::task::yield_now().await;
                drop(posting);
                first = Some(dispatch);
            }
            Moment::Concluded => {
                let dispatch = begun.dispatch().await;
                let _posting = begun.answers(&dispatch, "<first>");
                eventually("the call to end", SOON, || async {
                    match call.is_finished() {
                        true => Ok(()),
                        false => Err("it runs".to_owned()),
                    }
                })
                .await;
                first = Some(dispatch);
            }
        }
        gate.kill().unwrap();
        let answered = call.await.unwrap();
        gate.start_again().await.unwrap();
        after(&gate, &begun, moment, first.as_ref(), answered.ok()).await;
    }
}

async fn after(
    gate: &Gate,
    begun: &Begun,
    moment: Moment,
    first: Option<&Value>,
    answered: Option<Called>,
) {
    // The gate may have another port now; an executor is told where it is by whoever started it.
    let door = gate
        .target()
        .unwrap()
        .at("/v1/dispatch-gateway")
        .with_token(Some(&begun.token));
    let said = told(gate, &["executions", "show", &begun.id]).await;
    assert_eq!(said["state"], "detached", "{moment:?}: {said}");
    // The executor posts what it has; the gate that is new has no such dispatch, and gives out nothing that was given out before.
    if let Some(dispatch) = first {
        let late = begun.result(dispatch, "<first>");
        let (status, said) = begun.post(&door, late.to_string().into_bytes()).await;
        assert_eq!(status, 409, "{moment:?}: {said}");
    }
    let records = records(gate).await;
    let of = |kind: &str| -> Vec<&Value> {
        let found = records
            .iter()
            .filter(|record| record["kind"] == kind && record["tool"] == "cmd.run");
        found.collect()
    };
    assert_eq!(of("intent").len(), 1, "{moment:?}");
    let intent = of("intent")[0]["seq"].clone();
    let ended: Vec<&str> = records
        .iter()
        .filter(|record| record["intent"] == intent)
        .filter_map(|record| record["verdict"].as_str())
        .collect();
    match moment {
        Moment::Concluded => {
            assert_eq!(ended, ["permitted"]);
            assert!(answered.unwrap().text.contains("<first>"));
        }
        // The answer and the kill raced.
        Moment::Answering => {
            assert!(
                ended == ["permitted"] || ended == ["indeterminate"],
                "{ended:?}"
            );
        }
        _ => assert_eq!(ended, ["indeterminate"], "{moment:?}"),
    }
}
