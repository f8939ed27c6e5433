//! What is sent is what was judged: random calls with a mark of its own in every key and value, at every depth.

use std::sync::Arc;

use bytes::Bytes;
use callers::Caller;
use upstreams::catalog::{Target, builtin};
use wire::{Json, mcp::Era};

use super::wrapper::caller;
use crate::{
    Action, CallRequest, ClientFace, Door, Origin,
    receive::{Received, receive},
    sent::Sent,
};

const ACTIONS: [Action; 10] = [
    Action::CallTool,
    Action::ReadResource,
    Action::GetPrompt,
    Action::Complete,
    Action::Subscribe,
    Action::Unsubscribe,
    Action::TaskGet,
    Action::TaskUpdate,
    Action::TaskCancel,
    Action::TaskResult,
];
/// Every field that some method of the protocol knows, and some that none does.
const FIELDS: [&str; 14] = [
    "arguments",
    "task",
    "inputResponses",
    "requestState",
    "argument",
    "context",
    "_meta",
    "cursor",
    "override",
    "level",
    "_params",
    "Arguments",
    "meta",
    "\\u0061rguments2",
];

/// Numbers from a seed: the same scenes every time.
struct Dice(u64);

impl Dice {
    fn below(&mut self, most: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        usize::try_from((self.0 >> 33) % most as u64).unwrap()
    }

    fn flip(&mut self) -> bool {
        self.below(2) == 0
    }
}

/// A scene as it is written: every text in it is a mark that occurs nowhere else.
struct Scene {
    dice: Dice,
    marks: usize,
}

impl Scene {
    fn mark(&mut self) -> String {
        self.marks += 1;
        format!("mark{:05}", self.marks)
    }

    fn value(&mut self, depth: usize) -> String {
        match self.dice.below(if depth == 0 { 1 } else { 3 }) {
            0 => format!("\"{}\"", self.mark()),
            1 => {
                let items: Vec<String> = (0..self.dice.below(3))
                    .map(|_| self.value(depth - 1))
                    .collect();
                format!("[{}]", items.join(","))
            }
            _ => self.object(depth - 1),
        }
    }

    fn object(&mut self, depth: usize) -> String {
        let fields: Vec<String> = (0..self.dice.below(4))
            .map(|_| format!("\"{}\":{}", self.mark(), self.value(depth)))
            .collect();
        format!("{{{}}}", fields.join(","))
    }

    fn field(&mut self, name: &str) -> String {
        match name {
            "_meta" => {
                let own = self.mark();
                let parts = [
                    format!("\"progressToken\":\"{}\"", self.mark()),
                    format!("\"io.modelcontextprotocol/clientInfo\":{}", self.value(2)),
                    format!("\"vendor/{own}\":{}", self.value(3)),
                    format!("\"traceparent\":\"{}\"", self.mark()),
                ];
                let kept: Vec<&str> = parts
                    .iter()
                    .filter(|_| self.dice.flip())
                    .map(String::as_str)
                    .collect();
                format!("{{{}}}", kept.join(","))
            }
            "argument" => format!(
                "{{\"name\":\"{}\",\"value\":{},\"{}\":1}}",
                self.mark(),
                self.value(1),
                self.mark()
            ),
            "context" => format!(
                "{{\"arguments\":{},\"{}\":{}}}",
                self.object(2),
                self.mark(),
                self.value(1)
            ),
            "arguments" | "inputResponses" => self.object(3),
            _ => self.value(3),
        }
    }

    fn params(&mut self) -> String {
        let mut fields = vec![
            "\"name\":\"addressed\"".to_owned(),
            "\"uri\":\"addressed\"".to_owned(),
            "\"taskId\":\"addressed\"".to_owned(),
            "\"ref\":{\"type\":\"ref/prompt\",\"name\":\"addressed\"}".to_owned(),
        ];
        for name in FIELDS {
            if self.dice.below(3) == 0 {
                let value = self.field(name);
                fields.insert(self.dice.below(fields.len()), format!("\"{name}\":{value}"));
            }
        }
        format!("{{{}}}", fields.join(","))
    }
}

fn request(caller: &Caller, dice: &mut Dice, params: &str) -> CallRequest {
    CallRequest {
        caller: caller.clone(),
        door: Door::McpHttp,
        mount: None,
        lane: "".into(),
        origin: origin(dice),
        action: ACTIONS[dice.below(ACTIONS.len())],
        params: Bytes::copy_from_slice(params.as_bytes()).into(),
    }
}

fn origin(dice: &mut Dice) -> Origin {
    let era = match dice.below(4) {
        0 => return Origin::Signed(Bytes::from_static(b"{}")),
        1 => return Origin::Operator,
        2 => Era::Legacy,
        _ => Era::Modern,
    };
    Origin::Mcp(ClientFace {
        era,
        capabilities: Bytes::from_static(b"{}"),
        log: None,
        progress: dice.flip(),
    })
}

fn marks(text: &str) -> Vec<&str> {
    text.match_indices("mark")
        .filter_map(|(at, _)| text.get(at..at + 9))
        .collect()
}

fn sent_text(sent: &Sent<'_>, request: &CallRequest) -> String {
    let pieces = sent.parameters(request, ("name", b"\"addressed\""), None);
    String::from_utf8(pieces.all().concat()).unwrap()
}

/// Nothing leaves that the judges did not read; and with an answer to a question they read that as well.
fn look(
    request: &CallRequest,
    received: &Received<'_>,
    target: &Target,
    scene: &mut Scene,
) -> bool {
    let Ok(sent) = Sent::new(request, received, Some(target)) else {
        return false;
    };
    let text = sent_text(&sent, request);
    let judged = sent.judged().map_or("", Json::text).to_owned();
    for mark in marks(&text) {
        assert!(
            judged.contains(mark),
            "`{mark}` is sent and nobody saw it\nsent: {text}\njudged: {judged}"
        );
    }
    let known = [
        "name",
        "arguments",
        "task",
        "inputResponses",
        "requestState",
        "argument",
        "context",
        "_meta",
    ];
    for (key, _) in Json::checked_before(text.as_bytes()).fields() {
        assert!(
            known.contains(&&*key),
            "`{key}` is no field of the protocol: {text}"
        );
    }
    assert!(
        !text.contains("progressToken") && !text.contains("clientInfo"),
        "{text}"
    );
    let kept = String::from_utf8(sent.kept(request).to_vec()).unwrap();
    assert_eq!(kept, judged, "what is kept is what was judged");
    let answer = scene.object(2);
    if let Ok(sent) = sent.with(Some(("q", answer.as_bytes())), received) {
        let judged = sent.judged().map_or("", Json::text);
        assert!(
            judged.contains(&answer),
            "an answer nobody saw: {answer}\n{judged}"
        );
    }
    !text.is_empty()
}

/// How many random scenes a property is tried on; more in a campaign.
fn scenes() -> u64 {
    let told = std::env::var("PORTCULLIS_SCENES").ok();
    told.and_then(|text| text.parse().ok()).unwrap_or(10_000)
}

#[test]
fn what_is_sent_is_what_was_judged() {
    let caller = caller("alice");
    let (mut sent, scenes) = (0, scenes());
    for seed in 0..scenes {
        let mut scene = Scene {
            dice: Dice(seed),
            marks: 0,
        };
        let params = scene.params();
        let request = request(&caller, &mut scene.dice, &params);
        let mut target = Arc::into_inner(builtin::find("portcullis.status").unwrap()).unwrap();
        target.era = [None, Some(Era::Legacy), Some(Era::Modern)][scene.dice.below(3)];
        let Ok(received) = receive(&request) else {
            continue;
        };
        sent += u64::from(look(&request, &received, &target, &mut scene));
    }
    assert!(
        sent > scenes / 2,
        "only {sent} of {scenes} scenes sent something"
    );
}
