//! Random worlds and random calls, the same for the same seed.
//!
//! Most of what is drawn is in order, so that a call gets past most checks and every check is the first to fail for some of
//! them; `tests` counts that.

mod signed;

use serde_json::{Map, Value, json};

use super::shape::INJECTIONS;
use super::{
    Access, Decision, Definition, Influence, Level, ModelCall, ModelCaller, ModelPlace,
    ModelPolicy, ModelServer, ModelTool, ModelWorld, Permission, When,
};
use crate::hostile::Dice;

const SERVERS: [&str; 4] = ["github", "mail", "weather", "web_search"];
const TOOLS: [&str; 4] = ["list", "send", "my__tool", "x.y-z"];
const USERS: [&str; 3] = ["alice", "bob", "carol"];
const DEPARTMENTS: [&str; 3] = ["eng", "sales", "legal"];
const AGENTS: [&str; 2] = ["claude", "codex"];
const KEYS: [&str; 5] = ["to", "text", "count", "mode", "items"];
const WORDS: [&str; 6] = [
    "hello",
    "Paris",
    "a longer text than most",
    "späte Grüße",
    "",
    "fast",
];

const PLACES: [&str; 6] = [
    "/workspace/a",
    "b..",
    "/notes/./c",
    "/workspace/../d",
    "notes/e",
    "/f",
];

/// Draws worlds and calls.
#[derive(Clone, Debug)]
pub struct Draw(Dice);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Self(Dice::new(seed))
    }

    /// Once in so many times.
    fn once_in(&mut self, times: usize) -> bool {
        self.0.below(times) == 0
    }

    fn one_of<T: Clone>(&mut self, all: &[T]) -> Option<T> {
        all.get(self.0.below(all.len())).cloned()
    }

    fn word(&mut self, all: &[&str]) -> String {
        self.one_of(all).unwrap_or_default().to_owned()
    }

    fn some_of(&mut self, all: &[&str], once_in: usize) -> Vec<String> {
        all.iter()
            .filter(|_| self.once_in(once_in))
            .map(|word| (*word).to_owned())
            .collect()
    }

    fn level(&mut self) -> Level {
        self.one_of(&Level::ALL).unwrap_or(Level::Public)
    }

    /// A world with a few servers, tools and policies.
    pub fn world(&mut self) -> ModelWorld {
        let count = 1 + self.0.below(SERVERS.len());
        let servers = SERVERS
            .iter()
            .take(count)
            .map(|id| self.server(id))
            .collect();
        let influence = self
            .one_of(&[Influence::Off, Influence::Ask, Influence::Block])
            .unwrap_or(Influence::Ask);
        let mut policies: Vec<ModelPolicy> = (0..self.0.below(4)).map(|_| self.policy()).collect();
        if !self.once_in(6) || policies.is_empty() {
            policies.push(ModelPolicy {
                decision: Decision::Allow,
                when: Vec::new(),
            });
        }
        ModelWorld {
            servers,
            influence,
            policies,
        }
    }

    fn accepts(&mut self) -> Option<Level> {
        self.once_in(4).then(|| self.level())
    }

    fn server(&mut self, id: &str) -> ModelServer {
        ModelServer {
            id: id.to_owned(),
            blocked: self.once_in(20),
            classification: if self.once_in(20) {
                None
            } else {
                Some(self.level())
            },
            accepts: self.accepts(),
            access: self.access(8),
            calls_left: self.calls_left(),
            scans_for_injection: !self.once_in(5),
            tools: TOOLS
                .iter()
                .take(1 + self.0.below(TOOLS.len()))
                .map(|name| self.tool(name))
                .collect(),
        }
    }

    fn tool(&mut self, name: &str) -> ModelTool {
        let permission = match self.0.below(10) {
            0 => Permission::Blocked,
            1 | 2 => Permission::Restricted,
            _ => Permission::Permitted,
        };
        let definition = match self.0.below(16) {
            0 => Definition::Changed,
            1 => Definition::New,
            _ => Definition::Pinned,
        };
        ModelTool {
            name: name.to_owned(),
            permission,
            definition,
            access: self.access(6),
            needs_account: self.once_in(8),
            calls_left: self.calls_left(),
            consequential: self.once_in(2),
            input_schema: self.schema(),
        }
    }

    fn access(&mut self, once_in: usize) -> Access {
        if !self.once_in(once_in) {
            return Access::default();
        }
        Access {
            users: self.some_of(&USERS, 2),
            departments: self.some_of(&DEPARTMENTS, 3),
            agents: self.some_of(&AGENTS, 3),
        }
    }

    fn calls_left(&mut self) -> Option<u32> {
        match self.0.below(16) {
            0 => Some(0),
            1 => Some(1),
            2 => Some(9),
            _ => None,
        }
    }

    fn schema(&mut self) -> Value {
        let mut properties = Map::new();
        for key in KEYS {
            if self.once_in(2) {
                properties.insert(key.to_owned(), self.property());
            }
        }
        let mut required: Vec<String> = properties
            .keys()
            .filter(|_| self.once_in(3))
            .cloned()
            .collect();
        if self.once_in(12) {
            // Required, but not described.
            required.push("undescribed".to_owned());
        }
        let mut schema = json!({"type": "object", "properties": properties, "required": required});
        if let Some(schema) = schema.as_object_mut() {
            if self.once_in(3) {
                schema.insert("additionalProperties".to_owned(), json!(false));
            }
            if self.once_in(4) {
                // Says nothing of an object, and still means one.
                schema.remove("type");
            }
        }
        schema
    }

    fn property(&mut self) -> Value {
        match self.0.below(7) {
            0 => json!({"type": "string"}),
            1 => json!({"type": ["string", "null"]}),
            2 => json!({"type": "string", "maxLength": 8}),
            3 => json!({"enum": ["fast", "slow", null]}),
            4 => json!({"type": "integer", "minimum": 0, "maximum": 10}),
            5 => json!({"type": "array", "items": {"type": "string"}}),
            _ => json!({}),
        }
    }

    fn policy(&mut self) -> ModelPolicy {
        let decision = self
            .one_of(&[
                Decision::Allow,
                Decision::Ask,
                Decision::Ask,
                Decision::Endorse,
                Decision::Endorse,
                Decision::Block,
            ])
            .unwrap_or(Decision::Block);
        let mut when: Vec<When> = (0..1 + self.0.below(2)).map(|_| self.condition()).collect();
        if self.once_in(8) {
            when.push(When::Fails);
        }
        ModelPolicy { decision, when }
    }

    fn condition(&mut self) -> When {
        match self.0.below(9) {
            0 => When::Server(self.word(&SERVERS)),
            1 => When::Tool(self.word(&SERVERS), self.word(&TOOLS)),
            2 => When::User(self.word(&USERS)),
            3 => When::Department(self.word(&DEPARTMENTS)),
            4 => When::Agent(self.word(&AGENTS)),
            5 => When::Consequential,
            6 => When::SecrecyAtLeast(self.level()),
            7 => When::Untrusted,
            _ => When::ArgumentIs(self.word(&KEYS), self.word(&WORDS)),
        }
    }

    /// A call of somebody in this world; now and then of a tool that is not there.
    pub fn call(&mut self, world: &ModelWorld) -> ModelCall {
        let server = self.0.below(world.servers.len());
        let tools = world
            .servers
            .get(server)
            .map_or(&[][..], |server| &server.tools);
        let tool = if self.once_in(200) {
            tools.len()
        } else {
            self.0.below(tools.len())
        };
        let schema = tools
            .get(tool)
            .map_or(Value::Null, |tool| tool.input_schema.clone());
        // Low, so that most calls are not write-downs.
        let secrecy = self.level().min(self.level());
        let untrusted = self.once_in(3);
        let (caller, mut arguments) = (self.caller(), self.arguments(&schema));
        let signed = self.once_in(2).then(|| self.signed(&mut arguments));
        ModelCall {
            caller,
            server,
            tool,
            secrecy,
            untrusted,
            // Nothing is drawn for it: a third of all calls, whatever else they are.
            vouched: arguments.to_string().len() % 3 == 0,
            arguments,
            signed,
            places: self.clone().places(),
        }
    }

    /// Drawn aside, so that calls are otherwise those that their seed always gave.
    fn places(mut self) -> Vec<ModelPlace> {
        let count = self.0.below(12).saturating_sub(9);
        (0..count)
            .map(|_| ModelPlace {
                path: self.word(&PLACES),
                volume: (!self.once_in(4)).then(|| self.access(2)),
            })
            .collect()
    }

    fn caller(&mut self) -> ModelCaller {
        let grants = self.some_of(&SERVERS, 4).into_iter().map(|server| {
            let tool = if self.once_in(2) {
                "*".to_owned()
            } else {
                self.word(&TOOLS)
            };
            (server, tool)
        });
        let grants = grants.collect();
        ModelCaller {
            user: (!self.once_in(4)).then(|| self.word(&USERS)),
            departments: self.some_of(&DEPARTMENTS, 2),
            agent: (!self.once_in(3)).then(|| self.word(&AGENTS)),
            grants,
            accounts: self.some_of(&SERVERS, 2),
        }
    }

    /// Arguments that mostly fit the schema.
    fn arguments(&mut self, schema: &Value) -> Value {
        if self.once_in(40) {
            return self
                .one_of(&[Value::Null, json!([]), json!("text"), json!(7)])
                .unwrap_or_default();
        }
        let properties = schema
            .get("properties")
            .and_then(Value::as_object)
            .cloned()
            .unwrap_or_default();
        let required = schema
            .get("required")
            .and_then(Value::as_array)
            .cloned()
            .unwrap_or_default();
        let mut arguments = Map::new();
        for (key, property) in &properties {
            let is_required = required.iter().any(|name| name == key);
            if is_required && !self.once_in(30) || self.once_in(2) {
                let fitting = self.fitting(property);
                arguments.insert(
                    key.clone(),
                    if self.once_in(25) {
                        Value::Null
                    } else {
                        fitting
                    },
                );
            }
        }
        if required.iter().any(|name| name == "undescribed") && !self.once_in(4) {
            arguments.insert("undescribed".to_owned(), self.anything());
        }
        if self.once_in(12) {
            let key = if self.once_in(4) {
                self.injection()
            } else {
                "surplus".to_owned()
            };
            arguments.insert(key, self.anything());
        }
        Value::Object(arguments)
    }

    fn fitting(&mut self, property: &Value) -> Value {
        if self.once_in(20) {
            return self.anything();
        }
        match property.get("type") {
            Some(Value::String(name)) if name == "integer" => json!(self.0.below(11)),
            Some(Value::String(name)) if name == "array" => {
                Value::Array(vec![self.text(); self.0.below(3)])
            }
            _ if property.get("enum").is_some() => json!("fast"),
            _ if property.get("maxLength").is_some() => json!("Paris"),
            _ => self.text(),
        }
    }

    fn text(&mut self) -> Value {
        if self.once_in(25) {
            json!(self.injection())
        } else {
            json!(self.word(&WORDS))
        }
    }

    fn injection(&mut self) -> String {
        let plain = self.word(&INJECTIONS);
        let cased = if self.once_in(2) {
            plain.to_uppercase()
        } else {
            plain
        };
        format!("please {cased} now")
    }

    fn anything(&mut self) -> Value {
        match self.0.below(8) {
            0 => Value::Null,
            1 => json!(true),
            2 => json!(11),
            3 => json!(-1.5),
            4 => json!([self.text(), {"deep": [{"deeper": self.text()}]}]),
            5 => json!({"inner": self.text()}),
            _ => self.text(),
        }
    }
}
