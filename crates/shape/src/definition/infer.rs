//! What a tool probably does, guessed from its name and its input. An operator's word always beats a guess, and a server's own hints
//! are never asked.

use vocab::Effect;
use wire::{Json, Kind, letters::name_words as words};

/// A tool whose name begins or ends with one of these words looks and does not touch.
const READS: &[&str] = &[
    "browse",
    "compare",
    "count",
    "describe",
    "diff",
    "echo",
    "examine",
    "explain",
    "fetch",
    "find",
    "get",
    "grep",
    "head",
    "help",
    "info",
    "inspect",
    "list",
    "lookup",
    "ls",
    "peek",
    "ping",
    "preview",
    "query",
    "read",
    "search",
    "show",
    "stat",
    "stats",
    "status",
    "summarize",
    "tail",
    "validate",
    "version",
    "view",
    "whoami",
];

/// A tool whose name has one of these words anywhere does something, whatever else it is called.
const ACTS: &[&str] = &[
    "accept",
    "activate",
    "add",
    "allow",
    "append",
    "apply",
    "approve",
    "archive",
    "assign",
    "attach",
    "ban",
    "block",
    "buy",
    "cancel",
    "clean",
    "clear",
    "click",
    "close",
    "configure",
    "connect",
    "convert",
    "create",
    "deactivate",
    "delete",
    "deny",
    "deploy",
    "destroy",
    "disable",
    "dismiss",
    "drop",
    "edit",
    "enable",
    "enqueue",
    "exec",
    "execute",
    "fill",
    "forward",
    "generate",
    "insert",
    "install",
    "invite",
    "invoke",
    "join",
    "kill",
    "launch",
    "leave",
    "logout",
    "make",
    "mark",
    "merge",
    "modify",
    "move",
    "mutate",
    "navigate",
    "notify",
    "overwrite",
    "pay",
    "pin",
    "press",
    "provision",
    "publish",
    "purchase",
    "purge",
    "push",
    "put",
    "reboot",
    "refund",
    "reject",
    "remove",
    "rename",
    "replace",
    "reset",
    "restart",
    "restore",
    "revert",
    "revoke",
    "rotate",
    "run",
    "save",
    "send",
    "set",
    "shutdown",
    "spawn",
    "stop",
    "submit",
    "terminate",
    "toggle",
    "trigger",
    "truncate",
    "unblock",
    "unlock",
    "unpin",
    "unsubscribe",
    "update",
    "upload",
    "upsert",
    "withdraw",
    "write",
];

/// Words for doing something and for a thing: `get_order` looks at one, `order_list` might send it.
const ACTS_OR_THINGS: &[&str] = &[
    "book",
    "call",
    "change",
    "clone",
    "comment",
    "commit",
    "copy",
    "draft",
    "email",
    "export",
    "flag",
    "follow",
    "fork",
    "format",
    "grant",
    "import",
    "like",
    "lock",
    "login",
    "open",
    "order",
    "patch",
    "play",
    "post",
    "print",
    "record",
    "register",
    "reply",
    "schedule",
    "share",
    "shell",
    "sign",
    "star",
    "start",
    "store",
    "subscribe",
    "sync",
    "tag",
    "trade",
    "transfer",
    "type",
    "upgrade",
    "vote",
];

/// Words for an address in the world outside.
const ADDRESSES: [&str; 12] = [
    "domain", "domains", "endpoint", "href", "link", "links", "uri", "uris", "url", "urls",
    "webpage", "website",
];

/// Words for what other people write or send.
const OTHERS_WORDS: &[&str] = &[
    "article",
    "articles",
    "browse",
    "browser",
    "calendar",
    "channel",
    "channels",
    "chat",
    "comment",
    "comments",
    "contact",
    "contacts",
    "conversation",
    "discussion",
    "document",
    "documents",
    "drive",
    "email",
    "emails",
    "event",
    "events",
    "feed",
    "feedback",
    "file",
    "files",
    "forum",
    "inbox",
    "invitation",
    "invitations",
    "issue",
    "issues",
    "mail",
    "mails",
    "message",
    "messages",
    "news",
    "page",
    "pages",
    "post",
    "posts",
    "pull",
    "repository",
    "review",
    "reviews",
    "search",
    "slack",
    "thread",
    "threads",
    "ticket",
    "tickets",
    "transaction",
    "transactions",
    "tweet",
    "tweets",
    "web",
    "webpage",
    "website",
    "wiki",
];

/// The effect class of a tool that nobody has said anything about. Only a name that says "read" and nothing else makes it one, and no
/// tool that takes an address: to fetch from an address is to tell its owner something.
#[must_use]
pub fn infer_effect(tool_name: &str, takes_address: bool) -> Effect {
    let words = words(tool_name);
    let any = |list: &[&str]| words.iter().any(|word| list.contains(&word.as_str()));
    let reads = |word: Option<&String>| word.is_some_and(|word| READS.contains(&word.as_str()));
    let begins = reads(words.first()) && !any(ACTS);
    let ends = reads(words.last()) && !any(ACTS) && !any(ACTS_OR_THINGS);
    if (begins || ends) && !takes_address {
        Effect::Read
    } else {
        Effect::Consequential
    }
}

/// Whether a tool takes an address in the world outside.
#[must_use]
pub fn takes_address(definition: Json<'_>) -> bool {
    definition
        .get("inputSchema")
        .is_some_and(|schema| names_address(schema, 64))
}

/// Whether a tool's name says that it shows what other people write.
#[must_use]
pub fn shows_others_words(tool_name: &str) -> bool {
    words(tool_name)
        .iter()
        .any(|word| OTHERS_WORDS.contains(&word.as_str()))
}

fn names_address(schema: Json<'_>, depth: usize) -> bool {
    if depth == 0 {
        return true;
    }
    match schema.kind() {
        Kind::Object => schema.fields().any(|(keyword, value)| match &*keyword {
            "format" => value.as_str().is_some_and(|format| {
                ["uri", "iri", "uri-reference", "iri-reference", "url"].contains(&&*format)
            }),
            "properties" => value
                .fields()
                .any(|(name, value)| is_address(&name) || names_address(value, depth - 1)),
            "enum" | "const" | "default" | "examples" => false,
            _ => names_address(value, depth - 1),
        }),
        Kind::Array => schema.items().any(|item| names_address(item, depth - 1)),
        _ => false,
    }
}

fn is_address(name: &str) -> bool {
    words(name)
        .iter()
        .any(|word| ADDRESSES.contains(&word.as_str()))
}
