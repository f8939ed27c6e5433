//! What a call reaches for: the paths, hosts, accounts and the command in its arguments.
//!
//! Which arguments carry what is decided by the families of the tool's names. For families we serve ourselves the keys are known; a
//! tool of such a family that somebody else serves may call them otherwise, so every key that commonly carries a path or an address is
//! read, whatever else looks like one counts too, and a tool in which none is found is refused where it is bounded at all. A tool with
//! names in several families is read as each of them.

use vocab::ServerId;
use wire::{
    Json, Kind,
    builtin::{self, argument},
    json::decode_key,
};

use super::{
    Call,
    command::CommandLine,
    domain::Host,
    keys::{self, plain},
    mail::Mailbox,
    path::{BadPath, NormalPath},
};
use crate::BESIDE;

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
    /// Of a tool's name, or of a pattern for such names.
    pub(super) fn of(name: &str) -> Self {
        match builtin::Family::of(name) {
            Some(builtin::Family::Web) if name == builtin::SEARCH => Self::Search,
            Some(builtin::Family::Web) => Self::Web,
            Some(builtin::Family::Files) => Self::Files,
            Some(builtin::Family::Mail) => Self::Mail,
            Some(builtin::Family::Command) => Self::Command,
            // Nobody knows what the arguments of these are about.
            Some(builtin::Family::Management | builtin::Family::Own) | None => Self::Other,
        }
    }
}

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
    /// The family a call is judged as: that of the name it was asked by, or else the only one its other names have.
    pub(crate) family: Family,
    /// Every family one of its names is in; none if they say nothing.
    families: Vec<Family>,
    /// Served by somebody else, who knows where relative paths begin.
    is_foreign: bool,
    pub(crate) arguments: Json<'a>,
    pub(crate) places: Vec<Place>,
    pub(crate) addresses: Vec<Address>,
    pub(crate) accounts: Vec<String>,
    pub(crate) command: Option<CommandLine>,
    /// The time a command asks for.
    pub(crate) timeout: Option<Json<'a>>,
    pub(crate) reads_mail: bool,
    /// What is asked for is a resource: its `uri` is a name that its server gives it, and an address only if it says so.
    is_resource: bool,
}

impl<'a> Reach<'a> {
    pub(crate) fn of(call: &Call<'a>, search_host: &str) -> Self {
        let mut families: Vec<Family> = Vec::new();
        for family in call
            .names()
            .map(Family::of)
            .filter(|family| *family != Family::Other)
        {
            if !families.contains(&family) {
                families.push(family);
            }
        }
        let family = match (Family::of(call.tool), families.as_slice()) {
            (Family::Other, [only]) => *only,
            (asked, _) => asked,
        };
        let mut reach = Self {
            family,
            is_foreign: call
                .server
                .is_some_and(|server| server != ServerId::BUILT_IN),
            arguments: call.arguments.unwrap_or(Json::EMPTY_OBJECT),
            places: Vec::new(),
            addresses: Vec::new(),
            accounts: Vec::new(),
            command: None,
            timeout: None,
            reads_mail: call
                .names()
                .any(|name| matches!(name, "email.read" | "email.search" | "email.list")),
            families: families.clone(),
            is_resource: call.tool.starts_with("resources."),
        };
        for family in families {
            match family {
                Family::Files => reach.read_files(call.names().any(|name| name.ends_with("glob"))),
                Family::Web => reach.read_web(),
                Family::Search => reach.address(
                    search_host,
                    Host::of_name(search_host).ok_or("it is not a host name"),
                ),
                Family::Mail => reach.read_mail(),
                Family::Command => reach.read_command(),
                Family::Other => {}
            }
        }
        reach
    }

    /// Whether one of the tool's names is in this family.
    pub(crate) fn is(&self, family: Family) -> bool {
        self.families.contains(&family)
    }

    /// Whether its names say nothing about what it does.
    pub(crate) fn is_unknown(&self) -> bool {
        self.families.is_empty()
    }

    /// Whether only the server knows which path this is. Where the gate itself serves, relative paths begin at `/workspace`.
    pub(crate) fn is_elsewhere(&self, place: &Place) -> bool {
        self.is_foreign && !place.text.starts_with('/')
    }

    /// The command in the arguments, also of a tool that says nothing about itself.
    pub(crate) fn command_line(&self) -> Option<CommandLine> {
        self.command.clone().or_else(|| {
            self.is_unknown()
                .then(|| CommandLine::of(self.arguments))
                .flatten()
        })
    }

    /// Whether the command is a text that says nothing: as good as missing, where one is required.
    pub(crate) fn has_blank_command(&self) -> bool {
        self.arguments
            .get(argument::COMMAND)
            .and_then(Json::as_str)
            .is_some_and(|text| text.trim().is_empty())
    }

    pub(crate) fn paths(&self) -> impl Iterator<Item = &NormalPath> {
        self.places
            .iter()
            .filter_map(|place| place.path.as_ref().ok())
    }

    /// Where files are looked for with a glob, that is a path too; `fs.grep` takes a regular expression under the same name.
    fn read_files(&mut self, looks_with_globs: bool) {
        let (arguments, is_asked) = (self.arguments, self.family == Family::Files);
        self.walk(arguments, &mut |reach, key, value| match key {
            key if keys::is_path(key) => reach.paths_in(value, true),
            "glob" | "include" => reach.globs_in(value),
            argument::PATTERN if looks_with_globs => reach.globs_in(value),
            key if is_asked && keys::may_be_path(key) => reach.paths_in(value, false),
            key if !keys::is_content(key) => reach.paths_by_looks(value),
            _ => {}
        });
    }

    fn globs_in(&mut self, value: Json<'_>) {
        self.texts(value, false, &mut |reach, text| {
            let text = text.unwrap_or_default();
            let path = NormalPath::parse_glob(text).transpose();
            reach.places.extend(path.map(|path| Place {
                text: text.to_owned(),
                path,
            }));
        });
    }

    fn read_web(&mut self) {
        let arguments = self.arguments;
        self.walk(arguments, &mut |reach, key, value| match key {
            key if keys::is_url(key) => reach.urls_in(value, true),
            key if keys::may_be_url(key) && value.is_array() => reach.urls_in(value, false),
            key if keys::is_host(key) => reach.hosts_in(value),
            key if !keys::is_content(key) && !keys::is_origin(key) => reach.urls_by_looks(value),
            _ => {}
        });
    }

    /// Where mail is only read, an address in the arguments is what is looked for, and goes nowhere.
    fn read_mail(&mut self) {
        let arguments = self.arguments;
        self.walk(arguments, &mut |reach, key, value| {
            reach.mail_under(key, value)
        });
    }

    fn mail_under(&mut self, key: &str, value: Json<'_>) {
        if value.is_null() {
            return;
        }
        if keys::is_account(key) || (!self.reads_mail && keys::is_sender(key)) {
            // An account that is no text is one that no list has.
            self.accounts.push(
                value
                    .as_str()
                    .map_or_else(|| value.text().to_owned(), |text| text.into_owned()),
            );
        } else if self.reads_mail {
            // Nothing leaves.
        } else if keys::is_recipient(key) {
            self.recipients(value);
        } else if keys::is_whole_message(key) {
            self.address(
                key,
                Err("is a whole message, and its recipients cannot be seen"),
            );
        } else if !keys::is_content(key) {
            self.texts(value, false, &mut |reach, text| {
                if let Some(text) = text.ok().filter(|text| keys::looks_like_mail(text)) {
                    reach.recipient(text);
                }
            });
        }
    }

    fn recipients(&mut self, value: Json<'_>) {
        match value.kind() {
            Kind::Array => value.items().for_each(|item| self.recipients(item)),
            Kind::Object => {
                let address = ["email", "address"].iter().find_map(|key| value.get(key));
                self.recipients(
                    address
                        .filter(|inner| inner.as_str().is_some())
                        .unwrap_or(Json::NULL),
                );
            }
            _ => match value.as_str() {
                Some(text) => self.recipient(&text),
                None => self.address(value.text(), Err("it is not text")),
            },
        }
    }

    fn recipient(&mut self, text: &str) {
        match Mailbox::parse_list(text) {
            Some(list) => {
                for mailbox in list {
                    self.addresses.push(Address {
                        text: mailbox.to_string(),
                        host: Ok(mailbox.host),
                    });
                }
            }
            None => self.address(text, Err("it is not a plain mail address")),
        }
    }

    fn read_command(&mut self) {
        let arguments = self.arguments;
        self.command = CommandLine::of(arguments);
        self.timeout = [argument::TIMEOUT_SECS, "timeout"]
            .iter()
            .find_map(|key| arguments.get(key).filter(|value| !value.is_null()));
        for (key, value) in arguments
            .fields()
            .filter(|(key, _)| keys::is_working_directory(&plain(key)))
        {
            self.paths_in(value, key == argument::CWD);
        }
        if let Some(beside) = arguments.get(BESIDE) {
            self.walk(beside, &mut |reach, key, value| match key {
                key if keys::is_working_directory(key) => reach.paths_in(value, true),
                _ => reach.paths_by_looks(value),
            });
        }
    }

    fn address(&mut self, text: &str, host: Result<Host, &'static str>) {
        self.addresses.push(Address {
            text: text.to_owned(),
            host,
        });
    }

    /// What a tool that says nothing about itself may take for a path: for a call that a list of paths bounds.
    pub(crate) fn every_place(&self) -> Vec<Place> {
        let mut wide = self.empty();
        wide.walk(self.arguments, &mut |reach, key, value| match key {
            key if keys::is_plain_path(key) => reach.paths_in(value, true),
            _ => reach.paths_by_looks(value),
        });
        wide.places
    }

    /// What such a tool may take for an address: for a call that a list of domains bounds.
    pub(crate) fn every_address(&self) -> Vec<Address> {
        let mut wide = self.empty();
        wide.walk(self.arguments, &mut |reach, key, value| match key {
            "uri" if reach.is_resource => reach.resource_in(value),
            key if keys::is_url(key) || keys::may_be_url(key) => reach.urls_in(value, true),
            key if keys::is_host(key) => reach.hosts_in(value),
            _ => reach.urls_by_looks(value),
        });
        wide.addresses
    }

    fn empty(&self) -> Self {
        Self {
            family: self.family,
            families: self.families.clone(),
            is_foreign: self.is_foreign,
            arguments: self.arguments,
            places: Vec::new(),
            addresses: Vec::new(),
            accounts: Vec::new(),
            command: None,
            timeout: None,
            reads_mail: false,
            is_resource: self.is_resource,
        }
    }

    /// The host of a resource that is somewhere on the network. What a server calls `note://1` is nowhere but in that server.
    fn resource_in(&mut self, value: Json<'_>) {
        self.texts(value, true, &mut |reach, text| match text {
            Ok(text) => {
                let own = keys::own_uri(text);
                if keys::is_on_network(own) {
                    reach.address(own, Host::of_url(own));
                }
            }
            Err(other) => reach.address(other, Err("it is not text")),
        });
    }

    /// Shows every field at any depth to `see`, under its plain name. A name is a text too, and may be what the call is for.
    fn walk(&mut self, json: Json<'a>, see: &mut dyn FnMut(&mut Self, &str, Json<'a>)) {
        match json.kind() {
            Kind::Object => {
                let mut fields = json.fields();
                while let Some((key, value)) = fields.next_raw() {
                    see(self, "", Json::checked_before(key));
                    see(self, &plain(&decode_key(key)), value);
                    self.walk(value, see);
                }
            }
            Kind::Array => json.items().for_each(|item| self.walk(item, see)),
            _ => {}
        }
    }

    fn paths_in(&mut self, value: Json<'_>, is_strict: bool) {
        self.texts(value, is_strict, &mut |reach, text| match text {
            Ok(text) => reach.places.push(Place {
                text: text.to_owned(),
                path: NormalPath::parse(text),
            }),
            Err(other) => {
                reach.places.push(Place {
                    text: other.to_owned(),
                    path: Err(BadPath::Unclear("it is not text")),
                });
            }
        });
    }

    fn paths_by_looks(&mut self, value: Json<'_>) {
        self.texts(value, false, &mut |reach, text| {
            if let Some(text) = text.ok().filter(|text| keys::looks_like_path(text)) {
                reach.places.push(Place {
                    text: text.to_owned(),
                    path: NormalPath::parse(text),
                });
            }
        });
    }

    fn urls_in(&mut self, value: Json<'_>, is_strict: bool) {
        self.texts(value, is_strict, &mut |reach, text| match text {
            Ok(text) => reach.address(text, Host::of_url(text)),
            Err(other) => reach.address(other, Err("it is not text")),
        });
    }

    fn hosts_in(&mut self, value: Json<'_>) {
        self.texts(value, true, &mut |reach, text| match text {
            Ok(text) if keys::looks_like_url(text) => reach.address(text, Host::of_url(text)),
            Ok(text) => reach.address(text, Host::of_name(text).ok_or("it is not a host name")),
            Err(other) => reach.address(other, Err("it is not text")),
        });
    }

    fn urls_by_looks(&mut self, value: Json<'_>) {
        self.texts(value, false, &mut |reach, text| {
            if let Some(text) = text.ok().filter(|text| keys::looks_like_url(text)) {
                reach.address(text, Host::of_url(text));
            }
        });
    }

    /// The text, or the texts of a list. Where text is a must, what is neither is shown as such; where it is not, lists are read however
    /// deep, and whatever else is in them.
    fn texts(
        &mut self,
        value: Json<'_>,
        is_strict: bool,
        see: &mut dyn FnMut(&mut Self, Result<&str, &str>),
    ) {
        match value.kind() {
            Kind::Null => {}
            Kind::String => see(self, Ok(&value.as_str().unwrap_or_default())),
            Kind::Array if !is_strict || value.items().all(|item| item.kind() == Kind::String) => {
                value
                    .items()
                    .for_each(|item| self.texts(item, is_strict, see));
            }
            _ if is_strict => see(self, Err(value.text())),
            _ => {}
        }
    }
}
