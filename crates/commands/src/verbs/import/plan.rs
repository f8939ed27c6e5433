//! What will become of each entry, decided before anything is written.

use std::{collections::BTreeSet, path::PathBuf};

use config::{
    Raw, Resolved,
    edit::{NewServer, NewTransport},
};
use gateway::settings::Transport as Known;
use home::Home;
use imports::{Entry, Filter, Server, Surroundings, Transport, Value, id_of};
use secrets::{Secret, SecretRef, Vault, os_entropy};
use serde_json::json;
use terminal::{Trouble, style::tame};

use super::{
    HEAD,
    source::{self, Problems, Source},
    with_entry,
};

/// The longest name of a secret.
const MOST_NAME: usize = 128;

pub(super) struct Plan {
    pub(super) entries: Vec<Planned>,
    /// The file of imported servers, as it will be.
    pub(super) text: String,
}

pub(super) struct Planned {
    pub(super) client: &'static str,
    pub(super) file: PathBuf,
    pub(super) name: String,
    pub(super) at: Vec<String>,
    pub(super) outcome: Outcome,
    pub(super) secrets: Vec<Kept>,
    pub(super) notes: Vec<String>,
    /// The client's file holds a secret of it in clear.
    pub(super) has_clear: bool,
}

pub(super) enum Outcome {
    /// It becomes a server of this id.
    Added(String),
    /// The gate has it already.
    Known(String),
    Gate,
    Skipped(String),
}

/// A secret, under the name that it gets.
pub(super) struct Kept {
    pub(super) name: String,
    /// `None`: a person has to store it.
    pub(super) value: Option<Secret>,
}

impl Planned {
    pub(super) fn is_behind_the_gate(&self) -> bool {
        matches!(self.outcome, Outcome::Added(_) | Outcome::Known(_))
    }

    pub(super) fn document(&self) -> serde_json::Value {
        let (word, server, why) = match &self.outcome {
            Outcome::Added(id) => ("imported", Some(id), None),
            Outcome::Known(id) => ("known", Some(id), None),
            Outcome::Gate => ("gate", None, None),
            Outcome::Skipped(why) => ("skipped", None, Some(why)),
        };
        let secret = |kept: &Kept| json!({ "name": kept.name, "bytes": kept.value.as_ref().map(|value| value.expose().len()) });
        json!({
            "client": self.client, "file": self.file, "name": self.shown(), "outcome": word, "server": server, "why": why,
            "secrets": self.secrets.iter().map(secret).collect::<Vec<_>>(), "notes": self.notes,
        })
    }

    /// A name that looks like a credential is not shown.
    fn shown(&self) -> String {
        match secrets::looks_like_credential("", &self.name) {
            Some(_) => "(hidden)".to_owned(),
            None => tame(&self.name).to_string(),
        }
    }

    pub(super) fn line(&self) -> String {
        let name = self.shown();
        let what = match &self.outcome {
            Outcome::Added(id) => format!("becomes {id}"),
            Outcome::Known(id) => format!("is behind the gate already, as {id}"),
            Outcome::Gate => "is the gate itself".to_owned(),
            Outcome::Skipped(why) => format!("is not imported: {}", tame(why)),
        };
        let mut lines = format!("{}  {name} {what}\n", self.client);
        for kept in &self.secrets {
            match &kept.value {
                Some(value) => lines.push_str(&format!(
                    "    keychain:{} ({} bytes)\n",
                    kept.name,
                    value.expose().len()
                )),
                None => lines.push_str(&format!(
                    "    keychain:{} is asked for: portcullis secret set {}\n",
                    kept.name, kept.name
                )),
            }
        }
        for note in &self.notes {
            lines.push_str(&format!("    {}\n", tame(note)));
        }
        lines
    }
}

impl Plan {
    pub(super) fn of(
        home: &Home,
        sources: &[Source],
        around: &Surroundings,
        problems: &mut Problems,
    ) -> Result<Self, Trouble> {
        let user = match home.config_file().exists() {
            true => config::read(&home.config_file()).map_err(crate::files::trouble)?,
            false => Raw::parse(&home.config_file(), "").map_err(Trouble::usage)?,
        };
        let before =
            std::fs::read_to_string(home.imported_file()).unwrap_or_else(|_| HEAD.to_owned());
        let stored = Vault::in_home(home.vault(), os_entropy());
        let mut maker = Maker {
            home,
            around,
            user,
            text: before,
            names: stored.names().unwrap_or_default().into_iter().collect(),
        };
        let mut entries = Vec::new();
        for source in sources {
            match imports::read(source.client, &source.text, around) {
                Ok(found) => {
                    for entry in found {
                        entries.push(maker.planned(source, entry)?);
                    }
                }
                Err(why) => problems.push((source.path.clone(), why)),
            }
        }
        Ok(Self {
            entries,
            text: maker.text,
        })
    }

    pub(super) fn added(&self) -> impl Iterator<Item = &Planned> {
        let is_added = |planned: &&Planned| matches!(planned.outcome, Outcome::Added(_));
        self.entries.iter().filter(is_added)
    }

    /// What the ledger is told: no name that a client chose, and nothing that was in a file.
    pub(super) fn detail(&self, id: u64) -> String {
        let servers = self.added().filter_map(|planned| match &planned.outcome {
            Outcome::Added(server) => Some(format!("{server} from {}", planned.client)),
            _ => None,
        });
        let servers: Vec<String> = servers.take(50).collect();
        format!("import {id}: {}", servers.join(", "))
    }
}

/// What a plan is made with, and grows with each entry.
struct Maker<'a> {
    home: &'a Home,
    around: &'a Surroundings,
    user: Raw,
    text: String,
    /// Of secrets that are stored, or will be.
    names: BTreeSet<String>,
}

impl Maker<'_> {
    /// The configuration, were what is planned so far in force.
    fn whole(&self, text: &str) -> Result<(Raw, Resolved), String> {
        let imported =
            Raw::parse(&self.home.imported_file(), text).map_err(|report| report.to_string())?;
        let raw = home::layers::with(self.home, self.user.clone(), Some(imported))
            .map_err(|error| error.to_string())?;
        let resolved = raw.resolve().map_err(|report| report.to_string())?;
        Ok((raw, resolved))
    }

    fn planned(&mut self, source: &Source, entry: Entry) -> Result<Planned, Trouble> {
        let (raw, resolved) = self.whole(&self.text).map_err(Trouble::usage)?;
        let Entry {
            name,
            at,
            server,
            mut notes,
            loose,
            is_gate,
        } = entry;
        let planned = |outcome, secrets: Vec<Kept>, notes, has_clear| Planned {
            client: source.client.id,
            file: source.path.clone(),
            name: name.clone(),
            at,
            outcome,
            secrets,
            notes,
            has_clear,
        };
        if is_gate {
            return Ok(planned(Outcome::Gate, Vec::new(), Vec::new(), false));
        }
        let server = match server {
            Ok(server) => server,
            Err(why) => return Ok(planned(Outcome::Skipped(why), Vec::new(), notes, false)),
        };
        let id = free_id(&id_of(&name), source.client.id, &raw);
        let mut keeper = Keeper {
            prefix: format!("import.{}.{id}", source.client.id),
            names: self.names.clone(),
            kept: Vec::new(),
            has_clear: false,
            around: self.around,
            notes: &mut notes,
        };
        let new = keeper.server(id.clone(), server);
        for (name, value) in loose {
            keeper.text(&name, value);
        }
        let (kept, has_clear) = (std::mem::take(&mut keeper.kept), keeper.has_clear);
        if let Some(known) = resolved
            .servers
            .iter()
            .find(|known| is_same(&known.transport, &new.transport))
        {
            let id = known.id.to_string();
            return Ok(planned(Outcome::Known(id), Vec::new(), notes, has_clear));
        }
        let text = match with_entry(&self.text, &new) {
            Ok(text) => text,
            Err(error) => {
                return Ok(planned(
                    Outcome::Skipped(error.to_string()),
                    Vec::new(),
                    notes,
                    has_clear,
                ));
            }
        };
        let (after, with) = match self.whole(&text) {
            Ok(whole) => whole,
            Err(why) => return Ok(planned(Outcome::Skipped(why), Vec::new(), notes, has_clear)),
        };
        let passed = after.layers.newly_passed_over(&raw.layers);
        let refusal = after.layers.refuses(&after, &with, &id);
        if let Some(why) = refusal.or_else(|| passed.map(|passed| passed.why.clone())) {
            return Ok(planned(Outcome::Skipped(why), Vec::new(), notes, has_clear));
        }
        self.names.extend(kept.iter().map(|kept| kept.name.clone()));
        self.text = text;
        Ok(planned(Outcome::Added(id), kept, notes, has_clear))
    }
}

/// The id, or one like it that no server has.
fn free_id(wanted: &str, client: &str, raw: &Raw) -> String {
    let folded = |id: &str| id.replace('-', "_");
    let is_taken = |id: &str| raw.server_ids().any(|known| folded(known) == folded(id));
    let more = (2..1000).map(|number| format!("{wanted}-{number}"));
    [
        wanted.to_owned(),
        format!("{wanted}-{client}").chars().take(64).collect(),
    ]
    .into_iter()
    .chain(more)
    .find(|id| vocab::ServerId::parse(id).is_ok() && !is_taken(id))
    .unwrap_or_else(|| wanted.to_owned())
}

fn is_same(known: &Known, new: &NewTransport) -> bool {
    match (known, new) {
        (
            Known::Stdio { command, args, .. },
            NewTransport::Stdio {
                command: other,
                args: others,
                ..
            },
        ) => command == other && args == others,
        (Known::Http { url, .. }, NewTransport::Http { url: other, .. }) => url == other,
        _ => false,
    }
}

/// Puts secrets aside and leaves their references.
struct Keeper<'a> {
    prefix: String,
    names: BTreeSet<String>,
    kept: Vec<Kept>,
    has_clear: bool,
    around: &'a Surroundings,
    notes: &'a mut Vec<String>,
}

impl Keeper<'_> {
    fn server(&mut self, id: String, server: Server) -> NewServer {
        let Server {
            transport,
            timeout_ms,
            filter,
        } = server;
        let transport = match transport {
            Transport::Stdio {
                command,
                args,
                env,
                env_files,
                cwd,
            } => {
                let before = self.kept.len();
                let args = args.into_iter().map(|(name, value)| match value {
                    Value::Text(text) => text,
                    value => self.text(&name, value),
                });
                let args: Vec<String> = args.collect();
                if self.kept.len() > before {
                    self.notes.push("an argument was a secret: it is in the vault, and arguments hold no references, so give it to the program by `env`".to_owned());
                }
                let mut env = self.texts(env);
                for file in env_files {
                    env.extend(self.of_file(&file));
                }
                env.sort();
                env.dedup_by(|(a, _), (b, _)| a == b);
                NewTransport::Stdio {
                    command,
                    args,
                    env,
                    cwd,
                }
            }
            Transport::Http {
                url,
                headers,
                bearer,
            } => {
                let bearer = bearer.map(|bearer| match bearer {
                    // Only a reference can be one.
                    Value::Text(text) => self.text("token", Value::Secret(Secret::new(text))),
                    value => self.text("token", value),
                });
                NewTransport::Http {
                    url,
                    bearer,
                    headers: self.texts(headers),
                }
            }
        };
        let mut more = vec![("enabled".to_owned(), "false".to_owned())];
        more.extend(timeout_ms.map(|ms| ("timeout".to_owned(), format!("{ms}ms"))));
        more.extend(rules(&filter).map(|rules| ("tools".to_owned(), rules)));
        NewServer {
            id,
            transport,
            classification: None,
            accepts: None,
            open_world: None,
            more,
        }
    }

    fn texts(&mut self, pairs: Vec<(String, Value)>) -> Vec<(String, String)> {
        let text = |(name, value): (String, Value)| {
            let text = self.text(&name, value);
            (name, text)
        };
        pairs.into_iter().map(text).collect()
    }

    /// What stands in the entry for a value.
    fn text(&mut self, name: &str, value: Value) -> String {
        match value {
            // What reads like a reference, or like our word for text, is text.
            Value::Text(text)
                if SecretRef::parse(&text).is_ok() || text.starts_with("literal:") =>
            {
                format!("literal:{text}")
            }
            Value::Text(text) => text,
            Value::Variable(name) => format!("env:{name}"),
            Value::Secret(secret) => {
                self.has_clear = true;
                self.keep(name, Some(secret))
            }
            Value::File(path) => {
                let path = self.around.home.join(path.trim_start_matches("~/"));
                match source::read(&path, false) {
                    Ok(text) => self.keep(name, Some(Secret::new(text.trim_end().to_owned()))),
                    Err(why) => {
                        self.notes.push(format!("{}: {why}", path.display()));
                        self.keep(name, None)
                    }
                }
            }
            Value::Asked(_) => self.keep(name, None),
        }
    }

    /// Every variable of such a file is taken for a secret: that is what the file is for.
    fn of_file(&mut self, file: &str) -> Vec<(String, String)> {
        let path = self
            .around
            .project
            .as_ref()
            .unwrap_or(&self.around.home)
            .join(file);
        let text = match source::read(&path, false) {
            Ok(text) => text,
            Err(why) => {
                self.notes.push(format!("{}: {why}", path.display()));
                return Vec::new();
            }
        };
        let pairs = imports::env_file(&text).into_iter();
        let is_good = |name: &str| SecretRef::parse(&format!("env:{name}")).is_ok();
        let pairs: Vec<_> = pairs
            .filter(|(name, value)| is_good(name) && !value.is_empty())
            .collect();
        let keep = |(name, value): (String, String)| {
            let reference = self.keep(&name, Some(Secret::new(value)));
            (name, reference)
        };
        pairs.into_iter().map(keep).collect()
    }

    fn keep(&mut self, name: &str, value: Option<Secret>) -> String {
        let plain = |c: char| {
            if c.is_ascii_alphanumeric() || c == '_' {
                c
            } else {
                '-'
            }
        };
        let safe = match secrets::looks_like_credential("", name) {
            Some(_) => "hidden".to_owned(),
            None => name.chars().map(plain).collect(),
        };
        let whole: String = format!("{}.{safe}", self.prefix)
            .chars()
            .take(MOST_NAME - 4)
            .collect();
        let more = (2..1000).map(|number| format!("{whole}-{number}"));
        let name = std::iter::once(whole.clone())
            .chain(more)
            .find(|name| !self.names.contains(name))
            .unwrap_or(whole);
        self.names.insert(name.clone());
        let reference = format!("keychain:{name}");
        self.kept.push(Kept { name, value });
        reference
    }
}

/// The client's filter as rules of tools.
fn rules(filter: &Filter) -> Option<String> {
    if filter.only.is_empty() && filter.not.is_empty() {
        return None;
    }
    let mut rules = Vec::new();
    if !filter.only.is_empty() {
        rules.push(("*", "blocked"));
    }
    let only = filter.only.iter().filter(|name| !filter.not.contains(name));
    rules.extend(only.map(|name| (name.as_str(), "permitted")));
    rules.extend(filter.not.iter().map(|name| (name.as_str(), "blocked")));
    rules.sort_unstable();
    rules.dedup();
    let rules = rules
        .iter()
        .map(|(name, word)| format!("{}: {word}", json!(name)));
    Some(format!("{{ {} }}", rules.collect::<Vec<_>>().join(", ")))
}
