//! What a call reaches for: the paths, hosts, accounts and the command in its arguments.
//!
//! Which arguments carry what is decided by the family of the tool's name. For families we serve ourselves the keys are known; a tool
//! of such a family that somebody else serves may call them otherwise, so every key that commonly carries a path or an address is
//! read, and a tool in which none is found is refused where it is bounded at all.

use wire::{Json, Kind};

use super::{
    command::CommandLine,
    domain::Host,
    mail::Mailbox,
    path::{BadPath, NormalPath},
};

/// Tools that are bounded alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    Files,
    Web,
    /// `web.search`: the host is the search engine's.
    Search,
    Mail,
    Command,
    Other,
}

impl Family {
    /// By the first of the tool's names that has one.
    fn of<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let family = |name: &str| match name.split_once('.') {
            _ if name == "web.search" => Self::Search,
            _ if name == "cmd.run" => Self::Command,
            Some(("fs", _)) => Self::Files,
            Some(("web", _)) => Self::Web,
            Some(("email", _)) => Self::Mail,
            Some(("cmd", _)) => Self::Command,
            _ => Self::Other,
        };
        names.into_iter().map(family).find(|found| *found != Self::Other).unwrap_or(Self::Other)
    }
}

/// Must hold text wherever they stand in the arguments of a tool of their family.
const PATH_KEYS: &[&str] = &["path", "paths"];
/// Hold a path where they hold text.
const OTHER_PATH_KEYS: &[&str] = &[
    "file",
    "files",
    "filename",
    "file_path",
    "filepath",
    "filePath",
    "directory",
    "dir",
    "folder",
    "root",
    "cwd",
    "source",
    "src",
    "destination",
    "dest",
    "dst",
    "from",
    "to",
    "old_path",
    "new_path",
    "oldPath",
    "newPath",
    "target",
    "target_path",
    "targetPath",
    "output",
    "link",
];
/// In the arguments of any other tool.
const PLAIN_PATH_KEYS: &[&str] = &["path", "paths", "file_path", "filepath", "filePath", "directory", "dir", "cwd"];
const URL_KEYS: &[&str] = &["url", "urls"];
const OTHER_URL_KEYS: &[&str] = &["uri", "href", "link", "endpoint", "base_url", "baseUrl", "proxy"];
const PLAIN_URL_KEYS: &[&str] = &["url", "urls", "uri", "href", "endpoint"];
const RECIPIENT_KEYS: &[&str] = &["to", "cc", "bcc", "recipient", "recipients", "reply_to", "replyTo", "forward_to", "forwardTo"];
const ACCOUNT_KEYS: &[&str] = &["account", "mailbox", "user_id", "userId"];
const SENDER_KEYS: &[&str] = &["from", "sender"];
/// A message in one piece, or its head.
const WHOLE_KEYS: &[&str] = &["raw", "mime", "headers"];

/// A path, or the text that is none.
#[derive(Debug, Clone)]
pub(crate) struct Place {
    pub(crate) text: String,
    pub(crate) path: Result<NormalPath, BadPath>,
}

/// A host, or the text that has none and why.
#[derive(Debug, Clone)]
pub(crate) struct Address {
    pub(crate) text: String,
    pub(crate) host: Result<Host, &'static str>,
}

#[derive(Debug)]
pub(crate) struct Reach<'a> {
    pub(crate) family: Family,
    pub(crate) arguments: Json<'a>,
    pub(crate) places: Vec<Place>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) accounts: Vec<String>,
    pub(crate) command: Option<CommandLine>,
    /// The time a command asks for.
    pub(crate) timeout: Option<Json<'a>>,
    pub(crate) reads_mail: bool,
}

impl<'a> Reach<'a> {
    pub(crate) fn of<'n>(names: impl Iterator<Item = &'n str> + Clone, arguments: Option<Json<'a>>, search_host: &str) -> Self {
        let family = Family::of(names.clone());
        let looks_with_globs = names.clone().any(|name| name.ends_with("glob"));
        let reads_mail = names.clone().any(|name| matches!(name, "email.read" | "email.search" | "email.list"));
        let arguments = arguments.unwrap_or(Json::EMPTY_OBJECT);
        let mut reach = Self {
            family,
            arguments,
            places: Vec::new(),
            addresses: Vec::new(),
            accounts: Vec::new(),
            command: None,
            timeout: None,
            reads_mail,
        };
        match family {
            Family::Files => reach.read_files(looks_with_globs),
            Family::Web => reach.read_web(),
            Family::Search => reach.address(search_host, Host::of_name(search_host).ok_or("it is not a host name")),
            Family::Mail => reach.read_mail(reads_mail),
            Family::Command => reach.read_command(),
            Family::Other => {
                reach.walk(arguments, &mut |reach, key, value| {
                    reach.paths_under(key, value, &[], PLAIN_PATH_KEYS);
                    reach.urls_under(key, value, &[], PLAIN_URL_KEYS);
                });
            }
        }
        reach
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &NormalPath> {
        self.places.iter().filter_map(|place| place.path.as_ref().ok())
    }

    /// Where files are looked for with a glob, that is a path too; `fs.grep` takes a regular expression under the same name.
    fn read_files(&mut self, looks_with_globs: bool) {
        let arguments = self.arguments;
        self.walk(arguments, &mut |reach, key, value| reach.paths_under(key, value, PATH_KEYS, OTHER_PATH_KEYS));
        let keys: &[&str] = if looks_with_globs { &["pattern", "glob", "include"] } else { &["glob", "include"] };
        self.walk(arguments, &mut |reach, key, value| {
            if keys.contains(&key) {
                reach.texts(value, false, &mut |reach, text| {
                    let text = text.unwrap_or_default();
                    let path = NormalPath::parse_glob(text).transpose();
                    reach.places.extend(path.map(|path| Place { text: text.to_owned(), path }));
                });
            }
        });
    }

    fn read_web(&mut self) {
        let arguments = self.arguments;
        self.walk(arguments, &mut |reach, key, value| reach.urls_under(key, value, URL_KEYS, OTHER_URL_KEYS));
    }

    /// Where mail is only read, an address in the arguments is what is looked for, and goes nowhere.
    fn read_mail(&mut self, reads_only: bool) {
        let arguments = self.arguments;
        self.walk(arguments, &mut |reach, key, value| reach.mail_under(key, value, reads_only));
    }

    fn mail_under(&mut self, key: &str, value: Json<'_>, reads_only: bool) {
        if !value.is_null() {
            if ACCOUNT_KEYS.contains(&key) || (!reads_only && SENDER_KEYS.contains(&key)) {
                // An account that is no text is one that no list has.
                self.accounts.push(value.as_str().map_or_else(|| value.text().to_owned(), |text| text.into_owned()));
            } else if !reads_only && RECIPIENT_KEYS.contains(&key) {
                self.recipients(value);
            } else if !reads_only && WHOLE_KEYS.contains(&key) {
                self.address(key, Err("is a whole message, and its recipients cannot be seen"));
            }
        }
    }

    fn recipients(&mut self, value: Json<'_>) {
        match value.kind() {
            Kind::Array => value.items().for_each(|item| self.recipients(item)),
            Kind::Object => {
                let address = ["email", "address"].iter().find_map(|key| value.get(key));
                self.recipients(address.filter(|inner| inner.as_str().is_some()).unwrap_or(Json::NULL));
            }
            _ => match value.as_str().map(|text| (Mailbox::parse_list(&text), text)) {
                Some((Some(list), _)) => {
                    for mailbox in list {
                        self.addresses.push(Address { text: mailbox.to_string(), host: Ok(mailbox.host) });
                    }
                }
                Some((None, text)) => self.address(&text, Err("it is not a plain mail address")),
                None => self.address(value.text(), Err("it is not text")),
            },
        }
    }

    fn read_command(&mut self) {
        let arguments = self.arguments;
        self.command = CommandLine::of(arguments);
        self.timeout = ["timeout_secs", "timeout"].iter().find_map(|key| arguments.get(key).filter(|value| !value.is_null()));
        for (key, value) in arguments.fields() {
            self.paths_under(&key, value, &["cwd"], &["workdir", "working_directory"]);
        }
    }

    fn address(&mut self, text: &str, host: Result<Host, &'static str>) {
        self.addresses.push(Address { text: text.to_owned(), host });
    }

    /// What a tool of somebody else's may take for a path, whatever it calls it: for a call that a list of paths bounds.
    pub(crate) fn every_place(&self) -> Vec<Place> {
        let mut wide = self.empty();
        wide.walk(self.arguments, &mut |reach, key, value| {
            if PATH_KEYS.contains(&key) || PLAIN_PATH_KEYS.contains(&key) {
                return reach.paths_under(key, value, &[key], &[]);
            }
            reach.texts(value, false, &mut |reach, text| {
                if let Some(text) = text.ok().filter(|text| looks_like_path(text)) {
                    reach.places.push(Place { text: text.to_owned(), path: NormalPath::parse(text) });
                }
            });
        });
        wide.places
    }

    /// What a tool of somebody else's may take for an address: for a call that a list of domains bounds.
    pub(crate) fn every_address(&self) -> Vec<Address> {
        let mut wide = self.empty();
        wide.walk(self.arguments, &mut |reach, key, value| {
            if URL_KEYS.contains(&key) || OTHER_URL_KEYS.contains(&key) {
                return reach.urls_under(key, value, &[key], &[]);
            }
            reach.texts(value, false, &mut |reach, text| {
                if let Some(text) = text.ok().filter(|text| text.contains("://")) {
                    reach.address(text, Host::of_url(text));
                }
            });
        });
        wide.addresses
    }

    fn empty(&self) -> Self {
        Self {
            family: self.family,
            arguments: self.arguments,
            places: Vec::new(),
            addresses: Vec::new(),
            accounts: Vec::new(),
            command: None,
            timeout: None,
            reads_mail: false,
        }
    }

    /// Shows every field at any depth to `see`.
    fn walk(&mut self, json: Json<'a>, see: &mut dyn FnMut(&mut Self, &str, Json<'a>)) {
        match json.kind() {
            Kind::Object => {
                for (key, value) in json.fields() {
                    see(self, &key, value);
                    self.walk(value, see);
                }
            }
            Kind::Array => json.items().for_each(|item| self.walk(item, see)),
            _ => {}
        }
    }

    fn paths_under(&mut self, key: &str, value: Json<'_>, strict: &[&str], loose: &[&str]) {
        let is_strict = strict.contains(&key);
        if !is_strict && !loose.contains(&key) {
            return;
        }
        self.texts(value, is_strict, &mut |reach, text| match text {
            Ok(text) => reach.places.push(Place { text: text.to_owned(), path: NormalPath::parse(text) }),
            Err(other) => {
                reach.places.push(Place { text: other.to_owned(), path: Err(BadPath::Unclear("it is not text")) });
            }
        });
    }

    fn urls_under(&mut self, key: &str, value: Json<'_>, strict: &[&str], loose: &[&str]) {
        let is_strict = strict.contains(&key);
        let is_url = |value: Json<'_>| value.as_str().is_some_and(|text| text.contains("://"));
        if !is_strict && !(loose.contains(&key) && (is_url(value) || value.is_array())) {
            return;
        }
        self.texts(value, is_strict, &mut |reach, text| match text {
            Ok(text) => reach.address(text, Host::of_url(text)),
            Err(other) => reach.address(other, Err("it is not text")),
        });
    }

    /// The text, or the texts of a list; what is neither is shown as such where text is a must.
    fn texts(&mut self, value: Json<'_>, is_strict: bool, see: &mut dyn FnMut(&mut Self, Result<&str, &str>)) {
        match value.kind() {
            Kind::Null => {}
            Kind::String => see(self, Ok(&value.as_str().unwrap_or_default())),
            Kind::Array if value.items().all(|item| item.kind() == Kind::String) => {
                for item in value.items() {
                    see(self, Ok(&item.as_str().unwrap_or_default()));
                }
            }
            _ if is_strict => see(self, Err(value.text())),
            _ => {}
        }
    }
}

/// Whether a text is a path by its looks, under whatever key it stands.
fn looks_like_path(text: &str) -> bool {
    let text = text.trim_start();
    let is_drive = text.get(1..3).is_some_and(|rest| rest == ":\\" || rest == ":/");
    ["/", "~", "./", "../", "\\", "file:"].iter().any(|start| text.starts_with(start)) || text.contains("/../") || is_drive
}
