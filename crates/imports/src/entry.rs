//! One entry of a client's file. All clients are read by one reader, which knows the words of each: an entry that was copied from one into
//! another means the same.

use serde_json::{Map, Value as Json};

use crate::{
    clients::{Client, Surroundings},
    url,
    value::{Value, expand, is_secret, of_text, shown},
};

/// What a client says under one name.
#[derive(Debug)]
pub struct Entry {
    /// As the client calls it.
    pub name: String,
    /// Where it stands in the document.
    pub at: Vec<String>,
    /// Or why it cannot be taken over.
    pub server: Result<Server, String>,
    /// What is lost, or must be done by hand.
    pub notes: Vec<String>,
    /// Secrets that no value of the entry can carry, by a name for each.
    pub loose: Vec<(String, Value)>,
    /// It is the gate itself.
    pub is_gate: bool,
}

#[derive(Debug)]
pub struct Server {
    pub transport: Transport,
    pub timeout_ms: Option<u64>,
    pub filter: Filter,
}

#[derive(Debug)]
pub enum Transport {
    Stdio {
        command: String,
        args: Vec<(String, Value)>,
        env: Vec<(String, Value)>,
        /// Files with further variables.
        env_files: Vec<String>,
        cwd: Option<String>,
    },
    Http {
        url: String,
        headers: Vec<(String, Value)>,
        bearer: Option<Value>,
    },
}

/// The tools that a client lets its model see.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Empty: all but the others.
    pub only: Vec<String>,
    pub not: Vec<String>,
}

/// What the reader understands. Everything else is named as left behind.
const KNOWN: &[&str] = &[
    "type",
    "transport",
    "command",
    "args",
    "env",
    "environment",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "http_headers",
    "env_http_headers",
    "env_vars",
    "bearer_token_env_var",
    "timeout",
    "tool_timeout_sec",
    "includeTools",
    "excludeTools",
    "enabled_tools",
    "disabled_tools",
    "enabled",
    "disabled",
    "oauth",
    "auth",
    "description",
    "startup_timeout_sec",
    "startup_timeout_ms",
    "name",
    "source",
];
/// What only matters to the client.
const FILTERS: [(&str, bool); 4] = [
    ("includeTools", true),
    ("enabled_tools", true),
    ("excludeTools", false),
    ("disabled_tools", false),
];
/// Headers that the connection itself sets.
const OF_CONNECTION: [&str; 9] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "host",
    "mcp-protocol-version",
    "mcp-session-id",
    "te",
    "transfer-encoding",
];

pub(crate) fn read(
    client: &Client,
    name: &str,
    at: Vec<String>,
    value: &Json,
    around: &Surroundings,
) -> Entry {
    let mut reader = Reader {
        client,
        around,
        notes: Vec::new(),
        loose: Vec::new(),
    };
    let server = match value.as_object() {
        _ if is_secret("", name) => Err("its name looks like a credential".to_owned()),
        Some(fields) => reader.server(fields),
        None => Err("it is no map".to_owned()),
    };
    let is_gate = value.as_object().is_some_and(is_gate);
    Entry {
        name: name.to_owned(),
        at,
        server,
        notes: reader.notes,
        loose: reader.loose,
        is_gate,
    }
}

/// `portcullis connect`, however it is called, or an address of this gate's kind under its name.
fn is_gate(fields: &Map<String, Json>) -> bool {
    let mut words: Vec<&str> = Vec::new();
    for key in ["command", "args"] {
        match fields.get(key) {
            Some(Json::String(text)) => words.push(text),
            Some(Json::Array(items)) => words.extend(items.iter().filter_map(Json::as_str)),
            _ => {}
        }
    }
    let is_program = |word: &&str| word.rsplit('/').next() == Some("portcullis");
    words.first().is_some_and(is_program) && words.contains(&"connect")
}

struct Reader<'a> {
    client: &'a Client,
    around: &'a Surroundings,
    notes: Vec<String>,
    loose: Vec<(String, Value)>,
}

impl Reader<'_> {
    fn server(&mut self, fields: &Map<String, Json>) -> Result<Server, String> {
        // Zed kept program, arguments and variables one level deeper.
        let nested = fields.get("command").and_then(Json::as_object);
        if let Some(nested) = nested {
            let mut flat = nested.clone();
            if let Some(path) = flat.remove("path") {
                flat.insert("command".to_owned(), path);
            }
            let rest = fields.iter().filter(|(key, _)| *key != "command");
            flat.extend(rest.map(|(key, value)| (key.clone(), value.clone())));
            if !flat.get("command").is_some_and(Json::is_string) {
                return Err("its `command` names no program".to_owned());
            }
            return self.server(&flat);
        }
        if self.client.id == "zed"
            && fields.contains_key("settings")
            && !fields.contains_key("command")
        {
            return Err("an extension of Zed provides it".to_owned());
        }
        let kind = self.text(fields, &["type", "transport"])?;
        let known_kind = kind.as_deref().is_none_or(|kind| {
            [
                "stdio",
                "http",
                "sse",
                "streamable-http",
                "streamableHttp",
                "streamable_http",
                "local",
                "remote",
            ]
            .contains(&kind)
        });
        if !known_kind {
            return Err("the gate does not speak its kind of transport".to_owned());
        }
        let url = self.text(fields, &["url", "serverUrl", "httpUrl"])?;
        let has_command = fields
            .get("command")
            .is_some_and(|command| !command.is_null());
        let transport = match (has_command, url) {
            (true, Some(_)) => return Err("it has both a command and an address".to_owned()),
            (true, None) => self.stdio(fields)?,
            (false, Some(url)) => self.http(&url, fields)?,
            (false, None) => return Err("it has neither a command nor an address".to_owned()),
        };
        self.name_the_rest(fields);
        Ok(Server {
            transport,
            timeout_ms: self.timeout(fields),
            filter: self.filter(fields)?,
        })
    }

    fn stdio(&mut self, fields: &Map<String, Json>) -> Result<Transport, String> {
        let mut words = match fields.get("command") {
            Some(Json::String(command)) => vec![command.clone()],
            Some(Json::Array(_)) => self.texts(fields, "command")?,
            _ => return Err("its `command` is no text".to_owned()),
        };
        words.extend(self.texts(fields, "args")?);
        if words.is_empty() {
            return Err("its `command` is empty".to_owned());
        }
        let command = self.path(&words.remove(0));
        if command.trim().is_empty() || command.contains(['\0', '\n']) {
            return Err("its `command` names no program".to_owned());
        }
        if is_secret("", &command) {
            return Err("its `command` looks like a credential".to_owned());
        }
        if self.client.has_variables && command.contains("${") {
            return Err("its `command` is a variable".to_owned());
        }
        if let Some(remote) = self.remote(&command, &words)? {
            return Ok(remote);
        }
        let mut env = self.pairs(fields, &["env", "environment"], &|name| {
            is_variable(name)
                .then_some(())
                .ok_or("no name of a variable")
        })?;
        for name in self.texts(fields, "env_vars")? {
            match is_variable(&name) {
                true => env.push((name.clone(), Value::Variable(name))),
                false => self
                    .notes
                    .push("one of `env_vars` is no name of a variable".to_owned()),
            }
        }
        Ok(Transport::Stdio {
            command,
            args: self.args(words),
            env,
            env_files: self
                .text(fields, &["envFile"])?
                .map(|file| self.path(&file))
                .into_iter()
                .collect(),
            cwd: self.cwd(fields)?,
        })
    }

    /// A flag before a value is the value's name, and so is what stands before its `=`.
    fn args(&mut self, words: Vec<String>) -> Vec<(String, Value)> {
        let mut args = Vec::new();
        let mut flag = String::new();
        for word in words {
            let (name, value) = match word.split_once('=') {
                Some((name, value)) if name.starts_with('-') => (name.to_owned(), value.to_owned()),
                _ => (flag.clone(), word.clone()),
            };
            let key = match name.trim_start_matches('-') {
                "" => "arg",
                name => name,
            };
            let is_flag = word.starts_with('-') && !word.contains('=');
            let looked = match is_flag {
                true => Value::Text(word.clone()),
                false => of_text(
                    self.client,
                    name.trim_start_matches('-'),
                    &value,
                    self.around,
                    &mut self.notes,
                ),
            };
            // Whatever the word is as a whole, no part of it is given out if the whole looks like a credential.
            let value = match looked {
                Value::Text(_) if is_secret("", &word) => {
                    Value::Secret(secrets::Secret::new(word.clone()))
                }
                Value::Text(text) if word.contains('=') && name.starts_with('-') => {
                    Value::Text(format!("{name}={text}"))
                }
                looked => looked,
            };
            args.push((key.to_owned(), value));
            flag = if is_flag { word } else { String::new() };
        }
        args
    }

    /// `npx mcp-remote URL` is a server that is somewhere else.
    fn remote(&mut self, command: &str, words: &[String]) -> Result<Option<Transport>, String> {
        let launcher = command.rsplit('/').next().unwrap_or(command);
        if !matches!(launcher, "npx" | "npx.cmd" | "bunx" | "pnpx") {
            return Ok(None);
        }
        let is_bridge = |word: &&String| *word == "mcp-remote" || word.starts_with("mcp-remote@");
        let mut rest = words.iter();
        if !rest.by_ref().any(|word| is_bridge(&word)) {
            return Ok(None);
        }
        let Some(url) = rest.next().filter(|url| url.contains("://")) else {
            return Ok(None);
        };
        let mut fields = Map::new();
        let mut headers = Map::new();
        while let Some(word) = rest.next() {
            if word != "--header" {
                continue;
            }
            if let Some((name, value)) = rest.next().and_then(|header| header.split_once(':')) {
                headers.insert(name.trim().to_owned(), Json::from(value.trim()));
            }
        }
        fields.insert("headers".to_owned(), Json::Object(headers));
        self.notes
            .push("`mcp-remote` is not needed: the gate speaks to the address itself".to_owned());
        self.http(url, &fields).map(Some)
    }

    fn http(&mut self, url: &str, fields: &Map<String, Json>) -> Result<Transport, String> {
        let url = match self.client.has_variables {
            true => expand(url, self.around),
            false => url.to_owned(),
        };
        if url.contains("${") || url.contains("{env:") {
            return Err("its address is made of variables".to_owned());
        }
        let (url, taken) = url::clean(&url)?;
        for (name, secret) in taken {
            self.notes.push(format!("a credential was part of the address (`{}`): it is in the vault, and the address is without it", shown(&name)));
            self.loose.push((name, Value::Secret(secret)));
        }
        let mut headers = self.pairs(fields, &["headers", "http_headers"], &|name| {
            let is_ours = OF_CONNECTION.contains(&name.to_ascii_lowercase().as_str());
            let is_header = !name.is_empty()
                && name
                    .bytes()
                    .all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte));
            match (is_ours, is_header) {
                (true, _) => Err("set by the connection itself"),
                (_, false) => Err("no name of a header"),
                _ => Ok(()),
            }
        })?;
        let named = fields.get("env_http_headers").and_then(Json::as_object);
        for (header, variable) in named.into_iter().flatten() {
            match variable.as_str().filter(|name| is_variable(name)) {
                Some(name) => headers.push((header.clone(), Value::Variable(name.to_owned()))),
                None => self
                    .notes
                    .push("one of `env_http_headers` names no variable".to_owned()),
            }
        }
        let mut bearer = self
            .text(fields, &["bearer_token_env_var"])?
            .filter(|name| is_variable(name))
            .map(Value::Variable);
        // A gate sends a token as one; it then need not be part of a text.
        if let Some(at) = headers
            .iter()
            .position(|(name, _)| name.eq_ignore_ascii_case("authorization"))
        {
            let (name, value) = headers.remove(at);
            match self.token(value) {
                Ok(token) => bearer = bearer.or(Some(token)),
                Err(value) => headers.push((name, value)),
            }
        }
        headers.sort_by_key(|(name, _)| name.to_ascii_lowercase());
        headers.dedup_by_key(|(name, _)| name.to_ascii_lowercase());
        Ok(Transport::Http {
            url,
            headers,
            bearer,
        })
    }

    /// The token of an `Authorization` header, if it is a bearer's.
    fn token(&mut self, value: Value) -> Result<Value, Value> {
        let text = match &value {
            Value::Secret(secret) => secret.expose().to_owned(),
            Value::Text(text) => text.clone(),
            _ => return Err(value),
        };
        let Some((scheme, token)) = text.split_once(' ') else {
            return Err(value);
        };
        if !scheme.eq_ignore_ascii_case("bearer") || token.trim().is_empty() {
            return Err(value);
        }
        // The note that it holds a variable does not hold any more.
        let mut unheard = Vec::new();
        let token = token.trim();
        let found = of_text(
            self.client,
            "authorization",
            token,
            self.around,
            &mut unheard,
        );
        if matches!(found, Value::Variable(_) | Value::Asked(_)) {
            self.notes
                .retain(|note| !note.contains("`Authorization` has a variable"));
        }
        Ok(found)
    }

    fn name_the_rest(&mut self, fields: &Map<String, Json>) {
        for (key, value) in fields {
            let is_login = matches!(key.as_str(), "oauth" | "auth") && value.is_object();
            if is_login {
                let secret = ["clientSecret", "client_secret", "CLIENT_SECRET"]
                    .iter()
                    .find_map(|name| value.get(*name)?.as_str());
                if let Some(secret) = secret {
                    let value = of_text(
                        self.client,
                        "client_secret",
                        secret,
                        self.around,
                        &mut self.notes,
                    );
                    self.loose.push(("client-secret".to_owned(), value));
                }
                self.notes.push(format!(
                    "`{key}` is left behind: `portcullis servers login` logs the gate in"
                ));
            } else if !KNOWN.contains(&key.as_str()) {
                self.notes.push(format!("`{}` is left behind", shown(key)));
            }
        }
    }

    fn timeout(&mut self, fields: &Map<String, Json>) -> Option<u64> {
        let number = |key: &str| {
            fields
                .get(key)
                .and_then(Json::as_f64)
                .filter(|number| *number > 0.0)
        };
        let seconds = number("tool_timeout_sec").map(|seconds| seconds * 1000.0);
        let ms = seconds.or_else(|| number("timeout"))?;
        const HOUR_MS: f64 = 3_600_000.0;
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "between one and an hour's milliseconds"
        )]
        Some(ms.clamp(1.0, HOUR_MS) as u64)
    }

    fn filter(&mut self, fields: &Map<String, Json>) -> Result<Filter, String> {
        let mut filter = Filter::default();
        for (key, is_only) in FILTERS {
            let mut names = self.texts(fields, key)?;
            names.retain(|name| !is_secret("", name) && !name.is_empty());
            match is_only {
                true => filter.only.extend(names),
                false => filter.not.extend(names),
            }
        }
        Ok(filter)
    }

    fn cwd(&mut self, fields: &Map<String, Json>) -> Result<Option<String>, String> {
        let Some(cwd) = self.text(fields, &["cwd"])? else {
            return Ok(None);
        };
        let cwd = self.path(&cwd);
        if cwd.contains("${") || is_secret("", &cwd) {
            self.notes
                .push("`cwd` is left behind: it holds a variable".to_owned());
            return Ok(None);
        }
        if cwd.starts_with('/') {
            return Ok(Some(cwd));
        }
        match &self.around.project {
            Some(project) => Ok(Some(project.join(cwd).to_string_lossy().into_owned())),
            None => {
                self.notes.push(
                    "`cwd` is left behind: it is relative, and no project was named".to_owned(),
                );
                Ok(None)
            }
        }
    }

    fn path(&self, text: &str) -> String {
        let home = self.around.home.to_string_lossy();
        let text = match text.strip_prefix("~/") {
            Some(rest) => format!("{home}/{rest}"),
            None => text.to_owned(),
        };
        match self.client.has_variables {
            true => expand(&text, self.around),
            false => text,
        }
    }

    /// The first of these that is written.
    fn text(&self, fields: &Map<String, Json>, keys: &[&str]) -> Result<Option<String>, String> {
        let written = keys.iter().find_map(|key| {
            let value = fields.get(*key)?;
            (!value.is_null()).then_some((key, value))
        });
        match written {
            None => Ok(None),
            Some((_, Json::String(text))) => Ok(Some(text.clone())),
            Some((key, _)) => Err(format!("its `{key}` is no text")),
        }
    }

    fn texts(&self, fields: &Map<String, Json>, key: &str) -> Result<Vec<String>, String> {
        let items = match fields.get(key) {
            None | Some(Json::Null) => return Ok(Vec::new()),
            Some(Json::Array(items)) => items,
            Some(_) => return Err(format!("its `{key}` is no list")),
        };
        let text =
            |item: &Json| plain(item).ok_or_else(|| format!("its `{key}` holds what is no text"));
        items.iter().map(text).collect()
    }

    fn pairs(
        &mut self,
        fields: &Map<String, Json>,
        keys: &[&str],
        is_good: &dyn Fn(&str) -> Result<(), &'static str>,
    ) -> Result<Vec<(String, Value)>, String> {
        let mut pairs = Vec::new();
        for key in keys {
            let map = match fields.get(*key) {
                None | Some(Json::Null) => continue,
                Some(Json::Object(map)) => map,
                Some(_) => return Err(format!("its `{key}` is no map")),
            };
            for (name, value) in map {
                if is_secret("", name) {
                    self.notes.push(format!(
                        "a name in `{key}` looks like a credential and is left behind"
                    ));
                    continue;
                }
                if let Err(why) = is_good(name) {
                    self.notes
                        .push(format!("`{}` is left behind: it is {why}", shown(name)));
                    continue;
                }
                let text =
                    plain(value).ok_or_else(|| format!("its `{key}` holds what is no text"))?;
                let value = of_text(self.client, name, &text, self.around, &mut self.notes);
                pairs.push((name.clone(), value));
            }
        }
        Ok(pairs)
    }
}

/// A text, or what a person means when they leave the quotes out.
fn plain(value: &Json) -> Option<String> {
    match value {
        Json::String(text) => Some(text.clone()),
        Json::Number(number) => Some(number.to_string()),
        Json::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn is_variable(name: &str) -> bool {
    matches!(
        secrets::SecretRef::parse(&format!("env:{name}")),
        Ok(secrets::SecretRef::Env { .. })
    )
}
