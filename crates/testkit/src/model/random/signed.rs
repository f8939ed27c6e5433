//! Contexts, agents and arguments of signed calls. Most are in order; each way to be out of order comes up often.

use serde_json::{Value, json};

use super::Draw;
use crate::model::{ModelCapability, ModelSigned};

// Commands twice: they have the most ways to be out of order.
const ASKED: [&str; 6] = [
    "fs.read",
    "fs.delete",
    "web.fetch",
    "cmd.run",
    "cmd.run",
    "docs.find",
];
const PATTERNS: [&str; 5] = ["*", "fs.*", "web.*", "cmd.run", "docs.*"];
const PATHS: [&str; 6] = [
    "/workspace/a",
    "b/./c",
    "/workspace2/a",
    "/etc/passwd",
    "/workspace/../workspace/a",
    "//workspace/data//x",
];
const URLS: [&str; 5] = [
    "https://example.com/x",
    "https://api.example.com",
    "https://evilexample.com",
    "https://example.com@evil.org/",
    "https://example.com.evil.org/",
];
const COMMANDS: [&str; 4] = ["cargo", "git", "bash", " "];
const FIRST: [&str; 3] = ["build", "publish", "-c"];
const DENY: [&str; 5] = [
    "fs.delete",
    "web.*",
    "cmd.run:git",
    "fs.read:/etc/*",
    "fs.*:/workspace/data",
];

impl Draw {
    /// A context for a call, and the arguments that its tools look at.
    pub(super) fn signed(&mut self, arguments: &mut Value) -> ModelSigned {
        let asked = self.word(&ASKED);
        self.reach(&asked, arguments);
        let mut capabilities: Vec<ModelCapability> =
            (0..self.0.below(3)).map(|_| self.capability()).collect();
        if !self.once_in(8) {
            let everything = if self.once_in(2) {
                asked.clone()
            } else {
                "*".to_owned()
            };
            capabilities.push(ModelCapability {
                pattern: everything,
                ..self.capability()
            });
        }
        let names = |draw: &mut Self| {
            let fitting = draw
                .one_of(&["*".to_owned(), asked.clone()])
                .unwrap_or_default();
            if draw.once_in(10) {
                vec!["other.tool".to_owned()]
            } else {
                vec!["x.*".to_owned(), fitting]
            }
        };
        ModelSigned {
            session: self.once_in(3).then(|| names(self)),
            agent: self.once_in(2).then(|| names(self)),
            limit: self.once_in(3).then_some(5),
            calls: if self.once_in(4) { 5 } else { 1 },
            capabilities,
            deny: self.some_of(&DENY, 12),
            asked,
        }
    }

    fn capability(&mut self) -> ModelCapability {
        let list = |draw: &mut Self, all: &[&str]| draw.once_in(2).then(|| draw.some_of(all, 2));
        let pattern = self.word(&PATTERNS);
        let commands = self.once_in(2).then(|| {
            let first = if self.once_in(2) {
                Vec::new()
            } else {
                vec!["build".to_owned()]
            };
            vec![
                ("cargo".to_owned(), first),
                ("git".to_owned(), vec!["status".to_owned()]),
            ]
        });
        ModelCapability {
            pattern,
            paths: list(self, &["/workspace", "/workspace/*", "/etc"]),
            domains: list(self, &["example.com", "evil.org"]),
            commands,
        }
    }

    /// What the asked tool reaches for, put among the other arguments.
    fn reach(&mut self, asked: &str, arguments: &mut Value) {
        let Some(members) = arguments.as_object_mut() else {
            return;
        };
        let odd = if self.once_in(2) {
            Value::Null
        } else {
            json!(7)
        };
        let (key, text) = match asked {
            "web.fetch" => ("url", self.word(&URLS)),
            "cmd.run" => ("command", self.word(&COMMANDS)),
            _ => ("path", self.word(&PATHS)),
        };
        if !self.once_in(15) {
            members.insert(
                key.to_owned(),
                if self.once_in(15) { odd } else { json!(text) },
            );
        }
        if asked == "cmd.run" && !self.once_in(4) {
            members.insert("args".to_owned(), json!([self.word(&FIRST)]));
        }
    }
}
