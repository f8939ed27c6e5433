//! What each argument of a tool is for. Unknown means target, the most careful of them.
//!
//! The operator's word comes first, then what the definition's schema says of a type, then the name. A server's descriptions are not asked.

use std::collections::BTreeMap;

use wire::{Json, Kind, letters::name_words};

/// What an argument is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Role {
    /// Who gets it, where it goes, or what is executed.
    Target,
    /// Which thing is changed.
    Object,
    /// How much. Held to what the person said.
    Amount,
    /// When, how, or one of a few choices.
    Value,
    /// What something is called.
    Name,
    /// A text that somebody reads.
    Content,
}

impl Role {
    pub const ALL: [Self; 6] = [
        Self::Target,
        Self::Object,
        Self::Amount,
        Self::Value,
        Self::Name,
        Self::Content,
    ];

    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Target => "target",
            Self::Object => "object",
            Self::Amount => "amount",
            Self::Value => "value",
            Self::Name => "name",
            Self::Content => "content",
        }
    }

    /// The role of that word.
    #[must_use]
    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|role| role.as_str() == word)
    }
}

/// Who said what an argument is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Decided {
    /// A person did.
    Said,
    /// It is a guess, for this reason.
    Guessed(&'static str),
}

/// The role of one argument, and who says so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleOf {
    pub role: Role,
    pub decided: Decided,
}

const fn guess(role: Role, why: &'static str) -> RoleOf {
    RoleOf {
        role,
        decided: Decided::Guessed(why),
    }
}

/// Words of the names of arguments, what each says that the argument is for, and why.
const TABLE: &[(Role, &str, &[&str])] = &[
    (
        Role::Object,
        "its name says that it names one thing",
        &["id", "ids", "uuid", "guid", "sha", "ref", "key", "handle"],
    ),
    (
        Role::Target,
        "its name says who gets it or where it goes",
        &[
            "to",
            "cc",
            "bcc",
            "recipient",
            "recipients",
            "receiver",
            "email",
            "emails",
            "address",
            "addresses",
            "url",
            "urls",
            "uri",
            "uris",
            "link",
            "links",
            "href",
            "host",
            "hostname",
            "domain",
            "endpoint",
            "webhook",
            "website",
            "channel",
            "channels",
            "chat",
            "chats",
            "room",
            "group",
            "team",
            "user",
            "users",
            "username",
            "account",
            "iban",
            "payee",
            "beneficiary",
            "wallet",
            "phone",
            "destination",
            "dest",
            "target",
            "owner",
            "org",
            "organization",
            "member",
            "members",
            "participant",
            "participants",
            "attendee",
            "attendees",
            "guest",
            "guests",
            "subscriber",
            "subscribers",
            "invitee",
            "invitees",
            "reviewer",
            "reviewers",
            "assignee",
            "assignees",
            "contact",
            "customer",
            "person",
            "people",
            "sender",
            "from",
            "bucket",
            "remote",
            "server",
            "proxy",
            "port",
            "ip",
        ],
    ),
    (
        Role::Target,
        "what is done stands in its text",
        &[
            "command",
            "cmd",
            "script",
            "sql",
            "statement",
            "expression",
            "args",
            "argv",
            "shell",
            "program",
            "eval",
            "env",
            "headers",
        ],
    ),
    (
        Role::Amount,
        "its name says how much",
        &[
            "amount", "price", "sum", "total", "cost", "quantity", "qty", "budget", "balance",
            "tip", "fee", "shares",
        ],
    ),
    (
        Role::Object,
        "its name says which thing is changed",
        &[
            "path",
            "paths",
            "file",
            "files",
            "filename",
            "folder",
            "directory",
            "dir",
            "source",
            "src",
            "issue",
            "number",
            "event",
            "document",
            "record",
            "branch",
            "commit",
            "row",
            "table",
            "database",
            "calendar",
            "ticket",
            "page",
            "thread",
            "project",
            "repo",
            "repository",
            "item",
            "node",
            "entity",
            "entities",
            "resource",
            "volume",
            "workspace",
            "collection",
            "parent",
        ],
    ),
    (
        Role::Content,
        "its name says that somebody reads it",
        &[
            "body",
            "content",
            "contents",
            "text",
            "message",
            "description",
            "comment",
            "note",
            "notes",
            "html",
            "markdown",
            "reply",
            "details",
            "caption",
            "reason",
            "thought",
            "paragraph",
            "bio",
            "review",
        ],
    ),
    (
        Role::Name,
        "its name says what something is called",
        &[
            "title", "subject", "name", "label", "labels", "topic", "summary", "slug", "tag",
            "tags", "headline", "location", "venue", "currency",
        ],
    ),
    (
        Role::Value,
        "its name says when or how",
        &[
            "date",
            "time",
            "datetime",
            "start",
            "end",
            "day",
            "when",
            "due",
            "deadline",
            "duration",
            "minutes",
            "hours",
            "days",
            "timezone",
            "tz",
            "priority",
            "status",
            "state",
            "color",
            "rating",
            "limit",
            "offset",
            "count",
            "size",
            "enabled",
            "recurring",
            "format",
            "language",
            "encoding",
            "order",
            "sort",
            "dry",
            "timeout",
            "year",
            "month",
            "permission",
            "permissions",
            "type",
            "kind",
        ],
    ),
];

/// The longest path of an argument that an operator can name.
pub(crate) const MAX_PATH: usize = 256;

/// What the arguments of one tool are for. A path names one: `to`, `event.title`, `recipients[].email`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Roles {
    said: BTreeMap<String, Role>,
    schema: BTreeMap<String, RoleOf>,
}

impl Roles {
    /// From what the operator said and from the tool's approved definition.
    #[must_use]
    pub fn new(said: BTreeMap<String, Role>, input_schema: Option<Json<'_>>) -> Self {
        let mut roles = Self {
            said,
            schema: BTreeMap::new(),
        };
        if let Some(schema) = input_schema {
            roles.look(schema, schema, "", MAX_NESTED);
        }
        roles
    }

    /// Notes what the types of a schema say.
    fn look(&mut self, whole: Json<'_>, schema: Json<'_>, path: &str, depth: usize) {
        if depth == 0 || self.schema.len() >= MAX_PATH || path.len() > MAX_PATH {
            return;
        }
        let schema = meant(whole, schema);
        if let Some(role) = of_type(schema).filter(|_| !path.is_empty()) {
            self.schema.insert(path.to_owned(), role);
        }
        if let Some(properties) = schema.get("properties") {
            for (name, property) in properties.fields() {
                self.look(whole, property, &join(path, &name), depth - 1);
            }
        }
        if let Some(items) = schema.get("items").filter(|items| items.is_object()) {
            self.look(whole, items, &format!("{path}[]"), depth - 1);
        }
    }

    /// The role of the argument at this path.
    #[must_use]
    pub fn of(&self, path: &str) -> RoleOf {
        let bare = path.strip_suffix("[]").unwrap_or(path);
        let said = self.said.get(path).or_else(|| self.said.get(bare));
        if let Some(role) = said {
            return RoleOf {
                role: *role,
                decided: Decided::Said,
            };
        }
        if let Some(role) = self.schema.get(path) {
            return *role;
        }
        of_name(path)
    }

    /// Every argument of the schema with its role, for people: the paths that lead to a value.
    #[must_use]
    pub fn list(&self, input_schema: Json<'_>) -> Vec<(String, RoleOf)> {
        let mut paths = Vec::new();
        leaves(input_schema, input_schema, "", MAX_NESTED, &mut paths);
        paths
            .into_iter()
            .map(|path| {
                let role = self.of(&path);
                (path, role)
            })
            .collect()
    }
}

fn leaves(whole: Json<'_>, schema: Json<'_>, path: &str, depth: usize, out: &mut Vec<String>) {
    if depth == 0 || out.len() >= MAX_PATH {
        return;
    }
    let schema = meant(whole, schema);
    let properties = schema
        .get("properties")
        .filter(|properties| properties.is_object());
    let items = schema.get("items").filter(|items| items.is_object());
    match (properties, items) {
        (Some(properties), _) => {
            for (name, property) in properties.fields() {
                leaves(whole, property, &join(path, &name), depth - 1, out);
            }
        }
        (None, Some(items)) => leaves(whole, items, &format!("{path}[]"), depth - 1, out),
        (None, None) if !path.is_empty() => out.push(path.to_owned()),
        (None, None) => {}
    }
}

/// How deep a schema is looked into, and how many references are followed one after the other.
const MAX_NESTED: usize = 8;

/// The schema that is meant where another one stands for it: by a reference within the definition, or as the only one that is not `null`.
fn meant<'j>(whole: Json<'j>, schema: Json<'j>) -> Json<'j> {
    let mut schema = schema;
    for _ in 0..MAX_NESTED {
        let named = schema.get("$ref").and_then(|reference| {
            let reference = reference.as_str()?;
            let (defs, name) = reference.strip_prefix("#/")?.split_once('/')?;
            whole.get(defs)?.get(name)
        });
        let only = || {
            let mut others = schema.get("anyOf")?.items().filter(|other| {
                other.get("type").and_then(Json::as_str).as_deref() != Some("null")
            });
            others.next().filter(|_| others.next().is_none())
        };
        match named.or_else(only) {
            Some(other) => schema = other,
            None => break,
        }
    }
    schema
}

/// The path of a field inside what `path` names.
pub(crate) fn join(path: &str, name: &str) -> String {
    if path.is_empty() {
        name.to_owned()
    } else {
        format!("{path}.{name}")
    }
}

/// What a type says that no name can say better.
fn of_type(schema: Json<'_>) -> Option<RoleOf> {
    let word = |key: &str| schema.get(key).and_then(Json::as_str);
    let format = word("format").unwrap_or_default();
    let kind = word("type").unwrap_or_default();
    let is_closed = schema
        .get("enum")
        .is_some_and(|list| list.items().next().is_some())
        || schema.get("const").is_some();
    if is_closed
        && schema
            .get("enum")
            .is_none_or(|list| list.items().all(is_short))
    {
        return Some(guess(Role::Value, "it is one of a closed list"));
    }
    match (&*kind, &*format) {
        ("boolean", _) => Some(guess(Role::Value, "it is yes or no")),
        (
            _,
            "email" | "idn-email" | "uri" | "iri" | "uri-reference" | "url" | "hostname"
            | "idn-hostname" | "ipv4" | "ipv6",
        ) => Some(guess(Role::Target, "its format is an address")),
        (_, "date" | "date-time" | "time" | "duration") => {
            Some(guess(Role::Value, "its format is a date or a time"))
        }
        (_, "uuid") => Some(guess(Role::Object, "its format is an id")),
        _ => None,
    }
}

/// A member of a closed list that is itself an address would be one the definition's author chose.
fn is_short(member: Json<'_>) -> bool {
    member.kind() != Kind::String || member.as_bytes().len() <= 66
}

/// What the name of an argument says. Inside of what is executed, or says where it goes, everything is a target, as in `script.content`
/// or `destination.name`; an amount stays what makes a call grave. An `email` or a `user` is also the thing itself, with texts of its own.
fn of_name(path: &str) -> RoleOf {
    let (above, name) = path.rsplit_once('.').unwrap_or(("", path));
    let own = of_words(name).unwrap_or(guess(Role::Target, "nobody knows what it is for"));
    let is_inside = above.split('.').any(|name| {
        let words = name_words(name.trim_end_matches("[]"));
        words.iter().any(|word| GOVERNING.contains(&word.as_str()))
    });
    if is_inside && !matches!(own.role, Role::Target | Role::Amount) {
        return guess(Role::Target, "it is inside of what says who, where or what");
    }
    own
}

/// The most careful of what the words of one name say. What ends in a word for a text or a choice is one, though it is that of a thing:
/// `file_content`, `event_date`.
fn of_words(name: &str) -> Option<RoleOf> {
    let words = name_words(name.trim_end_matches("[]"));
    let is_moment = words.iter().any(|word| MOMENTS.contains(&word.as_str()));
    let is_id = words.last().is_some_and(|last| is_id(last));
    let known: Vec<RoleOf> = words
        .iter()
        // From when to when is no sender and no recipient, and the id of a mail is no address.
        .filter(|word| !(is_moment && matches!(word.as_str(), "from" | "to")))
        .filter(|word| !(is_id && matches!(word.as_str(), "email" | "emails")))
        .filter_map(|word| of_word(word))
        .collect();
    let careful = known.iter().min_by_key(|of| carefulness(of.role))?;
    let role = match words.last().and_then(|last| of_word(last)) {
        Some(last)
            if careful.role == Role::Object && matches!(last.role, Role::Content | Role::Value) =>
        {
            last
        }
        _ => *careful,
    };
    Some(role)
}

/// Words for what governs everything inside of it: what is executed, and where things go.
const GOVERNING: [&str; 22] = [
    "command",
    "commands",
    "cmd",
    "script",
    "scripts",
    "sql",
    "statement",
    "expression",
    "args",
    "argv",
    "shell",
    "program",
    "eval",
    "env",
    "headers",
    "header",
    "destination",
    "recipient",
    "recipients",
    "receiver",
    "webhook",
    "endpoint",
];

/// Words for when.
const MOMENTS: [&str; 9] = [
    "date", "time", "datetime", "day", "year", "month", "hours", "minutes", "days",
];

fn is_id(word: &str) -> bool {
    matches!(word, "id" | "ids" | "uuid" | "guid")
}

fn of_word(word: &str) -> Option<RoleOf> {
    TABLE
        .iter()
        .find(|(_, _, words)| words.contains(&word))
        .map(|(role, why, _)| guess(*role, why))
}

/// The place of a role among all of them, the one that lets least pass first.
const fn carefulness(role: Role) -> u8 {
    match role {
        Role::Target => 0,
        Role::Object => 1,
        Role::Amount => 2,
        Role::Name => 3,
        Role::Value => 4,
        Role::Content => 5,
    }
}
