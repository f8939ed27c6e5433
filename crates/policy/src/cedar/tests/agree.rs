//! A bundle decides as plain Cedar does: the same texts, entities and context given to it as JSON and checked against the schema,
//! with nothing sliced, cached or left out.

use std::{str::FromStr, sync::LazyLock};

use cedar_policy::{
    Authorizer, Context, Decision as Answer, Entities, EntityUid, PolicySet, Request, Schema,
};
use proptest::{prelude::*, sample::select, test_runner::Config};
use serde_json::{Map, Value, json};
use vocab::{Effect, Integrity, Level, Mark};

use crate::cedar::{Act, Bundle, Note, Outcome, Principal, Question, SCHEMA};

static PLAIN: LazyLock<Schema> = LazyLock::new(|| Schema::from_cedarschema_str(SCHEMA).unwrap().0);

/// Arguments that a question may come with, so that both sides can write them down for themselves.
#[derive(Debug, Clone)]
struct Arguments {
    path: Option<String>,
    n: Option<i64>,
    cents: Option<i32>,
    to: Option<Vec<String>>,
    flag: Option<bool>,
}

#[derive(Debug, Clone)]
struct Asked {
    caller: &'static str,
    user: Option<&'static str>,
    agent: Option<&'static str>,
    departments: Vec<String>,
    context: Option<&'static str>,
    is_operator: bool,
    act: Act,
    server: &'static str,
    target: &'static str,
    level: Level,
    effect: Effect,
    is_open_world: bool,
    arguments: Arguments,
    label: Mark,
    session_calls: u64,
    hour: u64,
    door: &'static str,
}

impl Arguments {
    fn json(&self) -> String {
        let mut fields = Map::new();
        let mut put = |key: &str, value: Option<Value>| {
            value.map(|value| fields.insert(key.to_owned(), value))
        };
        put("path", self.path.clone().map(Value::from));
        put("n", self.n.map(Value::from));
        put(
            "price",
            self.cents
                .map(|cents| Value::from(f64::from(cents) / 100.0)),
        );
        put("to", self.to.clone().map(Value::from));
        put("deep", self.flag.map(|flag| json!({ "a.b": flag })));
        Value::Object(fields).to_string()
    }

    /// Every value by path and kind, written down independently.
    fn leaves(&self) -> Vec<(String, &'static str, Option<String>)> {
        let mut all = Vec::new();
        all.extend(self.flag.map(|flag| {
            (
                "deep[\"a.b\"]".to_owned(),
                "boolean",
                Some(flag.to_string()),
            )
        }));
        all.extend(
            self.n
                .map(|n| ("n".to_owned(), "number", Some(n.to_string()))),
        );
        all.extend(
            self.path
                .clone()
                .map(|path| ("path".to_owned(), "string", Some(path))),
        );
        all.extend(self.cents.map(|cents| {
            (
                "price".to_owned(),
                "number",
                Some(Value::from(f64::from(cents) / 100.0).to_string()),
            )
        }));
        match self.to.as_deref() {
            Some([]) => all.push(("to".to_owned(), "array", None)),
            Some(some) => all.extend(
                some.iter()
                    .enumerate()
                    .map(|(at, one)| (format!("to[{at}]"), "string", Some(one.clone()))),
            ),
            None => {}
        }
        all
    }

    fn views(&self) -> Value {
        let texts: Map<String, Value> = self
            .leaves()
            .into_iter()
            .filter_map(|(path, _, text)| Some((path, text?.into())))
            .collect();
        let numbers: Map<String, Value> = self
            .n
            .map(|n| ("n".to_owned(), n.into()))
            .into_iter()
            .collect();
        let price = self.cents.map(|cents| {
            let sign = if cents < 0 { "-" } else { "" };
            format!(
                "{sign}{}.{:02}",
                cents.unsigned_abs() / 100,
                cents.unsigned_abs() % 100
            )
        });
        let decimals: Map<String, Value> = price
            .map(|price| {
                (
                    "price".to_owned(),
                    json!({"__extn": {"fn": "decimal", "arg": price}}),
                )
            })
            .into_iter()
            .collect();
        let lists: Map<String, Value> = self
            .to
            .clone()
            .map(|to| ("to[]".to_owned(), to.into()))
            .into_iter()
            .collect();
        let view = |kind: &str, tags: Map<String, Value>| json!({"uid": {"type": kind, "id": "call"}, "attrs": {}, "parents": [], "tags": tags});
        json!([
            view("Arguments", texts),
            view("Numbers", numbers),
            view("Decimals", decimals),
            view("Lists", lists)
        ])
    }
}

impl Asked {
    fn question<'a>(&'a self, arguments: &'a str) -> Question<'a> {
        Question {
            principal: Principal {
                caller: self.caller,
                user: self.user,
                agent: self.agent,
                departments: &self.departments,
                context: self.context,
                is_operator: self.is_operator,
            },
            act: self.act,
            server: self.server,
            target: self.target,
            level: self.level,
            effect: self.effect,
            is_open_world: self.is_open_world,
            arguments: arguments.as_bytes(),
            label: self.label,
            session_calls: self.session_calls,
            target_calls: self.session_calls / 2,
            now_ms: self.hour * 3_600_000 + 59_999,
            door: self.door,
            provenance: None,
        }
    }

    fn entities(&self, schema: &Schema) -> Entities {
        let uid = |kind: &str, id: &str| json!({"type": kind, "id": id});
        let mut parents = Vec::new();
        let mut attributes = Map::from_iter([("is_operator".to_owned(), self.is_operator.into())]);
        for (name, kind, id) in [
            ("user", "User", self.user),
            ("agent", "Agent", self.agent),
            ("context", "Context", self.context),
        ] {
            let Some(id) = id else { continue };
            attributes.insert(name.to_owned(), uid(kind, id));
            parents.push(uid(kind, id));
        }
        parents.extend(self.departments.iter().map(|name| uid("Department", name)));
        let level = self.level as u8;
        let name = ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"][usize::from(level)];
        let effect = if self.effect == Effect::Read {
            "read"
        } else {
            "consequential"
        };
        let server = uid("Server", self.server);
        let mut all = vec![
            json!({"uid": uid("Caller", self.caller), "attrs": attributes, "parents": parents}),
            json!({"uid": server, "attrs": {"level": level, "level_name": uid("Level", name), "is_open_world": self.is_open_world}, "parents": []}),
            json!({"uid": uid(self.kind(), &self.resource()), "parents": [server], "attrs": {
                "server": server, "name": self.target, "level": level, "level_name": uid("Level", name),
                "effect": uid("Effect", effect), "is_open_world": self.is_open_world}}),
        ];
        all.extend(self.arguments.views().as_array().unwrap().iter().cloned());
        Entities::from_json_value(all.into(), Some(schema)).unwrap()
    }

    fn context(&self, schema: &Schema, action: &EntityUid) -> Context {
        let view = |kind: &str| json!({"type": kind, "id": "call"});
        let leaves = self.arguments.leaves();
        let outline: Vec<String> = leaves
            .iter()
            .map(|(path, kind, _)| format!("{path}:{kind}"))
            .collect();
        let secrecy = self.label.secrecy as u8;
        let name = ["PUBLIC", "INTERNAL", "CONFIDENTIAL", "RESTRICTED"][usize::from(secrecy)];
        let weekday = ["thu", "fri", "sat", "sun", "mon", "tue", "wed"]
            [usize::try_from(self.hour / 24 % 7).unwrap()];
        let weekday = ["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
            .iter()
            .position(|day| *day == weekday)
            .unwrap()
            + 1;
        let context = json!({
            "arguments": view("Arguments"), "numbers": view("Numbers"), "decimals": view("Decimals"), "lists": view("Lists"),
            "argument_count": leaves.len(), "outline": outline.join(" "),
            "label": {"secrecy": secrecy, "secrecy_name": {"type": "Level", "id": name}, "is_untrusted": self.label.integrity == Integrity::Untrusted},
            "session_calls": self.session_calls, "target_calls": self.session_calls / 2,
            "time": {"hour": self.hour % 24, "weekday": weekday, "unix": self.hour * 3600 + 59},
            "door": self.door,
            "provenance": {
                "has_words": false, "targets": ["unknown"], "objects": ["unknown"], "amounts": ["unknown"],
                "names": ["unknown"], "contents": ["unknown"], "values": ["unknown"], "servers": [],
            },
        });
        Context::from_json_value(context, Some((schema, action))).unwrap()
    }

    fn kind(&self) -> &'static str {
        match self.act {
            Act::Call => "Tool",
            Act::Get | Act::CompletePrompt => "Prompt",
            Act::Read | Act::Subscribe | Act::CompleteResource => "Resource",
        }
    }

    fn resource(&self) -> String {
        format!("{}/{}", self.server, self.target)
    }

    /// What plain Cedar says about the policies of the text: the word, and the policies that decide, by number.
    fn ask_cedar(&self, policies: &PolicySet) -> (&'static str, Vec<usize>) {
        let schema = &*PLAIN;
        let action = match self.act {
            Act::CompletePrompt | Act::CompleteResource => "complete",
            other => other.as_str(),
        };
        let uid = |kind: &str, id: &str| {
            EntityUid::from_json(json!({"__entity": {"type": kind, "id": id}})).unwrap()
        };
        let action = uid("Action", action);
        let context = self.context(schema, &action);
        let request = Request::new(
            uid("Caller", self.caller),
            action,
            uid(self.kind(), &self.resource()),
            context,
            Some(schema),
        )
        .unwrap();
        let response = Authorizer::new().is_authorized(&request, policies, &self.entities(schema));
        let number = |id: &cedar_policy::PolicyId| {
            policies
                .annotation(id, "id")
                .unwrap()
                .trim_start_matches('p')
                .parse::<usize>()
                .unwrap()
        };
        let effect =
            |id: &cedar_policy::PolicyId| policies.annotation(id, "effect").unwrap().to_owned();
        let sorted = |mut numbers: Vec<usize>| {
            numbers.sort_unstable();
            numbers
        };
        let failed = response.diagnostics().errors().map(
            |cedar_policy::AuthorizationError::PolicyEvaluationError(error)| {
                number(error.policy_id())
            },
        );
        if let Some(first) = sorted(failed.collect()).first() {
            return ("block", vec![*first]);
        }
        let of = |wanted: &str| {
            sorted(
                response
                    .diagnostics()
                    .reason()
                    .filter(|id| effect(id) == wanted)
                    .map(number)
                    .collect(),
            )
        };
        match response.decision() {
            Answer::Deny => ("block", of("block").into_iter().take(1).collect()),
            Answer::Allow if !of("ask").is_empty() => ("ask", of("ask")),
            Answer::Allow if !of("rewrite").is_empty() => ("rewrite", of("rewrite")),
            Answer::Allow => ("allow", Vec::new()),
        }
    }
}

fn asked() -> impl Strategy<Value = Asked> {
    let text = || select(vec!["/etc/passwd", "/srv/a", "x", ""]).prop_map(str::to_owned);
    let arguments = (
        prop::option::of(text()),
        prop::option::of(select(vec![0, 7, 100, -1, i64::MAX])),
        prop::option::of(-500i32..5000),
        prop::option::of(prop::collection::vec(text(), 0..3)),
        prop::option::of(any::<bool>()),
    );
    let arguments = arguments.prop_map(|(path, n, cents, to, flag)| Arguments {
        path,
        n,
        cents,
        to,
        flag,
    });
    let who = (
        select(vec!["c1", "c2"]),
        prop::option::of(select(vec!["alice", "bob"])),
        prop::option::of(select(vec!["claude", "alice"])),
        prop::collection::vec(select(vec!["eng", "ops"]).prop_map(str::to_owned), 0..3),
        prop::option::of(Just("prod")),
        any::<bool>(),
    );
    let what = (
        select(Act::ALL.to_vec()),
        select(vec!["github", "mail"]),
        select(vec!["send", "read"]),
        select(Level::ALL.to_vec()),
    );
    let how = (
        select(vec![Effect::Read, Effect::Consequential]),
        any::<bool>(),
    );
    let when = (
        select(Level::ALL.to_vec()),
        any::<bool>(),
        0u64..4,
        0u64..400,
        select(vec!["mcp-http", "mcp-stdio"]),
    );
    (who, what, how, when, arguments).prop_map(
        |(
            (caller, user, agent, departments, context, is_operator),
            (act, server, target, level),
            (effect, is_open_world),
            (secrecy, untrusted, session_calls, hour, door),
            arguments,
        )| {
            let integrity = if untrusted {
                Integrity::Untrusted
            } else {
                Integrity::Trusted
            };
            let label = Mark { secrecy, integrity };
            Asked {
                caller,
                user,
                agent,
                departments,
                context,
                is_operator,
                act,
                server,
                target,
                level,
                effect,
                is_open_world,
                arguments,
                label,
                session_calls,
                hour,
                door,
            }
        },
    )
}

/// Conditions, some of which fail for some questions.
const ATOMS: [&str; 24] = [
    "principal.is_operator",
    "(principal has user && principal.user == User::\"alice\")",
    "principal in Department::\"eng\"",
    "(principal has context && principal.context == Context::\"prod\")",
    "resource in Server::\"github\"",
    "resource.name == \"send\"",
    "resource.level >= 2",
    "resource.level_name == Level::\"RESTRICTED\"",
    "resource.effect == Effect::\"read\"",
    "resource.server.is_open_world",
    "resource.level + 9223372036854775805 > 0",
    "context.label.secrecy > resource.level",
    "context.label.is_untrusted",
    "context.session_calls + 9223372036854775805 > 0",
    "context.time.weekday > 5",
    "context.time.hour < 8",
    "context.door == \"mcp-stdio\"",
    "(context.arguments.hasTag(\"path\") && context.arguments.getTag(\"path\") like \"/etc/*\")",
    "context.arguments.hasTag(\"deep[\\\"a.b\\\"]\")",
    "(context.numbers.hasTag(\"n\") && context.numbers.getTag(\"n\") * 3 > 20)",
    "(context.decimals.hasTag(\"price\") && context.decimals.getTag(\"price\").greaterThan(decimal(\"20.0\")))",
    "(context.lists.hasTag(\"to[]\") && [\"x\", \"/srv/a\"].containsAll(context.lists.getTag(\"to[]\")))",
    "context.argument_count < 3",
    "context.outline like \"*n:number*\"",
];

fn condition() -> impl Strategy<Value = String> {
    let atom = select(ATOMS.to_vec()).prop_map(str::to_owned);
    atom.prop_recursive(2, 6, 2, |inner| {
        prop_oneof![
            3 => (inner.clone(), inner.clone()).prop_map(|(one, two)| format!("{one} && {two}")),
            1 => (inner.clone(), inner.clone()).prop_map(|(one, two)| format!("({one} || {two})")),
            1 => inner.clone().prop_map(|one| format!("!({one})")),
            1 => (inner.clone(), inner.clone(), inner).prop_map(|(one, two, three)| format!("(if {one} then {two} else {three})")),
        ]
    })
}

fn policy() -> impl Strategy<Value = String> {
    let principals = vec![
        "",
        "",
        "== Caller::\"c1\"",
        "in User::\"alice\"",
        "in Agent::\"claude\"",
        "in Department::\"eng\"",
        "is Caller in Context::\"prod\"",
    ];
    let actions = vec![
        "",
        "",
        "== Action::\"call\"",
        "in [Action::\"read\", Action::\"subscribe\"]",
        "== Action::\"complete\"",
        "== Action::\"get\"",
    ];
    let resources = vec![
        "",
        "",
        "in Server::\"github\"",
        "== Tool::\"github/send\"",
        "is Resource",
        "is Prompt in Server::\"mail\"",
    ];
    let effects = vec!["allow", "allow", "ask", "block", "rewrite"];
    let clauses = prop::collection::vec((any::<bool>(), condition()), 0..3);
    (select(principals), select(actions), select(resources), select(effects), clauses).prop_map(
        |(principal, action, resource, effect, clauses)| {
            let keyword = if effect == "block" { "forbid" } else { "permit" };
            let rewrite = if effect == "rewrite" { "@rewrite(\"path\") @matching(\"a\") @with(\"b\") " } else { "" };
            let clauses: String =
                clauses.iter().map(|(when, text)| format!("{} {{ {text} }} ", if *when { "when" } else { "unless" })).collect();
            format!("@effect(\"{effect}\") {rewrite}{keyword} (principal {principal}, action {action}, resource {resource}) {clauses};")
        },
    )
}

/// The policies that load, numbered; some that are drawn can never match, and Cedar refuses those.
fn numbered(drawn: &[String]) -> String {
    let loads =
        |text: &String| Bundle::load("one", &[("one.cedar".to_owned(), text.clone())]).is_ok();
    drawn
        .iter()
        .filter(|text| loads(text))
        .enumerate()
        .map(|(at, text)| format!("@id(\"p{at}\") {text}\n"))
        .collect()
}

proptest! {
    #![proptest_config(Config::with_cases(80))]

    #[test]
    fn a_bundle_decides_as_plain_cedar_does(drawn in prop::collection::vec(policy(), 1..10), questions in prop::collection::vec(asked(), 50)) {
        let text = numbered(&drawn);
        prop_assume!(!text.is_empty());
        let bundle = Bundle::load("drawn", &[("drawn.cedar".to_owned(), text.clone())]).unwrap();
        let policies = PolicySet::from_str(&text).unwrap();
        for (at, asked) in questions.iter().enumerate() {
            let arguments = asked.arguments.json();
            let question = asked.question(&arguments);
            let decision = bundle.decide(&question);
            let decided: Vec<usize> = decision
                .notes()
                .iter()
                .filter(|note| note.policy != Note::NO_PERMIT)
                .map(|note| note.policy.trim_start_matches('p').parse().unwrap())
                .collect();
            prop_assert_eq!((decision.as_str(), decided), asked.ask_cedar(&policies), "{}\n{:?}", text, asked);
            // Asked again, from what was kept; and with nothing left out.
            prop_assert_eq!(&bundle.decide(&question), &decision);
            prop_assert_eq!(&bundle.decide_unsliced(&question).unwrap(), &decision);
            if at < 4 {
                let explanation = bundle.explain(&question);
                let matched = explanation.policies.iter().filter(|looked| looked.outcome == Outcome::Matched).count();
                prop_assert!(matched >= decision.notes().iter().filter(|note| note.operator.is_none()).count());
                prop_assert_eq!(&explanation.decision, &decision);
            }
        }
    }
}
